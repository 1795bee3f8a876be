//! Samples of a piece of a ray in bricks, computed eight at a time: those that may show something are gathered over all bricks that it goes
//! through. They are blended for [`TOGETHER`] rays at a time, since each sample of a ray waits for the one before it: one ray at a time
//! that took as long as all that is computed of a sample.

use super::bricks::{Bricks, CODES, EDGE, EDGE_BITS, WORDS};
use super::flat::{EACH, PLANE, ROW};
use super::lanes::{numbers, F8, I4, I8};
use super::march::{composite, indices, last_of, may_be_opaque, opaque, Lane};
use super::pages::Context;
use super::ray::{Segment, BITS, SEGMENT};
use super::sample::{in_bricks, Sampled};
use super::scene::Source;
use super::transfer::{Entry, Table};
use field::volume::BLOCK;

/// Rays whose samples are blended at a time: two in a register, and as many registers as hide how long one takes.
pub(crate) const TOGETHER: usize = 4;
/// Samples of each that are blended before it is asked whether any is opaque.
const ROUND: usize = 8;
/// So many are written at a time, and read.
const ROOM: usize = SEGMENT as usize + ROUND;

// Bricks, blocks and corners are taken from bits of positions.
const _: () = assert!(EDGE == 32 && BLOCK == 4 && ROW == 33 && PLANE == ROW * ROW && WORDS == 32);

/// See the module.
pub(crate) struct Queue {
    /// Entries of the table.
    entries: [i32; ROOM],
    count: usize,
}

/// Why no more samples were taken up.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Through,
    /// Nobody has looked at the brick yet, or made it.
    Unknown,
    /// Pages of the brick are not here, or of this block of it.
    Apart,
}

/// Where eight samples lie.
#[derive(Copy, Clone)]
struct Found {
    /// From the voxel of the segment's first sample, in parts of a voxel.
    places: [I8; 3],
    /// Slots of their bricks, or codes.
    slot: I8,
    /// What is known of their blocks, in the two highest bits.
    block: I8,
    /// Where the first corner of each one's cell is among the numbers of all bricks, with as many before them as there are codes. Those
    /// that have none have the first of all.
    corner: I8,
}

/// Which brick a voxel lies in.
#[inline(always)]
pub(crate) fn brick_of(voxel: I4) -> [i32; 3] {
    let [i, j, k, _] = voxel.down::<{ EDGE_BITS as i32 }>().to_array();
    [i, j, k]
}

/// The first voxel of a block, and the one after its last along each axis.
#[inline(always)]
pub(crate) fn block_box(voxel: I4) -> (I4, I4) {
    let low = voxel.down::<{ BLOCK.trailing_zeros() as i32 }>().up::<{ BLOCK.trailing_zeros() as i32 }>();
    (low, low.add(I4::splat(BLOCK as i32)))
}

/// The first voxel of a brick, and the one after its last along each axis.
#[inline(always)]
pub(crate) fn box_of([i, j, k]: [i32; 3]) -> (I4, I4) {
    let low = I4::new([i, j, k, 0]).up::<{ EDGE_BITS as i32 }>();
    (low, low.add(I4::splat(EDGE as i32)))
}

impl Queue {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { entries: [0; ROOM], count: 0 }
    }

    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.count != 0
    }

    /// Takes up samples `k` to `end` of a segment, as [`eights`] finds them.
    #[inline(always)]
    pub(crate) fn push<T: Sampled>(
        &mut self,
        source: &Source,
        s: &Segment,
        samples: (i32, i32),
        bricks: &Bricks,
    ) -> (i32, Ended) {
        eights::<T>(s, samples, bricks, |v, live| {
            debug_assert!(self.count + 8 <= ROOM);
            let entries = indices::<T>(&source.table, v);
            let entries = if live == 255 { entries } else { entries.chosen(I8::bytes(numbers(live, 0))) };
            // SAFETY: a segment has so many samples that after them there is room for eight.
            unsafe { entries.store(self.entries.as_mut_ptr().add(self.count)) };
            self.count += live.count_ones() as usize;
        })
    }

    /// Blends what was gathered, and says whether the ray is opaque then.
    #[inline(never)]
    pub(crate) fn drain(&mut self, table: &Table, lane: &mut Lane, cx: &mut Context) -> bool {
        let count = core::mem::take(&mut self.count);
        self.entries[..count].chunks(ROUND).any(|some| {
            cx.counts.samples += some.len() as u64;
            composite(table, some, lane)
        })
    }
}

