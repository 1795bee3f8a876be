//! Grid surfaces, gathered row by row.

use super::geometry_log::{floats, positions, Arena, Range};
use crate::picture::{Aabb, BoxFilter, Chunk, Geometry, GeometryError, Polyline, Positions, QuadGrid, VisibleSides};
use field::error::FieldError;
use glam::DVec3;
use output::ByteLog;

/// Quads along each side of a tile. Small, so that a band skips most of a large surface.
const TILE: usize = 32;

/// Bytes of a point: position, value, and whether the quad from there is left out.
const POINT_BYTES: usize = 29;

/// A grid surface in an arena: rows of points, then of values, then of quads.
pub(crate) struct FaceStore {
    /// Points along the two directions.
    size: [usize; 2],
    offset: u64,
    /// Boxes of tiles, the first direction fastest.
    tiles: Vec<Aabb>,
    /// Whether the surface closes on itself along each direction. The neighbours beyond the seam are then those of the
    /// other side.
    closed: [bool; 2],
    coloured: bool,
    pub(crate) bounds: Aabb,
    pub(crate) range: Range,
    /// Quads without a hole.
    pub(crate) quads: u64,
    /// Whether quads with all corners present are left out.
    hidden: bool,
    /// The sides that it is seen from.
    pub(crate) seen_from: VisibleSides,
}

/// Builds a surface row by row.
pub(crate) struct FaceBuilder<'a> {
    arena: &'a mut Arena,
    store: FaceStore,
    rows: usize,
    row: Vec<u8>,
    /// Which points of the previous row are usable.
    below: Vec<bool>,
    /// Which quads of the previous row are left out.
    hidden: Vec<bool>,
}

fn tiles(size: [usize; 2]) -> [usize; 2] {
    size.map(|n| n.saturating_sub(1).div_ceil(TILE).max(1))
}

impl<'a> FaceBuilder<'a> {
    /// A surface of `size[0] x size[1]` points.
    pub(crate) fn new(arena: &'a mut Arena, size: [usize; 2], coloured: bool) -> Result<Self, FieldError> {
        let [ti, tj] = tiles(size);
        arena.charge_entry(ti * tj * size_of::<Aabb>() / 2)?;
        // A row, and the validity of the previous one.
        arena.charge_entry(size[0] * (POINT_BYTES + 2) / 2)?;
        let store = FaceStore {
            size,
            offset: arena.log().len(),
            tiles: vec![Aabb::EMPTY; ti * tj],
            closed: [size[0] > 3, false],
            coloured,
            bounds: Aabb::EMPTY,
            range: Range::EMPTY,
            quads: 0,
            hidden: false,
            seen_from: VisibleSides::Both,
        };
        Ok(Self { arena, store, rows: 0, row: Vec::new(), below: Vec::new(), hidden: Vec::new() })
    }

