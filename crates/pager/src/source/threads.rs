//! The fall-back reader of files: threads that call `preadv`. Where the system has `RWF_NOWAIT`, the requesting thread
//! copies bytes from the page cache itself, without a switch.

use super::engine::{iovecs, Engine, Op};
use crate::error::PageErrorKind;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

/// More threads than this only queue at the device.
const MOST_THREADS: usize = 64;
/// A reader has shallow calls only: completions are bookkeeping, and wakes are short.
const STACK_BYTES: usize = 256 << 10;

#[derive(Default)]
struct OpList {
    ops: VecDeque<Op>,
    threads: Vec<JoinHandle<()>>,
    waiting: usize,
    closed: bool,
}

#[derive(Default)]
struct OpQueue {
    queue: Mutex<OpList>,
    bell: Condvar,
}

/// Threads start when there are more reads than idle threads.
pub(crate) struct Threads {
    shared: Arc<OpQueue>,
    most: usize,
    /// Whether reads that do not wait are supported here.
    nowait: AtomicBool,
}

impl Threads {
    pub(crate) fn new(depth: usize) -> Self {
        Self { shared: Arc::default(), most: depth.clamp(1, MOST_THREADS), nowait: AtomicBool::new(true) }
    }
}

impl Engine for Threads {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn submit(&self, ops: Vec<Op>) {
        let ops: Vec<Op> = ops.into_iter().filter_map(|op| self.at_once(op)).collect();
        if ops.is_empty() {
            return;
        }
        let mut lost = Vec::new();
        let mut q = self.shared.queue.lock().unwrap_or_else(|e| e.into_inner());
        q.ops.extend(ops);
        let wanted = q.ops.len().saturating_sub(q.waiting);
        for _ in 0..wanted.min(self.most - q.threads.len().min(self.most)) {
            let shared = self.shared.clone();
            let builder = std::thread::Builder::new().name("farfield-read".into()).stack_size(STACK_BYTES);
            match builder.spawn(move || run(&shared)) {
                Ok(handle) => q.threads.push(handle),
                // With one thread the reads are slower; with none they cannot be done.
                Err(e) if q.threads.is_empty() => {
                    let kind = PageErrorKind::from(&e);
                    lost.extend(q.ops.drain(..).map(|op| (op, kind.clone())));
                }
                Err(_) => break,
            }
        }
        if q.ops.len() == 1 {
            self.shared.bell.notify_one();
        } else {
            self.shared.bell.notify_all();
        }
        drop(q);
        for (op, kind) in lost {
            op.complete(Err(kind));
        }
    }
}

impl Threads {
    /// Copies bytes from the page cache. Returns a read that needs a thread.
    fn at_once(&self, mut op: Op) -> Option<Op> {
        loop {
            if op.direct() || !self.nowait.load(Relaxed) {
                return Some(op);
            }
            let iov = iovecs(&op.buffers, usize::MAX);
            let Ok(offset) = libc::off_t::try_from(op.offset) else { return Some(op) };
            let fd = op.file.as_raw_fd();
            // SAFETY: as in `read`.
            let n = unsafe { libc::preadv2(fd, iov.as_ptr(), iov.len() as libc::c_int, offset, libc::RWF_NOWAIT) };
            match usize::try_from(n) {
                Ok(n) => {
                    if let Some(result) = op.advance(n) {
                        op.complete(result);
                        return None;
                    }
                }
                Err(_) => {
                    let e = io::Error::last_os_error().raw_os_error();
                    if matches!(e, Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL)) {
                        // This system or file system does not support it: do not try again.
                        self.nowait.store(false, Relaxed);
                    }
                    return Some(op);
                }
            }
        }
    }
}

fn run(shared: &OpQueue) {
    loop {
        let mut q = shared.queue.lock().unwrap_or_else(|e| e.into_inner());
        let op = loop {
            if let Some(op) = q.ops.pop_front() {
                break op;
            }
            if q.closed {
                return;
            }
            q.waiting += 1;
            q = shared.bell.wait(q).unwrap_or_else(|e| e.into_inner());
            q.waiting -= 1;
        };
        drop(q);
        read(op);
    }
}

/// Reads until all bytes arrived or the file ends.
pub(crate) fn read(mut op: Op) {
    loop {
        let iov = iovecs(&op.buffers, usize::MAX);
        let Ok(offset) = libc::off_t::try_from(op.offset) else {
            return op.complete(Err(PageErrorKind::from(&io::Error::from_raw_os_error(libc::EINVAL))));
        };
        // SAFETY: the buffers belong to this read until it is completed. The pager bounds their number.
        let n = unsafe { libc::preadv(op.file.as_raw_fd(), iov.as_ptr(), iov.len() as libc::c_int, offset) };
        let result = match usize::try_from(n) {
            Ok(n) => op.advance(n),
            Err(_) => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => None,
                e if op.fall_back(e.raw_os_error().unwrap_or(0)) => None,
                e => Some(Err(PageErrorKind::from(&e))),
            },
        };
        if let Some(result) = result {
            return op.complete(result);
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let mut q = self.shared.queue.lock().unwrap_or_else(|e| e.into_inner());
        q.closed = true;
        let threads = std::mem::take(&mut q.threads);
        self.shared.bell.notify_all();
        drop(q);
        let me = std::thread::current().id();
        for t in threads {
            // The last owner of the pager can be a completion on one of these threads.
            if t.thread().id() != me {
                // A panic there was reported already.
                let _panicked = t.join();
            }
        }
    }
}
