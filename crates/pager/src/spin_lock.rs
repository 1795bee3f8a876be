//! Taking a lock that is held for microseconds.

use std::sync::{Mutex, MutexGuard};

/// Looks at a lock that is taken before the thread is put to sleep, since most holders are done within a few looks: two workers slept
/// 30,000 times in a second, and that took more than the second core gave.
const LOOKS: u32 = 64;

/// Takes a lock; a holder's panic does not poison it.
#[inline]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..LOOKS {
        if let Ok(guard) = mutex.try_lock() {
            return guard;
        }
        // Some 40 to 140 cycles each.
        std::hint::spin_loop();
    }
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
