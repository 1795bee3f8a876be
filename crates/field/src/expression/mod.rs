//! Expressions in the fields of a dataset, as a user writes them: `magnitude(velocity) / sound_speed`.
//!
//! [`parse`] makes an [`Expression`] of text, [`compile`] checks kinds and units and makes a [`Program`] of it for one
//! zone, which [`run`] executes for blocks of points and [`bounds`] for intervals. Numbers follow IEEE 754 throughout:
//! what is divided by zero is infinite, or none where zero is divided by it, and is shown as such.

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
#[allow(missing_docs)] // named by what they are written as
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
    /// Whether it says of its two sides what is true or not.
    pub const fn compares(self) -> bool {
        matches!(self, Self::Less | Self::LessEqual | Self::Greater | Self::GreaterEqual | Self::Equal | Self::NotEqual)
    }

    /// As it is written.
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

/// An expression, and the columns (from 1) where its parts begin.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    /// Where it begins.
    pub column: usize,
    /// What it is.
    pub kind: ExpressionKind,
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub enum ExpressionKind {
    /// A number, with its unit as it is spelled.
    Number(f64, Option<String>),
    /// A field, `x`, `y`, `z`, or `time`.
    Name(String),
    /// A component of a vector, from 0.
    Component(Box<Expression>, usize),
    /// The negative.
    Negative(Box<Expression>),
    /// Two values.
    Binary(Operator, Box<Expression>, Box<Expression>),
    /// A function.
    Call(Function, Vec<Expression>),
    /// In another unit, as it is spelled.
    To(Box<Expression>, String),
}

impl Expression {
    /// Every name in it.
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

    /// The same without columns, to compare what was read from different texts.
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

/// With all parentheses, so that it is read as what it is.
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

/// What is wrong with an expression, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Column, from 1.
    pub column: usize,
    /// What, and what was expected.
    pub what: String,
}

impl Wrong {
    /// At a place.
    pub fn at(column: usize, what: impl Into<String>) -> Self {
        Self { column, what: what.into() }
    }
}
