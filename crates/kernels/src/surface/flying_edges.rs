//! From bits to vertices and triangles of a block, without a look at a value.
//!
//! # Theory
//! Flying Edges (W. Schroeder, R. Maynard and B. Geveci, "Flying Edges: a high-performance scalable isocontouring algorithm", LDAV
//! 2015) counts crossings by rows, so that each vertex has its number before it is made. Here a row of a block is a word: what
//! is crossed along i is a row xor itself moved by one, along j and k two rows xor'ed, and the number of a vertex is the number of the
//! first in its row and kind, and the bits below its own. So there are no tables of edges, and rows that are all inside or all outside
//! cost a few operations for 64 cells.
//!
//! # Hits
//! Where a node's value is the very value that is looked for, the vertices on all edges from that node come to lie on it. For
//! isosurfaces they are kept a little apart ([`super::vertices::LEAST`]); for planes they are one vertex, of the kind [`NODE`], and
//! triangles of which two corners are the same are left out.

use super::cases::{ends, Cases};
use super::node_values::each_bit;
use super::signs::Signs;

/// Kind of a vertex that lies on a node; others are on an edge along axis 0, 1 or 2.
pub const NODE: u32 = 3;

/// A vertex of a block: node i, j, k within the block (0 to 64) and kind, in seven bits each.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge(u32);

impl Edge {
    /// From the lower node of the edge and the kind.
    #[inline(always)]
    pub fn new(i: u32, j: u32, k: u32, kind: u32) -> Self {
        Self(i | j << 7 | k << 14 | kind << 21)
    }

    /// The lower node.
    #[inline(always)]
    pub fn node(self) -> [u32; 3] {
        [self.0 & 127, self.0 >> 7 & 127, self.0 >> 14 & 127]
    }

    /// As one number, which says the same in any run.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// What [`Self::bits`] said.
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Axis of the edge, or [`NODE`].
    #[inline(always)]
    pub fn kind(self) -> u32 {
        self.0 >> 21
    }
}

/// A triangle's cell in the block, and its sheet there.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The cell.
    pub cell: [u8; 3],
    /// Which of the sheets of its case.
    pub sheet: u8,
}

/// Vertices and triangles of a block.
#[derive(Clone, Debug, Default)]
pub struct BlockMesh {
    /// Where vertices are: by node in the order k, j, of a row those along i, then along j, along k, and those on nodes.
    pub edges: Vec<Edge>,
    /// Three vertices each, by their places in `edges`; cells in the order k, j, i.
    pub triangles: Vec<[u32; 3]>,
    /// Of each triangle, where that was asked for.
    pub origins: Vec<Origin>,
}

impl BlockMesh {
    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        self.edges.capacity() * size_of::<Edge>()
            + self.triangles.capacity() * size_of::<[u32; 3]>()
            + self.origins.capacity() * size_of::<Origin>()
    }

    /// Leaves out triangles that are not `kept`, and vertices that no other has. Says of each vertex whether it is left.
    pub fn retain(&mut self, mut kept: impl FnMut(usize) -> bool) -> Vec<bool> {
        let mut used = vec![false; self.edges.len()];
        let mut n = 0;
        let origins = &mut self.origins;
        let mut left = Vec::with_capacity(origins.len());
        self.triangles.retain(|t| {
            let keep = kept(n);
            if keep {
                t.iter().for_each(|v| used[*v as usize] = true);
                left.extend(origins.get(n).copied());
            }
            n += 1;
            keep
        });
        *origins = left;
        let mut place = vec![0u32; self.edges.len()];
        let mut next = 0;
        for (place, used) in place.iter_mut().zip(&used) {
            *place = next;
            next += u32::from(*used);
        }
        let mut n = 0;
        self.edges.retain(|_| {
            n += 1;
            used[n - 1]
        });
        self.triangles.as_flattened_mut().iter_mut().for_each(|v| *v = place[*v as usize]);
        used
    }
}

/// What is crossed of a row of nodes, and where its vertices begin.
#[derive(Copy, Clone, Debug, Default)]
struct CrossedRow {
    /// Along i, j, k, and on nodes.
    at: [u128; 4],
    first: [u32; 4],
}

/// Memory that marching takes, to be used again.
#[derive(Clone, Debug, Default)]
pub struct Marcher {
    rows: [Vec<CrossedRow>; 2],
}

