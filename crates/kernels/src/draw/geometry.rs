//! Drawable geometry: polylines, triangle meshes, quad grids and points, in borrowed pieces.
//!
//! A [`Geometry`] is *streamed*: the renderer requests it again for every band of the picture. So it may be larger than
//! memory and read each time. It gets the wanted boxes, so that a paged source reads only the pages of a band.

use glam::DVec3;

/// Error of a geometry source, as its owner made it.
pub type GeometryError = Box<dyn std::error::Error + Send + Sync>;

/// An axis-aligned box in physical space.
///
/// An empty box has `min > max` in every axis, as [`Aabb::EMPTY`].
///
/// ```
/// use glam::DVec3;
/// use kernels::draw::Aabb;
/// let b = Aabb::of([DVec3::ZERO, DVec3::new(1.0, 2.0, 3.0)]);
/// assert_eq!(b.extent(), DVec3::new(1.0, 2.0, 3.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aabb {
    /// Lowest corner.
    pub min: DVec3,
    /// Highest corner.
    pub max: DVec3,
}

impl Aabb {
    /// The box that holds nothing.
    pub const EMPTY: Aabb = Aabb { min: DVec3::INFINITY, max: DVec3::NEG_INFINITY };

    /// The box of the drawable points among `points`.
    pub fn of(points: impl IntoIterator<Item = DVec3>) -> Aabb {
        let mut all = Aabb::EMPTY;
        for p in points {
            all.include(p);
        }
        all
    }

    /// Extends the box to `p`. An undrawable point (not finite, or beyond [`super::MAX_COORDINATE`]) is ignored: one
    /// wild number must not shrink the rest to a dot.
    pub fn include(&mut self, p: DVec3) {
        if p.abs().cmple(DVec3::splat(super::MAX_COORDINATE)).all() {
            self.min = self.min.min(p);
            self.max = self.max.max(p);
        }
    }

    /// The smallest box that holds both.
    pub fn union(&self, other: &Aabb) -> Aabb {
        Aabb { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// Whether the box holds no point.
    pub fn is_empty(&self) -> bool {
        !(self.min.x <= self.max.x && self.min.y <= self.max.y && self.min.z <= self.max.z)
    }

    /// Edge lengths, zero for an empty box.
    pub fn extent(&self) -> DVec3 {
        if self.is_empty() {
            DVec3::ZERO
        } else {
            self.max - self.min
        }
    }

    /// Middle of the box, the origin for an empty one.
    pub fn center(&self) -> DVec3 {
        if self.is_empty() {
            DVec3::ZERO
        } else {
            self.min * 0.5 + self.max * 0.5
        }
    }

    /// The eight corners; the bits of the index choose `max` in x, y, z.
    pub fn corners(&self) -> [DVec3; 8] {
        std::array::from_fn(|c| {
            DVec3::new(
                if c & 1 == 0 { self.min.x } else { self.max.x },
                if c & 2 == 0 { self.min.y } else { self.max.y },
                if c & 4 == 0 { self.min.z } else { self.max.z },
            )
        })
    }
}

/// Borrowed positions, `(n, 3)`, in either width.
#[derive(Clone, Copy, Debug)]
pub enum Positions<'a> {
    /// Single precision.
    F32(&'a [[f32; 3]]),
    /// Double precision.
    F64(&'a [[f64; 3]]),
}

impl Positions<'_> {
    /// Number of positions.
    pub fn len(&self) -> usize {
        match self {
            Positions::F32(p) => p.len(),
            Positions::F64(p) => p.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Position `i`. Past the end a position of NaNs, which the kernels skip and count.
    #[inline]
    pub fn get(&self, i: usize) -> DVec3 {
        let p = match self {
            Positions::F32(p) => p.get(i).map(|p| p.map(f64::from)),
            Positions::F64(p) => p.get(i).copied(),
        };
        p.map_or(DVec3::NAN, DVec3::from_array)
    }
}

/// A polyline, or a piece of one.
#[derive(Clone, Copy, Debug)]
pub struct Polyline<'a> {
    /// Vertices.
    pub points: Positions<'a>,
    /// One value a vertex, mapped to colour by the layer's style.
    pub scalars: Option<&'a [f32]>,
    /// One radius a vertex in physical units; replaces the style's radius.
    pub radii: Option<&'a [f32]>,
    /// The vertex before the first, for a piece of a longer line. It bends the shading and is not drawn.
    pub before: Option<DVec3>,
    /// The vertex after the last, likewise. Consecutive pieces share one vertex.
    pub after: Option<DVec3>,
}

/// An indexed triangle mesh, or a piece of one.
#[derive(Clone, Copy, Debug)]
pub struct Mesh<'a> {
    /// Vertices.
    pub points: Positions<'a>,
    /// Unit normals, one a vertex. Without them each triangle is flat.
    pub normals: Option<&'a [[f32; 3]]>,
    /// One value a vertex.
    pub scalars: Option<&'a [f32]>,
    /// Triangles as indices into `points`. A triangle with an index out of range is skipped.
    pub triangles: &'a [[u32; 3]],
}

/// A structured surface of `size[0] x size[1]` points, the first index fastest, or a piece of one.
///
/// Smooth normals are computed from the points. A piece has one layer of its neighbours' points beside its own, so that
/// pieces meet without a crease. `draw` then names the quads to draw.
#[derive(Clone, Copy, Debug)]
pub struct QuadGrid<'a> {
    /// Points along the two directions.
    pub size: [usize; 2],
    /// The points. A point that is not finite is a hole: its quads are skipped and counted.
    pub points: Positions<'a>,
    /// One value a point.
    pub scalars: Option<&'a [f32]>,
    /// Half-open ranges of quads to draw in the two directions; `None` draws all.
    pub draw: Option<[[usize; 2]; 2]>,
}

/// Separate points, drawn as spheres.
#[derive(Clone, Copy, Debug)]
pub struct Spheres<'a> {
    /// Centres.
    pub points: Positions<'a>,
    /// One value a point.
    pub scalars: Option<&'a [f32]>,
    /// One radius a point in physical units; replaces the style's radius.
    pub radii: Option<&'a [f32]>,
}

