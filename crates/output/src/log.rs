//! A log of bytes: as much in memory as the budget allows, the rest in an anonymous file.

use super::new_file::anonymous;
use super::{MemoryAccount, OutputError};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Charged memory, released on drop. Clones of its charge share one account.
pub struct HeldMemory {
    charge: Arc<Mutex<Box<dyn MemoryAccount>>>,
    bytes: usize,
}

impl HeldMemory {
    /// An empty account, which charges `charge`.
    pub fn new(charge: Box<dyn MemoryAccount>) -> Self {
        Self { charge: Arc::new(Mutex::new(charge)), bytes: 0 }
    }

    /// Another account with the same charge.
    pub fn sibling(&self) -> Self {
        Self { charge: Arc::clone(&self.charge), bytes: 0 }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Charges `bytes` more; false if they are not available.
    pub fn grow(&mut self, bytes: usize) -> bool {
        // An account that panicked in another thread is still valid: it has no state between its two calls.
        let granted = self.charge.lock().unwrap_or_else(PoisonError::into_inner).try_charge(bytes);
        if granted {
            self.bytes += bytes;
        }
        granted
    }

    /// Gives `bytes` back.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.charge.lock().unwrap_or_else(PoisonError::into_inner).release(bytes);
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.shrink(self.bytes);
        }
    }
}

impl std::fmt::Debug for HeldMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("bytes", &self.bytes).finish()
    }
}

/// Bytes that are appended once and read anywhere, in bounded memory.
///
/// Bytes `0..flushed` are in the file, bytes `flushed..len` in chunks of equal size. If no further chunk is available,
/// all chunks are written to the file in one piece. From then on one chunk is enough: the log will not fit in memory,
/// and the freed chunks serve others. The file is still written in long runs.
#[derive(Debug)]
pub struct ByteLog {
    directory: PathBuf,
    /// Made at the first spill: most results fit in memory.
    file: Option<File>,
    flushed: u64,
    chunks: Vec<Box<[u8]>>,
    chunk_bytes: usize,
    /// Bytes used in the chunks.
    used: usize,
    /// Invariant: `held.bytes() == chunks.len() * chunk_bytes <= budget_bytes`. One exception: one chunk is always
    /// there, since appending needs it.
    held: HeldMemory,
    budget_bytes: usize,
}

impl ByteLog {
    /// An empty log with up to `budget_bytes` in memory, as far as `held` grants them. It spills into `directory`.
    ///
    /// # Errors
    /// [`OutputError::Memory`] when not even one chunk is granted.
    pub fn new(directory: &Path, budget_bytes: usize, held: HeldMemory) -> Result<Self, OutputError> {
        let mut log = Self {
            directory: directory.to_path_buf(),
            file: None,
            flushed: 0,
            chunks: Vec::new(),
            chunk_bytes: Self::chunk_bytes(budget_bytes),
            used: 0,
            held,
            budget_bytes,
        };
        if !log.add_chunk() {
            return Err(OutputError::Memory { needs: log.chunk_bytes as u64 });
        }
        Ok(log)
    }

    /// The chunk size for a budget: an eighth of it, so that little is unused, between 4 KiB and 1 MiB.
    pub(crate) fn chunk_bytes(budget_bytes: usize) -> usize {
        (budget_bytes / 8).clamp(4 << 10, 1 << 20)
    }

    /// Bytes appended so far.
    pub fn len(&self) -> u64 {
        self.flushed + self.used as u64
    }

    /// True when nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes written to the file.
    pub fn spilled_bytes(&self) -> u64 {
        self.flushed
    }

    /// Bytes of memory held.
    pub fn held_bytes(&self) -> usize {
        self.held.bytes()
    }

    /// Appends `bytes` and returns their begin.
    ///
    /// # Errors
    /// [`OutputError`] when the file cannot be made or written (a full disk).
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<u64, OutputError> {
        let start = self.len();
        while !bytes.is_empty() {
            if self.used == self.chunks.len() * self.chunk_bytes && !self.add_chunk() {
                self.flush()?;
            }
            let (chunk, at) = (self.used / self.chunk_bytes, self.used % self.chunk_bytes);
            let part = bytes.len().min(self.chunk_bytes - at);
            self.chunks[chunk][at..at + part].copy_from_slice(&bytes[..part]);
            self.used += part;
            bytes = &bytes[part..];
        }
        Ok(start)
    }

