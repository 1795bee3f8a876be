//! Compilation of functions of checked values.

use super::compile::{kind, Compiler, Id, Nine, One, Operand, Two, TypedValue};
use super::{Expression, Function, Wrong};
use crate::units::{Dimension, Unit};

impl TypedValue {
    /// A computed scalar.
    fn scalar(part: Id, dimension: Option<Dimension>) -> Self {
        Self { parts: vec![part], dimension, literal: None }
    }
}

/// The operation of a function of one number; that of `not` takes truth.
fn of_one_number(f: Function) -> Option<One> {
    match f {
        Function::Abs => Some(One::Abs),
        Function::Floor => Some(One::Floor),
        Function::Ceil => Some(One::Ceil),
        Function::Sign => Some(One::Sign),
        Function::Sqrt => Some(One::Sqrt),
        Function::Exp => Some(One::Exp),
        Function::Log => Some(One::Log),
        Function::Log10 => Some(One::Log10),
        Function::Sin => Some(One::Sin),
        Function::Cos => Some(One::Cos),
        Function::Tan => Some(One::Tan),
        Function::Asin => Some(One::Asin),
        Function::Acos => Some(One::Acos),
        Function::Atan => Some(One::Atan),
        _ => None,
    }
}

/// The dimension of angles.
fn angle() -> Option<Dimension> {
    Unit::parse("rad").ok().map(|u| u.dimension)
}

