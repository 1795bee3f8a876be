//! Flows: reads, bytes, memory, and waits of requests.

use super::dist::{seconds, Bins, BySecond, Dist};
use super::scan::Scan;
use pager::Event;
use serde_json::{json, Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Most sources listed separately; the others come last, together.
const SOURCES: usize = 200;

struct OpenRead {
    at_us: u64,
    source: u32,
}

#[derive(Default)]
struct SourceFlow {
    bytes: u64,
    took: Dist,
}

pub(super) struct Flows {
    bins: Bins,
    pub(super) latency: BySecond,
    pub(super) waiting: BySecond,
    reads: HashMap<u64, OpenRead>,
    /// Begin of each waiting request.
    requests: HashMap<u64, u64>,
    names: BTreeMap<u32, Arc<str>>,
    sources: BTreeMap<u32, SourceFlow>,
    counts: BTreeMap<&'static str, Vec<u64>>,
    /// Most bytes in the ledger, and the limit, in each bin; 0: no event in it.
    used: Vec<u64>,
    limits: Vec<u64>,
    /// Sum of the reads in flight over time, and time with any.
    depth: Vec<u64>,
    reading: Vec<u64>,
    most_depth: u64,
    /// Time at the bound of reads in flight.
    full_us: u64,
    readers: u64,
    /// End of the summed time.
    until_us: u64,
    /// Time with a read in flight until then.
    reading_us: u64,
    /// Begin of a page's wait for memory.
    starved: Option<u64>,
    starved_us: u64,
}

impl Flows {
    pub(super) fn new(bins: Bins, scan: &Scan) -> Self {
        let zeros = || vec![0; bins.count];
        let counts = ["faults", "reads", "bytes", "evictions", "given_back"];
        let counts = counts.into_iter().chain(["prefetched", "prefetch_used", "prefetch_wasted", "retries_failed"]);
        let mut limits = zeros();
        limits[0] = scan.run["memory_limit"].as_u64().unwrap_or(0);
        Self {
            bins,
            latency: BySecond::new(scan.last_us),
            waiting: BySecond::new(scan.last_us),
            reads: HashMap::new(),
            requests: HashMap::new(),
            names: scan.sources.clone(),
            sources: BTreeMap::new(),
            counts: counts.map(|name| (name, zeros())).collect(),
            used: zeros(),
            limits,
            depth: zeros(),
            reading: zeros(),
            most_depth: 0,
            full_us: 0,
            readers: scan.run["readers"].as_u64().unwrap_or(0),
            until_us: 0,
            reading_us: 0,
            starved: None,
            starved_us: 0,
        }
    }

    fn count(&mut self, name: &str, at_us: u64, n: u64) {
        let bin = self.bins.of(at_us);
        if let Some(counts) = self.counts.get_mut(name) {
            counts[bin] += n;
        }
    }

    /// Time with reads in flight, and time in which a page waited for memory, until now.
    pub(super) fn busy_until(&self, at_us: u64) -> (u64, u64) {
        let more = if self.reads.is_empty() { 0 } else { at_us.saturating_sub(self.until_us) };
        let starved = self.starved.map_or(0, |since| at_us.saturating_sub(since));
        (self.reading_us + more, self.starved_us + starved)
    }

    /// Adds the time until now to the sums.
    fn advance(&mut self, at_us: u64) {
        let depth = self.reads.len() as u64;
        if at_us > self.until_us && depth > 0 {
            let (from, to) = (self.bins.of(self.until_us), self.bins.of(at_us));
            if from == to {
                self.reading[from] += at_us - self.until_us;
                self.depth[from] += depth * (at_us - self.until_us);
            } else {
                let mut each = vec![0; self.bins.count];
                self.bins.spread(self.until_us, at_us, &mut each);
                let sums = self.reading.iter_mut().zip(&mut self.depth).zip(each);
                for ((reading, sum), us) in sums.take(to + 1).skip(from) {
                    *reading += us;
                    *sum = sum.saturating_add(depth.saturating_mul(us));
                }
            }
            self.reading_us += at_us - self.until_us;
            if self.readers > 0 && depth >= self.readers {
                self.full_us += at_us - self.until_us;
            }
        }
        self.until_us = self.until_us.max(at_us);
    }

    pub(super) fn event(&mut self, at_us: u64, event: &Event) {
        match event {
            Event::ReadStart { read, source, bytes, .. } => {
                self.advance(at_us);
                self.reads.insert(*read, OpenRead { at_us, source: source.0 });
                self.most_depth = self.most_depth.max(self.reads.len() as u64);
                self.count("reads", at_us, 1);
                self.count("bytes", at_us, *bytes);
                self.sources.entry(source.0).or_default().bytes += bytes;
            }
            Event::ReadEnd { read, ok } => {
                self.advance(at_us);
                if let Some(reading) = self.reads.remove(read) {
                    let took = at_us.saturating_sub(reading.at_us);
                    self.latency.add(at_us, took);
                    self.sources.entry(reading.source).or_default().took.add(took);
                }
                if !ok {
                    self.count("retries_failed", at_us, 1);
                }
            }
            Event::Want { token, priority: pager::Priority::Demand, .. } => {
                self.requests.entry(*token).or_insert(at_us);
            }
            Event::Resume { token } => {
                if let Some(since) = self.requests.remove(token) {
                    self.waiting.add(at_us, at_us.saturating_sub(since));
                }
            }
            // A request of resident pages has no further event; its task continues at once.
            Event::Task { token, did: pager::Did::Wait, .. } => drop(self.requests.remove(token)),
            Event::Fault { .. } => self.count("faults", at_us, 1),
            Event::Evict { .. } => self.count("evictions", at_us, 1),
            Event::GiveBack { .. } => self.count("given_back", at_us, 1),
            Event::PrefetchIssued { .. } => self.count("prefetched", at_us, 1),
            Event::PrefetchUsed { .. } => self.count("prefetch_used", at_us, 1),
            Event::PrefetchWasted { .. } => self.count("prefetch_wasted", at_us, 1),
            Event::Reserve { used, priority, .. } => {
                self.note_used(at_us, *used);
                if *priority == pager::Priority::Demand {
                    self.fed(at_us);
                }
            }
            Event::Publish { used, .. } | Event::Squeeze { used, .. } | Event::Charged { used, ok: true, .. } => {
                self.note_used(at_us, *used)
            }
            Event::Full { .. } => {
                self.starved.get_or_insert(at_us);
            }
            Event::Limit { bytes } => {
                let bin = self.bins.of(at_us);
                self.limits[bin] = *bytes;
            }
            _ => {}
        }
    }

    fn fed(&mut self, at_us: u64) {
        if let Some(since) = self.starved.take() {
            self.starved_us += at_us.saturating_sub(since);
        }
    }

    fn note_used(&mut self, at_us: u64, used: u64) {
        let bin = self.bins.of(at_us);
        self.used[bin] = self.used[bin].max(used);
    }

    pub(super) fn end(&mut self, last_us: u64) {
        self.advance(last_us);
        self.fed(last_us);
    }

    pub(super) fn series(&self) -> Map<String, Value> {
        let mut series: Map<String, Value> =
            self.counts.iter().map(|(name, counts)| ((*name).to_owned(), json!(counts))).collect();
        let share =
            |sums: &[u64]| -> Vec<f64> { sums.iter().map(|us| *us as f64 / self.bins.width_us as f64).collect() };
        // Memory is unchanged in bins without an event.
        let mut last = None;
        let used: Vec<Option<u64>> = self
            .used
            .iter()
            .map(|u| {
                last = if *u > 0 { Some(*u) } else { last };
                last
            })
            .collect();
        let mut limit = 0;
        let limits: Vec<u64> = self
            .limits
            .iter()
            .map(|l| {
                limit = if *l > 0 { *l } else { limit };
                limit
            })
            .collect();
        series.insert("depth_mean".into(), json!(share(&self.depth)));
        series.insert("reading".into(), json!(share(&self.reading)));
        series.insert("used_bytes".into(), json!(used));
        series.insert("limit_bytes".into(), json!(limits));
        series
    }

    pub(super) fn sources(&self) -> Value {
        let mut rows: Vec<(&u32, &SourceFlow)> = self.sources.iter().collect();
        rows.sort_by_key(|(_, s)| std::cmp::Reverse(s.bytes));
        let row = |(n, s): &(&u32, &SourceFlow)| {
            let name = self.names.get(n).map_or("unknown", |n| n);
            json!({"name": name, "reads": s.took.count(), "bytes": s.bytes, "mean_us": s.took.mean()})
        };
        let mut told: Vec<Value> = rows.iter().take(SOURCES).map(row).collect();
        if let Some(rest) = rows.get(SOURCES..).filter(|rest| !rest.is_empty()) {
            let (reads, bytes): (u64, u64) =
                rest.iter().fold((0, 0), |sum, (_, s)| (sum.0 + s.took.count(), sum.1 + s.bytes));
            let us: f64 = rest.iter().map(|(_, s)| s.took.mean() * s.took.count() as f64).sum();
            let name = format!("{} others", rest.len());
            told.push(json!({"name": name, "reads": reads, "bytes": bytes, "mean_us": us / reads.max(1) as f64}));
        }
        json!(told)
    }

    pub(super) fn depth(&self) -> Value {
        let reading = self.reading_us.max(1) as f64;
        json!({
            "mean": self.depth.iter().sum::<u64>() as f64 / reading, "max": self.most_depth, "limit": self.readers,
            "share_at_limit": self.full_us as f64 / reading,
        })
    }

    /// The overlap of loading and computing. Both are shares of each bin. Within a bin they are assumed to overlap as
    /// far as possible, which gives an upper bound. `computing` has the microseconds of all threads in each bin.
    pub(super) fn overlap(&self, computing: &[u64], scan: &Scan) -> Value {
        let (mut compute, mut reading, mut both, mut neither) = (0.0, 0.0, 0.0, 0.0);
        let workers = scan.run["workers"].as_u64().unwrap_or(1).max(1) as f64;
        let width = seconds(self.bins.width_us);
        for (bin, us) in computing.iter().enumerate() {
            let c = (*us as f64 / self.bins.width_us as f64 / workers).min(1.0);
            let r = (self.reading[bin] as f64 / self.bins.width_us as f64).min(1.0);
            compute += c * width;
            reading += r * width;
            both += c.min(r) * width;
            neither += (1.0 - c.max(r)) * width;
        }
        let pictures = scan.kinds.get("frame end").copied().unwrap_or(0);
        let (units, unit) = match (pictures, scan.windows.len()) {
            (2.., _) => (pictures, "pictures"),
            (_, n @ 2..) => (n as u64, "time steps"),
            _ => (1, "run"),
        };
        let (n, wall) = (units as f64, seconds(scan.last_us));
        let (l, r) = (reading / n, compute / n);
        json!({
            "units": units, "unit": unit, "compute_s": compute, "reading_s": reading, "both_s": both, "neither_s": neither,
            "serial_s": n * (l + r), "ideal_s": n * l.max(r) + l.min(r), "wall_s": wall,
        })
    }
}
