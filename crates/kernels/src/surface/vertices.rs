//! Positions, normals and fields of vertices.
//!
//! # Theory
//! A vertex divides its edge as the level divides the values at its ends, counted from the inner end. If two zones
//! count the edge in different directions, equal numbers at its ends still give the same vertex to the last bit.
//! Normals are minus the gradient, so they face lower values as the triangles do. The gradient of each end in space
//! ([`field::derive::stencil`]) is interpolated as the position is.

use super::edge::{Edge, NODE};
use super::flying_edges::BlockMesh;
use super::node_values::NodeSet;
use field::derive::stencil::{choose, metrics};
use field::plot3d::iblank::{bits, EDGE};
use field::volume::Placement;

/// Smallest distance of a vertex of an isosurface from an end of its edge, in lengths of the edge. So vertices of
/// different edges never coincide, no triangle is without an area, and the surface is a manifold also where nodes equal
/// the level. There it may have a thin fold, with an error of this size. In single precision two numbers below 8192 at
/// this distance differ.
pub const LEAST: f64 = 1.0 / 2048.0;

/// A plane in space.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Plane {
    /// A point on it.
    pub origin: [f64; 3],
    /// Its normal, of length 1.
    pub normal: [f64; 3],
    /// Relative precision of the coordinates, within which a node is on the plane. Otherwise vertices next to such a
    /// node would coincide when they are written.
    pub tolerance: f64,
}

impl Plane {
    /// Tolerance for coordinates in single and in double precision.
    pub const TOLERANCES: [f64; 2] = [f32::EPSILON as f64, 4.0 * f64::EPSILON];

    /// Distance of a point, positive on the side opposite to the normal. The surface of distance 0 faces lower values
    /// as isosurfaces do, which is along the normal.
    #[inline(always)]
    pub fn depth(&self, x: [f64; 3]) -> f64 {
        let d: [f64; 3] = core::array::from_fn(|a| (self.origin[a] - x[a]) * self.normal[a]);
        let depth = d[0] + d[1] + d[2];
        let terms: [f64; 3] = core::array::from_fn(|a| (self.origin[a].abs() + x[a].abs()) * self.normal[a].abs());
        if depth.abs() <= self.tolerance * (terms[0] + terms[1] + terms[2]) {
            0.0
        } else {
            depth
        }
    }
}

/// Positions of nodes.
#[derive(Copy, Clone, Debug)]
pub enum NodePositions<'a> {
    /// A regular grid.
    Regular(&'a Placement),
    /// Coordinates in the columns from this one on, as many as there are components (a missing third is 0).
    Columns(usize, usize),
}

/// The level of the surface.
#[derive(Copy, Clone, Debug)]
pub enum Level {
    /// This value of the numbers in a column.
    Value(usize, f64),
    /// A plane.
    Plane(Plane),
}

/// The normals of vertices.
#[derive(Copy, Clone, Debug)]
pub enum Normals {
    /// None.
    None,
    /// Minus the gradient of the values in a column; those of planes are known.
    Gradient {
        /// The column of iblank, with 0 at unusable nodes; `None`: all nodes are usable.
        iblank: Option<usize>,
    },
}

/// The input for vertices of a block.
#[derive(Copy, Clone, Debug)]
pub struct VertexInputs<'a> {
    /// First node of the block in its zone.
    pub origin: [u32; 3],
    /// Nodes of the zone.
    pub dims: [u32; 3],
    /// The nodes with values.
    pub needed: &'a NodeSet,
    /// Columns of values of those nodes.
    pub values: &'a [f64],
    /// Positions of nodes.
    pub shape: NodePositions<'a>,
    /// The level.
    pub level: Level,
    /// First column of each field, and one past its last.
    pub fields: &'a [[usize; 2]],
    /// The normals.
    pub normals: Normals,
}

/// Positions in the precision of the grid.
#[derive(Clone, Debug, PartialEq)]
pub enum Points {
    /// Single.
    F32(Vec<[f32; 3]>),
    /// Double.
    F64(Vec<[f64; 3]>),
}

impl Points {
    /// An empty list in the same precision.
    pub fn empty(double: bool) -> Self {
        if double {
            Self::F64(Vec::new())
        } else {
            Self::F32(Vec::new())
        }
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(p) => p.len(),
            Self::F64(p) => p.len(),
        }
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Point `n`.
    #[inline(always)]
    pub fn get(&self, n: usize) -> [f64; 3] {
        match self {
            Self::F32(p) => p[n].map(f64::from),
            Self::F64(p) => p[n],
        }
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        match self {
            Self::F32(p) => p.capacity() * size_of::<[f32; 3]>(),
            Self::F64(p) => p.capacity() * size_of::<[f64; 3]>(),
        }
    }

