//! Units of measurement: their dimensions, and their conversion to SI.
//!
//! A [`Dimension`] is a product of powers of base units: those of SI, an angle, and the divisors of PLOT3D's numbers
//! (rho_inf, a_inf, and the grid's unit of length) while their values are unknown.
//!
//! A [`Unit`] is a dimension with its conversion: `value_si = value * scale + offset`. Definitions are exact (the
//! international foot and nautical mile, the pound of 1959, standard gravity): BIPM, The International System of Units,
//! 9th ed. 2019; NIST SP 811, 2008.

use std::fmt;

/// Spellings of the base units.
const BASE: [&str; 11] = ["kg", "m", "s", "K", "A", "mol", "cd", "rad", "rho_inf", "a_inf", "L"];
/// The first of [`BASE`] with an unknown value.
const SYMBOLS: usize = 8;
/// Powers are counted in twelfths, so that roots of roots are exact.
const WHOLE: i16 = 12;

/// A product of powers of base units.
///
/// ```
/// use field::units::Unit;
/// let speed = Unit::parse("kn")?;
/// assert_eq!(speed.dimension, Unit::parse("m s-1")?.dimension);
/// assert_eq!(speed.scale, 1852.0 / 3600.0);
/// assert_eq!(Unit::parse("kg m-1 s-2")?.dimension.to_string(), "Pa");
/// # Ok::<(), String>(())
/// ```
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dimension([i16; BASE.len()]);

impl Dimension {
    /// The dimension of numbers.
    pub const NONE: Self = Self([0; BASE.len()]);

    /// One of the base units.
    fn base(name: &str) -> Option<Self> {
        let n = BASE.iter().position(|b| *b == name)?;
        let mut d = Self::NONE;
        d.0[n] = WHOLE;
        Some(d)
    }
    /// The dimension of a product; `None` if a power overflows.
    pub fn times(self, other: Self) -> Option<Self> {
        self.combined(other, |a, b| a.checked_add(b))
    }
    /// The dimension of a quotient.
    pub fn over(self, other: Self) -> Option<Self> {
        self.combined(other, |a, b| a.checked_sub(b))
    }
    fn combined(self, other: Self, f: impl Fn(i16, i16) -> Option<i16>) -> Option<Self> {
        let mut out = self;
        for (a, b) in out.0.iter_mut().zip(other.0) {
            *a = f(*a, b)?;
        }
        Some(out)
    }
    /// The dimension of a power; `None` if its powers are not whole twelfths.
    pub fn power(self, p: f64) -> Option<Self> {
        let mut out = self;
        for a in &mut out.0 {
            let exact = f64::from(*a) * p;
            if exact.fract() != 0.0 || exact.abs() > 12_000.0 {
                return None;
            }
            *a = exact as i16;
        }
        Some(out)
    }
    /// Whether it is that of a number; angles are numbers.
    pub fn is_number(self) -> bool {
        self.without_angle() == Self::NONE
    }
    /// The dimension without angles: 1 rad = 1.
    pub fn without_angle(mut self) -> Self {
        self.0[7] = 0;
        self
    }
    /// Whether it contains a base unit with an unknown value.
    pub fn has_symbols(self) -> bool {
        self.0[SYMBOLS..].iter().any(|p| *p != 0)
    }
    /// As the divisor in labels: `a_inf`, `(a_inf^2 / L)`.
    pub fn as_divisor(self) -> String {
        let part = |above: bool| {
            let some = BASE.iter().zip(self.0).filter(|(_, p)| if above { *p > 0 } else { *p < 0 });
            let each = some.map(|(name, p)| match reduced(p.saturating_abs()) {
                (1, 1) => (*name).to_owned(),
                (over, 1) => format!("{name}^{over}"),
                (over, under) => format!("{name}^({over}/{under})"),
            });
            each.collect::<Vec<_>>()
        };
        let (above, below) = (part(true), part(false));
        let over = if above.is_empty() { "1".to_owned() } else { above.join(" ") };
        match &below[..] {
            [] if above.len() < 2 => over,
            [] => format!("({over})"),
            [one] => format!("({over} / {one})"),
            many => format!("({over} / ({}))", many.join(" ")),
        }
    }
    /// Density of the free stream.
    pub fn rho_inf() -> Self {
        Self::base("rho_inf").unwrap_or_default()
    }
    /// Speed of sound of the free stream.
    pub fn a_inf() -> Self {
        Self::base("a_inf").unwrap_or_default()
    }
    /// Unit of the grid.
    pub fn grid_length() -> Self {
        Self::base("L").unwrap_or_default()
    }
}

