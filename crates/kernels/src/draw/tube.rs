//! Lit tubes: each piece of a polyline is the hull of two spheres, intersected exactly with the ray of every sample.
//!
//! # Theory
//! The surface is the envelope of spheres with centre A + sB and radius ra + s dr for s in 0..=1 (a cone-sphere). Let g
//! = B.B - dr^2. A point p = P - A is on the envelope where s = (B.p + dr ra) / g and |p|^2 - ra^2 - (B.p + dr ra)^2 /
//! g = 0. That is a quadratic along a ray. If its nearer root has s outside 0..=1, the ray hits the sphere at that end
//! instead.
//!
//! # Practice
//! Single precision would lose a thin tube in the difference of large squares. So the origin is moved twice: along the
//! ray to its point nearest to the axis, then along the axis to that point's foot. The remaining numbers are as small
//! as the radius. At joints the normal is made orthogonal to the tangent of the *line*. The tangent is interpolated
//! from vertex to vertex, so a bent line is shaded smoothly. Free ends are half spheres.

use super::band::{key, DrawTarget};
use super::colour::Colour;
use super::projector::{Projector, NEAR};
use glam::Vec3;
use wide::f32x8;

/// The data for a primitive's key.
pub(crate) struct TubePaint<'a> {
    pub material: u8,
    pub colour: &'a Colour,
}

impl TubePaint<'_> {
    #[inline]
    pub(crate) fn key(&self, scalar: f32, normal: Vec3) -> u64 {
        let colour = match self.colour {
            Colour::Solid(c) => *c,
            Colour::Mapped(map) => map.colour(scalar),
        };
        key(self.material, colour, normal)
    }
}

/// A vertex of a tube in view space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TubeVertex {
    pub center: Vec3,
    pub radius: f32,
    pub scalar: f32,
    /// Direction of the line here; any length, zero if there is none.
    pub tangent: Vec3,
    /// Whether the line ends here.
    pub end: bool,
    /// Its place in the picture; `None` if that is unbounded (near the plane of the eye).
    disc: Option<Disc>,
}

impl TubeVertex {
    /// A vertex without its line.
    #[inline]
    pub(crate) fn new(p: &Projector, center: Vec3, radius: f32, scalar: f32) -> TubeVertex {
        TubeVertex { center, radius, scalar, tangent: Vec3::ZERO, end: true, disc: disc(p, center, radius) }
    }
}

/// A disc in pixels that contains a sphere's picture.
#[derive(Clone, Copy, Debug)]
struct Disc {
    x: f32,
    y: f32,
    r: f32,
}

#[inline]
fn disc(p: &Projector, center: Vec3, radius: f32) -> Option<Disc> {
    let (x, y, s) = p.pixel_of(center);
    let r = if p.parallel > 0.0 {
        radius * s
    } else {
        // The farthest point of the picture from the centre's is outwards, at the angle theta + alpha from the axis.
        let square = center.length_squared();
        let sin = radius * radius / square;
        let z = center.z;
        let side = (square - z * z).max(0.0).sqrt();
        let across = z * (1.0 - sin).max(0.0).sqrt() - side * sin.sqrt();
        if !(across > 0.05 * z) {
            return None;
        }
        s * radius * square.sqrt() / across
    };
    // A small margin covers the rounding of single precision.
    Some(Disc { x, y, r: r * 1.001 + 0.02 })
}

