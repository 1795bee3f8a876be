//! The shape of a brick, and the layout of its corners in memory.

use field::volume::BLOCK;

/// Cells of a brick along each axis.
pub(crate) const EDGE: usize = 32;
/// The same as a power of two.
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
/// Numbers from a brick to the next: whole words, with eight readable numbers from any corner.
pub(crate) const EACH: usize = (PLANE * CORNERS + 8 - ROW).next_multiple_of(8);
