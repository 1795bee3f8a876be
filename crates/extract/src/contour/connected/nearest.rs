//! The sheet of an isosurface nearest to a point.
//!
//! # Theory
//! The distance of a sheet is that of its triangles in space. Cells may be a thousand times as long as they are wide,
//! so indices do not measure distance. And near a point on a sheet, vertices of another sheet may be nearer than the
//! sheet's own.
//!
//! Cells are visited from the point's cell on, through their faces, in the order of a lower bound of each face's
//! distance. On the straight line from the point to a sheet no face is farther than the sheet. So the found sheet is
//! the nearest when no waiting cell is nearer. First a sheet is searched within some cells. Then nearer ones are
//! searched in all cells that may be nearer, however many these are where cells are short. Holes and unreadable pages
//! are no obstacle within the first cells.
//!
//! # Practice
//! [`PartGrowth::nearest`]. The result follows from the data alone. Cells at equal distance are visited in their order,
//! and of sheets at equal distance the first is used.

use super::{held, ConnectedRegion, PartGrowth, TileKey, ZonePoint, OF_CELL};
use crate::contour::grid::meet;
use field::error::FieldError;
use kernels::surface::{cases, Cases, Edge, Level, NodePositions, NodeSet, LEAST, NODE};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Nodes along each axis with values read together.
const TOGETHER: u32 = 4;
/// Cells between two checks of memory and of interruption.
const PERIOD: usize = 256;
/// Growth in bytes of the visited set in that time: the blocks around a corner.
const SEEN_MORE: usize = 256 << 10;
/// Most visited cells: a matter of seconds. More cells are nearer than the found sheet only if it is some cells away
/// and cells are dozens of times as long as wide.
const MOST: usize = 1 << 20;

/// The found sheet.
#[derive(Copy, Clone, Debug)]
pub(super) struct NearestSheet {
    pub cell: [u32; 3],
    pub sheet: u8,
    /// Squares of its distance, in space and in the zone's computational space.
    apart: f64,
    pub cells_apart: f64,
}

/// A node's value and position; NaN if unknown.
type NodeValue = (f64, [f64; 3]);

/// Known nodes, by page and a few nodes along each axis.
#[derive(Debug, Default)]
pub(super) struct NodeCache {
    of: HashMap<TileKey, NodeTile>,
    /// Bytes held.
    pub bytes: usize,
}

/// Adjacent nodes of a page.
#[derive(Debug)]
struct NodeTile {
    first: [u32; 3],
    size: [u32; 3],
    /// Empty for an unreadable page.
    nodes: Vec<NodeValue>,
}

impl NodeTile {
    fn get(&self, node: [u32; 3]) -> NodeValue {
        let at: [usize; 3] = core::array::from_fn(|a| (node[a] - self.first[a]) as usize);
        let n = (at[2] * self.size[1] as usize + at[1]) * self.size[0] as usize + at[0];
        self.nodes.get(n).copied().unwrap_or((f64::NAN, [f64::NAN; 3]))
    }
}

