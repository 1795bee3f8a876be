//! Triangles: exact coverage of samples, depth and normals linear over the plane.
//!
//! # Theory
//! A sample is inside if it is on the inner side of the three edges (Pineda 1988). Each edge's function is computed
//! from its end points in one canonical order. So the two triangles at an edge get the same number for a sample, and
//! share it without gap or overlap. Inverse depth is linear in the picture; attributes become linear when divided by
//! depth.

use super::band::DrawTarget;
use super::projector::{Projector, NEAR};
use super::tube::TubePaint;
use glam::Vec3;
use wide::f32x8;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewVertex {
    pub at: Vec3,
    /// Any length, either side.
    pub normal: Vec3,
    pub scalar: f32,
}

impl ViewVertex {
    fn mix(&self, other: &ViewVertex, t: f32) -> ViewVertex {
        ViewVertex {
            at: self.at.lerp(other.at, t),
            normal: self.normal.lerp(other.normal, t),
            scalar: self.scalar + (other.scalar - self.scalar) * t,
        }
    }
}

/// Draws a triangle, lit on both sides. Without `smooth` it has the normal of its plane.
pub(crate) fn draw_triangle<T: DrawTarget>(
    target: &mut T,
    p: &Projector,
    paint: &TubePaint<'_>,
    corners: &[ViewVertex; 3],
    smooth: bool,
) {
    let behind = corners.iter().filter(|c| !(c.at.z > NEAR)).count();
    match behind {
        0 => draw_front(target, p, paint, corners, smooth),
        3 => {}
        _ => {
            // Clipped at the near plane (Sutherland and Hodgman): three or four corners remain. Each cut runs from the
            // corner in front to the one behind, so that neighbours cut their common edge at the same point.
            let mut kept = [corners[0]; 4];
            let mut n = 0;
            for i in 0..3 {
                let (a, b) = (&corners[i], &corners[(i + 1) % 3]);
                let (fa, fb) = (a.at.z > NEAR, b.at.z > NEAR);
                if fa {
                    kept[n] = *a;
                    n += 1;
                }
                if fa != fb {
                    let (front, back) = if fa { (a, b) } else { (b, a) };
                    let t = (front.at.z - NEAR) / (front.at.z - back.at.z);
                    let mut cut = front.mix(back, t);
                    cut.at.z = NEAR;
                    kept[n] = cut;
                    n += 1;
                }
            }
            let face = face_normal(corners);
            for i in 2..n {
                let mut piece = [kept[0], kept[i - 1], kept[i]];
                if !smooth {
                    piece.iter_mut().for_each(|c| c.normal = face);
                }
                draw_front(target, p, paint, &piece, true);
            }
        }
    }
}

fn face_normal(c: &[ViewVertex; 3]) -> Vec3 {
    (c[1].at - c[0].at).cross(c[2].at - c[0].at).normalize_or_zero()
}

/// An edge's function: positive on one side, in canonical order of its ends.
struct Edge {
    x: f32,
    y: f32,
    dx: f32,
    dy: f32,
    /// Whether the function is not negative on the inner side.
    positive: bool,
}

impl Edge {
    /// The edge from `a` to `b`, the third corner at `c`. `winding` is that of a, b, c.
    fn new(a: [f32; 2], b: [f32; 2], winding: f32) -> Edge {
        let swap = (b[1], b[0]) < (a[1], a[0]);
        let (from, to) = if swap { (b, a) } else { (a, b) };
        Edge { x: from[0], y: from[1], dx: to[0] - from[0], dy: to[1] - from[1], positive: (winding > 0.0) != swap }
    }

    #[inline]
    fn inside(&self, u: f32x8, v: f32x8) -> u32 {
        let f = f32x8::splat(self.dx) * (v - f32x8::splat(self.y)) - f32x8::splat(self.dy) * (u - f32x8::splat(self.x));
        let zero = f32x8::splat(0.0);
        if self.positive {
            f.simd_ge(zero).to_bitmask()
        } else {
            f.simd_lt(zero).to_bitmask()
        }
    }

    /// Leftmost and rightmost position of the edge between two rows.
    fn columns(&self, low: f32, high: f32) -> Option<(f32, f32)> {
        // Canonical order: y does not fall from start to end.
        let (lo, hi) = (self.y.max(low), (self.y + self.dy).min(high));
        if !(lo <= hi) {
            return None;
        }
        let slope = self.dx / self.dy;
        let end = self.x + self.dx;
        if !slope.is_finite() {
            return Some((self.x.min(end), self.x.max(end)));
        }
        let (a, b) = (self.x + (lo - self.y) * slope, self.x + (hi - self.y) * slope);
        Some((a.min(b), a.max(b)))
    }
}

