//! Pages that a run touched, by array, from the pager's events.

use pager::{Event, Observer, PageId};
use serde_json::{json, Value};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Counts different pages that became resident, and those read more than once.
#[derive(Default)]
pub(super) struct Watcher {
    seen: Mutex<WatchedEvents>,
}

#[derive(Default)]
struct WatchedEvents {
    names: HashMap<u32, Arc<str>>,
    /// Bytes of each page, number of its reads, and its place in the order of first reads.
    pages: HashMap<PageId, (u64, u32, usize)>,
    /// Pages of earlier runs.
    earlier: HashSet<PageId>,
}

impl Observer for Watcher {
    fn event(&self, _: u64, event: &Event) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Array { array, name, .. } => drop(seen.names.insert(array.0, name.clone())),
            Event::Publish { page, bytes, .. } => {
                let place = seen.pages.len();
                let entry = seen.pages.entry(*page).or_insert((0, 0, place));
                *entry = (*bytes, entry.1 + 1, entry.2);
            }
            _ => {}
        }
    }
}

impl Watcher {
    /// Totals, and the same by array.
    pub fn report(&self) -> Value {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut arrays: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
        let mut total = [0u64; 3];
        for (page, (bytes, reads, _)) in &seen.pages {
            let name = seen.names.get(&page.array.0).map_or("", |n| &**n);
            for sum in [arrays.entry(name).or_default(), &mut total] {
                sum[0] += 1;
                sum[1] += bytes;
                sum[2] += u64::from(*reads);
            }
        }
        let mut steps: BTreeMap<&str, BTreeMap<u32, u64>> = BTreeMap::new();
        for (page, (bytes, ..)) in &seen.pages {
            let name = seen.names.get(&page.array.0).map_or("", |n| &**n);
            *steps.entry(name).or_default().entry(page.step).or_default() += bytes;
        }
        let row = |[pages, bytes, reads]: [u64; 3]| json!({"pages": pages, "bytes": bytes, "reads": reads});
        let of_array = |(name, sums): (&str, [u64; 3])| {
            let mut one = row(sums);
            let by_step: serde_json::Map<String, Value> = steps
                .get(name)
                .into_iter()
                .flatten()
                .map(|(step, bytes)| (step.to_string(), (*bytes).into()))
                .collect();
            one["steps"] = by_step.into();
            (name.to_owned(), one)
        };
        let arrays: serde_json::Map<String, Value> = arrays.into_iter().map(of_array).collect();
        let again = seen.pages.keys().filter(|p| seen.earlier.contains(p)).count();
        json!({"total": row(total), "arrays": arrays, "again": again})
    }

    /// The pages in the order of their first read.
    pub fn pages(&self) -> Vec<PageId> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<(usize, PageId)> = seen.pages.iter().map(|(p, (_, _, place))| (*place, *p)).collect();
        all.sort_unstable();
        all.into_iter().map(|p| p.1).collect()
    }

    /// Begins another run. Pages read so far belong to earlier runs.
    pub fn next_run(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let pages: Vec<PageId> = seen.pages.drain().map(|p| p.0).collect();
        seen.earlier.extend(pages);
    }
}
