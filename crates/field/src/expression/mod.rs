//! Expressions in the fields of a dataset, as users write them: `magnitude(velocity) / sound_speed`.
//!
//! [`parse`] makes an [`Expression`] from text. [`compile`] checks kinds and units, and makes a [`Program`] for one
//! zone. [`run`] executes it for blocks of points, [`bounds`] for intervals. Numbers follow IEEE 754 throughout: x / 0
//! is infinite, and 0 / 0 is NaN.

pub mod bounds;
mod calls;
pub mod compile;
pub mod condition;
mod formulas;
pub mod function;
pub mod parse;
pub mod run;

use std::fmt;

pub use compile::{CompiledExpression, Operand, Program, ZoneNames};
pub use condition::Condition;
pub use function::Function;

/// An operator between two values.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // named as they are spelled
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    And,
    Or,
}

impl Operator {
    /// Whether it is a comparison.
    pub const fn compares(self) -> bool {
        matches!(self, Self::Less | Self::LessEqual | Self::Greater | Self::GreaterEqual | Self::Equal | Self::NotEqual)
    }

    /// The operator in text.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Power => "^",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::And => "and",
            Self::Or => "or",
        }
    }
}

/// An expression, with the columns (from 1) at which its parts begin.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    /// The column at which it begins.
    pub column: usize,
    /// The kind, with its operands.
    pub kind: ExpressionKind,
}

/// Kinds of expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum ExpressionKind {
    /// A number, with its unit as spelled.
    Number(f64, Option<String>),
    /// A field, `x`, `y`, `z`, or `time`.
    Name(String),
    /// A component of a vector, from 0.
    Component(Box<Expression>, usize),
    /// The negative.
    Negative(Box<Expression>),
    /// An operator on two values.
    Binary(Operator, Box<Expression>, Box<Expression>),
    /// A function of its arguments.
    Call(Function, Vec<Expression>),
    /// A value in another unit, as spelled.
    To(Box<Expression>, String),
}

impl Expression {
    /// Passes every name in it to `each`.
    pub fn names(&self, each: &mut impl FnMut(&str)) {
        match &self.kind {
            ExpressionKind::Number(..) => {}
            ExpressionKind::Name(name) => each(name),
            ExpressionKind::Component(e, _) | ExpressionKind::Negative(e) | ExpressionKind::To(e, _) => e.names(each),
            ExpressionKind::Binary(_, a, b) => {
                a.names(each);
                b.names(each);
            }
            ExpressionKind::Call(_, args) => args.iter().for_each(|a| a.names(each)),
        }
    }

    /// The expression without columns, for comparison with those of other texts.
    pub fn without_columns(mut self) -> Self {
        fn clear(e: &mut Expression) {
            e.column = 0;
            match &mut e.kind {
                ExpressionKind::Number(..) | ExpressionKind::Name(_) => {}
                ExpressionKind::Component(e, _) | ExpressionKind::Negative(e) | ExpressionKind::To(e, _) => clear(e),
                ExpressionKind::Binary(_, a, b) => {
                    clear(a);
                    clear(b);
                }
                ExpressionKind::Call(_, args) => args.iter_mut().for_each(clear),
            }
        }
        clear(&mut self);
        self
    }
}

/// The text with all parentheses, which parses to the same expression.
impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExpressionKind::Number(v, None) => write!(f, "{v:?}"),
            ExpressionKind::Number(v, Some(unit)) => write!(f, "{v:?} '{unit}'"),
            ExpressionKind::Name(name) if parse::is_plain(name) => f.write_str(name),
            ExpressionKind::Name(name) => write!(f, "\"{name}\""),
            ExpressionKind::Component(e, c) => write!(f, "({e})[{c}]"),
            ExpressionKind::Negative(e) => write!(f, "-({e})"),
            ExpressionKind::Binary(o, a, b) => write!(f, "({a}) {} ({b})", o.text()),
            ExpressionKind::Call(function, args) => {
                write!(f, "{}(", function.name())?;
                for (n, a) in args.iter().enumerate() {
                    write!(f, "{}{a}", if n > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            ExpressionKind::To(e, unit) => write!(f, "to({e}, '{unit}')"),
        }
    }
}

/// An error in an expression, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Column, from 1.
    pub column: usize,
    /// The error, and the expected token.
    pub what: String,
}

impl Wrong {
    /// An error at a column.
    pub fn at(column: usize, what: impl Into<String>) -> Self {
        Self { column, what: what.into() }
    }
}
