//! One ray through one volume, front to back.

use super::blend::{composite, composite_each, indices};
use super::bricks::BrickState;
use super::corners::{cell, Lack};
use super::lane::Lane;
use super::lanes::{firsts, numbers, zeros, I4, I8};
use super::pages::{Context, TilePageState};
use super::queue::{block_box, box_of, brick_of, QueueEnd, SampleQueue, TOGETHER};
use super::ray::{Ray, RaySegment, Tips, SEGMENT};
use super::sample::{between, PageRun, SampledVoxel};
use super::source::RaySource;
use field::volume::BLOCK;

/// Advances a ray to sample `until`, or to an absent page. It uses bricks if there are any and there are `queues`. The
/// gathered samples of bricks are then in the queue of this number, not blended yet.
pub(crate) fn march<T: SampledVoxel>(
    source: &RaySource,
    ray: &Ray,
    lane: &mut Lane,
    until: i64,
    cx: &mut Context,
    mut queues: Option<(&mut [SampleQueue; TOGETHER], usize)>,
) {
    'segments: while lane.n < until {
        if opaque_by_now::<T>(&mut queues, source, lane, cx) {
            return;
        }
        if lane.n >= ray.last {
            lane.done = true;
            return;
        }
        let number = lane.n.div_euclid(SEGMENT);
        let begin = number * SEGMENT;
        let s = RaySegment::new(ray, number, source.cells, 0.0);
        let mut k = ((lane.n - begin) as i32).max(s.from);
        let to = s.to.min((until - begin).min(SEGMENT) as i32);
        let bricks = queues.is_some() && k < to && cx.bricks().reach(s.voxel(k), s.voxel(to - 1));
        while k < to {
            let (mut first, mut last) = (I4::splat(i32::MIN), I4::splat(i32::MAX));
            let mut untried = None;
            if let (true, Some((queues, own))) = (bricks, &mut queues) {
                let (next, why) = queues[*own].push::<T>(ray, (&s, begin), (k, to), cx.bricks());
                k = next;
                if k == to {
                    break;
                }
                let voxel = s.voxel(k);
                let brick = brick_of(voxel);
                (first, last) = box_of(brick);
                untried = (why == QueueEnd::Unknown).then_some(brick);
            }
            let voxel = s.voxel(k);
            let noted = cx.missing.len();
            let Some(slot) = cx.find::<T>(source, voxel.to_array()) else {
                lane.n = begin + i64::from(k);
                // Pages behind the last visible sample are not needed.
                if opaque_by_now::<T>(&mut queues, source, lane, cx) {
                    cx.missing.truncate(noted);
                }
                return;
            };
            let (low, high) = (cx.slot(slot).low, cx.slot(slot).high);
            match cx.slot(slot).state {
                TilePageState::Here => {}
                state => {
                    if state == TilePageState::Failed {
                        if opaque_by_now::<T>(&mut queues, source, lane, cx) {
                            return;
                        }
                        lane.gap = true;
                    }
                    if let (TilePageState::Nothing, Some(brick)) = (state, untried) {
                        cx.bricks().nothing(brick, low, high);
                    }
                    lane.n = ray.leaves(begin + i64::from(k), low, high);
                    if lane.n >= begin + i64::from(to) {
                        continue 'segments;
                    }
                    k = (lane.n - begin) as i32;
                    continue;
                }
            }
            if let Some(brick) = untried {
                if let Some((queues, _)) = &mut queues {
                    // The new brick may replace one with queued samples.
                    queues.iter_mut().for_each(|queue| queue.settle::<T>(&source.table, cx.bricks()));
                }
                if cx.make::<T>(source, brick) != BrickState::Apart {
                    continue;
                }
            }
            if opaque_by_now::<T>(&mut queues, source, lane, cx) {
                return;
            }
            let [low, high] = [low, high].map(|v| I4::new([v[0], v[1], v[2], 0]));
            if bricks && waits::<T>(source, &s, (k, to), (low, high), slot, cx) {
                lane.n = begin + i64::from(k);
                return;
            }
            cx.mapped::<T>(source, slot);
            let end = s.leaves(k, to, low.max(first), high.min(last));
            // SAFETY: the voxels of samples k to end are in the page, which is pinned while the context is borrowed.
            match unsafe { inside::<T>(source, (ray, begin), &s, k, end, low, slot, lane, cx) } {
                PageMarch::Through => k = end,
                PageMarch::Opaque => {
                    lane.done = true;
                    return;
                }
                PageMarch::Need(k) => {
                    lane.n = begin + i64::from(k);
                    return;
                }
            }
        }
        lane.n = until.min(begin + SEGMENT);
    }
}