    /// Adds a row. A point that is not `usable` is a hole. A quad with a `hidden` low corner is left out.
    pub(crate) fn push_row(
        &mut self,
        points: &[[f64; 3]],
        value: &dyn Fn(usize) -> f64,
        [usable, hidden]: [&[bool]; 2],
    ) -> Result<(), FieldError> {
        let [ti, tj] = tiles(self.store.size);
        let j = self.rows;
        let at = |i: usize| if usable[i] { points[i] } else { [f64::NAN; 3] };
        self.row.clear();
        for i in 0..points.len() {
            for c in at(i) {
                self.row.extend_from_slice(&c.to_ne_bytes());
            }
        }
        let here: Vec<bool> = (0..points.len()).map(|i| at(i).iter().all(|c| c.is_finite())).collect();
        for (i, drawn) in here.iter().enumerate() {
            let v = if self.store.coloured { value(i) } else { f64::NAN };
            if *drawn {
                self.store.range.include(v);
            }
            self.row.extend_from_slice(&(v as f32).to_ne_bytes());
        }
        self.row.extend(hidden.iter().map(|h| u8::from(*h)));
        self.store.hidden |= hidden.contains(&true);
        self.arena.append(&self.row)?;
        // A point on the edge between tiles belongs to both.
        let own = |n: usize, count: usize| {
            let t = (n / TILE).min(count - 1);
            [if n.is_multiple_of(TILE) && n > 0 && n / TILE == t { t - 1 } else { t }, t]
        };
        for (i, drawn) in here.iter().enumerate() {
            if *drawn {
                let p = DVec3::from_array(points[i]);
                for t in own(j, tj) {
                    for s in own(i, ti) {
                        self.store.tiles[t * ti + s].include(p);
                    }
                }
            }
        }
        if self.below.len() == here.len() {
            let whole =
                |i: &usize| !self.hidden[*i] && here[*i] && here[*i + 1] && self.below[*i] && self.below[*i + 1];
            self.store.quads += (0..here.len().saturating_sub(1)).filter(whole).count() as u64;
        }
        if self.store.closed[0] {
            let last = points.len() - 1;
            self.store.closed[0] = same(points[0], points[last], points[1]) || points.iter().all(|p| *p == points[0]);
        }
        self.below = here;
        self.hidden.clear();
        self.hidden.extend_from_slice(hidden);
        self.rows += 1;
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<FaceStore, FieldError> {
        let [ni, nj] = self.store.size;
        if self.rows != nj {
            return Err(FieldError::Output(format!("a surface of {nj} rows has {} only", self.rows)));
        }
        self.store.bounds = self.store.tiles.iter().fold(Aabb::EMPTY, |a, b| a.union(b));
        if nj > 3 {
            let mut closed = true;
            let mut part = [Vec::new(), Vec::new(), Vec::new()];
            for from in (0..ni).step_by(TILE * TILE) {
                for (rows, j) in part.iter_mut().zip([0, nj - 1, 1]) {
                    rows.clear();
                    self.store
                        .points(self.arena.log(), j, [from, (from + TILE * TILE).min(ni)], rows)
                        .map_err(|e| FieldError::Output(e.to_string()))?;
                }
                let [first, last, near] = &part;
                closed &= first.iter().zip(last).zip(near).all(|((a, b), n)| same(*a, *b, *n));
            }
            self.store.closed[1] = closed;
        }
        Ok(self.store)
    }
}

/// Whether two points coincide, measured by the distance to a neighbour.
fn same(a: [f64; 3], b: [f64; 3], near: [f64; 3]) -> bool {
    let [a, b, near] = [a, b, near].map(DVec3::from_array);
    (a - b).length() <= 1e-5 * (a - near).length()
}

/// Indices of a tile's points along one direction, with a neighbour on each side if there is one, and the range of
/// drawn quads.
fn reach(tile: usize, n: usize, closed: bool) -> (Vec<usize>, [usize; 2]) {
    let (from, to) = (tile * TILE, ((tile + 1) * TILE).min(n - 1));
    let before = if from > 0 { Some(from - 1) } else { closed.then(|| n - 2) };
    let after = if to + 1 < n { Some(to + 1) } else { closed.then_some(1) };
    let lead = usize::from(before.is_some());
    let all = before.into_iter().chain(from..=to).chain(after).collect();
    (all, [lead, lead + to - from])
}

impl FaceStore {
    /// Whether it has an area.
    pub(crate) fn is_area(&self) -> bool {
        self.size.iter().all(|n| *n > 1)
    }

    /// Quads without a hole, or segments of a line without area.
    pub(crate) fn pieces(&self) -> u64 {
        let points = self.size[0].max(self.size[1]) as u64;
        if self.is_area() {
            self.quads
        } else {
            points.saturating_sub(1)
        }
    }

    fn row_at(&self, j: usize) -> u64 {
        self.offset + (j * self.size[0] * POINT_BYTES) as u64
    }

    fn points(
        &self,
        log: &ByteLog,
        j: usize,
        [from, to]: [usize; 2],
        out: &mut Vec<[f64; 3]>,
    ) -> Result<(), GeometryError> {
        let mut bytes = vec![0; (to - from) * 24];
        log.read_at(self.row_at(j) + (from * 24) as u64, &mut bytes)?;
        positions(&bytes, out);
        Ok(())
    }

    fn values(&self, log: &ByteLog, j: usize, [from, to]: [usize; 2], out: &mut Vec<f32>) -> Result<(), GeometryError> {
        let mut bytes = vec![0; (to - from) * 4];
        log.read_at(self.row_at(j) + (self.size[0] * 24 + from * 4) as u64, &mut bytes)?;
        floats(&bytes, out);
        Ok(())
    }

