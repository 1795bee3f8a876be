//! The thread that looks at the host.

use super::{HostMemory, MemoryCache};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks; and while too little is available. An average of stalls falls slowly, and is looked at slowly.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_SOON: Duration = Duration::from_millis(200);
/// Reads of small files of the system, and a shallow sort.
const STACK_BYTES: usize = 256 << 10;

#[derive(Default)]
struct Ended {
    ended: Mutex<bool>,
    bell: Condvar,
}

/// Watches until it is dropped.
pub(in super::super) struct MemoryWatch {
    ended: Arc<Ended>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryWatch {
    /// Starts. A cache of nothing needs no watch.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(in super::super) fn start(cache: Arc<MemoryCache>, host: fn() -> Option<HostMemory>) -> io::Result<Self> {
        let ended = Arc::new(Ended::default());
        let mut thread = None;
        if cache.limit > 0 {
            let ended = ended.clone();
            let builder = std::thread::Builder::new().name("farfield-serve-memory".into()).stack_size(STACK_BYTES);
            thread = Some(builder.spawn(move || watch(&cache, host, &ended))?);
        }
        Ok(Self { ended, thread })
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        *self.ended.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended.bell.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported already.
            let _panicked = thread.join();
        }
    }
}

fn watch(cache: &MemoryCache, host: fn() -> Option<HostMemory>, until: &Ended) {
    let mut ended = until.ended.lock().unwrap_or_else(PoisonError::into_inner);
    let mut short = false;
    while !*ended {
        let wait = if short { LOOK_SOON } else { LOOK_EVERY };
        ended = until.bell.wait_timeout(ended, wait).unwrap_or_else(PoisonError::into_inner).0;
        if *ended {
            return;
        }
        let Some(host) = host() else { continue };
        short = host.lacks() > 0;
        let now = cache.usage();
        let allows = host.allows(now.used, now.allowed, now.limit);
        if allows != now.allowed {
            cache.allow(allows);
        }
    }
}
