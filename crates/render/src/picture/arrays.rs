//! Geometry in memory: lines, surfaces and points as arrays.
//!
//! The caller charges the memory, as [`LineSet::bytes`] and its like give it.

use super::{Aabb, BoxFilter, Chunk, Geometry, GeometryError, Mesh, Polyline, Positions, QuadGrid, Spheres};
use kernels::draw::DVec3;

/// Why arrays are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// Offsets do not rise from 0 to the number of points.
    #[error("line {line} would reach from point {from} to {to}, and there are {points} points")]
    BadOffsets {
        /// Number of the line, from 0.
        line: usize,
        /// First point of the line.
        from: u64,
        /// One past its last point.
        to: u64,
        /// Number of points.
        points: usize,
    },
    /// Arrays differ in length.
    #[error("{name} has {found} values where {wanted} belong")]
    BadLength {
        /// Name of the array.
        name: &'static str,
        /// Its length.
        found: usize,
        /// The length that the others require.
        wanted: usize,
    },
}

/// Primitives of one piece. Small, so that a band skips most of a large mesh by its boxes.
const PIECE: usize = 1024;

fn fits(name: &'static str, found: usize, wanted: usize) -> Result<(), ArrayError> {
    if found == wanted {
        Ok(())
    } else {
        Err(ArrayError::BadLength { name, found, wanted })
    }
}

/// Polylines: one array of points, with the offset of each line.
#[derive(Clone, Debug, PartialEq)]
pub struct LineSet {
    points: Vec<[f64; 3]>,
    offsets: Vec<u64>,
    scalars: Option<Vec<f32>>,
    /// First and last point (both included) of each piece, and its line.
    pieces: Vec<(usize, usize, usize)>,
    boxes: Vec<Aabb>,
}

/// Segments of one piece of a line.
const LINE_PIECE: usize = 256;

impl LineSet {
    /// Lines through `points`. Line k is `points[offsets[k]..offsets[k + 1]]`.
    ///
    /// # Errors
    /// [`ArrayError`] when the offsets do not rise within the points.
    pub fn new(points: Vec<[f64; 3]>, offsets: Vec<u64>) -> Result<LineSet, ArrayError> {
        let mut pieces = Vec::new();
        for (line, w) in offsets.windows(2).enumerate() {
            let bad = || ArrayError::BadOffsets { line, from: w[0], to: w[1], points: points.len() };
            let from = usize::try_from(w[0]).map_err(|_| bad())?;
            let to = usize::try_from(w[1]).map_err(|_| bad())?;
            if from > to || to > points.len() {
                return Err(bad());
            }
            let mut first = from;
            while first < to {
                let last = (first + LINE_PIECE).min(to - 1);
                pieces.push((line, first, last));
                // Pieces share a point. A line ends with the piece that reaches its last point.
                first = if last + 1 >= to { to } else { last };
            }
        }
        let boxes =
            pieces.iter().map(|(_, a, b)| Aabb::of(points[*a..=*b].iter().map(|p| DVec3::from_array(*p)))).collect();
        Ok(LineSet { points, offsets, scalars: None, pieces, boxes })
    }

    /// Adds a value at each point.
    ///
    /// # Errors
    /// [`ArrayError::BadLength`] when the lengths differ.
    pub fn with_scalars(mut self, scalars: Vec<f32>) -> Result<LineSet, ArrayError> {
        fits("scalars", scalars.len(), self.points.len())?;
        self.scalars = Some(scalars);
        Ok(self)
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        (self.points.len() * 24
            + self.offsets.len() * 8
            + self.scalars.as_ref().map_or(0, Vec::len) * 4
            + self.pieces.len() * 72) as u64
    }
}

impl Geometry for LineSet {
    fn bounds(&self) -> Aabb {
        self.boxes.iter().fold(Aabb::EMPTY, |a, b| a.union(b))
    }

