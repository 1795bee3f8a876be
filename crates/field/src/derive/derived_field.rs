//! What is known of a derived field.

use crate::expression::Expression;
use crate::units::{Dimension, Unit};

/// What a dataset knows of a derived field that has pages.
#[derive(Clone, Debug, PartialEq)]
pub struct DerivedField {
    /// Its name.
    pub name: String,
    /// How it is computed, names put in.
    pub expression: Expression,
    /// Its dimension, where that is known.
    pub dimension: Option<Dimension>,
    /// The unit in which it was asked for.
    pub shown: Option<String>,
    /// For labels.
    pub long_name: String,
    /// What stands in the place of an expression that is differentiated: users do not name it.
    pub hidden: bool,
}

impl DerivedField {
    /// Its unit; `1` where it has none or nobody knows.
    pub fn units(&self) -> String {
        match (&self.shown, self.dimension) {
            (Some(unit), _) => unit.clone(),
            (None, Some(d)) if !d.has_symbols() => d.to_string(),
            _ => "1".to_owned(),
        }
    }

    /// What its pages are in: the unit that was asked for, else that of its dimension.
    pub(super) fn unit(&self) -> Option<Unit> {
        let shown = self.shown.as_deref().and_then(|unit| Unit::parse(unit).ok());
        shown.or(self.dimension.map(Unit::of))
    }
}