/// Clips the piece near the eye, or drops it.
fn clip(p: &Projector, a: &TubeVertex, b: &TubeVertex) -> Option<(TubeVertex, TubeVertex)> {
    let front = |n: &TubeVertex| n.center.z - n.radius - NEAR;
    let (fa, fb) = (front(a), front(b));
    if fa > 0.0 && fb > 0.0 {
        return Some((*a, *b));
    }
    if !(fa > 0.0 || fb > 0.0) {
        return None;
    }
    // Slightly in front, so that the cut end passes its own test.
    let t = fa / (fa - fb) + if fa > 0.0 { -1e-4 } else { 1e-4 };
    let t = t.clamp(0.0, 1.0);
    let mix = |a: f32, b: f32| a + (b - a) * t;
    let mut cut = TubeVertex::new(p, a.center.lerp(b.center, t), mix(a.radius, b.radius), mix(a.scalar, b.scalar));
    cut.tangent = a.tangent.lerp(b.tangent, t);
    Some(if fa > 0.0 { (*a, cut) } else { (cut, *b) })
}

/// Draws the hull of two spheres. `bias` moves it towards the eye, in view units.
pub(crate) fn draw_piece<T: DrawTarget>(
    target: &mut T,
    p: &Projector,
    paint: &TubePaint<'_>,
    a: &TubeVertex,
    b: &TubeVertex,
    bias: f32,
) {
    let Some((a, b)) = clip(p, a, b) else { return };
    let axis = b.center - a.center;
    let dr = b.radius - a.radius;
    let square = axis.length_squared();
    if square <= dr * dr * 1.000_001 || square < 1e-30 {
        // One sphere contains the other.
        let larger = if a.radius >= b.radius { &a } else { &b };
        draw_sphere(target, p, paint, larger, bias);
        return;
    }
    let discs = a.disc.zip(b.disc);
    let (low, high) = discs
        .map_or((f32::NEG_INFINITY, f32::INFINITY), |(a, b)| ((a.y - a.r).min(b.y - b.r), (a.y + a.r).max(b.y + b.r)));
    let rows = target.area().row_range(low, high);
    if rows.is_empty() {
        return;
    }
    let hull = discs.map(|(a, b)| Hull::new(a, b));
    let solid = Solid::new(p, &a, &b, axis, dr, square, bias);
    let cell = target.area().lattice.cell;
    for row in rows {
        let y = (row * cell[1]) as f32;
        let (left, right) =
            hull.as_ref().map_or((f32::NEG_INFINITY, f32::INFINITY), |h| h.columns(y, y + cell[1] as f32));
        for column in target.area().column_range(left, right) {
            let first = target.area().index(row, column);
            let x = (column * cell[0]) as f32;
            for group in 0..target.area().lattice.groups.len() {
                if target.visible(first + group, solid.nearest) == 0 {
                    continue;
                }
                let (ox, oy) = target.area().lattice.groups[group];
                let u = ox + f32x8::splat(x);
                let v = oy + f32x8::splat(y);
                solid.draw(target, paint, first + group, u, v);
            }
        }
    }
}

/// The convex hull of two discs, in pixels.
struct Hull {
    a: Disc,
    b: Disc,
    /// The two outer tangents as x, y, x, y, or `None` if one disc contains the other.
    tangents: Option<[[f32; 4]; 2]>,
}

impl Hull {
    fn new(a: Disc, b: Disc) -> Hull {
        let (dx, dy) = (b.x - a.x, b.y - a.y);
        let length = (dx * dx + dy * dy).sqrt();
        let sin = (a.r - b.r) / length;
        // A hull a few pixels across is its box: tangents would take longer than they save.
        let small = length + a.r.max(b.r) * 2.0 < 4.0;
        let tangents = (!small && sin.abs() < 1.0).then(|| {
            let cos = (1.0 - sin * sin).sqrt();
            let (ex, ey) = (dx / length, dy / length);
            [1.0f32, -1.0].map(|side| {
                let (nx, ny) = (ex * sin - ey * cos * side, ey * sin + ex * cos * side);
                [a.x + nx * a.r, a.y + ny * a.r, b.x + nx * b.r, b.y + ny * b.r]
            })
        });
        Hull { a, b, tangents }
    }