    fn for_each(&self, wanted: BoxFilter<'_>, visit: &mut dyn FnMut(Chunk<'_>)) -> Result<(), GeometryError> {
        for ((line, a, b), bounds) in self.pieces.iter().zip(&self.boxes) {
            // A piece without finite points has no box, but its points must be counted.
            if !bounds.is_empty() && !wanted(bounds) {
                continue;
            }
            let (first, end) = (self.offsets[*line] as usize, self.offsets[*line + 1] as usize);
            let point = |i: usize| DVec3::from_array(self.points[i]);
            visit(Chunk::Line(Polyline {
                points: Positions::F64(&self.points[*a..=*b]),
                scalars: self.scalars.as_ref().map(|s| &s[*a..=*b]),
                radii: None,
                before: (*a > first).then(|| point(*a - 1)),
                after: (*b + 1 < end).then(|| point(*b + 1)),
            }));
        }
        Ok(())
    }
}

/// Separate points.
#[derive(Clone, Debug, PartialEq)]
pub struct PointSet {
    points: Vec<[f64; 3]>,
    scalars: Option<Vec<f32>>,
    radii: Option<Vec<f32>>,
    bounds: Aabb,
}

impl PointSet {
    /// Points without values.
    pub fn new(points: Vec<[f64; 3]>) -> PointSet {
        let bounds = Aabb::of(points.iter().map(|p| DVec3::from_array(*p)));
        PointSet { points, scalars: None, radii: None, bounds }
    }

    /// Adds a value at each point.
    ///
    /// # Errors
    /// [`ArrayError::BadLength`] when the lengths differ.
    pub fn with_scalars(mut self, scalars: Vec<f32>) -> Result<PointSet, ArrayError> {
        fits("scalars", scalars.len(), self.points.len())?;
        self.scalars = Some(scalars);
        Ok(self)
    }

    /// Adds a radius at each point, in the units of the data.
    ///
    /// # Errors
    /// [`ArrayError::BadLength`] when the lengths differ.
    pub fn with_radii(mut self, radii: Vec<f32>) -> Result<PointSet, ArrayError> {
        fits("radii", radii.len(), self.points.len())?;
        self.radii = Some(radii);
        let radius = |i: usize| self.radii.as_ref().map_or(0.0, |r| f64::from(r[i].max(0.0)));
        let reach = self.points.iter().enumerate().map(|(i, p)| (DVec3::from_array(*p), DVec3::splat(radius(i))));
        self.bounds = Aabb::of(reach.flat_map(|(p, r)| [p - r, p + r]));
        Ok(self)
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        (self.points.len() * 24
            + (self.scalars.as_ref().map_or(0, Vec::len) + self.radii.as_ref().map_or(0, Vec::len)) * 4) as u64
    }
}

impl Geometry for PointSet {
    fn bounds(&self) -> Aabb {
        self.bounds
    }

    fn for_each(&self, _wanted: BoxFilter<'_>, visit: &mut dyn FnMut(Chunk<'_>)) -> Result<(), GeometryError> {
        visit(Chunk::Spheres(Spheres {
            points: Positions::F64(&self.points),
            scalars: self.scalars.as_deref(),
            radii: self.radii.as_deref(),
        }));
        Ok(())
    }
}

/// A mesh of triangles.
#[derive(Clone, Debug, PartialEq)]
pub struct TriangleSet {
    points: Vec<[f32; 3]>,
    normals: Option<Vec<[f32; 3]>>,
    scalars: Option<Vec<f32>>,
    triangles: Vec<[u32; 3]>,
    boxes: Vec<Aabb>,
}

impl TriangleSet {
    /// Triangles as indices of points. An index out of range is skipped and counted when it is drawn.
    pub fn new(points: Vec<[f32; 3]>, triangles: Vec<[u32; 3]>) -> TriangleSet {
        let point = |i: u32| points.get(i as usize).map_or(DVec3::NAN, |p| DVec3::from_array(p.map(f64::from)));
        let boxes = triangles.chunks(PIECE).map(|c| Aabb::of(c.iter().flatten().map(|i| point(*i)))).collect();
        TriangleSet { points, normals: None, scalars: None, triangles, boxes }
    }

