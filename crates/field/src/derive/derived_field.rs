//! Derived fields that have pages.

use crate::expression::Expression;
use crate::units::{Dimension, Unit};

/// A derived field that has pages.
#[derive(Clone, Debug, PartialEq)]
pub struct DerivedField {
    /// The name.
    pub name: String,
    /// The expression, with names replaced by their meanings.
    pub expression: Expression,
    /// The dimension, if known.
    pub dimension: Option<Dimension>,
    /// The requested unit.
    pub shown: Option<String>,
    /// The name in labels.
    pub long_name: String,
    /// Whether it replaces a differentiated expression; users do not name it.
    pub hidden: bool,
}

impl DerivedField {
    /// The unit; `1` if it has none or is unknown.
    pub fn units(&self) -> String {
        match (&self.shown, self.dimension) {
            (Some(unit), _) => unit.clone(),
            (None, Some(d)) if !d.has_symbols() => d.to_string(),
            _ => "1".to_owned(),
        }
    }

    /// The unit of its pages: the requested one, else that of its dimension.
    pub(super) fn unit(&self) -> Option<Unit> {
        let shown = self.shown.as_deref().and_then(|unit| Unit::parse(unit).ok());
        shown.or(self.dimension.map(Unit::of))
    }
}