impl PartGrowth<'_> {
    /// The sheet nearest to a place, if one is within `reach` cells of it. It is the nearest within reach, or with
    /// `farther` the nearest of all. `told` returns whether to continue.
    pub(super) fn nearest(
        &mut self,
        from: &ZonePoint,
        reach: u32,
        farther: bool,
        told: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<NearestSheet>, FieldError> {
        let cells = self.grid.dims().map(|n| n - 1);
        let middle: [u32; 3] = core::array::from_fn(|a| (from.index[a].floor().max(0.0) as u32).min(cells[a] - 1));
        let mut found: Option<NearestSheet> = None;
        // Bits of squared distances, which are ordered for non-negative numbers; cells by k, j, i.
        let mut queue = BinaryHeap::from([Reverse((0u64, turned(middle)))]);
        let mut beyond = Vec::new();
        let (mut seen, mut is_farther, mut looked) = (ConnectedRegion::default(), false, 0);
        loop {
            let nearest = found.map_or(f64::INFINITY, |f| f.apart);
            let next = queue.pop().filter(|Reverse((least, _))| f64::from_bits(*least) <= nearest);
            let Some(Reverse((least, cell))) = next else {
                if found.is_none() || beyond.is_empty() {
                    break;
                }
                is_farther = true;
                queue.clear();
                queue.extend(beyond.drain(..));
                continue;
            };
            let cell = turned(cell);
            if !seen.add(cell, 0) {
                continue;
            }
            if looked % PERIOD == 0 {
                // Each cell has six faces, and memory grows by doubling.
                let waiting = queue.len() + beyond.len() + 6 * PERIOD;
                self.queued = 2 * waiting * OF_CELL + seen.bytes() + SEEN_MORE;
                self.charge()?;
                if !told(0) {
                    return Err(FieldError::Interrupted);
                }
            }
            looked += 1;
            if looked > MOST {
                return Err(too_many(nearest));
            }
            let corners = self.loaded_corners(cell)?;
            for (apart, cells_apart, sheet) in self.sheets(cell, corners.unwrap_or(0), from)? {
                let key = |f: &NearestSheet| (f.apart, turned(f.cell), f.sheet);
                let one = NearestSheet { cell, sheet, apart, cells_apart };
                if found.is_none_or(|f| key(&one) < key(&f)) {
                    found = Some(one);
                }
            }
            let nearest = found.map_or(f64::INFINITY, |f| f.apart);
            let places = self.places(cell)?;
            for (axis, high) in (0..6).map(|n| (n / 2, n % 2 == 1)) {
                let mut other = cell;
                other[axis] = if high { cell[axis] + 1 } else { cell[axis].wrapping_sub(1) };
                if other[axis] >= cells[axis] || seen.has_cell(other) {
                    continue;
                }
                let is_within = (0..3).all(|a| other[a].abs_diff(middle[a]) <= reach);
                let face = at_least(from.x, face_of(&places, axis, high));
                let bound = match face {
                    Some(face) if corners.is_some() || !is_within => face,
                    // Unusable nodes may have any position.
                    _ if is_within => face.unwrap_or(f64::INFINITY).min(f64::from_bits(least)),
                    _ => continue,
                };
                if bound > nearest {
                    continue;
                }
                let waits = Reverse((bound.to_bits(), turned(other)));
                if is_within || is_farther {
                    queue.push(waits);
                } else if farther {
                    beyond.push(waits);
                }
            }
            if self.known.bytes as u64 > self.at_once {
                self.known = NodeCache::default();
            }
        }
        self.queued = 0;
        self.charge()?;
        Ok(found)
    }

    /// The sheets of a cell, and squares of their distances, in space and in the zone's computational space.
    fn sheets(&mut self, cell: [u32; 3], corners: usize, from: &ZonePoint) -> Result<Vec<(f64, f64, u8)>, FieldError> {
        let case = &Cases::get().of[corners];
        if case.sheets == 0 {
            return Ok(Vec::new());
        }
        let Level::Value(_, value) = self.grid.level(self.value) else { return Ok(Vec::new()) };
        let mut above = [0.0; 8];
        for (c, above) in above.iter_mut().enumerate() {
            *above = self.node(corner(cell, c))?.0 - value;
        }
        let places = self.places(cell)?;
        // As vertices are computed.
        let cut = |e: u8| {
            let [low, high] = cases::ends(usize::from(e));
            let (inside, outside) = if above[low] >= 0.0 { (low, high) } else { (high, low) };
            let t = above[inside] / (above[inside] - above[outside]);
            let t = if t.is_nan() { LEAST } else { t.clamp(LEAST, 1.0 - LEAST) };
            let on = |p: [f64; 3], q: [f64; 3]| -> [f64; 3] { core::array::from_fn(|a| p[a] + t * (q[a] - p[a])) };
            let index = |c: usize| corner(cell, c).map(f64::from);
            [on(places[inside], places[outside]), on(index(inside), index(outside))]
        };
        if above.iter().any(|v| v.is_nan()) {
            return Ok(Vec::new());
        }
        let mut of = vec![[f64::INFINITY; 2]; usize::from(case.sheets)];
        for (edges, sheet) in case.triangles.iter().zip(case.sheet_of).take(usize::from(case.count)) {
            let cuts = edges.map(cut);
            let to = [(from.x, 0), (from.index, 1)].map(|(x, n)| to_triangle(x, cuts.map(|c| c[n])));
            of[usize::from(sheet)].iter_mut().zip(to).for_each(|(least, d)| *least = least.min(d));
        }
        let known = of.into_iter().zip(0u8..).filter(|([apart, _], _)| apart.is_finite());
        Ok(known.map(|([apart, cells], sheet)| (apart, cells, sheet)).collect())
    }

    /// Positions of the corners of a cell.
    fn places(&mut self, cell: [u32; 3]) -> Result<[[f64; 3]; 8], FieldError> {
        let mut places = [[f64::NAN; 3]; 8];
        for (c, place) in places.iter_mut().enumerate() {
            let node = corner(cell, c);
            *place = match self.grid.shape() {
                NodePositions::Regular(p) => p.position(node.map(f64::from)),
                NodePositions::Columns(..) => self.node(node)?.1,
            };
        }
        Ok(places)
    }

    /// A node's value and position, if stored.
    fn node(&mut self, node: [u32; 3]) -> Result<NodeValue, FieldError> {
        // The field of the surface is the first of the vertices' reads.
        let page = self.grid.value_reads()[0].translation.node(node).page;
        let key = (page, node.map(|n| n / TOGETHER));
        if !self.known.of.contains_key(&key) {
            self.take(key)?;
        }
        Ok(self.known.of.get(&key).map_or((f64::NAN, [f64::NAN; 3]), |few| few.get(node)))
    }

    /// Reads the values and positions of some nodes.
    fn take(&mut self, key: TileKey) -> Result<(), FieldError> {
        let (grid, (page, at)) = (self.grid, key);
        let reads = &grid.value_reads()[0];
        let lo = at.map(|n| n * TOGETHER);
        let Some([first, end]) = meet(reads.nodes(page), [lo, lo.map(|n| n + TOGETHER)]) else { return Ok(()) };
        let size: [u32; 3] = core::array::from_fn(|a| end[a] - first[a]);
        let count = size.iter().product::<u32>() as usize;
        self.known.bytes += count * size_of::<NodeValue>() + 2 * size_of::<(TileKey, NodeTile)>();
        self.charge()?;
        self.worker.release();
        let nodes = match held(self.pager, &self.worker, reads, page)? {
            Ok((pages, _holds)) => {
                let mut needed = NodeSet::new(first, size);
                let all = (0..count as u32).map(|n| [n % size[0], n / size[0] % size[1], n / size[0] / size[1]]);
                let all: Vec<Edge> = all.map(|[i, j, k]| Edge::new(i, j, k, NODE)).collect();
                needed.add_ends(first, &all);
                needed.number();
                let mut values = vec![f64::NAN; count * grid.columns()];
                grid.take(0, &pages, page, &needed, &mut values);
                let (Level::Value(column, _), shape) = (grid.level(self.value), grid.shape()) else { return Ok(()) };
                let place = |n: usize| match shape {
                    NodePositions::Columns(from, of) => {
                        core::array::from_fn(|c| if c < of { values[(from + c) * count + n] } else { 0.0 })
                    }
                    NodePositions::Regular(_) => [f64::NAN; 3],
                };
                (0..count).map(|n| (values[column * count + n], place(n))).collect()
            }
            Err(failed) => {
                self.part.fail(failed);
                Vec::new()
            }
        };
        self.worker.release();
        self.known.of.insert(key, NodeTile { first, size, nodes });
        Ok(())
    }
}

