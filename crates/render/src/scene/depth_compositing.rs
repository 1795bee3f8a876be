//! Depth compositing: from rays of pixels to the light of their samples, for volumes and fields of flows.

use super::document::SceneDocument;
use crate::picture::{Camera, Depths, HazeRows, MOST_SAMPLES};
use crate::raycast::{Image, RayEnds, Stops};
use field::error::FieldError;
use kernels::draw::hatch;
use kernels::rays::RayLight;
use pager::{spin_lock, Pager};
use runtime::limits::charge_other;
use std::ops::AddAssign;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Most seconds for the rays of a picture, counted from the first ray. Counted from the picture's beginning, 50 ms gave
/// no pixel. At 1600 x 900 beside other work, 100 ms passed before the first request.
#[derive(Debug)]
pub(super) struct TimeBudget {
    begun: OnceLock<Instant>,
    length: Duration,
}

/// Divisor: the share of a budget for the coarse picture of some rows, whatever is left of the budget.
const MOMENTS: f64 = 10.0;
/// A longer budget is none.
const MOST_BUDGET_S: f64 = 1e9;

impl TimeBudget {
    /// The budget of the scene, if it has one.
    pub(super) fn of(document: &SceneDocument) -> Option<Self> {
        let length = |s: f64| Duration::from_secs_f64(s.min(MOST_BUDGET_S));
        document.budget_s.map(|s| Self { begun: OnceLock::new(), length: length(s) })
    }

    /// The latest deadline of a coarse picture of some rows that begins now. Earlier rows may have used all the time.
    pub(super) fn a_moment(&self) -> Instant {
        Instant::now() + self.length.div_f64(MOMENTS)
    }

    /// The deadline of the rows of `depths` in a picture of `height`. Groups of rows come from the top, and each gets
    /// its share.
    fn deadline(&self, depths: &Depths, height: u32) -> Instant {
        *self.begun.get_or_init(Instant::now)
            + self.length.mul_f64(f64::from(depths.rows().end) / f64::from(height.max(1)))
    }
}

/// What pictures lack of volumes and fields, in pixels.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(crate) struct Lack {
    /// Pixels with failed pages.
    pub(crate) gaps: u64,
    /// Pixels filled from their neighbours, or at edges from the surface in front, after the deadline.
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

/// The scene of rays, prepared for the last camera and size. Under a small limit a picture has many groups of rows.
/// Making colour tables for each took a third of all time.
pub(super) struct PreparedScene<S>(Mutex<Option<PreparedView<S>>>);

/// Camera and size, and the scene prepared for them.
type PreparedView<S> = (Camera, [u32; 2], Arc<S>);

impl<S> Default for PreparedScene<S> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<S> PreparedScene<S> {
    /// The prepared scene, made now if necessary.
    pub(super) fn of<E>(
        &self,
        camera: &Camera,
        size: [u32; 2],
        make: impl FnOnce() -> Result<Arc<S>, E>,
    ) -> Result<Arc<S>, E> {
        let mut kept = spin_lock::lock(&self.0);
        if let Some((_, _, scene)) = kept.as_ref().filter(|(of, at, _)| of == camera && *at == size) {
            return Ok(scene.clone());
        }
        *kept = None;
        let scene = make()?;
        *kept = Some((*camera, size, scene.clone()));
        Ok(scene)
    }
}

/// Casts rays for [`lay`] up to their ends, before a deadline if there is one.
pub(super) type CastRays<'a> = dyn FnMut(RayEnds<'_>, Option<Instant>) -> Result<Image, FieldError> + 'a;

/// The depths between which a pixel's ray (column, row) gathers light.
pub(super) type DepthRange<'a> = dyn Fn(u32, u32) -> Option<[f64; 2]> + 'a;

/// The light of a pixel that was not cast in time: its filled value, or hatching if its ray meets an object and nothing
/// is known of it.
fn seen_of(image: &Image, n: usize, at: [u32; 2], rays: Rays<'_>) -> RayLight {
    if image.is_unknown(n) && (rays.between)(at[0], at[1]).is_some() {
        (hatch::unknown(at), false)
    } else {
        (image.rgba[n], image.gaps[n])
    }
}

