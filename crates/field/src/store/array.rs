//! Page maps of the store. A page is located by its shard's index, which is itself a page.

use super::codec::{check_crc, checked_body, to_native, Codec, CRC_BYTES};
use super::layout::{name_checksum, ArrayLayout, ShardForm, ABSENT, ENTRY_BYTES, NAME_BYTES};
use crate::interleave::interleave;
use pager::error::{PageError, PageErrorKind};
use pager::id::{ArrayId, PageId, SourceId};
use pager::map::{Extent, ExtentTarget, Located, PageMap};
use pager::source::folder::FileIndex;
use pager::{FileNames, Folder};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Data common to an array's two page maps.
pub(super) struct ArrayFiles {
    /// The store.
    pub root: Arc<Path>,
    /// Shape, pages, shards.
    pub layout: ArrayLayout,
    /// Shard `shard` of step `step` has number `step * shards + shard`.
    pub sources: ShardSources,
}

/// The sources of an array's shards.
pub(super) enum ShardSources {
    /// Local files, one source each.
    Each(Vec<SourceId>),
    /// Remote files, all in one source.
    Folder(SourceId, Arc<Folder>),
}

/// The names of an array's shards.
pub(super) struct ShardNames {
    pub root: Arc<Path>,
    pub layout: ArrayLayout,
}

impl FileNames for ShardNames {
    fn describe(&self) -> String {
        self.root.join(&self.layout.path).display().to_string()
    }
    fn count(&self) -> u64 {
        self.layout.shard_count()
    }
    fn path(&self, number: u64) -> PathBuf {
        let shards = self.layout.grid.count().max(1);
        self.root.join(self.layout.shard_path((number / shards) as usize, number % shards))
    }
    fn index(&self) -> Option<FileIndex> {
        Some(FileIndex { len: self.layout.grid.slots() * ENTRY_BYTES + BESIDE, at_end: false })
    }
}

impl ArrayFiles {
    /// The source of a shard, and the place in it where the shard begins.
    fn source(&self, step: u32, shard: u64) -> Option<(SourceId, u64)> {
        let count = self.layout.grid.count();
        if shard >= count {
            return None;
        }
        let number = u64::from(step) * count + shard;
        match &self.sources {
            ShardSources::Each(sources) => Some((*sources.get(usize::try_from(number).ok()?)?, 0)),
            ShardSources::Folder(source, folder) => Some((*source, folder.place(number))),
        }
    }

    /// The place of a shard's bytes in its source, if they end before the next shard begins.
    fn within(&self, base: u64, offset: u64, len: u64) -> Option<u64> {
        let room = match &self.sources {
            ShardSources::Each(_) => u64::MAX,
            ShardSources::Folder(_, folder) => folder.longest(),
        };
        offset.checked_add(len).filter(|end| *end <= room)?;
        base.checked_add(offset)
    }

    /// An error about a page of the data.
    fn page_error(&self, page: PageId, kind: PageErrorKind) -> PageError {
        let at = self.layout.grid.paging.coords(page.page);
        let shard = self.layout.grid.locate(at).0;
        let file = self.root.join(self.layout.shard_path(page.step as usize, shard));
        PageError::new(format!("{}, page (i {}, j {}, k {})", file.display(), at[0], at[1], at[2]), kind)
    }

    /// An error about a shard's index.
    fn index_error(&self, page: PageId, kind: PageErrorKind) -> PageError {
        let file = self.root.join(self.layout.shard_path(page.step as usize, page.page));
        PageError::new(format!("{}, index", file.display()), kind)
    }
}

/// Bytes of an index beside its entries.
const BESIDE: usize = CRC_BYTES + NAME_BYTES;

/// The shard indexes of one array: page number is shard number. A page holds the index entries, offset and length of
/// each slot as native 64-bit words.
pub struct ShardIndex {
    pub(super) files: Arc<ArrayFiles>,
    pub(super) name: String,
}

impl PageMap for ShardIndex {
    fn name(&self) -> &str {
        &self.name
    }

    fn pages(&self) -> u64 {
        self.files.layout.grid.count()
    }

    fn page_bytes(&self, _page: PageId) -> usize {
        self.files.layout.grid.slots() * ENTRY_BYTES
    }