    fn reserve(&mut self, more: usize) {
        match self {
            Self::F32(p) => p.reserve_exact(more),
            Self::F64(p) => p.reserve_exact(more),
        }
    }

    /// Keeps points for which `kept` returns true. It is called once for each in order.
    pub fn retain(&mut self, mut kept: impl FnMut() -> bool) {
        match self {
            Self::F32(p) => p.retain(|_| kept()),
            Self::F64(p) => p.retain(|_| kept()),
        }
    }
}

/// Vertices of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Vertices {
    /// Positions.
    pub points: Points,
    /// Normals of length 1, if requested.
    pub normals: Option<Vec<[f32; 3]>>,
    /// For each field the values of all vertices, components of a vertex together.
    pub fields: Vec<Vec<f32>>,
}

impl Vertices {
    /// No vertices.
    pub fn empty(double: bool, normals: bool, fields: usize) -> Self {
        Self { points: Points::empty(double), normals: normals.then(Vec::new), fields: vec![Vec::new(); fields] }
    }

    /// Removes the vertices that are not `kept`.
    pub fn retain(&mut self, kept: &[bool]) {
        let each = || {
            let mut n = 0;
            move || {
                n += 1;
                kept[n - 1]
            }
        };
        let mut next = each();
        self.points.retain(&mut next);
        if let Some(normals) = &mut self.normals {
            let mut next = each();
            normals.retain(|_| next());
        }
        for field in self.fields.iter_mut().filter(|_| !kept.is_empty()) {
            let components = field.len() / kept.len();
            let mut n = 0;
            field.retain(|_| {
                n += 1;
                kept[(n - 1) / components]
            });
        }
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        let normals = self.normals.as_ref().map_or(0, |n| n.capacity() * size_of::<[f32; 3]>());
        let fields = self.fields.iter().map(|f| f.capacity() * size_of::<f32>() + size_of::<Vec<f32>>());
        self.points.bytes() + normals + fields.sum::<usize>()
    }
}

/// A vertex between two nodes.
struct EdgeVertex {
    /// Numbers of the inner node and of the other one.
    places: [usize; 2],
    /// The fraction of the way from the first to the second.
    t: f64,
    /// Whether the lower node is the first.
    low_first: bool,
}

