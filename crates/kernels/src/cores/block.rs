//! A block of cells of a zone: its nodes by slabs of planes, and the points found on its faces.
//!
//! # Practice
//! The caller repeats these steps until no more planes are needed:
//!
//! 1. It marks all nodes of the planes that [`CoreBlock::to_mark`] names.
//! 2. It sets the nodes of the planes that [`CoreBlock::to_set`] names. It may omit nodes that [`CoreBlock::needs`]
//!    rules out.
//! 3. It calls [`CoreBlock::march`].
//!
//! Of earlier planes only the last is kept, so memory follows from the planes of a slab and not from the block. Marks
//! are one plane ahead, so that it is known for every node to be set whether a cell needs it. The result does not
//! depend on the slabs, nor on nodes that were set without need.

use super::pencil::{cross, dot, may_be_parallel, parallel, Vec3};

/// Edge of a block of cells.
pub const BLOCK: u32 = 64;

/// The use of a node.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// Blanked out, or not finite: its cells are left out.
    Hole = 0,
    /// Valid. A cell with only such corners certainly has no core.
    Quiet = 1,
    /// Valid, and its cells may have a core.
    Field = 2,
    /// Its page could not be read.
    Failed = 3,
}

/// The state of a cell.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cell {
    /// All corners are valid and it may have a core.
    Live,
    /// All corners are valid, and there is no core.
    Quiet,
    /// A corner is a hole.
    Hole,
    /// A corner could not be read.
    Failed,
}

/// A place with the same name in two blocks. It is a node, an edge (of a cell, or the diagonal of a face) or a triangle
/// of a face, with the zone. The order is by zone, k, j, i.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeatureKey(u128);

/// The two axes along a face, the faster first.
const ALONG: [[usize; 2]; 3] = [[1, 2], [0, 2], [0, 1]];

impl FeatureKey {
    /// The feature that begins at a node. `reach` has a bit for each axis along which it extends to the next node. A
    /// node has none, an edge one, a face or its diagonal two. `part` is 0 for these, and otherwise numbers points
    /// within a face.
    fn new(zone: u32, low: [u32; 3], reach: u8, part: u8) -> Self {
        let [i, j, k] = low.map(u128::from);
        Self(u128::from(zone) << 104 | k << 72 | j << 40 | i << 8 | u128::from(reach) << 5 | u128::from(part))
    }

    /// The number of the zone.
    pub fn zone(self) -> u32 {
        (self.0 >> 104) as u32
    }

    /// Lowest node.
    pub fn low(self) -> [u32; 3] {
        [(self.0 >> 8) as u32, (self.0 >> 40) as u32, (self.0 >> 72) as u32]
    }

    fn reach(self) -> [bool; 3] {
        [0, 1, 2].map(|a| self.0 >> (5 + a) & 1 == 1)
    }

    /// The lowest corners of the adjacent cells, also beyond the zone: two at a face, four at an edge, eight at a node.
    /// The low side along an axis is -1 at the zone's low side.
    pub fn cells(self) -> impl Iterator<Item = [i64; 3]> {
        let (low, reach) = (self.low().map(i64::from), self.reach());
        (0..8u8).filter_map(move |c| {
            let side = |a: usize| i64::from(c >> a & 1);
            // Along the axes in which it extends there is one cell.
            (0..3).all(|a| !reach[a] || side(a) == 0).then(|| core::array::from_fn(|a| low[a] - side(a)))
        })
    }

    /// Whether it is on an edge or a node.
    pub fn is_on_edge(self) -> bool {
        self.0 & 0x1f == 0
    }
}

/// The place of a point on a face.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct OnFace {
    /// The face's normal: 0 i, 1 j, 2 k.
    pub axis: u8,
    /// Number of the triangle.
    pub triangle: u8,
    /// Weights of its corners.
    pub weights: Vec3,
    /// Lowest node of the face.
    pub low: [u32; 3],
}

