//! Cameras, and their choice from the bounds of a scene.

use super::geometry::Aabb;
use glam::{DMat3, DVec3};
use serde::{Deserialize, Serialize};

/// Larger coordinates are not drawn. Their squares, and the squares of their differences, must stay finite, also for a
/// distant camera.
pub const MAX_COORDINATE: f64 = 1e140;

/// Bound of a camera's own numbers.
const CAMERA_LIMIT: f64 = 1e150;

/// How depth turns into a picture.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Lens {
    /// Central projection.
    Perspective {
        /// Angle from the lower to the upper edge of the picture, degrees, between 0.1 and 170.
        fov_degrees: f64,
    },
    /// Parallel projection.
    Orthographic {
        /// Physical height that the picture shows, above 0.
        height: f64,
    },
}

/// A camera in physical space.
///
/// ```
/// use kernels::draw::{Aabb, Camera, Frame, View};
/// use glam::DVec3;
/// let bounds = Aabb::of([DVec3::splat(-1.0), DVec3::splat(1.0)]);
/// let camera = Camera::fit(&bounds, &View::of(&bounds), &Frame::new([1920, 1080]));
/// assert!(camera.position[2] > 1.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Camera {
    /// The eye.
    pub position: [f64; 3],
    /// The point looked at; it appears at `center`.
    pub target: [f64; 3],
    /// A direction that points up in the picture. If it is along the line of sight, the nearest other axis replaces it.
    #[serde(default = "default_up")]
    pub up: [f64; 3],
    /// Projection.
    pub lens: Lens,
    /// Where `target` appears, as fractions of the picture's width (from the left) and height (from the top).
    #[serde(default = "middle")]
    pub center: [f64; 2],
}

fn middle() -> [f64; 2] {
    [0.5, 0.5]
}

fn default_up() -> [f64; 3] {
    [0.0, 0.0, 1.0]
}

/// Why a camera is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CameraError {
    /// A number is not finite, or too large.
    #[error("the camera's {0} is not a finite number below 1e150")]
    NotFinite(&'static str),
    /// Position and target are the same point.
    #[error("the camera's position and target are the same point")]
    NoDirection,
    /// The angle is out of range.
    #[error("the camera's angle of {0} degrees is not between 0.1 and 170")]
    BadAngle(f64),
    /// The height is not positive.
    #[error("the camera's height of {0} is not positive")]
    BadHeight(f64),
}

/// A picture's size and the margins for drawing on top of it, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Width and height.
    pub size: [u32; 2],
    /// Left, top, right, bottom margins outside of the scene.
    pub insets: [f64; 4],
}

impl Frame {
    /// A frame without margins.
    pub fn new(size: [u32; 2]) -> Frame {
        Frame { size, insets: [0.0; 4] }
    }
}

/// The direction of a view, before its distance is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// From the scene to the eye; any length.
    pub direction: DVec3,
    /// Up in the picture.
    pub up: DVec3,
    /// Angle of a perspective view in degrees, or `None` for a parallel one.
    pub fov_degrees: Option<f64>,
}

/// Angle of the default view: far enough that tubes keep their thickness from front to back, near enough to show depth.
const DEFAULT_FOV: f64 = 18.0;

/// A box thinner than this share of its longest edge counts as flat. It is shown face-on, as a plane.
const FLAT: f64 = 1e-3;

/// Share of the free rectangle for a fitted scene. The rest is for the thickness of tubes, and margin.
const FILL: f64 = 0.92;

impl View {
    /// A default view of `bounds`.
    ///
    /// Flat data is seen face-on in parallel projection, with its axes to the right and up. Everything else is seen
    /// from the side of negative y, from above and somewhat upstream of x, so that x points right and z up. Larger
    /// sides of the box are turned more to the eye.
    pub fn of(bounds: &Aabb) -> View {
        let e = clamp_bounds(bounds).extent();
        let longest = e.max_element();
        let thin = |v: f64| v <= longest * FLAT;
        let flat = [thin(e.x), thin(e.y), thin(e.z)];
        if longest > 0.0 && flat.iter().filter(|f| **f).count() == 1 {
            let (direction, up) = match flat {
                [true, _, _] => (DVec3::X, DVec3::Z),
                [_, true, _] => (DVec3::NEG_Y, DVec3::Z),
                _ => (DVec3::Z, DVec3::Y),
            };
            return View { direction, up, fov_degrees: None };
        }
        // Areas of the sides, as shares of the largest, each with a floor so that no side disappears.
        let e = e.max(DVec3::splat(longest * 0.05)).max(DVec3::splat(f64::MIN_POSITIVE));
        let e = e / e.max_element();
        let areas = DVec3::new(e.y * e.z, e.x * e.z, e.x * e.y);
        let weight = |a: f64| (a / areas.max_element()).powf(0.4).max(0.28);
        let direction = DVec3::new(-0.55 * weight(areas.x), -weight(areas.y), 0.55 * weight(areas.z));
        View { direction: direction.normalize(), up: DVec3::Z, fov_degrees: Some(DEFAULT_FOV) }
    }
}

