//! Farfield's own store: plain Zarr v3 with the sharding codec, which every Zarr tool reads. Every page, index and
//! document has a crc32c.
//!
//! # Theory
//! The inner chunk is the page, and the shard is the file. The shard's index is the block translation table of the
//! demand paging work. A scalar is `[t, k, j, i]`, a vector `[t, c, k, j, i]` with all components of a point in one
//! page. Zones are groups. `_farfield` has the ranges of values of each page and the bounding boxes of blocks of cells.
//! Each of them is a pyramid of sharded arrays, paged like all others.
//!
//! # Practice
//! ```text
//! wing.zarr/zarr.json                    commit mark: catalog, page boxes, checksums of all documents
//!           zone1/zarr.json
//!           zone1/density/zarr.json
//!           zone1/density/c.0.0.0.0      shard of step 0: index, pages in C order of their slots
//!           _farfield/zone1/ranges_density_0/...
//!           _farfield/zone1/boxes_0/...
//! ```
//! Everything but values follows from the root document ([`layout`]). [`Store::open`] reads and checks all documents
//! and no page. A page whose shard is missing is *failed*, never fill.

mod array;
pub mod codec;
pub mod layout;
pub mod metadata;
mod register;
mod rows;
mod time;
mod validate;

pub(crate) use array::check_name;
pub use array::{check_index, ShardIndex, StoreArray};
pub use codec::check_crc;
pub(crate) use register::PagerRegistrar;
pub use register::Register;
pub use rows::StoreRows;
pub use time::TimeAxis;
pub use validate::{Buffers, Problem, ShardId, ShardSeal, Sharded, StoreCheck, Validation};

use crate::catalog::{Catalog, RowReader};
use crate::error::FieldError;
use crate::file::read_start;
use crate::format::{Format, Storage};
use crate::heap_size;
use crate::paging::Paging;
use crate::series::Sources;
use array::{ArrayFiles, ShardNames, ShardSources};
use layout::{all_arrays, documents, lay_out, ArrayLayout, ZoneLayout};
use metadata::{Root, MAX_ROOT_BYTES};
use pager::error::PageError;
use pager::error::PageErrorKind;
use pager::id::{ArrayId, SourceId};
use pager::place;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Shards of an array (some hundred gigabytes) above which their files are counted before their number is trusted.
const MANY_SHARDS: u64 = 10_000;
/// Documents that are asked for together.
const GROUP: usize = 64;
/// Attempts to open a store that is replaced meanwhile. Replacing takes longer than opening.
const TRIES: usize = 20;

/// An open store: everything but its pages.
#[derive(Clone, Debug)]
pub struct Store {
    /// Its folder.
    pub path: PathBuf,
    /// Its contents. `format` is the store's; [`Self::origin`] has the source's.
    pub catalog: Catalog,
    /// Format of the source, in the words of the source's catalog.
    pub origin: String,
    /// Zones in catalog order.
    pub zones: Vec<ZoneLayout>,
    /// Its root document.
    pub root: Root,
}

/// A level of boxes or ranges in the pager.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LevelId {
    /// The pager's number of it.
    pub id: ArrayId,
    /// Boxes or pages along (i, j, k) at this level, and their cut into pages.
    pub paging: Paging,
}

/// The pager's numbers of a zone's arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneIds {
    /// In catalog order; empty for an index.
    pub arrays: Vec<ArrayId>,
    /// Boxes of blocks of cells, finest first: six float32 components.
    pub boxes: Vec<LevelId>,
    /// By array, finest first: the lower limit of each component, then the upper, float64.
    pub ranges: Vec<Vec<LevelId>>,
}

impl Format for Store {
    fn files(&self) -> Vec<PathBuf> {
        vec![self.path.join("zarr.json")]
    }

    fn files_by_step(&self, _: usize) -> Vec<Vec<usize>> {
        Vec::new()
    }

    fn is_in_place(&self) -> bool {
        false
    }

