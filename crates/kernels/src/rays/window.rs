//! The window with the states of bricks.

use super::brick_shape::EDGE;

/// Most places of a window, as a power of two: a window over 1024^3 voxels never moves, nor one over 2048 x 1216 x 130.
const MOST_BITS: u32 = 15;
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct WindowShape {
    /// Its edges as powers of two.
    bits: [u32; 3],
    edges: [i32; 3],
    shift: [i32; 3],
}

impl WindowShape {
    /// For a volume with this many cells.
    pub(crate) fn of(cells: [u32; 3]) -> Self {
        let mut bits = cells.map(|n| (n as usize).div_ceil(EDGE).max(1).next_power_of_two().trailing_zeros());
        while bits.iter().sum::<u32>() > MOST_BITS {
            if let Some(most) = bits.iter_mut().max() {
                *most -= 1;
            }
        }
        let shift = [0, bits[0] as i32, (bits[0] + bits[1]) as i32];
        Self { bits, edges: bits.map(|b| 1 << b), shift }
    }

    /// Bricks along each axis.
    pub(crate) fn edges(self) -> [i32; 3] {
        self.edges
    }

    /// Shift of a brick's number along each axis within a place.
    pub(crate) fn shift(self) -> [i32; 3] {
        self.shift
    }

    pub(crate) fn places(self) -> usize {
        1 << self.bits.iter().sum::<u32>()
    }

    /// The place of a brick in the window. Others share it at fixed distances.
    #[inline(always)]
    pub(crate) fn place(self, brick: [i32; 3]) -> usize {
        let (edges, shift) = (self.edges(), self.shift());
        (0..3).map(|a| (brick[a] & (edges[a] - 1)) << shift[a]).sum::<i32>() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_all_of_a_volume_where_it_can() {
        let edges = |cells| WindowShape::of(cells).edges();
        assert_eq!(edges([1023; 3]), [32; 3]);
        assert_eq!(edges([2047, 1215, 129]), [64, 64, 8]);
        assert_eq!(edges([1; 3]), [1; 3]);
        assert_eq!(edges([1 << 20; 3]), [32; 3]);
        assert_eq!(edges([1 << 20, 90 * EDGE as u32, 100]), [128, 64, 4]);
        let shape = WindowShape::of([2047, 1215, 129]);
        let bricks = (0..64 * 64 * 8).map(|n| [n % 64, n / 64 % 64, n / (64 * 64)]);
        let places: std::collections::HashSet<_> = bricks.map(|brick| shape.place(brick)).collect();
        assert_eq!((places.len(), places.iter().max()), (1 << MOST_BITS, Some(&((1 << MOST_BITS) - 1))));
        assert_eq!(shape.place([70, -1, 9]), shape.place([6, 63, 1]), "numbers count modulo the edges");
    }
}
