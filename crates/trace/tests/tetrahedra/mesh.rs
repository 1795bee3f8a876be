//! Tetrahedra in pages: a box of cubes, each cut in six, in an order along no axis, and the part of the mesh known
//! without pages.

use super::pages::TestMap;
use field::cell::{Rst, FACE_TOLERANCE};
use field::curve::morton_key;
use field::domain::Domains;
use field::reference_cell::{ReferenceCell, LEAST_GAP};
use field::shape::{CellPoint, DomainCell};
use field::simd::V4;
use pager::source::simulated::{Simulated, Simulation};
use pager::{ArrayId, PageId, Pager};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Cubes along each axis of the unit box.
const CUBES: usize = 16;
/// Records in a page: cells, or vertices of each array.
pub const IN_PAGE: usize = 64;
/// No cell beyond a face.
pub const OPEN: u32 = u32::MAX;
/// A wall beyond a face: no cell, and no flow through it.
pub const WALL: u32 = u32::MAX - 1;
/// A vertex of the cell beyond that is none of this cell's.
pub const NEW: u32 = 8;

/// The arrays, in the order of [`Mesh::arrays`]: cells (vertices, neighbours, turns), positions, vectors, one field.
pub const CELLS: usize = 0;
pub const PLACES: usize = 1;
pub const VECTORS: usize = 2;
pub const FIELD: usize = 3;
/// Bytes of a record of each array.
const BYTES: [usize; 4] = [48, 24, 24, 8];

/// A tetrahedron.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TetId(pub u32);

impl DomainCell for TetId {
    const NOWHERE: Self = Self(u32::MAX);
    fn domain(self) -> u32 {
        0
    }
    fn numbers(self) -> [u32; 4] {
        [0, self.0, 0, 0]
    }
    fn of_numbers(numbers: [u32; 4]) -> Self {
        Self(numbers[1])
    }
}

/// Fractions of at least 0, with a sum of at most 1. Face `a` is where fraction `a` is 0; face 3 is opposite vertex 0.
pub struct Tetrahedron;

impl ReferenceCell for Tetrahedron {
    const FACES: u32 = 4;
    const IS_CUBE: bool = false;

    fn holds(_: [bool; 3], q: Rst) -> bool {
        q.iter().all(|c| *c >= -FACE_TOLERANCE) && q.iter().sum::<f64>() <= 1.0 + FACE_TOLERANCE
    }
    fn onto(q: Rst, _: [bool; 3]) -> Rst {
        let q = q.map(|c| c.max(0.0));
        let sum: f64 = q.iter().sum();
        q.map(|c| if sum > 1.0 { c / sum } else { c })
    }
    fn onto_face(mut q: Rst, face: u32) -> Rst {
        match q.get_mut(face as usize) {
            Some(c) => *c = 0.0,
            None => {
                let sum: f64 = q.iter().sum();
                q = q.map(|c| c / sum);
            }
        }
        q
    }
    fn height(face: u32, q: Rst) -> f64 {
        q.get(face as usize).copied().unwrap_or(q[0] + q[1] + q[2])
    }
    fn level(face: u32) -> f64 {
        f64::from(u8::from(face == 3))
    }
    fn is_upper(face: u32) -> bool {
        face == 3
    }
    fn is_thin(_: u32, _: [bool; 3]) -> bool {
        false
    }
    fn time_to_face(q: Rst, rate: V4) -> f64 {
        let time = |face: u32| {
            let (gap, speed) = (Self::level(face) - Self::height(face, q), Self::height(face, rate.xyz()));
            let towards = if Self::is_upper(face) { speed > 0.0 } else { speed < 0.0 };
            if towards {
                gap.abs().max(LEAST_GAP) / speed.abs()
            } else {
                f64::INFINITY
            }
        };
        (0..4).map(time).fold(f64::INFINITY, f64::min)
    }
    fn past(face: u32, q: Rst, rate: [f64; 3], far: f64) -> Rst {
        let along = far / Self::height(face, rate).abs();
        core::array::from_fn(|a| q[a] + (rate[a] * along).clamp(-far, far))
    }
}

/// The part of the mesh known without pages.
pub struct Mesh {
    /// Number of cells.
    pub count: u32,
    /// The pager's numbers for the arrays; `None` for arrays in memory.
    pub arrays: Option<[ArrayId; 4]>,
    /// The box of the cells in each page.
    pub boxes: Vec<[[f64; 3]; 2]>,
    /// Pages of vertices of the cells in each page.
    vertex_pages: Vec<BTreeSet<u64>>,
}