/// Gives `take` the values of samples `k` to `end` of a segment, whose bricks lie in the window: eight at a time, with a bit for each
/// that may show something. Those of a segment come in order, each once. Ends at the first whose brick, or block of a brick, is not at
/// hand; says which that is, and why.
#[inline(always)]
pub(crate) fn eights<T: Sampled>(
    s: &Segment,
    (mut k, end): (i32, i32),
    bricks: &Bricks,
    mut take: impl FnMut(F8, u32),
) -> (i32, Ended) {
    let (known, data) = (bricks.known(), bricks.data::<T>());
    const CELL: i32 = BITS as i32;
    let (cell, at, step) = (s.cell.to_array(), s.at.to_array(), s.step.to_array());
    let cell = [I8::splat(cell[0]), I8::splat(cell[1]), I8::splat(cell[2])];
    let steps = [I8::splat(step[0]), I8::splat(step[1]), I8::splat(step[2])];
    let eight = steps.map(|s| s.up::<3>());
    let from = |k: i32| {
        let n = I8::splat(k).add(I8::lanes());
        [0, 1, 2].map(|a: usize| I8::splat(at[a]).add(steps[a].mul(n)))
    };
    let (last, up) = (known.last.map(I8::splat), known.shift.map(I8::splat));
    let (before, first) = (data.wrapping_sub(CODES * EACH), I8::splat((CODES * EACH) as i32));
    let find = |places: [I8; 3]| {
        let [x, y, z] = [0, 1, 2].map(|a: usize| places[a].down::<CELL>().add(cell[a]));
        // Places of bricks in the window, then of corners in a brick, then of blocks.
        let of = |v: I8, a: usize| v.down::<5>().and(last[a]).up_by(up[a]);
        let place = x.down::<5>().and(last[0]).or(of(y, 1)).or(of(z, 2));
        let inside = [x, y, z].map(|v| v.and(I8::splat(EDGE as i32 - 1)));
        let plane = inside[2].add(inside[2].up::<5>()).add(inside[1]);
        let within = plane.add(plane.up::<5>()).add(inside[0]);
        let word = inside[2].down::<2>().up::<2>().or(inside[1].down::<3>());
        let bits = inside[1].up::<2>().and(I8::splat(1 << 4)).or(inside[0].down::<1>().and(I8::splat(7 << 1)));
        // SAFETY: places and words are cut to what the window and each map have, of samples beyond the end too.
        unsafe {
            let slot = place.gather(known.window);
            let word = slot.up::<5>().or(word).gather(known.maps);
            // Each one's bits to the top.
            let block = word.up_by(bits.xor(I8::splat(15 << 1)));
            let corner = slot.mul(I8::splat(EACH as i32)).add(within).max(first);
            // They come while the eight before them are computed, or at least the next are found: a fifth of all time was waiting for them.
            corner.prefetch(before, PLANE);
            Found { places, slot, block, corner }
        }
    };
    // Of the next eight it is found where they lie before these are computed: one after the other, each eight waited for three gathers.
    let mut next = find(from(k));
    while k < end {
        let Found { places, slot, block, corner } = next;
        next = find([0, 1, 2].map(|a: usize| places[a].add(eight[a])));
        let all = if end - k >= 8 { 255 } else { (1u32 << (end - k)) - 1 };
        let mut live = !block.or(block.up::<1>()).signs() & all;
        let lacks = block.signs() & all;
        if lacks != 0 {
            live &= (lacks & lacks.wrapping_neg()) - 1;
        } else if live == 0 && slot.signs_below(1) & all == all {
            // Bricks in which nothing shows: to the end of the last.
            let last = (k + 7).min(end - 1);
            let (low, high) = box_of(brick_of(s.voxel(last)));
            k = s.leaves(last, end, low, high);
            next = find(from(k));
            continue;
        }
        if live != 0 {
            // SAFETY: a slot has room for all corners, and in the place of those that have none stand the first of all.
            take(unsafe { in_bricks(before, corner, places) }, live);
        }
        if lacks != 0 {
            let n = lacks.trailing_zeros();
            let unknown = block.up::<1>().signs() >> n & 1 == 1;
            return (k + n as i32, if unknown { Ended::Unknown } else { Ended::Apart });
        }
        k += 8;
    }
    (end, Ended::Through)
}

