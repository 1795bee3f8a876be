//! Projections of one channel: rays that find the largest value, or the mean. Samples in bricks are taken eight at a
//! time, and others one by one.
//!
//! | samples | processor time of two first pictures of 1024^3 bytes, with reading |
//! |---|---|
//! | in eights | 10 s, 11 s |
//! | one by one | 22 s, 23 s |

use super::appearance::Projection;
use super::bricks::BrickState;
use super::lane::Lane;
use super::lanes::{firsts, F8};
use super::multichannel::{sample, ProjectionState, SampleLight, SampleRequest};
use super::pages::{Context, TilePageState};
use super::queue::{block_box, brick_of, QueueEnd, QueuedSamples};
use super::ray::{Ray, RaySegment, SEGMENT};
use super::sample::SampledVoxel;
use super::source::RaySource;

/// Advances a ray to sample `until`, or to an absent page; through bricks if there are any.
pub(crate) fn march<T: SampledVoxel>(
    source: &RaySource,
    ray: &Ray,
    tally: &mut ProjectionState,
    lane: &mut Lane,
    until: i64,
    cx: &mut Context,
    mut cells: Option<&mut QueuedSamples>,
) {
    let until = until.min(ray.last);
    'segments: while lane.n < until {
        let number = lane.n.div_euclid(SEGMENT);
        let begin = number * SEGMENT;
        let s = RaySegment::new(ray, number, source.spans(), source.shift());
        let mut k = ((lane.n - begin) as i32).max(s.from);
        let to = s.to.min((until - begin).min(SEGMENT) as i32);
        let bricks = cells.is_some() && k < to && cx.bricks().reach(s.voxel(k), s.voxel(to - 1));
        // A ray that stops there, and continues, takes its last sample again: the mean before it is stored.
        let anew = source.projection == Projection::Mean && ray.ends[1] != 0.0;
        let eights = to - i32::from(anew && begin + i64::from(to) == ray.last);
        while k < to {
            let mut single = to;
            if let (true, Some(cells)) = (bricks && k < eights, &mut cells) {
                let (next, why) = in_eights::<T>((source, ray), (&s, begin), (k, eights), cells, tally, cx);
                k = next;
                if k == eights {
                    continue;
                }
                if why == QueueEnd::Unknown && made::<T>(source, &s, k, cx) {
                    continue;
                }
                let (first, last) = block_box(s.voxel(k));
                single = s.leaves(k, to, first, last);
            }
            while k < single {
                let asked = SampleRequest::of_projection(source, ray, tally, begin + i64::from(k));
                let next = match sample::<T>(&asked, cx, &mut Some((number, s))) {
                    SampleLight::Number(v) => {
                        let n = begin + i64::from(k);
                        if anew && n + 1 == ray.last {
                            lane.remember(n);
                            tally.remember();
                        }
                        tally.add(v, ray.length(n));
                        cx.counts.samples += 1;
                        k += 1;
                        continue;
                    }
                    SampleLight::Need => {
                        lane.n = begin + i64::from(k);
                        return;
                    }
                    SampleLight::Lost(next) => {
                        lane.gap = true;
                        next
                    }
                    SampleLight::Nothing(next) => next,
                    SampleLight::Light(_) => unreachable!("what is projected are numbers"),
                };
                lane.n = next.min(ray.last);
                if next >= begin + i64::from(to) {
                    continue 'segments;
                }
                k = (next - begin) as i32;
            }
        }
        lane.n = until.min(begin + SEGMENT);
    }
    lane.done |= lane.n >= ray.last;
}

/// Takes samples `k` to `end` of a segment as far as bricks are available. Returns the end, and its reason.
#[inline(always)]
fn in_eights<T: SampledVoxel>(
    (source, ray): (&RaySource, &Ray),
    segment: (&RaySegment, i64),
    samples: (i32, i32),
    cells: &mut QueuedSamples,
    tally: &mut ProjectionState,
    cx: &mut Context,
) -> (i32, QueueEnd) {
    let found = cells.take_up::<T>(ray, segment, samples, cx.bricks());
    let (count, tips) = (cells.count(), cells.tips());
    if source.projection == Projection::Maximum {
        let mut most = F8::splat(tally.best);
        cells.values::<T>(cx.bricks(), |at, v| {
            let live = firsts((count - at) as i32);
            // NaN as the first operand is ignored.
            most = v.among(live, most).at_least(most);
        });
        tally.best = most.to_array().into_iter().fold(tally.best, f32::max);
    } else {
        cells.values::<T>(cx.bricks(), |at, v| {
            // In their order: sums depend on it.
            let numbers = (at..count).zip(v.to_array()).filter(|(_, v)| !v.is_nan());
            numbers.for_each(|(n, v)| tally.add(v, tips.length(n, count)));
        });
    }
    cx.counts.samples += cells.clear() as u64;
    found
}

/// Makes the brick of a sample, if its page is resident. Whether its content is known now.
#[inline(never)]
fn made<T: SampledVoxel>(source: &RaySource, s: &RaySegment, k: i32, cx: &mut Context) -> bool {
    let voxel = s.voxel(k);
    let brick = brick_of(voxel);
    let Some(slot) = cx.find::<T>(source, voxel.to_array()) else { return false };
    match cx.slot(slot).state {
        TilePageState::Here => cx.make::<T>(source, brick) != BrickState::Apart,
        TilePageState::Nothing => {
            let (low, high) = (cx.slot(slot).low, cx.slot(slot).high);
            cx.bricks().nothing(brick, low, high);
            false
        }
        TilePageState::Failed | TilePageState::Empty => false,
    }
}
