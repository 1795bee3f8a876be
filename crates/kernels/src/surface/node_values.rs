//! The nodes of a block with needed values, and the places of these.

use super::edge::{Edge, NODE};
use super::signs::each_bit;

/// A set of nodes in a box of at most 128 along i; its members are numbered in the order k, j, i.
#[derive(Clone, Debug, Default)]
pub struct NodeSet {
    /// First node in the zone.
    lo: [u32; 3],
    /// Nodes of the box along i, j, k.
    size: [u32; 3],
    rows: Vec<u128>,
    /// Number of the first member of each row.
    first: Vec<u32>,
    count: u32,
}

impl NodeSet {
    /// An empty set in a box of nodes. Call `number` before asking for places.
    pub fn new(lo: [u32; 3], size: [u32; 3]) -> Self {
        debug_assert!(size[0] <= 128);
        let rows = size[1] as usize * size[2] as usize;
        Self { lo, size, rows: vec![0; rows], first: vec![0; rows], count: 0 }
    }

    /// As [`Self::new`], in the same memory.
    pub fn clear(&mut self, lo: [u32; 3], size: [u32; 3]) {
        debug_assert!(size[0] <= 128);
        let rows = size[1] as usize * size[2] as usize;
        self.rows.clear();
        self.rows.resize(rows, 0);
        // All are written when members are numbered.
        self.first.resize(rows, 0);
        (self.lo, self.size, self.count) = (lo, size, 0);
    }

    /// Bytes of a set in a box of that size.
    pub fn bytes(size: [u32; 3]) -> usize {
        size[1] as usize * size[2] as usize * (size_of::<u128>() + size_of::<u32>())
    }

    /// The box: its first node and one past its last.
    pub fn bounds(&self) -> [[u32; 3]; 2] {
        [self.lo, core::array::from_fn(|a| self.lo[a] + self.size[a])]
    }

    /// Number of members.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    #[inline(always)]
    fn row_of(&self, j: u32, k: u32) -> usize {
        ((k - self.lo[2]) * self.size[1] + (j - self.lo[1])) as usize
    }

    /// Adds the ends of edges. Their nodes count from `origin`.
    pub fn add_ends(&mut self, origin: [u32; 3], edges: &[Edge]) {
        for e in edges {
            let n = e.node();
            let at: [u32; 3] = core::array::from_fn(|a| n[a] + origin[a]);
            let row = self.row_of(at[1], at[2]);
            let bit = 1u128 << (at[0] - self.lo[0]);
            match e.kind() {
                0 => self.rows[row] |= bit | bit << 1,
                1 => {
                    self.rows[row] |= bit;
                    self.rows[row + 1] |= bit;
                }
                2 => {
                    self.rows[row] |= bit;
                    self.rows[row + self.size[1] as usize] |= bit;
                }
                _ => self.rows[row] |= bit,
            }
        }
    }

    /// Adds the nodes for differences at the members: the adjacent nodes, and at the ends of a zone of `dims` nodes the
    /// second one, too.
    pub fn add_beside(&mut self, dims: [u32; 3]) {
        let own = self.rows.clone();
        let [ni, nj, nk] = self.size;
        let all = if ni == 128 { u128::MAX } else { (1 << ni) - 1 };
        let (lo, nj) = (self.lo, nj as usize);
        let second = |first: u32, a: usize| dims[a] > 2 && first == 0;
        for (at, row) in own.iter().enumerate().filter(|(_, r)| **r != 0) {
            let (j, k) = ((at % nj) as u32, (at / nj) as u32);
            let mut here = row << 1 | row >> 1;
            if second(lo[0], 0) {
                here |= (row & 1) << 2;
            }
            if dims[0] > 2 && lo[0] + ni == dims[0] && ni > 2 {
                here |= (row >> (ni - 1) & 1) << (ni - 3);
            }
            self.rows[at] |= here & all;
            for (n, of, a, stride) in [(j, self.size[1], 1, 1), (k, nk, 2, nj)] {
                if n > 0 {
                    self.rows[at - stride] |= row;
                }
                if n + 1 < of {
                    self.rows[at + stride] |= row;
                }
                if n == 0 && second(lo[a], a) && of > 2 {
                    self.rows[at + 2 * stride] |= row;
                }
                if n + 1 == of && dims[a] > 2 && lo[a] + of == dims[a] && of > 2 {
                    self.rows[at - 2 * stride] |= row;
                }
            }
        }
    }

