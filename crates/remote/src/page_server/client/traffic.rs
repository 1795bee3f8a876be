//! The window of bytes under way, from measured round trips and rates.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A typical page, until pages have come.
const PAGE: u64 = 32 << 10;
/// Bytes under way until a rate is known.
const FIRST_WINDOW: u64 = 512 << 10;
/// Pages that are under way at least.
const LEAST_PAGES: u64 = 8;
/// On fast lines the cost of a switch between threads is longer than the round trip: this much time of the line, up to
/// so many bytes, is under way at least.
const LEAST_TIME: Duration = Duration::from_millis(5);
const LEAST_BYTES: u64 = 1 << 20;
/// Bytes under way at most.
const MOST_WINDOW: u64 = 256 << 20;
/// Time in which a round trip counts as the shortest.
const RTT_TIME: Duration = Duration::from_secs(10);
/// Measured rates of which the largest counts.
const RATES: usize = 10;
/// Rates of which the largest is left out.
const SOME_RATES: usize = 4;
/// Least time of a measured rate.
const RATE_TIME: Duration = Duration::from_millis(5);
/// The same in round trips: what a lost packet held back comes at once, and would pass for a faster line.
const RATE_TRIPS: u32 = 4;
/// Bytes under way for each connection.
const LINK_WINDOW: u64 = 2 << 20;
/// Classes of latencies: two for each power of two of microseconds.
const CLASSES: usize = 56;
/// Latencies after which the old ones count half.
const HALVED_AT: u32 = 1000;

/// See the module.
pub(super) struct Traffic {
    measured: Mutex<Measured>,
    window: AtomicU64,
    rate: AtomicU64,
    under_way: AtomicU64,
    page: AtomicU64,
}

struct Measured {
    /// The shortest round trips of this half of the time and the one before.
    rtt: [Option<Duration>; 2],
    rtt_begin: Instant,
    rates: VecDeque<f64>,
    bytes: u64,
    begin: Option<Instant>,
    latencies: [u32; CLASSES],
    count: u32,
}

impl Traffic {
    pub(super) fn new() -> Self {
        let measured = Measured {
            rtt: [None; 2],
            rtt_begin: Instant::now(),
            rates: VecDeque::new(),
            bytes: 0,
            begin: None,
            latencies: [0; CLASSES],
            count: 0,
        };
        Self {
            measured: Mutex::new(measured),
            window: AtomicU64::new(FIRST_WINDOW),
            rate: AtomicU64::new(0),
            under_way: AtomicU64::new(0),
            page: AtomicU64::new(PAGE),
        }
    }

    /// A read of so many bytes goes out.
    pub(super) fn begin(&self, bytes: u64) {
        self.under_way.fetch_add(bytes, Relaxed);
    }

    /// It ended, with or without its bytes.
    pub(super) fn end(&self, bytes: u64) {
        if self.under_way.fetch_sub(bytes, Relaxed) == bytes {
            // The line runs empty: what follows measures the tasks, not the line.
            self.measured.lock().unwrap_or_else(PoisonError::into_inner).begin = None;
        }
    }

    /// A read was answered. `elsewhere`: time in the server's queue and service. `path`: the round trip of the line
    /// itself, if the system knows it, without the bytes that wait in it.
    pub(super) fn answered(
        &self,
        bytes: u64,
        sent: Instant,
        elsewhere: Duration,
        path: impl FnOnce() -> Option<Duration>,
    ) {
        let now = Instant::now();
        let took = now.saturating_duration_since(sent);
        let page = self.page.load(Relaxed);
        self.page.store((page * 15 + bytes.max(1024)) / 16, Relaxed);
        let mut m = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        m.note_latency(took);
        let trip = took.saturating_sub(elsewhere);
        if now.saturating_duration_since(m.rtt_begin) > RTT_TIME / 2 {
            m.rtt = [None, m.rtt[0]];
            m.rtt_begin = now;
        }
        m.rtt[0] = Some(m.rtt[0].map_or(trip, |shortest| shortest.min(trip)));
        let Some(begin) = m.begin else {
            (m.begin, m.bytes) = (Some(now), 0);
            return;
        };
        m.bytes += bytes;
        let passed = now.saturating_duration_since(begin);
        if passed < RATE_TIME.max(m.shortest() * RATE_TRIPS) {
            return;
        }
        if let Some(path) = path() {
            m.rtt[0] = Some(m.rtt[0].map_or(path, |shortest| shortest.min(path)));
        }
        let rtt = m.shortest();
        let rate = m.bytes as f64 / passed.as_secs_f64();
        if m.rates.len() == RATES {
            m.rates.pop_front();
        }
        m.rates.push_back(rate);
        (m.begin, m.bytes) = (Some(now), 0);
        let rate = m.rate();
        drop(m);
        self.rate.store(rate as u64, Relaxed);
        let of_line = (3.0 * rate * rtt.as_secs_f64()) as u64;
        let least = ((rate * LEAST_TIME.as_secs_f64()) as u64).min(LEAST_BYTES).max(LEAST_PAGES * page);
        self.window.store(of_line.max(least).min(MOST_WINDOW), Relaxed);
    }

