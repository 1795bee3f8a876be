//! Random pages of one array of a store: by the pager, and by `pread` with a checksum.

use field::error::FieldError;
use field::store::{Register, Store};
use pager::id::{ArrayId, PageId, SourceId};
use pager::map::{Located, PageMap};
use pager::{Backend, FileNames, Folder, Hold, Lookup, Pager, PagerConfig, Worker};
use runtime::limits::pager_error;
use runtime::process;
use runtime::session::Resources;
use serde_json::{json, Value};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Options of [`page_reads`].
pub struct PageReads {
    /// A store, at a server only for reads by the pager.
    pub store: PathBuf,
    /// Zone, 0-based.
    pub zone: usize,
    /// Array of the zone, by name.
    pub array: String,
    /// Pages of a batch.
    pub batch: usize,
    /// Pages of a round, each at most once.
    pub count: usize,
    /// Seed of the order.
    pub seed: u64,
    /// Rounds over the same pages. The first is cold if the files are.
    pub rounds: usize,
    /// Buffers of `pread` and crc32c on one thread; 0: by the pager.
    pub pread_buffers: usize,
    /// Whether reads bypass the page cache.
    pub direct: bool,
}

struct Registrar<'a> {
    pager: &'a Pager,
    /// The first source. The others have the following ids.
    first: Option<SourceId>,
    paths: Vec<PathBuf>,
    maps: Vec<(ArrayId, Arc<dyn PageMap>)>,
}

impl Register for Registrar<'_> {
    fn add_file(&mut self, path: &Path) -> SourceId {
        self.paths.push(path.to_owned());
        let id = self.pager.add_file(path);
        self.first.get_or_insert(id);
        id
    }
    fn add_folder(&mut self, names: Arc<dyn FileNames>) -> std::io::Result<(SourceId, Arc<Folder>)> {
        let path = PathBuf::from(names.describe());
        let folder = self.pager.folder(names)?;
        let id = self.pager.add_source(folder.clone());
        self.paths.push(path);
        self.first.get_or_insert(id);
        Ok((id, folder))
    }
    fn add_array(&mut self, map: Arc<dyn PageMap>) -> ArrayId {
        let id = self.pager.add_array(map.clone());
        self.maps.push((id, map));
        id
    }
}

/// Reads the pages round by round: wall and CPU seconds of each, with the shard indexes loaded before.
///
/// # Errors
/// [`FieldError`]: a missing store or array, a failed page.
pub fn page_reads(spec: &PageReads, resources: &Resources) -> Result<Value, FieldError> {
    let store = Store::open(&spec.store)?;
    let zone = store.catalog.zones.get(spec.zone).ok_or_else(|| FieldError::Usage(format!("no zone {}", spec.zone)))?;
    let number = zone.arrays.iter().position(|a| a.name == spec.array).ok_or_else(|| FieldError::Unknown {
        what: "array",
        name: spec.array.clone(),
        known: zone.arrays.iter().map(|a| a.name.clone()).collect(),
    })?;
    let config = PagerConfig {
        limit: resources.memory_limit,
        policy: resources.replacement,
        readers: resources.readers.max(1),
        backend: Backend::Auto,
        observer: None,
    };
    let pager = Pager::new(config).map_err(pager_error)?;
    pager.set_direct(spec.direct);
    let mut rounds = Vec::with_capacity(spec.rounds);
    let mut reader = Preads::new(spec.pread_buffers);
    let mut about = None;
    for _ in 0..spec.rounds {
        // Each round has new ids for the same bytes and reads them again. Its frames are reused once memory is full.
        let set = Set::new(&pager, &store, spec, number)?;
        let before = pager.counters();
        let (began, cpu) = (Instant::now(), process::cpu_seconds());
        if spec.pread_buffers > 0 {
            reader.read(&set.paths, &set.extents)?;
        } else {
            for batch in set.pages.chunks(spec.batch.max(1)) {
                drop(pager.fetch(batch).map_err(pager_error)?);
            }
        }
        let after = pager.counters();
        rounds.push(json!({
            "wall_s": began.elapsed().as_secs_f64(), "cpu_s": process::cpu_seconds() - cpu,
            "bytes_read": after.bytes_read - before.bytes_read, "reads": after.reads - before.reads,
            "faults": after.faults - before.faults,
        }));
        about.get_or_insert(set);
    }
    let Some(set) = about else { return Err(FieldError::Usage("no rounds".into())) };
    let mean = |f: fn(u64, u64) -> u64| {
        set.extents.iter().map(|e| f(e.1, e.2 as u64) as f64).sum::<f64>() / set.extents.len().max(1) as f64
    };
    Ok(json!({
        "rounds": rounds, "pages": set.pages.len(), "page_bytes": set.page_bytes, "stored_bytes": mean(|_, len| len),
        "spanned_bytes": mean(|offset, len| ((offset + len).div_ceil(OS_PAGE) - offset / OS_PAGE) * OS_PAGE),
        "transport": pager.reader_name(), "path": set.extents.first().and_then(|e| set.paths.get(e.0)).map(|path| path.display().to_string()),
    }))
}

