//! One worker's view of the tetrahedra.

use super::mesh::{may_hold, Bytes, Mesh, TetId, Tetrahedron, CELLS, FIELD, IN_PAGE, NEW, OPEN, PLACES, VECTORS, WALL};
use field::cell::{CellMap, Inverse};
use field::domain::{Boundary, Locator, Neighbour, WalkEnd};
use field::locator::{Blank, Loaded, LANES};
use field::nodes::Miss;
use field::reference_cell::ReferenceCell;
use field::shape::{CellPoint, Face};
use field::simd::V4;
use pager::{Lookup, PageError, PageId, Worker};
use std::sync::Arc;

/// The source of pages.
pub enum Access {
    Memory(Arc<Bytes>),
    Pager(Worker),
}

/// Vertices, cells beyond the faces, and their turns.
#[derive(Copy, Clone)]
struct Record {
    vertices: [u32; 4],
    beyond: [u32; 4],
    turns: [u32; 4],
}

/// Most hops of a walk.
const HOPS: usize = 64;

pub struct TetLocator {
    pub mesh: Arc<Mesh>,
    pub access: Access,
    lane: usize,
    /// The last cell of each lane, and its record.
    kept: [(Loaded<TetId>, Record); LANES],
    missing: Vec<PageId>,
    failure: Option<PageError>,
}

impl TetLocator {
    pub fn new(mesh: Arc<Mesh>, access: Access) -> Self {
        let none = Record { vertices: [0; 4], beyond: [OPEN; 4], turns: [0; 4] };
        let kept = core::array::from_fn(|_| (Loaded::empty(), none));
        Self { mesh, access, lane: 0, kept, missing: Vec::new(), failure: None }
    }

    /// A record, in words of eight bytes.
    fn words<const N: usize>(&mut self, array: usize, record: u32) -> Result<[[u8; 8]; N], Miss> {
        let (page, within) = (u64::from(record) / IN_PAGE as u64, record as usize % IN_PAGE);
        let of = |bytes: &[u8]| core::array::from_fn(|n| bytes[8 * (within * N + n)..][..8].try_into().unwrap());
        match &self.access {
            Access::Memory(bytes) => Ok(of(&bytes[array][page as usize])),
            Access::Pager(worker) => {
                let id = PageId::new(self.mesh.arrays.expect("paged")[array], 0, page);
                match worker.page(id) {
                    Lookup::Here(bytes) => Ok(of(bytes)),
                    Lookup::Absent => {
                        self.missing.push(id);
                        Err(Miss::Absent)
                    }
                    Lookup::Failed(e) => {
                        self.failure = Some(e);
                        Err(Miss::Failed)
                    }
                }
            }
        }
    }

    fn record(&mut self, cell: TetId) -> Result<Record, Miss> {
        let words = self.words::<6>(CELLS, cell.0)?;
        let half = |n: usize| u32::from_ne_bytes(words.as_flattened()[4 * n..][..4].try_into().unwrap());
        let four = |first: usize| core::array::from_fn(|n| half(first + n));
        Ok(Record { vertices: four(0), beyond: four(4), turns: four(8) })
    }

    /// Values at the corners of the parallelepiped of the cell's edges. All absent pages are listed.
    fn corners<const N: usize>(&mut self, array: usize, vertices: [u32; 4]) -> Result<[[f64; N]; 8], Miss> {
        let found = vertices.map(|v| self.words::<N>(array, v).map(|w| w.map(f64::from_ne_bytes)));
        let errors: Vec<Miss> = found.iter().filter_map(|f| f.err()).collect();
        if !errors.is_empty() {
            return Err(Miss::worst([errors.iter().find(|e| **e == Miss::Failed).copied(), None, None]));
        }
        let [o, a, b, c] = found.map(|f| f.unwrap_or([0.0; N]));
        let part = |corner: usize, bit: usize, d: f64| if corner >> bit & 1 == 1 { d } else { 0.0 };
        Ok(core::array::from_fn(|k| {
            core::array::from_fn(|n| o[n] + part(k, 0, a[n] - o[n]) + part(k, 1, b[n] - o[n]) + part(k, 2, c[n] - o[n]))
        }))
    }

    fn map_of(&mut self, vertices: [u32; 4]) -> Result<CellMap, Miss> {
        Ok(CellMap::new(&self.corners::<3>(PLACES, vertices)?.map(V4::from_xyz)))
    }
}

impl Locator for TetLocator {
    type Cell = TetId;
    type Shape = Tetrahedron;
    type Domains = Mesh;