    /// Numbers the members. Call it after the last addition.
    pub fn number(&mut self) {
        self.count = 0;
        for (row, first) in self.rows.iter().zip(&mut self.first) {
            *first = self.count;
            self.count += row.count_ones();
        }
    }

    /// The number of a member.
    #[inline(always)]
    pub fn place(&self, node: [u32; 3]) -> usize {
        let row = self.row_of(node[1], node[2]);
        let below = self.rows[row] & ((1u128 << (node[0] - self.lo[0])) - 1);
        (self.first[row] + below.count_ones()) as usize
    }

    /// The numbers of the end nodes of an edge, which counts from `origin`. They are equal for a vertex on a node.
    #[inline(always)]
    pub fn places(&self, origin: [u32; 3], edge: Edge) -> [usize; 2] {
        let n = edge.node();
        let at: [u32; 3] = core::array::from_fn(|a| n[a] + origin[a]);
        let low = self.place(at);
        match edge.kind() {
            0 => [low, low + 1],
            NODE => [low, low],
            1 => [low, self.place([at[0], at[1] + 1, at[2]])],
            _ => [low, self.place([at[0], at[1], at[2] + 1])],
        }
    }

    /// Passes all members and their numbers to `each`.
    pub fn each(&self, mut each: impl FnMut([u32; 3], usize)) {
        let [lo, hi] = self.bounds();
        self.rows_in(lo, hi, |first, bits, number| {
            let mut n = number;
            each_bit(bits, |i| {
                each([first[0] + i, first[1], first[2]], n);
                n += 1;
            });
        });
    }

    /// Whether a member is in a box of nodes, `hi` past its last.
    pub fn any_in(&self, lo: [u32; 3], hi: [u32; 3]) -> bool {
        let [low, high] = self.bounds();
        let lo: [u32; 3] = core::array::from_fn(|a| lo[a].max(low[a]));
        let hi: [u32; 3] = core::array::from_fn(|a| hi[a].min(high[a]));
        if (0..3).any(|a| lo[a] >= hi[a]) {
            return false;
        }
        let columns = bits_of(hi[0] - lo[0]) << (lo[0] - low[0]);
        (lo[2]..hi[2]).any(|k| {
            let rows = &self.rows[self.row_of(lo[1], k)..][..(hi[1] - lo[1]) as usize];
            rows.iter().any(|r| r & columns != 0)
        })
    }

    /// Passes to `each` the rows of a box of nodes with members. It gets the first node of the row within the box, the
    /// members from there on as bits, and the number of the first.
    #[inline(always)]
    pub fn rows_in(&self, lo: [u32; 3], hi: [u32; 3], mut each: impl FnMut([u32; 3], u128, usize)) {
        let [low, high] = self.bounds();
        let lo: [u32; 3] = core::array::from_fn(|a| lo[a].max(low[a]));
        let hi: [u32; 3] = core::array::from_fn(|a| hi[a].min(high[a]));
        if (0..3).any(|a| lo[a] >= hi[a]) {
            return;
        }
        let shift = lo[0] - low[0];
        let mask = bits_of(hi[0] - lo[0]);
        for k in lo[2]..hi[2] {
            for j in lo[1]..hi[1] {
                let row = self.row_of(j, k);
                let bits = self.rows[row] >> shift & mask;
                if bits != 0 {
                    let before = self.rows[row] & ((1u128 << shift) - 1);
                    each([lo[0], j, k], bits, (self.first[row] + before.count_ones()) as usize);
                }
            }
        }
    }
}

/// The lowest `width` bits.
fn bits_of(width: u32) -> u128 {
    if width >= 128 {
        u128::MAX
    } else {
        (1 << width) - 1
    }
}