    /// Reads that may go out now.
    pub(super) fn room(&self) -> usize {
        let free = self.window.load(Relaxed).saturating_sub(self.under_way.load(Relaxed));
        free.div_ceil(self.page.load(Relaxed).max(1)) as usize
    }

    /// Whether something is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.under_way.load(Relaxed) > 0
    }

    /// Connections that carry the window.
    pub(super) fn links(&self) -> usize {
        self.window.load(Relaxed).div_ceil(LINK_WINDOW) as usize
    }

    /// The longest read: 50 ms of the line.
    pub(super) fn longest(&self) -> usize {
        match self.rate.load(Relaxed) {
            0 => 1 << 20,
            rate => (rate / 20).clamp(64 << 10, 1 << 20) as usize,
        }
    }

    /// The time in which 99 of 100 reads were answered.
    pub(super) fn slowest(&self) -> Duration {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner).slowest()
    }

    /// Shortest round trip, bytes a second, bytes of the window.
    pub(super) fn state(&self) -> (Duration, u64, u64) {
        let rtt = self.measured.lock().unwrap_or_else(PoisonError::into_inner).shortest();
        (rtt, self.rate.load(Relaxed), self.window.load(Relaxed))
    }
}

impl Measured {
    fn shortest(&self) -> Duration {
        self.rtt.iter().flatten().min().copied().unwrap_or_default()
    }

    /// The largest rate but one, while there are some.
    fn rate(&self) -> f64 {
        let mut largest = [0.0f64; 2];
        for rate in &self.rates {
            if *rate > largest[0] {
                largest = [*rate, largest[0]];
            } else if *rate > largest[1] {
                largest[1] = *rate;
            }
        }
        largest[usize::from(self.rates.len() >= SOME_RATES)]
    }

    fn note_latency(&mut self, took: Duration) {
        let micros = took.as_micros().clamp(1, u128::from(u32::MAX >> 4)) as u32;
        let power = micros.ilog2();
        let upper = power > 0 && micros >> (power - 1) & 1 == 1;
        self.latencies[(2 * power as usize + usize::from(upper)).min(CLASSES - 1)] += 1;
        self.count += 1;
        if self.count >= HALVED_AT {
            self.latencies.iter_mut().for_each(|n| *n /= 2);
            self.count = self.latencies.iter().sum();
        }
    }

    fn slowest(&self) -> Duration {
        let mut beyond = self.count / 100;
        for (class, n) in self.latencies.iter().enumerate().rev() {
            if *n > beyond {
                // The upper end of the class.
                let base = 1u64 << (class / 2);
                return Duration::from_micros(if class % 2 == 0 { base + base / 2 } else { base * 2 });
            }
            beyond -= n;
        }
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_rate_and_round_trip() {
        let flow = Traffic::new();
        // Sixteen pages of 32 KiB each 10 ms, 40 ms after their requests, of which the server took 15.
        for _ in 0..40 {
            flow.begin(1);
            for _ in 0..16 {
                flow.answered(32 << 10, Instant::now() - Duration::from_millis(40), Duration::from_millis(15), || None);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let (rtt, rate, window) = flow.state();
        assert!(rtt >= Duration::from_millis(25) && rtt < Duration::from_millis(27), "{rtt:?}");
        assert!(rate > 20 << 20 && rate < 110 << 20, "{rate}");
        let expected = (3.0 * rate as f64 * rtt.as_secs_f64()) as u64;
        assert!(window.abs_diff(expected) < expected / 10, "{window} {expected}");
        assert!(flow.slowest() >= Duration::from_millis(40) && flow.slowest() < Duration::from_millis(100));
    }
}
