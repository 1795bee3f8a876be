//! Pointwise derived fields: PLOT3D's functions of density, momentum and energy at a node.
//!
//! They are evaluated at a cell's corners when the cell is loaded, and interpolated as stored fields. They have no
//! pages: a derived page would cost a frame and a pass over its nodes to save eight divisions per cell.
//!
//! Normalisation and numbers are PLOT3D's: density by rho_inf, velocity by a_inf, energy by rho_inf a_inf^2, and R = 1.
//! So p_inf = 1 / gamma and rho_inf = 1 (P. P. Walatka et al., PLOT3D User's Manual, NASA TM-101067, 1990).
//! `temperature` is p / (rho R) with R = 1, as in VTK, which is 1 / gamma in the free stream. (The manual's function
//! 120 divides by that.)
//!
//! If the conserved variables are in SI, so are the fields that need no reference values. Those that do (pressure
//! coefficient, entropy, temperature) take them from [`FreeStream`], and stay the same.

use crate::nodes::Zone;

/// The conserved variables at one node.
#[derive(Copy, Clone, Debug, Default)]
pub struct Conserved {
    /// Density.
    pub density: f64,
    /// Momentum per volume.
    pub momentum: [f64; 3],
    /// Total energy per volume.
    pub energy: f64,
    /// Ratio of specific heats at the node.
    pub gamma: f64,
}

impl Conserved {
    /// Momentum times 1 / density: the kernels share one reciprocal between three components.
    #[inline(always)]
    pub fn velocity(&self) -> [f64; 3] {
        let inv = 1.0 / self.density;
        self.momentum.map(|m| m * inv)
    }
    /// Half the square of the speed.
    #[inline(always)]
    pub fn kinetic_energy(&self) -> f64 {
        let v = self.velocity();
        0.5 * (v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
    }
    /// (gamma - 1) (e - rho V^2 / 2).
    #[inline(always)]
    pub fn pressure(&self) -> f64 {
        (self.gamma - 1.0) * (self.energy - self.density * self.kinetic_energy())
    }
    /// sqrt(gamma p / rho).
    #[inline(always)]
    pub fn sound_speed(&self) -> f64 {
        (self.gamma * self.pressure() / self.density).sqrt()
    }
}

/// The conserved variables at consecutive nodes, a column per variable, over which the compiler vectorises loops.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// Density, momentum along x, y and z, energy, ratio of specific heats.
    of: [Vec<f64>; 6],
}

impl Columns {
    /// The column of a variable, resized to `n` nodes and set to `value`.
    pub fn of(&mut self, variable: usize, n: usize, value: f64) -> &mut [f64] {
        let column = &mut self.of[variable];
        column.clear();
        column.resize(n, value);
        column
    }
}

/// The conserved variables at the corners of a cell, one row per variable.
#[derive(Copy, Clone, Debug)]
pub struct ConservedCorners {
    /// Density, momentum along x, y and z, energy, ratio of specific heats.
    pub of: [[f64; 8]; 6],
}

/// The free stream in the units of the conserved variables. `From<f64>` takes the Mach number of non-dimensional ones.
///
/// ```
/// # use field::quantity::FreeStream;
/// let free = FreeStream::from(0.8);
/// assert_eq!((free.density, free.sound_speed, free.gas_constant), (1.0, 1.0, 1.0));
/// ```
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct FreeStream {
    /// Mach number; NaN if unknown.
    pub mach: f64,
    /// Density.
    pub density: f64,
    /// Speed of sound.
    pub sound_speed: f64,
    /// R of `temperature = pressure / (density R)`.
    pub gas_constant: f64,
}

impl From<f64> for FreeStream {
    fn from(mach: f64) -> Self {
        Self { mach, density: 1.0, sound_speed: 1.0, gas_constant: 1.0 }
    }
}

impl FreeStream {
    /// rho_inf a_inf^2, by which PLOT3D divides pressures.
    pub(crate) fn pressure_scale(&self) -> f64 {
        self.density * self.sound_speed * self.sound_speed
    }
}

