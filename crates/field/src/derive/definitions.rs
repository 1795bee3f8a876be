//! Names of derived fields: fields of gradients, and users' definitions.

use crate::expression::parse::{is_plain, parse};
use crate::expression::{Expression, ExpressionKind, Function, Operator, Wrong};
use crate::nodes::Zone;
use crate::quantity::{Derived, Quantity};
use std::collections::BTreeMap;

/// A field made of gradients.
pub struct Gradient {
    /// Its name.
    pub name: &'static str,
    /// Number in the PLOT3D manual; 0 if it has none.
    pub number: u32,
    /// Its definition in the expression language.
    pub expression: &'static str,
    /// CF standard name or empty.
    pub standard_name: &'static str,
    /// The name in labels.
    pub long_name: &'static str,
    /// The divisor of non-dimensional data, for labels.
    pub divided_by: &'static str,
    /// The value at the centre of a diverging colour map, for signed fields.
    pub centre: Option<f64>,
}

const fn gradient(
    name: &'static str,
    number: u32,
    expression: &'static str,
    long_name: &'static str,
    divided_by: &'static str,
    centre: Option<f64>,
) -> Gradient {
    Gradient { name, number, expression, standard_name: "", long_name, divided_by, centre }
}

/// The named fields of gradients, besides `grad_NAME` of any scalar. Numbers are those of the PLOT3D manual (NASA
/// TM-101067). `swirl` (184) is vorticity along the velocity over the square of the speed. `swirling_strength` is the
/// imaginary part of the velocity gradient's complex eigenvalues.
pub const GRADIENTS: &[Gradient] = &[
    gradient("vorticity", 201, "curl(velocity)", "vorticity", "(a_inf / L)", None),
    gradient("vorticity_magnitude", 211, "magnitude(curl(velocity))", "vorticity magnitude", "(a_inf / L)", None),
    gradient("divergence", 0, "div(velocity)", "divergence of velocity", "(a_inf / L)", Some(0.0)),
    gradient("q_criterion", 0, "q_criterion(velocity)", "Q criterion", "(a_inf / L)^2", Some(0.0)),
    gradient("lambda2", 0, "lambda2(velocity)", "lambda2", "(a_inf / L)^2", Some(0.0)),
    gradient("helicity", 0, "dot(velocity, curl(velocity))", "helicity density", "(a_inf^2 / L)", Some(0.0)),
    gradient(
        "helicity_normalized",
        0,
        "dot(velocity, curl(velocity)) / (magnitude(velocity) * magnitude(curl(velocity)))",
        "normalized helicity",
        "",
        Some(0.0),
    ),
    gradient("swirl", 184, "dot(velocity, curl(velocity)) / dot(velocity, velocity)", "swirl", "(1 / L)", Some(0.0)),
    gradient("swirling_strength", 0, "swirling_strength(velocity)", "swirling strength", "(a_inf / L)", None),
    gradient("strain_rate", 0, "strain_rate(velocity)", "strain rate, sqrt(2 S:S)", "(a_inf / L)", None),
    gradient("pressure_gradient", 210, "grad(pressure)", "pressure gradient", "(rho_inf a_inf^2 / L)", None),
];

/// Users' definitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definitions {
    all: BTreeMap<String, Defined>,
}

#[derive(Clone, Debug, PartialEq)]
struct Defined {
    expression: Expression,
    /// The text as written.
    text: String,
    /// The file of settings that has it.
    file: Option<String>,
}

/// Limit of definitions: each costs a row in every zone.
const MOST: usize = 256;

impl Definitions {
    /// Adds `NAME = EXPRESSION`.
    ///
    /// # Errors
    /// The fault, with the expression, the column and the expected token.
    pub fn add(&mut self, name: &str, text: &str) -> Result<(), String> {
        self.add_of(name, text, None)
    }

    /// Adds a definition from a file of settings.
    ///
    /// # Errors
    /// As [`Self::add`], with the file.
    pub fn add_from(&mut self, file: &str, name: &str, text: &str) -> Result<(), String> {
        self.add_of(name, text, Some(file)).map_err(|e| format!("{file}: {e}"))
    }

    fn add_of(&mut self, name: &str, text: &str, file: Option<&str>) -> Result<(), String> {
        let name = name.trim();
        if !is_plain(name) {
            return Err(format!("'{name}' cannot be the name of a definition: letters, digits and '_' make one"));
        }
        if ["x", "y", "z", "position", "time", "pi", "to"].contains(&name) || Function::named(name).is_some() {
            return Err(format!("'{name}' means something in expressions already; choose another name"));
        }
        if self.all.len() >= MOST {
            return Err(format!("there are {MOST} definitions, which is as many as there may be"));
        }
        let expression = parse(text.trim()).map_err(|w| message(name, text, &w))?;
        let defined = Defined { expression, text: text.trim().to_owned(), file: file.map(str::to_owned) };
        let before = self.all.insert(name.to_owned(), defined);
        if let Err(circle) = self.check_circles(name) {
            match before {
                Some(b) => self.all.insert(name.to_owned(), b),
                None => self.all.remove(name),
            };
            return Err(format!("the definition of '{name}' goes in a circle: {circle}"));
        }
        Ok(())
    }

