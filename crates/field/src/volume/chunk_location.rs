//! Places of chunks: files, offsets, indexes.

use super::shape::{indices, ArrayShape};
use super::spec::PlaceSpec;
use crate::store::layout::NAME_BYTES;
use crate::store::{check_crc, check_name};
use pager::error::{PageError, PageErrorKind};
use pager::id::{ArrayId, PageId, SourceId};
use pager::map::{Extent, ExtentTarget, Located, PageMap};
use pager::source::folder::{About, FileIndex, ABOUT_BYTES};
use pager::{FileNames, Folder};
use std::path::PathBuf;
use std::sync::Arc;

/// Local files described in one page, because neighbours are usually needed soon, and a query takes a microsecond.
const LOCAL_ABOUTS: u64 = 16;
/// Bytes of an entry of a shard's index.
pub(super) const ENTRY: usize = 16;
const CRC: usize = 4;

/// Files listed by name.
pub(super) struct ListedFiles(pub(super) Vec<PathBuf>);

impl FileNames for ListedFiles {
    fn describe(&self) -> String {
        self.0.first().map_or_else(String::new, |p| p.display().to_string())
    }
    fn count(&self) -> u64 {
        self.0.len() as u64
    }
    fn path(&self, number: u64) -> PathBuf {
        usize::try_from(number).ok().and_then(|n| self.0.get(n)).cloned().unwrap_or_default()
    }
}

/// Files named by their place in a grid.
pub(super) struct GridFiles {
    pub(super) prefix: String,
    pub(super) separator: String,
    /// Slowest dimension first.
    pub(super) grid: Vec<u64>,
    pub(super) index: Option<FileIndex>,
    /// As [`FileNames::usual_len`].
    pub(super) usual_len: usize,
}

impl FileNames for GridFiles {
    fn describe(&self) -> String {
        self.prefix.clone()
    }
    fn count(&self) -> u64 {
        self.grid.iter().product()
    }
    fn path(&self, number: u64) -> PathBuf {
        let at: Vec<String> = indices(number, &self.grid).iter().map(u64::to_string).collect();
        format!("{}{}", self.prefix, at.join(&self.separator)).into()
    }
    fn index(&self) -> Option<FileIndex> {
        self.index
    }
    fn usual_len(&self) -> usize {
        self.usual_len
    }
    fn there(&self, most: usize) -> Option<Vec<u64>> {
        super::folder_listing::listed(&self.prefix, &self.separator, &self.grid, most)
    }
}

/// Place of one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChunkExtent {
    /// From this byte of the source on.
    At {
        offset: u64,
        len: u64,
    },
    /// Never written, in formats that allow it.
    Absent,
    Need(PageId),
    Failed(PageErrorKind),
}

/// The way to find chunks.
pub(super) enum ChunkLocation {
    /// One piece.
    Contiguous { offset: u64 },
    /// One file each.
    Planes { offset: u64, offsets: Option<Vec<u64>> },
    /// Rows of file, offset and length.
    Table { rows: Arc<[u8]> },
    /// One file each; pages of array `about` have their lengths.
    Keys { about: ArrayId },
    /// In shards; pages of array `index` have the places of their chunks.
    Shards { index: ArrayId, grid: ShardGrid },
}

/// Files described in one page. Each query of a remote file is a request of its own.
fn abouts(folder: &Folder) -> u64 {
    if folder.is_remote() {
        1
    } else {
        LOCAL_ABOUTS
    }
}

/// Grouping of chunks in shards.
#[derive(Clone, Debug)]
pub(super) struct ShardGrid {
    /// Chunks a shard along x, y, z, c, t.
    pub(super) per: [u64; 5],
    /// Shards.
    pub(super) shards: [u64; 5],
}

/// Place, source and shape together.
pub(super) struct Chunks {
    pub(super) shape: ArrayShape,
    pub(super) place: ChunkLocation,
    pub(super) folder: Arc<Folder>,
    pub(super) source: SourceId,
    /// Sorted numbers of all existing files, if their folders were listed. Chunks of other files were never written.
    pub(super) there: Option<Arc<[u64]>>,
}

impl Chunks {
    /// Whether a chunk is known, without reading, to be never written.
    pub(super) fn never(&self, at: [u64; 5]) -> bool {
        match (&self.place, &self.there) {
            (ChunkLocation::Table { rows }, _) => row(rows, self.shape.number(at)).is_some_and(|r| r[2] == 0),
            (_, Some(there)) => there.binary_search(&self.file(at)).is_err(),
            _ => false,
        }
    }

