//! The log of a run's events.

use crate::options;
use crate::session::{ProgressWatch, Resources};
use field::error::FieldError;
use field::options::Object;
use profile::RunLog;
use serde_json::{json, Value};
use std::path::Path;

/// The log of a run's events, if one is requested. [`Events::finish`] ends it, or dropping it does. A thread of the
/// pager may live a moment longer, and would leave the log unfinished when the process ends.
pub struct Events(Option<RunLog>);

impl Events {
    /// Creates the file, records the run's settings, and makes the pager send its events.
    pub fn begin(path: Option<&str>, resources: &mut Resources) -> Result<Self, FieldError> {
        let Some(path) = path else { return Ok(Self(None)) };
        let log = RunLog::create(Path::new(path))?;
        resources.observer = Some(log.observer());
        log.note(&json!({"run": {
            "version": env!("CARGO_PKG_VERSION"), "command": std::env::args().collect::<Vec<_>>(),
            "memory_limit": resources.memory_limit, "workers": resources.threads(), "readers": resources.reads_in_flight(),
            "replacement": resources.replacement.name(), "cores": std::thread::available_parallelism().map_or(1, usize::from),
        }}));
        Ok(Self(Some(log)))
    }

    /// The resources of a run out of JSON, as [`crate::options::resources`] takes them, and the log that their `events` names.
    ///
    /// # Errors
    /// [`FieldError::Usage`] of a key that has another form, and what keeps the file from being created.
    pub fn with_resources(text: &str) -> Result<(Resources, Self), FieldError> {
        let mut o = Object::parse(text, "resources")?;
        let mut resources = options::resources(&mut o)?;
        let path = o.text("events")?;
        o.done()?;
        let events = Self::begin(path.as_deref(), &mut resources)?;
        Ok((resources, events))
    }

    /// Records the run's results so far, and writes all recorded events. Returns whether there is a log.
    pub fn flush(&self, stats: &Value) -> Result<bool, FieldError> {
        let Some(log) = &self.0 else { return Ok(false) };
        log.note(&json!({ "stats": stats }));
        log.flush()?;
        Ok(true)
    }

    /// Ends the log with the run's results.
    ///
    /// # Errors
    /// The failure to write it whole: a part of a log must not pass for all of it.
    pub fn finish(&self, stats: &Value, watch: &mut ProgressWatch<'_>) -> Result<(), FieldError> {
        let Some(log) = &self.0 else { return Ok(()) };
        log.note(&json!({ "stats": stats }));
        log.finish(watch)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // Only if a run failed or was not closed: its own error is reported.
        if let Some(log) = &self.0 {
            let _ = log.finish(&mut |_, _, _| true);
        }
    }
}
