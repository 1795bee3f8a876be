//! From pieces of geometry to primitives: positions into view space, tangents of lines, normals of grids.

use super::band::DrawTarget;
use super::geometry::{Chunk, Mesh, Polyline, Positions, QuadGrid, Spheres};
use super::projector::Projector;
use super::style::{Radius, Style, VisibleSides};
use super::triangle::{draw_triangle, ViewVertex};
use super::tube::{draw_piece, draw_sphere, TubePaint, TubeVertex};
use glam::{DVec3, Vec3};

/// Counts of one pass over the geometry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrawCounts {
    /// Pieces of lines between two vertices.
    pub segments: u64,
    /// Triangles; a quad counts as two.
    pub triangles: u64,
    /// Spheres, and lines of a single point.
    pub spheres: u64,
    /// Vertices, triangles and quads left out: a coordinate is not a drawable number, or an index is out of range.
    pub skipped: u64,
}

impl DrawCounts {
    /// Adds the counts of another pass.
    pub fn add(&mut self, other: &DrawCounts) {
        self.segments += other.segments;
        self.triangles += other.triangles;
        self.spheres += other.spheres;
        self.skipped += other.skipped;
    }
}

/// A layer prepared for one target.
pub(crate) struct Brush<'a> {
    pub projector: &'a Projector,
    pub paint: TubePaint<'a>,
    pub style: &'a Style,
    /// Pixels of the target for one of the picture.
    pub resolution: f32,
}