    /// Leftmost and rightmost position between the rows `low` and `high`.
    fn columns(&self, low: f32, high: f32) -> (f32, f32) {
        let (mut left, mut right) = (f32::INFINITY, f32::NEG_INFINITY);
        let Some(tangents) = &self.tangents else {
            left = (self.a.x - self.a.r).min(self.b.x - self.b.r);
            right = (self.a.x + self.a.r).max(self.b.x + self.b.r);
            return (left, right);
        };
        for d in [&self.a, &self.b] {
            let away = d.y.clamp(low, high) - d.y;
            let square = d.r * d.r - away * away;
            if square >= 0.0 {
                let half = square.sqrt();
                left = left.min(d.x - half);
                right = right.max(d.x + half);
            }
        }
        for [x0, y0, x1, y1] in tangents {
            let (lo, hi) = (y0.min(*y1).max(low), y0.max(*y1).min(high));
            if lo > hi {
                continue;
            }
            let slope = (x1 - x0) / (y1 - y0);
            if slope.is_finite() {
                for y in [lo, hi] {
                    let x = (x0 + (y - y0) * slope).clamp(x0.min(*x1), x0.max(*x1));
                    left = left.min(x);
                    right = right.max(x);
                }
            } else {
                left = left.min(x0.min(*x1));
                right = right.max(x0.max(*x1));
            }
        }
        // A margin for rounding.
        (left - 0.02, right + 0.02)
    }
}

/// A cone-sphere prepared for rays.
struct Solid {
    /// slopes = u * inv - center * inv
    inv: f32x8,
    cx: f32x8,
    cy: f32x8,
    par: f32x8,
    cen: f32x8,
    depth_scale: f32x8,
    bias: f32x8,
    /// Depth in front of all its points.
    nearest: f32x8,
    /// Depth of the plane from which rays start.
    zc: f32,
    a: TubeVertex,
    b: TubeVertex,
    axis: Vec3,
    /// Unit axis.
    e: Vec3,
    dr: f32,
    inv_square: f32,
    inv_g: f32,
}

impl Solid {
    fn new(p: &Projector, a: &TubeVertex, b: &TubeVertex, axis: Vec3, dr: f32, square: f32, bias: f32) -> Solid {
        let nearest = (a.center.z - a.radius).min(b.center.z - b.radius) - bias;
        // Rounding may put a point in front of its sphere by a few units in the last place.
        let nearest = (nearest - nearest.abs() * 1e-5).max(0.0) * p.depth_scale;
        Solid {
            inv: f32x8::splat(1.0 / p.scale),
            cx: f32x8::splat(p.center[0]),
            cy: f32x8::splat(p.center[1]),
            par: f32x8::splat(p.parallel),
            cen: f32x8::splat(p.central),
            depth_scale: f32x8::splat(p.depth_scale),
            bias: f32x8::splat(bias),
            nearest: f32x8::splat(nearest),
            zc: (a.center.z + b.center.z) * 0.5,
            a: *a,
            b: *b,
            axis,
            e: axis / square.sqrt(),
            dr,
            inv_square: 1.0 / square,
            inv_g: 1.0 / (square - dr * dr),
        }
    }

