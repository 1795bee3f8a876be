//! What lines are sampled for beside what they keep: the condition at which they are to stop.

use crate::TraceSpec;
use field::error::FieldError;
use field::expression::Condition;
use runtime::derived::StopCondition;
use runtime::session::Session;
use std::sync::Arc;

/// What is sampled along the lines of a trace: what they keep, and behind it what tells where they stop.
pub(crate) struct LineFields {
    pub names: Vec<String>,
    pub stop: Option<Arc<Condition>>,
}

impl LineFields {
    /// Of a trace. The fields have pages then, where they need them.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for a condition that is none.
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
