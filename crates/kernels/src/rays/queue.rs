//! Samples of a piece of a ray in bricks, eight at a time, in three passes:
//!
//! 1. Find the possibly visible samples and the places of their cells, over all bricks of the piece. Their cache lines
//!    are fetched during the same work for other rays.
//! 2. Compute the values of the remaining samples, always in full groups of eight.
//! 3. Blend them for [`TOGETHER`] rays at a time, since each sample of a ray depends on the one before it.
//!
//! All three in turns for each group took a fifth more time: each pass waited for fetches and mispredictions of the one
//! before.

use super::blend::{composite, composite_each, indices, last_of};
use super::brick_shape::{EACH, EDGE, EDGE_BITS, PLANE, ROW, STRIP};
use super::bricks::{Bricks, ALIKE, CODES, NOTHING, WORDS};
use super::lane::{may_be_opaque, opaque, Lane};
use super::lanes::{firsts, numbers, F8, I4, I8};
use super::pages::Context;
use super::ray::{Ray, RaySegment, Tips, BITS, SEGMENT};
use super::sample::{in_brick, SampledVoxel};
use super::transfer::{TransferEntry, TransferTable};
use field::volume::BLOCK;

/// Rays that are blended together: two in a register, and enough registers to hide the latency of one.
pub(crate) const TOGETHER: usize = 4;
/// Samples of each that are blended between two tests for opacity.
const ROUND: usize = 8;
/// Samples that are written at a time, and read.
const ROOM: usize = SEGMENT as usize + ROUND;

// Bricks, blocks and corners are extracted from bits of positions.
const _: () = assert!(EDGE == 32 && BLOCK == 4 && PLANE < 1 << 15 && WORDS == 32 && EACH.is_multiple_of(2));

/// Possibly visible samples of one segment.
pub(crate) struct QueuedSamples {
    /// The place of the first corner of each sample's cell among the numbers of all bricks.
    corners: [i32; ROOM],
    /// From the voxel of the segment's first sample, in parts of a voxel, along each axis.
    places: [[i32; ROOM]; 3],
    count: usize,
    /// Number of samples with computed values.
    valued: usize,
    /// [`super::bricks::BrickTable::next`] when the other samples were found: a brick made since may have replaced one of
    /// theirs.
    next: usize,
    tips: Tips,
}

/// See the module.
pub(crate) struct SampleQueue {
    cells: QueuedSamples,
    /// Table entries of samples with computed values.
    entries: [i32; ROOM],
}

/// Why no more samples were queued.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueueEnd {
    Through,
    /// The brick was not inspected, or not made.
    Unknown,
    /// Pages of the brick, or of this block of it, are absent.
    Apart,
}

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

impl QueuedSamples {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { corners: [0; ROOM], places: [[0; ROOM]; 3], count: 0, valued: 0, next: 0, tips: Tips::NONE }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The lengths of the first and the last sample beyond a step, if they are the ray's first and last.
    pub(crate) fn tips(&self) -> Tips {
        self.tips
    }

    /// [`QueuedSamples::find`] for samples of a segment that begins with this sample number, with the lengths at the
    /// ends of the ray.
    #[inline(always)]
    pub(crate) fn take_up<T: SampledVoxel>(
        &mut self,
        ray: &Ray,
        (s, begin): (&RaySegment, i64),
        (k, end): (i32, i32),
        bricks: &Bricks,
    ) -> (i32, QueueEnd) {
        let before = self.count;
        let found = self.find::<T>(s, (k, end), bricks);
        let (first, last) = (begin + i64::from(k), begin + i64::from(found.0));
        if (first == ray.first || last == ray.last) && self.count > before {
            self.note_tips(ray, (s, begin), (k, found.0), before);
        }
        found
    }

    /// Of samples `k` to `end`, those from `before` on were queued.
    #[inline(never)]
    fn note_tips(&mut self, ray: &Ray, (s, begin): (&RaySegment, i64), (k, end): (i32, i32), before: usize) {
        // Invisible samples are not among them.
        let is = |at: usize, k: i32| (0..3).all(|a| self.places[a][at] == s.place(k).to_array()[a]);
        if begin + i64::from(k) == ray.first && is(before, k) {
            self.tips.first = ray.ends[0];
        }
        if begin + i64::from(end) == ray.last && is(self.count - 1, end - 1) {
            self.tips.last = ray.ends[1];
            self.tips.n = ray.last - 1;
        }
    }