/// What a block is made of.
#[derive(Copy, Clone, Debug)]
pub struct MarchBlock<'a> {
    /// Nodes that are inside.
    pub inside: &'a Signs,
    /// Cells that count, a word a row of cells, `[k][j]`; `None`: all.
    pub usable: Option<&'a [u64]>,
    /// Nodes whose value is the one that is looked for, where vertices at them are one.
    pub hits: Option<&'a Signs>,
    /// Triangles are turned around: the block's i, j, k are left-handed in space.
    pub turned: bool,
    /// Whether origins of triangles are told.
    pub origins: bool,
}

impl Marcher {
    /// Bytes that it holds after the largest block.
    pub const BYTES: usize = 2 * 65 * size_of::<CrossedRow>();

    /// Vertices and triangles that a block has at most, without a look at its cells' cases, so that room for them can be had first.
    ///
    /// A cell cuts loops of `n` edges into `n - 2` triangles each, and an edge is part of four cells at most: no more triangles than four
    /// for each edge that is crossed, less two for each cell that is.
    pub fn at_most(block: &MarchBlock<'_>) -> [usize; 2] {
        let s = block.inside;
        let [ni, nj, nk] = s.nodes();
        let (columns, rows_of_cells) = (u128::from(first_cells(ni - 1)), u128::from(first_cells(nj - 1)));
        let (mut edges, mut cells) = (0, 0);
        let mut before = 0;
        for k in 0..nk {
            let here = begun(s.layer(k), s.layer((k + 1).min(nk - 1)), columns);
            each_bit(here, |j| {
                let j = j as usize;
                let r = s.row(j, k);
                edges += ((r ^ r >> 1) & columns).count_ones() as usize;
                edges += if j + 1 < nj { (r ^ s.row(j + 1, k)).count_ones() as usize } else { 0 };
                edges += if k + 1 < nk { (r ^ s.row(j, k + 1)).count_ones() as usize } else { 0 };
            });
            if k > 0 {
                let around = here | before;
                each_bit((around | around >> 1) & rows_of_cells, |j| {
                    cells += active::<false>(block, j as usize, k - 1).count_ones() as usize;
                });
            }
            before = here;
        }
        // With hits there is at most one vertex for each edge that is crossed, too: on a node or on the edge.
        [edges, 4 * edges - 2 * cells]
    }

    /// Appends the vertices and triangles of a block to an empty mesh.
    pub fn march(&mut self, block: &MarchBlock<'_>, mesh: &mut BlockMesh) {
        match (block.usable.is_some(), block.hits.is_some()) {
            (false, false) => self.go::<false, false>(block, mesh),
            (true, false) => self.go::<true, false>(block, mesh),
            (false, true) => self.go::<false, true>(block, mesh),
            (true, true) => self.go::<true, true>(block, mesh),
        }
    }

    fn go<const HOLES: bool, const HITS: bool>(&mut self, block: &MarchBlock<'_>, mesh: &mut BlockMesh) {
        let s = block.inside;
        let [ni, nj, nk] = s.nodes();
        for rows in &mut self.rows {
            rows.resize(nj, CrossedRow::default());
        }
        let (columns, rows_of_cells) = (u128::from(first_cells(ni - 1)), u128::from(first_cells(nj - 1)));
        let mut before = 0;
        for k in 0..nk {
            self.rows.swap(0, 1);
            // `rows[1]` is this layer of nodes, `rows[0]` the one before.
            let here = begun(s.layer(k), s.layer((k + 1).min(nk - 1)), columns);
            // A node that is hit may be the other end of an edge.
            let with_vertices = if HITS { (here | here << 1 | before) & (rows_of_cells << 1 | 1) } else { here };
            each_bit(with_vertices, |j| {
                let j = j as usize;
                crossed::<HOLES, HITS>(block, j, k, &mut self.rows[1][j], &mut mesh.edges);
            });
            if k > 0 {
                let around = here | before;
                each_bit((around | around >> 1) & rows_of_cells, |j| {
                    let j = j as usize;
                    let active = active::<HOLES>(block, j, k - 1);
                    if active != 0 {
                        let rows = [&self.rows[0][j], &self.rows[0][j + 1], &self.rows[1][j], &self.rows[1][j + 1]];
                        cells::<HITS>(block, [j, k - 1], active, rows, mesh);
                    }
                });
            }
            before = here;
        }
    }
}

