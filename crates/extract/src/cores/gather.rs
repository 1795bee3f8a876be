//! Values at nodes, from resident pages.

use super::plan::{CorePlan, ReadStage};
use field::nodes::Zone;
use pager::error::PageError;
use pager::{Lookup, PageId, Worker};
use runtime::values::NodeReader;
use std::collections::HashMap;

/// A thread's reader: one worker's pins, and a reader for each zone and stage used so far.
pub(super) struct BlockReader<'a> {
    plan: &'a CorePlan,
    /// The pins.
    pub worker: Worker,
    readers: HashMap<(usize, ReadStage), NodeReader<'a>>,
    values: Vec<f64>,
}

/// The result of an attempt.
pub(super) enum Got {
    /// All pages were resident.
    All,
    /// Some are absent, and are listed.
    Absent,
    /// One is unreadable.
    Failed(PageError),
}

/// Zone, readers and pages of one attempt.
struct Attempt<'r, 'a> {
    zone: &'r Zone,
    reader: &'r mut NodeReader<'a>,
    worker: &'r Worker,
}

impl<'r> Attempt<'r, '_> {
    /// The pages of a box, array by array.
    fn pages(&self, b: [u32; 3], missing: &mut Vec<PageId>) -> Result<Vec<Option<&'r [u8]>>, Got> {
        let mut pages: Vec<Option<&[u8]>> = vec![None; self.zone.arrays.len()];
        let (mut failed, before) = (None, missing.len());
        for a in &self.reader.arrays {
            let id = self.reader.page(self.zone, *a, b);
            match self.worker.page(id) {
                Lookup::Here(p) => pages[*a] = Some(p),
                Lookup::Failed(e) => failed = Some(e),
                Lookup::Absent if missing.contains(&id) => {}
                Lookup::Absent => missing.push(id),
            }
        }
        match failed {
            Some(e) => Err(Got::Failed(e)),
            None if pages.iter().flatten().count() < self.reader.arrays.len() || missing.len() > before => {
                Err(Got::Absent)
            }
            None => Ok(pages),
        }
    }
}

impl<'a> BlockReader<'a> {
    pub fn new(plan: &'a CorePlan, worker: Worker) -> Self {
        Self { plan, worker, readers: HashMap::new(), values: Vec::new() }
    }

    fn attempt(&mut self, of: usize, stage: ReadStage) -> (Attempt<'_, 'a>, &mut Vec<f64>) {
        let plan = self.plan;
        let zone = &plan.zones[of];
        let reader = self
            .readers
            .entry((of, stage))
            .or_insert_with(|| NodeReader::of(zone.info.clone(), plan.step, zone.fields(stage)));
        self.values.clear();
        self.values.resize(zone.fields(stage).iter().map(|q| q.components()).sum(), 0.0);
        (Attempt { zone: &plan.dataset.zones[zone.zone], reader, worker: &self.worker }, &mut self.values)
    }

    /// Calls `each` with the nodes of a box of pages inside `lo..hi`, if its pages are resident.
    pub fn page(
        &mut self,
        (of, stage): (usize, ReadStage),
        b: [u32; 3],
        [lo, hi]: [[u32; 3]; 2],
        missing: &mut Vec<PageId>,
        each: &mut dyn FnMut([u32; 3], &[f64]),
    ) -> Got {
        let (at, values) = self.attempt(of, stage);
        let pages = match at.pages(b, missing) {
            Ok(pages) => pages,
            Err(got) => return got,
        };
        let t = &at.zone.translation;
        let [lo, hi] = within(t.page, b, [lo, hi]);
        let wide = (hi[0] - lo[0]) as usize;
        for k in lo[2]..hi[2] {
            for j in lo[1]..hi[1] {
                let first = t.node([lo[0], j, k]).element;
                at.reader.compute(at.zone, &pages, first, wide);
                for i in 0..wide {
                    at.reader.eval(at.zone, &pages, first, i, values);
                    each([lo[0] + i as u32, j, k], values);
                }
            }
        }
        Got::All
    }

    /// Adds to `out` the weighted mean of values at nodes, if all pages are resident. Nodes with weight 0 are not read.
    pub fn mean(
        &mut self,
        (of, stage): (usize, ReadStage),
        nodes: &[[u32; 3]; 3],
        weights: &[f64; 3],
        missing: &mut Vec<PageId>,
        out: &mut Vec<f64>,
    ) -> Got {
        let (at, values) = self.attempt(of, stage);
        let t = &at.zone.translation;
        let mut pages = [const { None }; 3];
        let (mut absent, mut failed) = (false, None);
        for n in (0..3).filter(|n| weights[*n] != 0.0) {
            let node = nodes[n];
            match at.pages(core::array::from_fn(|a| node[a] / t.page[a]), missing) {
                Ok(p) => pages[n] = Some(p),
                Err(Got::Failed(e)) => failed = Some(e),
                Err(_) => absent = true,
            }
        }
        match failed {
            Some(e) => return Got::Failed(e),
            None if absent => return Got::Absent,
            None => {}
        }
        let from = out.len();
        out.resize(from + values.len(), 0.0);
        for (n, pages) in pages.iter().enumerate() {
            let Some(pages) = pages else { continue };
            let first = t.node(nodes[n]).element;
            at.reader.compute(at.zone, pages, first, 1);
            at.reader.eval(at.zone, pages, first, 0, values);
            for (out, v) in out[from..].iter_mut().zip(values.iter()) {
                *out += weights[n] * v;
            }
        }
        Got::All
    }
}

/// The part of a box of nodes inside a box of pages.
pub(super) fn within(page: [u32; 3], b: [u32; 3], [lo, hi]: [[u32; 3]; 2]) -> [[u32; 3]; 2] {
    [
        core::array::from_fn(|a| lo[a].max(b[a] * page[a])),
        core::array::from_fn(|a| hi[a].min((b[a] + 1).saturating_mul(page[a]))),
    ]
}
