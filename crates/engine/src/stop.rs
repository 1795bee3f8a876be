//! What lines are sampled for beside what they keep: the condition at which they are to stop.

use crate::session::Session;
use crate::trace::TraceSpec;
use field::error::FieldError;
use field::expression::parse::parse;
use field::expression::Condition;
use std::sync::{Arc, PoisonError};

/// A condition, and the fields that are sampled for it.
pub(crate) struct Asked {
    pub condition: Arc<Condition>,
    /// One for each of its sides.
    pub names: Vec<String>,
}

impl Session {
    /// Reads a condition, checks it as definitions are, and gives pages to those of its sides that have some of their own.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for what does not parse or type, or is no condition, with the column and what was expected.
    pub(crate) fn condition(&self, text: &str) -> Result<Asked, FieldError> {
        let wrong =
            |w: field::expression::Wrong| FieldError::Usage(format!("'{text}', column {}: {}", w.column, w.what));
        let e = parse(text).map_err(wrong)?;
        let condition = Condition::of(&e).map_err(wrong)?;
        let definitions = self.definitions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.dataset().check_expression(text, &e, &definitions, &self.pager)?;
        let mut plain = Vec::new();
        e.names(&mut |name| plain.push(name.to_owned()));
        self.derive(&plain)?;
        let dataset = self.dataset();
        let names: Vec<String> = condition.sides().iter().map(|side| dataset.sampled_as(side)).collect();
        self.derive(&names)?;
        Ok(Asked { condition: Arc::new(condition), names })
    }
}

/// What is sampled along the lines of a trace: what they keep, and behind it what tells where they stop.
pub(crate) struct Sampled {
    pub names: Vec<String>,
    pub stop: Option<Arc<Condition>>,
}

impl Sampled {
    /// Of a trace. The fields have pages then, where they need them.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for a condition that is none.
    pub(crate) fn of(session: &Session, spec: &TraceSpec) -> Result<Self, FieldError> {
        session.derive(&spec.scalars)?;
        session.derive(&[&spec.field])?;
        let mut names = spec.scalars.clone();
        let Some(text) = &spec.stop else { return Ok(Self { names, stop: None }) };
        let Asked { condition, names: sides } = session.condition(text)?;
        names.extend(sides);
        Ok(Self { names, stop: Some(condition) })
    }
}