    /// Fills `into` from byte `offset` on.
    ///
    /// # Errors
    /// [`OutputError`] when the file cannot be read or the range is not in the log.
    pub fn read_at(&self, mut offset: u64, mut into: &mut [u8]) -> Result<(), OutputError> {
        let end = offset.checked_add(into.len() as u64);
        if end.is_none_or(|end| end > self.len()) {
            let source = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return Err(OutputError::spill(&self.directory, "read back results from", source));
        }
        if let Some(file) = &self.file {
            if offset < self.flushed {
                let part = usize::try_from(self.flushed - offset).unwrap_or(usize::MAX).min(into.len());
                let (head, tail) = into.split_at_mut(part);
                file.read_exact_at(head, offset)
                    .map_err(|e| OutputError::spill(&self.directory, "read back results from", e))?;
                offset += part as u64;
                into = tail;
            }
        }
        // The rest is behind `flushed`, and the check above keeps it within the chunks.
        let mut from = (offset - self.flushed.min(offset)) as usize;
        while !into.is_empty() {
            let (chunk, at) = (from / self.chunk_bytes, from % self.chunk_bytes);
            let part = into.len().min(self.chunk_bytes - at);
            let (head, tail) = into.split_at_mut(part);
            head.copy_from_slice(&self.chunks[chunk][at..at + part]);
            from += part;
            into = tail;
        }
        Ok(())
    }

