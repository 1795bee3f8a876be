//! The zip archive of a `.npz`: stored entries (no compression), written at planned places, and listed for reading.
//!
//! Every local header has the zip64 sizes, as NumPy's own do, so that an array above 4 GiB needs no other layout. The
//! directory uses zip64 where a number needs it. Times are fixed, so equal arrays give equal bytes.

use super::read::ReadAt;

/// 1980-01-01, the first day of zip.
const DATE: u16 = (1 << 5) | 1;
const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END64: u32 = 0x0606_4b50;
const LOCATOR64: u32 = 0x0706_4b50;

/// An entry with its place.
#[derive(Clone, Debug)]
struct PlannedEntry {
    name: String,
    header_at: u64,
    data_at: u64,
    size: u64,
}

/// Entries laid out in order before the archive is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct ZipPlan {
    entries: Vec<PlannedEntry>,
    next: u64,
}

impl ZipPlan {
    /// Adds an entry of `size` bytes and returns the place of its bytes. The size of the last entry may be set later.
    pub(crate) fn add(&mut self, name: &str, size: u64) -> u64 {
        let header_at = self.next;
        // 30 bytes of fixed fields and 20 of zip64 sizes.
        let data_at = header_at + 50 + name.len() as u64;
        self.entries.push(PlannedEntry { name: name.to_owned(), header_at, data_at, size });
        self.next = data_at.saturating_add(size);
        data_at
    }

    /// Sets the size of the entry that was added last.
    pub(crate) fn set_last_size(&mut self, size: u64) {
        if let Some(last) = self.entries.last_mut() {
            last.size = size;
            self.next = last.data_at.saturating_add(size);
        }
    }

    /// The local headers (place and bytes) and, at the end, the directory; `checksums` are in the order of the entries.
    pub(crate) fn headers(&self, checksums: &[u32]) -> Vec<(u64, Vec<u8>)> {
        let mut pieces = Vec::with_capacity(self.entries.len() + 1);
        let mut directory = Vec::new();
        for (entry, &crc) in self.entries.iter().zip(checksums) {
            pieces.push((entry.header_at, local_header(entry, crc)));
            central_header(&mut directory, entry, crc);
        }
        self.end(&mut directory);
        pieces.push((self.next, directory));
        pieces
    }

    fn end(&self, out: &mut Vec<u8>) {
        let (count, size, at) = (self.entries.len() as u64, out.len() as u64, self.next);
        let big = count >= 0xffff || size >= u64::from(u32::MAX) || at >= u64::from(u32::MAX);
        if big {
            put(out, &[&END64.to_le_bytes(), &44u64.to_le_bytes(), &0x032du16.to_le_bytes(), &45u16.to_le_bytes()]);
            put(out, &[&[0; 8], &count.to_le_bytes(), &count.to_le_bytes(), &size.to_le_bytes(), &at.to_le_bytes()]);
            let end64_at = at + size;
            put(out, &[&LOCATOR64.to_le_bytes(), &[0; 4], &end64_at.to_le_bytes(), &1u32.to_le_bytes()]);
        }
        let count = count.min(0xffff) as u16;
        put(out, &[&END.to_le_bytes(), &[0; 4], &count.to_le_bytes(), &count.to_le_bytes()]);
        put(out, &[&clamp32(size).to_le_bytes(), &clamp32(at).to_le_bytes(), &[0; 2]]);
    }
}