const OS_PAGE: u64 = 4096;

/// The pages of one round: their ids and places.
struct Set {
    pages: Vec<PageId>,
    page_bytes: usize,
    /// By source.
    paths: Vec<PathBuf>,
    /// File (an index of `paths`), first byte, bytes.
    extents: Vec<(usize, u64, usize)>,
    _indexes: Hold,
}

impl Set {
    /// Registers the store and loads the array's shard indexes.
    fn new(pager: &Arc<Pager>, store: &Store, spec: &PageReads, number: usize) -> Result<Self, FieldError> {
        let mut registrar = Registrar { pager, first: None, paths: Vec::new(), maps: Vec::new() };
        let array = store.register(&mut registrar)[spec.zone].arrays[number];
        let Registrar { first, paths, maps, .. } = registrar;
        // A store registers the index of an array just before the array.
        let index = maps.iter().position(|m| m.0 == array).and_then(|n| n.checked_sub(1)).map(|n| maps[n].clone());
        let (index, index_map) = index.ok_or_else(|| FieldError::Usage("no shard index".into()))?;
        let indexes: Vec<PageId> = (0..index_map.pages()).map(|p| PageId::new(index, 0, p)).collect();
        let held = pager.fetch(&indexes).map_err(pager_error)?;
        let map = pager.map(array);
        let pages: Vec<PageId> =
            order(map.pages(), spec.seed).into_iter().take(spec.count).map(|p| PageId::new(array, 0, p)).collect();
        let first = first.map_or(0, |s| s.0 as usize);
        let worker = pager.worker();
        let extents = pages.iter().map(|p| extent(&worker, &*map, *p).map(|(s, offset, len)| (s - first, offset, len)));
        let extents = extents.collect::<Result<_, _>>()?;
        Ok(Self { page_bytes: map.page_bytes(PageId::new(array, 0, 0)), pages, paths, extents, _indexes: held })
    }
}

/// All page numbers in random order.
fn order(pages: u64, seed: u64) -> Vec<u64> {
    let mut all: Vec<u64> = (0..pages).collect();
    let mut x = seed;
    for i in (1..all.len()).rev() {
        // Knuth's MMIX generator; any order without pattern would do.
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        all.swap(i, (x >> 33) as usize % (i + 1));
    }
    all
}

/// Place of a page: source, first byte, bytes.
fn extent(worker: &Worker, map: &dyn PageMap, page: PageId) -> Result<(usize, u64, usize), FieldError> {
    let mut index = |p: PageId| match worker.page(p) {
        Lookup::Here(b) => Some(std::ptr::from_ref(b)),
        _ => None,
    };
    match map.locate(page, &mut index) {
        Located::Extents { segments, .. } => {
            let first = segments.first().ok_or_else(|| FieldError::Usage("a page without bytes".into()))?;
            Ok((first.source.0 as usize, first.offset, segments.iter().map(|s| s.len).sum()))
        }
        Located::Failed(e) => Err(FieldError::Page(e)),
        _ => Err(FieldError::Usage("a page whose index is not here".into())),
    }
}

/// The simplest reader: `pread` into a buffer, then the checksum behind the page.
struct Preads {
    files: Vec<Option<File>>,
    buffers: Vec<Vec<u8>>,
}

impl Preads {
    fn new(buffers: usize) -> Self {
        Self { files: Vec::new(), buffers: vec![Vec::new(); buffers] }
    }

    fn read(&mut self, paths: &[PathBuf], extents: &[(usize, u64, usize)]) -> Result<(), FieldError> {
        let buffers = self.buffers.len();
        self.files.resize_with(paths.len(), || None);
        for (n, (file, offset, len)) in extents.iter().enumerate() {
            let path = &paths[*file];
            let io = |e| FieldError::io(path, e);
            if self.files[*file].is_none() {
                self.files[*file] = Some(File::open(path).map_err(io)?);
            }
            let Some(open) = &self.files[*file] else { continue };
            let buffer = &mut self.buffers[n % buffers];
            buffer.resize(*len, 0);
            open.read_exact_at(buffer, *offset).map_err(io)?;
            let (body, sum) = buffer.split_at(len.saturating_sub(4));
            if crc32c::crc32c(body).to_le_bytes() != sum {
                return Err(FieldError::Usage(format!("{}: checksum mismatch at byte {offset}", path.display())));
            }
        }
        Ok(())
    }
}