impl Brush<'_> {
    /// Draws one piece and counts its primitives.
    pub(crate) fn draw<T: DrawTarget>(&self, target: &mut T, chunk: &Chunk<'_>) -> DrawCounts {
        match chunk {
            Chunk::Line(line) => self.line(target, line),
            Chunk::Mesh(mesh) => self.mesh(target, mesh),
            Chunk::Quads(grid) => self.quads(target, grid),
            Chunk::Spheres(spheres) => self.spheres(target, spheres),
        }
    }

    /// Radius in view units of a vertex at depth z.
    #[inline]
    fn radius(&self, own: Option<f32>, z: f32) -> f32 {
        let pixel = self.resolution / self.projector.scale_at(z.max(super::projector::NEAR));
        // In the small depth picture a line must not fall between the samples either.
        let least = if self.resolution < 1.0 {
            pixel * self.style.min_pixels.max(0.6 / self.resolution)
        } else {
            pixel * self.style.min_pixels
        };
        let wanted = match (own, self.style.radius) {
            (Some(r), _) => (f64::from(r) / self.projector.unit) as f32,
            (None, Radius::Physical(r)) => (r / self.projector.unit) as f32,
            (None, Radius::Pixels(r)) => r * pixel,
        };
        // A radius of NaN counts as none, so the least one is drawn.
        wanted.max(least)
    }

    fn lift(&self, z: f32) -> f32 {
        self.style.lift_pixels * self.resolution / self.projector.scale_at(z.max(super::projector::NEAR))
    }

    fn node(&self, at: DVec3, scalar: Option<f32>, radius: Option<f32>) -> Option<TubeVertex> {
        let v = self.projector.view(at);
        if v.is_nan() {
            return None;
        }
        Some(TubeVertex::new(self.projector, v, self.radius(radius, v.z), scalar.unwrap_or(f32::NAN)))
    }

    fn line<T: DrawTarget>(&self, target: &mut T, line: &Polyline<'_>) -> DrawCounts {
        let mut counts = DrawCounts::default();
        let ghost = |p: Option<DVec3>| p.map(|p| self.projector.view(p)).filter(|v| !v.is_nan());
        let mut run = PolylineState::start(ghost(line.before));
        let n = line.points.len();
        for i in 0..n {
            let scalar = line.scalars.and_then(|s| s.get(i).copied());
            let radius = line.radii.and_then(|r| r.get(i).copied());
            match self.node(line.points.get(i), scalar, radius) {
                Some(node) => run.push(self, target, node, &mut counts),
                None => {
                    counts.skipped += 1;
                    run.finish(self, target, None, &mut counts);
                    run = PolylineState::start(None);
                }
            }
        }
        run.finish(self, target, ghost(line.after), &mut counts);
        counts
    }

    /// Draws the line between two vertices with known tangents. It is straight, or follows a cubic with these tangents
    /// where it bends a little. So the long steps of a tracer do not show as corners.
    fn piece<T: DrawTarget>(&self, target: &mut T, a: &TubeVertex, b: &TubeVertex) {
        let chord = b.center - a.center;
        let length = chord.length();
        let (ta, tb) = (a.tangent.normalize_or_zero(), b.tangent.normalize_or_zero());
        let least = ta.dot(chord).min(tb.dot(chord)) / length;
        let lift = self.lift(b.center.z);
        if !(SHARP < least && least < STRAIGHT) {
            // A sharper bend is a corner of the line itself.
            draw_piece(target, self.projector, &self.paint, a, b, lift);
            return;
        }
        let n = ((1.0 - least).sqrt() * PARTS_A_ROOT).ceil().clamp(2.0, 8.0) as u32;
        let mut from = *a;
        for k in 1..=n {
            let mut to = *b;
            if k < n {
                let t = k as f32 / n as f32;
                let (u, mix) = (1.0 - t, |a: f32, b: f32| a + (b - a) * t);
                // Hermite's cubic, with tangents as long as the chord.
                let ends = a.center * (u * u * (1.0 + 2.0 * t)) + b.center * (t * t * (1.0 + 2.0 * u));
                let center = ends + (ta * (u * u * t) - tb * (t * t * u)) * length;
                let slope =
                    (chord * (6.0 * t * u)) + (ta * (u * (1.0 - 3.0 * t)) + tb * (t * (3.0 * t - 2.0))) * length;
                to = TubeVertex::new(self.projector, center, mix(a.radius, b.radius), mix(a.scalar, b.scalar));
                to.tangent = slope;
                to.end = false;
            }
            draw_piece(target, self.projector, &self.paint, &from, &to, lift);
            from = to;
        }
    }

    fn spheres<T: DrawTarget>(&self, target: &mut T, spheres: &Spheres<'_>) -> DrawCounts {
        let mut counts = DrawCounts::default();
        for i in 0..spheres.points.len() {
            let scalar = spheres.scalars.and_then(|s| s.get(i).copied());
            let radius = spheres.radii.and_then(|r| r.get(i).copied());
            match self.node(spheres.points.get(i), scalar, radius) {
                Some(node) => {
                    counts.spheres += 1;
                    draw_sphere(target, self.projector, &self.paint, &node, self.lift(node.center.z));
                }
                None => counts.skipped += 1,
            }
        }
        counts
    }

    fn mesh<T: DrawTarget>(&self, target: &mut T, mesh: &Mesh<'_>) -> DrawCounts {
        let mut counts = DrawCounts::default();
        let corner = |i: u32| {
            let i = i as usize;
            let normal = mesh
                .normals
                .and_then(|n| n.get(i))
                .map_or(Vec3::ZERO, |n| self.projector.view_direction(Vec3::from_array(*n)));
            let scalar = mesh.scalars.and_then(|s| s.get(i).copied()).unwrap_or(f32::NAN);
            ViewVertex { at: self.projector.view(mesh.points.get(i)), normal, scalar }
        };
        for t in mesh.triangles {
            let corners = t.map(corner);
            if corners.iter().any(|c| c.at.is_nan()) {
                counts.skipped += 1;
                continue;
            }
            counts.triangles += 1;
            draw_triangle(target, self.projector, &self.paint, &corners, mesh.normals.is_some());
        }
        counts
    }

    fn quads<T: DrawTarget>(&self, target: &mut T, grid: &QuadGrid<'_>) -> DrawCounts {
        let mut counts = DrawCounts::default();
        let [ni, nj] = grid.size;
        if ni < 2 || nj < 2 {
            return counts;
        }
        let [[i0, i1], [j0, j1]] = grid.draw.unwrap_or([[0, ni - 1], [0, nj - 1]]);
        let (i1, j1) = (i1.min(ni - 1), j1.min(nj - 1));
        let mut rows = GridRows::new(self.projector, grid.points, [ni, nj]);
        let mut lower: Vec<ViewVertex> = Vec::new();
        let mut upper: Vec<ViewVertex> = Vec::new();
        let scalar = |i: usize, j: usize| grid.scalars.and_then(|s| s.get(j * ni + i).copied()).unwrap_or(f32::NAN);
        // `upper` holds the row above the last drawn row of quads.
        let mut upper_is = usize::MAX;
        for j in j0..j1 {
            if !rows.touches(j, j + 1, target.area().pixel_rows()) {
                // Holes are counted in any case: the count does not depend on the band.
                for i in i0..i1 {
                    let hole =
                        [(i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)].iter().any(|c| rows.at(c.0, c.1).is_nan());
                    counts.skipped += u64::from(hole);
                    counts.triangles += if hole { 0 } else { 2 };
                }
                continue;
            }
            if upper_is == j {
                std::mem::swap(&mut lower, &mut upper);
            } else {
                rows.corners(j, &scalar, &mut lower);
            }
            rows.corners(j + 1, &scalar, &mut upper);
            upper_is = j + 1;
            for i in i0..i1 {
                let q = [lower[i], lower[i + 1], upper[i + 1], upper[i]];
                if q.iter().any(|c| c.at.is_nan()) {
                    counts.skipped += 1;
                    continue;
                }
                counts.triangles += 2;
                if !self.is_seen(&q) {
                    continue;
                }
                // The shorter diagonal folds a warped quad less.
                let first = q[0].at.distance_squared(q[2].at) <= q[1].at.distance_squared(q[3].at);
                let split = if first { [[0, 1, 2], [0, 2, 3]] } else { [[0, 1, 3], [1, 2, 3]] };
                for t in split {
                    draw_triangle(target, self.projector, &self.paint, &t.map(|k: usize| q[k]), true);
                }
            }
        }
        counts
    }

    /// Whether a quad is seen from its front side. Its corners are in order around it, from the first along the first
    /// direction.
    fn is_seen(&self, q: &[ViewVertex; 4]) -> bool {
        let sign = match self.style.seen_from {
            VisibleSides::Both => return true,
            VisibleSides::Front => 1.0,
            VisibleSides::Back => -1.0,
        };
        // View space is left-handed: a cross product there points to the other side.
        let behind = (q[2].at - q[0].at).cross(q[3].at - q[1].at) * sign;
        let middle = (q[0].at + q[1].at + q[2].at + q[3].at) * 0.25;
        let sight = middle * self.projector.central + Vec3::Z * self.projector.parallel;
        behind.dot(sight) >= 0.0
    }
}