    /// Adds to `out` which quads of a row are left out.
    fn left_out(
        &self,
        log: &ByteLog,
        j: usize,
        [from, to]: [usize; 2],
        out: &mut Vec<u8>,
    ) -> Result<(), GeometryError> {
        let old = out.len();
        out.resize(old + to - from, 0);
        log.read_at(self.row_at(j) + (self.size[0] * 28 + from) as u64, &mut out[old..])?;
        Ok(())
    }

    /// Calls `each` with the place of each wanted tile, and the runs of columns and rows to read.
    fn for_tiles(
        &self,
        wanted: BoxFilter<'_>,
        each: &mut dyn FnMut(usize, usize) -> Result<(), GeometryError>,
    ) -> Result<(), GeometryError> {
        let [ti, tj] = tiles(self.size);
        for t in 0..tj {
            for s in 0..ti {
                let b = &self.tiles[t * ti + s];
                // A tile of holes has no box, but must be counted.
                if b.is_empty() || wanted(b) {
                    each(s, t)?;
                }
            }
        }
        Ok(())
    }
}

/// A surface as geometry for the renderer.
pub(crate) struct FaceLayer<'a> {
    pub(crate) log: &'a ByteLog,
    pub(crate) face: &'a FaceStore,
}

impl Geometry for FaceLayer<'_> {
    fn bounds(&self) -> Aabb {
        self.face.bounds
    }

    fn for_each(&self, wanted: BoxFilter<'_>, visit: &mut dyn FnMut(Chunk<'_>)) -> Result<(), GeometryError> {
        let f = self.face;
        if !f.is_area() {
            return Ok(());
        }
        let (mut points, mut values, mut hidden) = (Vec::new(), Vec::new(), Vec::new());
        f.for_tiles(wanted, &mut |s, t| {
            let (columns, draw_i) = reach(s, f.size[0], f.closed[0]);
            let (rows, draw_j) = reach(t, f.size[1], f.closed[1]);
            points.clear();
            values.clear();
            for j in &rows {
                for run in runs(&columns) {
                    f.points(self.log, *j, run, &mut points)?;
                    if f.coloured {
                        f.values(self.log, *j, run, &mut values)?;
                    }
                }
            }
            let mut draw = |draw| {
                visit(Chunk::Quads(QuadGrid {
                    size: [columns.len(), rows.len()],
                    points: Positions::F64(&points),
                    scalars: f.coloured.then_some(&values[..]),
                    draw: Some(draw),
                }));
            };
            if !f.hidden {
                draw([draw_i, draw_j]);
                return Ok(());
            }
            // The remaining quads of each row.
            for (j, row) in (draw_j[0]..draw_j[1]).zip(&rows[draw_j[0]..draw_j[1]]) {
                hidden.clear();
                f.left_out(self.log, *row, [columns[draw_i[0]], columns[draw_i[1] - 1] + 1], &mut hidden)?;
                let mut i = draw_i[0];
                for run in hidden.chunk_by(|a, b| a == b) {
                    if run[0] == 0 {
                        draw([[i, i + run.len()], [j, j + 1]]);
                    }
                    i += run.len();
                }
            }
            Ok(())
        })
    }
}

/// Half-open ranges of consecutive indices.
fn runs(indices: &[usize]) -> impl Iterator<Item = [usize; 2]> + '_ {
    indices.chunk_by(|a, b| *b == *a + 1).map(|c| [c[0], c[c.len() - 1] + 1])
}

/// The lines of a surface's grid: every `stride`-th, and the edges.
pub(crate) struct MeshLayer<'a> {
    pub(crate) log: &'a ByteLog,
    pub(crate) face: &'a FaceStore,
    stride: [usize; 2],
    /// Length of a pixel in space, once known. Lines too close to be distinguished fade, so that a fine grid does not
    /// become a black spot.
    pub(crate) pixel: Option<f64>,
}

/// Radius of a mesh line in pixels with far neighbours, and its remaining share with near ones.
const MESH_RADIUS: f64 = 0.5;
const FADED: f64 = 0.12;
/// Pixels between lines of full radius.
const APART: f64 = 7.0;

impl<'a> MeshLayer<'a> {
    /// The lines of a surface, at most `most` along either direction.
    pub(crate) fn new(log: &'a ByteLog, face: &'a FaceStore, most: usize) -> Self {
        let stride = face.size.map(|n| n.div_ceil(most.max(1)).max(1));
        Self { log, face, stride, pixel: None }
    }