    fn check_circles(&self, name: &str) -> Result<(), String> {
        fn walk(d: &Definitions, name: &str, way: &mut Vec<String>, seen: &mut Vec<String>) -> Result<(), String> {
            if let Some(n) = way.iter().position(|w| w == name) {
                return Err(way[n..]
                    .iter()
                    .chain([&name.to_owned()])
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .join(" -> "));
            }
            let Some(Defined { expression: e, .. }) = d.all.get(name).filter(|_| !seen.iter().any(|s| s == name))
            else {
                return Ok(());
            };
            way.push(name.to_owned());
            let mut inside = Vec::new();
            e.names(&mut |n| inside.push(n.to_owned()));
            for n in inside {
                walk(d, &n, way, seen)?;
            }
            seen.extend(way.pop());
            Ok(())
        }
        walk(self, name, &mut Vec::new(), &mut Vec::new())
    }

    /// Restores a definition from `before`, or removes it.
    pub fn restore(&mut self, name: &str, before: &Self) {
        match before.all.get(name) {
            Some(d) => self.all.insert(name.to_owned(), d.clone()),
            None => self.all.remove(name),
        };
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Names, and texts as written.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.all.iter().map(|(n, d)| (n.as_str(), d.text.as_str()))
    }

    /// The file of settings that has a definition.
    pub fn file(&self, name: &str) -> Option<&str> {
        self.all.get(name)?.file.as_deref()
    }

    /// The message to the user about a field's error in a zone, with its definition and file.
    pub fn wrong(&self, name: &str, wrong: &Wrong) -> String {
        match self.all.get(name) {
            Some(Defined { text, file: Some(file), .. }) => format!("{file}: {}", message(name, text, wrong)),
            Some(Defined { text, .. }) => message(name, text, wrong),
            None => format!("'{name}', column {}: {}", wrong.column, wrong.what),
        }
    }

    /// The meaning of a name in a zone: a user's definition, a field of gradients, `grad_NAME`, or an expression.
    /// `None` for stored fields and unknown names.
    pub fn meaning(&self, zone: &Zone, name: &str) -> Option<Expression> {
        // Fields that have pages by now, and their components, keep their meanings, so that results do not depend on
        // earlier calls.
        let made = zone.array(name).is_some_and(|a| zone.arrays[a].derived);
        if !made && zone.array(name).is_some() {
            return None;
        }
        let part = Quantity::named(zone, name);
        let part = matches!(part, Some(Quantity::Component { array, .. }) if zone.arrays[array].derived);
        let made = made || part;
        if let Some(d) = self.all.get(name) {
            return Some(d.expression.clone());
        }
        if !made && (Quantity::named(zone, name).is_some() || Derived::named(name).is_some()) {
            return None;
        }
        if let Some(g) = GRADIENTS.iter().find(|g| g.name == name) {
            return parse(g.expression).ok();
        }
        if let Some((whole, c)) = self.component(zone, name) {
            let whole = Expression { column: 1, kind: ExpressionKind::Name(whole.to_owned()) };
            return Some(Expression { column: 1, kind: ExpressionKind::Component(Box::new(whole), c) });
        }
        if let Some(of) = name.strip_prefix("grad_").filter(|of| !of.is_empty()) {
            let of = Expression { column: 1, kind: ExpressionKind::Name(of.to_owned()) };
            return Some(Expression { column: 1, kind: ExpressionKind::Call(Function::Grad, vec![of]) });
        }
        let e = parse(name).ok()?;
        (!matches!(e.kind, ExpressionKind::Name(_) | ExpressionKind::Number(..))).then_some(e)
    }