/// The error of an undecided search.
fn too_many(apart: f64) -> FieldError {
    FieldError::Usage(format!(
        "the isosurface was found at a distance of {:.3e} from the point, and more than {MOST} cells are less far, too many to look through \
         for a part that is nearer; choose a point on it",
        apart.sqrt()
    ))
}

/// Indices reversed: cells are in the order k, j, i.
fn turned([a, b, c]: [u32; 3]) -> [u32; 3] {
    [c, b, a]
}

fn corner(cell: [u32; 3], c: usize) -> [u32; 3] {
    core::array::from_fn(|a| cell[a] + (c >> a & 1) as u32)
}

/// The corners of a face of a cell, in order around it.
fn face_of(places: &[[f64; 3]; 8], axis: usize, high: bool) -> [[f64; 3]; 4] {
    let (b, c) = ((axis + 1) % 3, (axis + 2) % 3);
    [[0, 0], [1, 0], [1, 1], [0, 1]].map(|[p, q]| places[usize::from(high) << axis | p << b | q << c])
}

fn less(p: [f64; 3], q: [f64; 3]) -> [f64; 3] {
    core::array::from_fn(|a| p[a] - q[a])
}

fn dot(p: [f64; 3], q: [f64; 3]) -> f64 {
    p[0] * q[0] + p[1] * q[1] + p[2] * q[2]
}