    /// Chunks of one file along x, y, z, c, t.
    pub(super) fn per_file(&self) -> [u64; 5] {
        match &self.place {
            ChunkLocation::Shards { grid, .. } => grid.per,
            _ => [1; 5],
        }
    }

    /// The place of a file in the grid of files, along x, y, z, c, t.
    pub(super) fn file_at(&self, number: u64) -> [u64; 5] {
        let grid = match &self.place {
            ChunkLocation::Shards { grid, .. } => grid.shards,
            _ => self.shape.grid,
        };
        let (mut rest, mut at) = (number, [0; 5]);
        for d in self.shape.dims.iter().rev() {
            at[*d] = rest % grid[*d];
            rest /= grid[*d];
        }
        at
    }

    /// The number of the file that holds a chunk, as far as it is known without reading.
    fn file(&self, at: [u64; 5]) -> u64 {
        match &self.place {
            ChunkLocation::Contiguous { .. } => 0,
            ChunkLocation::Planes { .. } | ChunkLocation::Keys { .. } => self.shape.number(at),
            ChunkLocation::Table { rows } => row(rows, self.shape.number(at)).map_or(0, |r| r[0]),
            ChunkLocation::Shards { grid, .. } => self.split(grid, at).0,
        }
    }

    /// Number of a chunk's shard, and of the chunk in it.
    pub(super) fn split(&self, grid: &ShardGrid, at: [u64; 5]) -> (u64, u64) {
        let number = |of: &dyn Fn(usize) -> [u64; 2]| {
            self.shape.dims.iter().fold(0, |n, d| {
                let [at, count] = of(*d);
                n * count + at
            })
        };
        let shard = number(&|d| [at[d] / grid.per[d], grid.shards[d]]);
        (shard, number(&|d| [at[d] % grid.per[d], grid.per[d]]))
    }

