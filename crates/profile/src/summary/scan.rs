//! The first pass: the duration of the run, and its contents.

use pager::Event;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Times of events that are kept, evenly, to find the busy part of the run.
const KEPT_TIMES: usize = 4096;

/// The role of an array.
pub(crate) fn role(name: &str, derived: bool) -> &'static str {
    let last = name.rsplit('/').next().unwrap_or(name);
    if derived {
        "derived"
    } else if last == "index" || name.starts_with("_farfield/") {
        "index"
    } else if matches!(last, "xyz" | "iblank") {
        "grid"
    } else {
        "solution"
    }
}

/// An array as the log names it.
#[derive(Clone, Debug, Default)]
pub(super) struct ScannedArray {
    pub(super) name: Arc<str>,
    pub(super) pages: u64,
    pub(super) role: &'static str,
    /// Whether any of its pages was requested or came.
    pub(super) met: bool,
}

/// A thread as the log names it.
#[derive(Clone, Debug, Default)]
pub(super) struct Thread {
    pub(super) name: Arc<str>,
    /// Whether it steps tasks.
    pub(super) worker: bool,
}

#[derive(Default)]
pub(super) struct Scan {
    pub(super) last_us: u64,
    pub(super) events: u64,
    pub(super) kinds: BTreeMap<&'static str, u64>,
    pub(super) arrays: BTreeMap<u32, ScannedArray>,
    pub(super) sources: BTreeMap<u32, Arc<str>>,
    pub(super) threads: BTreeMap<u32, Thread>,
    pub(super) windows: BTreeSet<u32>,
    pub(super) run: Value,
    pub(super) stats: Value,
    /// The times of every so many events.
    times: Vec<u64>,
    every: u64,
}

impl Scan {
    pub(super) fn event(&mut self, at_us: u64, thread: u32, event: &Event) {
        self.last_us = self.last_us.max(at_us);
        *self.kinds.entry(event.kind()).or_default() += 1;
        self.events += 1;
        if self.events.is_multiple_of(self.every.max(1)) {
            self.times.push(at_us);
            if self.times.len() >= 2 * KEPT_TIMES {
                let mut n = 0;
                self.times.retain(|_| {
                    n += 1;
                    n % 2 == 0
                });
                self.every = self.every.max(1) * 2;
            }
        }
        match event {
            Event::Array { array, name, pages, derived, .. } => {
                let array = self.arrays.entry(array.0).or_default();
                (array.name, array.pages, array.role) = (name.clone(), *pages, role(name, *derived));
            }
            Event::Source { source, name } => drop(self.sources.insert(source.0, name.clone())),
            Event::Thread { name } => self.threads.entry(thread).or_default().name = name.clone(),
            Event::Compute { .. } | Event::Wait { .. } => self.threads.entry(thread).or_default().worker = true,
            Event::Task { window, .. } if self.windows.len() < 1 << 16 => drop(self.windows.insert(*window)),
            Event::Note { json } => {
                if let Ok(Value::Object(mut note)) = serde_json::from_str(json) {
                    for (name, to) in [("run", &mut self.run), ("stats", &mut self.stats)] {
                        if let Some(value) = note.remove(name) {
                            *to = value;
                        }
                    }
                }
            }
            Event::Fault { page } | Event::Publish { page, .. } => {
                if let Some(array) = self.arrays.get_mut(&page.array.0) {
                    array.met = true;
                }
            }
            _ => {}
        }
    }

    /// The interval in the middle of the run with about `events` events.
    pub(super) fn middle(&self, events: u64) -> (u64, u64) {
        if self.events <= events || self.times.len() < 4 {
            return (0, self.last_us);
        }
        let half = ((events / self.every.max(1)) as usize / 2).clamp(1, self.times.len() / 2);
        let middle = self.times.len() / 2;
        let (from, to) = (self.times[middle - half], self.times[(middle + half).min(self.times.len() - 1)]);
        (from.min(to), to.max(from + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_have_roles() {
        for (name, derived, is) in [
            ("zone1/xyz", false, "grid"),
            ("zone 2/iblank", false, "grid"),
            ("zone1/density", false, "solution"),
            ("zone1/vorticity", true, "derived"),
            ("zone1/xyz/index", false, "index"),
            ("_farfield/zone1/boxes_0", false, "index"),
        ] {
            assert_eq!(role(name, derived), is, "{name}");
        }
    }

    #[test]
    fn the_middle_of_a_run_is_where_its_events_are() {
        let mut scan = Scan::default();
        // A second with few events, and then ten milliseconds with many.
        (0..1000).for_each(|n| scan.event(n * 1000, 1, &Event::Limit { bytes: 1 }));
        (0..100_000).for_each(|n| scan.event(1_000_000 + n / 10, 1, &Event::Limit { bytes: 1 }));
        let (from, to) = scan.middle(10_000);
        assert!(from > 1_000_000 && to <= 1_010_000 && (500..2000).contains(&(to - from)), "{from} {to}");
        assert!(scan.times.len() < 2 * KEPT_TIMES);
    }
}