/// Rows of a layer of nodes at which an edge begins that is crossed, a bit each: most rows are ruled out here, in a dozen instructions
/// (of a foam of a bubble in every 32^3 voxels two of three; looked at one by one they took a seventh of all time).
#[inline(always)]
fn begun(layer: &[u128], next: &[u128], columns: u128) -> u128 {
    let mut words = [0u64; 2];
    let beside = layer[1..].iter().chain(layer.last());
    for (n, ((row, beside), next)) in layer.iter().zip(beside).zip(next).enumerate() {
        let crossed = (row ^ row >> 1) & columns | row ^ beside | row ^ next;
        words[n >> 6 & 1] |= u64::from(crossed != 0) << (n & 63);
    }
    u128::from(words[0]) | u128::from(words[1]) << 64
}

/// Bits 0 to `n` - 1 of a row of cells.
#[inline(always)]
fn first_cells(n: usize) -> u64 {
    u64::MAX >> (64 - n)
}

/// Cells of a row that a surface crosses.
#[inline(always)]
fn active<const HOLES: bool>(block: &MarchBlock<'_>, j: usize, k: usize) -> u64 {
    let s = block.inside;
    let [ni, nj, _] = s.nodes();
    let r = [s.row(j, k), s.row(j + 1, k), s.row(j, k + 1), s.row(j + 1, k + 1)];
    let (any, all) = (r[0] | r[1] | r[2] | r[3], r[0] & r[1] & r[2] & r[3]);
    let mut active = ((any | any >> 1) & !(all & all >> 1)) as u64 & first_cells(ni - 1);
    if HOLES {
        active &= block.usable.map_or(u64::MAX, |u| u[k * (nj - 1) + j]);
    }
    active
}

/// Finds what is crossed of the edges that begin in a row of nodes, and makes its vertices.
#[inline(always)]
fn crossed<const HOLES: bool, const HITS: bool>(
    block: &MarchBlock<'_>,
    j: usize,
    k: usize,
    row: &mut CrossedRow,
    edges: &mut Vec<Edge>,
) {
    let s = block.inside;
    let [ni, nj, nk] = s.nodes();
    let r = s.row(j, k);
    let mut x = (r ^ r >> 1) & u128::from(first_cells(ni - 1));
    let mut y = if j + 1 < nj { r ^ s.row(j + 1, k) } else { 0 };
    let mut z = if k + 1 < nk { r ^ s.row(j, k + 1) } else { 0 };
    if !HITS && x | y | z == 0 {
        // No cell at this row will look for vertices here.
        return;
    }
    if HOLES {
        // An edge counts if one of the cells around it does.
        let cells = |dj: usize, dk: usize| match (block.usable, j.checked_sub(dj), k.checked_sub(dk)) {
            (Some(u), Some(j), Some(k)) if j + 1 < nj && k + 1 < nk => {
                u128::from(u[k * (nj - 1) + j] & first_cells(ni - 1))
            }
            _ => 0,
        };
        let (a, b, c, d) = (cells(0, 0), cells(1, 0), cells(0, 1), cells(1, 1));
        let nodes = |cells: u128| cells | cells << 1;
        x &= a | b | c | d;
        y &= nodes(a | c);
        z &= nodes(a | b);
    }
    let mut on = 0;
    if HITS {
        (x, y, z, on) = hits::<HOLES>(block, [j, k], [x, y, z]);
    }
    row.at = [x, y, z, on];
    let (j32, k32) = (j as u32, k as u32);
    for kind in 0..if HITS { 4 } else { 3 } {
        row.first[kind] = edges.len() as u32;
        let low = row.at[kind] as u64;
        push(low, edges, |i| Edge::new(i, j32, k32, kind as u32));
        if row.at[kind] >> 64 != 0 {
            edges.push(Edge::new(64, j32, k32, kind as u32));
        }
    }
}

/// Calls with the places of the bits that are set, and pushes what comes of it.
#[inline(always)]
fn push<T>(mut bits: u64, to: &mut Vec<T>, make: impl Fn(u32) -> T) {
    to.reserve(bits.count_ones() as usize);
    while bits != 0 {
        to.push(make(bits.trailing_zeros()));
        bits &= bits - 1;
    }
}