/// Bounds within [`MAX_COORDINATE`]. A point gets some size.
pub(crate) fn clamp_bounds(bounds: &Aabb) -> Aabb {
    let limit = DVec3::splat(MAX_COORDINATE);
    if bounds.is_empty() || !bounds.min.is_finite() || !bounds.max.is_finite() {
        return Aabb { min: DVec3::splat(-0.5), max: DVec3::splat(0.5) };
    }
    Aabb { min: bounds.min.clamp(-limit, limit), max: bounds.max.clamp(-limit, limit) }
}

/// Half the diagonal, and something in proportion for a box that is one point.
pub(crate) fn radius_of(bounds: &Aabb) -> f64 {
    let r = bounds.extent().length() * 0.5;
    // The least size of a box that double precision resolves: a millionth of its distance from the origin.
    let least = bounds.min.abs().max(bounds.max.abs()).max_element() * 1e-6;
    if r > 0.0 {
        r.max(least * 1e-3)
    } else {
        least.max(0.5)
    }
}

impl Camera {
    /// The camera that shows all of `bounds` from the direction of `view`, as large as the frame's free rectangle
    /// allows.
    pub fn fit(bounds: &Aabb, view: &View, frame: &Frame) -> Camera {
        let mut bounds = clamp_bounds(bounds);
        if bounds.extent().length() == 0.0 {
            let radius = radius_of(&bounds);
            bounds = Aabb { min: bounds.min - radius, max: bounds.max + radius };
        }
        let mut fit = Fit::new(&bounds, view, frame);
        for corner in bounds.corners() {
            fit.include(corner, 0.0);
        }
        fit.camera()
    }

    /// Checks every number.
    ///
    /// # Errors
    /// [`CameraError`] names the invalid number.
    pub fn check(&self) -> Result<(), CameraError> {
        let ok = |v: &[f64]| v.iter().all(|x| x.abs() <= CAMERA_LIMIT);
        for (values, name) in [(&self.position, "position"), (&self.target, "target"), (&self.up, "up")] {
            if !ok(values) {
                return Err(CameraError::NotFinite(name));
            }
        }
        if !(ok(&self.center) && self.center.iter().all(|c| c.abs() <= 100.0)) {
            return Err(CameraError::NotFinite("center"));
        }
        if self.position == self.target {
            return Err(CameraError::NoDirection);
        }
        match self.lens {
            Lens::Perspective { fov_degrees } if !(0.1..=170.0).contains(&fov_degrees) => {
                Err(CameraError::BadAngle(fov_degrees))
            }
            Lens::Orthographic { height } if !(height > 0.0 && height <= CAMERA_LIMIT) => {
                Err(CameraError::BadHeight(height))
            }
            _ => Ok(()),
        }
    }

    /// Right, up and forward as columns.
    pub fn axes(&self) -> DMat3 {
        basis(DVec3::from_array(self.target) - DVec3::from_array(self.position), DVec3::from_array(self.up))
    }
}

/// Fits a camera to points one by one, closer than to their box.
///
/// Theory: a central projection has half-angle tangents tx, ty. A point (x, y, w) (w along the line of sight) is inside
/// when |x - ex| <= tx (w + D). Both the distance D and the sideways shift ex of the eye follow from the extremes of
/// `x - tx w` and `-x - tx w`, without search. These are linear, so the points can be streamed in any order and number.
#[derive(Clone, Debug)]
pub struct Fit {
    axes: DMat3,
    middle: DVec3,
    radius: f64,
    size: [f64; 2],
    center: [f64; 2],
    /// Pixels that may be filled.
    fill: [f64; 2],
    /// Angle in degrees and half-angle tangents of the free pixels, or `None` for parallel rays.
    central: Option<(f64, [f64; 2])>,
    /// Extremes of x - tx w, -x - tx w, y - ty w, -y - ty w and -w; tx and ty are 0 for parallel rays.
    most: [f64; 5],
}