impl VertexInputs<'_> {
    /// Appends the vertices at some edges.
    pub fn add(&self, edges: &[Edge], to: &mut Vertices) {
        to.points.reserve(edges.len());
        if let Some(n) = &mut to.normals {
            n.reserve_exact(edges.len());
        }
        match (self.shape, self.level) {
            (NodePositions::Regular(p), Level::Value(column, value)) if is_straight(p) => {
                // The case of volumes: without a branch an axis.
                let column = self.column(column);
                let scale: [f64; 3] = core::array::from_fn(|a| p.axes[a][a]);
                let base: [f64; 3] = core::array::from_fn(|a| p.origin[a] + f64::from(self.origin[a]) * scale[a]);
                self.each(
                    edges,
                    to,
                    |place, _| column[place] - value,
                    true,
                    |edge, v| {
                        let along = if v.low_first { v.t } else { 1.0 - v.t };
                        let n = edge.node();
                        core::array::from_fn(|a| {
                            let over = if a as u32 == edge.kind() { along } else { 0.0 };
                            base[a] + (f64::from(n[a]) + over) * scale[a]
                        })
                    },
                );
            }
            (shape, Level::Value(column, value)) => {
                let column = self.column(column);
                self.each(edges, to, |place, _| column[place] - value, true, |edge, v| self.position(shape, edge, v));
            }
            (shape, Level::Plane(plane)) => {
                let depth = |place: usize, node: [u32; 3]| plane.depth(self.node(shape, place, node));
                self.each(edges, to, depth, false, |edge, v| self.position(shape, edge, v));
            }
        }
        self.add_normals(edges, to);
    }

    /// Whether triangles of a block, by its indices, face higher values in space: i, j and k are left-handed then.
    pub fn turned(&self, mesh: &BlockMesh, points: &Points) -> bool {
        let outward = |v: u32| -> [f64; 3] {
            let edge = mesh.edges[v as usize];
            let nodes = self.nodes(edge);
            let places = self.needed.places(self.origin, edge);
            let [a, b] = [0, 1].map(|n| self.node(self.shape, places[n], nodes[n]));
            let sign = if self.above(places[0], nodes[0]) >= 0.0 { 1.0 } else { -1.0 };
            core::array::from_fn(|c| sign * (b[c] - a[c]))
        };
        let sum: f64 = mesh
            .triangles
            .iter()
            .map(|t| {
                let [p, q, r] = t.map(|v| points.get(v as usize));
                let (a, b): ([f64; 3], [f64; 3]) =
                    (core::array::from_fn(|c| q[c] - p[c]), core::array::from_fn(|c| r[c] - p[c]));
                let normal = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
                let out = match self.level {
                    // All its vertices may be on nodes.
                    Level::Plane(plane) => plane.normal,
                    Level::Value(..) => {
                        let out = t.map(outward);
                        core::array::from_fn(|c| out[0][c] + out[1][c] + out[2][c])
                    }
                };
                let towards = (0..3).map(|c| normal[c] * out[c]).sum::<f64>();
                if towards.is_finite() {
                    towards
                } else {
                    0.0
                }
            })
            .sum();
        sum < 0.0
    }

    /// Difference of the value at a node from the level.
    fn above(&self, place: usize, node: [u32; 3]) -> f64 {
        match self.level {
            Level::Value(column, value) => self.column(column)[place] - value,
            Level::Plane(plane) => plane.depth(self.node(self.shape, place, node)),
        }
    }

    fn column(&self, column: usize) -> &[f64] {
        let n = self.needed.count();
        &self.values[column * n..][..n]
    }

    /// Position of a node.
    #[inline(always)]
    fn node(&self, shape: NodePositions<'_>, place: usize, node: [u32; 3]) -> [f64; 3] {
        match shape {
            NodePositions::Regular(p) => p.position(node.map(f64::from)),
            NodePositions::Columns(first, components) => {
                let n = self.needed.count();
                core::array::from_fn(|c| if c < components { self.values[(first + c) * n + place] } else { 0.0 })
            }
        }
    }

    fn position(&self, shape: NodePositions<'_>, edge: Edge, v: &EdgeVertex) -> [f64; 3] {
        let [low, high] = self.nodes(edge);
        let ends = if v.low_first { [low, high] } else { [high, low] };
        let a = self.node(shape, v.places[0], ends[0]);
        if edge.kind() == NODE {
            return a;
        }
        let b = self.node(shape, v.places[1], ends[1]);
        core::array::from_fn(|c| a[c] + v.t * (b[c] - a[c]))
    }

    /// The nodes of an edge in the zone.
    #[inline(always)]
    fn nodes(&self, edge: Edge) -> [[u32; 3]; 2] {
        let n = edge.node();
        let low: [u32; 3] = core::array::from_fn(|a| n[a] + self.origin[a]);
        let mut high = low;
        if let Some(h) = high.get_mut(edge.kind() as usize) {
            *h += 1;
        }
        [low, high]
    }

    /// The place of a vertex between its nodes; `above` is the difference of a node's value from the level.
    #[inline(always)]
    fn between(&self, edge: Edge, above: &impl Fn(usize, [u32; 3]) -> f64, apart: bool) -> EdgeVertex {
        let places = self.needed.places(self.origin, edge);
        let nodes = self.nodes(edge);
        let (a, b) = (above(places[0], nodes[0]), above(places[1], nodes[1]));
        let low_first = a >= 0.0;
        let (inside, outside) = if low_first { (a, b) } else { (b, a) };
        let t = inside / (inside - outside);
        // Infinite values give no quotient: these use the smaller number. `max` and `min` convert NaN to a number.
        #[allow(clippy::manual_clamp)]
        let t = if apart { t.max(LEAST).min(1.0 - LEAST) } else { t.max(0.0).min(1.0) };
        EdgeVertex { places: if low_first { places } else { [places[1], places[0]] }, t, low_first }
    }

    #[inline(always)]
    fn each(
        &self,
        edges: &[Edge],
        to: &mut Vertices,
        above: impl Fn(usize, [u32; 3]) -> f64,
        apart: bool,
        position: impl Fn(Edge, &EdgeVertex) -> [f64; 3],
    ) {
        match &mut to.points {
            Points::F32(points) => points.extend(edges.iter().map(|e| {
                let v = self.between(*e, &above, apart);
                position(*e, &v).map(|x| x as f32)
            })),
            Points::F64(points) => points.extend(edges.iter().map(|e| {
                let v = self.between(*e, &above, apart);
                position(*e, &v)
            })),
        }
        let n = self.needed.count();
        for (columns, out) in self.fields.iter().zip(&mut to.fields) {
            out.reserve_exact(edges.len() * (columns[1] - columns[0]));
            for e in edges {
                let v = self.between(*e, &above, apart);
                for c in columns[0]..columns[1] {
                    let [a, b] = v.places.map(|p| self.values[c * n + p]);
                    out.push(if e.kind() == NODE { a } else { a + v.t * (b - a) } as f32);
                }
            }
        }
    }

    fn add_normals(&self, edges: &[Edge], to: &mut Vertices) {
        let Some(out) = &mut to.normals else { return };
        let (column, value) = match self.level {
            Level::Plane(plane) => {
                out.extend(edges.iter().map(|_| plane.normal.map(|c| c as f32)));
                return;
            }
            Level::Value(column, value) => (column, value),
        };
        let values = self.column(column);
        let above = |place: usize, _: [u32; 3]| values[place] - value;
        for e in edges {
            let v = self.between(*e, &above, true);
            let [low, high] = self.nodes(*e);
            let nodes = if v.low_first { [low, high] } else { [high, low] };
            let [a, b] = nodes.map(|n| self.gradient(n, values));
            let g = match (is_direction(a), is_direction(b)) {
                (true, true) => core::array::from_fn(|c| a[c] + v.t * (b[c] - a[c])),
                (true, false) => a,
                _ => b,
            };
            out.push(self.toward_lower(g, nodes, v.places));
        }
    }

    /// Minus a gradient as a direction. Without a gradient it is the direction from the inner node to the outer one.
    fn toward_lower(&self, g: [f64; 3], nodes: [[u32; 3]; 2], places: [usize; 2]) -> [f32; 3] {
        let unit = |v: [f64; 3]| -> Option<[f32; 3]> {
            // Scaled by the largest first: squares of small numbers underflow.
            let most = v.iter().fold(0.0, |m: f64, c| m.max(c.abs()));
            if !is_direction(v) {
                return None;
            }
            let v = v.map(|c| c / most);
            let length = (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt();
            Some(v.map(|c| (c / length) as f32))
        };
        let along = || {
            let [a, b] = [0, 1].map(|n| self.node(self.shape, places[n], nodes[n]));
            unit(core::array::from_fn(|c| b[c] - a[c]))
        };
        unit(g.map(|c| -c)).or_else(along).unwrap_or([0.0, 0.0, 1.0])
    }

    /// The gradient in space at a node; NaN if there is none.
    fn gradient(&self, node: [u32; 3], values: &[f64]) -> [f64; 3] {
        let Normals::Gradient { iblank } = self.normals else { return [f64::NAN; 3] };
        let n = self.needed.count();
        let mut of_value = [0.0; 3];
        let mut of_position = [[0.0; 3]; 3];
        for a in 0..3 {
            let beside = |to: u32| {
                let mut at = node;
                at[a] = to;
                at
            };
            let usable = |to: u32| {
                let place = self.needed.place(beside(to));
                let here = iblank.is_none_or(|c| self.values[c * n + place] != 0.0);
                here && !values[place].is_nan()
                    && self.node(self.shape, place, beside(to)).iter().all(|x| x.is_finite())
            };
            let cut = |low: u32| {
                let place = self.needed.place(beside(low));
                iblank.is_some_and(|c| bits(self.values[c * n + place]) & EDGE << a != 0)
            };
            let difference = choose(node[a], self.dims[a], usable, cut);
            let at = |d: isize| beside(node[a].wrapping_add_signed(d as i32));
            of_value[a] = difference.of(|d| values[self.needed.place(at(d))]);
            of_position[a] = match self.shape {
                NodePositions::Regular(p) => p.axes[a],
                NodePositions::Columns(..) => core::array::from_fn(|c| {
                    difference.of(|d| self.node(self.shape, self.needed.place(at(d)), at(d))[c])
                }),
            };
        }
        let m = metrics(of_position, self.dims.map(|d| d == 1));
        core::array::from_fn(|c| (0..3).map(|a| m[a][c] * of_value[a]).sum())
    }
}

/// Whether numbers are a direction.
fn is_direction(v: [f64; 3]) -> bool {
    v.iter().all(|c| c.is_finite()) && v.iter().any(|c| *c != 0.0)
}

/// Whether i, j and k are along x, y and z.
fn is_straight(p: &Placement) -> bool {
    (0..3).all(|a| (0..3).all(|c| a == c || p.axes[a][c] == 0.0))
}
