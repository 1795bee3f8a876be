//! Light on gradients.

use super::appearance::Shading;
use super::transfer::TransferEntry;
use glam::{DMat3, DVec3, Vec3};

/// Lights as samples use them.
pub(crate) struct Lamps {
    ambient: Vec3,
    /// Direction towards each, and its colour.
    each: Vec<(Vec3, Vec3)>,
    specular: f32,
    power: f32,
}

impl Lamps {
    pub(crate) fn of(s: &Shading) -> Self {
        let each = s
            .lights
            .iter()
            .map(|(d, colour)| (DVec3::from_array(*d).normalize_or(DVec3::Z).as_vec3(), Vec3::from_array(*colour)));
        Self {
            ambient: Vec3::from_array(s.ambient),
            each: each.collect(),
            specular: s.specular.max(0.0),
            power: s.power.max(1.0),
        }
    }

    /// Light of a sample with the gradient `gradient` (along i, j, k; `to_space` converts it to space), seen along
    /// `forward`. Without a gradient there is no surface to be lit, and it faces the eye.
    pub(crate) fn lit(&self, e: TransferEntry, gradient: [f32; 3], to_space: &DMat3, forward: Vec3) -> TransferEntry {
        let g = *to_space * Vec3::from_array(gradient).as_dvec3();
        let n = match g.try_normalize() {
            Some(n) => n.as_vec3(),
            None => -forward,
        };
        // Lit from the visible side.
        let n = if n.dot(forward) > 0.0 { -n } else { n };
        let (mut direct, mut shine) = (self.ambient, Vec3::ZERO);
        for (towards, colour) in &self.each {
            let facing = n.dot(*towards);
            if facing > 0.0 {
                direct += *colour * facing;
                if self.specular > 0.0 {
                    let half = (*towards - forward).normalize_or_zero();
                    shine += *colour * n.dot(half).max(0.0).powf(self.power);
                }
            }
        }
        let [r, g, b, a] = e.0;
        let light = Vec3::new(r, g, b) * direct + shine * (self.specular * a);
        // A sample is no brighter than white.
        let light = light.min(Vec3::splat(a));
        TransferEntry([light.x, light.y, light.z, a])
    }
}