    /// Tests the rays through (u, v) and stores visible points.
    #[inline]
    fn draw<T: DrawTarget>(&self, target: &mut T, paint: &TubePaint<'_>, index: usize, u: f32x8, v: f32x8) {
        let s = f32x8::splat;
        let zero = s(0.0);
        let slope_x = (u - self.cx) * self.inv;
        let slope_y = (self.cy - v) * self.inv;
        let ray = [slope_x * self.cen, slope_y * self.cen, s(1.0)];
        let wide = self.par + self.cen * s(self.zc);
        let a = self.a.center;
        // Ray at depth zc, seen from A.
        let o = [slope_x * wide - s(a.x), slope_y * wide - s(a.y), s(self.zc - a.z)];
        let e = [s(self.e.x), s(self.e.y), s(self.e.z)];
        let axis = [s(self.axis.x), s(self.axis.y), s(self.axis.z)];
        // Parts across the axis.
        let (oe, de) = (dot(o, e), dot(ray, e));
        let w = sub(o, scale(e, oe));
        let across = sub(ray, scale(e, de));
        let dd = dot(ray, ray);
        let t0 = -dot(w, across) / dot(across, across).max(dd * s(1e-8));
        let w = add(w, scale(across, t0));
        // Foot of the nearest point on the axis, as a share of the piece, and the radius there.
        let s0 = dot(add(o, scale(ray, t0)), axis) * s(self.inv_square);
        let r0 = s(self.a.radius) + s0 * s(self.dr);
        let inv_g = s(self.inv_g);
        let along = dot(ray, axis);
        let u0 = r0 * s(self.dr);
        let a2 = dd - along * along * inv_g;
        let a1 = dot(w, ray) - u0 * along * inv_g;
        let a0 = dot(w, w) - r0 * r0 - u0 * u0 * inv_g;
        let disc = a1 * a1 - a2 * a0;
        // Along the axis, inside the cone's own angle.
        let end_on = a2.simd_lt(dd * s(1e-5));
        let possible = disc.simd_gt(zero) | end_on;
        if possible.to_bitmask() == 0 {
            return;
        }
        let root = disc.max(zero).sqrt();
        let mut t1 = (-a1 - root) / a2;
        let mut step = (t1 * along + u0) * inv_g;
        let mut share = s0 + step;
        if end_on.to_bitmask() != 0 {
            // The side is visible only if the tube widens away from the eye; the root's other form is valid for a2 = 0.
            // Otherwise only the end that faces the eye is visible.
            let side = disc.simd_gt(zero) & (along * s(self.dr)).simd_gt(zero);
            t1 = (end_on & a1.simd_lt(zero)).select(a0 / (root - a1), t1);
            step = (t1 * along + u0) * inv_g;
            let facing = along.simd_gt(zero).select(s(-1.0), s(2.0));
            share = (end_on & !side).select(facing, s0 + step);
        }
        let before = share.simd_lt(zero);
        let beyond = share.simd_gt(s(1.0));
        let capped = before | beyond;
        let mut z = t0 + t1 + s(self.zc);
        let mut hit = possible;
        let mut normal = sub(add(w, scale(ray, t1)), scale(axis, step));
        if capped.to_bitmask() != 0 {
            let pick = |f: fn(&TubeVertex) -> f32| before.select(s(f(&self.a)), s(f(&self.b)));
            let center = [pick(|n| n.center.x), pick(|n| n.center.y), pick(|n| n.center.z)];
            let radius = pick(|n| n.radius);
            let at = self.par + self.cen * center[2];
            let q = [slope_x * at - center[0], slope_y * at - center[1], zero];
            let qd = q[0] * ray[0] + q[1] * ray[1];
            let disc = qd * qd - dd * (q[0] * q[0] + q[1] * q[1] - radius * radius);
            let t = (-qd - disc.max(zero).sqrt()) / dd;
            hit = capped.select(disc.simd_gt(zero), hit);
            z = capped.select(t + center[2], z);
            let n = add(q, scale(ray, t));
            normal = [capped.select(n[0], normal[0]), capped.select(n[1], normal[1]), capped.select(n[2], normal[2])];
        }
        let depth = (z - self.bias).max(s(NEAR)) * self.depth_scale;
        // A missed lane must stay invisible, whatever its number.
        let mut mask = (hit.to_bitmask()) & target.visible(index, depth);
        if mask == 0 {
            return;
        }
        let share = share.max(zero).min(s(1.0));
        // Make the normal orthogonal to the line's direction, except on the half spheres of free ends.
        let direction = [
            s(self.a.tangent.x) + share * s(self.b.tangent.x - self.a.tangent.x),
            s(self.a.tangent.y) + share * s(self.b.tangent.y - self.a.tangent.y),
            s(self.a.tangent.z) + share * s(self.b.tangent.z - self.a.tangent.z),
        ];
        let length = dot(direction, direction).max(s(1e-30));
        let round = (if self.a.end { before } else { zero }) | (if self.b.end { beyond } else { zero });
        let turn = round.select(zero, dot(normal, direction) / length);
        let normal = sub(normal, scale(direction, turn));
        let inv = s(1.0) / dot(normal, normal).max(s(1e-30)).sqrt();
        let normal = scale(normal, inv).map(|n| n.to_array());
        let (depth, share) = (depth.to_array(), share.to_array());
        while mask != 0 {
            let lane = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            target.put(index, lane, depth[lane], || {
                let n = Vec3::new(normal[0][lane], normal[1][lane], normal[2][lane]);
                paint.key(self.a.scalar + (self.b.scalar - self.a.scalar) * share[lane], n)
            });
        }
    }
}

