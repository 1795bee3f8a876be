//! Vertices of a block by their edges.

/// Kind of a vertex on a node; others are on an edge along axis 0, 1 or 2.
pub const NODE: u32 = 3;

/// A vertex of a block: node i, j, k within the block (0 to 64) and kind, in seven bits each.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge(u32);

impl Edge {
    /// The edge with this lower node and kind.
    #[inline(always)]
    pub fn new(i: u32, j: u32, k: u32, kind: u32) -> Self {
        Self(i | j << 7 | k << 14 | kind << 21)
    }

    /// The lower node.
    #[inline(always)]
    pub fn node(self) -> [u32; 3] {
        [self.0 & 127, self.0 >> 7 & 127, self.0 >> 14 & 127]
    }

    /// As one number, which is the same in any run.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// The edge of [`Self::bits`].
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Axis of the edge, or [`NODE`].
    #[inline(always)]
    pub fn kind(self) -> u32 {
        self.0 >> 21
    }
}
