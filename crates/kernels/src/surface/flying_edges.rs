//! From bits to vertices and triangles of a block, without any value.
//!
//! # Theory
//! Flying Edges (W. Schroeder, R. Maynard and B. Geveci, "Flying Edges: a high-performance scalable isocontouring
//! algorithm", LDAV 2015) counts crossings by rows. So each vertex has its number before it is computed. Here a row of
//! a block is a word. The crossings along i are a row xor itself shifted by one, and along j and k the xor of two rows.
//! The number of a vertex is the number of the first in its row and kind, plus the count of bits below its own. So
//! there are no tables of edges. Rows entirely inside or outside take a few operations for 64 cells.
//!
//! # Hits
//! If a node's value equals the level, the vertices on all edges from that node coincide with it. For isosurfaces they
//! are kept slightly apart ([`super::vertices::LEAST`]). For planes they are one vertex, of the kind [`super::NODE`],
//! and triangles with two equal corners are omitted.

use super::cases::{ends, Cases};
use super::edge::Edge;
use super::signs::{each_bit, Signs};

/// A triangle's cell in the block, and its sheet there.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The cell.
    pub cell: [u8; 3],
    /// The number of its sheet in its case.
    pub sheet: u8,
}

/// Vertices and triangles of a block.
#[derive(Clone, Debug, Default)]
pub struct BlockMesh {
    /// The edges of vertices, by node in the order k, j. In a row those along i come first, then along j, along k, and
    /// those on nodes.
    pub edges: Vec<Edge>,
    /// Three vertices each, by their indices in `edges`; cells in the order k, j, i.
    pub triangles: Vec<[u32; 3]>,
    /// The origin of each triangle, if requested.
    pub origins: Vec<Origin>,
}

impl BlockMesh {
    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        self.edges.capacity() * size_of::<Edge>()
            + self.triangles.capacity() * size_of::<[u32; 3]>()
            + self.origins.capacity() * size_of::<Origin>()
    }

    /// Omits triangles that are not `kept`, and vertices without a triangle. Returns whether each vertex is kept.
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

/// The crossed edges of a row of nodes, and the numbers of its first vertices.
#[derive(Copy, Clone, Debug, Default)]
struct CrossedRow {
    /// Along i, j, k, and on nodes.
    at: [u128; 4],
    first: [u32; 4],
}

/// Memory of the march, for reuse.
#[derive(Clone, Debug, Default)]
pub struct Marcher {
    rows: [Vec<CrossedRow>; 2],
}

/// The input of a block.
#[derive(Copy, Clone, Debug)]
pub struct MarchBlock<'a> {
    /// Nodes that are inside.
    pub inside: &'a Signs,
    /// Usable cells, a word a row of cells, `[k][j]`; `None`: all.
    pub usable: Option<&'a [u64]>,
    /// Nodes with the level as value, if vertices at them are merged.
    pub hits: Option<&'a Signs>,
    /// Whether triangles are reversed: the block's i, j, k are left-handed in space.
    pub turned: bool,
    /// Whether origins of triangles are recorded.
    pub origins: bool,
}

impl Marcher {
    /// Bytes held after the largest block.
    pub const BYTES: usize = 2 * 65 * size_of::<CrossedRow>();

    /// Upper bounds of the vertices and triangles of a block, without its cells' cases, so that memory can be charged
    /// first.
    ///
    /// A cell divides loops of `n` edges into `n - 2` triangles each, and an edge belongs to at most four cells. So
    /// there are at most four triangles for each crossed edge, less two for each crossed cell.
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
        // With hits there is also at most one vertex for each crossed edge: on a node or on the edge.
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
            // A hit node may be the other end of an edge.
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

/// Rows of a layer of nodes with the begin of a crossed edge, a bit each. Most rows are ruled out here, in a dozen
/// instructions: two of three in a foam with a bubble in every 32^3 voxels. One by one they took a seventh of all time
/// there.
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

/// Crossed cells of a row.
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

/// Finds the crossed edges that begin in a row of nodes, and adds their vertices.
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
        // No cell at this row will search vertices here.
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

/// Pushes the results of `make` for the places of the set bits.
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
    // A vertex is on the inner end, if that is hit. No outer end is hit.
    let beyond = [hit >> 1, if j + 1 < nj { h.row(j + 1, k) } else { 0 }, if k + 1 < nk { h.row(j, k + 1) } else { 0 }];
    let free = core::array::from_fn::<u128, 3, _>(|a| own[a] & !(hit | beyond[a]));
    // A node has a vertex if it is hit and has an outer corner of a usable cell as a neighbour along an edge.
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

/// Corners of a cell as bits, from its four rows of nodes shifted to it.
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
    // For each edge of a cell its row (as in `rows`), its kind, and whether it is at the cell's i or the next.
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
