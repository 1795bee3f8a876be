//! Validates a store: a checksum covers every byte of every file, and no file is missing or surplus.
//!
//! Shards are checked one by one ([`StoreCheck::check_shard`]), so callers with threads can check several at once.
//! Checks over all shards come last ([`StoreCheck::conclude`]). [`StoreCheck`] is the common form of stores of grids
//! and of volumes.

use super::array::{check_index, words};
use super::codec::CRC_BYTES;
use super::layout::{all_arrays, documents, ArrayLayout, ShardForm, ENTRY_BYTES};
use super::metadata::ArraySeal;
use super::Store;
use crate::catalog::DType;
use crate::error::FieldError;
use crate::file::{stat, FileBytes};
use crate::uniform::Uniform;
use pager::error::PageErrorKind;
use pager::id::{ArrayId, PageId, SourceId};
use pager::place::{self, FileKind};
use pager::Event;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Instant;

/// Problems listed; further ones are counted.
const NAMED: usize = 100;

/// Results of a validation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    /// Pages read and checked.
    pub pages: u64,
    /// Bytes of all files read.
    pub bytes: u64,
    /// Number of reads.
    pub reads: u64,
    /// Checked files.
    pub files: u64,
    /// The problems; the first hundred.
    pub problems: Vec<Problem>,
    /// Number of problems.
    pub problem_count: u64,
    /// The store's place lists no folders, so files that do not belong to it were not looked for.
    pub not_listed: bool,
}

/// A problem of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, and the page if it is one page's problem.
    pub what: String,
    /// The error.
    pub error: String,
}

impl Validation {
    /// Whether nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.problem_count == 0
    }

    fn problem(&mut self, what: impl std::fmt::Display, error: impl std::fmt::Display) {
        self.problem_count += 1;
        if self.problems.len() < NAMED {
            self.problems.push(Problem { what: what.to_string(), error: error.to_string() });
        }
    }

    /// Adds the results of a shard.
    pub fn add(&mut self, mut other: Self) {
        self.pages += other.pages;
        self.bytes += other.bytes;
        self.reads += other.reads;
        self.files += other.files;
        self.problem_count += other.problem_count;
        other.problems.truncate(NAMED - self.problems.len());
        self.problems.append(&mut other.problems);
    }
}

/// One shard of the store, in the order of the seals.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ShardId {
    /// Its number among all shards.
    pub number: u32,
    /// Number of its array in [`Store::arrays`].
    pub array: usize,
    /// Step.
    pub step: usize,
    /// Its number among the shards of the step.
    pub shard: u64,
}

/// A shard's contribution to its array's seal.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardSeal {
    /// Its length.
    pub bytes: u64,
    /// Checksum of its pages' checksums and its index's. `None` if the shard could not be read to its end.
    pub seal: Option<u32>,
}

/// Memory reused from shard to shard.
#[derive(Debug)]
pub struct Buffers {
    read_bytes: usize,
    index: Vec<u8>,
    encoded: Vec<u8>,
    frame: Vec<u8>,
}

impl Buffers {
    /// Buffers for reads of about `read_bytes`, or of one page if that is longer.
    pub fn new(read_bytes: usize) -> Self {
        Self { read_bytes, index: Vec::new(), encoded: Vec::new(), frame: Vec::new() }
    }
}

/// An array in validation.
pub trait Sharded: Sync {
    /// Its name in events: its folder below the root.
    fn name(&self) -> &str;
    /// The form of its shards.
    fn form(&self) -> ShardForm<'_>;
    /// Repetitions of all its shards: steps, or steps times groups.
    fn times(&self) -> usize;
    /// File of a shard below the root; `time` is below [`Self::times`].
    fn shard_path(&self, time: usize, shard: u64) -> String;
}

impl Sharded for &ArrayLayout {
    fn name(&self) -> &str {
        &self.path
    }
    fn form(&self) -> ShardForm<'_> {
        ArrayLayout::form(self)
    }
    fn times(&self) -> usize {
        self.steps
    }
    fn shard_path(&self, time: usize, shard: u64) -> String {
        ArrayLayout::shard_path(self, time, shard)
    }
}

/// A store in validation.
pub struct StoreCheck<'s> {
    /// Its folder.
    pub(crate) path: &'s Path,
    /// Its arrays, in the order of their seals.
    pub(crate) arrays: Vec<Box<dyn Sharded + 's>>,
    /// The uniform grids that the root document claims for values of arrays, by number of the array.
    pub(crate) uniform: HashMap<usize, (&'s Uniform, DType)>,
    /// The root document's seals of the arrays.
    pub(crate) seals: &'s [ArraySeal],
    /// All documents but the root's.
    pub(crate) documents: Vec<String>,
}

