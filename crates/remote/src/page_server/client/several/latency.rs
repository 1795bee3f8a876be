//! Latencies of demanded reads, the time after which another server is asked, too, and how often that may be.

use std::time::Duration;

/// Classes of sizes: up to 16, 64 and 256 KiB, up to 1 MiB, more.
const CLASSES: usize = 5;
/// Latencies that count.
const LAST: usize = 200;
/// Latencies that are enough to judge by.
const ENOUGH: usize = 20;
/// New latencies after which the time is worked out anew.
const STEP: usize = 10;
/// A hedge is never earlier: the threads of a busy machine wait as long for a core.
const FLOOR: Duration = Duration::from_millis(2);
/// The time until latencies are known.
const UNKNOWN: Duration = Duration::from_millis(250);
/// Hedges for each request.
const SHARE: f64 = 0.05;
/// Hedges at once after a calm time.
const BURST: f64 = 32.0;

/// See the module. The times are those of all servers together: by its own, a slow server would never be late.
#[derive(Default)]
pub(super) struct Latencies {
    classes: [SizeClass; CLASSES],
}

#[derive(Default)]
struct SizeClass {
    micros: Vec<u32>,
    next: usize,
    fresh: usize,
    after: Option<Duration>,
}

fn class_of(bytes: u64) -> usize {
    (bytes.max(1).div_ceil(16 << 10).next_power_of_two().ilog2() as usize).div_ceil(2).min(CLASSES - 1)
}

impl Latencies {
    /// A demanded read has ended.
    pub(super) fn note(&mut self, bytes: u64, took: Duration) {
        let class = &mut self.classes[class_of(bytes)];
        let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        if class.micros.len() < LAST {
            class.micros.push(micros);
        } else {
            class.micros[class.next] = micros;
            class.next = (class.next + 1) % LAST;
        }
        class.fresh += 1;
        if class.micros.len() < ENOUGH || class.fresh < STEP {
            return;
        }
        class.fresh = 0;
        let mut sorted = class.micros.clone();
        sorted.sort_unstable();
        // Where all reads take the same time, one that is a little later than most is not late.
        let late = sorted[sorted.len() * 19 / 20].max(sorted[sorted.len() / 2].saturating_mul(2));
        class.after = Some(Duration::from_micros(u64::from(late)).max(FLOOR));
    }

    /// The age of a read at which another server is asked for it: that which 95 of 100 do not reach.
    pub(super) fn hedge_after(&self, bytes: u64) -> Duration {
        self.classes[class_of(bytes)].after.unwrap_or(UNKNOWN)
    }
}

/// The budget of hedges: a twentieth of the requests.
#[derive(Default)]
pub(super) struct HedgeBudget(f64);

impl HedgeBudget {
    /// Requests go out.
    pub(super) fn earn(&mut self, requests: usize) {
        self.0 = (self.0 + SHARE * requests as f64).min(BURST);
    }

    /// Whether there is a hedge left; if so, it is spent.
    pub(super) fn spend(&mut self) -> bool {
        let is_left = self.0 >= 1.0;
        if is_left {
            self.0 -= 1.0;
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_is_what_few_reads_are() {
        let mut latencies = Latencies::default();
        for n in 0..400u64 {
            let slow = n % 25 == 0;
            latencies.note(32 << 10, Duration::from_micros(if slow { 90_000 } else { 5000 + n % 10 }));
            latencies.note(1 << 20, Duration::from_micros(100 + 100 * (n % 100)));
        }
        let after = latencies.hedge_after(48 << 10);
        assert!(after >= Duration::from_millis(10) && after < Duration::from_millis(11), "{after:?}");
        let after = latencies.hedge_after(1 << 20);
        assert!(after > Duration::from_millis(9) && after <= Duration::from_micros(10_300), "{after:?}");
        assert_eq!(latencies.hedge_after(1000), UNKNOWN);
        assert_eq!([1, 16 << 10, 17 << 10, 256 << 10, 1 << 20, 4 << 20].map(class_of), [0, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_twentieth_of_the_requests_may_be_hedges() {
        let mut budget = HedgeBudget::default();
        assert!(!budget.spend());
        let mut spent = 0;
        for _ in 0..1000 {
            budget.earn(1);
            spent += usize::from(budget.spend());
        }
        assert!((49..=50).contains(&spent), "{spent}");
        budget.earn(100_000);
        assert_eq!((0..1000).filter(|_| budget.spend()).count(), BURST as usize);
    }
}