fn draw_front<T: DrawTarget>(target: &mut T, p: &Projector, paint: &TubePaint<'_>, c: &[ViewVertex; 3], smooth: bool) {
    let px = c.map(|c| {
        let (x, y, _) = p.pixel_of(c.at);
        [x, y]
    });
    let (low, high) = (px[0][1].min(px[1][1]).min(px[2][1]), px[0][1].max(px[1][1]).max(px[2][1]));
    let rows = target.area().row_range(low, high);
    if rows.is_empty() {
        return;
    }
    let (d1, d2) = ([px[1][0] - px[0][0], px[1][1] - px[0][1]], [px[2][0] - px[0][0], px[2][1] - px[0][1]]);
    let area = d1[0] * d2[1] - d1[1] * d2[0];
    if area == 0.0 || !area.is_finite() {
        return;
    }
    let edges = [Edge::new(px[0], px[1], area), Edge::new(px[1], px[2], area), Edge::new(px[2], px[0], area)];
    let inv_area = 1.0 / area;
    // Weights of depth: it is linear for parallel rays.
    let w = c.map(|c| 1.0 / (p.parallel + p.central * c.at.z));
    let face = face_normal(c);
    // A corner seen from behind is lit from its other side. The triangle's plane decides for all three.
    let middle = c[0].at * p.central + Vec3::Z * p.parallel;
    let side = if face.dot(middle) > 0.0 { -1.0 } else { 1.0 };
    let normals: [Vec3; 3] = if smooth {
        c.map(|c| {
            let n = c.normal;
            // A normal may point to either side of its surface: use the triangle's side.
            if n.dot(face) < 0.0 {
                -n * side
            } else {
                n * side
            }
        })
    } else {
        [face * side; 3]
    };
    let cell = target.area().lattice.cell;
    let s = f32x8::splat;
    let zs = c.map(|c| c.at.z);
    let (z_low, z_high) = (zs[0].min(zs[1]).min(zs[2]), zs[0].max(zs[1]).max(zs[2]));
    for row in rows {
        let y = (row * cell[1]) as f32;
        let below = y + cell[1] as f32;
        let (left, right) = edges
            .iter()
            .filter_map(|e| e.columns(y, below))
            .fold((f32::INFINITY, f32::NEG_INFINITY), |s, e| (s.0.min(e.0), s.1.max(e.1)));
        for column in target.area().column_range(left - 0.02, right + 0.02) {
            let first = target.area().index(row, column);
            let x = (column * cell[0]) as f32;
            for group in 0..target.area().lattice.groups.len() {
                let (ox, oy) = target.area().lattice.groups[group];
                let (u, v) = (ox + s(x), oy + s(y));
                let inside = edges[0].inside(u, v) & edges[1].inside(u, v) & edges[2].inside(u, v);
                if inside == 0 {
                    continue;
                }
                let (ru, rv) = (u - s(px[0][0]), v - s(px[0][1]));
                let zero = s(0.0);
                // Linear weights of the corners, clamped to the triangle, since a sliver's are mostly rounding.
                let b1 = ((ru * s(d2[1]) - rv * s(d2[0])) * s(inv_area)).max(zero).min(s(1.0));
                let b2 = ((rv * s(d1[0]) - ru * s(d1[1])) * s(inv_area)).max(zero).min(s(1.0) - b1);
                let b0 = s(1.0) - b1 - b2;
                let (q0, q1, q2) = (b0 * s(w[0]), b1 * s(w[1]), b2 * s(w[2]));
                let inv = s(1.0) / (q0 + q1 + q2);
                let (q0, q1, q2) = (q0 * inv, q1 * inv, q2 * inv);
                let z = (q0 * s(zs[0]) + q1 * s(zs[1]) + q2 * s(zs[2])).max(s(z_low)).min(s(z_high));
                let depth = z * s(p.depth_scale);
                let mut mask = inside & target.visible(first + group, depth);
                if mask == 0 {
                    continue;
                }
                let (depth, q0, q1, q2) = (depth.to_array(), q0.to_array(), q1.to_array(), q2.to_array());
                while mask != 0 {
                    let lane = mask.trailing_zeros() as usize;
                    mask &= mask - 1;
                    target.put(first + group, lane, depth[lane], || {
                        let n = normals[0] * q0[lane] + normals[1] * q1[lane] + normals[2] * q2[lane];
                        let n = n.try_normalize().unwrap_or(face * side);
                        paint.key(c[0].scalar * q0[lane] + c[1].scalar * q1[lane] + c[2].scalar * q2[lane], n)
                    });
                }
            }
        }
    }
}
