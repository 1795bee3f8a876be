//! Numbers of the vertices that blocks share.
//!
//! # Theory
//! Blocks come one after the other, i fastest. A vertex on a face between blocks belongs to the first of them that
//! draws it, and later blocks look it up. The next block along i asks for vertices on the high face along i. Blocks of
//! the next row ask along j, and those of the next layer along k. After that the vertices are dropped. So the table is
//! about as large as the vertices on one layer of faces.
//!
//! Where four blocks meet along an edge, or eight at a node, any of them may be the first that draws the vertex. Those
//! before it may have a hole there, draw only another part of the surface, or touch a plane in a point only. So all
//! earlier blocks around the vertex are searched, also those higher along an axis but lower along a slower one. They
//! have it in the list of that slower axis, which is kept until the row or layer after theirs is done.

use super::edge::{Edge, NODE};

/// A vertex on a face: its key, and its number.
type BorderVertex = (u64, u64);

/// Vertices on faces that later blocks touch, of one zone and one value.
#[derive(Debug, Default)]
pub struct Borders {
    /// Nodes of the zone along i, j, k.
    dims: [u32; 3],
    /// Blocks along i, j, k.
    blocks: [u32; 3],
    /// For the block before along i.
    along_i: (u32, Vec<BorderVertex>),
    /// For the row before and this one, by block along i; for layers, by block along i and j.
    along_j: [Vec<Vec<BorderVertex>>; 2],
    along_k: [Vec<Vec<BorderVertex>>; 2],
    /// The row and layer of the last block.
    at: [u32; 2],
    entries: usize,
}

impl Borders {
    /// For a zone with this many nodes and blocks.
    pub fn new(dims: [u32; 3], blocks: [u32; 3]) -> Self {
        let (row, layer) = (blocks[0] as usize, blocks[0] as usize * blocks[1] as usize);
        Self {
            dims,
            blocks,
            along_i: (0, Vec::new()),
            along_j: core::array::from_fn(|_| vec![Vec::new(); row]),
            along_k: core::array::from_fn(|_| vec![Vec::new(); layer]),
            at: [0; 2],
            entries: 0,
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        // Lists grow by doubling.
        Self::empty_bytes(self.blocks) + 2 * self.entries * size_of::<BorderVertex>()
    }

    /// Bytes really held.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        let lists = || self.along_j.iter().chain(&self.along_k);
        let entries = self.along_i.1.capacity() + lists().flatten().map(Vec::capacity).sum::<usize>();
        lists().map(Vec::capacity).sum::<usize>() * size_of::<Vec<BorderVertex>>() + entries * size_of::<BorderVertex>()
    }

    /// Bytes of the empty tables for this many blocks.
    pub fn empty_bytes(blocks: [u32; 3]) -> usize {
        let row = blocks[0] as usize;
        2 * (row + row * blocks[1] as usize) * size_of::<Vec<BorderVertex>>()
    }

    /// Most bytes that [`Self::resolve`] adds for one block.
    pub fn bytes_of(blocks: [u32; 3], block: [u32; 3], nodes: [u32; 3], edges: &[Edge]) -> usize {
        let faces = |e: &Edge| {
            let n = e.node();
            (0..3).filter(|a| n[*a] + 1 == nodes[*a] && block[*a] + 1 < blocks[*a]).count()
        };
        2 * edges.iter().map(faces).sum::<usize>() * size_of::<BorderVertex>()
    }

    fn key(&self, origin: [u32; 3], e: Edge) -> u64 {
        let n = e.node();
        let at: [u64; 3] = core::array::from_fn(|a| u64::from(n[a] + origin[a]));
        ((at[2] * u64::from(self.dims[1]) + at[1]) * u64::from(self.dims[0]) + at[0]) * 4 + u64::from(e.kind())
    }

