//! Proves a store whole: every byte of every file is vouched for by a checksum, and there is no file too many or too few.

use super::array::check_index;
use super::codec::CRC_BYTES;
use super::layout::{all_arrays, documents, ArrayLayout, ENTRY_BYTES};
use super::metadata::ArraySeal;
use super::Store;
use crate::error::FieldError;
use pager::error::PageErrorKind;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Problems that are named; further ones are counted.
const NAMED: usize = 100;
/// Bytes read at once: long enough for a disk's best rate.
const READ_BYTES: usize = 4 << 20;

/// What a validation found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    /// Pages read and checked.
    pub pages: u64,
    /// Bytes of all files read.
    pub bytes: u64,
    /// Files that were checked.
    pub files: u64,
    /// What is wrong, one line each, with the path; the first hundred.
    pub problems: Vec<String>,
    /// How many problems there are.
    pub problem_count: u64,
}

impl Validation {
    /// Whether nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.problem_count == 0
    }

    fn problem(&mut self, path: &Path, what: impl std::fmt::Display) {
        self.problem_count += 1;
        if self.problems.len() < NAMED {
            self.problems.push(format!("{}: {what}", path.display()));
        }
    }
}

impl Store {
    /// Reads every page, index and document of the store at `path` and checks checksums, lengths, shapes, missing and
    /// unexpected files. `progress` gets bytes done and in all, and answers whether to go on. Needs memory for one page
    /// and 4 MiB.
    ///
    /// # Errors
    /// What [`Store::open`] says of damaged documents, [`FieldError::Interrupted`]. Damage to pages is no error but in the
    /// [`Validation`].
    pub fn validate(path: &Path, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Validation, FieldError> {
        let store = Self::open(path)?;
        let mut found = Validation::default();
        let total = store.bytes();
        let mut expected: HashSet<String> = HashSet::from(["zarr.json".to_owned()]);
        expected.extend(documents(&store.zones, store.root.data).map(|(name, _)| name));
        for name in &expected {
            found.bytes += path.join(name).metadata().map_or(0, |m| m.len());
            found.files += 1;
        }
        let mut buffers = Buffers::default();
        for (layout, seal) in all_arrays(&store.zones, store.root.data).zip(&store.root.seals) {
            let mut sum = ArraySeal { bytes: 0, pages: 0 };
            let before = found.problem_count;
            for step in 0..layout.steps {
                for shard in 0..layout.grid.count() {
                    let name = layout.shard_path(step, shard);
                    let file = path.join(&name);
                    expected.insert(name);
                    found.files += 1;
                    if let Err(e) = check_shard(layout, shard, &file, &mut buffers, &mut sum, &mut found) {
                        found.problem(&file, e);
                    }
                    if !progress(found.bytes.min(total), total) {
                        return Err(FieldError::Interrupted);
                    }
                }
            }
            if sum != *seal && before == found.problem_count {
                found.problem(&path.join(&layout.path), "the shards are not those that the store was written with");
            }
        }
        strangers(path, "", &expected, &mut found)?;
        Ok(found)
    }
}

/// Memory that is used again from page to page.
#[derive(Default)]
struct Buffers {
    index: Vec<u8>,
    encoded: Vec<u8>,
    frame: Vec<u8>,
}

/// Checks one shard: its index, each page, and that it ends where its last page does.
fn check_shard(
    layout: &ArrayLayout,
    shard: u64,
    path: &Path,
    buffers: &mut Buffers,
    sum: &mut ArraySeal,
    found: &mut Validation,
) -> Result<(), PageErrorKind> {
    let io = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => PageErrorKind::Missing,
        _ => PageErrorKind::Io(e.to_string()),
    };
    let file = File::open(path).map_err(io)?;
    let have = file.metadata().map_err(io)?.len();
    sum.bytes += have;
    let short = |end: u64| PageErrorKind::Short { offset: 0, end, have };
    let index_bytes = layout.grid.index_bytes();
    if have < index_bytes as u64 {
        return Err(short(index_bytes as u64));
    }
    let Buffers { index, encoded, frame } = buffers;
    index.resize(index_bytes, 0);
    file.read_exact_at(index, 0).map_err(io)?;
    let (entries, crc) = index.split_at(layout.grid.slots() * ENTRY_BYTES);
    let end = check_index(layout, shard, entries, crc)?;
    found.bytes += index_bytes as u64;
    if have < end {
        return Err(short(end));
    }
    if have > end {
        found.problem(path, format_args!("{} bytes too many after the last page", have - end));
    }
    frame.resize(layout.page_bytes(), 0);
    // Pages follow each other, so they are read many at a time.
    let mut at = index_bytes as u64;
    let mut held = 0u64..0u64;
    let mut pages_seal = 0;
    for (slot, entry) in entries.chunks_exact(ENTRY_BYTES).enumerate() {
        let Some(page) = layout.grid.page_at(shard, slot) else { continue };
        let mut len = [0; 8];
        len.copy_from_slice(&entry[8..]);
        let len = u64::from_le_bytes(len);
        if at + len > held.end {
            let want = (READ_BYTES as u64).max(len).min(end - at);
            // Bounded by the file's own length, checked above.
            encoded.resize(want as usize, 0);
            file.read_exact_at(encoded, at).map_err(io)?;
            held = at..at + want;
        }
        let from = (at - held.start) as usize;
        if let Err(e) = layout.codec.decode(layout.dtype.size(), &encoded[from..from + len as usize], frame) {
            found.problem(path, format_args!("page (i {}, j {}, k {}): {e}", page[0], page[1], page[2]));
        }
        // `check_index` has made sure that a page is longer than its checksum.
        pages_seal = crc32c::crc32c_append(pages_seal, &encoded[from + len as usize - CRC_BYTES..from + len as usize]);
        found.pages += 1;
        at += len;
    }
    let shard_seal = crc32c::crc32c_append(pages_seal, crc);
    sum.pages = crc32c::crc32c_append(sum.pages, &shard_seal.to_le_bytes());
    found.bytes += end - index_bytes as u64;
    Ok(())
}

/// Finds files that no part of the store accounts for.
fn strangers(root: &Path, below: &str, expected: &HashSet<String>, found: &mut Validation) -> Result<(), FieldError> {
    let folder = root.join(below);
    let io = |e: std::io::Error| FieldError::io(&folder, e);
    let mut names = std::fs::read_dir(&folder).map_err(io)?.collect::<Result<Vec<_>, _>>().map_err(io)?;
    names.sort_by_key(std::fs::DirEntry::file_name);
    for entry in names {
        let name = entry.file_name().to_string_lossy().into_owned();
        let name = if below.is_empty() { name } else { format!("{below}/{name}") };
        if entry.file_type().map_err(io)?.is_dir() {
            strangers(root, &name, expected, found)?;
        } else if !expected.contains(&name) {
            found.problem(&root.join(&name), "does not belong to the store");
        }
    }
    Ok(())
}