    fn locate(&self, page: PageId, _index: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        let Some((source, base)) = self.files.source(page.step, page.page) else {
            return Located::Failed(self.files.index_error(page, PageErrorKind::Missing));
        };
        let bytes = self.page_bytes(page);
        let segments = vec![
            Extent { source, offset: base, len: bytes, to: ExtentTarget::Frame(0) },
            Extent { source, offset: base + bytes as u64, len: BESIDE, to: ExtentTarget::Encoded(0) },
        ];
        Located::Extents { segments, encoded_len: BESIDE, scratch_len: 0, found: Box::default() }
    }

    fn decode(
        &self,
        page: PageId,
        _: &[u64],
        encoded: &[u8],
        _scratch: &mut [u8],
        frame: &mut [u8],
    ) -> Result<(), PageError> {
        let layout = &self.files.layout;
        let name = layout.shard_path(page.step as usize, page.page);
        check_index(&layout.form(), page.page, &name, frame, encoded)
            .map(drop)
            .map_err(|kind| self.files.index_error(page, kind))?;
        to_native(8, frame);
        Ok(())
    }

    fn fill(&self, _page: PageId, frame: &mut [u8]) {
        // Never called: `locate` never returns `Fill`. All ones is an index without pages, so every page would fail.
        frame.fill(0xff);
    }

    fn checked(&self) -> bool {
        true
    }
}

/// Checks a shard's index against its checksum and the shard's form. It must list all pages that belong to the shard,
/// contiguous and in the order of their slots. The codec must allow each length.
///
/// `beside` has the checksums after the entries: the index's, and the one of the shard's `name`. The latter detects a
/// file exchanged with another of equal shape. Returns the required end of the shard.
///
/// # Errors
/// [`PageErrorKind::Checksum`] or [`PageErrorKind::Decode`].
pub fn check_index(
    form: &ShardForm<'_>,
    shard: u64,
    name: &str,
    entries: &[u8],
    beside: &[u8],
) -> Result<u64, PageErrorKind> {
    let bad = |m: String| PageErrorKind::Decode(m);
    let grid = form.grid;
    if entries.len() != grid.slots() * ENTRY_BYTES || beside.len() != BESIDE {
        return Err(bad(format!("{} bytes for an index of {} pages", entries.len(), grid.slots())));
    }
    check_crc(entries, u32::from_le_bytes([beside[0], beside[1], beside[2], beside[3]]))?;
    let mut next = check_name(name, entries, &beside[CRC_BYTES..])?;
    let (least, most) =
        (form.codec.min_encoded(form.page_bytes) as u64, form.codec.max_encoded(form.page_bytes) as u64);
    for (slot, entry) in entries.chunks_exact(ENTRY_BYTES).enumerate() {
        let (offset, len) = words(entry, u64::from_le_bytes);
        if grid.page_at(shard, slot).is_none() {
            if (offset, len) != (ABSENT, ABSENT) {
                return Err(bad(format!("slot {slot} lies past the zone and is not empty")));
            }
            continue;
        }
        if offset != next || len < least || len > most {
            return Err(bad(format!(
                "slot {slot} at byte {offset} with {len} bytes, expected {least} to {most} at {next}"
            )));
        }
        // At most 4096 pages of at most 2^31 bytes: no overflow.
        next += len;
    }
    Ok(next)
}

/// Checks a shard's name against the stored checksum `said`. Returns the offset of the first page. Stores of version 2
/// have no such checksums: their first page begins where the index ends.
///
/// # Errors
/// [`PageErrorKind::Decode`].
pub(crate) fn check_name(name: &str, entries: &[u8], said: &[u8]) -> Result<u64, PageErrorKind> {
    let bare = (entries.len() + CRC_BYTES) as u64;
    let offsets = || entries.chunks_exact(ENTRY_BYTES).map(|e| words(e, u64::from_le_bytes).0);
    if offsets().find(|offset| *offset != ABSENT) == Some(bare) {
        return Ok(bare);
    }
    if said == name_checksum(name) {
        return Ok(bare + NAME_BYTES as u64);
    }
    let m = "the file was written under another name: files of the store changed places; copy the store again, or convert its \
             source again";
    Err(PageErrorKind::Decode(m.into()))
}

