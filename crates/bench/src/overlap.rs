//! Reading while computing, on a device of known latency: lines by the executor, and lines that wait for each page.

use super::device::{Blocking, Device};
use super::lines::{Job, Traced};
use super::trace::row;
use super::turns::evict;
use super::watcher::Watcher;
use field::error::FieldError;
use field::nodes::{ArraySlot, BoxLevel, Each, Miss, Nodes, Zone};
use field::paged::PagedNodes;
use field::simd::V4;
use field::store::{Register, Store, ZoneIds};
use field::translate::Translation;
use pager::error::PageError;
use pager::id::{ArrayId, PageId, SourceId};
use pager::map::{ExtentTarget, Located, PageMap};
use pager::source::{Buffer, Completion, Read, ReadClass, Source};
use pager::{Backend, PageErrorKind, Pager, PagerConfig};
use runtime::executor::RunLoad;
use runtime::limits::pager_error;
use runtime::process;
use runtime::session::{ProgressWatch, Resources, Session, SourceSpec};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use trace::TraceSpec;

/// Options of [`overlap`].
pub struct Overlap {
    /// A store.
    pub store: PathBuf,
    /// The trace. Its seeds are located, too, so boxes also come from the device.
    pub trace: TraceSpec,
    /// Memory, threads, and the device's reads at a time.
    pub resources: Resources,
    /// Latency of each read.
    pub latency: Duration,
    /// Most tasks under way; 0: as in a trace.
    pub active: usize,
}

/// Options of [`overlap_disk`].
pub struct OverlapDisk {
    /// A store.
    pub store: PathBuf,
    /// The trace.
    pub trace: TraceSpec,
    /// Memory, threads, and reads in flight.
    pub resources: Resources,
    /// Also runs a plain loop that waits for each page.
    pub waiting: bool,
}

/// Replaces a store's files, and notes what it registers.
struct Registrar<'a> {
    pager: &'a Pager,
    file: &'a dyn Fn(&Path) -> Arc<dyn Source>,
    sources: Vec<(SourceId, Arc<dyn Source>)>,
    maps: Vec<(ArrayId, Arc<dyn PageMap>)>,
}

impl Register for Registrar<'_> {
    fn add_file(&mut self, path: &Path) -> SourceId {
        let source = (self.file)(path);
        let id = self.pager.add_source(source.clone());
        self.sources.push((id, source));
        id
    }
    fn add_array(&mut self, map: Arc<dyn PageMap>) -> ArrayId {
        let id = self.pager.add_array(map.clone());
        self.maps.push((id, map));
        id
    }
}

/// The zones of a dataset with other array ids: those of a store registered by hand.
pub(super) fn renumbered(zones: &[Zone], ids: &[ZoneIds]) -> Arc<[Zone]> {
    let each = zones.iter().zip(ids).map(|(z, ids)| {
        let arrays = z.arrays.iter().zip(&ids.arrays).map(|(a, id)| ArraySlot { id: *id, ..a.clone() }).collect();
        let level = |l: &field::store::LevelId| BoxLevel {
            id: l.id,
            translation: Translation::new(l.paging.dims, l.paging.page),
            steady: z.arrays[z.xyz].steady,
        };
        Zone { arrays, boxes: ids.boxes.iter().map(level).collect(), ..z.clone() }
    });
    each.collect()
}

