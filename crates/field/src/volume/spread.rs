//! From elements as files have them, in any order, to a box of a frame.

use super::filters::half_to_f32;
use super::shape::{Stored, C, X, Y, Z};
use super::voxel::Brick;

/// Elements that lie somewhere in some bytes.
#[derive(Copy, Clone, Debug)]
pub(super) struct Elements<'a> {
    pub(super) bytes: &'a [u8],
    /// Element number of the first.
    pub(super) first: usize,
    /// Elements from one to the next along x, y, z, c.
    pub(super) strides: [usize; 4],
}

/// A box of a frame.
#[derive(Copy, Clone, Debug)]
pub(super) struct Box4 {
    /// First along x, y, z and first component.
    pub(super) low: [usize; 4],
    /// How many.
    pub(super) size: [usize; 4],
}

/// Elements from one to the next along x, y, z, c of a frame.
pub(super) fn frame_strides(brick: &Brick) -> [usize; 4] {
    let x = brick.components;
    let y = x * brick.page[0] as usize;
    [x, y, y * brick.page[1] as usize, 1]
}

/// Copies a box of elements; `None` where there are fewer bytes than that takes.
pub(super) fn spread(stored: Stored, from: Elements<'_>, brick: &Brick, to: Box4, frame: &mut [u8]) -> Option<()> {
    let swap = stored.swapped();
    if stored.half {
        let single = move |b: [u8; 2]| {
            let half = if stored.big { u16::from_be_bytes(b) } else { u16::from_le_bytes(b) };
            half_to_f32(half).to_ne_bytes()
        };
        return copy::<2, 4>(from, brick, to, frame, false, single);
    }
    match (stored.size(), swap) {
        (1, _) => copy::<1, 1>(from, brick, to, frame, true, |b| b),
        (2, false) => copy::<2, 2>(from, brick, to, frame, true, |b| b),
        (4, false) => copy::<4, 4>(from, brick, to, frame, true, |b| b),
        (_, false) => copy::<8, 8>(from, brick, to, frame, true, |b| b),
        (2, true) => copy::<2, 2>(from, brick, to, frame, false, reversed),
        (4, true) => copy::<4, 4>(from, brick, to, frame, false, reversed),
        (_, true) => copy::<8, 8>(from, brick, to, frame, false, reversed),
    }
}

fn reversed<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    bytes.reverse();
    bytes
}

/// Elements along each side of a tile of what is turned: both sides of 32 lines stay in the first cache.
const TILE: usize = 32;

fn copy<const N: usize, const M: usize>(
    from: Elements<'_>,
    brick: &Brick,
    to: Box4,
    frame: &mut [u8],
    same: bool,
    turn: impl Fn([u8; N]) -> [u8; M],
) -> Option<()> {
    let strides = frame_strides(brick);
    let (source, frame) = (from.bytes.as_chunks::<N>().0, frame.as_chunks_mut::<M>().0);
    let [nx, ny, nz, nc] = to.size;
    // One check for all: the highest element of both sides.
    let top = |first: usize, strides: [usize; 4]| {
        to.size.iter().zip(strides).try_fold(first, |at, (n, s)| at.checked_add(n.checked_sub(1)?.checked_mul(s)?))
    };
    let base: usize = (0..4).map(|d| to.low[d] * strides[d]).sum();
    source.get(top(from.first, from.strides)?)?;
    frame.get(top(base, strides)?)?;
    let [sx, sy, sz, sc] = from.strides;
    // As long a run as both sides have in one piece: rows of all components, or of one.
    let whole = sc == 1 && sx == nc && nc == brick.components || nc == 1 && sx == 1 && brick.components == 1;
    if whole {
        for k in 0..nz {
            for j in 0..ny {
                let (a, b) = (from.first + j * sy + k * sz, base + j * strides[Y] + k * strides[Z]);
                let (row, out) = (&source[a..a + nx * nc], &mut frame[b..b + nx * nc]);
                if same {
                    out.as_flattened_mut().copy_from_slice(row.as_flattened());
                } else {
                    out.iter_mut().zip(row).for_each(|(o, i)| *o = turn(*i));
                }
            }
        }
        return Some(());
    }
    // The axis along which the source is read best against x: tiles of both.
    let fast = [X, Y, Z, C].into_iter().filter(|d| to.size[*d] > 1).min_by_key(|d| from.strides[*d]).unwrap_or(X);
    let (fast, others) = match fast {
        X => (C, [Y, Z]),
        C => (C, [Y, Z]),
        Y => (Y, [C, Z]),
        _ => (Z, [Y, C]),
    };
    for p in 0..to.size[others[1]] {
        for q in 0..to.size[others[0]] {
            let a = from.first + p * from.strides[others[1]] + q * from.strides[others[0]];
            let b = base + p * strides[others[1]] + q * strides[others[0]];
            for f0 in (0..to.size[fast]).step_by(TILE) {
                for x0 in (0..nx).step_by(TILE) {
                    for f in f0..to.size[fast].min(f0 + TILE) {
                        let (a, b) = (a + f * from.strides[fast], b + f * strides[fast]);
                        for x in x0..nx.min(x0 + TILE) {
                            frame[b + x * strides[X]] = turn(source[a + x * sx]);
                        }
                    }
                }
            }
        }
    }
    Some(())
}

/// Puts one number in a box of a frame.
pub(super) fn put_fill(brick: &Brick, to: Box4, frame: &mut [u8], element: &[u8]) {
    let strides = frame_strides(brick);
    let size = element.len();
    for k in 0..to.size[Z] {
        for j in 0..to.size[Y] {
            for i in 0..to.size[X] {
                for c in 0..to.size[C] {
                    let at: usize = (0..4).map(|d| ([i, j, k, c][d] + to.low[d]) * strides[d]).sum();
                    let at = at * size;
                    frame[at..at + size].copy_from_slice(element);
                }
            }
        }
    }
}

/// Turns all elements of a frame into native ones, in place.
pub(super) fn swap_all(size: usize, voxels: &mut [u8]) {
    match size {
        2 => voxels.as_chunks_mut::<2>().0.iter_mut().for_each(|e| e.reverse()),
        4 => voxels.as_chunks_mut::<4>().0.iter_mut().for_each(|e| e.reverse()),
        8 => voxels.as_chunks_mut::<8>().0.iter_mut().for_each(|e| e.reverse()),
        _ => {}
    }
}