/// Offset and length of an entry.
pub(super) fn words(entry: &[u8], word: fn([u8; 8]) -> u64) -> (u64, u64) {
    let mut w = [[0u8; 8]; 2];
    w[0].copy_from_slice(&entry[..8]);
    w[1].copy_from_slice(&entry[8..ENTRY_BYTES]);
    (word(w[0]), word(w[1]))
}

/// The pages of one array.
pub struct StoreArray {
    pub(super) files: Arc<ArrayFiles>,
    /// The array's [`ShardIndex`].
    pub(super) index: ArrayId,
}

impl PageMap for StoreArray {
    fn name(&self) -> &str {
        &self.files.layout.path
    }

    fn pages(&self) -> u64 {
        self.files.layout.grid.paging.count()
    }

    fn pages_along(&self) -> Option<[u64; 3]> {
        Some(self.files.layout.grid.paging.pages.map(|n| n as u64))
    }

    fn page_bytes(&self, _page: PageId) -> usize {
        self.files.layout.page_bytes()
    }

    fn locate(&self, page: PageId, index: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        let layout = &self.files.layout;
        if page.page >= self.pages() {
            return Located::Failed(self.files.page_error(page, PageErrorKind::Missing));
        }
        let (shard, slot) = layout.grid.locate(layout.grid.paging.coords(page.page));
        let Some((source, base)) = self.files.source(page.step, shard) else {
            return Located::Failed(self.files.page_error(page, PageErrorKind::Missing));
        };
        let wanted = PageId::new(self.index, page.step, shard);
        let Some(entries) = index(wanted) else {
            if let ShardSources::Folder(_, folder) = &self.files.sources {
                let number = u64::from(page.step) * layout.grid.count() + shard;
                folder.want_entry(number, slot * ENTRY_BYTES, layout.codec.max_encoded(layout.page_bytes()));
            }
            return Located::Need(wanted);
        };
        // SAFETY: the pager gives the bytes of a resident page, which stay while `locate` runs.
        let entries = unsafe { &*entries };
        let Some(entry) = entries.get(slot * ENTRY_BYTES..(slot + 1) * ENTRY_BYTES) else {
            return Located::Failed(self.files.page_error(page, PageErrorKind::Decode("index is too short".into())));
        };
        let (offset, len) = words(entry, u64::from_ne_bytes);
        if (offset, len) == (ABSENT, ABSENT) {
            return Located::Failed(self.files.page_error(page, PageErrorKind::Missing));
        }
        // `ShardIndex` has checked the lengths. Here they size a buffer, so they are bounded again.
        let Some(offset) = self.files.within(base, offset, len) else {
            let kind = PageErrorKind::Decode(format!("the index of the shard says {len} bytes from {offset} on"));
            return Located::Failed(self.files.page_error(page, kind));
        };
        let page_bytes = layout.page_bytes();
        let len = match usize::try_from(len) {
            Ok(n) if n >= layout.codec.min_encoded(page_bytes) && n <= layout.codec.max_encoded(page_bytes) => n,
            _ => {
                return Located::Failed(self.files.page_error(page, PageErrorKind::Decode(format!("{len} bytes long"))))
            }
        };
        match layout.codec {
            Codec::None if layout.components() == 1 => {
                let body = len - CRC_BYTES;
                let segments = vec![
                    Extent { source, offset, len: body, to: ExtentTarget::Frame(0) },
                    Extent { source, offset: offset + body as u64, len: CRC_BYTES, to: ExtentTarget::Encoded(0) },
                ];
                Located::Extents { segments, encoded_len: CRC_BYTES, scratch_len: 0, found: Box::default() }
            }
            Codec::None => {
                // Not into the frame, which has the components of a point together.
                let segments = vec![Extent { source, offset, len, to: ExtentTarget::Encoded(0) }];
                Located::Extents { segments, encoded_len: len, scratch_len: 0, found: Box::default() }
            }
            Codec::Zstd { .. } | Codec::Lz4 => {
                let segments = vec![Extent { source, offset, len, to: ExtentTarget::Encoded(0) }];
                let scratch_len = if layout.components() > 1 { page_bytes } else { 0 };
                Located::Extents { segments, encoded_len: len, scratch_len, found: Box::default() }
            }
        }
    }

