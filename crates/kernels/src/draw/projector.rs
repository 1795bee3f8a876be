//! From physical space to pixels: double precision up to the eye, single precision from there.
//!
//! *View space* has x to the right, y up and z away from the eye. Its origin is the eye, and its unit the radius of the
//! scene. So its numbers are near one for any unit of the data, and single precision resolves a pixel at any place.

use super::camera::{clamp_bounds, radius_of, Camera, CameraError, Lens, MAX_COORDINATE};
use super::geometry::Aabb;
use glam::{DMat3, DVec3, Vec3};

/// Smallest depth of the scene, in view units. Annotations in front of everything (the orientation axes) have smaller
/// depths.
pub(crate) const NEAR: f32 = 1e-4;

/// Maps physical space to view space and view space to pixels.
///
/// A ray through the pixel position (u, v) has a = (u - cx) / scale and b = -(v - cy) / scale and consists of the points
/// `(a, b, 0) * parallel + t * (a * central, b * central, 1)`.
#[derive(Clone, Debug)]
pub struct Projector {
    eye: DVec3,
    /// Rows are right, up, forward, divided by the unit.
    rows: DMat3,
    /// Physical length of one view unit.
    pub(crate) unit: f64,
    /// Pixels a unit of x / z (central) or of x (parallel).
    pub(crate) scale: f32,
    /// Pixel position of the line of sight.
    pub(crate) center: [f32; 2],
    /// 1 for parallel rays, 0 for central ones.
    pub(crate) parallel: f32,
    /// 1 - `parallel`.
    pub(crate) central: f32,
    /// Stored depth is z * depth_scale.
    pub(crate) depth_scale: f32,
}

impl Projector {
    /// The projector of a camera for a picture of `size` pixels that shows `bounds`.
    ///
    /// # Errors
    /// [`CameraError`] for an invalid camera.
    pub fn new(camera: &Camera, size: [u32; 2], bounds: &Aabb) -> Result<Projector, CameraError> {
        camera.check()?;
        let bounds = clamp_bounds(bounds);
        let unit = radius_of(&bounds);
        let axes = camera.axes();
        let [width, height] = size.map(f64::from);
        let mut eye = DVec3::from_array(camera.position);
        let (scale, parallel) = match camera.lens {
            Lens::Perspective { fov_degrees } => (height * 0.5 / (fov_degrees.to_radians() * 0.5).tan(), 0.0),
            Lens::Orthographic { height: shown } => {
                // The position along parallel rays does not matter: the eye is put where all of the scene is in front.
                let middle = bounds.center();
                let along = (middle - eye).dot(axes.z_axis);
                eye += axes.z_axis * (along - 3.0 * unit);
                (height / shown * unit, 1.0)
            }
        };
        Ok(Projector {
            eye,
            rows: axes.transpose() * (1.0 / unit),
            unit,
            scale: scale as f32,
            center: [(camera.center[0] * width) as f32, (camera.center[1] * height) as f32],
            parallel,
            central: 1.0 - parallel,
            depth_scale: 1.0,
        })
    }

    /// A parallel projector along `like`'s line of sight, for orientation axes. One view unit is `pixels` pixels, and
    /// the physical origin appears at `at`. All of it is in front of everything else.
    pub(crate) fn gizmo(like: &Projector, at: [f32; 2], pixels: f32) -> Projector {
        let rows = like.rows * like.unit;
        Projector {
            eye: rows.transpose() * DVec3::new(0.0, 0.0, -2.0),
            rows,
            unit: 1.0,
            scale: pixels,
            center: at,
            parallel: 1.0,
            central: 0.0,
            depth_scale: NEAR * 0.25,
        }
    }

    /// Distance of its eye in front of a camera's position along the line of sight.
    pub(crate) fn ahead_of(&self, camera: &Camera) -> f64 {
        let forward = self.rows.transpose().z_axis * self.unit;
        (self.eye - DVec3::from_array(camera.position)).dot(forward)
    }

    /// The same view at another resolution: `factor` pixels of it for one of this.
    pub(crate) fn scaled(&self, factor: f32) -> Projector {
        Projector { scale: self.scale * factor, center: self.center.map(|c| c * factor), ..self.clone() }
    }

    /// View position of a physical point, or NaNs for an undrawable one.
    #[inline]
    pub fn view(&self, p: DVec3) -> Vec3 {
        if p.abs().cmple(DVec3::splat(MAX_COORDINATE)).all() {
            (self.rows * (p - self.eye)).as_vec3()
        } else {
            Vec3::NAN
        }
    }

