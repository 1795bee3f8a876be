//! The camera: the scene's values, and a fit to the drawn objects for the others.

use super::document::{CameraSpec, KeySpec, Projection, DEFAULT_FOV_DEG};
use crate::picture::{bounds_of, fit_all, Aabb, Camera, Frame, Layer, Lens, StageError, View};
use glam::DVec3;
use serde_json::{json, Value};

/// Length of [`Chosen::numbers`].
pub(crate) const NUMBERS: usize = 19;

/// A camera with the numbers of a scene's keys.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) camera: Camera,
    /// Unit vector from the target to the eye.
    direction: DVec3,
    distance: f64,
    zoom: f64,
    fov_deg: f64,
}

impl Chosen {
    /// Length of a pixel at the target, in space.
    pub(crate) fn pixel(&self, height: u32) -> f64 {
        let seen = match self.camera.lens {
            Lens::Perspective { fov_degrees } => 2.0 * self.distance * (fov_degrees.to_radians() * 0.5).tan(),
            Lens::Orthographic { height } => height,
        };
        seen / f64::from(height.max(1))
    }

    /// All values as numbers.
    pub(crate) fn numbers(&self) -> [f64; NUMBERS] {
        let c = &self.camera;
        let (kind, size) = match c.lens {
            Lens::Perspective { fov_degrees } => (0.0, fov_degrees),
            Lens::Orthographic { height } => (1.0, height),
        };
        let mut all = [0.0; NUMBERS];
        let parts: [&[f64]; 7] = [
            &c.position,
            &c.target,
            &c.up,
            &[kind, size],
            &c.center,
            &self.direction.to_array(),
            &[self.distance, self.zoom, self.fov_deg],
        ];
        for (to, from) in all.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        all
    }

    /// Inverse of [`Self::numbers`].
    pub(crate) fn from_numbers(n: &[f64; NUMBERS]) -> Self {
        let three = |at: usize| [n[at], n[at + 1], n[at + 2]];
        let lens =
            if n[9] == 0.0 { Lens::Perspective { fov_degrees: n[10] } } else { Lens::Orthographic { height: n[10] } };
        Self {
            camera: Camera { position: three(0), target: three(3), up: three(6), lens, center: [n[11], n[12]] },
            direction: DVec3::from_array(three(13)),
            distance: n[16],
            zoom: n[17],
            fov_deg: n[18],
        }
    }

    /// Whether the scene gives the whole camera, with these values.
    pub(crate) fn is_said_by(&self, spec: &CameraSpec) -> bool {
        let near = |a: f64, b: f64, scale: f64| (a - b).abs() <= SAME * scale;
        let all = |a: [f64; 3], b: DVec3, scale: f64| a.iter().zip(b.to_array()).all(|(a, b)| near(*a, b, scale));
        let (Some(direction), Some(up), Some(target), Some(distance)) =
            (spec.direction, spec.up, spec.target, spec.distance)
        else {
            return false;
        };
        let (up, parallel) = (DVec3::from_array(up), matches!(self.camera.lens, Lens::Orthographic { .. }));
        parallel == (spec.projection == Some(Projection::Orthographic))
            && all(self.direction.to_array(), as_unit(DVec3::from_array(direction)), 1.0)
            && all(self.camera.up, as_unit(up - self.direction * up.dot(self.direction)), 1.0)
            && all(self.camera.target, DVec3::from_array(target), self.distance)
            && near(self.distance, distance, self.distance)
            && near(self.zoom, spec.zoom.unwrap_or(1.0), self.zoom)
            && near(self.fov_deg, spec.fov_deg.unwrap_or(DEFAULT_FOV_DEG), self.fov_deg)
    }

    /// The camera as a scene's key, without nulls.
    pub(crate) fn json(&self) -> Value {
        json!({
            "direction": self.direction.to_array(), "up": self.camera.up, "target": self.camera.target, "distance": self.distance,
            "zoom": self.zoom, "fov_deg": self.fov_deg,
            "projection": match self.camera.lens { Lens::Perspective { .. } => "perspective", Lens::Orthographic { .. } => "orthographic" },
        })
    }
}

/// Relative difference of numbers that are equal but for rounding.
const SAME: f64 = 1e-9;

/// Whether a fit would leave `up` as it is: a unit vector perpendicular to the direction.
fn is_upright(up: DVec3, direction: DVec3) -> bool {
    (up.length_squared() - 1.0).abs() <= 1e-12 && up.dot(direction).abs() <= 1e-12
}

/// A unit vector. One that is so already stays equal bit for bit, so that a reported camera gives the same picture.
fn as_unit(v: DVec3) -> DVec3 {
    if (v.length_squared() - 1.0).abs() <= 1e-15 {
        v
    } else {
        v.normalize()
    }
}