impl OnFace {
    /// The nodes of the triangle's corners.
    pub fn nodes(&self) -> [[u32; 3]; 3] {
        let [a, b] = ALONG[usize::from(self.axis)];
        let at = |da: u32, db: u32| {
            let mut n = self.low;
            (n[a], n[b]) = (n[a] + da, n[b] + db);
            n
        };
        // The diagonal begins at the lowest corner, from either side.
        match self.triangle {
            0 => [at(0, 0), at(1, 0), at(1, 1)],
            _ => [at(0, 0), at(1, 1), at(0, 1)],
        }
    }

    /// The place by which its neighbours name it.
    fn key(&self, zone: u32, slot: u8) -> FeatureKey {
        let [a, b] = ALONG[usize::from(self.axis)];
        let on: Vec<usize> = (0..3).filter(|n| self.weights[*n] > 0.0).collect();
        let nodes = self.nodes();
        let bits = |n: [u32; 3]| (0..3).fold(0u8, |bits, c| bits | u8::from(n[c] > self.low[c]) << c);
        match on[..] {
            [n] => FeatureKey::new(zone, nodes[n], 0, 0),
            // Corners of a triangle rise along both axes except on one edge; its lower end is the lower of the two.
            [n, m] => {
                let low = core::array::from_fn(|c| nodes[n][c].min(nodes[m][c]));
                FeatureKey::new(zone, low, bits(nodes[n]) ^ bits(nodes[m]), 0)
            }
            _ => FeatureKey::new(zone, self.low, 1 << a | 1 << b, 1 + 3 * self.triangle + slot),
        }
    }
}

/// A point on a face at which the vectors are parallel.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct ParallelPoint {
    /// Its place.
    pub key: FeatureKey,
    /// As the first face that found it has it.
    pub on: OnFace,
    /// Position.
    pub x: Vec3,
    /// The first vector.
    pub v: Vec3,
    /// The second.
    pub w: Vec3,
    /// Length of the shorter diagonal of the face.
    pub size: f64,
}

/// The bits of a [`Mark`].
const MARK: u8 = 3;
/// A node that was set with numbers that are not finite.
const NO_NUMBERS: u8 = 4;
/// An unreadable node.
const UNREAD: u8 = 8;
/// The cell with this low corner is blanked out.
const HIDDEN: u8 = 16;

/// Cells of a zone and their state.
pub struct CoreBlock {
    zone: u32,
    /// Cells of the zone.
    all: [u32; 3],
    /// First cell and number of cells, along i, j, k.
    low: [u32; 3],
    count: [u32; 3],
    /// Planes of nodes that are kept; of marks one more.
    planes: u32,
    /// The first of them, counted from the block's. Layers of cells below it are done.
    first: u32,
    /// Marked planes, counted from the block's first.
    marked: u32,
    x: Vec<Vec3>,
    v: Vec<Vec3>,
    w: Vec<Vec3>,
    mark: Vec<u8>,
    cells: Vec<Cell>,
    /// Whether the second vector is only a direction.
    axial: bool,
    /// Points in the order of the faces. A point on an edge may occur once for each of several faces.
    pub found: Vec<ParallelPoint>,
}

impl CoreBlock {
    /// The block of a zone of `all` cells with first cell `low`, and with memory for `planes` planes at a time (at
    /// least 2). The sign of an `axial` second vector has no meaning.
    pub fn new(zone: u32, all: [u32; 3], low: [u32; 3], planes: u32, axial: bool) -> Self {
        let count: [u32; 3] = core::array::from_fn(|a| BLOCK.min(all[a] - low[a]));
        let planes = planes.clamp(2, count[2] + 1);
        let nodes = Self::plane_nodes(count) * planes as usize;
        let cells = count.iter().map(|n| *n as usize).product();
        Self {
            zone,
            all,
            low,
            count,
            planes,
            first: 0,
            marked: 0,
            x: vec![[0.0; 3]; nodes],
            v: vec![[0.0; 3]; nodes],
            w: vec![[0.0; 3]; nodes],
            mark: vec![0; nodes + Self::plane_nodes(count)],
            cells: vec![Cell::Hole; cells],
            axial,
            found: Vec::new(),
        }
    }

    fn plane_nodes(count: [u32; 3]) -> usize {
        (count[0] as usize + 1) * (count[1] as usize + 1)
    }

