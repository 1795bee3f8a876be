//! The use of each thread's time.

use super::dist::{seconds, Bins};
use super::flows::Flows;
use super::scan::Scan;
use pager::Event;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most names of threads, and of other work, that are listed separately.
const NAMES: usize = 64;

#[derive(Clone, Default)]
struct Sums {
    worker: bool,
    first_us: u64,
    last_us: u64,
    /// Time between first and last event, of all threads of that name.
    alive_us: u64,
    compute_us: u64,
    wait_us: u64,
    wait_reads_us: u64,
    wait_memory_us: u64,
    /// Decoding of small pages takes less than a microsecond.
    decode_ns: u64,
    derive_ns: u64,
    spans_us: BTreeMap<Arc<str>, u64>,
}

/// A thread now.
#[derive(Clone, Copy, Default)]
struct Now {
    place: usize,
    /// Time of its last event. And until then, the time with reads in flight, and the time with pages that waited for
    /// memory.
    last_us: u64,
    reading_us: u64,
    starved_us: u64,
}

pub(super) struct Threads {
    bins: Bins,
    names: Vec<(Arc<str>, Sums)>,
    threads: BTreeMap<u32, Now>,
    computing: Vec<u64>,
    waiting: Vec<u64>,
}

impl Threads {
    pub(super) fn new(bins: Bins, scan: &Scan) -> Self {
        let mut names: Vec<(Arc<str>, Sums)> = Vec::new();
        let mut threads = BTreeMap::new();
        for (number, thread) in &scan.threads {
            let known = names.iter().position(|(name, _)| *name == thread.name);
            let place = known.unwrap_or_else(|| {
                // Beyond this many names the last one collects the rest.
                if names.len() < NAMES {
                    names.push((thread.name.clone(), Sums { first_us: u64::MAX, ..Sums::default() }));
                }
                names.len() - 1
            });
            names[place].1.worker |= thread.worker;
            threads.insert(*number, Now { place, last_us: u64::MAX, ..Now::default() });
        }
        Self { bins, names, threads, computing: vec![0; bins.count], waiting: vec![0; bins.count] }
    }

    pub(super) fn event(&mut self, at_us: u64, thread: u32, event: &Event, flows: &Flows) {
        let Some(now) = self.threads.get_mut(&thread) else { return };
        let sums = &mut self.names[now.place].1;
        let took_us = match event {
            Event::Compute { took_us, .. } | Event::Wait { took_us } | Event::Span { took_us, .. } => *took_us,
            Event::Decode { took_ns, .. } | Event::Derive { took_ns, .. } => took_ns.div_ceil(1000),
            _ => 0,
        };
        let begin_us = at_us.saturating_sub(took_us);
        if now.last_us == u64::MAX {
            now.last_us = begin_us;
        }
        sums.alive_us += at_us.saturating_sub(now.last_us);
        sums.first_us = sums.first_us.min(begin_us);
        sums.last_us = sums.last_us.max(at_us);
        let (reading_us, starved_us) = flows.busy_until(at_us);
        match event {
            Event::Compute { .. } => {
                sums.compute_us += took_us;
                self.bins.spread(begin_us, at_us, &mut self.computing);
            }
            Event::Wait { .. } => {
                sums.wait_us += took_us;
                let reads = reading_us.saturating_sub(now.reading_us).min(took_us);
                sums.wait_reads_us += reads;
                sums.wait_memory_us += starved_us.saturating_sub(now.starved_us).min(took_us - reads);
                self.bins.spread(begin_us, at_us, &mut self.waiting);
            }
            Event::Decode { took_ns, .. } => sums.decode_ns += took_ns,
            Event::Derive { took_ns, .. } => sums.derive_ns += took_ns,
            Event::Span { name, .. } if (sums.spans_us.len() < NAMES || sums.spans_us.contains_key(name)) => {
                *sums.spans_us.entry(name.clone()).or_default() += took_us;
            }
            _ => {}
        }
        now.last_us = now.last_us.max(at_us);
        // A waiting thread completes reads and starts others itself. Those events do not end its wait, which started
        // before them.
        let marks = matches!(
            event,
            Event::Compute { .. }
                | Event::Wait { .. }
                | Event::Span { .. }
                | Event::Decode { .. }
                | Event::Derive { .. }
                | Event::Task { .. }
                | Event::Release { .. }
        );
        if marks {
            (now.reading_us, now.starved_us) = (reading_us, starved_us);
        }
    }

    /// Microseconds of computing in each bin, of all threads.
    pub(super) fn computing(&self) -> &[u64] {
        &self.computing
    }

    pub(super) fn series(&self) -> Map<String, Value> {
        let width = self.bins.width_us as f64;
        let share = |sums: &[u64]| json!(sums.iter().map(|us| *us as f64 / width).collect::<Vec<_>>());
        let mut series = Map::new();
        series.insert("computing".into(), share(&self.computing));
        series.insert("waiting".into(), share(&self.waiting));
        series
    }

    pub(super) fn threads(&self) -> Value {
        let row = |(number, (name, s)): (usize, &(Arc<str>, Sums))| {
            let spans: Map<String, Value> =
                s.spans_us.iter().map(|(n, us)| ((**n).into(), json!(seconds(*us)))).collect();
            json!({
                "thread": number, "name": &**name, "worker": s.worker,
                "first_s": seconds(if s.first_us == u64::MAX { 0 } else { s.first_us }), "last_s": seconds(s.last_us),
                "compute_s": seconds(s.compute_us), "wait_s": seconds(s.wait_us), "decode_s": s.decode_ns as f64 * 1e-9,
                "derive_s": s.derive_ns as f64 * 1e-9, "spans": spans, "other_s": seconds(s.other_us()),
            })
        };
        self.names.iter().enumerate().map(row).collect()
    }

    /// The same of all threads that step tasks together; spans are of all threads.
    pub(super) fn sums(&self) -> Value {
        let workers = || self.names.iter().map(|(_, s)| s).filter(|s| s.worker);
        let sum = |of: fn(&Sums) -> u64| seconds(workers().map(of).sum());
        let mut spans: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, s) in &self.names {
            for (name, us) in &s.spans_us {
                *spans.entry(name).or_default() += us;
            }
        }
        let spans: Map<String, Value> = spans.into_iter().map(|(n, us)| (n.to_owned(), json!(seconds(us)))).collect();
        json!({
            "thread_s": sum(|s| s.alive_us), "compute_s": sum(|s| s.compute_us),
            "wait_reads_s": sum(|s| s.wait_reads_us), "wait_memory_s": sum(|s| s.wait_memory_us),
            "wait_other_s": sum(|s| s.wait_us - s.wait_reads_us - s.wait_memory_us),
            "decode_s": sum(|s| s.decode_ns / 1000), "derive_s": sum(|s| s.derive_ns / 1000), "spans": spans, "other_s": sum(Sums::other_us),
        })
    }
}

impl Sums {
    fn other_us(&self) -> u64 {
        let known = self.compute_us + self.wait_us + (self.decode_ns + self.derive_ns) / 1000;
        let spans: u64 = if self.worker { 0 } else { self.spans_us.values().sum() };
        self.alive_us.saturating_sub(known + spans)
    }
}
