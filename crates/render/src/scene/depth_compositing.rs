//! From rays of pixels to the light of their samples: what volumes and fields of flows have in common in pictures.

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

/// How long the rays of a picture may take, from the first on. (From when the picture was begun, 100 ms were over at
/// 1600 x 900, beside other work, before any page was asked for: 50 ms gave no pixel.)
#[derive(Debug)]
pub(super) struct TimeBudget {
    begun: OnceLock<Instant>,
    length: Duration,
}

/// A coarse picture of some rows has this part of a budget, whatever is left of it.
const MOMENTS: f64 = 10.0;
/// A budget of more is none.
const MOST_BUDGET_S: f64 = 1e9;

impl TimeBudget {
    /// Of a picture, if the scene has one.
    pub(super) fn of(document: &SceneDocument) -> Option<Self> {
        let length = |s: f64| Duration::from_secs_f64(s.min(MOST_BUDGET_S));
        document.budget_s.map(|s| Self { begun: OnceLock::new(), length: length(s) })
    }

    /// When a coarse picture of some rows, which begins now, has to be there at the latest: rows before them may have taken all the time.
    pub(super) fn a_moment(&self) -> Instant {
        Instant::now() + self.length.div_f64(MOMENTS)
    }

    /// When rows of a picture of `height` have to be there. Rows come in groups, from the top: each may take its share.
    fn deadline(&self, depths: &Depths, height: u32) -> Instant {
        *self.begun.get_or_init(Instant::now)
            + self.length.mul_f64(f64::from(depths.rows().end) / f64::from(height.max(1)))
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

/// What rays are cast through, made ready for the camera and the size that were asked for last. Under a small limit a picture comes in many
/// groups of rows, and tables of colours made anew for each of them took a third of all time.
pub(super) struct PreparedScene<S>(Mutex<Option<PreparedView<S>>>);

/// For which camera and size, and what.
type PreparedView<S> = (Camera, [u32; 2], Arc<S>);

impl<S> Default for PreparedScene<S> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<S> PreparedScene<S> {
    /// As it was made before, or as it is made now.
    ///
    /// # Errors
    /// Those of `make`.
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

/// How rays are cast for [`lay`]: it is said where they end, and when they have to be there, if that is said.
pub(super) type CastRays<'a> = dyn FnMut(RayEnds<'_>, Option<Instant>) -> Result<Image, FieldError> + 'a;

/// Of the pixel at a column and row: between which depths its ray gathers anything.
pub(super) type DepthRange<'a> = dyn Fn(u32, u32) -> Option<[f64; 2]> + 'a;

/// What is laid of a pixel that was not cast in time: what it was filled with, or stripes where nothing is known of what its ray goes through.
fn seen_of(image: &Image, n: usize, at: [u32; 2], rays: Rays<'_>) -> RayLight {
    if image.is_unknown(n) && (rays.between)(at[0], at[1]).is_some() {
        (hatch::unknown(at), false)
    } else {
        (image.rgba[n], image.gaps[n])
    }
}

/// What is known of rays before they are cast.
#[derive(Copy, Clone)]
pub(super) struct Rays<'a> {
    /// They can stop on their way.
    pub(super) stop: bool,
    /// Where they may gather anything.
    pub(super) between: &'a DepthRange<'a>,
}

/// Has rays cast for the rows of `depths` of a picture of `height`, and lays what they gather into `light`. Rays that can stop on their
/// way are cast once, others as often as the pixel with the most depths has depths. When it is time edges are left: what is seen at one depth
/// is taken for the others of a pixel, too, or a share of it. Pixels that lack something are hatched, and so are those of which nothing is
/// known by then.
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

/// What is seen of a pixel at a depth, as it is laid: behind it comes what is left. Nobody is to take what lacks something for the whole.
fn laid((rgba, gap): RayLight, at: [u32; 2]) -> [f32; 4] {
    if gap {
        let [r, g, b] = hatch::linear(at);
        [r, g, b, 0.0]
    } else {
        let [r, g, b, a] = rgba;
        [r, g, b, 1.0 - a]
    }
}

/// What a pixel was filled with, as it is laid in front of a depth: of what is gathered between two depths the share of the way up to it.
/// (With all of it lines on the front of a volume were hidden.)
fn share([r, g, b, through]: [f32; 4], between: [f64; 2], depth: f64) -> [f32; 4] {
    let part = ((depth - between[0]) / (between[1] - between[0])).clamp(0.0, 1.0) as f32;
    [r * part, g * part, b * part, 1.0 - (1.0 - through) * part]
}

/// Each pixel's ray stops at all its depths.
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

/// Rays are cast to the first depth of each pixel, then to the second of those that have one, and so on.
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
    // Samples of a pixel that lie at different depths, at edges, take a ray each; most pixels have one depth.
    for pass in 0..most {
        let depth = |x: u32, y: u32| depths.of(y, x).get(pass).map_or(f64::NEG_INFINITY, |d| f64::from(*d));
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
        let wanted: Option<&(dyn Fn(u32, u32) -> bool + Sync)> = if pass > 0 { Some(&some) } else { None };
        // A pass of edges is little, and half of one is of no use.
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