    /// Radius of a line at `at`. `beside` is the point on its neighbour; the distance counts over one grid step.
    fn radius(&self, at: &[f64; 3], beside: &[f64; 3], stride: usize) -> f32 {
        let Some(pixel) = self.pixel else { return 0.0 };
        let apart = (DVec3::from_array(*at) - DVec3::from_array(*beside)).length() * stride as f64 / pixel;
        (MESH_RADIUS * pixel * (apart / APART).clamp(FADED, 1.0)) as f32
    }
}

impl Geometry for MeshLayer<'_> {
    fn bounds(&self) -> Aabb {
        self.face.bounds
    }

    fn for_each(&self, wanted: BoxFilter<'_>, visit: &mut dyn FnMut(Chunk<'_>)) -> Result<(), GeometryError> {
        let f = self.face;
        let (mut grid, mut hidden) = (Vec::new(), Vec::new());
        f.for_tiles(wanted, &mut |s, t| {
            // The quads of this tile. Lines at its far edges belong to the next tile or to the surface's edge.
            let span = |tile: usize, n: usize| [tile * TILE, ((tile + 1) * TILE).min(n - 1)];
            let [[i0, i1], [j0, j1]] = [span(s, f.size[0]), span(t, f.size[1])];
            grid.clear();
            for j in j0..=j1 {
                f.points(self.log, j, [i0, i1 + 1], &mut grid)?;
            }
            // Left-out quads beside the tile's lines.
            let near = |first: usize, last: usize, n: usize| first.saturating_sub(1)..(last + 1).min(n - 1);
            let (near_i, near_j) = (near(i0, i1, f.size[0]), near(j0, j1, f.size[1]));
            hidden.clear();
            for j in near_j.clone().filter(|_| f.hidden) {
                f.left_out(self.log, j, [near_i.start, near_i.end], &mut hidden)?;
            }
            let is_left_out = |i: Option<usize>, j: Option<usize>| match (i, j) {
                (Some(i), Some(j)) if near_i.contains(&i) && near_j.contains(&j) => {
                    hidden.get((j - near_j.start) * near_i.len() + i - near_i.start).is_some_and(|h| *h != 0)
                }
                _ => true,
            };
            let (wide, high) = (i1 + 1 - i0, j1 + 1 - j0);
            let shown = |n: usize, end: usize, stride: usize, size: usize| {
                n + 1 == size || (n != end && n.is_multiple_of(stride))
            };
            // Straight segments, like the edges of quads: a curved line would leave the surface.
            let mut draw = |a: [usize; 2], b: [usize; 2], across: [usize; 2], stride: usize| {
                let at = |n: [usize; 2]| grid[n[1] * wide + n[0]];
                let beside = |n: [usize; 2]| {
                    let next = [n[0] + across[0], n[1] + across[1]];
                    if next[0] < wide && next[1] < high {
                        at(next)
                    } else {
                        at([n[0].saturating_sub(across[0]), n[1].saturating_sub(across[1])])
                    }
                };
                let radii = [self.radius(&at(a), &beside(a), stride), self.radius(&at(b), &beside(b), stride)];
                let radii = self.pixel.is_some().then_some(&radii[..]);
                visit(Chunk::Line(Polyline {
                    points: Positions::F64(&[at(a), at(b)]),
                    scalars: None,
                    radii,
                    before: None,
                    after: None,
                }));
            };
            for j in (j0..=j1).filter(|j| shown(*j, j1, self.stride[1], f.size[1])) {
                let out = |i: &usize| {
                    is_left_out(Some(i0 + i - 1), Some(j)) && is_left_out(Some(i0 + i - 1), j.checked_sub(1))
                };
                for i in (1..wide).filter(|i| !f.hidden || !out(i)) {
                    draw([i - 1, j - j0], [i, j - j0], [0, 1], self.stride[1]);
                }
            }
            for i in (i0..=i1).filter(|i| shown(*i, i1, self.stride[0], f.size[0])) {
                let out = |j: &usize| {
                    is_left_out(Some(i), Some(j0 + j - 1)) && is_left_out(i.checked_sub(1), Some(j0 + j - 1))
                };
                for j in (1..high).filter(|j| !f.hidden || !out(j)) {
                    draw([i - i0, j - 1], [i - i0, j], [1, 0], self.stride[0]);
                }
            }
            Ok(())
        })
    }
}
