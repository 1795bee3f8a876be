//! Samples of a segment in bricks: those that may show something are gathered over all bricks that a ray goes through, and computed
//! eight at a time then, so that no eight has gaps but the last of a segment.

use super::bricks::{Known, EDGE, EDGE_BITS, UNKNOWN, WINDOW};
use super::lanes::{numbers, I4, I8};
use super::march::{composite, indices, Lane};
use super::pages::Context;
use super::ray::{Segment, BITS, SEGMENT};
use super::sample::{in_blocks, Sampled};
use super::scene::Source;
use field::volume::BLOCK;

/// Eight are written at a time, and read.
const ROOM: usize = SEGMENT as usize + 8;

// Places in the window, blocks and corners are taken from bits of positions.
const _: () = assert!(EDGE == 32 && WINDOW == 32 && BLOCK == 4);

/// See the module.
pub(crate) struct Queue {
    /// Numbers from the start of all bricks to the first corner of each sample's cell.
    at: [i32; ROOM],
    /// Number of each in its segment.
    numbers: [u8; ROOM],
    count: usize,
}

/// Which brick a voxel lies in.
#[inline(always)]
pub(crate) fn brick_of(voxel: I4) -> [i32; 3] {
    let [i, j, k, _] = voxel.down::<{ EDGE_BITS as i32 }>().to_array();
    [i, j, k]
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
        Self { at: [0; ROOM], numbers: [0; ROOM], count: 0 }
    }

    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.count != 0
    }

    /// Takes up samples `k` to `end` of a segment, whose bricks lie in the window; those of a segment come in order, each once. Ends at
    /// the first whose brick is not at hand, and says which that is, and whether nobody has looked yet.
    #[inline(always)]
    pub(crate) fn push(&mut self, s: &Segment, mut k: i32, end: i32, known: Known) -> (i32, bool) {
        const CELL: i32 = BITS as i32;
        let (cell, at, step) = (s.cell.to_array(), s.at.to_array(), s.step.to_array());
        let cell = [I8::splat(cell[0]), I8::splat(cell[1]), I8::splat(cell[2])];
        let steps = [I8::splat(step[0]), I8::splat(step[1]), I8::splat(step[2])];
        let eight = steps.map(|s| s.up::<3>());
        let from = |k: i32| {
            let n = I8::splat(k).add(I8::lanes());
            [0, 1, 2].map(|a: usize| I8::splat(at[a]).add(steps[a].mul(n)))
        };
        let mut p = from(k);
        while k < end {
            let [x, y, z] = [0, 1, 2].map(|a: usize| p[a].down::<CELL>().add(cell[a]));
            p = [0, 1, 2].map(|a: usize| p[a].add(eight[a]));
            // Places of bricks in the window: five bits each of i, j and k above the cells of a brick; then of blocks in a brick.
            let place = x.down::<5>().and(I8::splat(31)).or(y.and(I8::splat(31 << 5)));
            let place = place.or(z.and(I8::splat(31 << 5)).up::<5>());
            let block = x.down::<2>().and(I8::splat(7)).or(y.up::<1>().and(I8::splat(7 << 3)));
            let block = block.or(z.up::<4>().and(I8::splat(7 << 6)));
            let within = z.and(I8::splat(3));
            let within = within.add(within.up::<2>()).add(y.and(I8::splat(3)));
            let within = within.add(within.up::<2>()).add(x.and(I8::splat(3)));
            // SAFETY: places and blocks are cut to what the window and each map have, samples beyond the end too.
            let (map, first) = unsafe {
                let map = place.gather(known.window);
                (map, map.add(block).gather(known.maps))
            };
            let all = if end - k >= 8 { 255 } else { (1u32 << (end - k)) - 1 };
            let mut live = !first.signs() & all;
            let lacks = I8::splat(-1).above(first).signs() & all;
            if lacks != 0 {
                live &= (lacks & lacks.wrapping_neg()) - 1;
            } else if live == 0 && map.signs_below(1) & all == all {
                // Bricks in which nothing shows: to the end of the last.
                let last = (k + 7).min(end - 1);
                let (low, high) = box_of(brick_of(s.voxel(last)));
                k = s.leaves(last, end, low, high);
                p = from(k);
                continue;
            }
            debug_assert!(self.count + 8 <= ROOM);
            let some = numbers(live, k as u32);
            let at = first.add(within);
            let at = if live == 255 { at } else { at.chosen(I8::bytes(numbers(live, 0))) };
            // SAFETY: a segment has so many samples that after them there is room for eight.
            unsafe {
                at.store(self.at.as_mut_ptr().add(self.count));
                self.numbers.as_mut_ptr().add(self.count).cast::<u64>().write_unaligned(some.to_le());
            }
            self.count += live.count_ones() as usize;
            if lacks != 0 {
                let n = lacks.trailing_zeros();
                return (k + n as i32, first.to_array()[n as usize] <= UNKNOWN);
            }
            k += 8;
        }
        (end, false)
    }

    /// Blends what was gathered, and says whether the ray is opaque then.
    #[inline(always)]
    pub(crate) fn drain<T: Sampled>(
        &mut self,
        source: &Source,
        s: &Segment,
        lane: &mut Lane,
        cx: &mut Context,
    ) -> bool {
        let count = core::mem::take(&mut self.count);
        let data = cx.bricks(source).data::<T>();
        let (at, step) = (s.at.to_array(), s.step.to_array());
        let mut first = 0;
        // SAFETY: as in `push`; behind the last sample the first cell of all stands in.
        unsafe { I8::splat(0).store(self.at.as_mut_ptr().add(count)) };
        while first < count {
            // SAFETY: first + 8 is not above ROOM.
            let (cells, n) = unsafe {
                let n = self.numbers.as_ptr().add(first).cast::<u64>().read_unaligned();
                (I8::load(self.at.as_ptr().add(first)), I8::bytes(u64::from_le(n)))
            };
            let place = |a: usize| I8::splat(at[a]).add(I8::splat(step[a]).mul(n));
            // SAFETY: cells were taken of bricks that have been there since, with all their corners.
            let v = unsafe { in_blocks(data, cells, [place(0), place(1), place(2)]) };
            let entries = indices::<T>(&source.table, v);
            let taken = (count - first).min(8);
            cx.counts.samples += taken as u64;
            if composite(&source.table, &entries[..taken], lane) {
                return true;
            }
            first += 8;
        }
        false
    }
}
