//! The reader of files over io_uring.
//!
//! The requesting thread submits the reads itself. Bytes in the page cache are copied within that call, without a
//! switch to another thread. Other reads arrive in the completion queue. Three kinds of threads reap it:
//!
//! - a worker between two steps ([`Engine::poll`], one load of a shared word);
//! - an idle worker that sleeps on the ring ([`Engine::wait_fd`]);
//! - a thread that checks once a millisecond, so that the device does not idle when all workers are in long steps.
//!
//! A thread that sleeps on the ring instead was rejected: woken for every read, it takes the core from a worker each
//! time.

use super::engine::{iovecs, Engine, Op};
use crate::error::PageErrorKind;
use crate::slab::SlotMap;
use crate::spin_lock::lock;
use io_uring::{opcode, types, IoUring, Probe};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval of the fall-back reaper's checks while reads are in flight: a device idles for at most this long.
const TICK: Duration = Duration::from_millis(1);
/// Ticks without reads before the reaper sleeps. Waking it takes a system call and a switch, so single reads must not
/// do it each time.
const LINGER: u32 = 50;
/// Longest single transfer. Longer buffers are continued as short reads are.
const MOST_BYTES: usize = 1 << 30;
/// Larger rings only use memory.
const MOST_ENTRIES: usize = 1024;

/// A read that the kernel has.
struct Kernel {
    op: Op,
    /// Must stay where it is until the read is submitted.
    _iovecs: Vec<libc::iovec>,
}

// SAFETY: the addresses in `_iovecs` are those of `op`'s buffers, which belong to this read until its completion.
unsafe impl Send for Kernel {}

#[derive(Default)]
struct Ops {
    /// 1. A read is in here from its submission until its completion was reaped. So its file stays open, and its
    ///    buffers belong to the kernel, cancelled or not.
    kernel: SlotMap<Kernel>,
    waiting: VecDeque<Op>,
}

#[derive(Default)]
struct Reaper {
    sleeping: bool,
    closed: bool,
}

struct Ring {
    ring: IoUring,
    /// 2. Held while entries are pushed and submitted: one thread at a time uses the submission queue.
    submission: Mutex<()>,
    /// 3. Held while completions are popped: one thread at a time uses the completion queue.
    completion: Mutex<()>,
    ops: Mutex<Ops>,
    /// 4. Reads in `ops`. The kernel never has more than `entries`, so the completion queue (twice that) cannot overflow.
    pending: AtomicUsize,
    entries: usize,
    reaper: Mutex<Reaper>,
    reaper_sleeps: AtomicBool,
    bell: Condvar,
}

/// See the module.
pub(crate) struct Uring {
    ring: Arc<Ring>,
    thread: Option<JoinHandle<()>>,
}

impl Uring {
    /// Sets up a ring for `depth` reads at a time.
    ///
    /// # Errors
    /// When the kernel has no io_uring, forbids it, or does not know reads.
    pub(crate) fn new(depth: usize) -> io::Result<Self> {
        let entries = depth.clamp(8, MOST_ENTRIES).next_power_of_two();
        let ring = IoUring::builder().dontfork().build(entries as u32)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) || !probe.is_supported(opcode::Readv::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // The kernel's own threads read files that cannot be read without blocking. By default there are fewer of them
        // than reads in flight. A hint: older kernels do not know it.
        let mut workers = [u32::try_from(depth).unwrap_or(64).clamp(1, 256), 0];
        let _ = ring.submitter().register_iowq_max_workers(&mut workers);
        let ring = Arc::new(Ring {
            ring,
            submission: Mutex::new(()),
            completion: Mutex::new(()),
            ops: Mutex::default(),
            pending: AtomicUsize::new(0),
            entries,
            reaper: Mutex::default(),
            reaper_sleeps: AtomicBool::new(false),
            bell: Condvar::new(),
        });
        let theirs = ring.clone();
        let builder = std::thread::Builder::new().name("farfield-ring".into()).stack_size(256 << 10);
        let thread = builder.spawn(move || theirs.reap_for_others())?;
        Ok(Self { ring, thread: Some(thread) })
    }
}

impl Engine for Uring {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn submit(&self, ops: Vec<Op>) {
        self.ring.pending.fetch_add(ops.len(), SeqCst);
        lock(&self.ring.ops).waiting.extend(ops);
        self.ring.submit();
        // Reads that the kernel copied at once are complete already.
        self.ring.reap();
        if self.ring.pending.load(SeqCst) > 0 && self.ring.reaper_sleeps.load(SeqCst) {
            lock(&self.ring.reaper).sleeping = false;
            self.ring.bell.notify_one();
        }
    }

    fn ready(&self) -> bool {
        self.ring.ready()
    }

    fn poll(&self) {
        self.ring.reap();
    }

    fn wait_fd(&self) -> Option<RawFd> {
        (self.ring.pending.load(SeqCst) > 0).then(|| self.ring.ring.as_raw_fd())
    }
}

impl Ring {
    /// Whether completions wait.
    fn ready(&self) -> bool {
        if self.pending.load(SeqCst) == 0 {
            return false;
        }
        let Ok(_guard) = self.completion.try_lock() else { return false };
        // A variable and not a temporary: temporaries of a last expression outlive the guard, and the queue writes its
        // head back when it is dropped. Completions that another thread had popped meanwhile would come a second time,
        // for other reads.
        // SAFETY: the guard is invariant 3.
        let queue = unsafe { self.ring.completion_shared() };
        !queue.is_empty()
    }