fn clamp32(value: u64) -> u32 {
    value.min(u64::from(u32::MAX)) as u32
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Bit 11 says that the name is UTF-8.
fn flags(name: &str) -> u16 {
    if name.is_ascii() {
        0
    } else {
        1 << 11
    }
}

fn local_header(entry: &PlannedEntry, crc: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(50 + entry.name.len());
    put(&mut out, &[&LOCAL.to_le_bytes(), &45u16.to_le_bytes(), &flags(&entry.name).to_le_bytes(), &[0; 4]]);
    put(&mut out, &[&DATE.to_le_bytes(), &crc.to_le_bytes(), &[0xff; 8]]);
    // Names have at most 1,000 bytes and a short prefix and suffix.
    put(&mut out, &[&(entry.name.len() as u16).to_le_bytes(), &20u16.to_le_bytes(), entry.name.as_bytes()]);
    put(&mut out, &[&1u16.to_le_bytes(), &16u16.to_le_bytes()]);
    put(&mut out, &[&entry.size.to_le_bytes(), &entry.size.to_le_bytes()]);
    out
}

fn central_header(out: &mut Vec<u8>, entry: &PlannedEntry, crc: u32) {
    let mut extra = Vec::new();
    if entry.size >= u64::from(u32::MAX) {
        put(&mut extra, &[&entry.size.to_le_bytes(), &entry.size.to_le_bytes()]);
    }
    if entry.header_at >= u64::from(u32::MAX) {
        put(&mut extra, &[&entry.header_at.to_le_bytes()]);
    }
    if !extra.is_empty() {
        let length = extra.len() as u16;
        let body = std::mem::take(&mut extra);
        put(&mut extra, &[&1u16.to_le_bytes(), &length.to_le_bytes(), &body]);
    }
    // Made on Unix (3) by version 4.5 of the specification.
    put(out, &[&CENTRAL.to_le_bytes(), &0x032du16.to_le_bytes(), &45u16.to_le_bytes()]);
    put(out, &[&flags(&entry.name).to_le_bytes(), &[0; 4], &DATE.to_le_bytes(), &crc.to_le_bytes()]);
    put(out, &[&clamp32(entry.size).to_le_bytes(), &clamp32(entry.size).to_le_bytes()]);
    put(out, &[&(entry.name.len() as u16).to_le_bytes(), &(extra.len() as u16).to_le_bytes(), &[0; 6]]);
    // A regular file that everyone may read.
    put(out, &[&(0o100_644u32 << 16).to_le_bytes(), &clamp32(entry.header_at).to_le_bytes()]);
    put(out, &[entry.name.as_bytes(), &extra]);
}

/// How an entry is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZipMethod {
    Stored,
    Deflated,
}

/// An entry of an archive for reading.
#[derive(Clone, Debug)]
pub(crate) struct ZipEntry {
    pub(crate) name: String,
    pub(crate) method: ZipMethod,
    /// Where its bytes begin.
    pub(crate) data_at: u64,
    pub(crate) compressed_bytes: u64,
    pub(crate) bytes: u64,
    /// Checksum (crc32 of zip) of the bytes when they are not compressed.
    pub(crate) crc: u32,
}

/// Most bytes of a directory that is read; ours have some hundred bytes an array.
const MAX_DIRECTORY_BYTES: u64 = 16 << 20;

/// Lists an archive. Every place is checked to be within the file.
pub(crate) fn list(source: &dyn ReadAt) -> Result<Vec<ZipEntry>, String> {
    let total = source.len();
    let (directory_at, directory_bytes) = find_directory(source)?;
    if directory_bytes > MAX_DIRECTORY_BYTES || directory_at.checked_add(directory_bytes).is_none_or(|end| end > total)
    {
        return Err("has a damaged zip directory".into());
    }
    let mut directory = vec![0; directory_bytes as usize];
    source.read_at(directory_at, &mut directory).map_err(|e| e.to_string())?;
    let mut entries = Vec::new();
    let mut rest = &directory[..];
    while rest.len() >= 46 && u32_at(rest, 0) == CENTRAL {
        let (name_bytes, extra_bytes, comment_bytes) =
            (usize::from(u16_at(rest, 28)), usize::from(u16_at(rest, 30)), usize::from(u16_at(rest, 32)));
        let record = 46 + name_bytes + extra_bytes + comment_bytes;
        let whole = rest.get(..record).ok_or("has a damaged zip directory")?;
        entries.push(entry(source, whole, name_bytes, extra_bytes)?);
        rest = &rest[record..];
    }
    Ok(entries)
}

fn entry(source: &dyn ReadAt, record: &[u8], name_bytes: usize, extra_bytes: usize) -> Result<ZipEntry, String> {
    let name = String::from_utf8_lossy(&record[46..46 + name_bytes]).into_owned();
    let damaged = || format!("has a damaged zip entry '{name}'");
    let method = match u16_at(record, 10) {
        0 => ZipMethod::Stored,
        8 => ZipMethod::Deflated,
        other => return Err(format!("has an entry '{name}' with zip method {other}; stored and deflate are read")),
    };
    if u16_at(record, 8) & 1 != 0 {
        return Err(format!("has an encrypted entry '{name}'"));
    }
    let mut compressed = u64::from(u32_at(record, 20));
    let mut bytes = u64::from(u32_at(record, 24));
    let mut header_at = u64::from(u32_at(record, 42));
    let mut extra = &record[46 + name_bytes..46 + name_bytes + extra_bytes];
    while extra.len() >= 4 {
        let (id, length) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
        let mut body = extra.get(4..4 + length).ok_or_else(damaged)?;
        if id == 1 {
            for value in [&mut bytes, &mut compressed, &mut header_at] {
                if *value == u64::from(u32::MAX) {
                    *value = u64_at(body.get(..8).ok_or_else(damaged)?);
                    body = &body[8..];
                }
            }
        }
        extra = &extra[4 + length..];
    }
    let mut local = [0; 30];
    if header_at.checked_add(30).is_none_or(|end| end > source.len()) {
        return Err(damaged());
    }
    source.read_at(header_at, &mut local).map_err(|e| e.to_string())?;
    if u32_at(&local, 0) != LOCAL {
        return Err(damaged());
    }
    let data_at = header_at + 30 + u64::from(u16_at(&local, 26)) + u64::from(u16_at(&local, 28));
    if data_at.checked_add(compressed).is_none_or(|end| end > source.len()) {
        return Err(format!("ends within its array '{name}'"));
    }
    if method == ZipMethod::Stored && compressed != bytes {
        return Err(damaged());
    }
    Ok(ZipEntry { name, method, data_at, compressed_bytes: compressed, bytes, crc: u32_at(record, 16) })
}