/// Traces three times: by the pager with nothing resident, by the pager with all touched pages resident, and in a plain
/// loop. The loop waits for each page on the same device.
///
/// # Errors
/// [`FieldError`] of opening and tracing.
pub fn overlap(spec: &Overlap, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    // An ordinary open for the metadata: sizes, fields and seeds.
    let source = SourceSpec { path: spec.store.clone(), ..SourceSpec::default() };
    let session = Session::open(source, spec.resources.clone(), watch)?;
    let dataset = session.located(watch)?;
    let mut job = Job::new(&spec.trace, &dataset, &session.pager, watch)?;
    job.fields = dataset.fields(Some(&spec.trace.field), &spec.trace.scalars, spec.trace.step)?;
    let device = Device::new(spec.latency).map_err(|e| FieldError::io(&spec.store, e))?;
    let config = PagerConfig {
        limit: spec.resources.memory_limit,
        policy: spec.resources.replacement,
        readers: spec.resources.readers.max(1),
        backend: Backend::Auto,
        observer: None,
    };
    let pager = Pager::new(config).map_err(pager_error)?;
    let file = |path: &Path| device.file(path);
    let mut registrar = Registrar { pager: &pager, file: &file, sources: Vec::new(), maps: Vec::new() };
    let ids = Store::open(&spec.store)?.register(&mut registrar);
    let (sources, maps) = (registrar.sources, registrar.maps);
    let zones = renumbered(&dataset.zones, &ids);
    let workers = spec.resources.threads();
    let mut load: RunLoad = job.load(&dataset, &pager, workers);
    if spec.active > 0 {
        load.active = spec.active;
    }
    let step = spec.trace.step as u32;
    let mut rows = Vec::new();
    for _ in 0..2 {
        let (before, reads) = (pager.counters(), device.reads());
        let (began, cpu) = (Instant::now(), process::cpu_seconds());
        let make = |worker| PagedNodes::new(zones.clone(), worker, step);
        let traced = job.by_executor(&pager, load, &make, &mut |n| watch("tracing", n as f64, load.tasks as f64))?;
        rows.push(measured(&traced, began, cpu, &before, &pager, device.reads() - reads));
    }
    let paged_latency_s = device.latency_s();
    let before = pager.counters();
    let (began, cpu, reads) = (Instant::now(), process::cpu_seconds(), device.reads());
    let waiting = DemandStore {
        zones,
        sources: sources.into_iter().collect(),
        maps: maps.into_iter().collect(),
        step,
        reads: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
    };
    let waiting = Arc::new(waiting);
    let traced = job.by_loop(1, &|| SyncNodes::new(waiting.clone()))?;
    let mut row = measured(&traced, began, cpu, &before, &pager, device.reads() - reads);
    (row["reads"], row["bytes_read"]) = (waiting.reads.load(Relaxed).into(), waiting.bytes.load(Relaxed).into());
    rows.push(row);
    Ok(json!({
        "paged": rows[0], "resident": rows[1], "waiting": rows[2], "readers": spec.resources.readers, "workers": workers,
        "latency_s": spec.latency.as_secs_f64(), "latency_seen_s": paged_latency_s,
    }))
}

/// The same on local files: traces with nothing resident (as cold as the caller made the files), and again with all
/// resident. Then it only reads the same pages in the same order, with the files evicted and as many reads in flight.
/// This does not model chains of faults. If requested, a plain loop reads each page on demand, from evicted files.
///
/// # Errors
/// [`FieldError`] of opening and tracing.
pub fn overlap_disk(spec: &OverlapDisk, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    let OverlapDisk { store, trace, resources, waiting } = spec;
    let watcher = Arc::new(Watcher::default());
    let source = SourceSpec { path: store.clone(), ..SourceSpec::default() };
    let session =
        Session::open(source.clone(), Resources { observer: Some(watcher.clone()), ..resources.clone() }, watch)?;
    let dataset = session.located(watch)?;
    let job = Job::new(trace, &dataset, &session.pager, watch)?;
    let load = job.load(&dataset, &session.pager, resources.threads());
    let step = trace.step as u32;
    let mut rows = Vec::new();
    for _ in 0..2 {
        let before = session.pager.counters();
        let (began, cpu) = (Instant::now(), process::cpu_seconds());
        let make = |worker| PagedNodes::new(dataset.zones.clone(), worker, step);
        let traced =
            job.by_executor(&session.pager, load, &make, &mut |n| watch("tracing", n as f64, load.tasks as f64))?;
        rows.push(measured(&traced, began, cpu, &before, &session.pager, 0));
    }
    let pages = watcher.pages();
    let alone = waiting.then(|| waits(store, &job, &dataset.zones, resources)).transpose()?;
    drop(session);
    evict(store).map_err(|e| FieldError::io(store, e))?;
    // Opened the same way, so that arrays have the same ids.
    let session = Session::open(source, resources.clone(), watch)?;
    let before = session.pager.counters();
    let (began, cpu) = (Instant::now(), process::cpu_seconds());
    for batch in pages.chunks(BATCH * resources.readers.max(1)) {
        drop(session.pager.fetch(batch).map_err(pager_error)?);
    }
    let reading = measured(&Traced::default(), began, cpu, &before, &session.pager, 0);
    Ok(json!({
        "paged": rows[0], "resident": rows[1], "reading": reading, "waiting": alone, "pages": pages.len(),
        "readers": session.pager.readers(),
        "workers": resources.threads(), "transport": session.pager.reader_name(),
    }))
}