fn cross(p: [f64; 3], q: [f64; 3]) -> [f64; 3] {
    [p[1] * q[2] - p[2] * q[1], p[2] * q[0] - p[0] * q[2], p[0] * q[1] - p[1] * q[0]]
}

/// A lower bound of the squared distance of a point from anything between four others. It uses the axes, and the
/// directions in which faces usually point. `None` if one of them is not finite.
fn at_least(x: [f64; 3], face: [[f64; 3]; 4]) -> Option<f64> {
    let to = face.map(|p| less(p, x));
    if !to.as_flattened().iter().all(|c| c.is_finite()) {
        return None;
    }
    let gap = |along: [f64; 4]| {
        let (low, high) = along.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
        low.max(-high).max(0.0)
    };
    let of_box: f64 = (0..3).map(|a| gap(to.map(|p| p[a])).powi(2)).sum();
    let normal = cross(less(to[2], to[0]), less(to[3], to[1]));
    let middle = core::array::from_fn(|a| to.iter().map(|p| p[a]).sum());
    let along = |n: [f64; 3]| {
        let square = gap(to.map(|p| dot(p, n))).powi(2) / dot(n, n);
        // A face without an area has no normal.
        if square.is_finite() {
            square
        } else {
            0.0
        }
    };
    Some(of_box.max(along(normal)).max(along(middle)))
}

/// The squared distance of a point from a segment.
fn to_segment(x: [f64; 3], p: [f64; 3], q: [f64; 3]) -> f64 {
    let (along, from) = (less(q, p), less(x, p));
    let t = dot(from, along) / dot(along, along);
    // A segment without length is a point.
    let t = if t.is_nan() { 0.0 } else { t.clamp(0.0, 1.0) };
    let d: [f64; 3] = core::array::from_fn(|a| from[a] - t * along[a]);
    dot(d, d)
}

/// The squared distance of a point from a triangle.
fn to_triangle(x: [f64; 3], [a, b, c]: [[f64; 3]; 3]) -> f64 {
    let sides = [(a, b), (b, c), (c, a)];
    let of_sides = sides.iter().map(|(p, q)| to_segment(x, *p, *q)).fold(f64::INFINITY, f64::min);
    let normal = cross(less(b, a), less(c, a));
    let over = sides.iter().all(|(p, q)| dot(cross(less(*q, *p), less(x, *p)), normal) >= 0.0);
    let above = dot(normal, less(x, a)).powi(2) / dot(normal, normal);
    if over && above.is_finite() {
        above.min(of_sides)
    } else {
        of_sides
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_from_triangles_and_faces() {
        let triangle = [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 3.0, 0.0]];
        for (x, square) in [
            ([1.0, 1.0, -2.0], 4.0),
            ([-3.0, 1.0, 0.0], 9.0),
            ([-3.0, -4.0, 12.0], 169.0),
            ([2.0, -1.0, 1.0], 2.0),
            ([4.0, 3.0, 0.0], 5.76),
        ] {
            assert!((to_triangle(x, triangle) - square).abs() < 1e-12, "{x:?}");
        }
        // A degenerate triangle is a segment, or a point.
        assert_eq!(to_triangle([0.0, 1.0, 0.0], [[0.0; 3], [2.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), 1.0);
        assert_eq!(to_triangle([0.0, 1.0, 0.0], [[0.0; 3]; 3]), 1.0);
        // A face, long and rotated: at most the distance of its triangles, and little less if it faces the point.
        let turn = |p: [f64; 3]| [0.6 * p[0] - 0.8 * p[1], 0.8 * p[0] + 0.6 * p[1], p[2]];
        let face = [[0.0, 0.0, 1.0], [10.0, 0.0, 1.0], [10.0, 100.0, 1.0], [0.0, 100.0, 1.0]].map(turn);
        for x in [[5.0, 50.0, 3.0], [5.0, 50.0, 1.0], [30.0, 50.0, 1.0], [-3.0, 140.0, 2.0]].map(turn) {
            let [a, b, c, d] = face;
            let truth = to_triangle(x, [a, b, c]).min(to_triangle(x, [a, c, d]));
            let least = at_least(x, face).unwrap();
            assert!(least <= truth + 1e-9 && least >= 0.5 * truth - 1e-9, "{x:?}: {least} of {truth}");
        }
        assert_eq!(at_least([0.0; 3], [[f64::NAN; 3]; 4]), None);
        assert_eq!(at_least([0.0, 1.0, 0.0], [[0.0; 3]; 4]), Some(1.0));
    }
}
