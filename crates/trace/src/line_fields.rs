//! Fields sampled along lines: those that lines keep, and those of the stop condition.

use crate::TraceSpec;
use field::error::FieldError;
use field::expression::Condition;
use runtime::derived::StopCondition;
use runtime::session::Session;
use std::sync::Arc;

/// Fields sampled along the lines of a trace: those kept, and after them those of the stop condition.
pub(crate) struct LineFields {
    pub names: Vec<String>,
    pub stop: Option<Arc<Condition>>,
}

impl LineFields {
    /// The fields of a trace. Derived pages are added for those that need them.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for a text that is no condition.
    pub(crate) fn of(session: &Session, spec: &TraceSpec) -> Result<Self, FieldError> {
        session.derive(&spec.scalars)?;
        session.derive(&[&spec.field])?;
        let mut names = spec.scalars.clone();
        let Some(text) = &spec.stop else { return Ok(Self { names, stop: None }) };
        let StopCondition { condition, names: sides } = session.condition(text)?;
        names.extend(sides);
        Ok(Self { names, stop: Some(condition) })
    }
}