    /// Queues the possibly visible samples among `k` to `end` of a segment, in their order. Their bricks are in the
    /// window. Ends at the first sample with an unavailable brick or block. Returns that sample, and the reason.
    #[inline(always)]
    pub(crate) fn find<T: SampledVoxel>(
        &mut self,
        s: &RaySegment,
        (mut k, end): (i32, i32),
        bricks: &Bricks,
    ) -> (i32, QueueEnd) {
        const CELL: i32 = BITS as i32;
        let known = bricks.known();
        if self.valued == self.count {
            self.next = known.next;
        }
        let (cell, at, step) = (s.cell.to_array(), s.at.to_array(), s.step.to_array());
        let cell = [I8::splat(cell[0]), I8::splat(cell[1]), I8::splat(cell[2])];
        let steps = [I8::splat(step[0]), I8::splat(step[1]), I8::splat(step[2])];
        let eight = steps.map(|s| s.up::<3>());
        let from = |k: i32| {
            let n = I8::splat(k).add(I8::lanes());
            [0, 1, 2].map(|a: usize| I8::splat(at[a]).add(steps[a].mul(n)))
        };
        let (last, up) = (known.last.map(I8::splat), known.shift.map(I8::splat));
        let mut places = from(k);
        let mut count = self.count;
        let mut ended = (end, QueueEnd::Through);
        while k < end {
            let [x, y, z] = [0, 1, 2].map(|a: usize| places[a].down::<CELL>().add(cell[a]));
            // Places of bricks in the window, then of corners in a brick, then of blocks.
            let of = |v: I8, a: usize| v.down::<5>().and(last[a]).up_by(up[a]);
            let place = x.down::<5>().and(last[0]).or(of(y, 1)).or(of(z, 2));
            // Eight consecutive samples are usually in one brick or in two: the entries of the first and the last are
            // then enough. With a gather for all eight, and without the bit for complete bricks, rays took a twentieth
            // more time.
            let ends = place.ends();
            let [of_first, of_last] = ends.map(|end| place.equal(I8::splat(end)));
            let inside = [x, y, z].map(|v| v.and(I8::splat(EDGE as i32 - 1)));
            let rows = inside[1].or(inside[2].up::<16>()).dot_halves(I8::splat((PLANE << 16 | ROW) as i32));
            let strips = inside[0].down::<2>().mul(I8::splat((STRIP - BLOCK) as i32));
            let within = rows.add(strips).add(inside[0]);
            // The bit beside the slot overflows beyond the highest bit.
            let corner = |slot: I8| slot.mul(I8::splat(EACH as i32)).add(within).sub(I8::splat((CODES * EACH) as i32));
            debug_assert!(count + 8 <= ROOM);
            let slot = if of_first.or(of_last).signs() == 255 {
                // SAFETY: places are masked to the size of the window, also for samples beyond the end.
                let found = ends.map(|end| unsafe { *known.window.offset(end as isize) });
                let slot = of_first.choose(I8::splat(found[0]), I8::splat(found[1]));
                if found[0] & found[1] & ALIKE != 0 {
                    let shows = found.map(|slot| slot != NOTHING);
                    if shows == [true; 2] && end - k >= 8 {
                        // SAFETY: a segment has room for eight more samples after its last.
                        unsafe {
                            corner(slot).store(self.corners.as_mut_ptr().add(count));
                            for (place, to) in places.iter().zip(&mut self.places) {
                                place.store(to.as_mut_ptr().add(count));
                            }
                        }
                        count += 8;
                        k += 8;
                        for (place, eight) in places.iter_mut().zip(eight) {
                            *place = place.add(eight);
                        }
                        continue;
                    }
                    if shows == [false; 2] {
                        // To the end of the last.
                        let last = (k + 7).min(end - 1);
                        let (low, high) = box_of(brick_of(s.voxel(last)));
                        k = s.leaves(last, end, low, high);
                        places = from(k);
                        continue;
                    }
                }
                slot
            } else {
                // SAFETY: as above.
                unsafe { place.gather(known.window) }
            };
            let all = firsts(end - k);
            let (mut live, mut lacks, mut unknown) = (slot.up::<1>().above(I8::splat(0)).signs() & all, 0, 0);
            if slot.signs() != 255 {
                let word = inside[2].down::<2>().up::<2>().or(inside[1].down::<3>());
                let bits = inside[1].up::<2>().and(I8::splat(1 << 4)).or(inside[0].down::<1>().and(I8::splat(7 << 1)));
                // SAFETY: words are masked to the size of each map.
                let word = unsafe { slot.up::<5>().or(word).gather(known.maps) };
                // The bits of each lane to the top.
                let block = word.up_by(bits.xor(I8::splat(15 << 1)));
                (lacks, unknown) = (block.signs() & all, block.up::<1>().signs());
                live = !(block.signs() | unknown) & all;
                if lacks != 0 {
                    live &= (lacks & lacks.wrapping_neg()) - 1;
                }
            }
            let order = I8::bytes(numbers(live, 0));
            // SAFETY: a segment has room for eight more samples after its last.
            unsafe {
                corner(slot).chosen(order).store(self.corners.as_mut_ptr().add(count));
                for (place, to) in places.iter().zip(&mut self.places) {
                    place.chosen(order).store(to.as_mut_ptr().add(count));
                }
            }
            count += live.count_ones() as usize;
            if lacks != 0 {
                let n = lacks.trailing_zeros();
                ended = (k + n as i32, if unknown >> n & 1 == 1 { QueueEnd::Unknown } else { QueueEnd::Apart });
                break;
            }
            k += 8;
            for (place, eight) in places.iter_mut().zip(eight) {
                *place = place.add(eight);
            }
        }
        // They are fetched during the search for other rays: one cache line for the nearer plane and one for the other.
        let data = bricks.data::<T>();
        for corner in &self.corners[self.count..count] {
            let corner = data.wrapping_offset(*corner as isize);
            field::simd::prefetch(corner.cast());
            field::simd::prefetch(corner.wrapping_add(PLANE).cast());
        }
        self.count = count;
        ended
    }