/// Properties of rays, known before they are cast.
#[derive(Copy, Clone)]
pub(super) struct Rays<'a> {
    /// Whether they can stop on their way.
    pub(super) stop: bool,
    /// Where they may gather light.
    pub(super) between: &'a DepthRange<'a>,
}

/// Casts rays for the rows of `depths` in a picture of `height`, and writes their light into `light`. Rays that can
/// stop are cast once for all depths of a pixel, others once for each depth.
///
/// After the deadline edges are approximate: the light at one depth stands for the pixel's other depths, scaled or as
/// it is. Pixels with gaps are hatched, and so are unknown ones.
///
/// # Errors
/// Those of `cast`; [`FieldError::LimitTooSmall`].
pub(super) fn lay(
    pager: &Arc<Pager>,
    depths: &Depths,
    height: u32,
    budget: Option<&TimeBudget>,
    rays: Rays<'_>,
    light: &mut HazeRows,
    cast: &mut CastRays<'_>,
) -> Result<Lack, FieldError> {
    let pixels = depths.rows().len() * depths.columns() as usize;
    let _marks = charge_other(pager, pixels as u64, "marks of pixels that lack something")?;
    let deadline = budget.map(|b| b.deadline(depths, height));
    if rays.stop && light.most() > 1 {
        at_stops(depths, deadline, rays, light, cast)
    } else {
        in_passes(depths, deadline, rays, light, cast)
    }
}

/// A pixel's light and transmission at a depth. Gaps are hatched, so that nobody takes them for complete.
fn laid((rgba, gap): RayLight, at: [u32; 2]) -> [f32; 4] {
    if gap {
        let [r, g, b] = hatch::linear(at);
        [r, g, b, 0.0]
    } else {
        let [r, g, b, a] = rgba;
        [r, g, b, 1.0 - a]
    }
}

/// The light of a filled pixel in front of `depth`: its share of the light gathered between two depths. With all of it,
/// lines on the front of a volume were hidden.
fn share([r, g, b, through]: [f32; 4], between: [f64; 2], depth: f64) -> [f32; 4] {
    let part = ((depth - between[0]) / (between[1] - between[0])).clamp(0.0, 1.0) as f32;
    [r * part, g * part, b * part, 1.0 - (1.0 - through) * part]
}

/// Casts each ray once, with stops at all depths of its pixel.
fn at_stops(
    depths: &Depths,
    deadline: Option<Instant>,
    rays: Rays<'_>,
    light: &mut HazeRows,
    cast: &mut CastRays<'_>,
) -> Result<Lack, FieldError> {
    #[derive(Copy, Clone, PartialEq)]
    enum Mark {
        NotCast,
        Whole,
        Lacks,
    }
    let (rows, columns, most) = (depths.rows(), depths.columns(), light.most());
    let number = |[x, y]: [u32; 2]| (y - rows.start) as usize * columns as usize + x as usize;
    let of = |x: u32, y: u32, to: &mut [f64; MOST_SAMPLES]| {
        let each = depths.of(y, x);
        to.iter_mut().zip(each).for_each(|(to, depth)| *to = f64::from(*depth));
        each.len()
    };
    let farthest = |x: u32, y: u32| depths.of(y, x).iter().copied().map(f64::from).fold(f64::NEG_INFINITY, f64::max);
    let to = Mutex::new((light, vec![Mark::NotCast; rows.len() * columns as usize]));
    let take = |at: [u32; 2], found: &[RayLight]| {
        let (light, marks) = &mut *spin_lock::lock(&to);
        light.pixel_mut(at[1], at[0]).iter_mut().zip(found).for_each(|(to, found)| *to = laid(*found, at));
        marks[number(at)] = if found.iter().any(|found| found.1) { Mark::Lacks } else { Mark::Whole };
    };
    let stops = Stops { depths: &of, most, take: &take };
    let image = cast(RayEnds { depth: &farthest, wanted: None, stops: Some(stops) }, deadline)?;
    let (light, mut marks) = to.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (n, mark) in marks.iter_mut().enumerate().filter(|(_, mark)| **mark == Mark::NotCast) {
        let at = [n as u32 % columns, rows.start + n as u32 / columns];
        let seen = laid(seen_of(&image, n, at, rays), at);
        if image.gaps[n] {
            light.pixel_mut(at[1], at[0]).fill(seen);
            *mark = Mark::Lacks;
            continue;
        }
        let deepest = farthest(at[0], at[1]);
        let all =
            (rays.between)(at[0], at[1]).map(|[near, far]| [near, far.min(deepest)]).filter(|[near, far]| near < far);
        let to = light.pixel_mut(at[1], at[0]);
        match all {
            Some(all) => {
                let each = depths.of(at[1], at[0]);
                to.iter_mut().zip(each).for_each(|(to, depth)| *to = share(seen, all, f64::from(*depth)));
            }
            None => to.fill(seen),
        }
    }
    let gaps = marks.iter().filter(|mark| **mark == Mark::Lacks).count() as u64;
    Ok(Lack { gaps, filled: image.filled })
}

