//! The camera: what the scene says of it, and for the rest a fit to what is drawn.

use super::document::{CameraSpec, Projection, DEFAULT_FOV_DEG};
use crate::picture::{bounds_of, fit_layers, Camera, Frame, Layer, Lens, StageError, View};
use glam::DVec3;
use serde_json::{json, Value};

/// How many numbers [`Chosen::numbers`] are.
pub(crate) const NUMBERS: usize = 19;

/// A camera with the numbers that a scene would say it with.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) camera: Camera,
    /// From target to eye, of length 1.
    direction: DVec3,
    distance: f64,
    zoom: f64,
    fov_deg: f64,
}

impl Chosen {
    /// Length in space of a pixel at the target.
    pub(crate) fn pixel(&self, height: u32) -> f64 {
        let seen = match self.camera.lens {
            Lens::Perspective { fov_degrees } => 2.0 * self.distance * (fov_degrees.to_radians() * 0.5).tan(),
            Lens::Orthographic { height } => height,
        };
        seen / f64::from(height.max(1))
    }

    /// All of it as numbers.
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

    /// The same again.
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

    /// Whether a scene says all of this camera, and says it like that.
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

    /// As a scene says it, without nulls.
    pub(crate) fn json(&self) -> Value {
        json!({
            "direction": self.direction.to_array(), "up": self.camera.up, "target": self.camera.target, "distance": self.distance,
            "zoom": self.zoom, "fov_deg": self.fov_deg,
            "projection": match self.camera.lens { Lens::Perspective { .. } => "perspective", Lens::Orthographic { .. } => "orthographic" },
        })
    }
}

/// Difference of numbers that are the same but for rounding.
const SAME: f64 = 1e-9;

/// Whether `up` is what a fit makes of any: of length 1, and at right angles to the direction.
fn is_upright(up: DVec3, direction: DVec3) -> bool {
    (up.length_squared() - 1.0).abs() <= 1e-12 && up.dot(direction).abs() <= 1e-12
}

/// A vector of length 1. One that has it stays what it is to the bit: a camera that is said as it was found is that camera.
fn as_unit(v: DVec3) -> DVec3 {
    if (v.length_squared() - 1.0).abs() <= 1e-15 {
        v
    } else {
        v.normalize()
    }
}

/// Chooses the camera for `layers`, which it reads once.
///
/// # Errors
/// [`StageError`] when a layer cannot be read.
pub(crate) fn choose(spec: &CameraSpec, layers: &[Layer<'_>], frame: &Frame) -> Result<Chosen, StageError> {
    let natural = View::of(&bounds_of(layers));
    let fov_deg = spec.fov_deg.unwrap_or(DEFAULT_FOV_DEG);
    let parallel = match (spec.projection, spec.direction) {
        (Some(p), _) => p == Projection::Orthographic,
        (None, None) => natural.fov_degrees.is_none(),
        (None, Some(_)) => false,
    };
    let view = View {
        direction: as_unit(spec.direction.map_or(natural.direction, DVec3::from_array)),
        // An up that belongs to another direction would tilt the picture.
        up: spec.up.map_or(if spec.direction.is_some() { DVec3::Z } else { natural.up }, DVec3::from_array),
        fov_degrees: (!parallel).then_some(fov_deg),
    };
    let mut camera = fit_layers(layers, &view, frame)?;
    let tangent = (fov_deg.to_radians() * 0.5).tan();
    let target = spec.target.map_or(DVec3::from_array(camera.target), DVec3::from_array);
    let fitted = match camera.lens {
        Lens::Perspective { .. } => (DVec3::from_array(camera.position) - DVec3::from_array(camera.target)).length(),
        Lens::Orthographic { height } => height / (2.0 * tangent),
    };
    let distance = spec.distance.unwrap_or(fitted);
    let zoom = spec.zoom.unwrap_or(1.0);
    let eye = match camera.lens {
        Lens::Perspective { .. } => distance,
        // Only the direction counts; the eye stays where the fit put it, well away from what is drawn.
        Lens::Orthographic { .. } => (DVec3::from_array(camera.position) - DVec3::from_array(camera.target)).length(),
    };
    camera.lens = match camera.lens {
        Lens::Perspective { .. } => Lens::Perspective { fov_degrees: 2.0 * (tangent / zoom).atan().to_degrees() },
        Lens::Orthographic { .. } => Lens::Orthographic { height: 2.0 * distance * tangent / zoom },
    };
    if let Some(up) = spec.up.map(DVec3::from_array).filter(|up| is_upright(*up, view.direction)) {
        camera.up = up.to_array();
    }
    camera.target = target.to_array();
    camera.position = (target + view.direction * eye).to_array();
    Ok(Chosen { camera, direction: view.direction, distance, zoom, fov_deg })
}