/// A power in twelfths, as a reduced fraction.
fn reduced(power: i16) -> (i16, i16) {
    let divisor = [6, 4, 3, 2].into_iter().find(|d| power % d == 0).unwrap_or(1);
    match power % WHOLE {
        0 => (power / WHOLE, 1),
        _ => (power / divisor, WHOLE / divisor),
    }
}

/// UDUNITS spelling; `1` for numbers.
impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in ["Pa", "N", "J", "W"] {
            if Unit::parse(name).is_ok_and(|u| u.dimension == *self) {
                return f.write_str(name);
            }
        }
        let mut first = true;
        for (name, p) in BASE.iter().zip(self.0).filter(|(_, p)| *p != 0) {
            if !first {
                f.write_str(" ")?;
            }
            first = false;
            match (p, p % WHOLE) {
                (WHOLE, _) => write!(f, "{name}")?,
                (p, 0) => write!(f, "{name}{}", p / WHOLE)?,
                (p, _) => {
                    let (over, under) = reduced(p);
                    write!(f, "{name}^({over}/{under})")?;
                }
            }
        }
        if first {
            f.write_str("1")?;
        }
        Ok(())
    }
}

/// A unit.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Unit {
    /// The dimension.
    pub dimension: Dimension,
    /// SI units per unit.
    pub scale: f64,
    /// Its zero in SI units.
    pub offset: f64,
}

