//! Number of grid pages that a particle touches where it crosses from one zone to another.

use super::lines::Job;
use field::error::FieldError;
use field::nodes::{Each, Miss, Nodes, Zone};
use field::paged::PagedNodes;
use field::simd::V4;
use kernels::streamline::StepProgress;
use pager::error::PageError;
use pager::PageId;
use runtime::limits::pager_error;
use runtime::session::{ProgressWatch, Resources, Session, SourceSpec};
use serde_json::{json, Value};
use std::collections::HashSet;
use trace::TraceSpec;

/// Paged nodes with a list of the requested grid pages.
struct Counting {
    nodes: PagedNodes,
    coordinates: HashSet<PageId>,
    iblank: HashSet<PageId>,
    boxes: HashSet<PageId>,
}

impl Counting {
    fn note(zone: &Zone, array: usize, cell: [u32; 3], set: &mut HashSet<PageId>) {
        let dims = zone.dims();
        for corner in 0..8u32 {
            let node: [u32; 3] = core::array::from_fn(|a| (cell[a] + ((corner >> a) & 1)).min(dims[a] - 1));
            set.insert(PageId::new(zone.arrays[array].id, 0, zone.translation.node(node).page));
        }
    }
}

impl Nodes for Counting {
    type At<'a> = Each<'a, Self>;
    fn zones(&self) -> &[Zone] {
        self.nodes.zones()
    }
    fn at(&mut self, zone: usize, cell: [u32; 3]) -> Each<'_, Self> {
        Each::new(self, zone, cell)
    }
    fn vector(&mut self, zone: usize, array: usize, cell: [u32; 3], out: &mut [V4; 8]) -> Result<(), Miss> {
        let z = &self.nodes.zones()[zone];
        if array == z.xyz {
            Self::note(z, array, cell, &mut self.coordinates);
        }
        self.nodes.vector(zone, array, cell, out)
    }
    fn scalar(
        &mut self,
        zone: usize,
        array: usize,
        component: usize,
        cell: [u32; 3],
        out: &mut [f64; 8],
    ) -> Result<(), Miss> {
        let z = &self.nodes.zones()[zone];
        if Some(array) == z.iblank {
            Self::note(z, array, cell, &mut self.iblank);
        }
        self.nodes.scalar(zone, array, component, cell, out)
    }
    fn block(&mut self, zone: usize, level: usize, block: [u32; 3]) -> Result<[f32; 6], Miss> {
        let l = &self.nodes.zones()[zone].boxes[level];
        self.boxes.insert(PageId::new(l.id, 0, l.translation.node(block).page));
        self.nodes.block(zone, level, block)
    }
    fn missing(&mut self) -> &mut Vec<PageId> {
        self.nodes.missing()
    }
    fn failure(&mut self) -> Option<PageError> {
        self.nodes.failure()
    }
    fn begin_step(&mut self) {
        self.nodes.begin_step();
    }
}

/// Traces on one thread, and lists the requested grid pages of each step in which a particle changed its zone.
///
/// # Errors
/// [`FieldError`] of opening and tracing.
pub fn crossings(
    source: SourceSpec,
    resources: Resources,
    spec: &TraceSpec,
    watch: &mut ProgressWatch<'_>,
) -> Result<Value, FieldError> {
    let session = Session::open(source, resources, watch)?;
    let dataset = session.located(watch)?;
    let job = Job::new(spec, &dataset, &session.pager, watch)?;
    let nodes = PagedNodes::new(dataset.zones.clone(), session.pager.worker(), spec.step as u32);
    let mut flow =
        job.flow(Counting { nodes, coordinates: HashSet::new(), iblank: HashSet::new(), boxes: HashSet::new() });
    let (mut coordinates, mut iblank, mut boxes) = (Vec::new(), Vec::new(), Vec::new());
    let mut points = 0;
    for n in 0..spec.seeds.len() {
        let (_, mut line) = job.line(n)?;
        loop {
            let nodes = &mut flow.space.nodes;
            nodes.begin_step();
            nodes.coordinates.clear();
            nodes.iblank.clear();
            nodes.boxes.clear();
            let crossed = flow.crossings;
            match line.step(&mut flow, &spec.options) {
                Ok(progress) => {
                    if flow.crossings > crossed {
                        let nodes = &flow.space.nodes;
                        coordinates.push(nodes.coordinates.len());
                        iblank.push(nodes.iblank.len());
                        boxes.push(nodes.boxes.len());
                    }
                    if progress == StepProgress::Done {
                        break;
                    }
                }
                Err(Miss::Absent) => {
                    // The step runs again with its pages, and is counted then.
                    flow.crossings = crossed;
                    let wanted = core::mem::take(flow.space.nodes.missing());
                    flow.space.nodes.nodes.worker().release();
                    drop(session.pager.fetch(&wanted).map_err(pager_error)?);
                }
                Err(Miss::Failed) => line.fail(),
            }
        }
        points += line.points();
        if !watch("tracing", n as f64, spec.seeds.len() as f64) {
            return Err(FieldError::Interrupted);
        }
    }
    let c = session.pager.counters();
    Ok(json!({
        "lines": spec.seeds.len(), "points": points, "crossings": coordinates.len(), "coordinates": coordinates, "iblank": iblank,
        "boxes": boxes, "pages_touched": c.touched, "pages_total": c.total,
    }))
}