    /// Bytes of a block of this many cells and planes, without its points.
    pub fn bytes_with(count: [u32; 3], planes: u32) -> usize {
        let cells: usize = count.iter().map(|n| *n as usize).product();
        let plane = Self::plane_nodes(count);
        plane * (planes.clamp(2, count[2] + 1) as usize * (3 * size_of::<Vec3>() + 1) + 1) + cells
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.x.capacity() * 3 * size_of::<Vec3>()
            + self.mark.capacity()
            + self.cells.capacity()
            + self.found.capacity() * size_of::<ParallelPoint>()
    }

    /// Number of the zone.
    pub fn zone(&self) -> u32 {
        self.zone
    }

    /// First node of the block, and one past the last.
    pub fn nodes(&self) -> [[u32; 3]; 2] {
        [self.low, core::array::from_fn(|a| self.low[a] + self.count[a] + 1)]
    }

    /// One past the last plane of the slab, counted from the block's first. The first slab is no thicker than the later
    /// ones, which follow a kept plane. So slabs and pages of equal thickness end together.
    fn last(&self) -> u32 {
        let thick = if self.first == 0 { (self.planes - 1).max(2) } else { self.planes };
        (self.first + thick).min(self.count[2] + 1)
    }

    /// The planes along k to be set before the next march, first and one past the last, as many as fit. None when all
    /// are done.
    pub fn to_set(&self) -> Option<[u32; 2]> {
        let from = if self.first == 0 { 0 } else { self.first + 1 };
        (from < self.last()).then(|| [self.low[2] + from, self.low[2] + self.last()])
    }

    /// The planes to be marked before any is set; empty when all possible ones are marked.
    pub fn to_mark(&self) -> [u32; 2] {
        let to = (self.last() + 1).min(self.count[2] + 1);
        [self.low[2] + self.marked, self.low[2] + to.max(self.marked)]
    }

    fn place(&self, [i, j, k]: [u32; 3]) -> usize {
        let [i, j, k] = [i - self.low[0], j - self.low[1], k - self.low[2] - self.first].map(|n| n as usize);
        let ni = self.count[0] as usize + 1;
        k * Self::plane_nodes(self.count) + j * ni + i
    }

    /// Sets the mark of a node.
    pub fn mark(&mut self, node: [u32; 3], mark: Mark) {
        let at = self.place(node);
        self.mark[at] = mark as u8;
    }

    /// Blanks out the cell with this marked node as its low corner.
    pub fn hide(&mut self, node: [u32; 3]) {
        let at = self.place(node);
        self.mark[at] |= HIDDEN;
    }

    /// The planes of [`Self::to_mark`] are marked now.
    pub fn marks_done(&mut self) {
        self.marked = self.to_mark()[1] - self.low[2];
    }

    /// Sets position and vectors of a node.
    pub fn set(&mut self, node: [u32; 3], x: Vec3, v: Vec3, w: Vec3) {
        let at = self.place(node);
        if !x.iter().chain(&v).chain(&w).all(|c| c.is_finite()) {
            self.mark[at] |= NO_NUMBERS;
        }
        (self.x[at], self.v[at], self.w[at]) = (x, v, w);
    }

    /// Marks a node to be set as unreadable.
    pub fn unread(&mut self, node: [u32; 3]) {
        let at = self.place(node);
        self.mark[at] |= UNREAD;
    }

    fn corners(&self, at: usize) -> [u8; 8] {
        let (row, plane) = (self.count[0] as usize + 1, Self::plane_nodes(self.count));
        [0, 1, row, row + 1, plane, plane + 1, plane + row, plane + row + 1].map(|o| self.mark[at + o])
    }

    /// The state of a cell by the marks of its corners.
    fn by_marks(corners: [u8; 8]) -> Cell {
        let any = |m: Mark| corners.iter().any(|c| c & MARK == m as u8);
        match (any(Mark::Failed), any(Mark::Hole), any(Mark::Field)) {
            (true, ..) => Cell::Failed,
            (_, true, _) => Cell::Hole,
            _ if corners[0] & HIDDEN != 0 => Cell::Hole,
            (_, _, true) => Cell::Live,
            _ => Cell::Quiet,
        }
    }

