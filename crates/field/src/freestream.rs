//! The free stream of a dataset, in the units of its conserved variables.

use crate::catalog::{Catalog, ZoneInfo};
use crate::plot3d::{Reference, DENSITY_UNITS};
use crate::quantity::FreeStream;

/// The units of the conserved variables.
#[derive(Copy, Clone, Debug)]
pub(crate) struct FlowUnits {
    /// Whether they are in SI, or without dimensions.
    pub(crate) si: bool,
    pub(crate) reference: Reference,
}

impl FlowUnits {
    /// Takes a pass over all zones and the settings.
    pub(crate) fn of(catalog: &Catalog) -> Self {
        let si = catalog.array_named("density").is_some_and(|a| a.units == DENSITY_UNITS);
        Self { si, reference: Reference::of(&catalog.settings) }
    }

    /// Ratio of specific heats and free stream of a zone at a step, from its header.
    pub(crate) fn gas(&self, zone: &ZoneInfo, step: usize) -> (f64, FreeStream) {
        let header = zone.headers.get(step).or(zone.headers.last());
        let gamma = header.map(|h| h.gamma).filter(|g| g.is_finite()).unwrap_or(1.4);
        let mach = header.map(|h| h.mach).unwrap_or(f64::NAN);
        (gamma, free_stream(self, mach, gamma))
    }
}

/// The free stream in the units of the data: SI, or none.
fn free_stream(FlowUnits { si, reference }: &FlowUnits, mach: f64, gamma: f64) -> FreeStream {
    let or_one = |v: Option<f64>| v.filter(|_| *si).unwrap_or(1.0);
    let (density, sound_speed) = (or_one(reference.density), or_one(reference.sound_speed));
    let gas_constant = match (reference.temperature, reference.gas_constant) {
        // The gas constant of a perfect gas with that temperature where the speed of sound is a_inf.
        (Some(t), _) => sound_speed * sound_speed / (gamma * t),
        (None, Some(r)) => r,
        // An unknown gas: temperature stays non-dimensional.
        (None, None) => sound_speed * sound_speed,
    };
    FreeStream { mach, density, sound_speed, gas_constant }
}
