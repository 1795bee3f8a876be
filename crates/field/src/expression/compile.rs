//! From an [`Expression`] to a [`Program`] for one zone: names resolved, kinds and units checked, vectors split into
//! scalars, repeated parts computed once.

use super::{Expression, ExpressionKind, Operator, Wrong};
use crate::error::nearest;
use crate::nodes::Zone;
use crate::quantity::{Quantity, Sources};
use crate::units::{Dimension, Unit};
use std::collections::HashMap;

/// Number of a node of a [`Program`]; operands have smaller ones.
pub type Id = u32;

/// Operations on one number.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the functions of the same names
pub enum One {
    Not,
    Negative,
    Abs,
    Sign,
    Floor,
    Ceil,
    Sqrt,
    Exp,
    Log,
    Log10,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
}

/// Operations on two numbers.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the operators and functions of the same names
pub enum Two {
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
    Atan2,
    Min,
    Max,
    Less,
    LessEqual,
    Equal,
    And,
    Or,
}

/// Operations on the nine derivatives of a vector.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the derived fields of the same names
pub enum Nine {
    Lambda2,
    SwirlingStrength,
}

/// Constants of a zone at a time step.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the constants of the same names
pub enum ZoneConstant {
    Time,
    Gamma,
    Mach,
    Density,
    PressureScale,
    GasConstant,
}

/// A node of a program.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The bits of a constant.
    Constant(u64),
    /// A constant of a zone and step.
    Given(ZoneConstant),
    /// A component of an array of the zone.
    Input {
        /// Index of the array.
        array: usize,
        /// Index of the component.
        component: u8,
    },
    /// An operation on one number.
    One(One, Id),
    /// An operation on two numbers.
    Two(Two, Id, Id),
    /// The second if the first is true (neither zero nor NaN), else the third.
    Select(Id, Id, Id),
    /// The derivative along x, y or z.
    Gradient(Id, u8),
    /// An operation on the derivatives d(u_i)/d(x_j) of a vector, row by row.
    Nine(Nine, [Id; 9]),
}

/// The computation at a node of the grid.
#[derive(Clone, Debug)]
pub struct Program {
    /// Operands come before their results.
    pub nodes: Vec<Operand>,
    /// One per component.
    pub roots: Vec<Id>,
}

/// A program with its dimension and unit.
#[derive(Clone, Debug)]
pub struct CompiledExpression {
    /// The program.
    pub program: Program,
    /// The dimension, if known.
    pub dimension: Option<Dimension>,
    /// The requested unit, as spelled.
    pub shown: Option<String>,
}

/// The meanings of names in a zone.
pub struct ZoneNames<'a> {
    /// The zone.
    pub zone: &'a Zone,
    /// Unit of a field, if known.
    pub unit: &'a dyn Fn(&str) -> Option<Unit>,
    /// Unit of positions.
    pub length: Option<Unit>,
    /// Unit of the time.
    pub time: Option<Unit>,
    /// Names to suggest.
    pub known: &'a dyn Fn() -> Vec<String>,
}

/// A value during the checks.
#[derive(Clone, Debug)]
pub(super) struct TypedValue {
    pub(super) parts: Vec<Id>,
    pub(super) dimension: Option<Dimension>,
    /// A plain number. It takes the other operand's dimension, if that is one of the data's own.
    pub(super) literal: Option<f64>,
}

pub(super) struct Compiler<'a> {
    pub(super) names: &'a ZoneNames<'a>,
    pub(super) sources: Sources,
    nodes: Vec<Operand>,
    places: HashMap<Operand, Id>,
}

/// Compiles an expression for a zone.
///
/// # Errors
/// [`Wrong`] for an unknown name, a vector in place of a scalar, or incompatible units.
pub fn compile(e: &Expression, names: &ZoneNames<'_>) -> Result<CompiledExpression, Wrong> {
    let mut c = Compiler { names, sources: Sources::of(names.zone), nodes: Vec::new(), places: HashMap::new() };
    let (inside, unit) = match &e.kind {
        ExpressionKind::To(inside, spelled) => (&**inside, Some(spelled)),
        _ => (e, None),
    };
    let value = c.value(inside)?;
    let (parts, dimension) = match unit {
        None => (value.parts, value.dimension),
        Some(spelled) => c.converted(&value, spelled, e.column)?,
    };
    let program = Program { nodes: c.nodes, roots: parts };
    Ok(CompiledExpression { program, dimension, shown: unit.cloned() })
}