impl Store {
    /// The form of this store for validation.
    pub fn checked(&self) -> StoreCheck<'_> {
        let mut uniform = HashMap::new();
        let mut first = 0;
        for (zone, of_zone) in self.zones.iter().zip(&self.root.uniform) {
            if let (Some(xyz), Some(of_zone), true) = (zone.xyz, of_zone, self.root.data) {
                uniform.insert(first + xyz, (of_zone, zone.arrays[xyz].dtype));
            }
            first += all_arrays(std::slice::from_ref(zone), self.root.data).count();
        }
        let arrays: Vec<Box<dyn Sharded + '_>> = self.arrays().map(|a| Box::new(a) as _).collect();
        let documents = documents(&self.zones, self.root.data).map(|(name, _)| name).collect();
        StoreCheck { path: &self.path, arrays, uniform, seals: &self.root.seals, documents }
    }
}

impl StoreCheck<'_> {
    /// Its arrays.
    pub fn arrays(&self) -> impl Iterator<Item = &dyn Sharded> {
        self.arrays.iter().map(|a| &**a)
    }

    /// Bytes of all shards.
    pub fn bytes(&self) -> u64 {
        self.seals.iter().map(|s| s.bytes).sum()
    }

    /// Pages of all arrays and shard indexes.
    pub fn page_count(&self) -> u64 {
        let of = |a: &dyn Sharded| {
            let grid = a.form().grid;
            a.times() as u64 * (grid.paging.count() + grid.count())
        };
        self.arrays().map(of).sum()
    }

    /// Every shard, array by array.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + '_ {
        let of = |(array, a): (usize, &dyn Sharded)| {
            let (count, times) = (a.form().grid.count(), a.times());
            (0..times).flat_map(move |step| (0..count).map(move |shard| (array, step, shard)))
        };
        let all = self.arrays().enumerate().flat_map(of).enumerate();
        all.map(|(n, (array, step, shard))| ShardId { number: n as u32, array, step, shard })
    }

    /// Bytes that [`Buffers::new`] of `read_bytes` grows to.
    pub fn buffer_bytes(&self, read_bytes: usize) -> usize {
        let of = |a: &dyn Sharded| {
            let form = a.form();
            form.grid.head_bytes() + read_bytes.max(form.codec.max_encoded(form.page_bytes)) + form.page_bytes
        };
        self.arrays().map(of).max().unwrap_or(0)
    }

    /// Reads a shard's index and every page of it. Checks checksums, lengths and that the shard ends after its last
    /// page. `told` receives the events of reading and decoding, and returns whether to continue.
    ///
    /// # Errors
    /// [`FieldError::Interrupted`]. Damage is not an error but part of the [`Validation`].
    pub fn check_shard(
        &self,
        id: ShardId,
        buffers: &mut Buffers,
        told: &mut dyn FnMut(Event) -> bool,
    ) -> Result<(Validation, ShardSeal), FieldError> {
        let (mut found, mut seal) = (Validation { files: 1, ..Validation::default() }, ShardSeal::default());
        let Some(array) = self.arrays.get(id.array) else { return Ok((found, seal)) };
        let name = array.shard_path(id.step, id.shard);
        let path = self.path.join(&name);
        told(Event::Source { source: SourceId(id.number), name: path.to_string_lossy().into() });
        let uniform = self.uniform.get(&id.array).copied();
        let mut check = Check {
            form: array.form(),
            uniform,
            id,
            name: &name,
            path: &path,
            found: &mut found,
            told,
            stopped: false,
        };
        if let Err(e) = check.shard(buffers, &mut seal) {
            check.found.problem(path.display(), e);
        }
        if check.stopped {
            return Err(FieldError::Interrupted);
        }
        Ok((found, seal))
    }

    /// Adds the checks over all shards: documents, the seals of the arrays, and files that are not part of the store.
    /// `seals` has the seals of all shards, in their order.
    ///
    /// # Errors
    /// [`FieldError::Io`] if a folder cannot be read.
    pub fn conclude(&self, seals: &[ShardSeal], found: &mut Validation) -> Result<(), FieldError> {
        let mut expected: HashSet<String> = HashSet::from(["zarr.json".to_owned()]);
        expected.extend(self.documents.iter().cloned());
        for name in &expected {
            // Opening has read and checked them.
            found.bytes += stat(&self.path.join(name)).map_or(0, |stat| stat.version.size);
            found.files += 1;
            found.reads += 1;
        }
        let mut seals = seals.iter();
        for (array, seal) in self.arrays().zip(self.seals) {
            let mut sum = Some(ArraySeal { bytes: 0, pages: 0 });
            for step in 0..array.times() {
                for shard in 0..array.form().grid.count() {
                    expected.insert(array.shard_path(step, shard));
                    sum = sum.zip(seals.next().and_then(|s| Some((s.bytes, s.seal?)))).map(|(sum, (bytes, seal))| {
                        let pages = crc32c::crc32c_append(sum.pages, &seal.to_le_bytes());
                        ArraySeal { bytes: sum.bytes + bytes, pages }
                    });
                }
            }
            // A shard without a seal already has a problem.
            if sum.is_some_and(|s| s != *seal) {
                let what = self.path.join(array.name());
                found.problem(what.display(), "the shards are not those that the store was written with");
            }
        }
        strangers(self.path, "", &expected, found)
    }
}

struct Check<'a> {
    form: ShardForm<'a>,
    uniform: Option<(&'a Uniform, DType)>,
    id: ShardId,
    name: &'a str,
    path: &'a Path,
    found: &'a mut Validation,
    told: &'a mut dyn FnMut(Event) -> bool,
    stopped: bool,
}

