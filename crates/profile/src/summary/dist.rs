//! Distributions and bins of time in bounded memory.

use serde_json::{json, Value};

/// Most bins of time.
pub(super) const BINS: usize = 400;

/// Parts of an octave: quantiles are accurate to 3 %.
const PARTS: u64 = 16;

/// Seconds from microseconds.
pub(super) fn seconds(us: u64) -> f64 {
    us as f64 * 1e-6
}

/// A distribution of integer microseconds: counts in buckets of equal ratio.
#[derive(Clone, Default)]
pub(super) struct Dist {
    buckets: Vec<u64>,
    count: u64,
    total: u64,
    least: u64,
    most: u64,
}

/// Below 16 each number has a bucket of its own, above each octave has 16.
fn bucket(value: u64) -> usize {
    if value < PARTS {
        return value as usize;
    }
    let octave = u64::from(value.ilog2()) - 4;
    (PARTS + octave * PARTS + ((value >> octave) - PARTS)) as usize
}

/// The least number of a bucket.
fn low(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return bucket;
    }
    let (octave, part) = ((bucket - PARTS) / PARTS, (bucket - PARTS) % PARTS);
    (PARTS + part).checked_shl(octave as u32).unwrap_or(u64::MAX)
}

impl Dist {
    pub(super) fn add(&mut self, us: u64) {
        let at = bucket(us);
        if self.buckets.len() <= at {
            self.buckets.resize(at + 1, 0);
        }
        self.buckets[at] += 1;
        (self.least, self.most) = if self.count == 0 { (us, us) } else { (self.least.min(us), self.most.max(us)) };
        self.count += 1;
        self.total += us;
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn mean(&self) -> f64 {
        self.total as f64 / self.count.max(1) as f64
    }

    fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut sum = 0;
        for (n, count) in self.buckets.iter().enumerate() {
            sum += count;
            if sum >= rank {
                // The middle of the bucket, bounded by the ends of the distribution.
                let middle = (low(n) as f64 + low(n + 1).saturating_sub(1) as f64) / 2.0;
                return middle.clamp(self.least as f64, self.most as f64);
            }
        }
        self.most as f64
    }

    /// Null if it is empty.
    pub(super) fn json(&self) -> Value {
        if self.count == 0 {
            return Value::Null;
        }
        json!({
            "count": self.count, "total_s": self.total as f64 * 1e-6, "min_us": self.least, "mean_us": self.mean(),
            "p50_us": self.quantile(0.5), "p90_us": self.quantile(0.9), "p99_us": self.quantile(0.99), "max_us": self.most,
        })
    }

    /// Buckets that are not empty, four a octave: from, to, count.
    fn histogram(&self) -> Vec<[u64; 3]> {
        let mut rows: Vec<[u64; 3]> = Vec::new();
        for (n, part) in self.buckets.chunks(PARTS as usize / 4).enumerate() {
            let count: u64 = part.iter().sum();
            if count > 0 {
                let first = n * (PARTS as usize / 4);
                rows.push([low(first), low(first + PARTS as usize / 4), count]);
            }
        }
        rows
    }
}

/// Equal parts of the time of a run.
#[derive(Copy, Clone, Debug)]
pub(super) struct Bins {
    pub(super) width_us: u64,
    pub(super) count: usize,
}

impl Bins {
    pub(super) fn over(last_us: u64, most: usize) -> Self {
        let width_us = (last_us / most as u64 + 1).max(100);
        Self { width_us, count: (last_us / width_us + 1) as usize }
    }

    pub(super) fn of(&self, at_us: u64) -> usize {
        ((at_us / self.width_us) as usize).min(self.count - 1)
    }

    /// Adds the interval between two times to each bin's share of it.
    pub(super) fn spread(&self, from_us: u64, to_us: u64, to: &mut [u64]) {
        let mut at = from_us;
        while at < to_us {
            let bin = self.of(at);
            let end = if bin + 1 == self.count { to_us } else { to_us.min((bin as u64 + 1) * self.width_us) };
            to[bin] += end - at;
            at = end;
        }
    }
}

/// A distribution, and the same by second.
pub(super) struct BySecond {
    all: Dist,
    /// Seconds, or wider where there are too many.
    bins: Bins,
    each: Vec<Dist>,
}

impl BySecond {
    pub(super) fn new(last_us: u64) -> Self {
        let mut bins = Bins::over(last_us, BINS);
        if bins.width_us < 1_000_000 {
            bins = Bins { width_us: 1_000_000, count: (last_us / 1_000_000 + 1) as usize };
        }
        Self { all: Dist::default(), bins, each: vec![Dist::default(); bins.count] }
    }

    pub(super) fn add(&mut self, at_us: u64, took_us: u64) {
        self.all.add(took_us);
        let bin = self.bins.of(at_us);
        self.each[bin].add(took_us);
    }

    pub(super) fn json(&self) -> Value {
        let second = |(n, d): (usize, &Dist)| {
            let mut row = d.json();
            row.as_object_mut()?.insert("t_s".into(), json!(n as f64 * self.bins.width_us as f64 * 1e-6));
            Some(row)
        };
        let seconds: Vec<Value> = self.each.iter().enumerate().filter_map(second).collect();
        json!({"all": self.all.json(), "seconds": seconds, "histogram": self.all.histogram()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_they_say() {
        for value in (0..100_000u64).chain((17..63).map(|n| (1 << n) + 12_345)) {
            let at = bucket(value);
            assert!(low(at) <= value && value < low(at + 1), "{value}");
        }
    }

    #[test]
    fn quantiles_are_right_to_three_parts_in_a_hundred() {
        let mut d = Dist::default();
        (1..=100_000).for_each(|n| d.add(n));
        for (share, is) in [(0.5, 50_000.0), (0.9, 90_000.0), (0.99, 99_000.0)] {
            let said = d.quantile(share);
            assert!((said / is - 1.0).abs() < 0.035, "{said}");
        }
        assert_eq!((d.least, d.most, d.count, d.mean()), (1, 100_000, 100_000, 50_000.5));
        assert_eq!(d.histogram().iter().map(|r| r[2]).sum::<u64>(), 100_000);
    }

    #[test]
    fn spreading_loses_nothing() {
        let bins = Bins::over(99_999, 7);
        let mut to = vec![0; bins.count];
        bins.spread(3, 99_999, &mut to);
        bins.spread(50_000, 50_001, &mut to);
        assert_eq!(to.iter().sum::<u64>(), 99_996 + 1);
        assert!(to[1..bins.count - 1].iter().all(|t| (bins.width_us..=bins.width_us + 1).contains(t)));
    }
}