/// Units by name: scale, zero, and base units. Those that take prefixes come first.
const NAMED: &[(&str, f64, f64, &str)] = &[
    ("m", 1.0, 0.0, "m"),
    ("s", 1.0, 0.0, "s"),
    ("g", 1e-3, 0.0, "kg"),
    ("K", 1.0, 0.0, "K"),
    ("A", 1.0, 0.0, "A"),
    ("mol", 1.0, 0.0, "mol"),
    ("cd", 1.0, 0.0, "cd"),
    ("rad", 1.0, 0.0, "rad"),
    ("Hz", 1.0, 0.0, "s-1"),
    ("N", 1.0, 0.0, "kg m s-2"),
    ("Pa", 1.0, 0.0, "kg m-1 s-2"),
    ("J", 1.0, 0.0, "kg m2 s-2"),
    ("W", 1.0, 0.0, "kg m2 s-3"),
    ("bar", 1e5, 0.0, "kg m-1 s-2"),
    ("L", 1.0, 0.0, "L"),
    ("a_inf", 1.0, 0.0, "a_inf"),
    ("rho_inf", 1.0, 0.0, "rho_inf"),
    ("kg", 1.0, 0.0, "kg"),
    ("t", 1e3, 0.0, "kg"),
    ("lb", 0.453_592_37, 0.0, "kg"),
    ("slug", 0.453_592_37 * 9.806_65 / 0.3048, 0.0, "kg"),
    ("in", 0.0254, 0.0, "m"),
    ("inch", 0.0254, 0.0, "m"),
    ("ft", 0.3048, 0.0, "m"),
    ("yd", 0.9144, 0.0, "m"),
    ("mi", 1609.344, 0.0, "m"),
    ("nmi", 1852.0, 0.0, "m"),
    ("min", 60.0, 0.0, "s"),
    ("h", 3600.0, 0.0, "s"),
    ("hr", 3600.0, 0.0, "s"),
    ("d", 86400.0, 0.0, "s"),
    ("kn", 1852.0 / 3600.0, 0.0, "m s-1"),
    ("kt", 1852.0 / 3600.0, 0.0, "m s-1"),
    ("mph", 0.44704, 0.0, "m s-1"),
    ("kph", 1.0 / 3.6, 0.0, "m s-1"),
    ("lbf", 0.453_592_37 * 9.806_65, 0.0, "kg m s-2"),
    ("psi", 0.453_592_37 * 9.806_65 / (0.0254 * 0.0254), 0.0, "kg m-1 s-2"),
    ("psf", 0.453_592_37 * 9.806_65 / (0.3048 * 0.3048), 0.0, "kg m-1 s-2"),
    ("atm", 101_325.0, 0.0, "kg m-1 s-2"),
    ("deg", std::f64::consts::PI / 180.0, 0.0, "rad"),
    ("degree", std::f64::consts::PI / 180.0, 0.0, "rad"),
    ("degrees", std::f64::consts::PI / 180.0, 0.0, "rad"),
    ("rpm", std::f64::consts::PI / 30.0, 0.0, "rad s-1"),
    ("degC", 1.0, 273.15, "K"),
    ("degF", 1.0 / 1.8, 273.15 - 32.0 / 1.8, "K"),
    ("degR", 1.0 / 1.8, 0.0, "K"),
    ("percent", 0.01, 0.0, "1"),
    ("%", 0.01, 0.0, "1"),
];
/// Number of units in [`NAMED`] that take prefixes.
const PREFIXED: usize = 14;
const PREFIXES: &[(&str, f64)] =
    &[("G", 1e9), ("M", 1e6), ("k", 1e3), ("h", 1e2), ("c", 1e-2), ("m", 1e-3), ("u", 1e-6), ("n", 1e-9)];
/// Limits of the length of a spelling and of the depth of its parentheses.
const LONGEST: usize = 200;
const DEEPEST: usize = 8;

impl Unit {
    /// The unit of numbers.
    pub const ONE: Self = Self { dimension: Dimension::NONE, scale: 1.0, offset: 0.0 };

    /// The SI unit of a dimension.
    pub const fn of(dimension: Dimension) -> Self {
        Self { dimension, scale: 1.0, offset: 0.0 }
    }

    /// Parses names with prefixes and powers (`m2`, `m^2`, `m**2`, `s-1`), joined by blanks, `*`, `.` or `/`, and
    /// parentheses. A `/` applies to the next factor alone: `kg/m s` is kg s / m.
    ///
    /// # Errors
    /// A message about the part that is not understood.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("a unit has at most {LONGEST} characters"));
        }
        let mut p = Spelling { left: text.trim(), whole: text };
        if p.left.is_empty() {
            return Ok(Self::ONE);
        }
        let unit = p.product(0)?;
        if !p.left.is_empty() {
            return Err(format!("'{}' in the unit '{text}' is not understood", p.left));
        }
        Ok(unit)
    }

    fn named(name: &str) -> Option<Self> {
        let row = |n: &str, of: &[(&str, f64, f64, &str)]| {
            let &(_, scale, offset, made_of) = of.iter().find(|u| u.0 == n)?;
            let dimension = Dimension::base(made_of).or_else(|| Some(Self::parse(made_of).ok()?.dimension))?;
            Some(Self { dimension, scale, offset })
        };
        row(name, NAMED).or_else(|| {
            PREFIXES.iter().find_map(|(prefix, by)| {
                let rest = name.strip_prefix(prefix)?;
                row(rest, &NAMED[..PREFIXED]).map(|u| Self { scale: u.scale * by, ..u })
            })
        })
    }

    fn joined(self, other: Self, over: bool, whole: &str) -> Result<Self, String> {
        if self.offset != 0.0 || other.offset != 0.0 {
            return Err(format!("a temperature with a zero of its own cannot be part of the unit '{whole}'; use K"));
        }
        let (d, scale) = if over {
            (self.dimension.over(other.dimension), self.scale / other.scale)
        } else {
            (self.dimension.times(other.dimension), self.scale * other.scale)
        };
        let dimension = d.ok_or_else(|| format!("a power in the unit '{whole}' is too large"))?;
        Ok(Self { dimension, scale, offset: 0.0 })
    }
}