/// Cosine of the angle between chord and tangent above which a piece counts as straight: 2 degrees.
const STRAIGHT: f32 = 0.9994;

/// Cosine below which a bend stays a corner: 30 degrees to the chord, 60 in all.
const SHARP: f32 = 0.866;

/// Parts of a bent piece over the square root of 1 - cosine, so that each turns by some 4 degrees.
const PARTS_A_ROOT: f32 = 20.0;

/// A polyline in progress: its last two vertices. The direction at the second depends on the next.
struct PolylineState {
    last: Option<TubeVertex>,
    now: Option<TubeVertex>,
    /// Unit direction in which the line reached `now`.
    into: Vec3,
    before: Option<Vec3>,
}

impl PolylineState {
    fn start(before: Option<Vec3>) -> PolylineState {
        PolylineState { last: None, now: None, into: Vec3::ZERO, before }
    }

    fn push<T: DrawTarget>(
        &mut self,
        brush: &Brush<'_>,
        target: &mut T,
        mut next: TubeVertex,
        counts: &mut DrawCounts,
    ) {
        let Some(now) = &mut self.now else {
            if let Some(d) = self.before.take().and_then(|b| (next.center - b).try_normalize()) {
                self.into = d;
                next.end = false;
            }
            self.now = Some(next);
            return;
        };
        let Some(direction) = (next.center - now.center).try_normalize() else {
            // A repeated point has no direction and draws nothing.
            return;
        };
        now.tangent = bend(self.into, direction);
        next.end = false;
        if let Some(last) = &self.last {
            counts.segments += 1;
            brush.piece(target, last, now);
        }
        self.last = self.now.replace(next);
        self.into = direction;
    }