/// A plain loop that reads each page of an evicted store on demand.
fn waits(store: &Path, job: &Job<'_>, zones: &[Zone], resources: &Resources) -> Result<Value, FieldError> {
    evict(store).map_err(|e| FieldError::io(store, e))?;
    // Only for ids: this pager reads nothing.
    let pager = resources.pager()?;
    let file = |path: &Path| -> Arc<dyn Source> { Arc::new(Blocking::new(path)) };
    let mut registrar = Registrar { pager: &pager, file: &file, sources: Vec::new(), maps: Vec::new() };
    let ids = Store::open(store)?.register(&mut registrar);
    let (sources, maps) = (registrar.sources, registrar.maps);
    let waiting = Arc::new(DemandStore {
        zones: renumbered(zones, &ids),
        sources: sources.into_iter().collect(),
        maps: maps.into_iter().collect(),
        step: job.spec.step as u32,
        reads: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
    });
    let before = pager.counters();
    let (began, cpu) = (Instant::now(), process::cpu_seconds());
    let traced = job.by_loop(1, &|| SyncNodes::new(waiting.clone()))?;
    let mut row = measured(&traced, began, cpu, &before, &pager, 0);
    (row["reads"], row["bytes_read"]) = (waiting.reads.load(Relaxed).into(), waiting.bytes.load(Relaxed).into());
    Ok(row)
}

/// Pages requested at once for each read in flight, when pages are only read: enough to keep the queue full.
const BATCH: usize = 16;

fn measured(traced: &Traced, began: Instant, cpu: f64, before: &pager::Counters, pager: &Pager, reads: u64) -> Value {
    let (wall_s, cpu_s) = (began.elapsed().as_secs_f64(), process::cpu_seconds() - cpu);
    let mut v = row(traced, before, &pager.counters());
    v["wall_s"] = wall_s.into();
    v["cpu_s"] = cpu_s.into();
    v["device_reads"] = reads.into();
    v
}

/// A store whose pages are read on demand.
struct DemandStore {
    zones: Arc<[Zone]>,
    sources: HashMap<SourceId, Arc<dyn Source>>,
    maps: HashMap<ArrayId, Arc<dyn PageMap>>,
    step: u32,
    reads: AtomicU64,
    bytes: AtomicU64,
}

/// Wakes a thread when its read is done.
#[derive(Default)]
struct Bell {
    result: Mutex<Option<Result<(), PageErrorKind>>>,
    rung: Condvar,
}

impl Completion for Bell {
    fn complete(&self, _: u64, result: Result<(), PageErrorKind>) {
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        self.rung.notify_one();
    }
}

