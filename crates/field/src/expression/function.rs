//! Functions of the expression language.

/// A function of one to three arguments.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the table below has the names
pub enum Function {
    Where,
    Not,
    Min,
    Max,
    Abs,
    Sign,
    Floor,
    Ceil,
    Sqrt,
    Exp,
    Log,
    Log10,
    Pow,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Atan2,
    Magnitude,
    Dot,
    Cross,
    Vector,
    Grad,
    Curl,
    Div,
    QCriterion,
    Lambda2,
    StrainRate,
    SwirlingStrength,
}

/// Names (the first is printed), and the number of arguments.
const TABLE: &[(Function, &[&str], usize)] = &[
    (Function::Where, &["where"], 3),
    (Function::Not, &["not"], 1),
    (Function::Min, &["min"], 2),
    (Function::Max, &["max"], 2),
    (Function::Abs, &["abs"], 1),
    (Function::Sign, &["sign"], 1),
    (Function::Floor, &["floor"], 1),
    (Function::Ceil, &["ceil"], 1),
    (Function::Sqrt, &["sqrt"], 1),
    (Function::Exp, &["exp"], 1),
    (Function::Log, &["log", "ln"], 1),
    (Function::Log10, &["log10"], 1),
    (Function::Pow, &["pow"], 2),
    (Function::Sin, &["sin"], 1),
    (Function::Cos, &["cos"], 1),
    (Function::Tan, &["tan"], 1),
    (Function::Asin, &["asin"], 1),
    (Function::Acos, &["acos"], 1),
    (Function::Atan, &["atan"], 1),
    (Function::Atan2, &["atan2"], 2),
    (Function::Magnitude, &["magnitude", "norm"], 1),
    (Function::Dot, &["dot"], 2),
    (Function::Cross, &["cross"], 2),
    (Function::Vector, &["vector"], 3),
    (Function::Grad, &["grad", "gradient"], 1),
    (Function::Curl, &["curl"], 1),
    (Function::Div, &["div", "divergence"], 1),
    (Function::QCriterion, &["q_criterion"], 1),
    (Function::Lambda2, &["lambda2"], 1),
    (Function::StrainRate, &["strain_rate"], 1),
    (Function::SwirlingStrength, &["swirling_strength"], 1),
];

impl Function {
    /// The function of that name.
    pub fn named(name: &str) -> Option<Self> {
        TABLE.iter().find(|t| t.1.contains(&name)).map(|t| t.0)
    }
    /// The name to print.
    pub fn name(self) -> &'static str {
        TABLE.iter().find(|t| t.0 == self).and_then(|t| t.1.first()).copied().unwrap_or("")
    }
    /// Number of its arguments.
    pub fn arguments(self) -> usize {
        TABLE.iter().find(|t| t.0 == self).map_or(1, |t| t.2)
    }
    /// All names, with `to`.
    pub fn names() -> Vec<&'static str> {
        TABLE.iter().flat_map(|t| t.1.iter().copied()).chain(["to"]).collect()
    }
    /// All functions.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|t| t.0)
    }
}
