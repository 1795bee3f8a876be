//! What a place measures of its line, and what follows: how many reads at once, how long, with which holes.

use crate::options::NetworkOptions;
use pager::source::ReadForm;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Reads at once on a slow line.
const LEAST_WINDOW: usize = 8;
/// Reads at once on a new line: a first picture needs some dozens, and each round trip counts.
const FIRST_WINDOW: usize = 24;
/// Bytes a second of a new line.
const FIRST_RATE: f64 = 125e6;
/// Bytes that make a line known. A few documents, one after the other, show its round trip and not its rate.
const FIRST_BYTES_TOLD: u64 = 2 << 20;
/// Bytes of a read before there was one.
const FIRST_TYPICAL: f64 = 32.0 * 1024.0;
/// The round trip of a fast line, at least. The turns of processes on their processors are its delay, and a millisecond
/// more in flight makes no demand wait noticeably.
const LEAST_RTT: Duration = Duration::from_millis(1);
/// The smallest time to the first byte is that of this period.
const RTT_PERIOD: Duration = Duration::from_secs(10);
/// Times to the first byte that are kept for their 99th percentile.
const FIRST_BYTES: usize = 128;
/// Samples between two sorts of them.
const SORT_EVERY: usize = 16;

struct Samples {
    /// The smallest time to the first byte in this and in the last period, and the period's begin.
    rtt: [Option<Duration>; 2],
    period: Instant,
    /// The delivery rates of the last 10 round trips, falling: bytes a second, and when.
    rates: VecDeque<(f64, Instant)>,
    first_bytes: VecDeque<Duration>,
    unsorted: usize,
    /// Typical bytes of a read.
    typical: f64,
}

/// The measures of a place.
pub(super) struct LineMeter {
    delivered: AtomicU64,
    /// Bytes a second.
    rate: AtomicU64,
    window: AtomicUsize,
    /// As in [`Samples`].
    typical: AtomicU64,
    /// Nanoseconds that 99 of 100 replies take to begin.
    slow: AtomicU64,
    samples: Mutex<Samples>,
}

/// The begin of a read.
#[derive(Copy, Clone)]
pub(super) struct Begun {
    delivered: u64,
    at: Instant,
}

impl LineMeter {
    pub(super) fn new() -> Self {
        let samples = Samples {
            rtt: [None; 2],
            period: Instant::now(),
            rates: VecDeque::new(),
            first_bytes: VecDeque::new(),
            unsorted: 0,
            typical: FIRST_TYPICAL,
        };
        Self {
            delivered: AtomicU64::new(0),
            rate: AtomicU64::new(0),
            window: AtomicUsize::new(FIRST_WINDOW),
            typical: AtomicU64::new(FIRST_TYPICAL as u64),
            slow: AtomicU64::new(0),
            samples: Mutex::new(samples),
        }
    }

    /// Reads that may be in flight.
    pub(super) fn window(&self) -> usize {
        let window = self.window.load(Relaxed);
        if self.is_known() {
            window
        } else {
            window.max(FIRST_WINDOW)
        }
    }

    /// Whether so much has come that its measures are those of the line.
    fn is_known(&self) -> bool {
        self.delivered() >= FIRST_BYTES_TOLD
    }

    /// Typical bytes of a read.
    pub(super) fn typical(&self) -> u64 {
        self.typical.load(Relaxed)
    }