    fn finish<T: DrawTarget>(
        &mut self,
        brush: &Brush<'_>,
        target: &mut T,
        after: Option<Vec3>,
        counts: &mut DrawCounts,
    ) {
        let Some(mut now) = self.now.take() else { return };
        match after.and_then(|a| (a - now.center).try_normalize()) {
            Some(direction) => {
                now.tangent = bend(self.into, direction);
                now.end = false;
            }
            None => {
                now.tangent = self.into;
                now.end = true;
            }
        }
        match self.last.take() {
            Some(last) => {
                counts.segments += 1;
                brush.piece(target, &last, &now);
            }
            None => {
                counts.spheres += 1;
                draw_sphere(target, brush.projector, &brush.paint, &now, brush.lift(now.center.z));
            }
        }
    }
}

/// Direction of a line that arrives along `into` and leaves along `out`.
fn bend(into: Vec3, out: Vec3) -> Vec3 {
    let sum = into + out;
    // A line that turns back has no direction there: use the outgoing one.
    if sum.length_squared() < 1e-3 {
        out
    } else {
        sum
    }
}

/// Rows of a grid in view space, as many as normals need at a time.
struct GridRows<'a> {
    projector: &'a Projector,
    points: Positions<'a>,
    size: [usize; 2],
    held: Vec<(usize, Vec<Vec3>)>,
    /// Whether the first and last points of the rows coincide, and the first and last rows.
    closed: [bool; 2],
    /// Next of `held` to be replaced.
    next: usize,
}

/// Three rows for normals of one row, one for the next, and one more where the grid closes on itself.
const HELD_ROWS: usize = 5;