    fn domains(&self) -> &Mesh {
        &self.mesh
    }
    fn take_turn(&mut self, lane: usize) {
        self.lane = lane % LANES;
    }
    /// The first of the cells that contain the point.
    fn find(&mut self, _: usize, p: V4) -> Result<Option<CellPoint<TetId>>, Miss> {
        let (mut found, mut miss) = (None, None);
        let mesh = self.mesh.clone();
        let pages = (0..mesh.boxes.len()).filter(|page| may_hold(&mesh.boxes[*page], p.xyz()));
        for cell in pages.flat_map(|page| page * IN_PAGE..((page + 1) * IN_PAGE).min(mesh.count as usize)) {
            let cell = TetId(cell as u32);
            let map = self.record(cell).and_then(|r| self.map_of(r.vertices));
            match map.map(|map| map.invert(p, [0.25; 3])) {
                Ok(Inverse::At(rst)) if Tetrahedron::holds([false; 3], rst) => {
                    found = found.or(Some(CellPoint { cell, rst }));
                }
                Ok(_) => {}
                Err(m) => miss = Some(Miss::worst([miss, Some(m), None])),
            }
        }
        miss.map_or(Ok(found), Err)
    }
    fn walk(&mut self, from: &CellPoint<TetId>, p: V4) -> Result<WalkEnd<TetId>, Miss> {
        let mut cell = from.cell;
        for _ in 0..HOPS {
            let record = self.record(cell)?;
            let Inverse::At(rst) = self.map_of(record.vertices)?.invert(p, [0.25; 3]) else { break };
            if Tetrahedron::holds([false; 3], rst) {
                return Ok(WalkEnd::Found(CellPoint { cell, rst }));
            }
            let far = |face: u32| {
                (Tetrahedron::height(face, rst) - Tetrahedron::level(face)) * if face == 3 { 1.0 } else { -1.0 }
            };
            let face = (0..4).max_by(|a, b| far(*a).total_cmp(&far(*b))).unwrap_or(0);
            match record.beyond[face as usize] {
                OPEN | WALL => return Ok(WalkEnd::Edge(CellPoint { cell, rst })),
                next => cell = TetId(next),
            }
        }
        Ok(WalkEnd::Lost { blank: false })
    }
    fn blank(&mut self, _: TetId) -> Result<Blank, Miss> {
        Ok(Blank::Field)
    }
    fn geometry(&mut self, cell: TetId) -> Result<&Loaded<TetId>, Miss> {
        self.cell(cell)
    }
    fn cell(&mut self, cell: TetId) -> Result<&Loaded<TetId>, Miss> {
        let lane = self.lane;
        if self.kept[lane].0.cell != cell {
            let record = self.record(cell)?;
            let places = self.corners::<3>(PLACES, record.vertices);
            let vectors = self.corners::<3>(VECTORS, record.vertices);
            let values = self.corners::<1>(FIELD, record.vertices);
            let (Ok(places), Ok(vectors), Ok(values)) = (places, vectors, values) else {
                return Err(Miss::worst([places.err(), vectors.err(), values.err()]));
            };
            let (loaded, of) = &mut self.kept[lane];
            loaded.take(cell, &places.map(V4::from_xyz), &vectors.map(V4::from_xyz));
            loaded.sampled = vec![values.map(|[value]| value)];
            *of = record;
        }
        Ok(&self.kept[lane].0)
    }
    fn kept(&self, lane: usize, _: TetId) -> &Loaded<TetId> {
        &self.kept[lane % LANES].0
    }
    fn volume(&mut self, cell: TetId) -> Result<f64, Miss> {
        Ok(self.cell(cell)?.map().volume().abs() / 6.0)
    }
    /// The shortest edge from vertex 0.
    fn length(&mut self, cell: TetId) -> Result<f64, Miss> {
        let j = self.cell(cell)?.map().jacobian([0.0; 3]);
        let edge = |a: usize| (0..3).map(|c| j[c][a] * j[c][a]).sum::<f64>().sqrt();
        Ok((0..3).map(edge).fold(f64::INFINITY, f64::min))
    }
    fn beyond(&self, face: Face<TetId>, on: &CellPoint<TetId>) -> Neighbour<TetId> {
        let (loaded, record) = &self.kept[self.lane];
        assert_eq!(loaded.cell, face.cell, "the turn's last cell was the face's");
        let cell = match record.beyond[face.number as usize] {
            OPEN => return Neighbour::Boundary(Boundary::Open),
            WALL => return Neighbour::Boundary(Boundary::Wall),
            cell => TetId(cell),
        };
        let [r, s, t] = on.rst;
        let own = [1.0 - r - s - t, r, s, t];
        let turns = record.turns[face.number as usize];
        let weight = |vertex: usize| match turns >> (4 * vertex) & 15 {
            NEW => 0.0,
            known => own[known as usize],
        };
        Neighbour::Cell(CellPoint { cell, rst: [weight(1), weight(2), weight(3)] })
    }
    /// Two tetrahedra share one face at most.
    fn leads_back(&self, entered: Face<TetId>, over: Face<TetId>) -> bool {
        let (loaded, record) = &self.kept[self.lane];
        loaded.cell == over.cell && record.beyond[over.number as usize] == entered.cell.0
    }
    fn is_wall(&mut self, face: Face<TetId>) -> Result<bool, Miss> {
        Ok(self.record(face.cell)?.beyond[face.number as usize] == WALL)
    }
    fn missing(&mut self) -> &mut Vec<PageId> {
        &mut self.missing
    }
    fn failure(&mut self) -> Option<PageError> {
        self.failure.take()
    }
}
