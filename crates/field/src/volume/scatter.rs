//! Copies from elements in a file's order to a box of a frame.

use super::filters::half_to_f32;
use super::shape::{StoredElement, C, X, Y, Z};
use super::voxel::Brick;

/// Elements at regular places in some bytes.
#[derive(Copy, Clone, Debug)]
pub(super) struct Elements<'a> {
    pub(super) bytes: &'a [u8],
    /// Element number of the first.
    pub(super) first: usize,
    /// Strides in elements along x, y, z, c.
    pub(super) strides: [usize; 4],
}

/// A box of a frame.
#[derive(Copy, Clone, Debug)]
pub(super) struct Box4 {
    /// First along x, y, z and first component.
    pub(super) low: [usize; 4],
    /// Number along each.
    pub(super) size: [usize; 4],
}

/// Strides of a frame in elements along x, y, z, c.
pub(super) fn frame_strides(brick: &Brick) -> [usize; 4] {
    let x = brick.components;
    let y = x * brick.page[0] as usize;
    [x, y, y * brick.page[1] as usize, 1]
}

/// Copies a box of elements. `None` if there are too few bytes.
pub(super) fn spread(
    stored: StoredElement,
    from: Elements<'_>,
    brick: &Brick,
    to: Box4,
    frame: &mut [u8],
) -> Option<()> {
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

/// Side of a tile of a transposition, in elements: 32 lines of both sides fit the first-level cache.
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
    // The longest run that is contiguous on both sides: rows of all components, or of one.
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
    // The axis along which the source is read best, against x: tiles of both.
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

/// Fills `to` with one element, by doubling copies. (Element by element, each through a call, it took two thirds of the
/// processor time of drawing a volume with few written pages.)
pub(super) fn repeat(element: &[u8], to: &mut [u8]) {
    let mut there = element.len().min(to.len());
    to[..there].copy_from_slice(&element[..there]);
    while there > 0 && there < to.len() {
        let more = there.min(to.len() - there);
        to.copy_within(..more, there);
        there += more;
    }
}

/// Fills a box of a frame with one number.
pub(super) fn put_fill(brick: &Brick, to: Box4, frame: &mut [u8], element: &[u8]) {
    let strides = frame_strides(brick);
    // If the box has all components, its rows are contiguous.
    let (apart, together) =
        if to.size[C] == brick.components { (1, to.size[X] * to.size[C]) } else { (to.size[X], to.size[C]) };
    for k in 0..to.size[Z] {
        for j in 0..to.size[Y] {
            for i in 0..apart {
                let at: usize = (0..4).map(|d| ([i, j, k, 0][d] + to.low[d]) * strides[d]).sum();
                repeat(element, &mut frame[at * element.len()..][..together * element.len()]);
            }
        }
    }
}

/// Converts all elements of a frame to native byte order, in place.
pub(super) fn swap_all(size: usize, voxels: &mut [u8]) {
    match size {
        2 => voxels.as_chunks_mut::<2>().0.iter_mut().for_each(|e| e.reverse()),
        4 => voxels.as_chunks_mut::<4>().0.iter_mut().for_each(|e| e.reverse()),
        8 => voxels.as_chunks_mut::<8>().0.iter_mut().for_each(|e| e.reverse()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::VoxelType;

    #[test]
    fn a_box_is_filled_and_nothing_beside_it() {
        let brick = Brick { page: [7, 5, 4], components: 3, voxel: VoxelType::Uint16 };
        let boxes = [
            Box4 { low: [0; 4], size: [7, 5, 4, 3] },
            Box4 { low: [2, 1, 3, 0], size: [5, 3, 1, 3] },
            Box4 { low: [1, 0, 2, 1], size: [4, 5, 2, 2] },
            Box4 { low: [6, 4, 0, 2], size: [1, 1, 4, 1] },
            Box4 { low: [0; 4], size: [0, 5, 4, 3] },
        ];
        for to in boxes {
            let mut frame = vec![9u8; 7 * 5 * 4 * 3 * 2];
            put_fill(&brick, to, &mut frame, &[1, 2]);
            for (n, element) in frame.as_chunks::<2>().0.iter().enumerate() {
                let at = [n / 3 % 7, n / 21 % 5, n / 105, n % 3];
                let within = (0..4).all(|d| (to.low[d]..to.low[d] + to.size[d]).contains(&at[d]));
                assert_eq!(*element, if within { [1, 2] } else { [9, 9] }, "{at:?}");
            }
        }
    }

    #[test]
    fn an_element_is_there_over_and_over() {
        for (length, of) in [(0, 1), (1, 1), (37, 1), (40, 8), (24, 8), (8, 8)] {
            let element: Vec<u8> = (1..=of).collect();
            let mut to = vec![0; length];
            repeat(&element, &mut to);
            assert!(to.iter().enumerate().all(|(n, v)| *v == element[n % element.len()]), "{length} of {of}: {to:?}");
        }
    }
}
