//! Where threads with nothing to do wait.
//!
//! One of them, the leader, sleeps on the ring of the file reader and completes what arrives, without another thread in
//! between; the others sleep on a condition variable. When the leader leaves, another takes its place.

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
    /// Returns from `wait` that are owed. A notice given while every idler was still on its way here must not be lost, so a
    /// notice is good for as many returns as there are workers; too many returns only cost a look around.
    permits: usize,
    /// Counts notices.
    notices: u64,
}

/// See the module.
pub(crate) struct Idlers {
    inside: Mutex<IdlePermits>,
    bell: Condvar,
    /// 1. Raised before `work` is read, and `work` is raised before this is read: either the idler sees the work or the other
    ///    sees the idler and rings, which it can only do when the idler sleeps, since it takes the lock.
    waiting: AtomicUsize,
    /// Pages that wait for a decoder.
    work: AtomicUsize,
    /// 2. Somebody sleeps on the ring and `alarm`. Set and cleared under the lock.
    leader: AtomicBool,
    /// An eventfd that ends the leader's sleep.
    alarm: File,
    _opened: OpenFileLimit,
}

impl Idlers {
    pub(crate) fn new() -> io::Result<Self> {
        let opened = OpenFileLimit::new();
        // SAFETY: makes a new descriptor, which `File` then owns.
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

    /// Reads were started: if everyone idle sleeps on the condition variable, one should sleep on the ring.
    pub(crate) fn lead(&self, files: &FileSet) {
        if self.waiting.load(SeqCst) > 0 && !self.leader.load(SeqCst) && files.wait_fd().is_some() {
            let _inside = self.lock();
            self.bell.notify_one();
        }
    }

    /// `arrivals` completes what has arrived, and says in how long more will, if that is known.
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
            // Called without the lock: completing takes it.
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
            // One of those still here leads from now on.
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
            // Fails only where another thread has emptied the counter meanwhile, which is all that is wanted.
            let _emptied = (&self.alarm).read(&mut [0; 8]);
        }
    }
}