/// A derived scalar or vector.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the table below has the descriptions
pub enum Derived {
    Velocity,
    VelocityX,
    VelocityY,
    VelocityZ,
    VelocityMagnitude,
    Pressure,
    PressureCoefficient,
    Temperature,
    Mach,
    SoundSpeed,
    Entropy,
    InternalEnergy,
    KineticEnergy,
    StagnationEnergy,
    Enthalpy,
}

/// A row of the table of derived fields.
pub struct Definition {
    /// The field.
    pub derived: Derived,
    /// The name.
    pub name: &'static str,
    /// Number in the PLOT3D manual; 0 if it has none.
    pub number: u32,
    /// Components.
    pub components: usize,
    /// CF standard name or empty.
    pub standard_name: &'static str,
    /// The name in labels.
    pub long_name: &'static str,
    /// The divisor of non-dimensional data, for labels; empty without dimension.
    pub divided_by: &'static str,
    /// The unit of SI data.
    pub units: &'static str,
    /// The formula.
    pub formula: &'static str,
    /// The value at the centre of a diverging colour map, for signed fields.
    pub centre: Option<f64>,
}

/// Every derived field.
pub const DEFINITIONS: &[Definition] = &[
    velocity(Derived::Velocity, "velocity", 200, 3, "velocity", "momentum / density", None),
    velocity(Derived::VelocityX, "velocity_x", 0, 1, "x velocity", "momentum_x / density", Some(0.0)),
    velocity(Derived::VelocityY, "velocity_y", 0, 1, "y velocity", "momentum_y / density", Some(0.0)),
    velocity(Derived::VelocityZ, "velocity_z", 0, 1, "z velocity", "momentum_z / density", Some(0.0)),
    velocity(Derived::VelocityMagnitude, "velocity_magnitude", 153, 1, "speed", "|momentum| / density", None),
    Definition {
        derived: Derived::Pressure,
        name: "pressure",
        number: 110,
        components: 1,
        standard_name: "air_pressure",
        long_name: "pressure",
        divided_by: "(rho_inf a_inf^2)",
        units: "Pa",
        formula: "(gamma - 1)(energy - density V^2 / 2)",
        centre: None,
    },
    number(
        Derived::PressureCoefficient,
        "pressure_coefficient",
        111,
        "pressure coefficient",
        "(pressure / (rho_inf a_inf^2) - 1/gamma) / (mach_inf^2 / 2)",
        Some(0.0),
    ),
    Definition {
        derived: Derived::Temperature,
        name: "temperature",
        number: 120,
        components: 1,
        standard_name: "air_temperature",
        long_name: "temperature",
        divided_by: "",
        units: "K",
        formula: "pressure / (density R)",
        centre: None,
    },
    number(Derived::Mach, "mach", 112, "Mach number", "speed / sound_speed", None),
    Definition {
        standard_name: "speed_of_sound_in_air",
        ..velocity(Derived::SoundSpeed, "sound_speed", 113, 1, "speed of sound", "sqrt(gamma pressure / density)", None)
    },
    number(
        Derived::Entropy,
        "entropy",
        170,
        "entropy, cv = 1 / (gamma - 1)",
        "cv ln(gamma pressure / (rho_inf a_inf^2) / (density / rho_inf)^gamma)",
        Some(0.0),
    ),
    energy(Derived::InternalEnergy, "internal_energy", 140, "internal energy a mass", "energy / density - V^2 / 2"),
    energy(Derived::KineticEnergy, "kinetic_energy", 144, "kinetic energy a mass", "V^2 / 2"),
    energy(Derived::StagnationEnergy, "stagnation_energy", 163, "total energy a mass", "energy / density"),
    energy(Derived::Enthalpy, "enthalpy", 130, "enthalpy a mass", "gamma internal_energy"),
];

/// The row of a velocity.
const fn velocity(
    derived: Derived,
    name: &'static str,
    number: u32,
    components: usize,
    long_name: &'static str,
    formula: &'static str,
    centre: Option<f64>,
) -> Definition {
    let (standard_name, divided_by, units) = ("", "a_inf", "m s-1");
    Definition { derived, name, number, components, standard_name, long_name, divided_by, units, formula, centre }
}

/// The row of an energy per mass.
const fn energy(
    derived: Derived,
    name: &'static str,
    number: u32,
    long_name: &'static str,
    formula: &'static str,
) -> Definition {
    let (standard_name, divided_by, units, components, centre) = ("", "a_inf^2", "J kg-1", 1, None);
    Definition { derived, name, number, components, standard_name, long_name, divided_by, units, formula, centre }
}