impl Fit {
    /// A fit without points. `bounds` gives their scale, and is the fall-back.
    pub fn new(bounds: &Aabb, view: &View, frame: &Frame) -> Fit {
        let bounds = clamp_bounds(bounds);
        let [width, height] = frame.size.map(|v| f64::from(v.max(1)));
        let [left, top, right, bottom] = frame.insets;
        // The scene keeps at least a third of the picture, whatever the margins.
        let free = [(width - left - right).max(width / 3.0), (height - top - bottom).max(height / 3.0)];
        let center = [left.min(width - free[0]) + free[0] * 0.5, top.min(height - free[1]) + free[1] * 0.5];
        let fill = free.map(|f| f * FILL);
        let central = view.fov_degrees.map(|fov| {
            let fov = fov.clamp(0.1, 170.0);
            let tangent = (fov.to_radians() * 0.5).tan();
            (fov, fill.map(|f| tangent * f / height))
        });
        let axes = basis(-view.direction, view.up);
        let (middle, radius) = (bounds.center(), radius_of(&bounds));
        Fit { axes, middle, radius, size: [width, height], center, fill, central, most: [f64::NEG_INFINITY; 5] }
    }

    /// Includes a sphere. One without a drawable centre is ignored.
    pub fn include(&mut self, center: DVec3, radius: f64) {
        if !center.abs().cmple(DVec3::splat(MAX_COORDINATE)).all() {
            return;
        }
        let c = self.axes.transpose() * (center - self.middle);
        let t = self.central.map_or([0.0; 2], |(_, t)| t);
        let grow = t.map(|t| radius.max(0.0) * (1.0 + t * t).sqrt());
        let values = [
            c.x - t[0] * c.z + grow[0],
            -c.x - t[0] * c.z + grow[0],
            c.y - t[1] * c.z + grow[1],
            -c.y - t[1] * c.z + grow[1],
            radius.max(0.0) - c.z,
        ];
        for (most, value) in self.most.iter_mut().zip(values) {
            *most = most.max(value);
        }
    }

    /// The camera that shows all included spheres, as large as the frame's free rectangle allows.
    pub fn camera(&self) -> Camera {
        let [x_hi, x_lo, y_hi, y_lo, nearest] = if self.most[0].is_finite() { self.most } else { [self.radius; 5] };
        let offset = DVec3::new((x_hi - x_lo) * 0.5, (y_hi - y_lo) * 0.5, 0.0);
        let (distance, lens) = match self.central {
            None => {
                // Physical height of one pixel, the larger of the two directions' needs; at least a millionth of the
                // scene.
                let pixel = ((x_hi + x_lo) / self.fill[0])
                    .max((y_hi + y_lo) / self.fill[1])
                    .max(self.radius * 1e-6 / self.size[1]);
                (self.radius * 2.0, Lens::Orthographic { height: pixel * self.size[1] })
            }
            Some((fov_degrees, [tx, ty])) => {
                let distance =
                    ((x_hi + x_lo) / (2.0 * tx)).max((y_hi + y_lo) / (2.0 * ty)).max(nearest + 0.1 * self.radius);
                (distance, Lens::Perspective { fov_degrees })
            }
        };
        let target = self.middle + self.axes * offset;
        Camera {
            position: (target - self.axes.z_axis * distance).to_array(),
            target: target.to_array(),
            up: self.axes.y_axis.to_array(),
            lens,
            center: [self.center[0] / self.size[0], self.center[1] / self.size[1]],
        }
    }
}

