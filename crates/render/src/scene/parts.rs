//! Parts of a scene with options of their own: its source and its traces.

use field::error::FieldError;
use field::options::Object;
use runtime::options::source as source_of;
use runtime::session::{ProgressWatch, Session, SourceSpec};
use serde_json::Value;
use trace::options::{trace_object, Ground};
use trace::TraceSpec;

/// The source of a scene: `{"path", "q", "function", "options"}`.
pub(super) fn source(value: Value) -> Result<SourceSpec, FieldError> {
    let mut o = Object::of(value, "scene: source")?;
    let path = o.text("path")?.ok_or_else(|| FieldError::Usage("scene: source: there is no 'path'".into()))?;
    let (q, function) = (o.texts("q")?, o.texts("function")?);
    let mut options = Object::of(o.take("options").unwrap_or_else(|| serde_json::json!({})), "scene: source: options")?;
    let spec = source_of(&path, Some(q), Some(function), &mut options)?;
    options.done()?;
    o.done()?;
    Ok(spec)
}

/// Options of a trace in a scene.
pub(super) fn trace(value: Value, session: &Session, watch: &mut ProgressWatch<'_>) -> Result<TraceSpec, FieldError> {
    let mut o = Object::of(value, "scene: trace")?;
    let spec = trace_object(&mut o, None, &Ground::of(session), watch)?;
    o.done()?;
    Ok(spec)
}