    /// The vector and component of `NAME_x`, `NAME_y` or `NAME_z`, if NAME is a derived vector. `grad_density_x` is a
    /// component of a gradient; `grad_velocity_x` is the gradient of a component, because vectors have no gradient.
    pub fn component<'n>(&self, zone: &Zone, name: &'n str) -> Option<(&'n str, usize)> {
        self.component_within(zone, name, &mut 4096)
    }

    fn component_within<'n>(&self, zone: &Zone, name: &'n str, left: &mut usize) -> Option<(&'n str, usize)> {
        if self.all.contains_key(name) {
            return None;
        }
        let mut suffixes = ["_x", "_y", "_z"].iter().enumerate();
        let (c, whole) = suffixes.find_map(|(c, s)| Some((c, name.strip_suffix(s)?)))?;
        let made = Quantity::named(zone, whole).is_none() || zone.array(whole).is_some_and(|a| zone.arrays[a].derived);
        (made && self.is_vector(zone, whole, left) == Some(true)).then_some((whole, c))
    }

    /// Whether a name is a vector in a zone. `None` for an unknown name, or after `left` lookups.
    fn is_vector(&self, zone: &Zone, name: &str, left: &mut usize) -> Option<bool> {
        *left = left.checked_sub(1)?;
        if let Some(d) = self.all.get(name) {
            return self.gives_vector(zone, &d.expression, left);
        }
        if let Some(q) = Quantity::named(zone, name) {
            return Some(q.components() > 1);
        }
        if let Some(g) = GRADIENTS.iter().find(|g| g.name == name) {
            return self.gives_vector(zone, &parse(g.expression).ok()?, left);
        }
        match name {
            "position" => Some(true),
            "x" | "y" | "z" | "time" | "pi" => Some(false),
            _ if self.component_within(zone, name, left).is_some() => Some(false),
            // A vector has no gradient.
            _ => self.is_vector(zone, name.strip_prefix("grad_")?, left).filter(|vector| !vector).map(|_| true),
        }
    }

    /// Whether an expression is a vector. Arbitrary for ill-typed ones, which compilation reports.
    fn gives_vector(&self, zone: &Zone, e: &Expression, left: &mut usize) -> Option<bool> {
        use Operator::*;
        match &e.kind {
            ExpressionKind::Number(..) | ExpressionKind::Component(..) => Some(false),
            ExpressionKind::Name(name) => self.is_vector(zone, name, left),
            ExpressionKind::Negative(inside) | ExpressionKind::To(inside, _) => self.gives_vector(zone, inside, left),
            ExpressionKind::Binary(Add | Subtract, a, _) => self.gives_vector(zone, a, left),
            ExpressionKind::Binary(Multiply | Divide, a, b) => match self.gives_vector(zone, a, left)? {
                true => Some(true),
                false => self.gives_vector(zone, b, left),
            },
            ExpressionKind::Binary(..) => Some(false),
            ExpressionKind::Call(Function::Grad | Function::Curl | Function::Cross | Function::Vector, _) => Some(true),
            ExpressionKind::Call(Function::Where, args) => args.get(1).and_then(|a| self.gives_vector(zone, a, left)),
            ExpressionKind::Call(..) => Some(false),
        }
    }

    /// An expression with defined names replaced by their meanings. Units requested in these have no effect: all
    /// arithmetic is in SI units.
    pub fn expanded(&self, zone: &Zone, e: &Expression) -> Result<Expression, Wrong> {
        let mut left = 4096;
        self.expand(zone, e, 0, &mut left)
    }

    fn expand(&self, zone: &Zone, e: &Expression, depth: usize, left: &mut usize) -> Result<Expression, Wrong> {
        let much = || Wrong::at(e.column, "it grows too large when the definitions in it are put in");
        *left = left.checked_sub(1).ok_or_else(much)?;
        let boxed = |inside: &Expression, left: &mut usize| self.expand(zone, inside, depth, left).map(Box::new);
        let kind = match &e.kind {
            ExpressionKind::Name(name) => {
                match self.meaning(zone, name).filter(|m| !matches!(&m.kind, ExpressionKind::Name(n) if n == name)) {
                    Some(meaning) => {
                        if depth > 32 {
                            return Err(much());
                        }
                        let inside = match meaning.kind {
                            ExpressionKind::To(inside, _) => *inside,
                            _ => meaning,
                        };
                        // Columns are those of the user's last expression.
                        let inside = self.expand(zone, &inside, depth + 1, left)?;
                        return Ok(at_column(inside, e.column));
                    }
                    None => e.kind.clone(),
                }
            }
            ExpressionKind::Number(..) => e.kind.clone(),
            ExpressionKind::Component(inside, c) => ExpressionKind::Component(boxed(inside, left)?, *c),
            ExpressionKind::Negative(inside) => ExpressionKind::Negative(boxed(inside, left)?),
            ExpressionKind::To(inside, unit) => ExpressionKind::To(boxed(inside, left)?, unit.clone()),
            ExpressionKind::Binary(o, a, b) => ExpressionKind::Binary(*o, boxed(a, left)?, boxed(b, left)?),
            ExpressionKind::Call(f, args) => {
                let args = args.iter().map(|a| self.expand(zone, a, depth, left)).collect::<Result<_, _>>()?;
                ExpressionKind::Call(*f, args)
            }
        };
        Ok(Expression { column: e.column, kind })
    }
}