    /// The state of a cell. The values that were set matter only for one that may be live.
    fn state(corners: [u8; 8]) -> Cell {
        let any = |bit: u8| corners.iter().any(|c| c & bit != 0);
        match Self::by_marks(corners) {
            Cell::Live if any(UNREAD) => Cell::Failed,
            Cell::Live if any(NO_NUMBERS) => Cell::Hole,
            other => other,
        }
    }

    /// Whether a box (first, one past the last) of nodes to be set has a corner of a cell that may have a core.
    pub fn needs(&self, lo: [u32; 3], hi: [u32; 3]) -> bool {
        let Some([_, to]) = self.to_set() else { return false };
        let top = self.nodes()[1];
        let first = [self.low[0], self.low[1], self.low[2] + self.first];
        // Cells with such a node. Those of the last layer have corners in the plane marked ahead.
        let range = |a: usize, end: u32| lo[a].max(first[a] + 1) - 1..hi[a].min(end - 1);
        let mut layers = range(2, (to + 1).min(top[2]));
        layers.any(|k| {
            range(1, top[1])
                .any(|j| range(0, top[0]).any(|i| Self::by_marks(self.corners(self.place([i, j, k]))) == Cell::Live))
        })
    }

    fn cell_place(&self, [i, j, k]: [u32; 3]) -> usize {
        let [ni, nj, _] = self.count.map(|n| n as usize);
        (k as usize * nj + j as usize) * ni + i as usize
    }

    /// A cell of the block that the march has passed; `None` for any other.
    pub fn cell(&self, at: [i64; 3]) -> Option<Cell> {
        let at: [i64; 3] = core::array::from_fn(|a| at[a] - i64::from(self.low[a]));
        let inside = (0..3).all(|a| (0..i64::from(self.count[a])).contains(&at[a]));
        inside.then(|| self.cells[self.cell_place(at.map(|n| n as u32))])
    }

    /// Whether a cell is beyond the zone.
    pub fn is_beyond(&self, at: [i64; 3]) -> bool {
        (0..3).any(|a| !(0..i64::from(self.all[a])).contains(&at[a]))
    }

    /// Searches the cells between the planes that were set, and keeps the last plane.
    pub fn march(&mut self) {
        let last = self.last() - 1;
        for k in self.first..last {
            self.layer(k);
        }
        let (plane, kept) = (Self::plane_nodes(self.count), (last - self.first) as usize);
        let range = kept * plane..(kept + 1) * plane;
        self.x.copy_within(range.clone(), 0);
        self.v.copy_within(range.clone(), 0);
        self.w.copy_within(range.clone(), 0);
        // With the marks ahead.
        let ahead = (range.end + plane).min(self.mark.len());
        self.mark.copy_within(range.start..ahead, 0);
        self.first = last;
    }

    /// A layer of cells, counted from the block's first.
    fn layer(&mut self, k: u32) {
        let [ni, nj, _] = self.count;
        for j in 0..nj {
            for i in 0..ni {
                let node = [self.low[0] + i, self.low[1] + j, self.low[2] + k];
                let at = self.cell_place([i, j, k]);
                self.cells[at] = Self::state(self.corners(self.place(node)));
            }
        }
        let live = |b: &Self, i: u32, j: u32, k: u32| b.cells[b.cell_place([i, j, k])] == Cell::Live;
        for j in 0..=nj {
            for i in 0..=ni {
                // The faces with this lowest node. Faces below the layer were searched with the layer before, unless no
                // cell there needed them.
                if i < ni && j < nj && live(self, i, j, k) {
                    if k == 0 || !live(self, i, j, k - 1) {
                        self.face(2, [i, j, k]);
                    }
                    self.face(2, [i, j, k + 1]);
                }
                if j < nj && (i < ni && live(self, i, j, k) || i > 0 && live(self, i - 1, j, k)) {
                    self.face(0, [i, j, k]);
                }
                if i < ni && (j < nj && live(self, i, j, k) || j > 0 && live(self, i, j - 1, k)) {
                    self.face(1, [i, j, k]);
                }
            }
        }
    }