/// Casts rays to the first depth of each pixel, then to the second depth where there is one, and so on.
fn in_passes(
    depths: &Depths,
    deadline: Option<Instant>,
    rays: Rays<'_>,
    light: &mut HazeRows,
    cast: &mut CastRays<'_>,
) -> Result<Lack, FieldError> {
    let (rows, columns) = (depths.rows(), depths.columns());
    let each = || rows.clone().flat_map(|row| (0..columns).map(move |column| (row, column)));
    let most = light.most();
    let mut lack = vec![false; rows.len() * columns as usize];
    let (mut filled, mut late) = (0, false);
    // Samples at different depths, at edges, take a ray each. Most pixels have one depth.
    for pass in 0..most {
        let depth = |x: u32, y: u32| depths.of(y, x).get(pass).map_or(f64::NEG_INFINITY, |d| f64::from(*d));
        let was_late = late;
        late |= pass > 0 && deadline.is_some_and(|d| Instant::now() >= d);
        if late {
            for (row, column) in each() {
                let all = light.pixel_mut(row, column);
                if let (Some(first), Some(to)) = (all.first().copied(), all.get_mut(pass)) {
                    *to = first;
                    // All pixels at edges have equally many samples. Each filled pixel is counted once.
                    filled += u64::from(!was_late);
                }
            }
            continue;
        }
        let rows_of = &*light;
        let some = |x: u32, y: u32| rows_of.pixel(y, x).len() > pass;
        let wanted: Option<&(dyn Fn(u32, u32) -> bool + Sync)> = if pass > 0 { Some(&some) } else { None };
        // Later passes are small and useless when incomplete, so they have no deadline.
        let image = cast(RayEnds { depth: &depth, wanted, stops: None }, deadline.filter(|_| pass == 0))?;
        filled += image.filled;
        late |= image.filled > 0;
        light.at_depth(pass, |n, to| {
            lack[n] |= image.gaps[n];
            let at = [n as u32 % columns, rows.start + n as u32 / columns];
            *to = laid(seen_of(&image, n, at, rays), at);
        });
    }
    let gaps = lack.iter().filter(|l| **l).count() as u64;
    Ok(Lack { gaps, filled })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_front_of_a_volume_is_not_hidden_by_what_was_filled() {
        let seen = [0.4, 0.2, 0.1, 0.3];
        assert_eq!(share(seen, [10.0, 20.0], 9.0), [0.0, 0.0, 0.0, 1.0]);
        assert_eq!(share(seen, [10.0, 20.0], 15.0), [0.2, 0.1, 0.05, 0.65]);
        assert_eq!(share(seen, [10.0, 20.0], f64::INFINITY), seen);
    }
}