impl<'a> GridRows<'a> {
    fn new(projector: &'a Projector, points: Positions<'a>, size: [usize; 2]) -> GridRows<'a> {
        let [ni, nj] = size;
        let same = |a: usize, b: usize, near: usize| {
            let (a, b, near) = (points.get(a), points.get(b), points.get(near));
            (a - b).length() <= 1e-5 * (a - near).length()
        };
        let closed_i = ni > 3 && (0..nj).all(|j| same(j * ni, j * ni + ni - 1, j * ni + 1) || collapsed(points, j, ni));
        let closed_j = nj > 3 && (0..ni).all(|i| same(i, (nj - 1) * ni + i, ni + i));
        GridRows { projector, points, size, held: Vec::new(), closed: [closed_i, closed_j], next: 0 }
    }

    fn row(&mut self, j: usize) -> &[Vec3] {
        if let Some(k) = self.held.iter().position(|h| h.0 == j) {
            return &self.held[k].1;
        }
        let mut row = if self.held.len() < HELD_ROWS {
            Vec::with_capacity(self.size[0])
        } else {
            let mut row = std::mem::take(&mut self.held[self.next].1);
            row.clear();
            row
        };
        row.extend((0..self.size[0]).map(|i| self.projector.view(self.points.get(j * self.size[0] + i))));
        if self.held.len() < HELD_ROWS {
            self.held.push((j, row));
            &self.held[self.held.len() - 1].1
        } else {
            let k = self.next;
            self.next = (k + 1) % HELD_ROWS;
            self.held[k] = (j, row);
            &self.held[k].1
        }
    }

    fn at(&mut self, i: usize, j: usize) -> Vec3 {
        self.row(j)[i]
    }

    /// Whether the quads between two rows can touch these rows of pixels.
    fn touches(&mut self, j0: usize, j1: usize, pixels: [f32; 2]) -> bool {
        let p = self.projector.clone();
        let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
        for j in [j0, j1] {
            for v in self.row(j) {
                if v.z > super::projector::NEAR {
                    let (_, y, _) = p.pixel_of(*v);
                    low = low.min(y);
                    high = high.max(y);
                } else if !v.is_nan() {
                    return true;
                }
            }
        }
        low <= pixels[1] && high >= pixels[0]
    }

    /// Positions, normals and scalars of row `j`.
    fn corners(&mut self, j: usize, scalar: &dyn Fn(usize, usize) -> f32, out: &mut Vec<ViewVertex>) {
        let [ni, nj] = self.size;
        out.clear();
        for i in 0..ni {
            let at = self.at(i, j);
            let mut along_i = self.slope(i, ni, self.closed[0], &mut |rows, i| rows.at(i, j));
            if along_i.length_squared() < 1e-12 {
                // A row collapsed to a point, as at a pole: the next row has its direction.
                let other = if j + 1 < nj { j + 1 } else { j - 1 };
                along_i = self.slope(i, ni, self.closed[0], &mut |rows, i| rows.at(i, other));
            }
            let mut along_j = self.slope(j, nj, self.closed[1], &mut |rows, j| rows.at(i, j));
            if along_j.length_squared() < 1e-12 {
                let other = if i + 1 < ni { i + 1 } else { i - 1 };
                along_j = self.slope(j, nj, self.closed[1], &mut |rows, j| rows.at(other, j));
            }
            let normal = along_i.cross(along_j).normalize_or_zero();
            out.push(ViewVertex { at, normal, scalar: scalar(i, j) });
        }
    }

    /// Direction of a grid line at index `k` of `n`, of second order in the length of the chords; zero if there is
    /// none.
    fn slope(&mut self, k: usize, n: usize, closed: bool, at: &mut dyn FnMut(&mut Self, usize) -> Vec3) -> Vec3 {
        let here = at(self, k);
        let mut chord = |rows: &mut Self, to: Option<usize>| {
            let d = to.map(|t| at(rows, t) - here)?;
            // A hole is a missing neighbour.
            (!d.is_nan()).then_some(d)
        };
        let (prev, next) = neighbours(k, n, closed);
        let (back, ahead) = (chord(self, prev), chord(self, next));
        match (back, ahead) {
            (Some(b), Some(a)) => weighted(-b, a),
            (None, Some(a)) => {
                let second = next.and_then(|k| neighbours(k, n, closed).1);
                one_sided(a, chord(self, second))
            }
            (Some(b), None) => {
                let second = prev.and_then(|k| neighbours(k, n, closed).0);
                -one_sided(b, chord(self, second))
            }
            (None, None) => Vec3::ZERO,
        }
    }
}

/// Whether row `j` is one point.
fn collapsed(points: Positions<'_>, j: usize, ni: usize) -> bool {
    let first = points.get(j * ni);
    (1..ni).all(|i| points.get(j * ni + i) == first)
}

fn neighbours(k: usize, n: usize, closed: bool) -> (Option<usize>, Option<usize>) {
    // On a closed line the last point is the first again, so its neighbours are the first's.
    let prev = if k > 0 { Some(k - 1) } else { closed.then(|| n - 2) };
    let next = if k + 1 < n { Some(k + 1) } else { closed.then_some(1) };
    (prev, next)
}

/// Unit direction between two consecutive chords, each weighted by the other's length: of second order on stretched
/// grids.
fn weighted(first: Vec3, second: Vec3) -> Vec3 {
    let (a, b) = (first.length(), second.length());
    match (first.try_normalize(), second.try_normalize()) {
        (Some(f), Some(s)) => f * (b / (a + b)) + s * (a / (a + b)),
        (Some(f), None) => f,
        (None, Some(s)) => s,
        (None, None) => Vec3::ZERO,
    }
}

/// Direction at the start of a line from the chords to its next two points.
fn one_sided(first: Vec3, second: Option<Vec3>) -> Vec3 {
    let Some(f) = first.try_normalize() else { return Vec3::ZERO };
    let Some(rest) = second.map(|s| s - first) else { return f };
    match rest.try_normalize() {
        // A second chord beyond a sharp corner is unrelated to this end.
        Some(s) if s.dot(f) > 0.5 => f + (f - s) * (first.length() / (first.length() + rest.length())),
        _ => f,
    }
}