fn at_column(mut e: Expression, column: usize) -> Expression {
    e.column = column;
    e.kind = match e.kind {
        ExpressionKind::Component(i, c) => ExpressionKind::Component(Box::new(at_column(*i, column)), c),
        ExpressionKind::Negative(i) => ExpressionKind::Negative(Box::new(at_column(*i, column))),
        ExpressionKind::To(i, u) => ExpressionKind::To(Box::new(at_column(*i, column)), u),
        ExpressionKind::Binary(o, a, b) => {
            ExpressionKind::Binary(o, Box::new(at_column(*a, column)), Box::new(at_column(*b, column)))
        }
        ExpressionKind::Call(f, args) => {
            ExpressionKind::Call(f, args.into_iter().map(|a| at_column(a, column)).collect())
        }
        kind => kind,
    };
    e
}

fn differentiates(f: Function) -> bool {
    use Function::*;
    matches!(f, Grad | Curl | Div | QCriterion | Lambda2 | StrainRate | SwirlingStrength)
}

fn has_derivative(e: &Expression) -> bool {
    match &e.kind {
        ExpressionKind::Number(..) | ExpressionKind::Name(_) => false,
        ExpressionKind::Component(e, _) | ExpressionKind::Negative(e) | ExpressionKind::To(e, _) => has_derivative(e),
        ExpressionKind::Binary(_, a, b) => has_derivative(a) || has_derivative(b),
        ExpressionKind::Call(f, args) => differentiates(*f) || args.iter().any(has_derivative),
    }
}

/// Makes each derivative within a differentiated expression a field of its own. `each` gets them, dependencies first,
/// and returns their names.
pub fn hoisted(e: &Expression, each: &mut dyn FnMut(Expression) -> Result<String, Wrong>) -> Result<Expression, Wrong> {
    let mut boxed = |e: &Expression| hoisted(e, each).map(Box::new);
    let kind = match &e.kind {
        ExpressionKind::Number(..) | ExpressionKind::Name(_) => e.kind.clone(),
        ExpressionKind::Component(i, c) => ExpressionKind::Component(boxed(i)?, *c),
        ExpressionKind::Negative(i) => ExpressionKind::Negative(boxed(i)?),
        ExpressionKind::To(i, u) => ExpressionKind::To(boxed(i)?, u.clone()),
        ExpressionKind::Binary(o, a, b) => ExpressionKind::Binary(*o, boxed(a)?, boxed(b)?),
        ExpressionKind::Call(f, args) => {
            let mut out = Vec::with_capacity(args.len());
            for a in args {
                let inner = hoisted(a, each)?;
                if differentiates(*f) && has_derivative(&inner) {
                    let column = inner.column;
                    out.push(Expression { column, kind: ExpressionKind::Name(each(inner)?) });
                } else {
                    out.push(inner);
                }
            }
            ExpressionKind::Call(*f, out)
        }
    };
    Ok(Expression { column: e.column, kind })
}

/// The message to the user about an error in a definition.
pub fn message(name: &str, text: &str, wrong: &Wrong) -> String {
    // The column in the whole definition, as shown.
    let column = wrong.column + name.chars().count() + 3;
    format!("'{name} = {}', column {column}: {}", text.trim(), wrong.what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_and_names_are_refused() {
        let mut d = Definitions::default();
        assert!(d.add("a", "b + 1").is_ok());
        assert!(d.add("b", "c * 2").is_ok());
        let e = d.add("c", "a").unwrap_err();
        assert_eq!(e, "the definition of 'c' goes in a circle: c -> a -> b -> c");
        assert!(d.add("c", "density").is_ok());
        assert!(d.add("d", "d").unwrap_err().contains("circle: d -> d"));
        assert!(d.add("x", "1").unwrap_err().contains("already"));
        assert!(d.add("grad", "1").unwrap_err().contains("already"));
        assert!(d.add("a b", "1").unwrap_err().contains("name of a definition"));
        assert_eq!(
            d.add("e", "1 +").unwrap_err(),
            "'e = 1 +', column 8: expected a number, a name or a function, found the end"
        );
    }

    #[test]
    fn every_field_of_gradients_parses() {
        for g in GRADIENTS {
            assert!(parse(g.expression).is_ok_and(|e| has_derivative(&e)), "{}", g.name);
        }
    }

    #[test]
    fn derivatives_of_derivatives_become_fields() {
        let e = parse("div(grad(density)) + grad(magnitude(curl(velocity))).x").unwrap_or_else(|w| panic!("{w:?}"));
        let mut out = Vec::new();
        let h = hoisted(&e, &mut |e| {
            out.push(e.to_string());
            Ok(format!("h{}", out.len()))
        });
        assert_eq!(h.map(|h| h.to_string()), Ok("(div(h1)) + ((grad(h2))[0])".into()));
        assert_eq!(out, ["grad(density)", "magnitude(curl(velocity))"]);
    }
}