    fn face(&mut self, axis: u8, at: [u32; 3]) {
        let low: [u32; 3] = core::array::from_fn(|a| self.low[a] + at[a]);
        for triangle in 0..2 {
            let mut on = OnFace { axis, triangle, weights: [0.0; 3], low };
            let places = on.nodes().map(|n| self.place(n));
            let v = places.map(|p| self.v[p]);
            let mut w = places.map(|p| self.w[p]);
            if self.axial {
                let first = w[0];
                w[1..].iter_mut().filter(|w| dot(**w, first) < 0.0).for_each(|w| *w = w.map(|c| -c));
            }
            if !may_be_parallel(&v, &w) {
                continue;
            }
            let (points, count) = parallel(&v, &w);
            for (slot, weights) in points[..count].iter().enumerate() {
                on.weights = *weights;
                let sum = |of: &[Vec3; 3]| -> Vec3 {
                    core::array::from_fn(|c| weights[0] * of[0][c] + weights[1] * of[1][c] + weights[2] * of[2][c])
                };
                let x = places.map(|p| self.x[p]);
                let key = on.key(self.zone, slot as u8);
                let size = self.face_size(axis, low);
                self.found.push(ParallelPoint { key, on, x: sum(&x), v: sum(&v), w: sum(&w), size });
            }
        }
    }

    fn face_size(&self, axis: u8, low: [u32; 3]) -> f64 {
        let [a, b] = ALONG[usize::from(axis)];
        let at = |da: u32, db: u32| {
            let mut n = low;
            (n[a], n[b]) = (n[a] + da, n[b] + db);
            self.x[self.place(n)]
        };
        let apart = |p: Vec3, q: Vec3| {
            let d: Vec3 = core::array::from_fn(|c| p[c] - q[c]);
            dot(d, d).sqrt()
        };
        apart(at(0, 0), at(1, 1)).min(apart(at(1, 0), at(0, 1)))
    }

    /// The direction of the core at a point: the second vector if it is only a direction, else the first.
    pub fn along(&self, f: &ParallelPoint) -> Vec3 {
        if self.axial {
            f.w
        } else {
            f.v
        }
    }

    /// Numbers of the found points, each place once, in the order of places. If several faces found one, the lowest
    /// face is used, so neighbours agree.
    pub fn places(&self) -> Vec<u32> {
        let mut all: Vec<u32> = (0..self.found.len() as u32).collect();
        let order = |n: &u32| {
            let ParallelPoint { key, on, .. } = &self.found[*n as usize];
            (*key, on.low[2], on.low[1], on.low[0], on.axis, on.triangle)
        };
        all.sort_unstable_by_key(order);
        all.dedup_by_key(|n| self.found[*n as usize].key);
        all
    }
}

/// The angle between two directions, in radians, 0 to a right angle.
pub fn angle(a: Vec3, b: Vec3) -> f64 {
    let c = cross(a, b);
    dot(c, c).sqrt().atan2(dot(a, b).abs())
}

#[cfg(test)]
mod tests {
    use super::super::cells::segments;
    use super::super::chains::{chains, ChainNode};
    use super::*;

    /// Fills a block of a zone with a swirl round an axis, `axis` its place at a height and its slope.
    fn filled(all: [u32; 3], low: [u32; 3], planes: u32, mark: &dyn Fn([u32; 3]) -> Mark) -> CoreBlock {
        let mut b = CoreBlock::new(0, all, low, planes, false);
        while let Some([from, to]) = b.to_set() {
            let [lo, hi] = b.nodes();
            let [first, end] = b.to_mark();
            for k in first..end {
                for j in lo[1]..hi[1] {
                    (lo[0]..hi[0]).for_each(|i| b.mark([i, j, k], mark([i, j, k])));
                }
            }
            b.marks_done();
            for k in from..to {
                for j in lo[1]..hi[1] {
                    for i in lo[0]..hi[0] {
                        let node = [i, j, k];
                        if b.needs(node, node.map(|n| n + 1)) {
                            let (x, v, w) = swirl(node);
                            b.set(node, x, v, w);
                        }
                    }
                }
            }
            b.march();
        }
        b
    }