    /// View direction of a physical direction; the length is kept.
    #[inline]
    pub fn view_direction(&self, d: Vec3) -> Vec3 {
        (self.rows * d.as_dvec3() * self.unit).as_vec3()
    }

    /// Pixel position (from the left, from the top) and pixels a view unit at a view position in front of the eye.
    #[inline]
    pub fn pixel_of(&self, v: Vec3) -> (f32, f32, f32) {
        let s = self.scale_at(v.z);
        (self.center[0] + v.x * s, self.center[1] - v.y * s, s)
    }

    /// Pixels a view unit at depth z.
    #[inline]
    pub fn scale_at(&self, z: f32) -> f32 {
        self.scale / (self.parallel + self.central * z)
    }

    /// Slopes (a, b) of the ray through a pixel position.
    #[inline]
    pub(crate) fn slopes(&self, u: f32, v: f32) -> (f32, f32) {
        ((u - self.center[0]) / self.scale, (self.center[1] - v) / self.scale)
    }

    /// View position on the ray with slopes (a, b) at depth z.
    #[inline]
    pub(crate) fn at(&self, a: f32, b: f32, z: f32) -> Vec3 {
        let w = self.parallel + self.central * z;
        Vec3::new(a * w, b * w, z)
    }

    /// Unit vector from the point of a ray towards the eye.
    #[inline]
    pub(crate) fn to_eye(&self, a: f32, b: f32) -> Vec3 {
        Vec3::new(-a * self.central, -b * self.central, -1.0).normalize()
    }

    /// First and last row (exclusive) that `bounds`, widened by `pad` pixels, can touch; `None` if it is behind the
    /// eye.
    pub(crate) fn rows_of(&self, bounds: &Aabb, pad: f32) -> Option<[f32; 2]> {
        if bounds.is_empty() {
            return None;
        }
        let mut rows = [f32::INFINITY, f32::NEG_INFINITY];
        let mut behind = 0;
        for c in clamp_bounds(bounds).corners() {
            let v = self.view(c);
            if v.z <= NEAR {
                behind += 1;
                continue;
            }
            let (_, y, _) = self.pixel_of(v);
            rows = [rows[0].min(y), rows[1].max(y)];
        }
        match behind {
            0 => Some([rows[0] - pad, rows[1] + pad]),
            8 => None,
            // A box across the eye's plane can reach any row.
            _ => Some([f32::NEG_INFINITY, f32::INFINITY]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::camera::{Frame, View};

    #[test]
    fn a_ray_goes_through_its_pixel() {
        let bounds = Aabb::of([DVec3::splat(1e6), DVec3::splat(1e6 + 4.0)]);
        for fov in [None, Some(40.0)] {
            let camera = Camera::fit(&bounds, &View { fov_degrees: fov, ..View::of(&bounds) }, &Frame::new([640, 480]));
            let p = Projector::new(&camera, [640, 480], &bounds).unwrap();
            let v = p.view(DVec3::new(1e6 + 1.0, 1e6 + 3.0, 1e6 + 2.5));
            let (x, y, _) = p.pixel_of(v);
            let (a, b) = p.slopes(x, y);
            assert!((p.at(a, b, v.z) - v).length() < 1e-5, "{fov:?}");
        }
    }

    #[test]
    fn the_target_appears_at_the_center() {
        let camera = Camera {
            position: [0.0, -10.0, 0.0],
            target: [0.0, 0.0, 0.0],
            up: [0.0, 0.0, 1.0],
            lens: Lens::Perspective { fov_degrees: 90.0 },
            center: [0.25, 0.5],
        };
        let bounds = Aabb::of([DVec3::NEG_ONE, DVec3::ONE]);
        let p = Projector::new(&camera, [400, 200], &bounds).unwrap();
        let (x, y, _) = p.pixel_of(p.view(DVec3::ZERO));
        assert_eq!((x, y), (100.0, 100.0));
        // A point ten away at 45 degrees up is at the upper edge; x points to the right.
        let (x, y, _) = p.pixel_of(p.view(DVec3::new(5.0, 0.0, 10.0)));
        assert!((x - 150.0).abs() < 1e-3 && y.abs() < 1e-3);
        assert!(p.view(DVec3::new(f64::NAN, 0.0, 0.0)).is_nan());
    }
}