/// Chooses the camera for `layers`, which are read once, and for boxes that must be visible, too.
///
/// # Errors
/// [`StageError`] for an unreadable layer.
pub(crate) fn choose(
    spec: &CameraSpec,
    layers: &[Layer<'_>],
    boxes: &[Aabb],
    frame: &Frame,
) -> Result<Chosen, StageError> {
    let natural = View::of(&boxes.iter().fold(bounds_of(layers), |a, b| a.union(b)));
    let fov_deg = spec.fov_deg.unwrap_or(DEFAULT_FOV_DEG);
    let parallel = match (spec.projection, spec.direction) {
        (Some(p), _) => p == Projection::Orthographic,
        (None, None) => natural.fov_degrees.is_none(),
        (None, Some(_)) => false,
    };
    let view = View {
        direction: as_unit(spec.direction.map_or(natural.direction, DVec3::from_array)),
        // The natural up belongs to the natural direction, and would tilt the picture in another.
        up: spec.up.map_or(if spec.direction.is_some() { DVec3::Z } else { natural.up }, DVec3::from_array),
        fov_degrees: (!parallel).then_some(fov_deg),
    };
    let mut camera = fit_all(layers, boxes, &view, frame)?;
    let tangent = (fov_deg.to_radians() * 0.5).tan();
    let target = spec.target.map_or(DVec3::from_array(camera.target), DVec3::from_array);
    let fitted = match camera.lens {
        Lens::Perspective { .. } => (DVec3::from_array(camera.position) - DVec3::from_array(camera.target)).length(),
        Lens::Orthographic { height } => height / (2.0 * tangent),
    };
    let distance = spec.distance.unwrap_or(fitted);
    let eye = match camera.lens {
        Lens::Perspective { .. } => distance,
        // Only the direction matters. The eye stays where the fit put it, far from the objects.
        Lens::Orthographic { .. } => (DVec3::from_array(camera.position) - DVec3::from_array(camera.target)).length(),
    };
    if let Some(up) = spec.up.map(DVec3::from_array).filter(|up| is_upright(*up, view.direction)) {
        camera.up = up.to_array();
    }
    Ok(Chosen { camera, direction: view.direction, distance, zoom: spec.zoom.unwrap_or(1.0), fov_deg }
        .aimed(target, eye))
}

/// Movement of the camera.
impl Chosen {
    /// The same, with the camera made from its numbers: at distance `eye` from `target`.
    fn aimed(mut self, target: DVec3, eye: f64) -> Self {
        let tangent = (self.fov_deg.to_radians() * 0.5).tan();
        self.camera.lens = match self.camera.lens {
            Lens::Perspective { .. } => {
                Lens::Perspective { fov_degrees: 2.0 * (tangent / self.zoom).atan().to_degrees() }
            }
            Lens::Orthographic { .. } => Lens::Orthographic { height: 2.0 * self.distance * tangent / self.zoom },
        };
        self.camera.target = target.to_array();
        self.camera.position = (target + self.direction * eye).to_array();
        self
    }

    fn eye(&self) -> f64 {
        match self.camera.lens {
            Lens::Perspective { .. } => self.distance,
            Lens::Orthographic { .. } => {
                (DVec3::from_array(self.camera.position) - DVec3::from_array(self.camera.target)).length()
            }
        }
    }

    /// The same, with the values of a key frame.
    fn changed(&self, spec: &CameraSpec) -> Self {
        let mut new = self.clone();
        if let Some(d) = spec.direction {
            new.direction = as_unit(DVec3::from_array(d));
        }
        let up = spec.up.map_or(DVec3::from_array(self.camera.up), DVec3::from_array);
        let turned = up - new.direction * up.dot(new.direction);
        // An up along the line of sight has no effect, so any perpendicular vector replaces it.
        let across = if turned.length() > 1e-6 * up.length() { turned } else { new.direction.any_orthogonal_vector() };
        new.camera.up = as_unit(across).to_array();
        new.distance = spec.distance.unwrap_or(self.distance);
        new.zoom = spec.zoom.unwrap_or(self.zoom);
        new.fov_deg = spec.fov_deg.unwrap_or(self.fov_deg);
        let target = spec.target.unwrap_or(self.camera.target);
        let eye = if matches!(new.camera.lens, Lens::Perspective { .. }) { new.distance } else { self.eye() };
        new.aimed(DVec3::from_array(target), eye)
    }

    /// The camera between two: `t` is 0 for this, 1 for the other. Directions turn at constant speed. Lengths and zooms
    /// grow at a constant ratio.
    fn towards(&self, other: &Self, t: f64) -> Self {
        let ratio = |a: f64, b: f64| a * (b / a).powf(t);
        let mut new = self.clone();
        let side = DVec3::from_array(self.camera.up).cross(self.direction);
        new.direction = turned(self.direction, other.direction, side, t);
        let up = turned(DVec3::from_array(self.camera.up), DVec3::from_array(other.camera.up), side, t);
        let across = up - new.direction * up.dot(new.direction);
        let across = if across.length() > 1e-9 { across } else { new.direction.any_orthogonal_vector() };
        new.camera.up = as_unit(across).to_array();
        new.distance = ratio(self.distance, other.distance);
        new.zoom = ratio(self.zoom, other.zoom);
        new.fov_deg = self.fov_deg + (other.fov_deg - self.fov_deg) * t;
        let target = DVec3::from_array(self.camera.target).lerp(DVec3::from_array(other.camera.target), t);
        let eye = self.eye() + (other.eye() - self.eye()) * t;
        let eye = if matches!(new.camera.lens, Lens::Perspective { .. }) { new.distance } else { eye };
        new.aimed(target, eye)
    }

    /// The camera of a picture on a path of key frames, which inherit from this one. It is fixed before the first key
    /// and after the last.
    pub(crate) fn along(&self, path: &[KeySpec], picture: usize) -> Self {
        let next = path.iter().position(|k| k.frame >= picture);
        match next {
            _ if path.is_empty() => self.clone(),
            None => self.changed(&path[path.len() - 1].camera),
            Some(0) => self.changed(&path[0].camera),
            Some(n) => {
                let (a, b) = (&path[n - 1], &path[n]);
                let t = (picture - a.frame) as f64 / (b.frame - a.frame) as f64;
                self.changed(&a.camera).towards(&self.changed(&b.camera), t)
            }
        }
    }
}

/// The unit vector at share `t` of the shortest turn from `a` to `b`. Opposite directions turn through `side`: from
/// front to back a camera goes around its target, not over its pole.
fn turned(a: DVec3, b: DVec3, side: DVec3, t: f64) -> DVec3 {
    let cosine = a.dot(b).clamp(-1.0, 1.0);
    let angle = cosine.acos();
    let across = b - a * cosine;
    let across = if across.length() > 1e-9 {
        across.normalize()
    } else if cosine > 0.0 {
        return a;
    } else {
        (side - a * side.dot(a)).try_normalize().unwrap_or_else(|| a.any_orthonormal_vector())
    };
    a * (angle * t).cos() + across * (angle * t).sin()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Chosen {
        let camera = Camera {
            position: [0.0, 0.0, 4.0],
            target: [0.0; 3],
            up: [0.0, 1.0, 0.0],
            lens: Lens::Perspective { fov_degrees: 30.0 },
            center: [0.5, 0.5],
        };
        Chosen { camera, direction: DVec3::Z, distance: 4.0, zoom: 1.0, fov_deg: 30.0 }
    }

    fn key(frame: usize, direction: [f64; 3], distance: f64) -> KeySpec {
        let camera = CameraSpec { direction: Some(direction), distance: Some(distance), ..CameraSpec::default() };
        KeySpec { frame, step: None, camera }
    }

    #[test]
    fn a_camera_turns_evenly_and_nears_in_ratio() {
        let path = [key(0, [0.0, 0.0, 1.0], 4.0), key(10, [1.0, 0.0, 0.0], 1.0), key(20, [1.0, 0.0, 0.0], 1.0)];
        for n in 0..=10 {
            let seen = base().along(&path, n);
            let angle = (n as f64 * 9.0f64).to_radians();
            assert!((seen.direction - DVec3::new(angle.sin(), 0.0, angle.cos())).length() < 1e-12, "{n}");
            assert!((seen.distance - 4.0 * 0.25f64.powf(n as f64 / 10.0)).abs() < 1e-12);
            let eye = DVec3::from_array(seen.camera.position);
            assert!((eye - seen.direction * seen.distance).length() < 1e-12);
            assert!(DVec3::from_array(seen.camera.up).dot(seen.direction).abs() < 1e-12);
        }
        assert_eq!(base().along(&path, 15).numbers(), base().along(&path, 99).numbers());
        assert_eq!(base().along(&[], 3).numbers(), base().numbers());
    }

    #[test]
    fn opposite_directions_have_a_way_between_them() {
        let path = [key(0, [0.0, 0.0, 1.0], 2.0), key(4, [0.0, 0.0, -1.0], 2.0)];
        let half = base().along(&path, 2);
        assert!((half.direction.length() - 1.0).abs() < 1e-12 && half.direction.z.abs() < 1e-12);
    }
}
