//! Parts of a scene with options of their own: its source and its traces.

use field::error::FieldError;
use field::options::Object;
use runtime::options::SourceDocument;
use runtime::session::{ProgressWatch, Session, SourceSpec};
use serde_json::Value;
use trace::options::{trace_object, Ground};
use trace::TraceSpec;

/// The source of a scene: `{"path", "q", "function", "options"}`.
pub(super) fn source(value: Value) -> Result<SourceSpec, FieldError> {
    let document: SourceDocument =
        serde_json::from_value(value).map_err(|e| FieldError::Usage(format!("scene: source: {e}")))?;
    document.flow("scene: source: options")
}

/// Options of a trace in a scene.
pub(super) fn trace(value: Value, session: &Session, watch: &mut ProgressWatch<'_>) -> Result<TraceSpec, FieldError> {
    let mut o = Object::of(value, "scene: trace")?;
    let spec = trace_object(&mut o, None, &Ground::of(session), watch)?;
    o.done()?;
    Ok(spec)
}
