//! What is drawn: polylines, triangle meshes, quad grids and points, handed over in borrowed pieces.
//!
//! A [`Geometry`] is *streamed*: the renderer asks for it again for every band of the picture, so it may be larger than memory and
//! read anew each time. It is told which boxes are wanted, so that a paged source reads only what a band can show.

use glam::DVec3;

/// Error of a geometry source, as its owner made it.
pub type GeometryError = Box<dyn std::error::Error + Send + Sync>;

/// An axis-aligned box in physical space.
///
/// An empty box has `min > max` in every axis; it is what [`Aabb::EMPTY`] holds.
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

    /// The box of the points among `points` that can be drawn.
    pub fn of(points: impl IntoIterator<Item = DVec3>) -> Aabb {
        let mut all = Aabb::EMPTY;
        for p in points {
            all.include(p);
        }
        all
    }

    /// Grows to hold `p`. A point that cannot be drawn (not finite, or beyond [`super::MAX_COORDINATE`]) changes nothing: one wild
    /// number must not shrink the rest to a dot.
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

    /// Whether the box holds no point at all.
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
    /// How many positions there are.
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

    /// Position `i`, or a position of NaNs past the end, which the kernels skip and count.
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
    /// One radius a vertex in physical units; takes the place of the style's radius.
    pub radii: Option<&'a [f32]>,
    /// The vertex before the first, when this is a piece of a longer line: it bends the shading, and is not drawn.
    pub before: Option<DVec3>,
    /// The vertex after the last, likewise. Pieces that follow each other share one vertex.
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
    /// Triangles as indices into `points`. An index out of range makes the triangle a skipped one.
    pub triangles: &'a [[u32; 3]],
}

/// A structured surface of `size[0] x size[1]` points, the first index fastest, or a piece of one.
///
/// Smooth normals are made from the points. A piece brings one layer of its neighbours' points beside what it draws, so that
/// pieces meet without a crease: `draw` then names the quads to draw.
#[derive(Clone, Copy, Debug)]
pub struct QuadGrid<'a> {
    /// Points along the two directions.
    pub size: [usize; 2],
    /// The points. A point that is not finite is a hole: quads that have it are not drawn, and counted.
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
    /// One radius a point in physical units; takes the place of the style's radius.
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

/// Whether a box is wanted; given to [`Geometry::for_each`].
pub type BoxFilter<'w> = &'w dyn Fn(&Aabb) -> bool;

/// Something that can be drawn, as often as the renderer asks.
///
/// Invariant: every call of `for_each` hands over the same pieces, whatever `wanted` says of others and on whatever thread. Their order
/// and how a line or surface is cut into pieces do not change the picture.
pub trait Geometry: Sync {
    /// A box that holds everything, radii of single vertices too; the style's radius need not be counted.
    fn bounds(&self) -> Aabb;

    /// Calls `visit` with every piece whose box is `wanted`. Pieces that are not wanted may be handed over too: they cost time only.
    ///
    /// # Errors
    /// Whatever keeps the source from being read. The picture then fails as a whole: nothing is drawn from half a source.
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