    /// Changes the budget. Bytes above it are written to the file, and their memory is released.
    ///
    /// # Errors
    /// [`OutputError`] when the file cannot be written.
    pub fn set_budget(&mut self, budget_bytes: usize) -> Result<(), OutputError> {
        self.budget_bytes = budget_bytes;
        let chunk_bytes = Self::chunk_bytes(budget_bytes);
        if chunk_bytes < self.chunk_bytes {
            // One chunk always stays, and must be small then. It is never released: another might not be available.
            self.flush()?;
            self.chunks = vec![vec![0; chunk_bytes].into_boxed_slice()];
            self.chunk_bytes = chunk_bytes;
            self.held.shrink(self.held.bytes() - chunk_bytes);
            return Ok(());
        }
        if self.chunks.len() * self.chunk_bytes > budget_bytes {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes all bytes into the file, if there is one already, and lends its memory until [`Self::resume`]. Returns
    /// the file, the bytes in it, and the bytes of usable memory. `None` if all bytes are still in memory.
    ///
    /// # Errors
    /// [`OutputError`] when the file cannot be written.
    pub(super) fn lend(&mut self) -> Result<Option<(&File, u64, usize)>, OutputError> {
        if self.file.is_none() {
            return Ok(None);
        }
        self.flush()?;
        self.chunks = Vec::new();
        // As much as available, up to half: the allocator may still hold memory that the run has freed.
        let more = (self.budget_bytes / 2).saturating_sub(self.held.bytes());
        (0..4).any(|half| self.held.grow(more >> half));
        Ok(self.file.as_ref().map(|file| (file, self.flushed, self.held.bytes())))
    }

    /// Takes one chunk of memory back after [`Self::lend`]. Continues with another file in place of its own, if given.
    pub(super) fn resume(&mut self, other: Option<(File, u64)>) {
        if let Some((file, bytes)) = other {
            (self.file, self.flushed) = (Some(file), bytes);
        }
        self.chunks = vec![vec![0; self.chunk_bytes].into_boxed_slice()];
        self.held.shrink(self.held.bytes() - self.chunk_bytes);
    }

    fn add_chunk(&mut self) -> bool {
        let fits = (self.chunks.len() + 1) * self.chunk_bytes <= self.budget_bytes;
        let within = self.chunks.is_empty() || (fits && self.flushed == 0);
        if within && self.held.grow(self.chunk_bytes) {
            self.chunks.push(vec![0; self.chunk_bytes].into_boxed_slice());
            return true;
        }
        false
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        if self.used == 0 {
            // An empty file would have to be created, which could fail.
            return Ok(());
        }
        let spill = |e| OutputError::spill(&self.directory, "write results to a temporary file in", e);
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(anonymous(&self.directory).map_err(spill)?),
        };
        let mut left = self.used;
        let mut at = self.flushed;
        for chunk in &self.chunks {
            let part = left.min(self.chunk_bytes);
            file.write_all_at(&chunk[..part], at).map_err(spill)?;
            at += part as u64;
            left -= part;
        }
        // Only now: a failed write leaves the log unchanged.
        self.flushed = at;
        self.used = 0;
        self.held.shrink((self.chunks.len() - 1) * self.chunk_bytes);
        self.chunks.truncate(1);
        self.chunks.shrink_to_fit();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FixedBudget;
    use testing::{Lcg, TestDir};

    #[test]
    fn reads_what_was_appended_wherever_it_lies() {
        let dir = TestDir::new("log");
        for budget in [1usize, 5000, 40_000, 10_000_000] {
            let mut random = Lcg(3);
            let mut log = ByteLog::new(dir.at(), budget, HeldMemory::new(Box::new(FixedBudget::new(1 << 30)))).unwrap();
            let mut expected = Vec::new();
            for _ in 0..200 {
                let piece: Vec<u8> = (0..random.below(3000)).map(|_| random.next() as u8).collect();
                assert_eq!(log.append(&piece).unwrap(), expected.len() as u64);
                expected.extend_from_slice(&piece);
                let from = random.below(expected.len() as u64 + 1) as usize;
                let mut back = vec![0; random.below((expected.len() - from) as u64 + 1) as usize];
                log.read_at(from as u64, &mut back).unwrap();
                assert_eq!(back, expected[from..from + back.len()]);
            }
            assert_eq!(log.spilled_bytes() > 0, budget < 1_000_000);
            assert!(log.held_bytes() <= budget.max(4096));
            let len = log.len();
            assert!(log.read_at(len, &mut [0]).is_err());
            assert!(log.read_at(u64::MAX, &mut [0]).is_err());
            log.set_budget(8192).unwrap();
            let mut back = vec![0; expected.len()];
            log.read_at(0, &mut back).unwrap();
            assert_eq!(back, expected);
        }
        assert!(dir.names().is_empty());
    }

    #[test]
    fn nothing_is_spilled_where_there_is_nothing() {
        let dir = TestDir::new("log-empty");
        let mut log =
            ByteLog::new(&dir.path("no such folder"), 1 << 20, HeldMemory::new(Box::new(FixedBudget::new(1 << 30))))
                .unwrap();
        log.set_budget(8192).unwrap();
        assert!(log.is_empty() && log.held_bytes() <= 8192);
        log.append(&[1; 9000]).map(|_| ()).unwrap_err();
    }

    #[test]
    fn what_is_charged_is_given_back() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        struct TestMeter(Arc<AtomicUsize>, usize);
        impl MemoryAccount for TestMeter {
            fn try_charge(&mut self, bytes: usize) -> bool {
                let fits = self.0.load(Ordering::SeqCst) + bytes <= self.1;
                if fits {
                    self.0.fetch_add(bytes, Ordering::SeqCst);
                }
                fits
            }
            fn release(&mut self, bytes: usize) {
                self.0.fetch_sub(bytes, Ordering::SeqCst);
            }
        }
        let dir = TestDir::new("log-meter");
        let used = Arc::new(AtomicUsize::new(0));
        // The account grants less than the budget, and the log works with less.
        let mut log =
            ByteLog::new(dir.at(), 1 << 20, HeldMemory::new(Box::new(TestMeter(Arc::clone(&used), 300_000)))).unwrap();
        log.append(&vec![1; 2_000_000]).unwrap();
        assert_eq!(used.load(Ordering::SeqCst), 131_072, "one chunk of the two that were granted, since it spills");
        drop(log);
        assert_eq!(used.load(Ordering::SeqCst), 0);
        let refused = ByteLog::new(dir.at(), 1 << 20, HeldMemory::new(Box::new(FixedBudget::new(10))));
        assert!(matches!(refused, Err(OutputError::Memory { .. })));
    }
}