    /// Place of a chunk.
    pub(super) fn entry(&self, at: [u64; 5], index: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> ChunkExtent {
        let number = self.shape.number(at);
        if self.there.is_some() && self.never(at) {
            return ChunkExtent::Absent;
        }
        match &self.place {
            ChunkLocation::Contiguous { offset } => ChunkExtent::At { offset: *offset, len: self.shape.chunk_bytes() },
            ChunkLocation::Planes { offset, offsets } => {
                let own = offsets.as_ref().and_then(|o| o.get(usize::try_from(number).ok()?));
                let place = self.folder.place(number).checked_add(*own.unwrap_or(offset));
                place.map_or(beyond(), |offset| ChunkExtent::At { offset, len: self.shape.chunk_bytes() })
            }
            ChunkLocation::Table { rows } => match row(rows, number) {
                None => ChunkExtent::Failed(PageErrorKind::Decode("the table of chunks has no such row".into())),
                Some([_, _, 0]) => ChunkExtent::Absent,
                Some([file, offset, len]) => match self.folder.place(file).checked_add(offset) {
                    Some(offset) => ChunkExtent::At { offset, len },
                    None => beyond(),
                },
            },
            ChunkLocation::Keys { about } => {
                let group = abouts(&self.folder);
                let wanted = PageId::new(*about, 0, number / group);
                let Some(bytes) = index(wanted) else { return ChunkExtent::Need(wanted) };
                // SAFETY: the pager gives the bytes of a resident page, which stay while `locate` runs.
                let bytes = unsafe { &*bytes };
                match bytes.get((number % group) as usize * ABOUT_BYTES..).and_then(About::parse) {
                    Some(About::There(len)) if len < self.folder.longest() => {
                        ChunkExtent::At { offset: self.folder.place(number), len }
                    }
                    Some(About::Missing) => ChunkExtent::Absent,
                    other => ChunkExtent::Failed(other.and_then(About::error).unwrap_or_else(too_long)),
                }
            }
            ChunkLocation::Shards { index: array, grid } => {
                let (shard, slot) = self.split(grid, at);
                let wanted = PageId::new(*array, 0, shard);
                let Some(bytes) = index(wanted) else {
                    // A codec makes few chunks longer, and none by much.
                    let longest = self.shape.chunk_bytes() + self.shape.chunk_bytes() / 4 + 1024;
                    let longest = usize::try_from(longest).unwrap_or(usize::MAX);
                    self.folder.want_entry(shard, slot as usize * ENTRY, longest);
                    return ChunkExtent::Need(wanted);
                };
                // SAFETY: as above.
                let bytes = unsafe { &*bytes };
                let words = bytes.get(slot as usize * ENTRY..).and_then(|b| b.as_chunks::<8>().0.first_chunk::<2>());
                match words.map(|w| w.map(u64::from_le_bytes)) {
                    None => ChunkExtent::Failed(PageErrorKind::Decode("the index of the shard is too short".into())),
                    Some([u64::MAX, u64::MAX]) => ChunkExtent::Absent,
                    Some([offset, len]) if offset.checked_add(len).is_none_or(|end| end > self.folder.longest()) => {
                        ChunkExtent::Failed(PageErrorKind::Decode(format!(
                            "the index of the shard says {len} bytes from {offset} on"
                        )))
                    }
                    Some([offset, len]) => ChunkExtent::At { offset: self.folder.place(shard) + offset, len },
                }
            }
        }
    }

    /// Name of a chunk in errors: its file and its place.
    pub(super) fn describe(&self, array: &str, at: [u64; 5]) -> String {
        let file = self.folder.names().path(self.file(at));
        let place: Vec<String> = self.shape.dims.iter().map(|d| at[*d].to_string()).collect();
        match self.place {
            ChunkLocation::Contiguous { .. } | ChunkLocation::Planes { .. } => format!("{}: {array}", file.display()),
            _ => format!("{}: {array} chunk ({})", file.display(), place.join(", ")),
        }
    }
}

fn beyond() -> ChunkExtent {
    ChunkExtent::Failed(too_long())
}

fn too_long() -> PageErrorKind {
    PageErrorKind::Decode("the file is longer than can be addressed".into())
}

/// A row of a table of chunks.
pub(super) fn row(rows: &[u8], number: u64) -> Option<[u64; 3]> {
    let at = usize::try_from(number).ok()?.checked_mul(24)?;
    let words = rows.get(at..at.checked_add(24)?)?.as_chunks::<8>().0.first_chunk::<3>()?;
    Some(words.map(u64::from_le_bytes))
}

/// Descriptions of files, several a page.
pub(super) struct Abouts {
    pub(super) name: String,
    pub(super) folder: Arc<Folder>,
    pub(super) source: SourceId,
}

impl PageMap for Abouts {
    fn name(&self) -> &str {
        &self.name
    }
    fn pages(&self) -> u64 {
        self.folder.names().count().div_ceil(abouts(&self.folder))
    }
    fn page_bytes(&self, _: PageId) -> usize {
        abouts(&self.folder) as usize * ABOUT_BYTES
    }
    fn locate(&self, page: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        let first = page.page * abouts(&self.folder);
        let count = abouts(&self.folder).min(self.folder.names().count().saturating_sub(first));
        let len = count as usize * ABOUT_BYTES;
        let segment = Extent { source: self.source, offset: self.folder.about(first), len, to: ExtentTarget::Frame(0) };
        Located::Extents { segments: vec![segment], encoded_len: 0, scratch_len: 0, found: Box::default() }
    }
    fn decode(&self, page: PageId, _: &[u64], _: &[u8], _: &mut [u8], frame: &mut [u8]) -> Result<(), PageError> {
        let group = abouts(&self.folder);
        let count = group.min(self.folder.names().count().saturating_sub(page.page * group));
        frame[count as usize * ABOUT_BYTES..].fill(0xff);
        Ok(())
    }
    fn fill(&self, _: PageId, frame: &mut [u8]) {
        // Never called: `locate` never returns `Fill`.
        frame.fill(0xff);
    }
    fn checked(&self) -> bool {
        false
    }
}

/// Indexes of shards. A page has one shard's entries, as in the file.
pub(super) struct ShardIndexes {
    pub(super) name: String,
    pub(super) folder: Arc<Folder>,
    pub(super) source: SourceId,
    pub(super) slots: usize,
    pub(super) crc: bool,
    /// The root of a Farfield store. Its shards have a checksum of their name below the root.
    pub(super) root: Option<PathBuf>,
    /// Whether a missing shard is one without chunks.
    pub(super) may_miss: bool,
}

impl ShardIndexes {
    fn error(&self, page: PageId, kind: PageErrorKind) -> PageError {
        PageError::new(self.page_name(page), kind)
    }
}

impl PageMap for ShardIndexes {
    fn name(&self) -> &str {
        &self.name
    }
    fn page_name(&self, page: PageId) -> String {
        format!("{}: {} of the shard", self.folder.names().path(page.page).display(), self.name)
    }
    fn pages(&self) -> u64 {
        self.folder.names().count()
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.slots * ENTRY
    }
    fn locate(&self, page: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        let Some(index) = self.folder.names().index() else {
            return Located::Failed(self.error(page, PageErrorKind::Decode("its files have no index".into())));
        };
        let (source, entries) = (self.source, self.slots * ENTRY);
        let begin = self.folder.index(page.page);
        let after = begin + (ABOUT_BYTES + entries) as u64;
        let beside = index.len - entries;
        let mut segments = vec![
            Extent { source, offset: begin, len: ABOUT_BYTES, to: ExtentTarget::Encoded(0) },
            Extent { source, offset: begin + ABOUT_BYTES as u64, len: entries, to: ExtentTarget::Frame(0) },
        ];
        if beside > 0 {
            segments.push(Extent { source, offset: after, len: beside, to: ExtentTarget::Encoded(ABOUT_BYTES) });
        }
        Located::Extents { segments, encoded_len: ABOUT_BYTES + beside, scratch_len: 0, found: Box::default() }
    }
    fn decode(&self, page: PageId, _: &[u64], encoded: &[u8], _: &mut [u8], frame: &mut [u8]) -> Result<(), PageError> {
        let about = About::parse(encoded);
        let index = self.folder.names().index().map_or(0, |index| index.len as u64);
        match about {
            Some(About::There(size)) if size >= self.folder.longest() => return Err(self.error(page, too_long())),
            Some(About::There(size)) if size < index => {
                let m = format!("the file has {size} bytes, its index alone takes {index}");
                return Err(self.error(page, PageErrorKind::Decode(m)));
            }
            Some(About::There(_)) => {}
            Some(About::Missing) if self.may_miss => {
                frame.fill(0xff);
                return Ok(());
            }
            other => {
                return Err(self.error(page, other.and_then(About::error).unwrap_or(PageErrorKind::Missing)));
            }
        }
        let Some(&[a, b, c, d, ref said @ ..]) = encoded.get(ABOUT_BYTES..).filter(|_| self.crc) else { return Ok(()) };
        check_crc(frame, u32::from_le_bytes([a, b, c, d])).map_err(|kind| self.error(page, kind))?;
        let path = self.folder.names().path(page.page);
        if let Some(name) = self.root.as_ref().and_then(|root| path.strip_prefix(root).ok()) {
            check_name(&name.to_string_lossy(), frame, said).map_err(|kind| self.error(page, kind))?;
        }
        Ok(())
    }
    fn fill(&self, _: PageId, frame: &mut [u8]) {
        // Never called: `locate` never returns `Fill`.
        frame.fill(0xff);
    }
    fn checked(&self) -> bool {
        self.crc
    }
}

/// The index of a shard with so many chunks.
pub(super) fn shard_index(place: &PlaceSpec, slots: usize) -> Option<FileIndex> {
    let PlaceSpec::Shards { index_crc32c, index_at_end, root, .. } = place else { return None };
    let crc = if *index_crc32c { CRC } else { 0 };
    let name = if *index_crc32c && root.is_some() { NAME_BYTES } else { 0 };
    Some(FileIndex { len: slots * ENTRY + crc + name, at_end: *index_at_end })
}

/// Bytes of a file of one chunk in general: no codec adds more than an eighth to numbers that it cannot pack. 0: the files
/// of the place have more than one chunk, or less.
pub(super) fn usual_len(place: &PlaceSpec, chunk_bytes: u64) -> usize {
    if !matches!(place, PlaceSpec::Keys { .. }) {
        return 0;
    }
    usize::try_from(chunk_bytes + chunk_bytes / 8).unwrap_or(usize::MAX).saturating_add(1024)
}

/// The files of a place. `usual_len`: of files that are read whole, else 0.
pub(super) fn names(
    place: &PlaceSpec,
    grid: Vec<u64>,
    index: Option<FileIndex>,
    usual_len: usize,
) -> Arc<dyn FileNames> {
    let listed = |files: &[String]| Arc::new(ListedFiles(files.iter().map(PathBuf::from).collect()));
    match place {
        PlaceSpec::Contiguous { file, .. } => Arc::new(ListedFiles(vec![file.into()])),
        PlaceSpec::Planes { files, .. } | PlaceSpec::Table { files, .. } => listed(files),
        PlaceSpec::Keys { prefix, separator } | PlaceSpec::Shards { prefix, separator, .. } => {
            Arc::new(GridFiles { prefix: prefix.clone(), separator: separator.clone(), grid, index, usual_len })
        }
    }
}
