//! Conditions at a point: comparisons of sampled values, combined with `and`, `or` and `not`.
//!
//! # Theory
//! Conditions themselves are not sampled: between a node with true and one with false lies neither. The two sides of a
//! comparison are sampled as fields, and compared at the point. So `mach > 1` holds exactly where the sampled Mach
//! number exceeds one.

use super::bounds::Interval;
use super::{Expression, ExpressionKind, Function, Operator, Wrong};

/// One side of a comparison.
#[derive(Copy, Clone, Debug, PartialEq)]
enum Side {
    Number(f64),
    /// Index in [`Condition::sides`].
    Sampled(usize),
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Compare(Operator, [Side; 2]),
    Both(Box<[Test; 2]>),
    Either(Box<[Test; 2]>),
    Not(Box<Test>),
}

/// A condition at a point.
///
/// ```
/// use field::expression::{parse::parse, Condition};
/// let c = Condition::of(&parse("mach > 1 and not x <= 2 * y").unwrap()).unwrap();
/// assert_eq!(c.sides().iter().map(ToString::to_string).collect::<Vec<_>>(), ["mach", "x", "(2.0) * (y)"]);
/// assert!(c.holds(|side| [1.5, 3.0, 1.0][side]));
/// assert!(!c.holds(|side| [1.5, 3.0, 4.0][side]));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    test: Test,
    sides: Vec<Expression>,
}

impl Condition {
    /// Splits an expression into tests and sides.
    ///
    /// # Errors
    /// [`Wrong`] for a part that is not a condition.
    pub fn of(e: &Expression) -> Result<Self, Wrong> {
        let mut sides = Vec::new();
        let test = test(e, &mut sides)?;
        Ok(Self { test, sides })
    }

    /// The expressions to sample.
    pub fn sides(&self) -> &[Expression] {
        &self.sides
    }

    /// Whether it holds where `sampled` gives the sides. A comparison with NaN is false, except `!=`.
    pub fn holds(&self, sampled: impl Fn(usize) -> f64) -> bool {
        self.test.holds(&sampled)
    }

    /// Whether it may hold for sides within intervals.
    pub fn may_hold(&self, within: impl Fn(usize) -> Interval) -> bool {
        self.test.may(&within)[1]
    }
}

fn side(e: &Expression, sides: &mut Vec<Expression>) -> Side {
    let sampled = |sides: &mut Vec<Expression>| {
        let plain = e.clone().without_columns();
        let known = sides.iter().position(|s| *s == plain);
        Side::Sampled(known.unwrap_or_else(|| {
            sides.push(plain);
            sides.len() - 1
        }))
    };
    match &e.kind {
        ExpressionKind::Number(v, None) => Side::Number(*v),
        ExpressionKind::Negative(inside) => match inside.kind {
            ExpressionKind::Number(v, None) => Side::Number(-v),
            _ => sampled(sides),
        },
        _ => sampled(sides),
    }
}

fn test(e: &Expression, sides: &mut Vec<Expression>) -> Result<Test, Wrong> {
    let mut two = |a: &Expression, b: &Expression| Ok(Box::new([test(a, sides)?, test(b, sides)?]));
    match &e.kind {
        ExpressionKind::Binary(Operator::And, a, b) => two(a, b).map(Test::Both),
        ExpressionKind::Binary(Operator::Or, a, b) => two(a, b).map(Test::Either),
        ExpressionKind::Call(Function::Not, inside) => match &inside[..] {
            [inside] => Ok(Test::Not(Box::new(test(inside, sides)?))),
            _ => Err(Wrong::at(e.column, "'not' takes one condition")),
        },
        ExpressionKind::Binary(o, a, b) if o.compares() => Ok(Test::Compare(*o, [side(a, sides), side(b, sides)])),
        _ => Err(Wrong::at(e.column, "expected a condition, a comparison such as mach > 1, found a value")),
    }
}

impl Test {
    fn holds(&self, sampled: &impl Fn(usize) -> f64) -> bool {
        match self {
            Self::Compare(o, sides) => {
                let [a, b] = sides.map(|s| match s {
                    Side::Number(v) => v,
                    Side::Sampled(n) => sampled(n),
                });
                match o {
                    Operator::Less => a < b,
                    Operator::LessEqual => a <= b,
                    Operator::Greater => a > b,
                    Operator::GreaterEqual => a >= b,
                    Operator::Equal => a == b,
                    _ => a != b,
                }
            }
            Self::Both(two) => two[0].holds(sampled) && two[1].holds(sampled),
            Self::Either(two) => two[0].holds(sampled) || two[1].holds(sampled),
            Self::Not(inside) => !inside.holds(sampled),
        }
    }