    /// Hands waiting reads to the kernel. If another thread does so already, the reads are left to it, and it checks
    /// again at its end. A hand-over takes microseconds a read, and waiting for it would idle a processor.
    fn submit(&self) {
        while let Ok(guard) = self.submission.try_lock() {
            let pushed = self.push();
            drop(guard);
            let ops = lock(&self.ops);
            if pushed == 0 || ops.waiting.is_empty() || ops.kernel.len() >= self.entries {
                return;
            }
        }
    }

    /// Pushes as many waiting reads as there is room for, on the thread that holds the submission. Returns their
    /// number.
    fn push(&self) -> usize {
        let mut pushed = 0;
        let mut lost = Vec::new();
        {
            let mut ops = lock(&self.ops);
            // SAFETY: the guard is invariant 2.
            let mut queue = unsafe { self.ring.submission_shared() };
            while ops.kernel.len() < self.entries && !queue.is_full() {
                let Some(op) = ops.waiting.pop_front() else { break };
                let fd = types::Fd(op.file.as_raw_fd());
                let iovecs = match op.buffers.as_slice() {
                    [_] => Vec::new(),
                    many => iovecs(many, MOST_BYTES),
                };
                let offset = op.offset;
                let entry = match op.buffers.as_slice() {
                    [one] => opcode::Read::new(fd, one.ptr, one.len.min(MOST_BYTES) as u32).offset(offset).build(),
                    _ => opcode::Readv::new(fd, iovecs.as_ptr(), iovecs.len() as u32).offset(offset).build(),
                };
                let key = ops.kernel.insert(Kernel { op, _iovecs: iovecs });
                // SAFETY: descriptor, buffers and vector live in `ops.kernel` until the completion is reaped.
                if unsafe { queue.push(&entry.user_data(u64::from(key))) }.is_err() {
                    // The queue had room, and no other thread pushes. Still, a read must not get lost.
                    lost.extend(ops.kernel.remove(key).map(|k| k.op));
                    break;
                }
                pushed += 1;
            }
            ops.waiting.extend(lost);
        }
        loop {
            match self.ring.submitter().submit() {
                Ok(_) => break,
                // Busy: the completion queue must be emptied first. The entries stay and are submitted with the next
                // call.
                Err(e) if e.raw_os_error() == Some(libc::EINTR) => continue,
                Err(_) => break,
            }
        }
        pushed
    }

    /// Completes arrivals.
    fn reap(&self) {
        loop {
            let mut arrived: [(u32, i32); 32] = [(0, 0); 32];
            let mut n = 0;
            {
                let Ok(_guard) = self.completion.try_lock() else { return };
                // SAFETY: the guard is invariant 3.
                let mut queue = unsafe { self.ring.completion_shared() };
                while n < arrived.len() {
                    let Some(entry) = queue.next() else { break };
                    arrived[n] = (entry.user_data() as u32, entry.result());
                    n += 1;
                }
            }
            if n == 0 {
                return;
            }
            let mut again = false;
            for &(key, result) in &arrived[..n] {
                let Some(Kernel { mut op, .. }) = lock(&self.ops).kernel.remove(key) else { continue };
                let outcome = match usize::try_from(result) {
                    Ok(bytes) => op.advance(bytes),
                    Err(_) => match -result {
                        // Cancelled because the submitting thread has ended. The read is tried again.
                        libc::EINTR | libc::EAGAIN | libc::ECANCELED => None,
                        code if op.fall_back(code) => None,
                        code => Some(Err(PageErrorKind::from(&io::Error::from_raw_os_error(code)))),
                    },
                };
                match outcome {
                    Some(result) => {
                        self.pending.fetch_sub(1, SeqCst);
                        op.complete(result);
                    }
                    None => {
                        lock(&self.ops).waiting.push_front(op);
                        again = true;
                    }
                }
            }
            if again || !lock(&self.ops).waiting.is_empty() {
                self.submit();
            }
        }
    }

    /// The fall-back reaper.
    fn reap_for_others(&self) {
        let mut idle = 0;
        loop {
            {
                let mut r = lock(&self.reaper);
                if r.closed && self.pending.load(SeqCst) == 0 {
                    return;
                }
                if idle > LINGER {
                    r.sleeping = true;
                    self.reaper_sleeps.store(true, SeqCst);
                    // A submitter raises `pending` before it checks whether this thread sleeps.
                    while r.sleeping && !r.closed && self.pending.load(SeqCst) == 0 {
                        r = self.bell.wait(r).unwrap_or_else(|e| e.into_inner());
                    }
                    r.sleeping = false;
                    self.reaper_sleeps.store(false, SeqCst);
                    idle = 0;
                }
            }
            std::thread::sleep(TICK);
            if self.pending.load(SeqCst) == 0 {
                idle += 1;
                continue;
            }
            idle = 0;
            if self.ready() {
                self.reap();
            } else if self.stuck() {
                self.submit();
            }
        }
    }

    /// Whether pushed entries are not submitted, or reads wait although there is room.
    fn stuck(&self) -> bool {
        let Ok(_guard) = self.submission.try_lock() else { return false };
        // SAFETY: the guard is invariant 2.
        let unsent = !unsafe { self.ring.submission_shared() }.is_empty();
        let ops = lock(&self.ops);
        unsent || (!ops.waiting.is_empty() && ops.kernel.len() < self.entries)
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        lock(&self.ring.reaper).closed = true;
        self.ring.bell.notify_one();
        if let Some(t) = self.thread.take() {
            // The last owner of the pager can be a completion on that thread, which then ends by itself.
            if t.thread().id() != std::thread::current().id() {
                // A panic there was reported already.
                let _panicked = t.join();
            }
        }
    }
}
