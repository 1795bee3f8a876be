//! The bytes of a segment file.
//!
//! *Theory.* A segment is a header, records, and once it is sealed an index of its records and a trailer. Header and
//! trailer each carry the segment's number, which is also in its name: a file without them is not ours. Checksums of
//! heads begin with that number, so what an earlier file left on the disk is no record.
//!
//! *Practice.* All numbers are little-endian.
//!
//! | part | bytes |
//! |---|---|
//! | header | magic 8, number 8, born 8, kind 4, crc32c 4 |
//! | record | magic 4, length 4, file 8, version 8, offset 8, crc32c of the bytes 4, of the head 4; bytes; to a multiple of 8 |
//! | index, for each record | file 8, version 8, offset 8, place / 8 4, length 4 |
//! | trailer | magic 8, number 8, born 8, kind 4, records 4, crc32c of the index 4, of the trailer 4 |

use ring::digest::{Context, SHA256};
use std::path::Path;

/// Bytes of a segment's header.
pub(super) const HEADER: usize = 32;
/// Bytes of a record's head.
pub(super) const HEAD: usize = 40;
/// Bytes of a record in a sealed segment's index.
pub(super) const ROW: usize = 32;
/// Bytes of a trailer.
pub(super) const TRAILER: usize = 40;
/// Bytes of the longest record.
pub(super) const LONGEST: usize = 1 << 20;
/// Bytes of the largest segment.
pub(super) const SEGMENT: u64 = 64 << 20;

const HEADER_MAGIC: &[u8; 8] = b"FFCACHE1";
const TRAILER_MAGIC: &[u8; 8] = b"FFCEND_1";
const RECORD_MAGIC: &[u8; 4] = b"FFrc";
const PREFIX: &str = "farfield-";

/// A version of a file: digests, since an address may hold a secret.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FileKey {
    /// Digest of the place and the file's path in it.
    pub file: u64,
    /// Digest of the version.
    pub version: u64,
}

/// Digest of a path in a place.
pub(super) fn file_digest(domain: &str, place: &str, path: &Path) -> u64 {
    let mut context = Context::new(&SHA256);
    for part in [domain.as_bytes(), place.as_bytes(), path.as_os_str().as_encoded_bytes()] {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    number(context.finish().as_ref(), 0)
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn short(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// Rounds up to the next place for a record.
pub(super) fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(8)
}

/// The part of a segment that holds a record.
pub(super) fn span(len: u32) -> u64 {
    padded(HEAD as u64 + u64::from(len))
}

/// The generation of a segment's records.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum SegmentKind {
    /// Records that came once.
    Small,
    /// Records that were used again.
    Main,
}

/// A segment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentName {
    pub number: u64,
    /// Time of its creation, in nanoseconds since 1970.
    pub born: u64,
    pub kind: SegmentKind,
}

impl SegmentName {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let kind = match short(bytes, 24) {
            0 => SegmentKind::Small,
            1 => SegmentKind::Main,
            _ => return None,
        };
        Some(Self { number: number(bytes, 8), born: number(bytes, 16), kind })
    }

    fn put(&self, magic: &[u8; 8]) -> Vec<u8> {
        let mut out = magic.to_vec();
        out.extend(self.number.to_le_bytes());
        out.extend(self.born.to_le_bytes());
        out.extend(u32::from(self.kind == SegmentKind::Main).to_le_bytes());
        out
    }

    pub fn header(&self) -> Vec<u8> {
        let mut out = self.put(HEADER_MAGIC);
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        out
    }

    pub fn from_header(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER)?;
        let sound = bytes.starts_with(HEADER_MAGIC) && crc32c::crc32c(&bytes[..28]) == short(bytes, 28);
        sound.then(|| Self::parse(bytes)).flatten()
    }

    /// The first bytes of any header of that number, for files whose writer ended before it wrote one.
    pub fn begins_header(number: u64, bytes: &[u8]) -> bool {
        let mut whole = HEADER_MAGIC.to_vec();
        whole.extend(number.to_le_bytes());
        let known = bytes.len().min(whole.len());
        bytes.len() < HEADER && bytes[..known] == whole[..known]
    }

    pub fn trailer(&self, rows: &[u8]) -> Vec<u8> {
        let mut out = self.put(TRAILER_MAGIC);
        out.extend(((rows.len() / ROW) as u32).to_le_bytes());
        out.extend(self.sum(rows).to_le_bytes());
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        out
    }

    /// The segment of a trailer, the number of rows before it, and their checksum.
    pub fn from_trailer(bytes: &[u8]) -> Option<(Self, usize, u32)> {
        let bytes = bytes.get(..TRAILER)?;
        let sound = bytes.starts_with(TRAILER_MAGIC) && crc32c::crc32c(&bytes[..36]) == short(bytes, 36);
        let name = sound.then(|| Self::parse(bytes)).flatten()?;
        Some((name, short(bytes, 28) as usize, short(bytes, 32)))
    }

    /// The checksum of bytes that belong to this segment only.
    pub fn sum(&self, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(&self.number.to_le_bytes()), bytes)
    }
}