/// The row of a scalar without dimension.
const fn number(
    derived: Derived,
    name: &'static str,
    number: u32,
    long_name: &'static str,
    formula: &'static str,
    centre: Option<f64>,
) -> Definition {
    let (standard_name, divided_by, units, components) = ("", "", "1", 1);
    Definition { derived, name, number, components, standard_name, long_name, divided_by, units, formula, centre }
}

impl Derived {
    /// The field of that name.
    pub fn named(name: &str) -> Option<Self> {
        DEFINITIONS.iter().find(|d| d.name == name).map(|d| d.derived)
    }
    /// Its row of [`DEFINITIONS`].
    pub fn definition(self) -> &'static Definition {
        // Every variant has a row: tested below.
        DEFINITIONS.iter().find(|d| d.derived == self).unwrap_or(&DEFINITIONS[0])
    }
    /// Components, without a lookup: this is called at every node.
    #[inline]
    pub const fn components(self) -> usize {
        match self {
            Self::Velocity => 3,
            _ => 1,
        }
    }
    /// Whether the formula contains total energy.
    pub fn needs_energy(self) -> bool {
        use Derived::*;
        !matches!(self, Velocity | VelocityX | VelocityY | VelocityZ | VelocityMagnitude | KineticEnergy)
    }
    /// Whether the formula contains momentum.
    pub fn needs_momentum(self) -> bool {
        self != Derived::StagnationEnergy
    }
    /// The value at a node. Entries beyond the components are 0.
    #[inline(always)]
    pub fn value(self, q: &Conserved, free: FreeStream) -> [f64; 3] {
        use Derived::*;
        let v = q.velocity();
        let scalar = match self {
            Velocity => return v,
            VelocityX => v[0],
            VelocityY => v[1],
            VelocityZ => v[2],
            VelocityMagnitude => (2.0 * q.kinetic_energy()).sqrt(),
            Pressure => q.pressure(),
            PressureCoefficient => {
                (q.pressure() / free.pressure_scale() - 1.0 / q.gamma) / (0.5 * free.mach * free.mach)
            }
            Temperature => q.pressure() / (q.density * free.gas_constant),
            Mach => (2.0 * q.kinetic_energy()).sqrt() / q.sound_speed(),
            SoundSpeed => q.sound_speed(),
            Entropy => {
                let pressure = q.gamma * q.pressure() / free.pressure_scale();
                (pressure / (q.density / free.density).powf(q.gamma)).ln() / (q.gamma - 1.0)
            }
            InternalEnergy => q.energy / q.density - q.kinetic_energy(),
            KineticEnergy => q.kinetic_energy(),
            StagnationEnergy => q.energy / q.density,
            Enthalpy => q.gamma * (q.energy / q.density - q.kinetic_energy()),
        };
        [scalar, 0.0, 0.0]
    }

    /// The values at the nodes of columns, component by component; bit for bit those of [`Self::value`].
    pub fn values(self, columns: &Columns, free: FreeStream, out: &mut [f64]) {
        let n = columns.of[0].len();
        self.at_nodes(columns.of.each_ref().map(|column| &column[..n]), free, n, out);
    }

    /// The values at the corners of a cell, a row per component; bit for bit those of [`Self::value`].
    pub fn at_corners(self, corners: &ConservedCorners, free: FreeStream, mut row: impl FnMut([f64; 8])) {
        let mut rows = [0.0; 3 * 8];
        self.at_nodes(corners.of.each_ref(), free, 8, &mut rows);
        rows.as_chunks::<8>().0.iter().take(self.components()).for_each(|r| row(*r));
    }

    /// One loop over nodes per field: a constant field lets the compiler vectorise it.
    #[inline(always)]
    fn at_nodes<C: core::ops::Index<usize, Output = f64> + ?Sized>(
        self,
        [density, x, y, z, energy, gamma]: [&C; 6],
        free: FreeStream,
        n: usize,
        out: &mut [f64],
    ) {
        let node = |at: usize| Conserved {
            density: density[at],
            momentum: [x[at], y[at], z[at]],
            energy: energy[at],
            gamma: gamma[at],
        };
        macro_rules! scalars {
            ($($field:ident)*) => {
                match self {
                    Self::Velocity => (0..3).for_each(|c| {
                        fill(&mut out[c * n..][..n], |at| Self::Velocity.value(&node(at), free)[c]);
                    }),
                    $(Self::$field => fill(&mut out[..n], |at| Self::$field.value(&node(at), free)[0]),)*
                }
            };
        }
        scalars!(VelocityX VelocityY VelocityZ VelocityMagnitude Pressure PressureCoefficient Temperature Mach SoundSpeed
            Entropy InternalEnergy KineticEnergy StagnationEnergy Enthalpy);
    }
}