    /// Passes to `take` the values of queued samples without values, eight at a time, with the number of the first.
    /// Lanes beyond the last are arbitrary. No brick was made since they were queued.
    #[inline(always)]
    pub(crate) fn values<T: SampledVoxel>(&mut self, bricks: &Bricks, mut take: impl FnMut(usize, F8)) {
        let data = bricks.data::<T>();
        let mut at = self.valued;
        self.valued = self.count;
        if at >= self.count {
            return;
        }
        assert_eq!(self.next, bricks.known().next, "samples are computed before a brick is made");
        debug_assert!(self.count + 8 <= ROOM);
        // SAFETY: behind the samples of a segment there is room for eight, which have the first corner of all; the
        // others are in bricks.
        unsafe {
            I8::splat(0).store(self.corners.as_mut_ptr().add(self.count));
            while at < self.count {
                // For numbers in memory single loads took a twentieth less time than gathers of lanes.
                let corners = &*self.corners.as_ptr().add(at).cast::<[i32; 8]>();
                let places = self.places.each_ref().map(|places| I8::load(places.as_ptr().add(at)));
                take(at, in_brick(data, corners, places));
                at += 8;
            }
        }
    }

    /// Empties the queue. Returns the number of its samples.
    #[inline(always)]
    pub(crate) fn clear(&mut self) -> usize {
        self.valued = 0;
        self.tips = Tips::NONE;
        core::mem::take(&mut self.count)
    }
}

impl SampleQueue {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { cells: QueuedSamples::new(), entries: [0; ROOM] }
    }

    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.cells.count != 0
    }

    /// Queues samples of a segment, as [`QueuedSamples::take_up`] does.
    #[inline(always)]
    pub(crate) fn push<T: SampledVoxel>(
        &mut self,
        ray: &Ray,
        segment: (&RaySegment, i64),
        samples: (i32, i32),
        bricks: &Bricks,
    ) -> (i32, QueueEnd) {
        self.cells.take_up::<T>(ray, segment, samples, bricks)
    }

    /// Computes the queued samples before a brick replaces another.
    #[inline(always)]
    pub(crate) fn settle<T: SampledVoxel>(&mut self, table: &TransferTable, bricks: &Bricks) {
        let entries = self.entries.as_mut_ptr();
        // SAFETY: there is room for eight behind any.
        self.cells.values::<T>(bricks, |at, v| unsafe { indices::<T>(table, v).store(entries.add(at)) });
    }

    /// Blends the queued samples. Returns whether the ray is opaque afterwards.
    #[inline(never)]
    pub(crate) fn drain<T: SampledVoxel>(&mut self, table: &TransferTable, lane: &mut Lane, cx: &mut Context) -> bool {
        self.settle::<T>(table, cx.bricks());
        let tips = self.cells.tips;
        let count = self.cells.clear();
        if tips.any() {
            cx.counts.samples += count as u64;
            return composite_each(table, &self.entries[..count], 0, tips, lane);
        }
        self.entries[..count].chunks(ROUND).any(|some| {
            cx.counts.samples += some.len() as u64;
            composite(table, some, lane)
        })
    }
}

