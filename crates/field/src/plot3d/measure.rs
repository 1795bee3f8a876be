//! Measures of the numbers in grid and q files, and their conversion to SI units.
//!
//! PLOT3D divides lengths by L, densities by rho_inf, velocities by a_inf and energies by rho_inf a_inf^2 (User's
//! Manual, NASA TM-101067). `reference` in `NAME.p3d.json` gives these values. Decoding multiplies the arrays by them.
//! Function files hold arbitrary quantities, so their numbers stay unchanged.

use super::settings::Reference;

/// The measure of an array.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    Length,
    Density,
    Momentum,
    Energy,
    DensitySquared,
    VelocitySquared,
    PressureSquared,
    /// A dimensionless or unknown number.
    Plain,
}

impl Measure {
    /// `(units in SI, PLOT3D's divisor, CF standard name of the plain quantity)`.
    const fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            // A grid may be in any unit, so without a reference length it gets none.
            Self::Length => ("m", "", ""),
            Self::Density => (DENSITY_UNITS, "rho_inf", "air_density"),
            Self::Momentum => ("kg m-2 s-1", "(rho_inf a_inf)", ""),
            Self::Energy => ("J m-3", "(rho_inf a_inf^2)", ""),
            Self::DensitySquared => ("kg2 m-6", "rho_inf^2", ""),
            Self::VelocitySquared => ("m2 s-2", "a_inf^2", ""),
            Self::PressureSquared => ("Pa2", "(rho_inf a_inf^2)^2", ""),
            Self::Plain => ("1", "", ""),
        }
    }
}

/// The unit that marks a flow in SI.
pub(crate) const DENSITY_UNITS: &str = "kg m-3";

/// Conversion of a dataset's numbers to SI units.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Scales {
    length: Option<f64>,
    /// rho_inf and a_inf.
    flow: Option<[f64; 2]>,
    /// Divisor of the file's velocities, in a_inf.
    velocity: f64,
}

impl Default for Scales {
    fn default() -> Self {
        Self { length: None, flow: None, velocity: 1.0 }
    }
}

impl Scales {
    /// From reference values. A flow needs length, density and speed of sound together. Otherwise positions in metres,
    /// velocities in a_inf and times in neither would be mixed.
    pub fn new(reference: &Reference, flow: bool) -> Result<Self, String> {
        let given =
            [("length", reference.length), ("density", reference.density), ("sound_speed", reference.sound_speed)];
        let names = |some: bool| {
            let all: Vec<&str> = given.iter().filter(|g| g.1.is_some() == some).map(|g| g.0).collect();
            all.join(" and ")
        };
        match given.map(|g| g.1) {
            [None, None, None] => Ok(Self::default()),
            [Some(length), Some(density), Some(speed)] => {
                Ok(Self { length: Some(length), flow: Some([density, speed]), ..Self::default() })
            }
            [length, ..] if !flow => Ok(Self { length, ..Self::default() }),
            _ => Err(format!(
                "'reference' gives {} but not {}: a flow gets SI units from length, density and sound_speed together, \
                 or from none of them (write \"length\": 1 for a grid that is in metres)",
                names(true),
                names(false)
            )),
        }
    }

    /// The same scales for files whose velocities are divided by `velocity` a_inf.
    pub const fn of_velocity(self, velocity: f64) -> Self {
        Self { velocity, ..self }
    }

    /// Whether the flow is made dimensional.
    pub const fn has_flow(&self) -> bool {
        self.flow.is_some()
    }

    /// Seconds of a unit of time.
    pub fn time(&self) -> Option<f64> {
        let [_, speed] = self.flow?;
        Some(self.length? / speed)
    }

    /// Factor, units, label, and CF standard name of the numbers of a measure.
    pub fn apply(&self, measure: Measure, plain_label: &str) -> (f64, &'static str, String, &'static str) {
        let [d, a] = self.flow.unwrap_or([1.0, 1.0]);
        let u = a * self.velocity;
        let factor = match measure {
            Measure::Length => self.length.unwrap_or(1.0),
            Measure::Density => d,
            Measure::Momentum => d * u,
            Measure::Energy => d * u * u,
            Measure::DensitySquared => d * d,
            Measure::VelocitySquared => u * u,
            Measure::PressureSquared => (d * u * u) * (d * u * u),
            Measure::Plain => 1.0,
        };
        let si = match measure {
            Measure::Length => self.length.is_some(),
            Measure::Plain => false,
            _ => self.flow.is_some(),
        };
        let (units, divided_by, standard_name) = measure.words();
        match si {
            true => (factor, units, plain_label.to_owned(), standard_name),
            false if divided_by.is_empty() => (factor, "1", plain_label.to_owned(), ""),
            false => (factor, "1", format!("{plain_label} / {divided_by}"), ""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_units_and_labels() {
        let mut r =
            Reference { length: Some(0.5), density: Some(1.25), sound_speed: Some(320.0), ..Reference::default() };
        let si = Scales::new(&r, true).unwrap();
        assert_eq!(si.apply(Measure::Energy, "energy"), (1.25 * 320.0 * 320.0, "J m-3", "energy".to_owned(), ""));
        assert_eq!(si.apply(Measure::Length, "position"), (0.5, "m", "position".to_owned(), ""));
        assert_eq!(si.time(), Some(0.5 / 320.0));
        let plain = Scales::new(&Reference::default(), true).unwrap();
        assert_eq!(plain.apply(Measure::Density, "density"), (1.0, "1", "density / rho_inf".to_owned(), ""));
        assert_eq!(plain.time(), None);
        // Divided by U_inf, half of a_inf; in a_inf once read.
        let half = plain.of_velocity(0.5);
        assert_eq!(half.apply(Measure::Energy, "energy").0, 0.25);
        assert_eq!(half.apply(Measure::Momentum, "momentum"), (0.5, "1", "momentum / (rho_inf a_inf)".to_owned(), ""));
        assert_eq!(si.of_velocity(0.5).apply(Measure::Momentum, "momentum").0, 1.25 * 160.0);
        assert_eq!(half.apply(Measure::Density, "density").0, 1.0);
        r.density = None;
        let e = Scales::new(&r, true).unwrap_err();
        assert!(e.contains("gives length and sound_speed but not density"), "{e}");
        // A grid alone has no flow that must agree.
        assert_eq!(Scales::new(&r, false).unwrap().apply(Measure::Length, "position").0, 0.5);
    }
}
