//! The blocks of a zone.

/// Cells along each axis of a block, at most: a row of them is a machine word.
pub const BLOCK_CELLS: u32 = 64;

/// Number of blocks along each axis of a zone with this many nodes.
pub fn blocks(dims: [u32; 3]) -> [u32; 3] {
    dims.map(|n| (n.max(2) - 1).div_ceil(BLOCK_CELLS))
}

/// First node of a block, and its nodes along each axis: one more than its cells.
pub fn block_nodes(dims: [u32; 3], block: [u32; 3]) -> ([u32; 3], [u32; 3]) {
    let first = block.map(|b| b * BLOCK_CELLS);
    (first, core::array::from_fn(|a| (BLOCK_CELLS + 1).min(dims[a] - first[a])))
}