    /// Bytes received.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered.load(Relaxed)
    }

    /// The time in which a reply must begin.
    pub(super) fn first_byte(&self, options: &NetworkOptions) -> Duration {
        options.first_byte.max(Duration::from_nanos(self.slow.load(Relaxed)).saturating_mul(10))
    }

    pub(super) fn form(&self) -> ReadForm {
        let measured = self.rate.load(Relaxed) as f64;
        let rate = if self.is_known() { measured } else { measured.max(FIRST_RATE) };
        let within = |bytes: f64, least: usize, most: usize| (bytes as usize).clamp(least, most);
        ReadForm {
            hole: within(rate * 0.3e-3, 4 << 10, 64 << 10),
            longest: within(rate * 50e-3, 256 << 10, 1 << 20),
            ..ReadForm::default()
        }
    }

    pub(super) fn begin(&self) -> Begun {
        Begun { delivered: self.delivered(), at: Instant::now() }
    }

    /// Notes the begin of a reply.
    pub(super) fn replied(&self, begun: Begun) {
        let now = Instant::now();
        let took = now.duration_since(begun.at);
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(samples.period) > RTT_PERIOD {
            samples.rtt = [None, samples.rtt[0]];
            samples.period = now;
        }
        samples.rtt[0] = Some(samples.rtt[0].map_or(took, |least| least.min(took)));
        if samples.first_bytes.len() == FIRST_BYTES {
            samples.first_bytes.pop_front();
        }
        samples.first_bytes.push_back(took);
        samples.unsorted += 1;
        if samples.unsorted >= SORT_EVERY || samples.first_bytes.len() < SORT_EVERY {
            samples.unsorted = 0;
            let mut sorted: Vec<Duration> = samples.first_bytes.iter().copied().collect();
            sorted.sort_unstable();
            let slow = sorted[(sorted.len() * 99 / 100).min(sorted.len() - 1)];
            self.slow.store(slow.as_nanos() as u64, Relaxed);
        }
    }

    /// Notes bytes of a body.
    pub(super) fn received(&self, bytes: usize) {
        self.delivered.fetch_add(bytes as u64, Relaxed);
    }

    /// Notes the end of a read of so many bytes. All bytes that came during it give a rate.
    pub(super) fn ended(&self, begun: Begun, bytes: usize) {
        let now = Instant::now();
        let took = now.duration_since(begun.at).as_secs_f64().max(1e-6);
        let rate = (self.delivered() - begun.delivered) as f64 / took;
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.typical += (bytes as f64 - samples.typical) / 16.0;
        let rtt = samples.rtt.iter().flatten().min().copied().unwrap_or_default();
        // On a fast line 10 round trips are too short to be a measure.
        let span = (rtt * 10).max(Duration::from_millis(100));
        while samples.rates.front().is_some_and(|(_, at)| now.duration_since(*at) > span) {
            samples.rates.pop_front();
        }
        while samples.rates.back().is_some_and(|(known, _)| *known <= rate) {
            samples.rates.pop_back();
        }
        samples.rates.push_back((rate, now));
        let best = samples.rates.front().map_or(rate, |(rate, _)| *rate);
        let window = 3.0 * best * rtt.max(LEAST_RTT).as_secs_f64() / samples.typical.max(1.0);
        self.typical.store(samples.typical as u64, Relaxed);
        drop(samples);
        self.rate.store(best as u64, Relaxed);
        self.window.store((window as usize).max(LEAST_WINDOW), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_stay_in_their_bounds() {
        let meter = LineMeter::new();
        // Of a new line, and of a slow one.
        assert_eq!((meter.form().hole, meter.form().longest, meter.window()), (37_500, 1 << 20, 24));
        meter.window.store(LEAST_WINDOW, Relaxed);
        assert_eq!(meter.window(), 24);
        meter.received(FIRST_BYTES_TOLD as usize);
        assert_eq!((meter.form().hole, meter.form().longest, meter.window()), (4 << 10, 256 << 10, 8));
        meter.rate.store(1 << 40, Relaxed);
        assert_eq!((meter.form().hole, meter.form().longest), (64 << 10, 1 << 20));
        // 100 Mbit: 3.75 KB in 0.3 ms; 1 Gbit: 37.5 KB.
        meter.rate.store(125_000_000, Relaxed);
        assert_eq!(meter.form().hole, 37_500);
    }

    #[test]
    fn the_window_follows_rate_and_delay() {
        let meter = LineMeter::new();
        for _ in 0..20 {
            let begun = meter.begin();
            std::thread::sleep(Duration::from_millis(5));
            meter.replied(begun);
            meter.received(64 << 15);
            meter.ended(begun, 32 << 10);
        }
        // 64 pages of 32 KiB each round trip.
        let window = meter.window();
        assert!((96..=200).contains(&window), "{window}");
    }
}