/// Right, up, forward of a line of sight, as columns of a matrix.
fn basis(forward: DVec3, up: DVec3) -> DMat3 {
    let forward = forward.try_normalize().unwrap_or(DVec3::Y);
    let right = |up: DVec3| forward.cross(up.normalize_or_zero());
    let mut r = right(up);
    if r.length_squared() < 1e-12 {
        // The line of sight is along `up`: the axis farthest from it replaces `up`.
        let a = forward.abs();
        let axis = if a.z < 0.9 { DVec3::Z } else { DVec3::Y };
        r = right(axis);
    }
    let r = r.normalize();
    DMat3::from_cols(r, r.cross(forward), forward)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::projector::Projector;

    fn boxed(x: f64, y: f64, z: f64) -> Aabb {
        Aabb { min: DVec3::ZERO, max: DVec3::new(x, y, z) }
    }

    /// Box of the projected corners in pixels: x0, y0, x1, y1.
    fn seen(camera: &Camera, bounds: &Aabb, size: [u32; 2]) -> [f64; 4] {
        let p = Projector::new(camera, size, bounds).unwrap();
        bounds.corners().iter().fold([1e9, 1e9, -1e9, -1e9], |s, c| {
            let (x, y, _) = p.pixel_of(p.view(*c));
            [s[0].min(x as f64), s[1].min(y as f64), s[2].max(x as f64), s[3].max(y as f64)]
        })
    }

    #[test]
    fn a_fitted_box_fills_the_free_rectangle_and_stays_inside() {
        let size = [1600, 900];
        let frame = Frame { size, insets: [10.0, 20.0, 200.0, 30.0] };
        for bounds in [
            boxed(1.0, 1.0, 1.0),
            boxed(10.0, 1.0, 1.0),
            boxed(1.0, 9.0, 0.1),
            boxed(1e-9, 3e-9, 2e-9),
            boxed(3.0, 2.0, 0.0),
        ] {
            for fov in [None, Some(10.0), Some(60.0)] {
                let view = View { fov_degrees: fov, ..View::of(&bounds) };
                let camera = Camera::fit(&bounds, &view, &frame);
                camera.check().unwrap();
                let s = seen(&camera, &bounds, size);
                assert!(s[0] >= 10.0 && s[1] >= 20.0 && s[2] <= 1400.0 && s[3] <= 870.0, "{bounds:?} {fov:?} {s:?}");
                let used = ((s[2] - s[0]) / 1390.0).max((s[3] - s[1]) / 850.0);
                assert!((0.9..0.93).contains(&used), "{bounds:?} {fov:?} {used}");
            }
        }
    }

    #[test]
    fn flat_data_is_seen_face_on() {
        let v = View::of(&boxed(2.0, 1.0, 0.0));
        assert_eq!((v.direction, v.up, v.fov_degrees), (DVec3::Z, DVec3::Y, None));
        let v = View::of(&boxed(2.0, 0.0, 1.0));
        assert_eq!((v.direction, v.up), (DVec3::NEG_Y, DVec3::Z));
        let v = View::of(&boxed(0.0, 1.0, 1.0));
        assert_eq!((v.direction, v.up), (DVec3::X, DVec3::Z));
        assert!(View::of(&boxed(1.0, 1.0, 1.0)).fov_degrees.is_some());
    }

    #[test]
    fn odd_boxes_still_give_a_camera() {
        let huge = Aabb { min: DVec3::splat(-1e300), max: DVec3::splat(1e300) };
        let far = Aabb { min: DVec3::splat(1e30), max: DVec3::splat(1e30) };
        let line = boxed(1.0, 0.0, 0.0);
        for b in [Aabb::EMPTY, huge, far, line, boxed(0.0, 0.0, 0.0), Aabb { min: DVec3::NAN, max: DVec3::NAN }] {
            let c = Camera::fit(&b, &View::of(&b), &Frame::new([320, 200]));
            assert_eq!(c.check(), Ok(()), "{b:?}");
        }
    }

    #[test]
    fn bad_cameras_say_why() {
        let good = Camera::fit(&Aabb::EMPTY, &View::of(&Aabb::EMPTY), &Frame::new([320, 200]));
        let with = |f: &dyn Fn(&mut Camera)| {
            let mut c = good;
            f(&mut c);
            c.check()
        };
        assert_eq!(with(&|c| c.target = c.position), Err(CameraError::NoDirection));
        assert_eq!(with(&|c| c.up[0] = f64::NAN), Err(CameraError::NotFinite("up")));
        assert_eq!(with(&|c| c.lens = Lens::Perspective { fov_degrees: 180.0 }), Err(CameraError::BadAngle(180.0)));
        assert_eq!(with(&|c| c.lens = Lens::Orthographic { height: 0.0 }), Err(CameraError::BadHeight(0.0)));
    }

    #[test]
    fn looking_along_up_is_no_trouble() {
        let m = basis(DVec3::NEG_Z, DVec3::Z);
        assert!((m.determinant().abs() - 1.0).abs() < 1e-12);
        assert!(m.z_axis.dot(DVec3::NEG_Z) > 0.999);
    }
}