/// Blends the queued samples of a ray before another way of sampling. Whether the ray is opaque, and so done.
#[inline(always)]
fn opaque_by_now<T: SampledVoxel>(
    queues: &mut Option<(&mut [SampleQueue; TOGETHER], usize)>,
    source: &RaySource,
    lane: &mut Lane,
    cx: &mut Context,
) -> bool {
    let Some((queues, own)) = queues else { return false };
    lane.done |= queues[*own].any() && queues[*own].drain::<T>(&source.table, lane, cx);
    lane.done
}

/// Whether a ray lacks a page before it leaves its present block. The page is requested then. The ray stays in place,
/// so that a brick has its samples there when that page has come. Without this rule, cold pictures within a third of
/// the data took a tenth more processor time.
#[inline(always)]
fn waits<T: SampledVoxel>(
    source: &RaySource,
    s: &RaySegment,
    (k, to): (i32, i32),
    (low, high): (I4, I4),
    slot: usize,
    cx: &mut Context,
) -> bool {
    let (first, last) = block_box(s.voxel(k));
    let end = s.leaves(k, to.min(k + 8), low.max(first), high.min(last));
    let run = PageRun::new(s, low, source.strides, source.component as i32);
    let (_, over) = run.blocks(k, source.page, [source.blocks[0], source.blocks[1]]);
    let over = over & firsts(end - k);
    if over == 0 {
        return false;
    }
    let voxel = s.voxel(k + over.trailing_zeros() as i32).to_array();
    matches!(cell::<T>(source, slot, voxel, cx), Err(Lack::Need))
}

/// The result of a ray's passage through a page.
enum PageMarch {
    Through,
    Opaque,
    /// A page is absent at this sample.
    Need(i32),
}

/// Least distance at which invisible blocks are skipped. Nearer blocks are tested sample by sample.
const JUMP: u8 = 3;

/// Samples from `k` to `end` of a segment, in a page.
///
/// # Safety
/// Their voxels are there, and the page is pinned.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn inside<T: SampledVoxel>(
    source: &RaySource,
    (ray, begin): (&Ray, i64),
    s: &RaySegment,
    mut k: i32,
    end: i32,
    low: I4,
    slot: usize,
    lane: &mut Lane,
    cx: &mut Context,
) -> PageMarch {
    let (map, full) = (cx.slot(slot).map, cx.slot(slot).full);
    let run = PageRun::new(s, low, source.strides, source.component as i32);
    let [bi, bj, _] = source.blocks;
    // Numbers of possibly visible samples. The highest bit is set for cells that extend into other pages. Each is
    // written eight at a time.
    let mut found = [0u8; 24];
    let mut count = 0usize;
    loop {
        while k < end && count < 8 {
            let all = firsts(end - k);
            let (blocks, over) = run.blocks(k, source.page, [bi, bj]);
            let (mut live, mut jump) = (all, 0);
            if !full {
                let at = if all == 255 { blocks } else { blocks.and(I8::splat(end - k).above(I8::lanes())) };
                // SAFETY: the voxels are in the page, so their blocks are among the map's.
                let distances = unsafe { I8::gather_bytes(map, &at.to_array()) };
                // For cells that extend into other pages the block is not enough.
                live = (zeros(distances) | over) & all;
                jump = (distances >> 56) as u8;
            }
            let some = numbers(live, k as u32) | marks(live, over);
            found[count..count + 8].copy_from_slice(&some.to_le_bytes());
            count += live.count_ones() as usize;
            k += 8;
            if jump >= JUMP && k < end {
                // From the last of the eight, which is in the page.
                let e = i32::from(jump) - 1;
                let b = s.voxel(k - 1).sub(low).down::<{ BLOCK.trailing_zeros() as i32 }>();
                let from = b.sub(I4::splat(e)).up::<{ BLOCK.trailing_zeros() as i32 }>().max(I4::splat(0)).add(low);
                let to = b.add(I4::splat(e + 1)).up::<{ BLOCK.trailing_zeros() as i32 }>();
                let to = to.min(source.inner).add(low);
                if s.voxel(k - 1).within(from, to) {
                    k = s.leaves(k - 1, end, from, to);
                }
            }
        }
        if count == 0 {
            return PageMarch::Through;
        }
        let taken = count.min(8);
        let eight =
            u64::from_le_bytes([found[0], found[1], found[2], found[3], found[4], found[5], found[6], found[7]]);
        let over = marked(eight) & ((1 << taken) - 1);
        let eight = eight & NUMBERS;
        // Lanes beyond the count are left out like those in other pages.
        let unlike = I8::bytes(eight_of(over, taken)).above(I8::splat(0));
        // SAFETY: the cells of all other lanes are in the page.
        let v = unsafe { run.values(cx.slot(slot).near[0].cast::<T>(), eight, unlike) };
        let mut at = indices::<T>(&source.table, v).to_array();
        let mut need = None;
        let (mut whole, mut lost) = (taken, 0);
        if over != 0 {
            (whole, need, lost) = outside::<T>(source, s, eight, over, taken, slot, cx, &mut at);
        }
        cx.counts.samples += whole as u64;
        let number = |n: usize| begin + (eight >> (8 * n) & 0xff) as i64;
        let tips = if whole > 0 { Tips::of(ray, number(0), number(whole - 1)) } else { Tips::NONE };
        let opaque = if lost == 0 && !tips.any() {
            composite(&source.table, &at[..whole], lane)
        } else {
            composite_each(&source.table, &at[..whole], u64::from(lost), tips, lane)
        };
        if opaque {
            return PageMarch::Opaque;
        }
        if let Some(k) = need {
            return PageMarch::Need(k);
        }
        found.copy_within(8..16, 0);
        count -= taken;
    }
}

