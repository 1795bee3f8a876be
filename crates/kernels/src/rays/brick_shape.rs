//! The shape of a brick, and how its corners lie in memory.

use field::volume::BLOCK;

/// Cells of a brick along each axis.
pub(crate) const EDGE: usize = 32;
/// As a power of two.
pub(crate) const EDGE_BITS: u32 = EDGE.trailing_zeros();
/// Blocks of a brick along each axis.
pub(crate) const SIDE: usize = EDGE / BLOCK;
pub(crate) const BLOCKS: usize = SIDE * SIDE * SIDE;
/// Corners of a brick along each axis.
pub(crate) const CORNERS: usize = EDGE + 1;
/// Numbers from a row of a strip to the next: the corners of a block's cells.
pub(crate) const ROW: usize = BLOCK + 1;
/// From a strip to the next.
pub(crate) const STRIP: usize = ROW * CORNERS;
/// From a plane to the next.
pub(crate) const PLANE: usize = SIDE * STRIP;
/// From a brick to the next: words of them, and eight can be read from any.
pub(crate) const EACH: usize = (PLANE * CORNERS + 8 - ROW).next_multiple_of(8);