impl DemandStore {
    /// Reads a run of bytes and waits for it.
    fn read(&self, source: SourceId, offset: u64, buffers: Vec<Buffer>) -> Result<(), PageErrorKind> {
        let Some(from) = self.sources.get(&source) else { return Err(PageErrorKind::Missing) };
        self.reads.fetch_add(1, Relaxed);
        self.bytes.fetch_add(buffers.iter().map(|b| b.len as u64).sum(), Relaxed);
        let bell = Arc::new(Bell::default());
        let done: Arc<dyn Completion> = bell.clone();
        from.submit(vec![Read { token: 0, offset, buffers, class: ReadClass::Demand }], &done);
        let mut held = bell.result.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match held.take() {
                Some(result) => return result,
                None => held = bell.rung.wait(held).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Nodes of one thread, which keeps every page that it has read and waits for others: no page is ever absent.
struct SyncNodes {
    of: Arc<DemandStore>,
    pages: HashMap<PageId, Box<[u64]>>,
    missing: Vec<PageId>,
    failure: Option<PageError>,
}

impl SyncNodes {
    fn new(of: Arc<DemandStore>) -> Self {
        Self { of, pages: HashMap::new(), missing: Vec::new(), failure: None }
    }

    /// The bytes of a page, read if necessary.
    fn page(&mut self, id: PageId) -> Result<&[u8], Miss> {
        if !self.pages.contains_key(&id) {
            if let Err(e) = self.load(id) {
                self.failure = Some(e);
                return Err(Miss::Failed);
            }
        }
        self.pages.get(&id).map(|w| bytes(w)).ok_or(Miss::Failed)
    }

    fn load(&mut self, id: PageId) -> Result<(), PageError> {
        let of = self.of.clone();
        let lost = |kind| PageError::new(format!("page {}", id.page), kind);
        let Some(map) = of.maps.get(&id.array) else { return Err(lost(PageErrorKind::Missing)) };
        let located = loop {
            let pages = &self.pages;
            let mut index = |p: PageId| pages.get(&p).map(|w| std::ptr::from_ref(bytes(w)));
            match map.locate(id, &mut index) {
                Located::Need(p) => self.load(p)?,
                other => break other,
            }
        };
        let size = map.page_bytes(id);
        let mut frame = vec![0u64; size.div_ceil(8)].into_boxed_slice();
        // SAFETY: as many bytes as the words have.
        let body = unsafe { std::slice::from_raw_parts_mut(frame.as_mut_ptr().cast::<u8>(), size) };
        match located {
            Located::Extents { segments, encoded_len, scratch_len, found } => {
                let (mut encoded, mut scratch) = (vec![0u8; encoded_len], vec![0u8; scratch_len]);
                let mut at = 0;
                while at < segments.len() {
                    // Consecutive segments are one read, as in the pager.
                    let first = segments[at];
                    let mut end = first.offset;
                    let mut buffers = Vec::new();
                    while let Some(s) = segments.get(at).filter(|s| s.source == first.source && s.offset == end) {
                        let ptr = match s.to {
                            ExtentTarget::Frame(n) => body[n..n + s.len].as_mut_ptr(),
                            ExtentTarget::Encoded(n) => encoded[n..n + s.len].as_mut_ptr(),
                        };
                        buffers.push(Buffer { ptr, len: s.len });
                        end += s.len as u64;
                        at += 1;
                    }
                    of.read(first.source, first.offset, buffers).map_err(lost)?;
                }
                map.decode(id, &found, &encoded, &mut scratch, body)?;
            }
            Located::Derived { .. } => {
                let kind = PageErrorKind::Decode("this arm makes no derived pages".into());
                return Err(PageError::new(map.name(), kind));
            }
            Located::Fill => map.fill(id, body),
            Located::Failed(e) => return Err(e),
            Located::Need(_) => return Err(lost(PageErrorKind::Missing)),
        }
        self.pages.insert(id, frame);
        Ok(())
    }

    fn corners(
        &mut self,
        zone: usize,
        array: usize,
        components: std::ops::Range<usize>,
        cell: [u32; 3],
        mut each: impl FnMut(usize, usize, f64),
    ) -> Result<(), Miss> {
        let of = self.of.clone();
        let z = &of.zones[zone];
        let a = &z.arrays[array];
        let step = if a.steady { 0 } else { of.step };
        let dims = z.dims();
        for corner in 0..8 {
            let node: [u32; 3] = core::array::from_fn(|d| (cell[d] + ((corner as u32 >> d) & 1)).min(dims[d] - 1));
            let at = z.translation.node(node);
            let page = self.page(PageId::new(a.id, step, at.page))?;
            for c in components.clone() {
                each(corner, c, z.element(array, page, c, at.element));
            }
        }
        Ok(())
    }
}

fn bytes(words: &[u64]) -> &[u8] {
    // SAFETY: any eight bytes of a word are bytes.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), std::mem::size_of_val(words)) }
}

impl Nodes for SyncNodes {
    type At<'a> = Each<'a, Self>;
    fn zones(&self) -> &[Zone] {
        &self.of.zones
    }
    fn at(&mut self, zone: usize, cell: [u32; 3]) -> Each<'_, Self> {
        Each::new(self, zone, cell)
    }
    fn vector(&mut self, zone: usize, array: usize, cell: [u32; 3], out: &mut [V4; 8]) -> Result<(), Miss> {
        let components = self.of.zones[zone].arrays[array].components;
        let mut rows = [[0.0; 4]; 8];
        self.corners(zone, array, 0..components, cell, |corner, c, v| rows[corner][c] = v)?;
        *out = rows.map(|r| V4::new(r[0], r[1], r[2], 0.0));
        Ok(())
    }
    fn scalar(
        &mut self,
        zone: usize,
        array: usize,
        component: usize,
        cell: [u32; 3],
        out: &mut [f64; 8],
    ) -> Result<(), Miss> {
        self.corners(zone, array, component..component + 1, cell, |corner, _, v| out[corner] = v)
    }
    fn block(&mut self, zone: usize, level: usize, block: [u32; 3]) -> Result<[f32; 6], Miss> {
        let of = self.of.clone();
        let l = &of.zones[zone].boxes[level];
        let at = l.translation.node(block);
        let page = self.page(PageId::new(l.id, 0, at.page))?;
        let mut out = [0.0; 6];
        for (c, v) in out.iter_mut().enumerate() {
            let n = 4 * (at.element * 6 + c);
            // A page of boxes holds six components of a full page box.
            *v = page.get(n..n + 4).map_or(f32::NAN, |b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
        }
        Ok(out)
    }
    fn missing(&mut self) -> &mut Vec<PageId> {
        &mut self.missing
    }
    fn failure(&mut self) -> Option<PageError> {
        self.failure.take()
    }
}
