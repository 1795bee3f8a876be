//! Kinds of lines: what a task is, and what a thread needs to step it.

use crate::executor::Outcome;
use field::nodes::{Miss, Nodes, Zone};
use field::paged::PagedNodes;
use field::space::{Space, ZoneFields, LANES};
use kernels::flow::{GridFlow, ZoneOrder};
use kernels::line::Joined;
use kernels::streamline::{step_lanes, Options, Progress, Seed, Streamline};
use kernels::unsteady::{Series, UnsteadyFlow, UnsteadyLine};
use pager::error::PageError;
use pager::Worker;
use std::sync::Arc;

/// A kind of line.
pub(crate) trait Tracer: Sync {
    /// One line in the making.
    type Line: Send;
    /// A thread's view of the dataset.
    type Flow;
    /// Makes a thread's view.
    fn flow(&self, worker: Worker) -> Self::Flow;
    /// The pager's part of it.
    fn worker<'c>(&self, flow: &'c mut Self::Flow) -> &'c mut Worker;
    /// A line that starts at a seed.
    fn line(&self, seed: Seed) -> Self::Line;
    /// One step of each line, and what came of it; a line of which a page failed ends there, and `failed` gets its lane and the error.
    fn steps(
        &self,
        flow: &mut Self::Flow,
        lines: [Option<&mut Self::Line>; LANES],
        outcomes: &mut [Outcome; LANES],
        failed: impl FnMut(usize, Option<PageError>),
    );
    /// Bytes that a line holds.
    fn bytes(line: &Self::Line) -> usize;
    /// A line that is done.
    fn join(line: Self::Line) -> Joined;
}

/// Lines of a single step.
pub(crate) struct Streamlines {
    pub zones: Arc<[Zone]>,
    pub fields: Arc<[ZoneFields]>,
    pub order: ZoneOrder,
    pub step: u32,
    pub options: Options,
    /// Sampled components.
    pub components: usize,
}

impl Tracer for Streamlines {
    type Line = Streamline;
    type Flow = GridFlow<PagedNodes>;

    fn flow(&self, worker: Worker) -> Self::Flow {
        let nodes = PagedNodes::new(self.zones.clone(), worker, self.step);
        GridFlow::new(Space::new(nodes, self.fields.clone()), self.order.clone())
    }
    #[inline(always)]
    fn worker<'c>(&self, flow: &'c mut Self::Flow) -> &'c mut Worker {
        flow.space.nodes.worker()
    }
    fn line(&self, seed: Seed) -> Streamline {
        Streamline::new(seed, &self.options, self.components)
    }
    #[inline(always)]
    fn steps(
        &self,
        flow: &mut Self::Flow,
        lines: [Option<&mut Streamline>; LANES],
        outcomes: &mut [Outcome; LANES],
        failed: impl FnMut(usize, Option<PageError>),
    ) {
        step_lines(flow, &self.options, lines, outcomes, failed);
    }
    #[inline(always)]
    fn bytes(line: &Streamline) -> usize {
        line.bytes()
    }
    fn join(line: Streamline) -> Joined {
        line.into_line()
    }
}

/// Lines of particles that go on while the flow changes.
pub(crate) struct Unsteady<L: UnsteadyLine> {
    pub zones: Arc<[Zone]>,
    pub series: Arc<Series>,
    pub order: ZoneOrder,
    pub options: L::Options,
    /// Sampled components.
    pub components: usize,
}

impl<L: UnsteadyLine> Tracer for Unsteady<L> {
    type Line = L;
    type Flow = UnsteadyFlow<PagedNodes>;

    fn flow(&self, worker: Worker) -> Self::Flow {
        UnsteadyFlow::new(PagedNodes::new(self.zones.clone(), worker, 0), self.series.clone(), self.order.clone())
    }
    #[inline(always)]
    fn worker<'c>(&self, flow: &'c mut Self::Flow) -> &'c mut Worker {
        flow.grid.space.nodes.nodes().worker()
    }
    fn line(&self, seed: Seed) -> L {
        L::new(seed, &self.options, self.components)
    }
    fn steps(
        &self,
        flow: &mut Self::Flow,
        lines: [Option<&mut L>; LANES],
        outcomes: &mut [Outcome; LANES],
        failed: impl FnMut(usize, Option<PageError>),
    ) {
        step_unsteady(flow, &self.options, lines, outcomes, failed);
    }
    fn bytes(line: &L) -> usize {
        line.bytes()
    }
    fn join(line: L) -> Joined {
        line.into_line()
    }
}

/// One step of each streamline, and what came of it; a line of which a page failed ends there, and `failed` gets its lane and the error.
#[inline(always)]
pub fn step_lines<N: Nodes>(
    flow: &mut GridFlow<N>,
    options: &Options,
    lines: [Option<&mut Streamline>; LANES],
    outcomes: &mut [Outcome; LANES],
    mut failed: impl FnMut(usize, Option<PageError>),
) {
    step_lanes(flow, options, lines, |lane, flow, line, result| {
        take(result, &mut flow.space.nodes, &mut outcomes[lane], |error| {
            failed(lane, error);
            line.fail();
        });
    });
}

/// As [`step_lines`], of lines in a flow that changes.
pub fn step_unsteady<N: Nodes, L: UnsteadyLine>(
    flow: &mut UnsteadyFlow<N>,
    options: &L::Options,
    lines: [Option<&mut L>; LANES],
    outcomes: &mut [Outcome; LANES],
    mut failed: impl FnMut(usize, Option<PageError>),
) {
    for (lane, line) in lines.into_iter().enumerate() {
        let Some(line) = line else { continue };
        let result = line.step(flow, options, lane);
        take(result, &mut flow.grid.space.nodes, &mut outcomes[lane], |error| {
            failed(lane, error);
            line.fail();
        });
    }
}

/// Takes note of what came of a step.
#[inline(always)]
fn take<N: Nodes>(
    result: Result<Progress, Miss>,
    nodes: &mut N,
    outcome: &mut Outcome,
    fail: impl FnOnce(Option<PageError>),
) {
    outcome.progress = match result {
        Ok(p) => p,
        Err(Miss::Absent) => {
            outcome.missing.append(nodes.missing());
            Progress::Need
        }
        Err(Miss::Failed) => {
            nodes.missing().clear();
            fail(nodes.failure());
            Progress::Done
        }
    };
}
