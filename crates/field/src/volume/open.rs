//! Opening: from a reader's description to arrays of pages.

use super::chain::Chain;
use super::chunk_location::{names, row, shard_index, usual_len};
use super::chunk_location::{Abouts, ChunkLocation, Chunks, ShardGrid, ShardIndexes, ENTRY};
use super::chunkmap::ChunkMap;
use super::level::{Placement, RangeLevel, VolumeArray, VolumeLevel};
use super::masked_pages::ValuePages;
use super::missing_values::Missing;
use super::page_size::{chunk_box, row_box, row_group, LARGE};
use super::rowmap::RowMap;
use super::shape::{element, ArrayShape, C, T, X, Y, Z};
use super::shard_pages::ShardPages;
use super::spec::{ArraySpec, LevelSpec, PlaceSpec, VolumeKind, VolumeSpec};
use super::store::{range_spec, RangeDocument, RangedArray};
use super::strided::{samples, InRows};
use super::volume_map::{VolumeMap, VolumeMapParts};
use super::voxel::Brick;
use super::written_pages::Vacant;
use crate::error::FieldError;
use crate::file::size_of;
use crate::heap_size;
use crate::translate::Translation;
use pager::id::{ArrayId, SourceId};
use pager::place;
use pager::source::Source;
use pager::{Charge, Folder, PageMap, Pager};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// Bytes of a row in a table of chunks.
const ROW: u64 = 24;
/// Limit of a level's voxels along each axis.
const MOST: u64 = 1 << 31;
/// Most file names listed to find chunks that were never written. Takes some tens of milliseconds on a disk.
const LISTED: usize = 1 << 16;
/// Limit of a frame, in bytes.
const MOST_PAGE: u64 = 1 << 31;

/// A volume whose arrays are registered with a pager.
#[derive(Clone)]
pub struct Volume {
    /// The reader's description.
    pub spec: Arc<VolumeSpec>,
    /// Levels, finest first.
    pub levels: Vec<VolumeLevel>,
    /// Samples: every n-th voxel of the coarsest level, finest first. Exist if that level is large and such voxels can
    /// be read alone. Only for pictures with a deadline.
    pub samples: Vec<VolumeLevel>,
    /// Time steps, at least 1.
    pub steps: u32,
    /// Whether all pages have checksums.
    pub checked: bool,
    /// Bytes of all files examined at opening. Chunks of one file each are not included.
    pub file_bytes: u64,
    /// Pages of ranges, of shards' indexes, and of file descriptions.
    pages_beside: u64,
    fills: Arc<AtomicU64>,
    _held: Arc<Charge>,
}

/// Data that all steps of opening use.
struct Opening<'a> {
    spec: &'a VolumeSpec,
    tables: Vec<Arc<[u8]>>,
    pager: &'a Arc<Pager>,
    wrap: &'a dyn Fn(Arc<dyn Source>) -> Arc<dyn Source>,
    fills: Arc<AtomicU64>,
    steps: u32,
    checked: bool,
    file_bytes: u64,
    pages_beside: u64,
    kept: u64,
    /// Arrays of the last opened level that are read by rows.
    in_rows: Vec<InRows>,
}

impl Volume {
    /// Checks a description, registers its files and arrays, and charges their memory. [`PlaceSpec::Table`] numbers `tables`.
    ///
    /// # Errors
    /// [`FieldError::Format`] for a contradictory description, [`FieldError::Io`] for missing files,
    /// [`FieldError::LimitTooSmall`] if the tables exceed the limit.
    pub fn open(spec: VolumeSpec, tables: Vec<Vec<u8>>, pager: &Arc<Pager>) -> Result<Self, FieldError> {
        Self::open_through(spec, tables, pager, &|source| source)
    }

