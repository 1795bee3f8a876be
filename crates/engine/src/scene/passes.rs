//! From rays of pixels to the light of their samples: what volumes and fields of flows have in common in pictures.

use super::document::Document;
use crate::hatch;
use crate::limits::charge_other;
use crate::picture::{Depths, HazeRows, MOST_SAMPLES};
use crate::raycast::{Ends, Image};
use field::error::FieldError;
use pager::Pager;
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the rays of a picture may take.
#[derive(Copy, Clone, Debug)]
pub(super) struct Budget {
    begun: Instant,
    length: Duration,
}

/// A budget of more is none.
const MOST_BUDGET_S: f64 = 1e9;

impl Budget {
    /// Of a picture that is begun now, if the scene has one.
    pub(super) fn of(document: &Document) -> Option<Self> {
        let length = |s: f64| Duration::from_secs_f64(s.min(MOST_BUDGET_S));
        document.budget_s.map(|s| Self { begun: Instant::now(), length: length(s) })
    }

    /// When rows of a picture of `height` have to be there. Rows come in groups, from the top: each may take its share.
    fn deadline(&self, depths: &Depths<'_>, height: u32) -> Instant {
        self.begun + self.length.mul_f64(f64::from(depths.rows().end) / f64::from(height.max(1)))
    }
}

/// What pictures lack of volumes and fields.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(crate) struct Lack {
    /// Pixels in which something is missing, since pages could not be had.
    pub(crate) gaps: u64,
    /// Pixels that are filled from those around them, or at edges from what is in front, since the budget was spent.
    pub(crate) filled: u64,
}

impl Lack {
    pub(crate) fn any(&self) -> bool {
        self.gaps > 0 || self.filled > 0
    }
}

impl AddAssign for Lack {
    fn add_assign(&mut self, o: Self) {
        self.gaps += o.gaps;
        self.filled += o.filled;
    }
}

/// Has rays cast for the rows of `depths` of a picture of `height`, as often as the pixel with the most depths has depths, and lays what
/// they gather into `light`. `cast` is given where rays end, and when they have to be there, if that is said. When it is time edges are
/// left: what is seen in front of one surface is taken for the others of a pixel, too. Pixels that lack something are hatched.
///
/// # Errors
/// Those of `cast`; [`FieldError::LimitTooSmall`].
pub(super) fn lay(
    pager: &Arc<Pager>,
    depths: &Depths<'_>,
    height: u32,
    budget: Option<Budget>,
    light: &mut HazeRows,
    mut cast: impl FnMut(Ends<'_>, Option<Instant>) -> Result<Image, FieldError>,
) -> Result<Lack, FieldError> {
    let (rows, columns) = (depths.rows(), depths.columns());
    let each = || rows.clone().flat_map(|row| (0..columns).map(move |column| (row, column)));
    let most = light.most();
    let pixels = rows.len() * columns as usize;
    let _marks = charge_other(pager, pixels as u64, "marks of pixels that lack something")?;
    let mut lack = vec![false; pixels];
    let deadline = budget.map(|b| b.deadline(depths, height));
    let (mut filled, mut late) = (0, false);
    // Samples of a pixel that lie at different depths, at edges, take a ray each; most pixels have one depth.
    for pass in 0..most {
        let depth = |x: u32, y: u32| {
            let mut each = [0.0; MOST_SAMPLES];
            let n = depths.of(y, x, &mut each);
            each[..n].get(pass).map_or(f64::NEG_INFINITY, |d| f64::from(*d))
        };
        let was_late = late;
        late |= pass > 0 && deadline.is_some_and(|d| Instant::now() >= d);
        if late {
            for (row, column) in each() {
                let all = light.pixel_mut(row, column);
                if let (Some(first), Some(to)) = (all.first().copied(), all.get_mut(pass)) {
                    *to = first;
                    // All pixels of edges have as many samples. Those that have been filled are counted.
                    filled += u64::from(!was_late);
                }
            }
            continue;
        }
        let rows_of = &*light;
        let some = |x: u32, y: u32| rows_of.pixel(y, x).len() > pass;
        let wanted: Option<&dyn Fn(u32, u32) -> bool> = if pass > 0 { Some(&some) } else { None };
        // A pass of edges is little, and half of one is of no use.
        let image = cast(Ends { depth: &depth, wanted }, deadline.filter(|_| pass == 0))?;
        filled += image.filled;
        late |= image.filled > 0;
        light.at_depth(pass, |n, to| {
            lack[n] |= image.gaps[n];
            *to = if image.gaps[n] {
                // Nobody is to take what is there for the whole.
                let [r, g, b] = hatch::linear([n as u32 % columns, rows.start + n as u32 / columns]);
                [r, g, b, 0.0]
            } else {
                let [r, g, b, a] = image.rgba[n];
                [r, g, b, 1.0 - a]
            };
        });
    }
    let gaps = lack.iter().filter(|l| **l).count() as u64;
    Ok(Lack { gaps, filled })
}