/// Place and size of the directory.
fn find_directory(source: &dyn ReadAt) -> Result<(u64, u64), String> {
    let total = source.len();
    // The end record has 22 bytes and a comment of up to 65,535.
    let tail_bytes = total.min(22 + 65_535);
    let tail_at = total - tail_bytes;
    let mut tail = vec![0; tail_bytes as usize];
    source.read_at(tail_at, &mut tail).map_err(|e| e.to_string())?;
    let missing = || "is not a zip archive, or was cut off (it has no zip directory at its end)".to_owned();
    let at = (0..tail.len().saturating_sub(21)).rev().find(|&at| u32_at(&tail, at) == END).ok_or_else(missing)?;
    let (size, begin) = (u32_at(&tail, at + 12), u32_at(&tail, at + 16));
    if size != u32::MAX && begin != u32::MAX {
        return Ok((u64::from(begin), u64::from(size)));
    }
    let locator = at.checked_sub(20).filter(|&l| u32_at(&tail, l) == LOCATOR64).ok_or_else(missing)?;
    let end64_at = u64_at(&tail[locator + 8..locator + 16]);
    if end64_at.checked_add(56).is_none_or(|end| end > total) {
        return Err(missing());
    }
    let mut end64 = [0; 56];
    source.read_at(end64_at, &mut end64).map_err(|e| e.to_string())?;
    if u32_at(&end64, 0) != END64 {
        return Err(missing());
    }
    Ok((u64_at(&end64[48..56]), u64_at(&end64[40..48])))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The first eight bytes as a number.
fn u64_at(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::mutations;

    /// A sparse source: bytes at some places, zeros elsewhere.
    struct Sparse(Vec<(u64, Vec<u8>)>, u64);

    impl ReadAt for Sparse {
        fn len(&self) -> u64 {
            self.1
        }
        fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
            for (i, byte) in into.iter_mut().enumerate() {
                let at = offset + i as u64;
                *byte = self
                    .0
                    .iter()
                    .find(|(start, piece)| at >= *start && at < *start + piece.len() as u64)
                    .map_or(0, |(start, piece)| piece[(at - start) as usize]);
            }
            Ok(())
        }
    }

    fn archive(sizes: &[u64]) -> Sparse {
        let mut plan = ZipPlan::default();
        for (i, size) in sizes.iter().enumerate() {
            plan.add(&format!("array{i}.npy"), *size);
        }
        let pieces = plan.headers(&vec![7; sizes.len()]);
        let end = pieces.iter().map(|(at, piece)| at + piece.len() as u64).max().unwrap();
        Sparse(pieces, end)
    }

    #[test]
    fn entries_come_back_below_and_above_four_gigabytes() {
        for sizes in [vec![10, 0, 99], vec![3 << 30, 5 << 30, 1, u64::from(u32::MAX)], vec![]] {
            let listed = list(&archive(&sizes)).unwrap();
            assert_eq!(listed.iter().map(|e| e.bytes).collect::<Vec<_>>(), sizes);
            assert!(listed.iter().enumerate().all(|(i, e)| e.name == format!("array{i}.npy")));
        }
    }

    #[test]
    fn damaged_archives_do_not_panic() {
        let source = archive(&[10, 20, 30]);
        let mut bytes = vec![0; source.1 as usize];
        source.read_at(0, &mut bytes).unwrap();
        assert!(list(&&bytes[..]).is_ok());
        assert!(list(&&bytes[..bytes.len() - 1]).is_err());
        mutations(&bytes, 3000, |bytes| {
            let _ = list(&bytes);
        });
    }
}