    /// Numbers the vertices of a block, the first new one `next`. Blocks come in order. `number` gets the number of
    /// each vertex and whether it is new.
    pub fn resolve(
        &mut self,
        block: [u32; 3],
        origin: [u32; 3],
        nodes: [u32; 3],
        edges: &[Edge],
        next: u64,
        mut number: impl FnMut(u64, bool),
    ) {
        self.turn(block);
        let more: [bool; 3] = core::array::from_fn(|a| block[a] + 1 < self.blocks[a]);
        let row = block[0] as usize;
        let layer = (block[1] * self.blocks[0] + block[0]) as usize;
        let mut own: [Vec<BorderVertex>; 3] = Default::default();
        let mut next = next;
        for e in edges {
            let n = e.node();
            // A bit for each axis along which the vertex is on a face.
            let side = |at: &dyn Fn(usize) -> bool| {
                (0..3).fold(0, |bits, a| bits | usize::from(e.kind() != a as u32 && at(a)) << a)
            };
            let (low, high) = if n.iter().zip(&nodes).any(|(n, of)| *n == 0 || n + 1 == *of) {
                (side(&|a| n[a] == 0 && block[a] > 0), side(&|a| n[a] + 1 == nodes[a] && more[a]))
            } else {
                (0, 0)
            };
            debug_assert!(e.kind() <= NODE);
            let mut found = None;
            let mut key = 0;
            if low | high != 0 {
                key = self.key(origin, *e);
            }
            if low != 0 {
                found = self.find(block, [low, high], key);
            }
            number(found.unwrap_or(next), found.is_none());
            let this = found.unwrap_or(next);
            next += u64::from(found.is_none());
            for (a, own) in own.iter_mut().enumerate() {
                if high >> a & 1 == 1 {
                    own.push((key, this));
                }
            }
        }
        for list in &mut own {
            list.sort_unstable();
            // A list of one entry would have room for four.
            list.shrink_to_fit();
        }
        let [i, j, k] = own;
        self.entries += i.len() + j.len() + k.len();
        self.entries -= self.along_i.1.len();
        self.along_i = (block[0], i);
        self.along_j[1][row] = j;
        self.along_k[1][layer] = k;
    }

    /// Drops vertices that no later block needs.
    fn turn(&mut self, [i, j, k]: [u32; 3]) {
        let count = |lists: &[Vec<BorderVertex>]| lists.iter().map(Vec::len).sum::<usize>();
        if self.at != [j, k] {
            self.entries -= count(&self.along_j[0]);
            self.along_j.swap(0, 1);
            self.along_j[1].iter_mut().for_each(|l| *l = Vec::new());
            // A row other than the one right before does not count.
            if [j.wrapping_sub(1), k] != self.at {
                self.entries -= count(&self.along_j[0]);
                self.along_j[0].iter_mut().for_each(|l| *l = Vec::new());
            }
        }
        if self.at[1] != k {
            self.entries -= count(&self.along_k[0]);
            self.along_k.swap(0, 1);
            self.along_k[1].iter_mut().for_each(|l| *l = Vec::new());
            if k.wrapping_sub(1) != self.at[1] {
                self.entries -= count(&self.along_k[0]);
                self.along_k[0].iter_mut().for_each(|l| *l = Vec::new());
            }
        }
        if self.at != [j, k] || self.along_i.0.wrapping_add(1) != i {
            self.entries -= self.along_i.1.len();
            self.along_i.1 = Vec::new();
        }
        self.at = [j, k];
    }

    /// Searches a vertex in the earlier blocks around it. Its low and high faces are given by a bit for each axis.
    fn find(&self, [i, j, _]: [u32; 3], [low, high]: [usize; 2], key: u64) -> Option<u64> {
        let around = |a: usize, at: u32| at - (low >> a & 1) as u32..=at + (high >> a & 1) as u32;
        let is_low = |a: usize| low >> a & 1 == 1;
        let look = |list: &Vec<BorderVertex>| list.binary_search_by_key(&key, |e| e.0).ok().map(|n| list[n].1);
        // All blocks of the row and of the layer before are earlier.
        let before = || look(&self.along_i.1);
        let row = || around(0, i).find_map(|i| look(&self.along_j[0][i as usize]));
        let layer = || {
            let mut rows = around(1, j);
            rows.find_map(|j| around(0, i).find_map(|i| look(&self.along_k[0][(j * self.blocks[0] + i) as usize])))
        };
        let found = is_low(0).then(before).flatten();
        let found = found.or_else(|| is_low(1).then(row).flatten());
        found.or_else(|| is_low(2).then(layer).flatten())
    }
}