/// Bits of a byte that number a sample of a segment.
const NUMBERS: u64 = 0x3f3f_3f3f_3f3f_3f3f;

/// The highest bit of each byte of a sample in `live` that is also in `over`.
#[inline(always)]
fn marks(live: u32, over: u32) -> u64 {
    if over == 0 {
        return 0;
    }
    let mut out = 0u64;
    let mut at = 7;
    for n in 0..8 {
        if live >> n & 1 == 1 {
            out |= u64::from(over >> n & 1) << at;
            at += 8;
        }
    }
    out
}

/// A bit for each byte with its highest bit set.
#[inline(always)]
fn marked(eight: u64) -> u32 {
    (((eight >> 7) & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

/// A byte of 1 for each bit of `over`, and for all from `taken` on.
#[inline(always)]
fn eight_of(over: u32, taken: usize) -> u64 {
    let past = if taken >= 8 { 0 } else { u64::MAX << (8 * taken) };
    let mut out = past & 0x0101_0101_0101_0101;
    let mut rest = over;
    while rest != 0 {
        out |= 1 << (8 * rest.trailing_zeros());
        rest &= rest - 1;
    }
    out
}

/// Takes samples with cells in several pages. Returns the number of samples before one lacks a page, that sample, and
/// those before it that are unreadable.
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn outside<T: SampledVoxel>(
    source: &RaySource,
    s: &RaySegment,
    numbers: u64,
    over: u32,
    taken: usize,
    slot: usize,
    cx: &mut Context,
    at: &mut [i32; 8],
) -> (usize, Option<i32>, u32) {
    let (mut rest, mut lost) = (over, 0);
    while rest != 0 {
        let n = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        let k = (numbers >> (8 * n)) as i32 & 63;
        cx.counts.across += 1;
        let nothing = source.table.entries.len() as i32 - 1;
        at[n] = match across::<T>(source, s, k, s.voxel(k).to_array(), slot, cx) {
            Ok(v) => source.table.index(v) as i32,
            Err(Lack::Failed) => {
                lost |= 1 << n;
                nothing
            }
            Err(Lack::Need) => return (n, Some(k), lost),
        };
    }
    (taken, None, lost)
}

/// A sample in a cell with corners in several pages.
#[inline(never)]
fn across<T: SampledVoxel>(
    source: &RaySource,
    s: &RaySegment,
    k: i32,
    voxel: [i32; 4],
    slot: usize,
    cx: &mut Context,
) -> Result<f32, Lack> {
    let cell = cell::<T>(source, slot, voxel, cx)?;
    let p = s.place(k).to_array();
    // SAFETY: pages stay pinned while the context is borrowed.
    Ok(between(unsafe { cell.of(source.component) }, [p[0], p[1], p[2]]))
}

#[cfg(test)]
mod tests {
    use super::super::transfer::{TransferFunction, TransferTable};
    use super::*;

    #[test]
    fn a_ray_has_a_gap_only_before_it_is_opaque_however_many_samples_come_at_a_time() {
        let f = TransferFunction::new(vec![(0.0, [1.0; 3])], vec![(0.0, 0.0), (1.0, 1.0)]).unwrap();
        let table = TransferTable::new(&f, 1.0, 1.0);
        let (clear, solid) = (0, table.entries.len() as i32 - 2);
        let ray = Ray { origin: [0.0; 3], step: [1.0; 3], first: 0, last: 8, ends: [0.0; 2] };
        // The lost sample comes before or after the last visible one.
        for (lost, gap) in [(0b0001u32, true), (0b0010, true), (0b1000, false)] {
            let at = [clear, clear, solid, clear];
            for together in 1..=4usize {
                let mut lane = Lane::of_all(&[ray]);
                let opaque = at.chunks(together).enumerate().any(|(n, some)| {
                    match lost >> (n * together) & ((1 << some.len()) - 1) {
                        0 => composite(&table, some, &mut lane),
                        own => composite_each(&table, some, u64::from(own), Tips::NONE, &mut lane),
                    }
                });
                assert!(opaque && lane.gap == gap, "lost {lost:b}, {together} at a time");
            }
        }
    }
}
