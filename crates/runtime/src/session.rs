//! An open dataset with its pager, for a command or a Python object.
//!
//! # Practice
//! [`Session::open`] takes files of a flow, a reader's description of a volume, or nothing for a run without pages. A
//! session always has one pager with one ledger, and one [`Stats`].

pub use crate::flow_source::{SettingsField, SourceSpec};

use crate::flow_source::{open_described, open_flow};
use crate::limits::{charge_other, check_limit, most_threads, pager_error, Unseen};
use crate::process;
use crate::stats::{PageStats, Stats};
use crate::whole_dataset::{convert_input, only_geometry};
use field::cache_records::note_use;
use field::catalog::{Catalog, Role};
use field::dataset::Dataset;
use field::derive::Definitions;
use field::error::FieldError;
use field::file::{self, Digest};
use field::format::Format;
use field::nodes::Zone;
use field::paging::Paging;
use field::store::Store;
use field::uniform::Uniform;
use field::volume::{Volume, VolumeSpec};
use kernels::flow::ZoneOrder;
use pager::{Backend, Observer, Pager, PagerConfig, PolicyKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The resources of a run.
#[derive(Clone)]
pub struct Resources {
    /// Memory limit in bytes.
    pub memory_limit: u64,
    /// Most threads that compute; 0: one a core.
    pub workers: usize,
    /// Reads in flight; 0: [`DEFAULT_READERS`].
    pub readers: usize,
    /// Replacement policy.
    pub replacement: PolicyKind,
    /// The receiver of events.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Resources {
    /// Threads that compute: as requested, but at most [`most_threads`] of the limit.
    pub fn threads(&self) -> usize {
        let asked = match self.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        asked.min(most_threads(self.memory_limit))
    }
    /// Most reads in flight.
    pub fn reads_in_flight(&self) -> usize {
        if self.readers == 0 {
            DEFAULT_READERS
        } else {
            self.readers
        }
    }
    /// A pager with these resources.
    pub fn pager(&self) -> Result<Arc<Pager>, FieldError> {
        check_limit(self.memory_limit)?;
        if self.memory_limit < LITTLE {
            process::share_freed();
        }
        let readers = self.reads_in_flight();
        let config = PagerConfig {
            limit: self.memory_limit,
            policy: self.replacement,
            readers,
            backend: Backend::Auto,
            observer: self.observer.clone(),
        };
        Pager::new(config).map_err(pager_error)
    }
}

/// Below this limit, memory that threads keep freed matters: two MiB of it.
const LITTLE: u64 = 64 << 20;

/// Reads in flight by default. Fewer saturate a local disk. But completed reads wait for a worker, and meanwhile the
/// disk has only the rest. 1.8 GB through the page cache took 1.5 s with 128 and 1.8 s with 64.
pub const DEFAULT_READERS: usize = 128;

/// Called with a phase, how much is done and how much there is (0: unknown). False cancels.
pub type ProgressWatch<'a> = dyn FnMut(&str, f64, f64) -> bool + 'a;

/// The source of a session.
#[derive(Clone, Debug)]
pub enum Source {
    /// Files of a flow, or its store.
    Flow(Box<SourceSpec>),
    /// A reader's description of a volume, with its tables.
    Volume(Box<VolumeSpec>, Vec<Vec<u8>>),
    /// The same for pictures. Casting leaves room for its stacks itself, so nothing is kept free.
    PicturedVolume(Box<VolumeSpec>, Vec<Vec<u8>>),
    /// Nothing: the run has a ledger, events and statistics, but no pages.
    Nothing,
}

impl From<SourceSpec> for Source {
    fn from(spec: SourceSpec) -> Self {
        Self::Flow(Box::new(spec))
    }
}

/// An open dataset, its pager, and its times.
pub struct Session {
    /// The pager: one a process.
    pub pager: Arc<Pager>,
    /// The source; for a volume its path alone.
    pub spec: SourceSpec,
    /// The resources.
    pub resources: Resources,
    /// The dataset's volume. Later definitions or indexes do not change it.
    volume: Option<Arc<Volume>>,
    /// Held for moments, by threads that may hold a lock of the caller (Python's). A holder must not wait for anything.
    pub(crate) dataset: Mutex<Arc<Dataset>>,
    pub(crate) definitions: Mutex<Definitions>,
    indexing: Mutex<Option<std::thread::ThreadId>>,
    /// Resident bytes before the first page.
    pub base_bytes: u64,
    opened: Instant,
    cpu_at_open_s: f64,
    waited_s: Mutex<f64>,
    /// Most bytes of pages that can be held together, as far as attempts have shown.
    held_most: AtomicU64,
    /// Bytes and reads that did not pass through the pager.
    read: Mutex<[u64; 2]>,
    /// Memory kept free for use outside the ledger: stacks, and the allocator's own.
    unseen: Option<Unseen>,
}

impl Session {
    /// Opens a dataset. Reads headers only. ASCII files are first converted into the cache.
    ///
    /// # Errors
    /// [`FieldError`]: errors of the format's reader, or a limit that does not hold the pager itself.
    pub fn open(
        source: impl Into<Source>,
        resources: Resources,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<Self, FieldError> {
        match source.into() {
            Source::Flow(mut spec) => {
                let zones = spec.zones.take();
                Self::open_as(*spec, resources, |spec, pager| match zones {
                    Some(zones) => open_described(*zones, spec, pager),
                    None => open_flow(spec, pager, watch),
                })
            }
            Source::Volume(description, tables) => {
                let spec = SourceSpec { path: (&description.path).into(), ..SourceSpec::default() };
                let open = |pager: &Arc<Pager>| Volume::open(*description, tables, pager).map(Dataset::from_volume);
                let session = Self::begin(spec, resources, "opening a volume", |_, pager| open(pager))?;
                if let Some(volume) = &session.volume {
                    session.pager.set_direct(process::is_past_cache(volume.bytes_to_read()));
                }
                Ok(session)
            }
            Source::PicturedVolume(description, tables) => {
                let spec = SourceSpec { path: (&description.path).into(), ..SourceSpec::default() };
                let open = |pager: &Arc<Pager>| Volume::open(*description, tables, pager).map(Dataset::from_volume);
                Self::begin(spec, resources, "", |_, pager| open(pager))
            }
            Source::Nothing => Self::begin(SourceSpec::default(), resources, "", |_, _| Ok(Dataset::empty())),
        }
    }

    /// As [`Self::open`], for a flow that `open` opens and registers.
    pub fn open_as(
        spec: SourceSpec,
        resources: Resources,
        open: impl FnOnce(&SourceSpec, &Arc<Pager>) -> Result<Dataset, FieldError>,
    ) -> Result<Self, FieldError> {
        let session = Self::begin(spec, resources, "opening a dataset", open)?;
        let dataset = session.dataset();
        for name in &session.spec.zone_order {
            dataset.zone_named(name)?;
        }
        session.pager.set_direct(process::is_past_cache(dataset.bytes()));
        session.settle(&session.spec.settled)?;
        session.define(&session.spec.define)?;
        Ok(session)
    }

    /// Makes the pager, then opens the dataset. `what` names the subject of a limit that is too small. If it is empty,
    /// nothing is kept free.
    fn begin(
        spec: SourceSpec,
        resources: Resources,
        what: &str,
        open: impl FnOnce(&SourceSpec, &Arc<Pager>) -> Result<Dataset, FieldError>,
    ) -> Result<Self, FieldError> {
        let base_bytes = process::base_bytes();
        let (opened, cpu_at_open_s) = (Instant::now(), process::cpu_seconds());
        let pager = resources.pager()?;
        let unseen = if what.is_empty() { None } else { Some(Unseen::new(&pager, what)?) };
        let dataset = open(&spec, &pager)?;
        Ok(Self {
            pager,
            spec,
            resources,
            volume: dataset.volume.clone(),
            dataset: Mutex::new(Arc::new(dataset)),
            definitions: Mutex::default(),
            indexing: Mutex::new(None),
            base_bytes,
            opened,
            cpu_at_open_s,
            waited_s: Mutex::new(0.0),
            held_most: AtomicU64::new(u64::MAX),
            read: Mutex::default(),
            unseen,
        })
    }

    /// The open volume.
    ///
    /// # Errors
    /// [`FieldError::Usage`] if the dataset is a flow.
    pub fn volume(&self) -> Result<&Volume, FieldError> {
        self.volume
            .as_deref()
            .ok_or_else(|| FieldError::Usage(format!("{}: not a volume; this needs one", self.spec.path.display())))
    }

    /// Whether the dataset is a flow, with zones.
    pub fn is_flow(&self) -> bool {
        self.dataset().format.is_some()
    }

    /// Checks that the dataset is a flow, for calls that need zones.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for a volume.
    pub fn check_flow(&self) -> Result<(), FieldError> {
        if self.is_flow() {
            return Ok(());
        }
        Err(FieldError::Usage(format!("{}: a volume; this needs a flow", self.spec.path.display())))
    }

    /// Threads that compute.
    pub fn threads(&self) -> usize {
        self.resources.threads()
    }

    /// The present dataset. Definitions and boxes replace it.
    pub fn dataset(&self) -> Arc<Dataset> {
        self.dataset.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The order in which zones are searched: first those that the source names, then the others in file order.
    ///
    /// # Errors
    /// [`FieldError::Unknown`] for a name that no zone has.
    pub fn zone_order(&self, dataset: &Dataset) -> Result<ZoneOrder, FieldError> {
        let mut order = Vec::with_capacity(dataset.zones.len());
        for name in &self.spec.zone_order {
            let zone = dataset.zone_named(name)? as u32;
            if !order.contains(&zone) {
                order.push(zone);
            }
        }
        for zone in 0..dataset.zones.len() as u32 {
            if !order.contains(&zone) {
                order.push(zone);
            }
        }
        Ok(ZoneOrder(order.into()))
    }

    /// The dataset with some fields at a time step, and the boxes that location needs: what sampling at points begins
    /// with. Names and step are checked before boxes are built.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for a step that the dataset lacks, [`FieldError::Unknown`] for a field that no zone has, and
    /// those of [`Self::located`].
    pub fn located_with(
        &self,
        names: &[String],
        step: usize,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<Arc<Dataset>, FieldError> {
        self.dataset().check_step(step)?;
        self.derive(names)?;
        self.dataset().check_names(names)?;
        self.located(watch)
    }

    /// The dataset with the boxes that location needs. For data paged in place, one bounded pass builds them at the
    /// first need, and they are kept in the cache.
    ///
    /// # Errors
    /// [`FieldError`]; [`FieldError::Interrupted`] if `watch` returns false.
    pub fn located(&self, watch: &mut ProgressWatch<'_>) -> Result<Arc<Dataset>, FieldError> {
        let has_boxes = |d: &Dataset| d.zones.iter().all(|z| !z.boxes.is_empty());
        let dataset = self.dataset();
        if has_boxes(&dataset) {
            return Ok(dataset);
        }
        let _indexing = Indexing::begin(self, watch)?;
        // Another thread may have built them meanwhile.
        let dataset = self.dataset();
        if has_boxes(&dataset) {
            return Ok(dataset);
        }
        let Some((at, known)) = self.index(&dataset)? else { return Ok(dataset) };
        let index = match known {
            Some(index) => index,
            // A missing or incomplete index, or one of other files, is built again. Errors of that are reported.
            None => {
                let folder = at.parent().unwrap_or(Path::new("."));
                let made = std::fs::create_dir_all(folder).map_err(|e| FieldError::io(folder, e));
                made.and_then(|()| self.make_boxes(&dataset, &at, watch)).map_err(|e| e.in_cache(folder))?;
                Store::open(&at)?
            }
        };
        // Derived fields may have been added meanwhile.
        let mut held = self.dataset.lock().unwrap_or_else(PoisonError::into_inner);
        let dataset = Arc::new(held.with_boxes(&index, &self.pager)?);
        *held = dataset.clone();
        Ok(dataset)
    }

    /// The path of the index of files paged in place, and the index if it exists and is of these files. `None` for a
    /// store.
    fn index(&self, dataset: &Dataset) -> Result<Option<(PathBuf, Option<Store>)>, FieldError> {
        let Some(format) = dataset.format.as_ref().filter(|f| f.is_in_place()) else { return Ok(None) };
        let sources = file::identities(&format.files())?;
        let at = self.spec.cache_dir.join("data");
        let at = at.join(index_name(
            format.as_ref(),
            &dataset.catalog,
            sources.iter().fold(Digest::default(), Digest::state),
        ));
        let of_these = |index: &Store| index.root.source.as_ref() == Some(&Digest::of(&sources).to_string());
        let known = Store::open(&at).ok().filter(of_these);
        if known.is_some() {
            note_use(&at, &sources);
        }
        Ok(Some((at, known)))
    }

    /// The uniform grids of the zones, if known. They are known for a store, and for files whose boxes were built and
    /// that still exist. Missing files are reported when they are read.
    pub fn uniform(&self) -> Vec<Option<Uniform>> {
        let dataset = self.dataset();
        let unknown = dataset.zones.iter().all(|z| z.boxes.is_empty());
        let index = if unknown { self.index(&dataset).ok().flatten() } else { None };
        match index {
            Some((_, Some(index))) if index.root.uniform.len() == dataset.zones.len() => index.root.uniform,
            _ => dataset.zones.iter().map(|z| z.uniform).collect(),
        }
    }

    /// Builds the index, with the boxes of files paged in place.
    fn make_boxes(&self, dataset: &Dataset, at: &Path, watch: &mut ProgressWatch<'_>) -> Result<(), FieldError> {
        let input = only_geometry(convert_input(dataset)?);
        let paging = |z: &Zone| Paging::new(as_usize(z.translation.dims), as_usize(z.translation.page));
        let pages: Vec<Paging> = dataset.zones.iter().map(paging).collect();
        let (limit, threads) = (self.pager.ledger().limit(), self.resources.threads());
        let charge = |bytes: u64| charge_other(&self.pager, bytes, "making the boxes of the grid");
        let mut progress = |p: convert::PieceProgress| watch("indexing", p.done as f64, p.total as f64);
        convert::build_index(&input, &pages, at, limit, threads, &charge, &mut progress).map(|_| ())
    }

    /// Changes the memory limit, also during runs. A lower limit takes effect as pages and tasks release their memory.
    ///
    /// # Errors
    /// [`FieldError::LimitTooSmall`] below [`crate::limits::SMALLEST_LIMIT`], or below a page of the open volume.
    pub fn set_limit(&self, limit: u64) -> Result<(), FieldError> {
        check_limit(limit)?;
        self.limit_holds(limit)?;
        match &self.unseen {
            Some(unseen) => unseen.set_limit(&self.pager, limit),
            None => self.pager.set_limit(limit),
        }
        Ok(())
    }

    /// Adds time, in seconds, in which threads were idle.
    pub fn add_wait(&self, seconds: f64) {
        *self.waited_s.lock().unwrap_or_else(PoisonError::into_inner) += seconds;
    }

    /// Adds bytes and reads that did not pass through the pager.
    pub fn add_read(&self, read: [u64; 2]) {
        let mut sum = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        *sum = [sum[0] + read[0], sum[1] + read[1]];
    }

    /// Most bytes of pages that can be held together, as far as attempts have shown.
    pub(crate) fn held_most(&self) -> u64 {
        self.held_most.load(Relaxed)
    }

    /// Records that more than `bytes` of pages cannot be held together.
    pub(crate) fn hold_fewer(&self, bytes: u64) {
        self.held_most.fetch_min(bytes, Relaxed);
    }

    /// Records an event at the run's own time, for work that does not go through the pager.
    pub fn record(&self, event: &pager::Event) {
        if let Some(o) = &self.resources.observer {
            o.event(u64::try_from(self.opened.elapsed().as_micros()).unwrap_or(u64::MAX), event);
        }
    }

    /// The numbers that every run reports, as of now.
    pub fn stats(&self) -> Stats {
        let c = self.pager.counters();
        let read = *self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let dataset = self.dataset();
        Stats {
            wall_s: self.opened.elapsed().as_secs_f64() + self.spec.read_s[0],
            cpu_s: process::cpu_seconds() - self.cpu_at_open_s + self.spec.read_s[1],
            wait_s: *self.waited_s.lock().unwrap_or_else(PoisonError::into_inner),
            base_bytes: self.base_bytes,
            peak_bytes: c.peak_bytes,
            limit_bytes: c.limit_bytes,
            resident_peak_bytes: process::peak_resident_bytes(),
            pages: PageStats {
                total: dataset.page_count().unwrap_or(c.total),
                touched: c.touched,
                touched_exact: c.touched_exact,
                faults: c.faults,
                hits: c.hits,
                evictions: c.evictions,
                given_back: c.given_back,
                prefetched: c.prefetched,
                prefetched_used: c.prefetched_used,
                prefetch_dropped: c.prefetch_dropped,
                failed: c.failed,
                fills: c.fills,
                derived: c.derived,
                never_written: self.volume.as_ref().map(|v| v.fills()),
            },
            bytes_read: c.bytes_read + read[0],
            reads: c.reads + read[1],
            workers: self.resources.threads(),
            readers: self.pager.readers(),
            replacement: self.resources.replacement.name(),
            transport: self.pager.reader_name(),
            warnings: dataset.warnings().into_iter().map(str::to_owned).collect(),
            failure: self.volume.as_ref().and_then(|_| self.pager.first_failure()).map(|e| e.to_string()),
        }
    }
}

/// The right to build the boxes of a session's dataset, released on drop.
struct Indexing<'a>(&'a Session);

impl<'a> Indexing<'a> {
    /// Waits until no other thread builds them.
    ///
    /// # Errors
    /// [`FieldError::Interrupted`] if `watch` returns false. [`FieldError::Usage`] during the build itself: a progress
    /// function that needs boxes would wait for itself.
    fn begin(session: &'a Session, watch: &mut ProgressWatch<'_>) -> Result<Self, FieldError> {
        let me = std::thread::current().id();
        loop {
            {
                let mut by = session.indexing.lock().unwrap_or_else(PoisonError::into_inner);
                match *by {
                    None => {
                        *by = Some(me);
                        return Ok(Self(session));
                    }
                    Some(other) if other == me => {
                        return Err(FieldError::Usage(format!(
                            "{}: the boxes of the grid are being made; ask again when that is done",
                            session.spec.path.display()
                        )))
                    }
                    Some(_) => {}
                }
            }
            if !watch("indexing", 0.0, 0.0) {
                return Err(FieldError::Interrupted);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Indexing<'_> {
    fn drop(&mut self) {
        *self.0.indexing.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn as_usize(n: [u32; 3]) -> [usize; 3] {
    n.map(|v| v as usize)
}

/// [`charge_other`] for the conversion of a session. The charge includes the page that a store as source decodes, so
/// that a refusal names the whole.
pub fn charge_for(session: &Session) -> impl Fn(u64) -> Result<Box<dyn std::any::Any>, FieldError> + '_ {
    let page = session.dataset().format.as_ref().map_or(0, |f| f.storage().page_bytes);
    // Encoded beside decoded.
    move |bytes| charge_other(&session.pager, bytes + 2 * page as u64, "the conversion")
}

/// The name of an index: a digest of the files and of how they are read. Options may read the same files in another
/// way.
fn index_name(format: &dyn Format, catalog: &Catalog, sources: Digest) -> String {
    // The text changes with the content of an index. Those made before uniform grids were detected have another digest.
    let mut digest = sources.text("uniform").text(&catalog.format);
    for (n, zone) in catalog.zones.iter().enumerate() {
        digest = digest.text(&format!(" {:?}", zone.dims));
        let geometry = zone.arrays.iter().enumerate().filter(|(_, a)| a.role != Role::Field);
        for (m, _) in geometry {
            let reading = format.layout(n, m).map(|l| l.reading());
            let rule = || format.computed(n, m).map(|c| c.reading());
            digest = digest.text(&reading.or_else(rule).unwrap_or_default());
        }
    }
    let files = format.files();
    let name = files.first().and_then(|p| p.file_stem()).and_then(|s| s.to_str()).unwrap_or("data");
    let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).take(40).collect();
    format!("{name}-{digest}.index")
}
