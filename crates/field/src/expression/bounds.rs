//! Bounds of an expression from bounds of its inputs: interval arithmetic over a [`Program`].
//!
//! # Theory
//! Each operation on intervals gives one that holds every result for numbers in them (R. E. Moore, Interval Analysis,
//! 1966). Repeated operands count as independent, so intervals may be too wide, but never too narrow. Bounds are moved
//! outward by a few units in the last place, for rounding. [`Interval::in_float32`] adds the rounding of pages.
//!
//! If a result may be NaN (a division by zero, the root of a negative number), the interval is the whole line and says
//! so. A search for values may not skip there. Derivatives are not bounded: ranges do not give the distance between the
//! largest and the smallest value.

use super::compile::{Nine, One, Operand, Program, Two, ZoneConstant};

/// All numbers from `lo` to `hi`, and whether NaN is possible.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Interval {
    /// Smallest.
    pub lo: f64,
    /// Largest.
    pub hi: f64,
    /// Whether values may be NaN.
    pub nan: bool,
}

impl Interval {
    /// The interval of all values.
    pub const ALL: Self = Self { lo: f64::NEG_INFINITY, hi: f64::INFINITY, nan: true };

    /// From the smallest to the largest value of an array. Inverted or infinite limits give [`Self::ALL`].
    pub fn of(lo: f64, hi: f64) -> Self {
        if lo.is_finite() && hi.is_finite() && lo <= hi {
            Self { lo, hi, nan: false }
        } else {
            Self::ALL
        }
    }

    /// Whether it holds a value.
    pub fn holds(&self, v: f64) -> bool {
        if v.is_nan() {
            self.nan
        } else {
            self.lo <= v && v <= self.hi
        }
    }

    /// Whether a condition may be false, and whether it may be true. NaN is false.
    pub fn truths(&self) -> [bool; 2] {
        let zero = self.lo <= 0.0 && self.hi >= 0.0;
        [self.nan || zero, !(self.lo == 0.0 && self.hi == 0.0)]
    }

    /// The interval of a condition that may be false (`no`) or true (`yes`).
    fn truth([no, yes]: [bool; 2]) -> Self {
        Self { lo: f64::from(u8::from(!no)), hi: f64::from(u8::from(yes)), nan: false }
    }

    /// The interval after rounding to float32.
    pub fn in_float32(self) -> Self {
        let out = |v: f64, by: f32| {
            let near = v as f32;
            if near.is_infinite() {
                return f64::from(near);
            }
            f64::from(if by > 0.0 { near.next_up() } else { near.next_down() })
        };
        Self { lo: out(self.lo, -1.0), hi: out(self.hi, 1.0), nan: self.nan }
    }

    /// Widens for rounding; [`Self::ALL`] if a limit is NaN.
    fn outward(lo: f64, hi: f64, nan: bool) -> Self {
        if lo.is_nan() || hi.is_nan() {
            return Self::ALL;
        }
        // Two units: the library's functions are accurate to one.
        Self { lo: lo.next_down().next_down(), hi: hi.next_up().next_up(), nan }
    }

    fn exact(v: f64) -> Self {
        if v.is_nan() {
            Self::ALL
        } else {
            Self { lo: v, hi: v, nan: false }
        }
    }

    fn finite(&self) -> bool {
        self.lo.is_finite() && self.hi.is_finite()
    }

    fn corners(a: Self, b: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        let nan = a.nan || b.nan;
        let all = [f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)];
        if all.iter().any(|v| v.is_nan()) {
            return Self::ALL;
        }
        let (lo, hi) = all.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
        Self::outward(lo, hi, nan)
    }

    fn rising(self, f: impl Fn(f64) -> f64) -> Self {
        Self::outward(f(self.lo), f(self.hi), self.nan)
    }
}