    fn swirl([i, j, k]: [u32; 3]) -> (Vec3, Vec3, Vec3) {
        let x = [f64::from(i) * 0.1, f64::from(j) * 0.1, f64::from(k) * 0.1];
        // Round the line x = 0.52 + 0.3 z, y = 0.31, along it at speed 1.
        let (dx, dy) = (x[0] - 0.52 - 0.3 * x[2], x[1] - 0.31);
        let v = [0.3 - 2.0 * dy, 2.0 * dx, 1.0];
        // J v.
        let w = [-2.0 * v[1], 2.0 * v[0] - 0.6 * v[2], 0.0];
        (x, v, w)
    }

    fn lines(b: &CoreBlock) -> Vec<Vec<Vec3>> {
        let places = b.places();
        let pairs = segments(b, &places, |_| true);
        let mut all: Vec<ChainNode> = Vec::new();
        let number = |n: u32| places.iter().position(|p| *p == n).map_or(u32::MAX, |p| p as u32);
        for n in &places {
            let f = &b.found[*n as usize];
            all.push(ChainNode { x: f.x, size: f.size as f32, at_border: false });
        }
        let pairs: Vec<[u32; 2]> = pairs.iter().map(|p| p.map(number)).collect();
        let c = chains(&all, &pairs);
        (0..c.len()).map(|n| c.line(n).iter().map(|p| all[*p as usize].x).collect()).collect()
    }

    #[test]
    fn a_leaning_core_is_one_line_however_the_block_is_cut() {
        let all = [12, 8, 10];
        let whole = filled(all, [0; 3], 99, &|_| Mark::Field);
        let line = lines(&whole);
        assert_eq!(line.len(), 1);
        assert!(line[0].len() > 12);
        for x in &line[0] {
            assert!((x[0] - 0.52 - 0.3 * x[2]).abs() < 1e-9 && (x[1] - 0.31).abs() < 1e-9, "{x:?}");
        }
        assert!((line[0][0][2], line[0][line[0].len() - 1][2]) == (0.0, 1.0));
        for planes in [2, 3, 5, 8] {
            let cut = filled(all, [0; 3], planes, &|_| Mark::Field);
            let of = |b: &CoreBlock| b.places().iter().map(|n| b.found[*n as usize]).collect::<Vec<_>>();
            assert_eq!(of(&cut), of(&whole));
            assert_eq!(lines(&cut), line);
        }
    }

    #[test]
    fn cells_with_holes_are_left_out_and_quiet_ones_are_not_asked_for() {
        let all = [12, 8, 10];
        let hole = |n: [u32; 3]| if n[2] == 4 && n[0] == 7 { Mark::Hole } else { Mark::Field };
        let line = lines(&filled(all, [0; 3], 4, &hole));
        assert_eq!(line.len(), 2);
        // Everything is quiet above the sixth plane: the cells between it and the next may have a core.
        let quiet = |n: [u32; 3]| if n[2] > 6 { Mark::Quiet } else { Mark::Field };
        for planes in [2, 3, 4, 7, 99] {
            let b = filled(all, [0; 3], planes, &quiet);
            let line = lines(&b);
            assert_eq!(line.len(), 1);
            assert!((line[0][line[0].len() - 1][2] - 0.7).abs() < 1e-12);
            assert_eq!((b.cell([3, 3, 6]), b.cell([3, 3, 7])), (Some(Cell::Live), Some(Cell::Quiet)));
        }
    }

    #[test]
    fn neighbours_agree_on_the_face_between_them() {
        let all = [70, 4, 70];
        let low = [[0, 0, 0], [64, 0, 0], [0, 0, 64], [64, 0, 64]];
        let blocks = low.map(|low| filled(all, low, 9, &|_| Mark::Field));
        let mut common = 0;
        for (n, a) in blocks.iter().enumerate() {
            for b in &blocks[n + 1..] {
                for p in a.places() {
                    let p = a.found[p as usize];
                    for q in b.places().into_iter().map(|q| b.found[q as usize]).filter(|q| q.key == p.key) {
                        assert_eq!(p, q);
                        common += 1;
                    }
                }
            }
        }
        assert!(common > 0);
    }
}