    /// As [`Self::open`], with `wrap` around every source, so that tests can make it slow or faulty.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_through(
        spec: VolumeSpec,
        tables: Vec<Vec<u8>>,
        pager: &Arc<Pager>,
        wrap: &dyn Fn(Arc<dyn Source>) -> Arc<dyn Source>,
    ) -> Result<Self, FieldError> {
        let steps = u32::try_from(spec.times.len().max(1)).map_err(|_| wrong(&spec, "too many time steps"))?;
        let mut kept: u64 = tables.iter().map(heap_size::list).sum::<u64>() + spec_bytes(&spec);
        // Before the tables are examined. They are already in memory, and a refusal frees them.
        let charge = heap_size::charge_volume(pager, kept)?;
        let mut opening = Opening {
            spec: &spec,
            tables: tables.into_iter().map(Arc::from).collect(),
            pager,
            wrap,
            fills: Arc::default(),
            steps,
            checked: true,
            file_bytes: 0,
            pages_beside: 0,
            kept: 0,
            in_rows: Vec::new(),
        };
        check_whole(&spec)?;
        let mut levels = Vec::with_capacity(spec.levels.len());
        for (n, level) in spec.levels.iter().enumerate() {
            levels.push(opening.level(n, level)?);
        }
        let (samples, arrays) = levels.last().map(|l| samples(l, &opening.in_rows, pager)).unwrap_or_default();
        kept += 1024 * arrays;
        if let Some(folder) = &spec.ranges {
            opening.ranges(folder, &mut levels)?;
        }
        opening.vacant_ranges(&mut levels);
        kept += opening.kept;
        let (fills, checked, file_bytes) = (opening.fills, opening.checked, opening.file_bytes);
        let pages_beside = opening.pages_beside;
        let mut charge = charge;
        charge.grow(kept).map_err(heap_size::too_small)?;
        let spec = Arc::new(spec);
        Ok(Self { spec, levels, samples, steps, checked, file_bytes, pages_beside, fills, _held: Arc::new(charge) })
    }

    /// Lookups so far that found a chunk never written.
    pub fn fills(&self) -> u64 {
        self.fills.load(Relaxed)
    }

    /// Number of pages of all levels and steps, with the pager's pages beside the voxels.
    pub fn page_count(&self) -> u64 {
        let arrays = self.levels.iter().flat_map(|l| &l.arrays);
        self.pages_beside + arrays.map(|a| pages_of(a, self.steps)).sum::<u64>()
    }

    /// Bytes from which its pages are read: of its files, or of the voxels if these are more or the files' bytes are
    /// unknown.
    pub fn bytes_to_read(&self) -> u64 {
        self.file_bytes.max(self.bytes())
    }

    /// Bytes of all voxels, of all levels and steps.
    pub fn bytes(&self) -> u64 {
        let arrays = self.levels.iter().flat_map(|l| l.arrays.iter().map(move |a| (l, a)));
        let bytes = arrays.map(|(l, a)| {
            let voxels = l.dims.iter().fold(1u64, |n, of| n.saturating_mul(u64::from(*of)));
            let steps = if a.steady { 1 } else { u64::from(self.steps) };
            voxels.saturating_mul((a.brick.components * a.brick.voxel.size()) as u64).saturating_mul(steps)
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// The number of a channel by its name, or by its number, from 0.
    ///
    /// # Errors
    /// [`FieldError::Unknown`].
    pub fn channel_named(&self, name: &str) -> Result<usize, FieldError> {
        let known: Vec<String> = self.spec.channels.iter().map(|c| c.name.clone()).collect();
        let found = known.iter().position(|k| k == name);
        let found = found.or_else(|| name.parse().ok().filter(|n| *n < known.len()));
        found.ok_or_else(|| FieldError::Unknown { what: "channel", name: name.into(), known })
    }
}

/// Pages of an array, of all steps.
fn pages_of(array: &VolumeArray, steps: u32) -> u64 {
    array.translation.count() * if array.steady { 1 } else { u64::from(steps) }
}

/// An error about the document as a whole.
fn wrong(spec: &VolumeSpec, message: impl Into<String>) -> FieldError {
    FieldError::format(&spec.path, message)
}

/// Upper bound of a document's memory. Its text is longer than its data, except for lists of files.
fn spec_bytes(spec: &VolumeSpec) -> u64 {
    let files = |place: &PlaceSpec| match place {
        PlaceSpec::Planes { files, offsets, .. } => {
            heap_size::texts(files) + offsets.as_ref().map_or(0, heap_size::list)
        }
        PlaceSpec::Table { files, .. } => heap_size::texts(files),
        _ => 0,
    };
    let arrays = spec.levels.iter().flat_map(|l| &l.arrays);
    // Lists of files exist twice: in the document, and as names of a source.
    let arrays = arrays.map(|a| 1024 + 2 * files(&a.place));
    4096 + 512 * spec.channels.len() as u64 + heap_size::list(&spec.times) + arrays.sum::<u64>()
}

/// Checks that need no array.
fn check_whole(spec: &VolumeSpec) -> Result<(), FieldError> {
    let wrong = |m: String| Err(wrong(spec, m));
    if spec.levels.is_empty() || spec.channels.is_empty() {
        return wrong("it has no level, or no channel".into());
    }
    let channels = spec.channels.len();
    match (spec.kind, channels) {
        (VolumeKind::Scalar | VolumeKind::Labels, 1)
        | (VolumeKind::Rgb, 3)
        | (VolumeKind::Rgba, 4)
        | (VolumeKind::Channels, _) => {}
        (kind, n) => return wrong(format!("{n} channels are not what {kind:?} has")),
    }
    if spec.direction.iter().flatten().any(|d| !d.is_finite()) {
        return wrong("its directions are not numbers".into());
    }
    for (n, level) in spec.levels.iter().enumerate() {
        if level.dims.iter().any(|d| *d == 0 || *d >= MOST) {
            return wrong(format!("level {n} has {:?} voxels; each is from 1 to 2147483647", level.dims));
        }
        let ok = |x: &f64| x.is_finite() && *x > 0.0;
        if !level.spacing.iter().all(ok) || level.origin.iter().any(|x| !x.is_finite()) {
            return wrong(format!("level {n}: spacing {:?} and origin {:?}", level.spacing, level.origin));
        }
        let finer = n.checked_sub(1).and_then(|n| spec.levels.get(n));
        if let Some(finer) = finer.filter(|f| (0..3).any(|a| level.dims[a] > f.dims[a])) {
            return wrong(format!(
                "level {n} has more voxels ({:?}) than level {} ({:?})",
                level.dims,
                n - 1,
                finer.dims
            ));
        }
        let mut seen = vec![0usize; channels];
        for c in level.arrays.iter().flat_map(|a| &a.channels) {
            match seen.get_mut(*c) {
                Some(times) => *times += 1,
                None => return wrong(format!("level {n} names channel {c} of {channels}")),
            }
        }
        if let Some(c) = seen.iter().position(|times| *times != 1) {
            return wrong(format!("level {n} has channel '{}' {} times", spec.channels[c].name, seen[c]));
        }
    }
    Ok(())
}

impl Opening<'_> {
    fn level(&mut self, n: usize, level: &LevelSpec) -> Result<VolumeLevel, FieldError> {
        let mut arrays = Vec::new();
        self.in_rows.clear();
        for array in &level.arrays {
            let made = self.array(level.dims, array, true);
            arrays.extend(made.map_err(|e| match e {
                // A sentence about the array. Errors that name a file are clear already.
                FieldError::Usage(m) => wrong(self.spec, format!("level {n}, array '{}': {m}", array.name)),
                other => other,
            })?);
        }
        let direction = self.spec.direction;
        let axes = std::array::from_fn(|a| direction[a].map(|d| d * level.spacing[a]));
        let placement = Placement { origin: level.origin, axes };
        Ok(VolumeLevel { dims: level.dims.map(|d| d as u32), placement, arrays })
    }

    fn add_source(&self, folder: &Arc<Folder>) -> SourceId {
        self.pager.add_source((self.wrap)(folder.clone()))
    }

    /// Registers the ranges of all arrays' pages, which are in `folder` as `range_layouts` of stores says.
    fn ranges(&mut self, folder: &str, levels: &mut [VolumeLevel]) -> Result<(), FieldError> {
        let root = Path::new(folder).parent().unwrap_or(Path::new(""));
        let steps = self.steps;
        let of_level = |(n, level): (usize, &VolumeLevel)| {
            let each = level.arrays.iter().enumerate();
            each.map(|(group, array)| RangedArray::of(n, group, array, steps)).collect::<Vec<_>>()
        };
        let all: Vec<RangedArray> = levels.iter().enumerate().flat_map(of_level).collect();
        // Ranges in the cache may be of pages that another version has cut differently.
        if RangeDocument::at(root).is_some_and(|known| known.arrays != all) {
            return Ok(());
        }
        for (n, level) in levels.iter_mut().enumerate() {
            for (group, array) in level.arrays.iter_mut().enumerate() {
                let ranged = RangedArray::of(n, group, array, self.steps);
                for layout in ranged.layouts() {
                    let dims = layout.grid.paging.dims.map(|n| n as u64);
                    let made = self.array(dims, &range_spec(root, &layout), false);
                    let made = made.map_err(|e| match e {
                        FieldError::Usage(m) => wrong(self.spec, format!("'{}': {m}", layout.path)),
                        other => other,
                    })?;
                    self.pages_beside += made.iter().map(|a| pages_of(a, self.steps)).sum::<u64>();
                    array.ranges.extend(made.iter().map(|a| RangeLevel { id: a.id, translation: a.translation }));
                }
                if let Some(valued) = &mut array.valued {
                    valued.ranges.clone_from(&array.ranges);
                }
            }
        }
        Ok(())
    }

    /// Without stored ranges, adds those of pages that were never written, which cost nothing.
    fn vacant_ranges(&mut self, levels: &mut [VolumeLevel]) {
        for array in levels.iter_mut().flat_map(|l| &mut l.arrays).filter(|a| a.ranges.is_empty()) {
            let Some(vacant) = &array.vacant else { continue };
            for (translation, map) in vacant.ranges(&array.name) {
                self.kept += 1024;
                array.ranges.push(RangeLevel { id: self.beside(map), translation });
            }
            if let Some(valued) = &mut array.valued {
                valued.ranges.clone_from(&array.ranges);
            }
        }
    }

    /// Arrays of pages of an array of a level of `dims` voxels, with or without ranges of blocks after the voxels.
    fn array(&mut self, dims: [u64; 3], spec: &ArraySpec, blocks: bool) -> Result<Vec<VolumeArray>, FieldError> {
        let shape = ArrayShape::new(spec).map_err(FieldError::Usage)?;
        for (d, name) in [(X, 'i'), (Y, 'j'), (Z, 'k')] {
            if shape.shape[d] != dims[d] {
                let (has, wanted) = (shape.shape[d], dims[d]);
                return Err(usage(format!("{has} voxels along {name} where the level has {wanted}")));
            }
        }
        if shape.shape[C] != spec.channels.len() as u64 {
            return Err(usage(format!("{} components for {} channels", shape.shape[C], spec.channels.len())));
        }
        let steady = shape.shape[T] == 1;
        if !steady && shape.shape[T] != u64::from(self.steps) {
            return Err(usage(format!("{} time steps where the volume has {}", shape.shape[T], self.steps)));
        }
        let fill = spec.fill.map(|fill| element(shape.stored, fill)).transpose().map_err(FieldError::Usage)?;
        let chain = Chain::new(&spec.codecs, shape.stored.element(), chunk_of(&shape), shape.image());
        let chain = chain.map_err(FieldError::Usage)?;
        self.checked &= chain.checked();
        let chunks = Arc::new(self.chunks(spec, shape, &chain)?);
        let shape = &chunks.shape;
        // Contiguous data and large uncompressed chunks are read by rows. Other pages are made of whole chunks.
        let one = matches!(chunks.place, ChunkLocation::Contiguous { .. } | ChunkLocation::Planes { .. });
        let by_rows = one || spec.codecs.is_empty() && shape.chunk_bytes() >= LARGE;
        if one && !spec.codecs.is_empty() {
            return Err(usage("what is contiguous has no codecs; a chunk of all of it may have".into()));
        }
        // Channels become separate arrays if they can be read separately, so that one does not cost the others.
        let colours = matches!(self.spec.kind, VolumeKind::Rgb | VolumeKind::Rgba);
        let apart = !colours && (shape.chunk[C] == 1 || by_rows && shape.strides[C] != 1);
        let all = spec.channels.len();
        let each = if apart { 1 } else { all };
        let mut made = Vec::new();
        for first in (0..all).step_by(each) {
            let page = if by_rows {
                row_box(shape, each as u64)
            } else {
                chunk_box(shape, matches!(chunks.place, ChunkLocation::Table { .. }))
            };
            let brick = Brick { page, components: each, voxel: shape.stored.voxel };
            check_page(&brick)?;
            let translation = Translation::new(dims.map(|n| n as usize), page.map(|n| n as usize));
            let name = if apart && all > 1 {
                format!("{} channel {}", spec.name, self.spec.channels[spec.channels[first]].name)
            } else {
                spec.name.clone()
            };
            let common = VolumeMapParts {
                name: name.clone(),
                chunks: chunks.clone(),
                brick,
                translation,
                first_component: first as u64,
                fill: fill.clone(),
                ranges: blocks,
                fills: self.fills.clone(),
            };
            let map = |common| -> Arc<dyn PageMap> {
                if by_rows {
                    Arc::new(VolumeMap(RowMap { common }))
                } else {
                    Arc::new(VolumeMap(ChunkMap { common, chain: chain.clone() }))
                }
            };
            self.kept += 1024;
            let channels = spec.channels[first..first + each].to_vec();
            // Pages of ranges have no missing values.
            let missing = channels.iter().filter(|_| blocks).map(|c| &self.spec.channels[*c].missing);
            let missing: Vec<_> = missing.map(|m| m.stored(brick.voxel)).collect();
            let vacant = fill.as_ref().filter(|_| blocks).and_then(|f| Vacant::new(&common, by_rows, f));
            let mut array = VolumeArray {
                name,
                id: self.pager.add_array(map(common.clone())),
                translation,
                brick,
                channels,
                steady,
                ranges: Vec::new(),
                missing,
                valued: None,
                vacant,
                shards: ShardPages::new(&common),
                row_group: if by_rows { row_group(shape, page) } else { None },
            };
            if !array.missing.iter().all(Missing::is_none) {
                let brick = ValuePages::brick(brick);
                check_page(&brick)?;
                let stored = map(VolumeMapParts { ranges: false, ..common.clone() });
                let pages = ValuePages::new(stored, array.brick, translation, &array.missing);
                self.kept += 1024;
                let id = self.pager.add_array(Arc::new(pages));
                array.valued = Some(Box::new(VolumeArray { id, brick, ..array.clone() }));
            }
            if one && blocks {
                self.in_rows.push(InRows { common, array: array.clone() });
            }
            made.push(array);
        }
        Ok(made)
    }

    /// Finds the files and determines the places of chunks in them.
    fn chunks(&mut self, spec: &ArraySpec, shape: ArrayShape, chain: &Chain) -> Result<Chunks, FieldError> {
        let dims = |of: [u64; 5]| shape.dims.iter().map(|d| of[*d]).collect::<Vec<u64>>();
        let mut grid = shape.grid;
        let mut per = [1u64; 5];
        if let PlaceSpec::Shards { shard, .. } = &spec.place {
            if shard.len() != shape.dims.len() {
                return Err(usage(format!("a shard of {shard:?} must have a number for each of '{}'", spec.axes)));
            }
            for (d, n) in shape.dims.iter().zip(shard) {
                if *n == 0 || !n.is_multiple_of(shape.chunk[*d]) {
                    return Err(usage(format!("shards of {shard:?} are no whole chunks of {:?}", spec.chunk)));
                }
                per[*d] = n / shape.chunk[*d];
                grid[*d] = shape.shape[*d].div_ceil(*n);
            }
        }
        let slots = per.iter().try_fold(ENTRY as u64, |n, p| n.checked_mul(*p)).filter(|n| *n < MOST_PAGE);
        let slots = slots.ok_or_else(|| usage("a shard has too many chunks".into()))? as usize / ENTRY;
        // Large uncompressed chunks are read by rows.
        let whole = !spec.codecs.is_empty() || shape.chunk_bytes() < LARGE;
        let usual = if whole { usual_len(&spec.place, shape.chunk_bytes()) } else { 0 };
        let folder = self.pager.folder(names(&spec.place, dims(grid), shard_index(&spec.place, slots), usual));
        let folder = folder.map_err(|e| usage(e.to_string()))?;
        let source = self.add_source(&folder);
        let keyed = matches!(spec.place, PlaceSpec::Keys { .. } | PlaceSpec::Shards { .. });
        let there =
            (keyed && spec.fill.is_some()).then(|| folder.names().there(LISTED)).flatten().map(Arc::<[u64]>::from);
        self.kept += there.as_ref().map_or(0, |t| 8 * t.len() as u64);
        let place = match &spec.place {
            PlaceSpec::Contiguous { file, offset } => {
                self.long_enough(file, *offset, shape.chunk_bytes())?;
                ChunkLocation::Contiguous { offset: *offset }
            }
            PlaceSpec::Planes { files, offset, offsets } => {
                if files.len() as u64 != shape.chunks() {
                    return Err(usage(format!("{} files for {} planes", files.len(), shape.chunks())));
                }
                if offsets.as_ref().is_some_and(|o| o.len() != files.len()) {
                    return Err(usage("there must be as many offsets as files".into()));
                }
                for (n, file) in files.iter().enumerate() {
                    let own = offsets.as_ref().map_or(*offset, |o| o[n]);
                    self.long_enough(file, own, shape.chunk_bytes())?;
                }
                ChunkLocation::Planes { offset: *offset, offsets: offsets.clone() }
            }
            PlaceSpec::Table { files, table } => {
                let rows = self.tables.get(*table).cloned();
                let rows = rows.ok_or_else(|| usage(format!("there is no table {table}")))?;
                self.check_table(files, &rows, &shape, spec.fill.is_some(), chain)?;
                ChunkLocation::Table { rows }
            }
            PlaceSpec::Keys { prefix, .. } => {
                self.folder_there(prefix, spec.fill.is_some())?;
                let name = format!("{} sizes of chunks", spec.name);
                let about = self.beside(Abouts { name, folder: folder.clone(), source });
                ChunkLocation::Keys { about }
            }
            PlaceSpec::Shards { prefix, index_crc32c, root, .. } => {
                self.folder_there(prefix, spec.fill.is_some())?;
                let grid = ShardGrid { per, shards: grid };
                let index = self.beside(ShardIndexes {
                    name: format!("{} index", spec.name),
                    folder: folder.clone(),
                    source,
                    slots,
                    crc: *index_crc32c,
                    root: root.as_ref().map(PathBuf::from),
                    may_miss: spec.fill.is_some(),
                });
                ChunkLocation::Shards { index, grid }
            }
        };
        Ok(Chunks { shape, place, folder, source, there })
    }

    /// Registers an array beside the voxels, and counts its pages.
    fn beside(&mut self, map: impl PageMap + 'static) -> ArrayId {
        self.pages_beside = self.pages_beside.saturating_add(map.pages());
        self.pager.add_array(Arc::new(map))
    }

    /// Checks that a file has `bytes` bytes from `offset` on.
    fn long_enough(&mut self, file: &str, offset: u64, bytes: u64) -> Result<(), FieldError> {
        let size = size_of(Path::new(file))?;
        self.file_bytes = self.file_bytes.saturating_add(size);
        match offset.checked_add(bytes) {
            Some(end) if end <= size => Ok(()),
            _ => Err(FieldError::format(
                file,
                format!("the data are {bytes} bytes from byte {offset} on, and the file has {size}: it is not whole"),
            )),
        }
    }

    /// Checks the files of a table of chunks, and that each chunk lies in its file.
    fn check_table(
        &mut self,
        files: &[String],
        rows: &[u8],
        shape: &ArrayShape,
        may_miss: bool,
        chain: &Chain,
    ) -> Result<(), FieldError> {
        if Some(rows.len() as u64) != shape.chunks().checked_mul(ROW) {
            return Err(usage(format!("a table of {} bytes for {} chunks of {ROW} each", rows.len(), shape.chunks())));
        }
        let sizes = files.iter().map(|f| size_of(Path::new(f))).collect::<Result<Vec<u64>, _>>()?;
        self.file_bytes = sizes.iter().fold(self.file_bytes, |sum, n| sum.saturating_add(*n));
        let most = chain.most_encoded();
        for number in 0..shape.chunks() {
            let Some([file, offset, len]) = row(rows, number) else { continue };
            if len == 0 {
                if may_miss {
                    continue;
                }
                return Err(usage(format!("chunk {:?} is not there", shape.indices(number))));
            }
            let at = usize::try_from(file).ok().filter(|f| *f < files.len());
            let at = at.ok_or_else(|| {
                usage(format!("chunk {:?} is in file {file} of {}", shape.indices(number), files.len()))
            })?;
            if offset.checked_add(len).is_none_or(|end| end > sizes[at]) {
                return Err(FieldError::format(
                    &files[at],
                    format!(
                        "chunk {:?} is {len} bytes from byte {offset} on, and the file has {}: it is not whole",
                        shape.indices(number),
                        sizes[at]
                    ),
                ));
            }
            if len > most {
                let chunk = shape.chunk_bytes();
                let m = format!("chunk {:?} has {len} bytes for {chunk} decoded", shape.indices(number));
                return Err(FieldError::format(&files[at], m));
            }
        }
        Ok(())
    }

    /// Checks the folder of files named by their place. If all files may be missing, so may the folder.
    fn folder_there(&self, prefix: &str, may_miss: bool) -> Result<(), FieldError> {
        let folder = match prefix.rfind('/') {
            Some(0) => Path::new("/"),
            Some(at) => Path::new(&prefix[..at]),
            None => Path::new("."),
        };
        if place::is_remote(folder) {
            // A place may have no folders, only names. Each missing file is an error of its own.
            return Ok(());
        }
        match std::fs::metadata(folder) {
            Ok(m) if m.is_dir() => Ok(()),
            Ok(_) => Err(FieldError::format(folder, "this is no folder; chunks should lie in it")),
            Err(e) if may_miss && e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(FieldError::io(folder, e)),
        }
    }
}

fn usage(message: String) -> FieldError {
    FieldError::Usage(message)
}

/// Bytes of a chunk, for a chain. Contiguous data are never decoded as a whole.
fn chunk_of(shape: &ArrayShape) -> usize {
    usize::try_from(shape.chunk_bytes()).unwrap_or(usize::MAX)
}

/// Checks that a frame has a supported size.
fn check_page(brick: &Brick) -> Result<(), FieldError> {
    let voxels: u64 = brick.page.iter().map(|n| u64::from(*n)).product();
    let bytes = voxels.checked_mul((brick.components * brick.voxel.size()) as u64);
    if bytes.is_none_or(|b| b >= MOST_PAGE) {
        return Err(usage(format!("a page of {:?} voxels of {} numbers is too large", brick.page, brick.components)));
    }
    Ok(())
}
