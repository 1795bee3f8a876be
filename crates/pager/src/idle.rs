//! The places where idle threads sleep.
//!
//! One idle thread, the leader, sleeps on the ring of the file reader. It completes arrivals itself, without another
//! thread in between. The others sleep on a condition variable. When the leader leaves, another thread takes its place.

use crate::os::{no_files, OpenFileLimit};
use crate::source::file::FileSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

#[derive(Default)]
struct IdlePermits {
    /// Returns that `wait` owes. A notice must not be lost while all idle threads are still on their way here. So a
    /// notice allows as many returns as there are workers; an extra return only costs one check for work.
    permits: usize,
    /// Counts notices.
    notices: u64,
}

/// See the module.
pub(crate) struct Idlers {
    inside: Mutex<IdlePermits>,
    bell: Condvar,
    /// 1. A thread raises `waiting` before it reads `work`. A notifier raises `work` before it reads `waiting`. So the
    ///    idle thread sees the work, or the notifier sees the idle thread and rings. It takes the lock to ring, so it
    ///    rings only when that thread sleeps.
    waiting: AtomicUsize,
    /// Pages that wait for a decoder.
    work: AtomicUsize,
    /// 2. A thread sleeps on the ring and `alarm`. Set and cleared under the lock.
    leader: AtomicBool,
    /// An eventfd that ends the leader's sleep.
    alarm: File,
    _opened: OpenFileLimit,
}

impl Idlers {
    pub(crate) fn new() -> io::Result<Self> {
        let opened = OpenFileLimit::new();
        // SAFETY: creates a new descriptor, which `File` then owns.
        let alarm = unsafe {
            let fd = libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC);
            if fd < 0 {
                return Err(no_files(io::Error::last_os_error()));
            }
            File::from_raw_fd(fd)
        };
        Ok(Self {
            inside: Mutex::default(),
            bell: Condvar::new(),
            waiting: AtomicUsize::new(0),
            work: AtomicUsize::new(0),
            leader: AtomicBool::new(false),
            alarm,
            _opened: opened,
        })
    }

    fn lock(&self) -> MutexGuard<'_, IdlePermits> {
        crate::spin_lock::lock(&self.inside)
    }

    pub(crate) fn has_work(&self) -> bool {
        self.work.load(SeqCst) > 0
    }

    pub(crate) fn took_work(&self) {
        self.work.fetch_sub(1, SeqCst);
    }

    fn wake_leader(&self) {
        if self.leader.load(SeqCst) {
            // Fails only if the counter is full, and then the leader wakes anyway.
            let _ = (&self.alarm).write(&1u64.to_ne_bytes());
        }
    }

    pub(crate) fn add_work(&self, n: usize) {
        if n == 0 {
            return;
        }
        self.work.fetch_add(n, SeqCst);
        let waiting = self.waiting.load(SeqCst);
        if waiting > 0 {
            let _inside = self.lock();
            for _ in 0..n.min(waiting) {
                self.bell.notify_one();
            }
            self.wake_leader();
        }
    }

    pub(crate) fn notify(&self, workers: usize) {
        let mut inside = self.lock();
        inside.permits = workers.max(1);
        inside.notices += 1;
        if self.waiting.load(SeqCst) > 0 {
            self.bell.notify_all();
            self.wake_leader();
        }
    }

    /// Called when reads start. If all idle threads sleep on the condition variable, one should sleep on the ring.
    pub(crate) fn lead(&self, files: &FileSet) {
        if self.waiting.load(SeqCst) > 0 && !self.leader.load(SeqCst) && files.wait_fd().is_some() {
            let _inside = self.lock();
            self.bell.notify_one();
        }
    }

    /// Sleeps until work, a notice or the timeout. `arrivals` completes arrived reads and returns the time until the
    /// next, if it is known.
    pub(crate) fn wait(&self, timeout: Duration, files: &FileSet, arrivals: impl Fn() -> Option<Duration>) {
        let until = Instant::now().checked_add(timeout);
        let mut inside = self.lock();
        let notices = inside.notices;
        self.waiting.fetch_add(1, SeqCst);
        loop {
            if inside.permits > 0 {
                inside.permits -= 1;
                break;
            }
            // Called without the lock, since completion takes it.
            drop(inside);
            let due = arrivals();
            inside = self.lock();
            if self.has_work() || inside.permits > 0 || inside.notices != notices {
                break;
            }
            let mut left = match until {
                Some(t) => t.saturating_duration_since(Instant::now()),
                None => Duration::from_secs(3600),
            };
            if left.is_zero() {
                break;
            }
            left = due.map_or(left, |d| left.min(d));
            match files.wait_fd().filter(|_| !self.leader.load(SeqCst)) {
                Some(ring) => {
                    self.leader.store(true, SeqCst);
                    drop(inside);
                    self.sleep_on(ring, left);
                    inside = self.lock();
                    self.leader.store(false, SeqCst);
                }
                None => inside = self.bell.wait_timeout(inside, left).unwrap_or_else(|e| e.into_inner()).0,
            }
        }
        if self.waiting.fetch_sub(1, SeqCst) > 1 && !self.leader.load(SeqCst) && files.wait_fd().is_some() {
            // One of the remaining threads becomes the leader.
            self.bell.notify_one();
        }
    }

    fn sleep_on(&self, ring: RawFd, timeout: Duration) {
        let mut fds = [ring, self.alarm.as_raw_fd()].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        let timeout = libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            // Below 10^9.
            tv_nsec: timeout.subsec_nanos() as _,
        };
        // SAFETY: the array and the time are valid during the call.
        unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, &timeout, std::ptr::null()) };
        if fds[1].revents != 0 {
            // Fails only if another thread has emptied the counter, which has the same effect.
            let _emptied = (&self.alarm).read(&mut [0; 8]);
        }
    }
}
