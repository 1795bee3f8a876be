//! Samples of a segment in bricks: those that may show something are gathered over all bricks that a ray goes through, and computed
//! eight at a time then, so that no eight has gaps but the last of a segment.

use super::bricks::{Brick, BLOCK_BITS, EDGE, EDGE_BITS, PLANE, ROW};
use super::lanes::{numbers, I4, I8};
use super::march::{composite, indices, Lane};
use super::pages::Context;
use super::ray::{Segment, BITS, SEGMENT};
use super::sample::{trilinear, Sampled};
use super::scene::Source;
use field::volume::BLOCK;

/// Eight are written at a time, and read.
const ROOM: usize = SEGMENT as usize + 8;

/// See the module.
pub(crate) struct Queue {
    /// Elements from the start of all bricks to the first corner of each sample's cell.
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

    /// Takes up samples `k` to `end` of a segment, which lie in a brick whose first voxel is `low`; those of a segment come in order,
    /// each once.
    #[inline(always)]
    pub(crate) fn push(&mut self, s: &Segment, mut k: i32, end: i32, low: I4, brick: &Brick) {
        const CELL: i32 = BITS as i32;
        const OF_BLOCK: i32 = BITS as i32 + BLOCK.trailing_zeros() as i32;
        // Places count from the brick's first voxel. What has no room in 32 bits on the way has it in the brick.
        let at = s.at.add(s.cell.sub(low).up::<CELL>()).to_array();
        let step = s.step.to_array();
        let [ax, ay, az] = [I8::splat(at[0]), I8::splat(at[1]), I8::splat(at[2])];
        let [sx, sy, sz] = [I8::splat(step[0]), I8::splat(step[1]), I8::splat(step[2])];
        let base = I8::splat(brick.base);
        while k < end {
            let n = I8::splat(k).add(I8::lanes());
            let (x, y, z) = (ax.add(sx.mul(n)), ay.add(sy.mul(n)), az.add(sz.mul(n)));
            let rows = y.down::<CELL>().mul(I8::splat(ROW as i32)).add(z.down::<CELL>().mul(I8::splat(PLANE as i32)));
            let at = x.down::<CELL>().add(rows).add(base);
            let all = if end - k >= 8 { 255 } else { (1u32 << (end - k)) - 1 };
            let mut live = all;
            if !brick.full {
                let plane = z.down::<OF_BLOCK>().up::<{ 2 * BLOCK_BITS as i32 }>();
                let block = plane.or(y.down::<OF_BLOCK>().up::<{ BLOCK_BITS as i32 }>()).or(x.down::<OF_BLOCK>());
                // Those beyond the end may be anywhere.
                let block = block.and(I8::splat((1 << (3 * BLOCK_BITS)) - 1));
                // SAFETY: a map has so many blocks, and what may be read too much.
                live &= unsafe { block.zero_bytes(brick.map) };
            }
            debug_assert!(self.count + 8 <= ROOM);
            let some = numbers(live, k as u32);
            let at = if live == all { at } else { at.chosen(I8::bytes(numbers(live, 0))) };
            // SAFETY: a segment has so many samples that after them there is room for eight.
            unsafe {
                at.store(self.at.as_mut_ptr().add(self.count));
                self.numbers.as_mut_ptr().add(self.count).cast::<u64>().write_unaligned(some.to_le());
            }
            self.count += live.count_ones() as usize;
            k += 8;
        }
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
        // SAFETY: as in `push`; behind the last sample the first cell of the first brick stands in.
        unsafe { I8::splat(0).store(self.at.as_mut_ptr().add(count)) };
        while first < count {
            // SAFETY: first + 8 is not above ROOM.
            let (cells, n) = unsafe {
                let n = self.numbers.as_ptr().add(first).cast::<u64>().read_unaligned();
                (I8::load(self.at.as_ptr().add(first)), I8::bytes(u64::from_le(n)))
            };
            let place = |a: usize| I8::splat(at[a]).add(I8::splat(step[a]).mul(n));
            // SAFETY: cells were taken of bricks that have been there since, with all their corners.
            let v = unsafe {
                trilinear(data, &cells.to_array(), [place(0), place(1), place(2)], [ROW as isize, PLANE as isize])
            };
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