fn one(o: One, a: Interval) -> Interval {
    match o {
        One::Not => {
            let [no, yes] = a.truths();
            Interval::truth([yes, no])
        }
        One::Negative => Interval { lo: -a.hi, hi: -a.lo, nan: a.nan },
        One::Abs => {
            let far = a.lo.abs().max(a.hi.abs());
            let near = if a.lo <= 0.0 && a.hi >= 0.0 { 0.0 } else { a.lo.abs().min(a.hi.abs()) };
            Interval { lo: near, hi: far, nan: a.nan }
        }
        One::Sign => Interval { lo: super::run::sign(a.lo), hi: super::run::sign(a.hi), nan: a.nan },
        One::Floor => Interval { lo: a.lo.floor(), hi: a.hi.floor(), nan: a.nan },
        One::Ceil => Interval { lo: a.lo.ceil(), hi: a.hi.ceil(), nan: a.nan },
        One::Sqrt => {
            let i = Interval { lo: a.lo.max(0.0), hi: a.hi.max(0.0), nan: a.nan || a.lo < 0.0 }.rising(f64::sqrt);
            Interval { lo: i.lo.max(0.0), ..i }
        }
        One::Exp => {
            let i = a.rising(f64::exp);
            Interval { lo: i.lo.max(0.0), ..i }
        }
        One::Log | One::Log10 => {
            let f = if o == One::Log { f64::ln } else { f64::log10 };
            let nan = a.nan || a.lo < 0.0;
            Interval { nan, ..Interval { lo: a.lo.max(0.0), hi: a.hi.max(0.0), nan }.rising(f) }
        }
        One::Sin | One::Cos => Interval { lo: -1.0, hi: 1.0, nan: a.nan || !a.finite() },
        One::Tan => Interval::ALL,
        One::Asin | One::Acos => {
            let inside = a.lo >= -1.0 && a.hi <= 1.0;
            let (lo, hi) = if o == One::Asin { (-2.0, 2.0) } else { (0.0, 4.0) };
            Interval { lo, hi, nan: a.nan || !inside }
        }
        One::Atan => a.rising(f64::atan),
    }
}

fn two(o: Two, a: Interval, b: Interval, same: bool) -> Interval {
    let nan = a.nan || b.nan;
    let truth = |surely: bool, may: bool| Interval::truth([!surely, may]);
    let ([a_no, a_yes], [b_no, b_yes]) = (a.truths(), b.truths());
    match o {
        Two::Add => Interval::outward(a.lo + b.lo, a.hi + b.hi, nan),
        Two::Subtract => Interval::outward(a.lo - b.hi, a.hi - b.lo, nan),
        // A square is not negative.
        Two::Multiply if same && a.finite() => {
            let m = one(One::Abs, a);
            let i = Interval::outward(m.lo * m.lo, m.hi * m.hi, nan);
            Interval { lo: i.lo.max(0.0), ..i }
        }
        Two::Multiply if a.finite() && b.finite() => Interval::corners(a, b, |x, y| x * y),
        Two::Divide if a.finite() && b.finite() && (b.lo > 0.0 || b.hi < 0.0) => Interval::corners(a, b, |x, y| x / y),
        // A power of positive numbers is monotonic in either operand.
        Two::Power if a.finite() && b.finite() && a.lo > 0.0 => Interval::corners(a, b, f64::powf),
        Two::Multiply | Two::Divide | Two::Power => Interval::ALL,
        Two::Atan2 => Interval { lo: -4.0, hi: 4.0, nan },
        Two::Min => Interval { lo: a.lo.min(b.lo), hi: a.hi.min(b.hi), nan },
        Two::Max => Interval { lo: a.lo.max(b.lo), hi: a.hi.max(b.hi), nan },
        // A comparison with NaN is false.
        Two::Less => truth(!nan && a.hi < b.lo, a.lo < b.hi),
        Two::LessEqual => truth(!nan && a.hi <= b.lo, a.lo <= b.hi),
        Two::And => Interval::truth([a_no || b_no, a_yes && b_yes]),
        Two::Or => Interval::truth([a_no && b_no, a_yes || b_yes]),
        Two::Equal => truth(!nan && a.lo == a.hi && b.lo == b.hi && a.lo == b.lo, a.lo <= b.hi && b.lo <= a.hi),
    }
}

/// Bounds of each component, from those of the inputs.
pub fn bounds(
    program: &Program,
    given: impl Fn(ZoneConstant) -> f64,
    input: impl Fn(usize, usize) -> Interval,
) -> Vec<Interval> {
    let mut all: Vec<Interval> = Vec::with_capacity(program.nodes.len());
    for node in &program.nodes {
        let at = |id: u32| all.get(id as usize).copied().unwrap_or(Interval::ALL);
        let i = match *node {
            Operand::Constant(bits) => Interval::exact(f64::from_bits(bits)),
            Operand::Given(g) => Interval::exact(given(g)),
            Operand::Input { array, component } => input(array, usize::from(component)),
            Operand::One(o, a) => one(o, at(a)),
            Operand::Two(o, a, b) => two(o, at(a), at(b), a == b),
            Operand::Select(c, a, b) => match at(c).truths() {
                [false, _] => at(a),
                [_, false] => at(b),
                _ => {
                    let (a, b) = (at(a), at(b));
                    Interval { lo: a.lo.min(b.lo), hi: a.hi.max(b.hi), nan: a.nan || b.nan }
                }
            },
            Operand::Nine(Nine::SwirlingStrength, _) => Interval { lo: 0.0, ..Interval::ALL },
            Operand::Gradient(..) | Operand::Nine(Nine::Lambda2, _) => Interval::ALL,
        };
        all.push(i);
    }
    program.roots.iter().map(|r| all.get(*r as usize).copied().unwrap_or(Interval::ALL)).collect()
}