impl Compiler<'_> {
    pub(super) fn power(&mut self, a: TypedValue, b: TypedValue, column: usize) -> Result<TypedValue, Wrong> {
        self.scalars(&[a.clone(), b.clone()], column, "a power")?;
        self.number(&b, column, "an exponent")?;
        let dimension = match (a.dimension, b.literal) {
            (None, _) => None,
            (Some(d), _) if d.is_number() => Some(Dimension::NONE),
            (Some(d), Some(p)) => {
                Some(d.power(p).ok_or_else(|| Wrong::at(column, format!("'{d}' to the power of {p} is no unit")))?)
            }
            (Some(d), None) => {
                let what = format!("'{d}' can be raised to a power only that is written as a number");
                return Err(Wrong::at(column, what));
            }
        };
        let (x, p) = (a.parts[0], b.parts[0]);
        let part = match b.literal {
            Some(2.0) => self.two(Two::Multiply, x, x),
            Some(3.0) => {
                let square = self.two(Two::Multiply, x, x);
                self.two(Two::Multiply, square, x)
            }
            Some(0.5) => self.one(One::Sqrt, x),
            _ => self.two(Two::Power, x, p),
        };
        Ok(TypedValue { parts: vec![part], dimension, literal: a.literal.zip(b.literal).map(|(x, p)| x.powf(p)) })
    }

    fn dot(&mut self, a: &[Id], b: &[Id]) -> Id {
        let products: Vec<Id> = a.iter().zip(b).map(|(x, y)| self.two(Two::Multiply, *x, *y)).collect();
        let mut sum = products[0];
        for p in &products[1..] {
            sum = self.two(Two::Add, sum, *p);
        }
        sum
    }

    fn cross(&mut self, a: &[Id], b: &[Id]) -> Vec<Id> {
        (0..3)
            .map(|c| {
                let (p, q) = ((c + 1) % 3, (c + 2) % 3);
                let (x, y) = (self.two(Two::Multiply, a[p], b[q]), self.two(Two::Multiply, a[q], b[p]));
                self.two(Two::Subtract, x, y)
            })
            .collect()
    }

    /// d(part)/dx, dy, dz.
    fn gradient(&mut self, part: Id) -> [Id; 3] {
        let by = self.names.length.map(|u| 1.0 / u.scale).filter(|s| *s != 1.0);
        core::array::from_fn(|axis| {
            let d = self.node(Operand::Gradient(part, axis as u8));
            match by {
                Some(s) => {
                    let s = self.constant(s);
                    self.two(Two::Multiply, d, s)
                }
                None => d,
            }
        })
    }

    pub(super) fn call(&mut self, f: Function, args: &[Expression], column: usize) -> Result<TypedValue, Wrong> {
        let values = args.iter().map(|a| self.value(a)).collect::<Result<Vec<_>, _>>()?;
        let what = format!("{}()", f.name());
        let first = &values[0];
        let a = first.parts[0];
        if let Some(one) = of_one_number(f) {
            self.scalars(&values, column, &what)?;
            let dimension = self.dimension_of_one(f, first, column, &what)?;
            return Ok(TypedValue::scalar(self.one(one, a), dimension));
        }
        match f {
            Function::Min | Function::Max => {
                self.scalars(&values, column, &what)?;
                let dimension = self.same(first, &values[1], column, "compare")?;
                let o = if f == Function::Min { Two::Min } else { Two::Max };
                Ok(TypedValue::scalar(self.two(o, a, values[1].parts[0]), dimension))
            }
            Function::Atan2 => {
                self.scalars(&values, column, &what)?;
                self.same(first, &values[1], column, "compare")?;
                Ok(TypedValue::scalar(self.two(Two::Atan2, a, values[1].parts[0]), angle()))
            }
            Function::Pow => {
                let [base, exponent] = [values[0].clone(), values[1].clone()];
                self.power(base, exponent, column)
            }
            Function::Not => {
                self.scalars(&values, column, "'not'")?;
                Ok(TypedValue::scalar(self.one(One::Not, a), Some(Dimension::NONE)))
            }
            Function::Where => self.choice(&values, column),
            Function::Vector => {
                self.scalars(&values, column, &what)?;
                let mut dimension = self.same(first, &values[1], column, "put together")?;
                let both = TypedValue { dimension, ..TypedValue::scalar(a, None) };
                dimension = self.same(&both, &values[2], column, "put together")?;
                Ok(TypedValue { parts: values.iter().map(|v| v.parts[0]).collect(), dimension, literal: None })
            }
            Function::Magnitude => Ok(self.magnitude(first)),
            Function::Dot | Function::Cross => self.product(f, first, &values[1], column),
            _ => self.derivative(f, first, column, &what),
        }
    }

    /// The dimension of a function of one number ([`of_one_number`]).
    fn dimension_of_one(
        &self,
        f: Function,
        of: &TypedValue,
        column: usize,
        what: &str,
    ) -> Result<Option<Dimension>, Wrong> {
        match f {
            Function::Abs | Function::Floor | Function::Ceil => Ok(of.dimension),
            Function::Sign => Ok(Some(Dimension::NONE)),
            Function::Sqrt => {
                let root = |d: Dimension| {
                    d.power(0.5).ok_or_else(|| Wrong::at(column, format!("the square root of '{d}' is no unit")))
                };
                of.dimension.map(root).transpose()
            }
            _ => {
                self.number(of, column, what)?;
                let inverse = matches!(f, Function::Asin | Function::Acos | Function::Atan);
                Ok(if inverse { angle() } else { Some(Dimension::NONE) })
            }
        }
    }

    /// `where()` of a condition and two values.
    fn choice(&mut self, values: &[TypedValue], column: usize) -> Result<TypedValue, Wrong> {
        let (condition, yes, no) = (&values[0], &values[1], &values[2]);
        if condition.parts.len() != 1 || yes.parts.len() != no.parts.len() {
            let found = values.iter().map(|v| kind(&v.parts)).collect::<Vec<_>>().join(", ");
            let what = format!("where() takes a condition and two of a kind, found {found}");
            return Err(Wrong::at(column, what));
        }
        let dimension = self.same(yes, no, column, "choose between")?;
        let a = condition.parts[0];
        let parts = yes.parts.iter().zip(&no.parts).map(|(y, n)| self.node(Operand::Select(a, *y, *n))).collect();
        Ok(TypedValue { parts, dimension, literal: None })
    }

    fn magnitude(&mut self, of: &TypedValue) -> TypedValue {
        let part = match of.parts[..] {
            [part] => self.one(One::Abs, part),
            _ => {
                let square = self.dot(&of.parts, &of.parts);
                self.one(One::Sqrt, square)
            }
        };
        TypedValue::scalar(part, of.dimension)
    }

    /// `dot()` or `cross()` of two vectors.
    fn product(&mut self, f: Function, a: &TypedValue, b: &TypedValue, column: usize) -> Result<TypedValue, Wrong> {
        if a.parts.len() == 1 || b.parts.len() == 1 {
            return Err(Wrong::at(column, format!("{}() takes a vector, not a scalar", f.name())));
        }
        let dimension = match a.dimension.zip(b.dimension) {
            Some((x, y)) => Some(x.times(y).ok_or_else(|| Wrong::at(column, "the powers of the unit grow too large"))?),
            None => None,
        };
        let parts = match f {
            Function::Dot => vec![self.dot(&a.parts, &b.parts)],
            _ => self.cross(&a.parts, &b.parts),
        };
        Ok(TypedValue { parts, dimension, literal: None })
    }

    fn derivative(&mut self, f: Function, v: &TypedValue, column: usize, what: &str) -> Result<TypedValue, Wrong> {
        let large = || Wrong::at(column, "the powers of the unit grow too large");
        let length = self.names.length.map(|u| u.dimension);
        let rate = match v.dimension.zip(length) {
            Some((d, l)) => Some(d.over(l).ok_or_else(large)?),
            None => None,
        };
        let squared = match rate {
            Some(d) => Some(d.times(d).ok_or_else(large)?),
            None => None,
        };
        if f == Function::Grad {
            if v.parts.len() != 1 {
                let what = "grad() takes a scalar; for a vector use curl(), div(), or grad() of its components";
                return Err(Wrong::at(column, what));
            }
            return Ok(TypedValue { parts: self.gradient(v.parts[0]).to_vec(), dimension: rate, literal: None });
        }
        let &[p, q, r] = &v.parts[..] else {
            return Err(Wrong::at(column, format!("{what} takes a vector, not a scalar")));
        };
        let d = [p, q, r].map(|part| self.gradient(part));
        let (parts, dimension) = match f {
            Function::Curl => {
                let parts = (0..3).map(|c| {
                    let (a, b) = ((c + 1) % 3, (c + 2) % 3);
                    self.two(Two::Subtract, d[b][a], d[a][b])
                });
                (parts.collect(), rate)
            }
            Function::Div => {
                let xy = self.two(Two::Add, d[0][0], d[1][1]);
                (vec![self.two(Two::Add, xy, d[2][2])], rate)
            }
            // Q = (|Omega|^2 - |S|^2) / 2: minus half the trace of the gradient's square, as in VTK, also for
            // compressible flow.
            Function::QCriterion => {
                let diagonal = [0, 1, 2].map(|c| self.two(Two::Multiply, d[c][c], d[c][c]));
                let xy = self.two(Two::Add, diagonal[0], diagonal[1]);
                let diagonal = self.two(Two::Add, xy, diagonal[2]);
                let across = [(0, 1), (0, 2), (1, 2)].map(|(a, b)| self.two(Two::Multiply, d[a][b], d[b][a]));
                let two = self.two(Two::Add, across[0], across[1]);
                let across = self.two(Two::Add, two, across[2]);
                let half = self.constant(-0.5);
                let first = self.two(Two::Multiply, half, diagonal);
                (vec![self.two(Two::Subtract, first, across)], squared)
            }
            Function::StrainRate => {
                // sqrt(2 S:S).
                let two = self.constant(2.0);
                let diagonal = [0, 1, 2].map(|c| self.two(Two::Multiply, d[c][c], d[c][c]));
                let xy = self.two(Two::Add, diagonal[0], diagonal[1]);
                let sum = self.two(Two::Add, xy, diagonal[2]);
                let mut sum = self.two(Two::Multiply, two, sum);
                for (a, b) in [(0, 1), (0, 2), (1, 2)] {
                    let shear = self.two(Two::Add, d[a][b], d[b][a]);
                    let square = self.two(Two::Multiply, shear, shear);
                    sum = self.two(Two::Add, sum, square);
                }
                (vec![self.one(One::Sqrt, sum)], rate)
            }
            _ => {
                let all = core::array::from_fn(|n| d[n / 3][n % 3]);
                let (o, dimension) = match f {
                    Function::Lambda2 => (Nine::Lambda2, squared),
                    _ => (Nine::SwirlingStrength, rate),
                };
                (vec![self.node(Operand::Nine(o, all))], dimension)
            }
        };
        Ok(TypedValue { parts, dimension, literal: None })
    }
}