/// The edges that begin in a row of nodes and have a vertex of their own, and the nodes of the row that have one.
fn hits<const HOLES: bool>(block: &MarchBlock<'_>, [j, k]: [usize; 2], own: [u128; 3]) -> (u128, u128, u128, u128) {
    let (s, Some(h)) = (block.inside, block.hits) else { return (own[0], own[1], own[2], 0) };
    let [ni, nj, nk] = s.nodes();
    let (r, hit) = (s.row(j, k), h.row(j, k));
    // A vertex lies on the end that is inside, if that is hit. Nothing that is outside is.
    let beyond = [hit >> 1, if j + 1 < nj { h.row(j + 1, k) } else { 0 }, if k + 1 < nk { h.row(j, k + 1) } else { 0 }];
    let free = core::array::from_fn::<u128, 3, _>(|a| own[a] & !(hit | beyond[a]));
    // A node has a vertex where it is hit and a usable cell around it has a corner that is outside and joined to it by an edge.
    let mut on = own[0] | own[1] | own[2];
    let cells = |dj: usize, dk: usize| match (block.usable, j.checked_sub(dj), k.checked_sub(dk)) {
        (Some(u), Some(j), Some(k)) if j + 1 < nj && k + 1 < nk => {
            u128::from(u[k * (nj - 1) + j] & first_cells(ni - 1))
        }
        (None, Some(j), Some(k)) if j + 1 < nj && k + 1 < nk => u128::from(first_cells(ni - 1)),
        _ => 0,
    };
    let nodes = |cells: u128| cells | cells << 1;
    on |= own[0] << 1;
    if j > 0 {
        let y = r ^ s.row(j - 1, k);
        on |= if HOLES { y & nodes(cells(1, 0) | cells(1, 1)) } else { y };
    }
    if k > 0 {
        let z = r ^ s.row(j, k - 1);
        on |= if HOLES { z & nodes(cells(0, 1) | cells(1, 1)) } else { z };
    }
    (free[0], free[1], free[2], on & hit & r)
}

/// Corners of a cell as bits, from its four rows of nodes moved to it.
#[inline(always)]
fn corners(r: [u128; 4], i: u32) -> usize {
    let two = |n: usize| (r[n] >> i) as usize & 3;
    two(0) | two(1) << 2 | two(2) << 4 | two(3) << 6
}

/// Triangles of the active cells of a row.
#[inline(always)]
fn cells<const HITS: bool>(
    block: &MarchBlock<'_>,
    [j, k]: [usize; 2],
    mut active: u64,
    rows: [&CrossedRow; 4],
    mesh: &mut BlockMesh,
) {
    let s = block.inside;
    let signs = [s.row(j, k), s.row(j + 1, k), s.row(j, k + 1), s.row(j + 1, k + 1)];
    let cases = Cases::get();
    // Of each edge of a cell the row that it begins in (as `rows`), its kind, and whether that is the cell's i or the next.
    let mut bits = [0u64; 12];
    let mut first = [0u32; 12];
    for e in 0..12 {
        let low = ends(e)[0];
        bits[e] = rows[low >> 1].at[e / 4] as u64;
        first[e] = rows[low >> 1].first[e / 4];
    }
    const NEXT: [u32; 12] = [0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1];
    while active != 0 {
        let i = active.trailing_zeros();
        active &= active - 1;
        let corners = corners(signs, i);
        let case = &cases.of[corners];
        let vertex = |e: u8| -> u32 {
            let e = usize::from(e % 12);
            let at = i + NEXT[e];
            if HITS {
                let low = ends(e)[0];
                if rows[low >> 1].at[e / 4] >> at & 1 == 0 {
                    let inside = ends(e)[usize::from(corners >> low & 1 == 0)];
                    let (row, at) = (rows[inside >> 1], i + (inside & 1) as u32);
                    return row.first[3] + (row.at[3] as u64 & below(at)).count_ones();
                }
            }
            first[e] + (bits[e] & below(at)).count_ones()
        };
        for n in 0..usize::from(case.count) {
            let t = case.triangles[n].map(&vertex);
            if HITS && (t[0] == t[1] || t[1] == t[2] || t[2] == t[0]) {
                continue;
            }
            mesh.triangles.push(if block.turned { [t[0], t[2], t[1]] } else { t });
            if block.origins {
                mesh.origins.push(Origin { cell: [i as u8, j as u8, k as u8], sheet: case.sheet_of[n] });
            }
        }
    }
}

/// The bits below bit `i`, 0 to 64.
#[inline(always)]
fn below(i: u32) -> u64 {
    if i < 64 {
        !(u64::MAX << i)
    } else {
        u64::MAX
    }
}