/// The pages of the arrays, as they lie in a source or in memory.
pub type Bytes = [Vec<Vec<u8>>; 4];

/// Whether a point may lie in a box.
pub fn may_hold([low, high]: &[[f64; 3]; 2], x: [f64; 3]) -> bool {
    (0..3).all(|a| low[a] - FACE_TOLERANCE <= x[a] && x[a] <= high[a] + FACE_TOLERANCE)
}

impl Mesh {
    /// The mesh of the unit box, with a vector and a field as functions of the position. The bottom is a wall.
    pub fn new(vector: impl Fn([f64; 3]) -> [f64; 3], field: impl Fn([f64; 3]) -> f64) -> (Self, Bytes) {
        let n = CUBES + 1;
        let vertex = |ijk: [usize; 3]| ((ijk[2] * n + ijk[1]) * n + ijk[0]) as u32;
        let places: Vec<[f64; 3]> = (0..n * n * n)
            .map(|v| {
                let ijk = [v % n, v / n % n, v / n / n];
                // Inner vertices are moved, so that no two cells are alike.
                core::array::from_fn(|a| {
                    let inner = (1..CUBES).contains(&ijk[a]);
                    let shift = ((v * (3 * a + 7)) as f64 * 0.618_034).fract() - 0.5;
                    (ijk[a] as f64 + if inner { 0.2 * shift } else { 0.0 }) / CUBES as f64
                })
            })
            .collect();
        let mut cubes: Vec<[usize; 3]> =
            (0..CUBES * CUBES * CUBES).map(|c| [c % CUBES, c / CUBES % CUBES, c / CUBES / CUBES]).collect();
        cubes.sort_by_key(|c| morton_key(0, c.map(|i| i as u64)));
        // Kuhn's: along the axes in each order from the low corner to the high one.
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let cut = |cube: [usize; 3], order: [usize; 3]| {
            let mut at = cube;
            let mut corners = [vertex(at); 4];
            for (corner, axis) in corners[1..].iter_mut().zip(order) {
                at[axis] += 1;
                *corner = vertex(at);
            }
            corners
        };
        let cells: Vec<[u32; 4]> = cubes.iter().flat_map(|c| orders.iter().map(|o| cut(*c, *o))).collect();
        let across = |cell: &[u32; 4], face: usize| {
            let opposite = (face + 1) % 4;
            let mut rest: Vec<u32> = (0..4).filter(|v| *v != opposite).map(|v| cell[v]).collect();
            rest.sort_unstable();
            rest
        };
        let mut of_face: BTreeMap<Vec<u32>, Vec<u32>> = BTreeMap::new();
        for (number, cell) in cells.iter().enumerate() {
            (0..4).for_each(|face| of_face.entry(across(cell, face)).or_default().push(number as u32));
        }
        let mut records: [Vec<u8>; 4] = Default::default();
        for (number, cell) in cells.iter().enumerate() {
            let (mut beyond, mut turns) = ([0; 4], [0; 4]);
            for face in 0..4 {
                let shared = across(cell, face);
                let other = of_face[&shared].iter().find(|other| **other != number as u32);
                let at_bottom = shared.iter().all(|v| places[*v as usize][2] == 0.0);
                beyond[face] = other.copied().unwrap_or(if at_bottom { WALL } else { OPEN });
                // Four bits for each vertex of the cell beyond: its number in this cell.
                for (m, v) in other.map_or([0; 4], |other| cells[*other as usize]).iter().enumerate() {
                    let known = cell.iter().position(|own| own == v);
                    turns[face] |= known.map_or(NEW, |own| own as u32) << (4 * m);
                }
            }
            records[CELLS].extend(cell.iter().chain(&beyond).chain(&turns).flat_map(|n| n.to_ne_bytes()));
        }
        for x in &places {
            records[PLACES].extend(x.iter().flat_map(|c| c.to_ne_bytes()));
            records[VECTORS].extend(vector(*x).iter().flat_map(|c| c.to_ne_bytes()));
            records[FIELD].extend(field(*x).to_ne_bytes());
        }
        let pages = |array: usize| {
            let size = IN_PAGE * BYTES[array];
            let whole = |part: &[u8]| [part, &vec![0; size - part.len()]].concat();
            records[array].chunks(size).map(whole).collect()
        };
        let (mut boxes, mut vertex_pages) = (Vec::new(), Vec::new());
        for page in cells.chunks(IN_PAGE) {
            let of = |a: usize| page.as_flattened().iter().map(move |v| a + 3 * *v as usize);
            let value = |n: usize| places.as_flattened()[n];
            let low = core::array::from_fn(|a| of(a).map(value).fold(f64::INFINITY, f64::min));
            let high = core::array::from_fn(|a| of(a).map(value).fold(f64::NEG_INFINITY, f64::max));
            boxes.push([low, high]);
            vertex_pages.push(page.as_flattened().iter().map(|v| u64::from(*v) / IN_PAGE as u64).collect());
        }
        let mesh = Self { count: cells.len() as u32, arrays: None, boxes, vertex_pages };
        (mesh, core::array::from_fn(pages))
    }