    fn rows(&self, zone: usize, array: usize) -> Result<Arc<dyn RowReader>, FieldError> {
        Ok(Arc::new(StoreRows::new(self, zone, array, 0)?))
    }

    fn page_count(&self) -> Option<u64> {
        Some(Self::page_count(self))
    }

    fn storage(&self) -> Storage {
        let flat = self.zones.iter().all(|z| z.paging.page[2] == 1 && z.paging.page[0] == z.paging.dims[0]);
        let pages = self.zones.iter().flat_map(|z| &z.arrays).map(ArrayLayout::page_bytes);
        Storage {
            layout: if flat { "flat" } else { "cubed" },
            codec: Some(self.root.codec.name()),
            bytes: Some(self.bytes()),
            page_bytes: pages.max().unwrap_or(0),
        }
    }
}

impl Store {
    /// Whether `path` has a store for [`Self::open`]: a folder with a Zarr v3 root document that names Farfield.
    pub fn is_store(path: &Path) -> bool {
        // The name is in the first bytes, unless the document is damaged; so the first MiB is searched.
        let head = read_start(&path.join("zarr.json"), 1 << 20);
        head.is_ok_and(|head| head.windows(10).any(|w| w == b"\"farfield\""))
    }

    /// Opens a store, or an index (without data). Reads and checks the root and all other documents.
    ///
    /// # Errors
    /// [`FieldError::Io`] or [`FieldError::Format`] about the missing or damaged document.
    pub fn open(path: &Path) -> Result<Self, FieldError> {
        open_root(path, |root_path, root| Self::with_root(path, root_path, root))
    }

    /// Checks all other documents against the root.
    fn with_root(path: &Path, root_path: &Path, root: &[u8]) -> Result<Self, FieldError> {
        let root = Root::parse(root_path, root)?;
        let mut zones = lay_out(root_path, &root.catalog, &root.pagings(), &root.steps, root.codec)?;
        if !root.time_axis {
            zones.iter_mut().for_each(|z| z.time = None);
        }
        check_documents(path, root_path, &root.documents, documents(&zones, root.data))?;
        if root.seals.len() != all_arrays(&zones, root.data).count() {
            return Err(FieldError::format(root_path.to_owned(), "lists more than there is; convert again"));
        }
        for layout in all_arrays(&zones, root.data) {
            check_count(&path.join(&layout.path), layout.shard_count())?;
        }
        // A forger's numbers must not overflow in later sums. Shards are numbered in 32 bits.
        let pages = sum(all_arrays(&zones, root.data).map(|a| a.page_count().saturating_add(a.shard_count())));
        let shards = sum(all_arrays(&zones, root.data).map(ArrayLayout::shard_count));
        let bytes = sum(root.seals.iter().map(|s| s.bytes));
        if pages.is_none() || bytes.is_none() || shards.is_none_or(|n| n > u64::from(u32::MAX)) {
            return Err(FieldError::format(
                root_path.to_owned(),
                "claims more pages or bytes than any store has; convert again",
            ));
        }
        let mut catalog = root.catalog.clone();
        let origin = std::mem::replace(&mut catalog.format, "Farfield store (Zarr v3)".into());
        Ok(Self { path: path.to_owned(), catalog, origin, zones, root })
    }

    /// All arrays, ranges and boxes included.
    pub fn arrays(&self) -> impl Iterator<Item = &ArrayLayout> {
        all_arrays(&self.zones, self.root.data)
    }

    /// The cut of each zone into pages.
    pub fn paging(&self) -> Vec<Paging> {
        self.zones.iter().map(|z| z.paging).collect()
    }

    /// Bytes of all shards.
    pub fn bytes(&self) -> u64 {
        self.root.seals.iter().map(|s| s.bytes).sum()
    }

    /// Pages of all arrays, boxes, ranges and shard indexes.
    pub fn page_count(&self) -> u64 {
        layout::all_arrays(&self.zones, self.root.data).map(|a| a.page_count() + a.shard_count()).sum()
    }