impl Check<'_> {
    fn read(&mut self, file: &FileBytes, buffer: &mut [u8], offset: u64) -> Result<(), PageErrorKind> {
        let read = u64::from(self.id.number) << 32 | self.found.reads;
        let (source, len) = (SourceId(self.id.number), buffer.len() as u64);
        (self.told)(Event::ReadStart { read, source, offset, bytes: len, segments: 1, depth: 1 });
        let done = file.read_exact_at(offset, buffer).map_err(io);
        self.stopped |= !(self.told)(Event::ReadEnd { read, ok: done.is_ok() });
        self.found.reads += 1;
        self.found.bytes += len;
        done
    }

    fn shard(&mut self, buffers: &mut Buffers, sealed: &mut ShardSeal) -> Result<(), PageErrorKind> {
        let form = self.form;
        let grid = form.grid;
        let file = FileBytes::open(self.path).map_err(io)?;
        let have = file.size();
        sealed.bytes = have;
        let short = |end: u64| PageErrorKind::Short { offset: 0, end, have };
        let head_bytes = grid.head_bytes();
        if have < head_bytes as u64 {
            return Err(short(head_bytes as u64));
        }
        let Buffers { read_bytes, index, encoded, frame } = buffers;
        index.resize(head_bytes, 0);
        self.read(&file, index, 0)?;
        let (entries, beside) = index.split_at(grid.slots() * ENTRY_BYTES);
        let end = check_index(&form, self.id.shard, self.name, entries, beside)?;
        if have < end {
            return Err(short(end));
        }
        if have > end {
            self.found.problem(self.path.display(), format_args!("{} bytes too many after the last page", have - end));
        }
        frame.resize(form.page_bytes, 0);
        // Pages are contiguous, so they are read many at a time.
        let mut held = 0u64..0u64;
        let mut pages_seal = 0;
        for (slot, entry) in entries.chunks_exact(ENTRY_BYTES).enumerate() {
            let Some(page) = grid.page_at(self.id.shard, slot) else { continue };
            let (at, len) = words(entry, u64::from_le_bytes);
            if at + len > held.end {
                let want = (*read_bytes as u64).max(len).min(end - at);
                // Bounded by the file's own length, checked above.
                encoded.resize(want as usize, 0);
                self.read(&file, encoded, at)?;
                if self.stopped {
                    return Ok(());
                }
                held = at..at + want;
            }
            let from = (at - held.start) as usize;
            let bytes = &encoded[from..from + len as usize];
            let begun = Instant::now();
            let [i, j, k] = page;
            let name = || format!("{}, page (i {i}, j {j}, k {k})", self.path.display());
            match form.codec.decode(form.typesize, bytes, frame) {
                Err(e) => self.found.problem(name(), e),
                Ok(()) => {
                    let p = &grid.paging;
                    let fits = |(u, dtype): (&Uniform, DType)| u.is_of_page(dtype, &p.extent(page), p.page, frame);
                    if !self.uniform.is_none_or(fits) {
                        let error =
                            "points are not those of the uniform grid that the root document notes; convert again";
                        self.found.problem(name(), error);
                    }
                }
            }
            let took_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let number = grid.paging.number(page);
            let page = PageId::new(ArrayId(self.id.array as u32), self.id.step as u32, number);
            self.stopped |= !(self.told)(Event::Decode { page, took_ns });
            // `check_index` guarantees that a page is longer than its checksum.
            pages_seal = crc32c::crc32c_append(pages_seal, &bytes[bytes.len() - CRC_BYTES..]);
            self.found.pages += 1;
        }
        // A problem here need not be reported again for the whole array.
        sealed.seal = self.found.is_ok().then(|| crc32c::crc32c_append(pages_seal, &beside[..CRC_BYTES]));
        Ok(())
    }
}

fn io(e: std::io::Error) -> PageErrorKind {
    match e.kind() {
        // It was long enough when it was opened.
        std::io::ErrorKind::UnexpectedEof => PageErrorKind::Io("the file became shorter while it was read".into()),
        _ => (&e).into(),
    }
}

/// Finds files that are not part of the store.
fn strangers(root: &Path, below: &str, expected: &HashSet<String>, found: &mut Validation) -> Result<(), FieldError> {
    let folder = root.join(below);
    let mut names = match place::list(&folder, usize::MAX) {
        Ok(names) => names,
        Err(PageErrorKind::Unsupported(_)) if place::is_remote(&folder) => {
            found.not_listed = true;
            return Ok(());
        }
        Err(kind) => return Err(FieldError::io(&folder, kind.into_io())),
    };
    names.sort_by(|a, b| a.name.cmp(&b.name));
    for entry in names {
        let name = if below.is_empty() { entry.name } else { format!("{below}/{}", entry.name) };
        if entry.kind == FileKind::Folder {
            strangers(root, &name, expected, found)?;
        } else if !expected.contains(&name) {
            found.problem(root.join(&name).display(), "does not belong to the store");
        }
    }
    Ok(())
}