    /// The same mesh with its pages in a simulated source.
    pub fn paged(self, bytes: &Bytes, pager: &Arc<Pager>, simulation: Simulation) -> Self {
        let mut all = Vec::new();
        let firsts = core::array::from_fn::<u64, 4, _>(|array| {
            let first = all.len() as u64;
            for page in &bytes[array] {
                all.extend_from_slice(page);
                all.extend_from_slice(&crc32c::crc32c(page).to_le_bytes());
            }
            first
        });
        let source = pager.add_source(Arc::new(Simulated::new(all, simulation).unwrap()));
        let add = |array: usize| {
            let (name, pages) = (format!("array{array}"), bytes[array].len() as u64);
            pager.add_array(Arc::new(TestMap {
                name,
                source,
                first: firsts[array],
                pages,
                bytes: IN_PAGE * BYTES[array],
            }))
        };
        Self { arrays: Some(core::array::from_fn(add)), ..self }
    }

    /// Bytes of the frames of a page of each array; 0 for arrays in memory.
    fn frames(&self, pager: &Pager) -> [u64; 4] {
        self.arrays.map_or([0; 4], |arrays| {
            arrays.map(|a| (pager.map(a).page_bytes(PageId::new(a, 0, 0)) as u64).next_multiple_of(4096))
        })
    }
}

impl Domains for Mesh {
    type Cell = TetId;
    type Fields = ();

    fn count(&self) -> usize {
        1
    }
    fn cells(&self, _: usize) -> u64 {
        u64::from(self.count)
    }
    /// The first number is the cell and the first fraction; the others are the other fractions.
    fn spot(&self, _: u32, index: [f64; 3]) -> CellPoint<TetId> {
        let cell = (index[0].floor().max(0.0) as u32).min(self.count - 1);
        CellPoint { cell: TetId(cell), rst: [index[0] - f64::from(cell), index[1], index[2]] }
    }
    /// Even over the cell: the lengths of the pieces into which three cuts divide a unit.
    fn index_in(&self, _: usize, n: u64, draw: &mut dyn FnMut() -> f64) -> [f64; 3] {
        let mut cuts = [draw(), draw(), draw()];
        cuts.sort_by(f64::total_cmp);
        [n as f64 + cuts[0], cuts[1] - cuts[0], cuts[2] - cuts[1]]
    }
    fn pages_of(&self, cell: TetId, mut page: impl FnMut(u64)) {
        page(u64::from(cell.0) / IN_PAGE as u64);
    }
    fn curve_key(&self, cell: TetId) -> u64 {
        let (page, within) = (u64::from(cell.0) / IN_PAGE as u64, u64::from(cell.0) % IN_PAGE as u64);
        page << 12 | within << 6
    }
    fn step_bytes(&self, _: &[()], pager: &Pager, _: usize) -> u64 {
        let [cells, places, vectors, field] = self.frames(pager);
        cells + 4 * (places + vectors + field)
    }
    fn neighbour_bytes(&self, _: &Pager) -> u64 {
        0
    }
    /// A search tests the cells of all pages whose boxes contain the point: at most those whose boxes meet one of them.
    fn closure_bytes(&self, fields: &[()], pager: &Pager, steps: usize) -> u64 {
        let [cells, places, ..] = self.frames(pager);
        let meet = |a: &[[f64; 3]; 2], b: &[[f64; 3]; 2]| (0..3).all(|c| a[0][c] <= b[1][c] && b[0][c] <= a[1][c]);
        let search = |page: &[[f64; 3]; 2]| {
            let met: Vec<usize> = (0..self.boxes.len()).filter(|n| meet(page, &self.boxes[*n])).collect();
            let vertices: BTreeSet<u64> = met.iter().flat_map(|n| self.vertex_pages[*n].iter().copied()).collect();
            met.len() as u64 * cells + vertices.len() as u64 * places
        };
        self.boxes.iter().map(search).max().unwrap_or(0) + self.step_bytes(fields, pager, steps)
    }
}
