//! Timelines of seeds: the seeds of each curve, and its refinement.

use crate::admission::SeedRule;
use crate::line_kinds::{Tracer, Unsteady};
use field::error::FieldError;
use field::locator::LANES;
use field::paged::PagedNodes;
use kernels::line::JoinedLine;
use kernels::streamline::Seed;
pub use kernels::timeline::Refine;
use kernels::timeline::Timeline;
use kernels::unsteady::UnsteadyFlow;
use pager::error::PageError;
use pager::{Pager, Worker};
use runtime::executor::Outcome;
use runtime::limits::charge_other;
use std::any::Any;
use std::sync::Arc;

/// Options of timelines.
#[derive(Clone, Debug)]
pub struct TimelineSpec {
    /// The largest distance of neighbours.
    pub refine: Refine,
    /// Most points of a curve.
    pub max_points: usize,
    /// Which seeds make a curve.
    pub curves: Curves,
}

/// Which seeds make a curve. They are always consecutive.
#[derive(Clone, Debug, PartialEq)]
pub enum Curves {
    /// All of them.
    One,
    /// Each group of this many.
    Of(u64),
    /// Groups that begin at these numbers; the last number is the number of seeds.
    At(Vec<u64>),
}

impl Default for TimelineSpec {
    fn default() -> Self {
        Self { refine: Refine::Times(2.0), max_points: 10_000, curves: Curves::One }
    }
}

impl TimelineSpec {
    /// The numbers of the seeds at which curves begin and end, and the charge for them.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for offsets that do not rise from 0 to the number of seeds; [`FieldError::LimitTooSmall`].
    pub(crate) fn charged_curves(
        &self,
        seeds: u64,
        pager: &Arc<Pager>,
    ) -> Result<(Vec<u64>, Box<dyn Any>), FieldError> {
        let count = match &self.curves {
            Curves::One => 2,
            Curves::Of(n) => seeds / (*n).max(1) + 1,
            Curves::At(offsets) => offsets.len() as u64,
        };
        let held = charge_other(pager, count * 8, "where the curves of timelines begin")?;
        Ok((self.curves(seeds)?, held))
    }

    fn curves(&self, seeds: u64) -> Result<Vec<u64>, FieldError> {
        let offsets = match &self.curves {
            Curves::One => return Ok(vec![0, seeds]),
            Curves::Of(n) if *n == 0 || !seeds.is_multiple_of(*n) => {
                return Err(FieldError::Usage(format!(
                    "{seeds} seeds do not make curves of {n} points each; choose a number that divides them"
                )))
            }
            Curves::Of(n) => return Ok((0..=seeds / n).map(|c| c * n).collect()),
            Curves::At(offsets) => offsets,
        };
        let rise = offsets.windows(2).all(|w| w[0] < w[1]);
        if offsets.len() < 2 || offsets[0] != 0 || offsets.last() != Some(&seeds) || !rise {
            return Err(FieldError::Usage(format!(
                "the offsets of timelines must rise from 0 to the number of seeds, {seeds}, each curve with one seed at least"
            )));
        }
        Ok(offsets.clone())
    }
}

pub(crate) struct Timelines {
    pub unsteady: Unsteady<Timeline>,
    pub curves: Vec<u64>,
}

impl Tracer for Timelines {
    type Line = Timeline;
    type Flow = UnsteadyFlow<PagedNodes>;

    fn flow(&self, worker: Worker) -> Self::Flow {
        self.unsteady.flow(worker)
    }
    fn worker<'c>(&self, flow: &'c mut Self::Flow) -> &'c mut Worker {
        self.unsteady.worker(flow)
    }
    fn line(&self, seed: Seed) -> Timeline {
        self.unsteady.line(seed)
    }
    fn begin(&self, n: u64, seeds: &SeedRule<'_>) -> Result<Timeline, FieldError> {
        let (first, end) = (self.curves[n as usize], self.curves[n as usize + 1]);
        let mut curve = Vec::with_capacity((end - first) as usize);
        for seed in first..end {
            let Seed::Physical(x) = seeds.seed(seed)? else {
                return Err(FieldError::Usage(
                    "a timeline is let go along a curve through positions: give its seeds as point:, line: or a file, not by ijk \
                     or at random"
                        .into(),
                ));
            };
            curve.push(x);
        }
        Ok(Timeline::along(curve.into(), &self.unsteady.options, self.unsteady.components))
    }
    fn steps(
        &self,
        flow: &mut Self::Flow,
        lines: [Option<&mut Timeline>; LANES],
        outcomes: &mut [Outcome; LANES],
        failed: impl FnMut(usize, Option<PageError>),
    ) {
        self.unsteady.steps(flow, lines, outcomes, failed);
    }
    fn bytes(line: &Timeline) -> usize {
        <Unsteady<Timeline> as Tracer>::bytes(line)
    }
    fn join(line: Timeline) -> JoinedLine {
        <Unsteady<Timeline> as Tracer>::join(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pager::PagerConfig;

    #[test]
    fn where_curves_begin_is_charged() {
        let spec = TimelineSpec { curves: Curves::Of(2), ..TimelineSpec::default() };
        let pager = Pager::new(PagerConfig { limit: 4 << 20, ..PagerConfig::default() }).unwrap();
        let before = pager.ledger().used();
        let (curves, held) = spec.charged_curves(200_000, &pager).unwrap();
        assert_eq!((curves.len(), pager.ledger().used() - before), (100_001, 800_008));
        drop(held);
        assert_eq!(pager.ledger().used(), before);
        let refused = spec.charged_curves(2_000_000, &pager);
        assert!(matches!(refused, Err(FieldError::LimitTooSmall { .. })));
    }
}