/// Blends what was gathered of some rays, as [`Queue::drain`] does; those that are opaque then are done.
#[inline(always)]
pub(crate) fn drain_all(queues: &mut [Queue; TOGETHER], table: &Table, lanes: &mut [Lane], cx: &mut Context) {
    let most = queues.iter().map(|q| q.count).max().unwrap_or(0);
    if most == 0 {
        return;
    }
    let nothing = [table.entries.len() as i32 - 1; ROUND];
    // In the place of those that are not there any other stands.
    let of = |n: usize| lanes.get(n).unwrap_or(&lanes[0]);
    let (mut colours, mut throughs) = (
        [0, 2].map(|n| F8::pair(of(n).colour, of(n + 1).colour)),
        [0, 2].map(|n| F8::pair(of(n).through, of(n + 1).through)),
    );
    let mut first = 0;
    while first < most {
        let mut at = [nothing.as_ptr(); TOGETHER];
        for (queue, at) in queues.iter_mut().zip(&mut at) {
            if first >= queue.count {
                continue;
            }
            // Those that are too many show nothing.
            // SAFETY: behind the samples of a segment there is room for so many.
            unsafe { I8::splat(nothing[0]).store(queue.entries.as_mut_ptr().add(queue.count)) };
            cx.counts.samples += ROUND.min(queue.count - first) as u64;
            *at = queue.entries[first..].as_ptr();
        }
        let before = (colours, throughs);
        // SAFETY: so many entries lie at each, and each is one of the table's.
        (colours, throughs) = unsafe { blend_all(table, at, colours, throughs) };
        if may_be_opaque(throughs) {
            for (n, (queue, lane)) in queues.iter_mut().zip(lanes.iter_mut()).enumerate() {
                let half = |of: [F8; 2]| of[n / 2].half(n % 2);
                if first < queue.count && opaque(half(colours), half(throughs)) {
                    (lane.colour, lane.through) = (half(before.0), half(before.1));
                    last_of(table, &queue.entries[first..queue.count.min(first + ROUND)], lane);
                    lane.done = true;
                    queue.count = 0;
                }
            }
        }
        first += ROUND;
    }
    for (n, (queue, lane)) in queues.iter_mut().zip(lanes).enumerate() {
        if queue.any() {
            (lane.colour, lane.through) = (colours[n / 2].half(n % 2), throughs[n / 2].half(n % 2));
            queue.count = 0;
        }
    }
}

/// Light of [`ROUND`] samples of each ray in their order. All is kept in registers: through memory it took longer than ray by ray.
///
/// # Safety
/// So many entries' indices can be read from each of `at` on.
#[inline(always)]
unsafe fn blend_all(
    table: &Table,
    [a, b, c, d]: [*const i32; TOGETHER],
    [mut x, mut y]: [F8; 2],
    [mut p, mut q]: [F8; 2],
) -> ([F8; 2], [F8; 2]) {
    let entries: *const Entry = table.entries.as_ptr();
    for k in 0..ROUND {
        // SAFETY: the caller's.
        let light = |of: *const i32| unsafe { (*entries.add(*of.add(k) as usize)).light() };
        let (e, f) = (F8::pair(light(a), light(b)), F8::pair(light(c), light(d)));
        (x, y) = (x.fma(p, e), y.fma(q, f));
        (p, q) = (p.fnma(p, e.last()), q.fnma(q, f.last()));
    }
    ([x, y], [p, q])
}