pub(super) fn kind(parts: &[Id]) -> &'static str {
    if parts.len() == 1 {
        "a scalar"
    } else {
        "a vector"
    }
}

impl Compiler<'_> {
    pub(super) fn node(&mut self, node: Operand) -> Id {
        if let Some(id) = self.places.get(&node) {
            return *id;
        }
        let id = self.nodes.len() as Id;
        self.nodes.push(node);
        self.places.insert(node, id);
        id
    }

    pub(super) fn constant(&mut self, v: f64) -> Id {
        self.node(Operand::Constant(v.to_bits()))
    }

    pub(super) fn two(&mut self, o: Two, a: Id, b: Id) -> Id {
        self.node(Operand::Two(o, a, b))
    }

    pub(super) fn one(&mut self, o: One, a: Id) -> Id {
        self.node(Operand::One(o, a))
    }

    pub(super) fn scaled(&mut self, a: Id, unit: Option<Unit>) -> Id {
        let Some(u) = unit else { return a };
        let mut out = a;
        if u.scale != 1.0 {
            let by = self.constant(u.scale);
            out = self.two(Two::Multiply, out, by);
        }
        if u.offset != 0.0 {
            let by = self.constant(u.offset);
            out = self.two(Two::Add, out, by);
        }
        out
    }

    pub(super) fn input(&mut self, array: usize, component: usize) -> Id {
        self.node(Operand::Input { array, component: component as u8 })
    }

    /// The components of a vector array; a missing third one is 0.
    pub(super) fn vector(&mut self, array: usize) -> [Id; 3] {
        let components = self.names.zone.arrays[array].components;
        core::array::from_fn(|c| if c < components { self.input(array, c) } else { self.constant(0.0) })
    }

    pub(super) fn value(&mut self, e: &Expression) -> Result<TypedValue, Wrong> {
        match &e.kind {
            ExpressionKind::Number(v, unit) => {
                let unit = unit.as_deref().map(Unit::parse).transpose().map_err(|m| Wrong::at(e.column, m))?;
                let u = unit.unwrap_or(Unit::ONE);
                let si = if u == Unit::ONE { *v } else { v * u.scale + u.offset };
                let part = self.constant(si);
                Ok(TypedValue {
                    parts: vec![part],
                    dimension: Some(u.dimension),
                    literal: unit.is_none().then_some(*v),
                })
            }
            ExpressionKind::Name(name) => self.named(name, e.column),
            ExpressionKind::Component(inside, c) => {
                let v = self.value(inside)?;
                if v.parts.len() == 1 {
                    return Err(Wrong::at(e.column, "expected a vector before this component, found a scalar"));
                }
                Ok(TypedValue { parts: vec![v.parts[*c]], ..v })
            }
            // -40 degC is not the negative of 40 degC.
            ExpressionKind::Negative(inside) if matches!(inside.kind, ExpressionKind::Number(_, Some(_))) => {
                let ExpressionKind::Number(v, unit) = &inside.kind else { return self.value(inside) };
                self.value(&Expression { column: e.column, kind: ExpressionKind::Number(-v, unit.clone()) })
            }
            ExpressionKind::Negative(inside) => {
                let v = self.value(inside)?;
                if let Some(x) = v.literal {
                    let part = self.constant(-x);
                    return Ok(TypedValue { parts: vec![part], literal: Some(-x), ..v });
                }
                let parts = v.parts.iter().map(|p| self.one(One::Negative, *p)).collect();
                Ok(TypedValue { parts, ..v })
            }
            ExpressionKind::Binary(o, a, b) => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                self.binary(*o, a, b, e.column)
            }
            ExpressionKind::Call(f, args) => self.call(*f, args, e.column),
            ExpressionKind::To(..) => {
                Err(Wrong::at(e.column, "to() stands around a whole expression, not inside of one"))
            }
        }
    }

    fn named(&mut self, name: &str, column: usize) -> Result<TypedValue, Wrong> {
        let scalar = |part, unit: Option<Unit>| TypedValue {
            parts: vec![part],
            dimension: unit.map(|u| u.dimension),
            literal: None,
        };
        if let Some(kind) = Quantity::named(self.names.zone, name) {
            let unit = (self.names.unit)(name);
            let parts = match kind {
                Quantity::Stored { array, components: 1 } => vec![self.input(array, 0)],
                Quantity::Stored { array, .. } => self.vector(array).to_vec(),
                Quantity::Component { array, component } => vec![self.input(array, component)],
                Quantity::Derived(d) => self.derived(d),
            };
            let parts = parts.into_iter().map(|p| self.scaled(p, unit)).collect();
            return Ok(TypedValue { parts, dimension: unit.map(|u| u.dimension), literal: None });
        }
        if let Some(c) = ["x", "y", "z"].iter().position(|n| *n == name) {
            let part = self.vector(self.names.zone.xyz)[c];
            let part = self.scaled(part, self.names.length);
            return Ok(scalar(part, self.names.length));
        }
        match name {
            "position" => {
                let parts = self.vector(self.names.zone.xyz).map(|p| self.scaled(p, self.names.length)).to_vec();
                Ok(TypedValue { parts, dimension: self.names.length.map(|u| u.dimension), literal: None })
            }
            "time" => {
                let part = self.node(Operand::Given(ZoneConstant::Time));
                let part = self.scaled(part, self.names.time);
                Ok(scalar(part, self.names.time))
            }
            "pi" => {
                let part = self.constant(std::f64::consts::PI);
                Ok(scalar(part, Some(Unit::ONE)))
            }
            _ => {
                let mut known = (self.names.known)();
                known.extend(["x", "y", "z", "position", "time", "pi"].map(str::to_owned));
                let hint = nearest(name, &known).map(|k| format!("; did you mean '{k}'?")).unwrap_or_default();
                Err(Wrong::at(column, format!("there is no field '{name}'; there are {}{hint}", known.join(", "))))
            }
        }
    }

    /// The common dimension of two values.
    pub(super) fn same(
        &self,
        a: &TypedValue,
        b: &TypedValue,
        column: usize,
        verb: &str,
    ) -> Result<Option<Dimension>, Wrong> {
        let (Some(x), Some(y)) = (a.dimension, b.dimension) else { return Ok(a.dimension.or(b.dimension)) };
        if x.without_angle() == y.without_angle() {
            return Ok(Some(if x == Dimension::NONE { y } else { x }));
        }
        for (number, of, other) in [(a.literal, b, y), (b.literal, a, x)] {
            // Zero fits any unit, and a plain number fits values in units of the free stream.
            if number.is_some_and(|n| n == 0.0 || other.has_symbols()) {
                return Ok(of.dimension);
            }
        }
        let hint =
            if a.literal.or(b.literal).is_some() { "; write the unit behind the number, as in 3 'm/s'" } else { "" };
        Err(Wrong::at(column, format!("cannot {verb} '{x}' and '{y}'{hint}")))
    }

    pub(super) fn number(&self, v: &TypedValue, column: usize, what: &str) -> Result<(), Wrong> {
        if v.parts.len() != 1 {
            return Err(Wrong::at(column, format!("{what} takes a scalar, not a vector")));
        }
        match v.dimension.filter(|d| !d.is_number()) {
            Some(d) if !d.has_symbols() => Err(Wrong::at(column, format!("{what} takes a number, not '{d}'"))),
            _ => Ok(()),
        }
    }

    pub(super) fn scalars(&self, values: &[TypedValue], column: usize, what: &str) -> Result<(), Wrong> {
        match values.iter().all(|v| v.parts.len() == 1) {
            true => Ok(()),
            false => {
                Err(Wrong::at(column, format!("{what} takes scalars, not vectors; take components or magnitude()")))
            }
        }
    }

    fn binary(&mut self, o: Operator, a: TypedValue, b: TypedValue, column: usize) -> Result<TypedValue, Wrong> {
        let unknown = |d: Option<Option<Dimension>>| match d {
            Some(None) => Err(Wrong::at(column, "the powers of the unit grow too large")),
            Some(d) => Ok(d),
            None => Ok(None),
        };
        let both = a.dimension.zip(b.dimension);
        match o {
            Operator::Add | Operator::Subtract => {
                let (op, verb) = if o == Operator::Add { (Two::Add, "add") } else { (Two::Subtract, "subtract") };
                if a.parts.len() != b.parts.len() {
                    let (x, y) = (kind(&a.parts), kind(&b.parts));
                    return Err(Wrong::at(column, format!("cannot {verb} {x} and {y}")));
                }
                let dimension = self.same(&a, &b, column, verb)?;
                let parts = a.parts.iter().zip(&b.parts).map(|(x, y)| self.two(op, *x, *y)).collect();
                Ok(TypedValue { parts, dimension, literal: None })
            }
            Operator::Multiply => {
                let dimension = unknown(both.map(|(x, y)| x.times(y)))?;
                let parts = match (&a.parts[..], &b.parts[..]) {
                    ([x], many) | (many, [x]) => many.iter().map(|y| self.two(Two::Multiply, *x, *y)).collect(),
                    _ => return Err(Wrong::at(column, "cannot multiply two vectors: use dot() or cross()")),
                };
                Ok(TypedValue { parts, dimension, literal: a.literal.zip(b.literal).map(|(x, y)| x * y) })
            }
            Operator::Divide => {
                let dimension = unknown(both.map(|(x, y)| x.over(y)))?;
                let &[by] = &b.parts[..] else { return Err(Wrong::at(column, "cannot divide by a vector")) };
                let parts = a.parts.iter().map(|x| self.two(Two::Divide, *x, by)).collect();
                Ok(TypedValue { parts, dimension, literal: a.literal.zip(b.literal).map(|(x, y)| x / y) })
            }
            Operator::Power => self.power(a, b, column),
            Operator::And | Operator::Or => {
                self.scalars(&[a.clone(), b.clone()], column, &format!("'{}'", o.text()))?;
                let op = if o == Operator::And { Two::And } else { Two::Or };
                let part = self.two(op, a.parts[0], b.parts[0]);
                Ok(TypedValue { parts: vec![part], dimension: Some(Dimension::NONE), literal: None })
            }
            _ => {
                self.scalars(&[a.clone(), b.clone()], column, "a comparison")?;
                self.same(&a, &b, column, "compare")?;
                let (x, y) = (a.parts[0], b.parts[0]);
                let part = match o {
                    Operator::Less => self.two(Two::Less, x, y),
                    Operator::LessEqual => self.two(Two::LessEqual, x, y),
                    Operator::Greater => self.two(Two::Less, y, x),
                    Operator::GreaterEqual => self.two(Two::LessEqual, y, x),
                    Operator::Equal => self.two(Two::Equal, x, y),
                    _ => {
                        let (equal, one) = (self.two(Two::Equal, x, y), self.constant(1.0));
                        self.two(Two::Subtract, one, equal)
                    }
                };
                Ok(TypedValue { parts: vec![part], dimension: Some(Dimension::NONE), literal: None })
            }
        }
    }

    fn converted(
        &mut self,
        v: &TypedValue,
        spelled: &str,
        column: usize,
    ) -> Result<(Vec<Id>, Option<Dimension>), Wrong> {
        let unit = Unit::parse(spelled).map_err(|m| Wrong::at(column, m))?;
        let Some(d) = v.dimension else {
            return Err(Wrong::at(column, format!("its unit is not known, so that it cannot be given in '{spelled}'")));
        };
        if d.without_angle() != unit.dimension.without_angle() {
            let hint = match d.has_symbols() && !unit.dimension.has_symbols() {
                true => "; reference values (length, density, sound_speed) in NAME.p3d.json say how much that is",
                false => "",
            };
            return Err(Wrong::at(column, format!("it is in '{d}', which cannot be given in '{spelled}'{hint}")));
        }
        let mut parts = v.parts.clone();
        if unit.offset != 0.0 {
            let by = self.constant(unit.offset);
            parts = parts.iter().map(|p| self.two(Two::Subtract, *p, by)).collect();
        }
        if unit.scale != 1.0 {
            let by = self.constant(unit.scale);
            parts = parts.iter().map(|p| self.two(Two::Divide, *p, by)).collect();
        }
        Ok((parts, Some(d)))
    }
}