/// A borrowed piece of geometry.
#[derive(Clone, Copy, Debug)]
pub enum Chunk<'a> {
    /// A polyline or a piece of one.
    Line(Polyline<'a>),
    /// Triangles.
    Mesh(Mesh<'a>),
    /// A structured surface.
    Quads(QuadGrid<'a>),
    /// Separate points.
    Spheres(Spheres<'a>),
}

/// Whether a box is wanted; an argument of [`Geometry::for_each`].
pub type BoxFilter<'w> = &'w dyn Fn(&Aabb) -> bool;

/// Geometry that can be drawn repeatedly.
///
/// Invariant: every call of `for_each` passes the same pieces, whatever `wanted` returns for others, on any thread.
/// Their order and the division of a line or surface into pieces do not change the picture.
pub trait Geometry: Sync {
    /// A box that holds everything, with the radii of single vertices. The style's radius is not needed.
    fn bounds(&self) -> Aabb;

    /// Calls `visit` with every piece whose box is `wanted`. Other pieces may be passed too: they only take time.
    ///
    /// # Errors
    /// Any error that keeps the source from being read. The whole picture then fails: half a source is never drawn.
    fn for_each(&self, wanted: BoxFilter<'_>, visit: &mut dyn FnMut(Chunk<'_>)) -> Result<(), GeometryError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_box_has_no_extent_and_takes_no_nan() {
        let mut b = Aabb::EMPTY;
        assert!(b.is_empty());
        assert_eq!(b.extent(), DVec3::ZERO);
        b.include(DVec3::new(f64::NAN, 0.0, 0.0));
        assert!(b.is_empty());
        b.include(DVec3::ONE);
        assert!(!b.is_empty());
        assert_eq!(b.center(), DVec3::ONE);
    }

    #[test]
    fn positions_past_the_end_are_nan() {
        let p = [[1.0f32, 2.0, 3.0]];
        assert_eq!(Positions::F32(&p).get(0), DVec3::new(1.0, 2.0, 3.0));
        assert!(Positions::F32(&p).get(1).is_nan());
    }
}