struct Spelling<'a> {
    left: &'a str,
    whole: &'a str,
}

impl Spelling<'_> {
    fn skip(&mut self) {
        self.left = self.left.trim_start();
    }

    fn eat(&mut self, c: &str) -> bool {
        match self.left.strip_prefix(c) {
            Some(rest) => {
                self.left = rest;
                true
            }
            None => false,
        }
    }

    fn product(&mut self, depth: usize) -> Result<Unit, String> {
        let mut unit = self.factor(depth)?;
        loop {
            self.skip();
            if self.left.is_empty() || self.left.starts_with(')') {
                return Ok(unit);
            }
            let over = self.eat("/");
            if !over && !self.eat("*") {
                self.eat(".");
            }
            self.skip();
            let next = self.factor(depth)?;
            unit = unit.joined(next, over, self.whole)?;
        }
    }

    fn factor(&mut self, depth: usize) -> Result<Unit, String> {
        let unit = if self.eat("(") {
            if depth >= DEEPEST {
                return Err(format!("the unit '{}' has too many parentheses", self.whole));
            }
            self.skip();
            let unit = self.product(depth + 1)?;
            if !self.eat(")") {
                return Err(format!("a ')' is missing in the unit '{}'", self.whole));
            }
            unit
        } else {
            let end = self.left.find(|c: char| !(c.is_alphabetic() || c == '_' || c == '%')).unwrap_or(self.left.len());
            let (name, rest) = self.left.split_at(end);
            if name.is_empty() {
                return match self.eat("1") {
                    true => Ok(Unit::ONE),
                    false => Err(format!("'{}' in the unit '{}' is not understood", self.left, self.whole)),
                };
            }
            self.left = rest;
            Unit::named(name).ok_or_else(|| {
                let known: Vec<&str> = NAMED.iter().map(|u| u.0).collect();
                format!("'{name}' in '{}' is not a known unit; known are {}", self.whole, known.join(", "))
            })?
        };
        let power = self.power()?;
        if power == 1 {
            return Ok(unit);
        }
        if unit.offset != 0.0 {
            return Err(format!(
                "a temperature with a zero of its own cannot be part of the unit '{}'; use K",
                self.whole
            ));
        }
        let dimension = unit.dimension.power(f64::from(power));
        let dimension = dimension.ok_or_else(|| format!("a power in the unit '{}' is too large", self.whole))?;
        Ok(Unit { dimension, scale: unit.scale.powi(power), offset: 0.0 })
    }

    fn power(&mut self) -> Result<i32, String> {
        let marked = self.eat("**") || self.eat("^");
        let end = self.left.char_indices().find(|(n, c)| !(c.is_ascii_digit() || *n == 0 && (*c == '-' || *c == '+')));
        let (digits, rest) = self.left.split_at(end.map_or(self.left.len(), |e| e.0));
        if digits.is_empty() && !marked {
            return Ok(1);
        }
        let power = digits.parse().ok().filter(|p: &i32| p.abs() <= 12);
        let power =
            power.ok_or_else(|| format!("a power in the unit '{}' is not a whole number up to 12", self.whole))?;
        self.left = rest;
        Ok(power)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn si(value: f64, unit: &str) -> f64 {
        let u = Unit::parse(unit).expect(unit);
        value * u.scale + u.offset
    }

    /// Against the definitions' own numbers.
    #[test]
    fn definitions() {
        let near = |a: f64, b: f64| assert!((a - b).abs() <= 4e-16 * b.abs(), "{a} {b}");
        near(si(1.0, "ft"), 0.3048);
        near(si(1.0, "in"), 0.0254);
        near(si(36.0, "km/h"), 10.0);
        near(si(3600.0, "kn"), 1852.0);
        near(si(1.0, "mph"), 0.44704);
        near(si(1.0, "psi"), 6894.757293168361);
        near(si(1.0, "kPa"), 1000.0);
        near(si(1.0, "bar"), 1e5);
        near(si(60.0, "rpm"), std::f64::consts::TAU);
        near(si(180.0, "deg"), std::f64::consts::PI);
        near(si(100.0, "degC"), 373.15);
        near(si(212.0, "degF"), 373.15);
        near(si(671.67, "degR"), 373.15);
        near(si(1.0, "lb ft-3"), 0.45359237 / 0.3048f64.powi(3));
        near(si(5.0, "kg/(m s)"), 5.0);
        near(si(5.0, "kg m**-1 s^-1"), 5.0);
        near(si(1.0, "MHz"), 1e6);
    }

    #[test]
    fn dimensions() {
        let d = |u: &str| Unit::parse(u).expect(u).dimension;
        assert_eq!(d("psi"), d("Pa"));
        assert_eq!(d("J/kg"), d("m2 s-2"));
        assert_eq!(d("Pa").over(d("kg m-3")).and_then(|d| d.power(0.5)), Some(d("m s-1")));
        assert_eq!(d("Pa m-1").to_string(), "kg m-2 s-2");
        assert_eq!(
            (d("").to_string(), d("1").to_string(), d("s-1").to_string()),
            ("1".into(), "1".into(), "s-1".into())
        );
        assert!(d("rad").is_number() && !d("m").is_number() && d("a_inf").has_symbols());
        assert_eq!(d("m").power(1.0 / 5.0), None);
        let root = d("m").power(0.5).and_then(|r| r.over(d("m2")));
        assert_eq!(root.map(|r| r.to_string()), Some("m^(-3/2)".into()));
        assert_eq!(d("m").power(5.0 / 12.0).map(|r| r.to_string()), Some("m^(5/12)".into()));
    }

    /// As in the table of fields; readable again if powers are whole.
    #[test]
    fn what_a_number_is_divided_by() {
        for (unit, label) in [
            ("a_inf", "a_inf"),
            ("a_inf L-1", "(a_inf / L)"),
            ("a_inf2 L-1", "(a_inf^2 / L)"),
            ("rho_inf-1", "(1 / rho_inf)"),
            ("rho_inf a_inf2", "(rho_inf a_inf^2)"),
            ("a_inf rho_inf-1 L-2", "(a_inf / (rho_inf L^2))"),
        ] {
            let dimension = Unit::parse(unit).expect(unit).dimension;
            assert_eq!(dimension.as_divisor(), label);
            assert_eq!(Unit::parse(label).map(|u| u.dimension), Ok(dimension), "{label}");
        }
    }

    #[test]
    fn what_is_no_unit() {
        for bad in ["furlong", "m/", "(m", "m)", "degC/m", "m^x", "m^99", "3 m", "((((((((((m))))))))))"] {
            assert!(Unit::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, rng_seed: prop::test_runner::RngSeed::Fixed(0x756e_6974), ..ProptestConfig::default() })]
        /// Every text has an answer, and an understood unit is spelled so that it is understood again.
        #[test]
        fn any_text_has_an_answer(text in "[a-zA-Z0-9 ()*/^._%-]{0,24}|\\PC{0,12}") {
            if let Ok(u) = Unit::parse(&text) {
                let again = Unit::parse(&u.dimension.to_string());
                if !u.dimension.to_string().contains("^(") && !u.dimension.has_symbols() {
                    prop_assert_eq!(again.map(|u| u.dimension), Ok(u.dimension));
                }
            }
        }
    }
}