type Lanes = [f32x8; 3];

#[inline]
fn dot(a: Lanes, b: Lanes) -> f32x8 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

#[inline]
fn add(a: Lanes, b: Lanes) -> Lanes {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

#[inline]
fn sub(a: Lanes, b: Lanes) -> Lanes {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

#[inline]
fn scale(a: Lanes, k: f32x8) -> Lanes {
    [a[0] * k, a[1] * k, a[2] * k]
}

pub(crate) fn draw_sphere<T: DrawTarget>(
    target: &mut T,
    p: &Projector,
    paint: &TubePaint<'_>,
    n: &TubeVertex,
    bias: f32,
) {
    if !(n.center.z - n.radius > NEAR) {
        return;
    }
    let bounds = n.disc;
    let (low, high) = bounds.map_or((f32::NEG_INFINITY, f32::INFINITY), |d| (d.y - d.r, d.y + d.r));
    let cell = target.area().lattice.cell;
    let s = f32x8::splat;
    for row in target.area().row_range(low, high) {
        let y = (row * cell[1]) as f32;
        let (left, right) = bounds.map_or((f32::NEG_INFINITY, f32::INFINITY), |d| {
            let away = d.y.clamp(y, y + cell[1] as f32) - d.y;
            let half = (d.r * d.r - away * away).max(0.0).sqrt();
            (d.x - half, d.x + half)
        });
        for column in target.area().column_range(left, right) {
            let first = target.area().index(row, column);
            let x = (column * cell[0]) as f32;
            for group in 0..target.area().lattice.groups.len() {
                let (ox, oy) = target.area().lattice.groups[group];
                let slope_x = (ox + s(x) - s(p.center[0])) * s(1.0 / p.scale);
                let slope_y = (s(p.center[1]) - (oy + s(y))) * s(1.0 / p.scale);
                let at = s(p.parallel + p.central * n.center.z);
                let q = [slope_x * at - s(n.center.x), slope_y * at - s(n.center.y), s(0.0)];
                let ray = [slope_x * s(p.central), slope_y * s(p.central), s(1.0)];
                let (qd, dd) = (dot(q, ray), dot(ray, ray));
                let disc = qd * qd - dd * (dot(q, q) - s(n.radius * n.radius));
                let hit = disc.simd_gt(s(0.0)).to_bitmask();
                if hit == 0 {
                    continue;
                }
                let t = (-qd - disc.max(s(0.0)).sqrt()) / dd;
                let depth = (t + s(n.center.z - bias)).max(s(NEAR)) * s(p.depth_scale);
                let mut mask = hit & target.visible(first + group, depth);
                let normal = add(q, scale(ray, t)).map(|v| v.to_array());
                let depth = depth.to_array();
                while mask != 0 {
                    let lane = mask.trailing_zeros() as usize;
                    mask &= mask - 1;
                    target.put(first + group, lane, depth[lane], || {
                        paint.key(n.scalar, Vec3::new(normal[0][lane], normal[1][lane], normal[2][lane]) / n.radius)
                    });
                }
            }
        }
    }
}
