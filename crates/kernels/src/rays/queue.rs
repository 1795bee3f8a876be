//! Samples of a piece of a ray in bricks, eight at a time. First it is found which of them may show something, and where their cells lie,
//! over all bricks that the piece goes through; their lines of memory come while the same is found of other rays. Then the values of those
//! that are left are computed, none of the eight for nothing, and then they are blended for [`TOGETHER`] rays at a time, since each sample
//! of a ray waits for the one before it. (All three in turns for each eight took a fifth more time: each waited for what the one before
//! it had fetched, or had guessed wrong of it.)

use super::brick_copy::{EACH, PLANE, ROW, STRIP};
use super::bricks::{Bricks, ALIKE, CODES, EDGE, EDGE_BITS, NOTHING, WORDS};
use super::lanes::{firsts, numbers, F8, I4, I8};
use super::march::{composite, composite_each, indices, last_of, may_be_opaque, opaque, Lane, Tips};
use super::pages::Context;
use super::ray::{Ray, RaySegment, BITS, SEGMENT};
use super::sample::{in_brick, SampledVoxel};
use super::transfer::{TransferEntry, TransferTable};
use field::volume::BLOCK;

/// Rays whose samples are blended at a time: two in a register, and as many registers as hide how long one takes.
pub(crate) const TOGETHER: usize = 4;
/// Samples of each that are blended before it is asked whether any is opaque.
const ROUND: usize = 8;
/// So many are written at a time, and read.
const ROOM: usize = SEGMENT as usize + ROUND;

// Bricks, blocks and corners are taken from bits of positions.
const _: () = assert!(EDGE == 32 && BLOCK == 4 && PLANE < 1 << 15 && WORDS == 32 && EACH.is_multiple_of(2));

/// Samples of one segment that may show something.
pub(crate) struct QueuedSamples {
    /// Where the first corner of each one's cell is among the numbers of all bricks.
    corners: [i32; ROOM],
    /// From the voxel of the segment's first sample, in parts of a voxel, along each axis.
    places: [[i32; ROOM]; 3],
    count: usize,
    /// So many had their values computed.
    valued: usize,
    /// As [`super::bricks::Known::next`] was when the others were taken up: a brick that was made since may lie where one of theirs was.
    next: usize,
    tips: Tips,
}

/// See the module.
pub(crate) struct SampleQueue {
    cells: QueuedSamples,
    /// Entries of the table, of samples whose values were computed.
    entries: [i32; ROOM],
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

impl QueuedSamples {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { corners: [0; ROOM], places: [[0; ROOM]; 3], count: 0, valued: 0, next: 0, tips: Tips::NONE }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// What the first and the last of them stand for beyond a step, where they are the ray's first and last.
    pub(crate) fn tips(&self) -> Tips {
        self.tips
    }

    /// [`QueuedSamples::find`] of samples of a segment, which begins with the sample of this number, with what those at the ends of the ray stand for.
    #[inline(always)]
    pub(crate) fn take_up<T: SampledVoxel>(
        &mut self,
        ray: &Ray,
        (s, begin): (&RaySegment, i64),
        (k, end): (i32, i32),
        bricks: &Bricks,
    ) -> (i32, Ended) {
        let before = self.count;
        let found = self.find::<T>(s, (k, end), bricks);
        let (first, last) = (begin + i64::from(k), begin + i64::from(found.0));
        if (first == ray.first || last == ray.last) && self.count > before {
            self.note_tips(ray, (s, begin), (k, found.0), before);
        }
        found
    }

    /// Of samples `k` to `end` those from `before` on were taken up.
    #[inline(never)]
    fn note_tips(&mut self, ray: &Ray, (s, begin): (&RaySegment, i64), (k, end): (i32, i32), before: usize) {
        // Those that show nothing are not among them.
        let is = |at: usize, k: i32| (0..3).all(|a| self.places[a][at] == s.place(k).to_array()[a]);
        if begin + i64::from(k) == ray.first && is(before, k) {
            self.tips.first = ray.ends[0];
        }
        if begin + i64::from(end) == ray.last && is(self.count - 1, end - 1) {
            self.tips.last = ray.ends[1];
            self.tips.n = ray.last - 1;
        }
    }

