//! The rays of a camera.

use crate::draw::{Camera, CameraError, Lens};
use glam::{DMat3, DVec3};

/// The rays of a picture.
#[derive(Clone, Debug)]
pub(crate) struct View {
    eye: DVec3,
    axes: DMat3,
    /// Pixels a unit of slope (central), or of length (parallel).
    scale: f64,
    center: [f64; 2],
    parallel: bool,
}

impl View {
    pub(crate) fn new(camera: &Camera, size: [u32; 2]) -> Result<Self, CameraError> {
        camera.check()?;
        let [width, height] = size.map(f64::from);
        let (scale, parallel) = match camera.lens {
            Lens::Perspective { fov_degrees } => (height * 0.5 / (fov_degrees.to_radians() * 0.5).tan(), false),
            Lens::Orthographic { height: shown } => (height / shown, true),
        };
        Ok(Self {
            eye: DVec3::from_array(camera.position),
            axes: camera.axes(),
            scale,
            center: [camera.center[0] * width, camera.center[1] * height],
            parallel,
        })
    }

    /// Whether all rays have one direction.
    pub(crate) fn parallel(&self) -> bool {
        self.parallel
    }

    /// The line of sight.
    pub(crate) fn forward(&self) -> DVec3 {
        self.axes.z_axis
    }

    /// The place at t = 0 on the ray through a pixel position, and its direction, of length 1.
    pub(crate) fn ray(&self, u: f64, v: f64) -> (DVec3, DVec3) {
        let (a, b) = ((u - self.center[0]) / self.scale, (self.center[1] - v) / self.scale);
        if self.parallel {
            (self.eye + self.axes.x_axis * a + self.axes.y_axis * b, self.axes.z_axis)
        } else {
            (self.eye, (self.axes.x_axis * a + self.axes.y_axis * b + self.axes.z_axis).normalize())
        }
    }
}
