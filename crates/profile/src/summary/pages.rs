//! Touched pages, their faults over time, and repeated reads.

use super::dist::Bins;
use super::scan::Scan;
use pager::{Event, PageId};
use serde_json::{json, Value};
use std::collections::{BTreeMap, HashMap};

/// Rows of the page-fault history.
const ROWS: usize = 256;

/// Pages of a part of a set.
const PART: u64 = 4096;

/// A set of pages: a bit each, in parts that exist if any bit is set. The number of pages in a log sizes no allocation.
#[derive(Default)]
struct Set(HashMap<u64, Box<[u64; (PART / 64) as usize]>>);

impl Set {
    /// Whether the page is new.
    fn insert(&mut self, page: u64) -> bool {
        let part = self.0.entry(page / PART).or_insert_with(|| Box::new([0; (PART / 64) as usize]));
        let (word, bit) = ((page % PART / 64) as usize, 1u64 << (page % 64));
        let new = part[word] & bit == 0;
        part[word] |= bit;
        new
    }
}

/// One time step of one array.
#[derive(Default)]
struct SegmentPages {
    touched: Set,
    published: Set,
    count: u64,
}

#[derive(Default)]
struct ArrayPages {
    name: String,
    role: &'static str,
    pages: u64,
    /// Pages of the arrays before it, in the history.
    first: u64,
    faults: u64,
    published: u64,
    published_bytes: u64,
    again: u64,
    /// Bytes of its last page that came: the usual size.
    page_bytes: u64,
}

pub(super) struct PageSummary {
    bins: Bins,
    arrays: BTreeMap<u32, ArrayPages>,
    segments: HashMap<(u32, u32), SegmentPages>,
    total: u64,
    history: Vec<Vec<u64>>,
}

impl PageSummary {
    pub(super) fn new(bins: Bins, scan: &Scan) -> Self {
        let mut total = 0;
        let mut arrays = BTreeMap::new();
        for (number, a) in scan.arrays.iter().filter(|(_, a)| a.met) {
            let array = ArrayPages {
                name: a.name.to_string(),
                role: a.role,
                pages: a.pages,
                first: total,
                ..ArrayPages::default()
            };
            total = a.pages.saturating_add(total);
            arrays.insert(*number, array);
        }
        let rows = ROWS.min(usize::try_from(total).unwrap_or(ROWS));
        Self { bins, arrays, segments: HashMap::new(), total, history: vec![vec![0; bins.count]; rows] }
    }

    fn segment(&mut self, page: PageId) -> Option<(&mut SegmentPages, &mut ArrayPages)> {
        let array = self.arrays.get_mut(&page.array.0).filter(|a| page.page < a.pages)?;
        Some((self.segments.entry((page.array.0, page.step)).or_default(), array))
    }

    pub(super) fn event(&mut self, at_us: u64, event: &Event) {
        match event {
            Event::Fault { page } => {
                let rows = self.history.len() as u128;
                let (bin, total) = (self.bins.of(at_us), u128::from(self.total.max(1)));
                let Some((_, array)) = self.segment(*page) else { return };
                array.faults += 1;
                let row = (u128::from(array.first + page.page) * rows / total) as usize;
                self.history[row][bin] += 1;
                self.touch(*page);
            }
            Event::Publish { page, bytes, .. } => {
                let Some((segment, array)) = self.segment(*page) else { return };
                array.published += 1;
                array.published_bytes += bytes;
                array.page_bytes = *bytes;
                array.again += u64::from(!segment.published.insert(page.page));
            }
            Event::Pin { page, .. } | Event::PrefetchUsed { page } => self.touch(*page),
            _ => {}
        }
    }

    fn touch(&mut self, page: PageId) {
        let Some((segment, _)) = self.segment(page) else { return };
        segment.count += u64::from(segment.touched.insert(page.page));
    }

    /// Touched pages and bytes by array, in the order of arrays.
    fn sums(&self) -> BTreeMap<u32, (u64, u64, u64)> {
        let mut sums: BTreeMap<u32, (u64, u64, u64)> = BTreeMap::new();
        for ((array, _), segment) in &self.segments {
            let bytes = self.arrays.get(array).map_or(0, |a| a.page_bytes);
            let sum = sums.entry(*array).or_default();
            *sum = (sum.0 + 1, sum.1 + segment.count, sum.2.saturating_add(segment.count.saturating_mul(bytes)));
        }
        sums
    }

    pub(super) fn arrays(&self) -> Value {
        let sums = self.sums();
        let row = |(number, a): (&u32, &ArrayPages)| {
            let (steps, touched, bytes) = sums.get(number).copied().unwrap_or_default();
            let zone = a.name.strip_prefix("_farfield/").unwrap_or(&a.name).split('/').next().unwrap_or_default();
            json!({
                "array": number, "name": a.name, "zone": zone, "role": a.role, "first": self.row(a.first), "pages": a.pages,
                "steps": steps, "touched": touched, "touched_bytes": bytes, "published": a.published,
                "published_bytes": a.published_bytes, "read_again": a.again, "faults": a.faults,
            })
        };
        self.arrays.iter().map(row).collect()
    }

    fn row(&self, page: u64) -> u64 {
        (u128::from(page) * self.history.len() as u128 / u128::from(self.total.max(1))) as u64
    }

    pub(super) fn history(&self) -> Value {
        json!({"rows": self.history.len(), "columns": self.bins.count, "pages": self.total, "counts": self.history})
    }

    /// The working set of each time step, grid and solution apart. Grids that do not move count as of step 0.
    pub(super) fn steps(&self) -> Value {
        let mut steps: BTreeMap<u32, [[u64; 3]; 2]> = BTreeMap::new();
        for ((number, step), segment) in &self.segments {
            let Some(array) = self.arrays.get(number) else { continue };
            let kind = match array.role {
                "grid" => 0,
                "solution" => 1,
                _ => continue,
            };
            let sum = &mut steps.entry(*step).or_default()[kind];
            let bytes = segment.count.saturating_mul(array.page_bytes);
            *sum = [sum[0] + segment.count, sum[1].saturating_add(bytes), sum[2].saturating_add(array.pages)];
        }
        let share = |sum: [u64; 3]| sum[0] as f64 / sum[2].max(1) as f64;
        let row = |(step, [grid, solution]): (u32, [[u64; 3]; 2])| {
            json!({
                "step": step, "grid_touched": grid[0], "grid_bytes": grid[1], "grid_share": share(grid),
                "solution_touched": solution[0], "solution_bytes": solution[1], "solution_share": share(solution),
            })
        };
        steps.into_iter().map(row).collect()
    }

    /// Pages touched of those of all touched time steps, grid and solution apart.
    pub(super) fn touched(&self) -> Value {
        let mut sums = [[0u64; 4]; 2];
        for (number, (steps, touched, bytes)) in self.sums() {
            let Some(array) = self.arrays.get(&number) else { continue };
            let kind = match array.role {
                "grid" => 0,
                "solution" => 1,
                _ => continue,
            };
            let all = steps.saturating_mul(array.pages);
            for (sum, more) in sums[kind].iter_mut().zip([touched, all, bytes, all.saturating_mul(array.page_bytes)]) {
                *sum = sum.saturating_add(more);
            }
        }
        let row = |s: [u64; 4]| json!({"pages": s[0], "total": s[1], "bytes": s[2], "total_bytes": s[3]});
        json!({"grid": row(sums[0]), "solution": row(sums[1])})
    }
}