    /// Takes up those of samples `k` to `end` of a segment that may show something, in their order. Their bricks lie in the window. Ends at
    /// the first whose brick, or block of a brick, is not at hand; says which that is, and why.
    #[inline(always)]
    pub(crate) fn find<T: SampledVoxel>(
        &mut self,
        s: &RaySegment,
        (mut k, end): (i32, i32),
        bricks: &Bricks,
    ) -> (i32, Ended) {
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
        let mut ended = (end, Ended::Through);
        while k < end {
            let [x, y, z] = [0, 1, 2].map(|a: usize| places[a].down::<CELL>().add(cell[a]));
            // Places of bricks in the window, then of corners in a brick, then of blocks.
            let of = |v: I8, a: usize| v.down::<5>().and(last[a]).up_by(up[a]);
            let place = x.down::<5>().and(last[0]).or(of(y, 1)).or(of(z, 2));
            // Eight in a row lie in one brick or in two, most often: what stands at the places of the first and the last is all then. (With a
            // gather for all eight, and nothing said of bricks all of which is here, rays took a twentieth more time.)
            let ends = place.ends();
            let [of_first, of_last] = ends.map(|end| place.equal(I8::splat(end)));
            let inside = [x, y, z].map(|v| v.and(I8::splat(EDGE as i32 - 1)));
            let rows = inside[1].or(inside[2].up::<16>()).dot_halves(I8::splat((PLANE << 16 | ROW) as i32));
            let strips = inside[0].down::<2>().mul(I8::splat((STRIP - BLOCK) as i32));
            let within = rows.add(strips).add(inside[0]);
            // What stands with the slot goes beyond the highest bit.
            let corner = |slot: I8| slot.mul(I8::splat(EACH as i32)).add(within).sub(I8::splat((CODES * EACH) as i32));
            debug_assert!(count + 8 <= ROOM);
            let slot = if of_first.or(of_last).signs() == 255 {
                // SAFETY: places are cut to what the window has, of samples beyond the end too.
                let found = ends.map(|end| unsafe { *known.window.offset(end as isize) });
                let slot = of_first.choose(I8::splat(found[0]), I8::splat(found[1]));
                if found[0] & found[1] & ALIKE != 0 {
                    let shows = found.map(|slot| slot != NOTHING);
                    if shows == [true; 2] && end - k >= 8 {
                        // SAFETY: a segment has so many samples that after them there is room for eight.
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
                // SAFETY: words are cut to what each map has.
                let word = unsafe { slot.up::<5>().or(word).gather(known.maps) };
                // Each one's bits to the top.
                let block = word.up_by(bits.xor(I8::splat(15 << 1)));
                (lacks, unknown) = (block.signs() & all, block.up::<1>().signs());
                live = !(block.signs() | unknown) & all;
                if lacks != 0 {
                    live &= (lacks & lacks.wrapping_neg()) - 1;
                }
            }
            let order = I8::bytes(numbers(live, 0));
            // SAFETY: a segment has so many samples that after them there is room for eight.
            unsafe {
                corner(slot).chosen(order).store(self.corners.as_mut_ptr().add(count));
                for (place, to) in places.iter().zip(&mut self.places) {
                    place.chosen(order).store(to.as_mut_ptr().add(count));
                }
            }
            count += live.count_ones() as usize;
            if lacks != 0 {
                let n = lacks.trailing_zeros();
                ended = (k + n as i32, if unknown >> n & 1 == 1 { Ended::Unknown } else { Ended::Apart });
                break;
            }
            k += 8;
            for (place, eight) in places.iter_mut().zip(eight) {
                *place = place.add(eight);
            }
        }
        // They come while other rays are found, one line of memory for the nearer plane and one for the other.
        let data = bricks.data::<T>();
        for corner in &self.corners[self.count..count] {
            let corner = data.wrapping_offset(*corner as isize);
            field::simd::prefetch(corner.cast());
            field::simd::prefetch(corner.wrapping_add(PLANE).cast());
        }
        self.count = count;
        ended
    }

    /// Gives `take` values of those that were taken up and not given yet, eight at a time, with the number of the first; behind the last
    /// comes anything. No brick was made since they were taken up.
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
        // SAFETY: behind the samples of a segment there is room for eight, which have the first corner of all; the others lie in bricks.
        unsafe {
            I8::splat(0).store(self.corners.as_mut_ptr().add(self.count));
            while at < self.count {
                // Of numbers in memory single loads took a twentieth less time than gathers of lanes.
                let corners = &*self.corners.as_ptr().add(at).cast::<[i32; 8]>();
                let places = self.places.each_ref().map(|places| I8::load(places.as_ptr().add(at)));
                take(at, in_brick(data, corners, places));
                at += 8;
            }
        }
    }

    /// Has none any more, and says how many there were.
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

    /// Takes up samples of a segment, as [`QueuedSamples::take_up`] does.
    #[inline(always)]
    pub(crate) fn push<T: SampledVoxel>(
        &mut self,
        ray: &Ray,
        segment: (&RaySegment, i64),
        samples: (i32, i32),
        bricks: &Bricks,
    ) -> (i32, Ended) {
        self.cells.take_up::<T>(ray, segment, samples, bricks)
    }

    /// Computes what was taken up, before a brick is made in the place of another.
    #[inline(always)]
    pub(crate) fn settle<T: SampledVoxel>(&mut self, table: &TransferTable, bricks: &Bricks) {
        let entries = self.entries.as_mut_ptr();
        // SAFETY: there is room for eight behind any.
        self.cells.values::<T>(bricks, |at, v| unsafe { indices::<T>(table, v).store(entries.add(at)) });
    }

    /// Blends what was gathered, and says whether the ray is opaque then.
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

/// Blends what was gathered of some rays, as [`SampleQueue::drain`] does; those that are opaque then are done.
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
            if first >= queue.cells.count {
                continue;
            }
            // Those that are too many show nothing.
            // SAFETY: behind the samples of a segment there is room for so many.
            unsafe { I8::splat(nothing[0]).store(queue.entries.as_mut_ptr().add(queue.cells.count)) };
            cx.counts.samples += ROUND.min(queue.cells.count - first) as u64;
            *at = queue.entries[first..].as_ptr();
        }
        let before = (colours, throughs);
        // SAFETY: so many entries lie at each, and each is one of the table's.
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

/// Light of [`ROUND`] samples of each ray in their order. All is kept in registers: through memory it took longer than ray by ray.
///
/// # Safety
/// So many entries' indices can be read from each of `at` on.
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
