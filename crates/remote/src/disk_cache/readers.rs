//! Reads of the cache, on a small number of threads.
//!
//! A record is checked whole each time. If a read wants all of it, its bytes go straight to the read's buffers; else
//! through the thread's own memory, at most 1 MiB.

use super::folder::is_removed;
use super::format::{FileKey, RecordHead, SegmentName, HEAD};
use super::index::IndexEntry;
use super::state::{CacheState, HitPiece};
use pager::source::Buffer;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Buffers that one call of the system fills, its own head with them.
const MOST_BUFFERS: usize = 256;
/// Memory that a thread keeps between two reads.
const KEPT: usize = 256 << 10;
/// Calls are shallow.
const STACK_BYTES: usize = 256 << 10;

/// A thread's own memory.
pub(super) type Scratch = Vec<u8>;
/// What such a thread does.
pub(super) type HitJob = Box<dyn FnOnce(&mut Scratch) + Send>;

#[derive(Default)]
struct HitJobs {
    jobs: VecDeque<HitJob>,
    threads: Vec<JoinHandle<()>>,
    waiting: usize,
    closed: bool,
}

/// Threads start when there are more jobs than idle threads.
pub(super) struct ReaderPool {
    shared: Arc<(Mutex<HitJobs>, Condvar)>,
    most: usize,
}

impl ReaderPool {
    pub fn new(most: usize) -> Self {
        Self { shared: Arc::default(), most: most.max(1) }
    }

    /// Runs jobs, several at a time. If no thread can be started the caller runs them.
    pub fn run(&self, jobs: Vec<HitJob>) {
        let (lock, bell) = &*self.shared;
        let mut q = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let added = jobs.len();
        q.jobs.extend(jobs);
        let wanted = q.jobs.len().saturating_sub(q.waiting);
        for _ in 0..wanted.min(self.most.saturating_sub(q.threads.len())) {
            let shared = self.shared.clone();
            let builder = std::thread::Builder::new().name("farfield-cached".into()).stack_size(STACK_BYTES);
            match builder.spawn(move || work(&shared)) {
                Ok(handle) => q.threads.push(handle),
                Err(_) => break,
            }
        }
        let mine = if q.threads.is_empty() { std::mem::take(&mut q.jobs) } else { VecDeque::new() };
        let wakes = added.min(q.waiting);
        drop(q);
        (0..wakes).for_each(|_| bell.notify_one());
        mine.into_iter().for_each(|job| job(&mut Scratch::new()));
    }
}

fn work(shared: &(Mutex<HitJobs>, Condvar)) {
    let mut scratch = Scratch::new();
    let (lock, bell) = shared;
    loop {
        let mut q = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let job = loop {
            if let Some(job) = q.jobs.pop_front() {
                break job;
            }
            if q.closed {
                return;
            }
            if scratch.capacity() > KEPT {
                scratch = Scratch::new();
            }
            q.waiting += 1;
            q = bell.wait(q).unwrap_or_else(PoisonError::into_inner);
            q.waiting -= 1;
        };
        drop(q);
        job(&mut scratch);
    }
}

impl Drop for ReaderPool {
    fn drop(&mut self) {
        let (lock, bell) = &*self.shared;
        let mut q = lock.lock().unwrap_or_else(PoisonError::into_inner);
        q.closed = true;
        let threads = std::mem::take(&mut q.threads);
        bell.notify_all();
        drop(q);
        let me = std::thread::current().id();
        for t in threads {
            // The last owner can be a job on one of these threads.
            if t.thread().id() != me {
                // A panic there was reported already.
                let _panicked = t.join();
            }
        }
    }
}

/// The part of joined buffers from `from` to `to`.
pub(super) fn part(buffers: &[Buffer], from: usize, to: usize) -> Vec<Buffer> {
    let (mut out, mut begin) = (Vec::new(), 0);
    for b in buffers {
        let end = begin + b.len;
        let (first, last) = (from.max(begin), to.min(end));
        if first < last {
            let ptr = if b.is_hole() { b.ptr } else { b.ptr.wrapping_add(first - begin) };
            out.push(Buffer { ptr, len: last - first });
        }
        begin = end;
    }
    out
}