#[inline(always)]
fn fill(out: &mut [f64], value: impl Fn(usize) -> f64) {
    out.iter_mut().enumerate().for_each(|(at, out)| *out = value(at));
}

/// The arrays of a zone from which derived fields are made.
#[derive(Copy, Clone, Debug, Default)]
pub struct Sources {
    /// Index of `density`.
    pub density: Option<usize>,
    /// Index of `momentum`.
    pub momentum: Option<usize>,
    /// Index of `energy`.
    pub energy: Option<usize>,
    /// Index of `gamma`, if it varies.
    pub gamma: Option<usize>,
}

impl Sources {
    /// Finds the names in a zone.
    pub fn of(zone: &Zone) -> Self {
        let f = |n: &str| zone.array(n);
        Self { density: f("density"), momentum: f("momentum"), energy: f("energy"), gamma: f("gamma") }
    }
    /// Whether these arrays suffice for a derived field.
    pub fn offer(&self, d: Derived) -> bool {
        self.density.is_some()
            && (!d.needs_momentum() || self.momentum.is_some())
            && (!d.needs_energy() || self.energy.is_some())
    }
}

/// A field of one zone, resolved to arrays.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A whole stored array.
    Stored {
        /// Index of the array in the zone.
        array: usize,
        /// Components of the array.
        components: usize,
    },
    /// One component of a stored array.
    Component {
        /// Index of the array in the zone.
        array: usize,
        /// Index of the component.
        component: usize,
    },
    /// A function of the conserved variables.
    Derived(Derived),
}