    /// Whether it may be false, and whether it may be true.
    fn may(&self, within: &impl Fn(usize) -> Interval) -> [bool; 2] {
        match self {
            Self::Compare(o, sides) => {
                let [a, b] = sides.map(|s| match s {
                    Side::Number(v) => Interval::of(v, v),
                    Side::Sampled(n) => within(n),
                });
                let nan = a.nan || b.nan;
                let point = a.lo == a.hi && b.lo == b.hi && a.lo == b.lo;
                let meet = a.lo <= b.hi && b.lo <= a.hi;
                match o {
                    Operator::Less => [nan || a.hi >= b.lo, a.lo < b.hi],
                    Operator::LessEqual => [nan || a.hi > b.lo, a.lo <= b.hi],
                    Operator::Greater => [nan || b.hi >= a.lo, b.lo < a.hi],
                    Operator::GreaterEqual => [nan || b.hi > a.lo, b.lo <= a.hi],
                    Operator::Equal => [nan || !point, meet],
                    _ => [meet, nan || !point],
                }
            }
            Self::Both(two) => {
                let [a, b] = [two[0].may(within), two[1].may(within)];
                [a[0] || b[0], a[1] && b[1]]
            }
            Self::Either(two) => {
                let [a, b] = [two[0].may(within), two[1].may(within)];
                [a[0] && b[0], a[1] || b[1]]
            }
            Self::Not(inside) => {
                let [no, yes] = inside.may(within);
                [yes, no]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::parse::parse;
    use proptest::prelude::*;

    fn condition(text: &str) -> Condition {
        Condition::of(&parse(text).unwrap()).unwrap()
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for (text, column) in [("mach", 1), ("mach > 1 and density", 14), ("not 2 * x", 7), ("(x > 1) * 2", 9)] {
            let wrong = Condition::of(&parse(text).unwrap()).unwrap_err();
            assert_eq!((wrong.column, wrong.what.contains("expected a condition")), (column, true), "{text}");
        }
    }

    #[test]
    fn what_is_sampled_twice_is_one_side() {
        let c = condition("a < 1 or a > -2 or (a + b) != (a+b)");
        assert_eq!(c.sides().iter().map(ToString::to_string).collect::<Vec<_>>(), ["a", "(a) + (b)"]);
    }

    #[test]
    fn comparisons_with_no_number() {
        for (text, truth) in
            [("a < 1", false), ("a >= 1", false), ("not a < 1", true), ("a == a", false), ("a != a", true)]
        {
            assert_eq!(condition(text).holds(|_| f64::NAN), truth, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, rng_seed: prop::test_runner::RngSeed::Fixed(0x636f_6e64), ..ProptestConfig::default() })]
        /// A condition that holds somewhere may hold within any intervals. If they are points, the result is exact.
        #[test]
        fn what_holds_may_hold(
            text in prop::sample::select(vec![
                "a < b", "a <= b", "a > b", "a >= b", "a == b", "a != b", "a < 1 and b > a", "a < 0 or not (b >= a)",
                "not (a != b and b > 0) or a == 1", "not not a > b",
            ]),
            lows in prop::array::uniform2(-2i32..3), widths in prop::array::uniform2(0i32..3),
            at in prop::array::uniform2(0.0f64..=1.0), none in prop::array::uniform2(0u8..4),
        ) {
            let c = condition(text);
            let value = |n: usize| match none[n] {
                0 => f64::NAN,
                _ => f64::from(lows[n]) + (f64::from(widths[n]) * at[n]).round(),
            };
            let within = |n: usize| Interval { nan: none[n] == 0, ..Interval::of(f64::from(lows[n]), f64::from(lows[n] + widths[n])) };
            prop_assert!(!c.holds(value) || c.may_hold(within), "{text} {lows:?} {widths:?} {none:?}");
            let e = parse(text).unwrap();
            let never = Condition::of(&Expression { column: 1, kind: ExpressionKind::Call(Function::Not, vec![e]) }).unwrap();
            prop_assert!(c.holds(value) != never.holds(value));
            prop_assert!(c.holds(value) || never.may_hold(within));
            if widths == [0, 0] && !none.contains(&0) {
                prop_assert_eq!(c.holds(value), c.may_hold(within));
            }
        }
    }
}