    fn decode(
        &self,
        page: PageId,
        _: &[u64],
        encoded: &[u8],
        scratch: &mut [u8],
        frame: &mut [u8],
    ) -> Result<(), PageError> {
        let layout = &self.files.layout;
        let (components, size) = (layout.components(), layout.dtype.size());
        let done = match (layout.codec, encoded) {
            (Codec::None, &[a, b, c, d]) if components == 1 => {
                let done = check_crc(frame, u32::from_le_bytes([a, b, c, d]));
                to_native(size, frame);
                done
            }
            (Codec::None, _) if components > 1 => checked_body(encoded, frame.len()).map(|body| {
                interleave(body, frame, components, size);
                to_native(size, frame);
            }),
            (codec, _) if components > 1 => {
                codec.decode(size, encoded, scratch).map(|()| interleave(scratch, frame, components, size))
            }
            (codec, _) => codec.decode(size, encoded, frame),
        };
        done.map_err(|kind| self.files.page_error(page, kind))
    }

    fn fill(&self, _page: PageId, frame: &mut [u8]) {
        // Never called: `locate` never returns `Fill`, because our stores omit no page. All ones is NaN.
        frame.fill(0xff);
    }

    fn checked(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::DType;
    use crate::paging::Paging;
    use crate::store::layout::ShardGrid;
    use proptest::prelude::*;

    const NAME: &str = "zone1/density/c.0.0.0.0";

    fn layout(codec: Codec) -> ArrayLayout {
        let grid = ShardGrid::new(Paging::new([21, 9, 6], [5, 4, 3]), 240);
        ArrayLayout::plain("zone1/density", DType::Float32, grid, codec)
    }

    /// An index of pages of the given lengths.
    fn index(layout: &ArrayLayout, lens: impl Fn(usize) -> u64) -> Vec<u8> {
        let mut at = layout.grid.head_bytes() as u64;
        let mut out = Vec::new();
        for slot in 0..layout.grid.slots() {
            let (offset, len) =
                if layout.grid.page_at(0, slot).is_some() { (at, lens(slot)) } else { (ABSENT, ABSENT) };
            at = at.wrapping_add(if offset == ABSENT { 0 } else { len });
            out.extend_from_slice(&offset.to_le_bytes());
            out.extend_from_slice(&len.to_le_bytes());
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, rng_seed: prop::test_runner::RngSeed::Fixed(0x696e_6478), ..ProptestConfig::default() })]
        /// Even with a right checksum, an index passes only if its pages are contiguous and the codec allows each
        /// length.
        #[test]
        fn forged_indexes_are_refused(codec in prop::sample::select(vec![Codec::None, Codec::Zstd { level: 1 }, Codec::Lz4]), at in 0usize..10_000, to: u64, small: bool) {
            let l = layout(codec);
            let good = index(&l, |_| l.codec.max_encoded(l.page_bytes()) as u64);
            let crc = |b: &[u8]| [crc32c::crc32c(b).to_le_bytes(), name_checksum(NAME)].concat();
            prop_assert!(check_index(&l.form(), 0, NAME, &good, &crc(&good)).is_ok());
            let mut bad = good.clone();
            let word = at % (good.len() / 8);
            let value = if small { to % 2000 } else { to };
            bad[word * 8..word * 8 + 8].copy_from_slice(&value.to_le_bytes());
            prop_assert_eq!(check_index(&l.form(), 0, NAME, &bad, &crc(&bad)).is_ok(), bad == good || word == good.len() / 8 - 1 && value >= l.codec.min_encoded(l.page_bytes()) as u64 && value <= l.codec.max_encoded(l.page_bytes()) as u64);
            prop_assert!(check_index(&l.form(), 0, NAME, &bad, &crc(&good)).is_err() || bad == good);
            prop_assert!(check_index(&l.form(), 0, NAME, &good[..good.len() - 1], &crc(&good)).is_err());
            prop_assert!(check_index(&l.form(), 0, "zone1/momentum/c.0.0.0.0", &good, &crc(&good)).is_err());
        }
    }
}