/// Blends the queued samples of some rays, as [`SampleQueue::drain`] does. Rays that are opaque afterwards are done.
#[inline(always)]
pub(crate) fn drain_all<T: SampledVoxel>(
    queues: &mut [SampleQueue; TOGETHER],
    table: &TransferTable,
    lanes: &mut [Lane],
    cx: &mut Context,
) {
    for (queue, lane) in queues.iter_mut().zip(lanes.iter_mut()).filter(|(queue, _)| queue.cells.tips.any()) {
        lane.done |= queue.drain::<T>(table, lane, cx);
    }
    let most = queues.iter().map(|q| q.cells.count).max().unwrap_or(0);
    if most == 0 {
        return;
    }
    queues.iter_mut().for_each(|queue| queue.settle::<T>(table, cx.bricks()));
    let nothing = [table.entries.len() as i32 - 1; ROUND];
    // Any other ray stands in for a missing one.
    let of = |n: usize| lanes.get(n).unwrap_or(&lanes[0]);
    let (mut colours, mut throughs) = (
        [0, 2].map(|n| F8::pair(of(n).colour, of(n + 1).colour)),
        [0, 2].map(|n| F8::pair(of(n).through, of(n + 1).through)),
    );
    let mut first = 0;
    while first < most {
        let mut at = [nothing.as_ptr(); TOGETHER];
        for (queue, at) in queues.iter_mut().zip(&mut at) {
            if first >= queue.cells.count {
                continue;
            }
            // Surplus samples are invisible.
            // SAFETY: behind the samples of a segment there is room for that many.
            unsafe { I8::splat(nothing[0]).store(queue.entries.as_mut_ptr().add(queue.cells.count)) };
            cx.counts.samples += ROUND.min(queue.cells.count - first) as u64;
            *at = queue.entries[first..].as_ptr();
        }
        let before = (colours, throughs);
        // SAFETY: that many entries are at each, and each is one of the table's.
        (colours, throughs) = unsafe { blend_all(table, at, colours, throughs) };
        if may_be_opaque(throughs) {
            for (n, (queue, lane)) in queues.iter_mut().zip(lanes.iter_mut()).enumerate() {
                let half = |of: [F8; 2]| of[n / 2].half(n % 2);
                if first < queue.cells.count && opaque(half(colours), half(throughs)) {
                    (lane.colour, lane.through) = (half(before.0), half(before.1));
                    last_of(table, &queue.entries[first..queue.cells.count.min(first + ROUND)], lane);
                    lane.done = true;
                    queue.cells.clear();
                }
            }
        }
        first += ROUND;
    }
    for (n, (queue, lane)) in queues.iter_mut().zip(lanes).enumerate() {
        if queue.any() {
            (lane.colour, lane.through) = (colours[n / 2].half(n % 2), throughs[n / 2].half(n % 2));
            queue.cells.clear();
        }
    }
}

/// Light of [`ROUND`] samples of each ray in their order. All stays in registers: through memory it took longer than
/// ray by ray.
///
/// # Safety
/// That many entries' indices can be read from each of `at` on.
#[inline(always)]
unsafe fn blend_all(
    table: &TransferTable,
    [a, b, c, d]: [*const i32; TOGETHER],
    [mut x, mut y]: [F8; 2],
    [mut p, mut q]: [F8; 2],
) -> ([F8; 2], [F8; 2]) {
    let entries: *const TransferEntry = table.entries.as_ptr();
    for k in 0..ROUND {
        // SAFETY: the caller's.
        let light = |of: *const i32| unsafe { (*entries.add(*of.add(k) as usize)).light() };
        let (e, f) = (F8::pair(light(a), light(b)), F8::pair(light(c), light(d)));
        (x, y) = (x.fma(p, e), y.fma(q, f));
        (p, q) = (p.fnma(p, e.last()), q.fnma(q, f.last()));
    }
    ([x, y], [p, q])
}