/// Fills buffers, which begin at byte `begin` of the file, from the records of a plan. On false the bytes are undefined,
/// and the record that does not hold is forgotten.
///
/// # Safety
/// The buffers are valid, and nobody else uses them.
pub(super) unsafe fn fill(
    state: &CacheState,
    key: FileKey,
    (begin, buffers): (u64, &[Buffer]),
    pieces: &[HitPiece],
    scratch: &mut Scratch,
) -> bool {
    let mut bytes = 0;
    for piece in pieces {
        let out = part(buffers, (piece.from - begin) as usize, (piece.to - begin) as usize);
        let read = state.open(&piece.segment).and_then(|file| {
            // SAFETY: as above.
            let read = unsafe { read_record(&file, key, piece, &out, scratch) };
            read.map_err(|e| if is_removed(&file) { io::ErrorKind::NotFound.into() } else { e })
        });
        if let Err(e) = read {
            state.fault(piece, &e);
            return false;
        }
        bytes += piece.to - piece.from;
    }
    state.counters.hits.fetch_add(1, Relaxed);
    state.counters.hit_bytes.fetch_add(bytes, Relaxed);
    true
}

/// Reads one record, checks it, and gives out the wanted part.
///
/// # Safety
/// As [`fill`].
unsafe fn read_record(
    file: &File,
    key: FileKey,
    piece: &HitPiece,
    out: &[Buffer],
    scratch: &mut Scratch,
) -> io::Result<()> {
    let (entry, name) = (&piece.entry, &piece.segment.name);
    let whole = piece.from == entry.offset && piece.to == entry.end();
    let mut head = [0; HEAD];
    let straight = whole && out.len() < MOST_BUFFERS && !out.iter().any(Buffer::is_hole);
    let sum = if straight {
        let mut iov = vec![libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: HEAD }];
        iov.extend(out.iter().map(|b| libc::iovec { iov_base: b.ptr.cast(), iov_len: b.len }));
        // SAFETY: as above.
        unsafe { read_vectored(file, &mut iov, entry.at())? };
        out.iter().fold(0, |sum, b| {
            // SAFETY: the buffer was filled, and is this read's.
            crc32c::crc32c_append(sum, unsafe { std::slice::from_raw_parts(b.ptr, b.len) })
        })
    } else {
        let len = HEAD + entry.len() as usize;
        if scratch.len() < len {
            scratch.resize(len, 0);
        }
        file.read_exact_at(&mut scratch[..len], entry.at())?;
        head.copy_from_slice(&scratch[..HEAD]);
        crc32c::crc32c(&scratch[HEAD..len])
    };
    let wanted = RecordHead { key, offset: entry.offset, len: entry.len(), sum };
    if RecordHead::parse(name, &head) != Some(wanted) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not hold its checksum"));
    }
    if !straight {
        let mut at = HEAD + (piece.from - entry.offset) as usize;
        for b in out {
            if !b.is_hole() {
                // SAFETY: the parts of a piece are within its record, and the buffer is this read's.
                unsafe { std::ptr::copy_nonoverlapping(scratch[at..at + b.len].as_ptr(), b.ptr, b.len) };
            }
            at += b.len;
        }
    }
    Ok(())
}

/// Reads a record whole, whatever its file and version.
pub(super) fn read_any(file: &File, name: &SegmentName, entry: &IndexEntry) -> Option<(RecordHead, Vec<u8>)> {
    let mut bytes = vec![0; HEAD + entry.len() as usize];
    file.read_exact_at(&mut bytes, entry.at()).ok()?;
    let head = RecordHead::parse(name, &bytes)?;
    let bytes = bytes.split_off(HEAD);
    let sound = head.offset == entry.offset && head.len == entry.len() && head.sum == crc32c::crc32c(&bytes);
    sound.then_some((head, bytes))
}

/// Fills all buffers from a place in a file.
///
/// # Safety
/// They are valid, and nobody else uses them.
unsafe fn read_vectored(file: &File, iov: &mut [libc::iovec], at: u64) -> io::Result<()> {
    let (mut first, mut at) = (0, at);
    while first < iov.len() {
        let offset = libc::off_t::try_from(at).map_err(io::Error::other)?;
        let (fd, rest) = (file.as_raw_fd(), &mut iov[first..]);
        // SAFETY: the buffers are valid by this function's contract; there are at most `MOST_BUFFERS`.
        let n = unsafe { libc::preadv(fd, rest.as_ptr(), rest.len() as libc::c_int, offset) };
        let mut n = match usize::try_from(n) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is cut off")),
            Ok(n) => n,
            Err(_) => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => continue,
                e => return Err(e),
            },
        };
        at += n as u64;
        while n > 0 {
            let part = &mut iov[first];
            let taken = n.min(part.iov_len);
            part.iov_base = part.iov_base.cast::<u8>().wrapping_add(taken).cast();
            part.iov_len -= taken;
            n -= taken;
            if part.iov_len == 0 {
                first += 1;
            }
        }
    }
    Ok(())
}