    /// Adds a unit normal at each point. Without normals the triangles are flat.
    ///
    /// # Errors
    /// [`ArrayError::BadLength`] when the lengths differ.
    pub fn with_normals(mut self, normals: Vec<[f32; 3]>) -> Result<TriangleSet, ArrayError> {
        fits("normals", normals.len(), self.points.len())?;
        self.normals = Some(normals);
        Ok(self)
    }

    /// Adds a value at each point.
    ///
    /// # Errors
    /// [`ArrayError::BadLength`] when the lengths differ.
    pub fn with_scalars(mut self, scalars: Vec<f32>) -> Result<TriangleSet, ArrayError> {
        fits("scalars", scalars.len(), self.points.len())?;
        self.scalars = Some(scalars);
        Ok(self)
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        let per_point = 12 + if self.normals.is_some() { 12 } else { 0 } + if self.scalars.is_some() { 4 } else { 0 };
        (self.points.len() * per_point + self.triangles.len() * 12 + self.boxes.len() * 48) as u64
    }
}

impl Geometry for TriangleSet {
    fn bounds(&self) -> Aabb {
        self.boxes.iter().fold(Aabb::EMPTY, |a, b| a.union(b))
    }

    fn for_each(&self, wanted: BoxFilter<'_>, visit: &mut dyn FnMut(Chunk<'_>)) -> Result<(), GeometryError> {
        for (triangles, bounds) in self.triangles.chunks(PIECE).zip(&self.boxes) {
            if bounds.is_empty() || wanted(bounds) {
                visit(Chunk::Mesh(Mesh {
                    points: Positions::F32(&self.points),
                    normals: self.normals.as_deref(),
                    scalars: self.scalars.as_deref(),
                    triangles,
                }));
            }
        }
        Ok(())
    }
}

/// A structured surface of `size[0] x size[1]` points, the first index fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct SurfaceGrid {
    size: [usize; 2],
    points: Vec<[f32; 3]>,
    scalars: Option<Vec<f32>>,
    bounds: Aabb,
}

impl SurfaceGrid {
    /// A surface through points. Points that are not finite are holes.
    ///
    /// # Errors
    /// [`ArrayError::BadLength`] when there are not `size[0] * size[1]` points.
    pub fn new(size: [usize; 2], points: Vec<[f32; 3]>) -> Result<SurfaceGrid, ArrayError> {
        fits("points", points.len(), size[0].saturating_mul(size[1]))?;
        let bounds = Aabb::of(points.iter().map(|p| DVec3::from_array(p.map(f64::from))));
        Ok(SurfaceGrid { size, points, scalars: None, bounds })
    }

    /// Adds a value at each point.
    ///
    /// # Errors
    /// [`ArrayError::BadLength`] when the lengths differ.
    pub fn with_scalars(mut self, scalars: Vec<f32>) -> Result<SurfaceGrid, ArrayError> {
        fits("scalars", scalars.len(), self.points.len())?;
        self.scalars = Some(scalars);
        Ok(self)
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        (self.points.len() * 12 + self.scalars.as_ref().map_or(0, Vec::len) * 4) as u64
    }
}

impl Geometry for SurfaceGrid {
    fn bounds(&self) -> Aabb {
        self.bounds
    }

    fn for_each(&self, wanted: BoxFilter<'_>, visit: &mut dyn FnMut(Chunk<'_>)) -> Result<(), GeometryError> {
        if self.bounds.is_empty() || wanted(&self.bounds) {
            let scalars = self.scalars.as_deref();
            visit(Chunk::Quads(QuadGrid {
                size: self.size,
                points: Positions::F32(&self.points),
                scalars,
                draw: None,
            }));
        }
        Ok(())
    }
}