    /// Bytes on the heap.
    pub(crate) fn held(&self) -> u64 {
        let r = &self.root;
        let zone = |z: &ZoneLayout| {
            let own = heap_size::text(&z.path)
                + heap_size::list(&z.arrays)
                + heap_size::list(&z.boxes)
                + heap_size::list(&z.ranges);
            let own = own + z.time.as_ref().map_or(0, TimeAxis::held);
            own + z.ranges.iter().map(heap_size::list).sum::<u64>()
        };
        let zones = heap_size::list(&self.zones) + self.zones.iter().map(zone).sum::<u64>();
        let layouts: u64 = all_arrays(&self.zones, true).map(ArrayLayout::held).sum();
        let lists = heap_size::list(&r.pages)
            + heap_size::list(&r.steps)
            + heap_size::list(&r.documents)
            + heap_size::list(&r.seals)
            + heap_size::list(&r.uniform)
            + r.sources.as_ref().map_or(0, Sources::held);
        let steps: u64 = r.steps.iter().map(heap_size::list).sum();
        heap_size::catalog(&self.catalog)
            + heap_size::catalog(&r.catalog)
            + heap_size::text(&self.origin)
            + zones
            + layouts
            + lists
            + steps
    }

    /// Bytes on the heap that [`Self::register`] adds to a pager.
    pub(crate) fn held_by_pager(&self) -> u64 {
        let folder = self.path.as_os_str().len();
        let of = |a: &ArrayLayout| {
            // Its name, and the path and records of each of its files.
            let path = a.path.len() + "/c.".len() + 4 * 20;
            let file = heap_size::grown::<u8>(folder + path)
                + heap_size::shared::<[usize; 8]>()
                + heap_size::grown::<[usize; 2]>(1);
            let maps = heap_size::shared::<ArrayFiles>()
                + heap_size::shared::<ShardIndex>()
                + heap_size::shared::<StoreArray>();
            let names = heap_size::grown::<u8>(a.path.len() + "/index".len());
            let files = a.shard_count().saturating_mul(file + 2 * size_of::<SourceId>() as u64);
            files + maps + names + a.held_by_copy() + 2 * heap_size::grown::<[usize; 2]>(1)
        };
        self.arrays().map(of).fold(0, u64::saturating_add)
    }

    /// Registers all arrays with a pager, each with its shard indexes.
    pub fn register(&self, pager: &mut dyn Register) -> Vec<ZoneIds> {
        let root: Arc<Path> = self.path.as_path().into();
        let mut add = |layout: &ArrayLayout| add_array(pager, &root, layout);
        let mut ids = Vec::with_capacity(self.zones.len());
        for zone in &self.zones {
            let data = if self.root.data { &zone.arrays[..] } else { &[] };
            let arrays = data.iter().map(&mut add).collect();
            let mut level = |l: &ArrayLayout| LevelId { id: add(l), paging: l.grid.paging };
            let boxes = zone.boxes.iter().map(&mut level).collect();
            let ranges = zone.ranges.iter().map(|r| r.iter().map(&mut level).collect()).collect();
            ids.push(ZoneIds { arrays, boxes, ranges });
        }
        ids
    }
}

/// Registers an array of the store at `root` with a pager, with its shard indexes.
fn add_array(pager: &mut dyn Register, root: &Arc<Path>, layout: &ArrayLayout) -> ArrayId {
    let shards = layout.grid.count();
    let remote = place::is_remote(root).then(|| ShardNames { root: root.clone(), layout: layout.clone() });
    let sources = match remote.map(|names| pager.add_folder(Arc::new(names))) {
        Some(Ok((source, folder))) => ShardSources::Folder(source, folder),
        // Without a source, each shard is reported as missing.
        Some(Err(_)) => ShardSources::Each(Vec::new()),
        None => {
            let shard = |n: u64| root.join(layout.shard_path((n / shards) as usize, n % shards));
            ShardSources::Each((0..layout.shard_count()).map(|n| pager.add_file(&shard(n))).collect())
        }
    };
    let files = Arc::new(ArrayFiles { root: root.clone(), layout: layout.clone(), sources });
    let name = format!("{}/index", layout.path);
    let index = pager.add_array(Arc::new(ShardIndex { files: files.clone(), name }));
    pager.add_array(Arc::new(StoreArray { files, index }))
}