/// The name of a segment's file.
pub(super) fn file_name(number: u64, sealed: bool) -> String {
    format!("{PREFIX}{number:016x}.{}", if sealed { "seg" } else { "open" })
}

/// The segment that a file's name tells, and whether it is sealed. `None`: the file is not ours.
pub(super) fn parse_file_name(name: &str) -> Option<(u64, bool)> {
    let (digits, end) = name.strip_prefix(PREFIX)?.split_once('.')?;
    let sealed = match end {
        "seg" => true,
        "open" => false,
        _ => return None,
    };
    let number = u64::from_str_radix(digits, 16).ok()?;
    (file_name(number, sealed) == name).then_some((number, sealed))
}

/// The head of a record.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordHead {
    pub key: FileKey,
    pub offset: u64,
    pub len: u32,
    /// crc32c of the bytes.
    pub sum: u32,
}

impl RecordHead {
    pub fn bytes(&self, segment: &SegmentName) -> [u8; HEAD] {
        let mut out = [0; HEAD];
        out[..4].copy_from_slice(RECORD_MAGIC);
        out[4..8].copy_from_slice(&self.len.to_le_bytes());
        out[8..16].copy_from_slice(&self.key.file.to_le_bytes());
        out[16..24].copy_from_slice(&self.key.version.to_le_bytes());
        out[24..32].copy_from_slice(&self.offset.to_le_bytes());
        out[32..36].copy_from_slice(&self.sum.to_le_bytes());
        let sum = segment.sum(&out[..36]);
        out[36..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    pub fn parse(segment: &SegmentName, bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEAD)?;
        let sound = bytes.starts_with(RECORD_MAGIC) && segment.sum(&bytes[..36]) == short(bytes, 36);
        let key = FileKey { file: number(bytes, 8), version: number(bytes, 16) };
        let head = Self { key, offset: number(bytes, 24), len: short(bytes, 4), sum: short(bytes, 32) };
        let ends = head.offset.checked_add(u64::from(head.len)).is_some();
        (sound && ends && (1..=LONGEST as u32).contains(&head.len)).then_some(head)
    }
}

/// A record in a sealed segment's index.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordRow {
    pub key: FileKey,
    pub offset: u64,
    /// Of the head in the segment.
    pub at: u64,
    pub len: u32,
}

impl RecordRow {
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.key.file.to_le_bytes());
        out.extend(self.key.version.to_le_bytes());
        out.extend(self.offset.to_le_bytes());
        out.extend(((self.at / 8) as u32).to_le_bytes());
        out.extend(self.len.to_le_bytes());
    }

    /// A row of a segment whose records end at `end`.
    pub fn parse(bytes: &[u8], end: u64) -> Option<Self> {
        let key = FileKey { file: number(bytes, 0), version: number(bytes, 8) };
        let row = Self { key, offset: number(bytes, 16), at: u64::from(short(bytes, 24)) * 8, len: short(bytes, 28) };
        let sound = (1..=LONGEST as u32).contains(&row.len)
            && row.at >= HEADER as u64
            && row.at + span(row.len) <= end
            && row.offset.checked_add(u64::from(row.len)).is_some();
        sound.then_some(row)
    }
}