impl Quantity {
    /// Resolves a name in a zone: stored arrays, then derived fields, then `NAME_x`, `NAME_y`, `NAME_z`.
    pub fn named(zone: &Zone, name: &str) -> Option<Self> {
        if let Some(array) = zone.array(name) {
            return Some(Self::Stored { array, components: zone.arrays[array].components });
        }
        let offer = Sources::of(zone);
        if let Some(d) = Derived::named(name).filter(|&d| offer.offer(d)) {
            return Some(Self::Derived(d));
        }
        let (stem, component) =
            [("_x", 0), ("_y", 1), ("_z", 2)].iter().find_map(|(s, c)| Some((name.strip_suffix(s)?, *c)))?;
        let array = zone.array(stem)?;
        let components = zone.arrays[array].components;
        (components > 1 && component < components).then_some(Self::Component { array, component })
    }
    /// Number of components.
    pub fn components(self) -> usize {
        match self {
            Self::Stored { components, .. } => components,
            Self::Component { .. } => 1,
            Self::Derived(d) => d.components(),
        }
    }
    /// All names that [`Self::named`] resolves in a zone, without components.
    pub fn names(zone: &Zone) -> Vec<String> {
        let offer = Sources::of(zone);
        let stored = zone
            .arrays
            .iter()
            .enumerate()
            .filter(|(n, a)| *n != zone.xyz && Some(*n) != zone.iblank && !a.derived)
            .map(|(_, a)| a.name.clone());
        let derived = DEFINITIONS.iter().filter(|d| offer.offer(d.derived)).map(|d| d.name.to_owned());
        stored.chain(derived).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_stream_at_mach_two() {
        // rho = 1, a = 1, p = 1 / gamma, u = M: every function has its textbook value.
        let (g, m) = (1.4, 2.0);
        let q =
            Conserved { density: 1.0, momentum: [m, 0.0, 0.0], energy: 1.0 / (g * (g - 1.0)) + 0.5 * m * m, gamma: g };
        let v = |d: Derived| d.value(&q, m.into())[0];
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        near(v(Derived::Pressure), 1.0 / g);
        near(v(Derived::Mach), m);
        near(v(Derived::SoundSpeed), 1.0);
        near(v(Derived::PressureCoefficient), 0.0);
        near(v(Derived::Temperature), 1.0 / g);
        near(v(Derived::Entropy), 0.0);
        near(v(Derived::KineticEnergy), 2.0);
        near(v(Derived::InternalEnergy), 1.0 / (g * (g - 1.0)));
        near(v(Derived::Enthalpy), 1.0 / (g - 1.0));
        near(v(Derived::StagnationEnergy), 1.0 / (g * (g - 1.0)) + 2.0);
        near(v(Derived::VelocityMagnitude), 2.0);
    }

    #[test]
    fn what_has_no_dimension_is_the_same_in_si() {
        let q = Conserved { density: 0.9, momentum: [0.3, -0.2, 0.1], energy: 1.7, gamma: 1.3 };
        let (rho, a) = (1.2, 340.0);
        let si = Conserved {
            density: q.density * rho,
            momentum: q.momentum.map(|m| m * rho * a),
            energy: q.energy * rho * a * a,
            gamma: q.gamma,
        };
        // R = a^2 / (gamma T) makes the temperature T in the free stream.
        let free = FreeStream { mach: 0.4, density: rho, sound_speed: a, gas_constant: a * a / (1.4 * 288.0) };
        for d in DEFINITIONS {
            let by = match d.units {
                "1" => 1.0,
                "m s-1" => a,
                "J kg-1" => a * a,
                "Pa" => rho * a * a,
                "K" => 1.4 * 288.0,
                other => panic!("{other}"),
            };
            for (s, n) in d.derived.value(&si, free).into_iter().zip(d.derived.value(&q, 0.4.into())) {
                assert!((s - n * by).abs() <= 1e-12 * (n * by).abs(), "{}: {s} {n}", d.name);
            }
        }
    }

    #[test]
    fn columns_give_what_nodes_give() {
        let mut columns = Columns::default();
        let number = |seed: usize, at: usize| ((seed * 37 + at * 101) % 64) as f64 / 64.0 + 0.25;
        let n = 11;
        (0..6).for_each(|v| columns.of(v, n, 0.0).iter_mut().enumerate().for_each(|(at, x)| *x = number(v, at)));
        let free = FreeStream { mach: 0.4, density: 1.2, sound_speed: 340.0, gas_constant: 287.0 };
        for d in DEFINITIONS {
            let mut out = vec![0.0; n * d.components];
            d.derived.values(&columns, free, &mut out);
            for at in 0..n {
                let v = |v| number(v, at);
                let q = Conserved { density: v(0), momentum: [v(1), v(2), v(3)], energy: v(4), gamma: v(5) };
                for (c, expected) in d.derived.value(&q, free).into_iter().take(d.components).enumerate() {
                    let same = out[c * n + at].to_bits() == expected.to_bits()
                        || out[c * n + at].is_nan() && expected.is_nan();
                    assert!(same, "{} {c} {at}: {} {expected}", d.name, out[c * n + at]);
                }
            }
            let corners = ConservedCorners { of: core::array::from_fn(|v| core::array::from_fn(|at| number(v, at))) };
            let mut rows = Vec::new();
            // A value computed at compile time may be a NaN of another sign than the processor's.
            d.derived.at_corners(std::hint::black_box(&corners), free, |row| rows.push(row));
            assert_eq!(rows.len(), d.components);
            for (c, row) in rows.iter().enumerate() {
                for (at, value) in row.iter().enumerate() {
                    assert_eq!(value.to_bits(), out[c * n + at].to_bits(), "{} {c} {at}", d.name);
                }
            }
        }
    }

    #[test]
    fn names_are_unique_and_have_rows() {
        for (n, d) in DEFINITIONS.iter().enumerate() {
            assert!(DEFINITIONS[..n].iter().all(|e| e.name != d.name));
            assert_eq!(d.derived.definition().name, d.name);
            assert_eq!(Derived::named(d.name), Some(d.derived));
            assert_eq!(d.derived.components(), d.components, "{}", d.name);
        }
    }
}