/// Opens a store by its root document, which `with_root` gets with its path. If another store replaces this one
/// meanwhile, its documents do not match the old root. Then the new root is tried.
///
/// # Errors
/// [`FieldError::Io`] for the root, and the errors of `with_root`.
pub(crate) fn open_root<T>(
    path: &Path,
    with_root: impl Fn(&Path, &[u8]) -> Result<T, FieldError>,
) -> Result<T, FieldError> {
    let root_path = path.join("zarr.json");
    let mut root = read_bounded(&root_path, MAX_ROOT_BYTES)?;
    for _ in 0..TRIES {
        match with_root(&root_path, &root) {
            Ok(store) => return Ok(store),
            Err(e) => match read_bounded(&root_path, MAX_ROOT_BYTES) {
                Ok(now) if now != root => root = now,
                _ => return Err(e),
            },
        }
    }
    with_root(&root_path, &root)
}

/// Reads the documents whose lengths and checksums the root lists as `known`, and compares them with `expected`.
pub(crate) fn check_documents(
    path: &Path,
    root: &Path,
    known: &[(u64, u32)],
    expected: impl Iterator<Item = (String, Vec<u8>)>,
) -> Result<(), FieldError> {
    let mut known = known.iter();
    let mut expected = expected;
    let groups = std::iter::from_fn(|| {
        let group: Vec<(String, Vec<u8>)> = expected.by_ref().take(GROUP).collect();
        if place::is_remote(path) {
            place::fetch_small(&group.iter().map(|(name, _)| path.join(name)).collect::<Vec<_>>());
        }
        (!group.is_empty()).then_some(group)
    });
    for (name, expected) in groups.flatten() {
        let file = path.join(name);
        let Some(&(len, crc)) = known.next() else {
            return Err(FieldError::format(root, "lists too few documents; convert again"));
        };
        let bytes = read_bounded(&file, len)?;
        if bytes.len() as u64 != len || crc32c::crc32c(&bytes) != crc {
            let m = "checksum mismatch: the document is damaged or was edited; convert again";
            return Err(FieldError::format(file, m));
        }
        if bytes != expected {
            return Err(FieldError::format(file, "not as this version of Farfield lays out a store; convert again"));
        }
    }
    match known.next() {
        None => Ok(()),
        Some(_) => Err(FieldError::format(root, "lists more than there is; convert again")),
    }
}

/// Checks that a large number of shards is real. Every shard later gets a source, so a document alone must not set
/// their number.
pub(crate) fn check_count(folder: &Path, shards: u64) -> Result<(), FieldError> {
    if shards > MANY_SHARDS {
        if place::is_remote(folder) {
            // Shards of a remote store are one source, so their number takes no memory.
            return Ok(());
        }
        let entries = std::fs::read_dir(folder).map_err(|e| FieldError::io(folder, e))?.count() as u64;
        if entries < shards / 2 {
            let m = format!("holds {entries} files where {shards} shards should be");
            return Err(FieldError::format(folder, m));
        }
    }
    Ok(())
}

/// The sum, unless it overflows.
pub(crate) fn sum(mut each: impl Iterator<Item = u64>) -> Option<u64> {
    each.try_fold(0, u64::checked_add)
}

/// Reads a small file whole, or `most` bytes and one more, so that a longer file is detected.
pub(crate) fn read_bounded(path: &Path, most: u64) -> Result<Vec<u8>, FieldError> {
    read_start(path, most.saturating_add(1)).map_err(|e| {
        if e.kind() == std::io::ErrorKind::NotFound {
            FieldError::Page(PageError::new(path.display().to_string(), PageErrorKind::Missing))
        } else {
            FieldError::io(path, e)
        }
    })
}
