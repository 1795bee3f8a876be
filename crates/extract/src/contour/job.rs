//! Isosurfaces and planes by JSON.

use super::{options, write, write_volume};
use crate::job::JobRequest;
use field::error::FieldError;
use runtime::session::{ProgressWatch, Session};
use serde_json::Value;

/// Runs [`write()`], or for a volume [`write_volume`], with JSON options.
///
/// # Errors
/// [`FieldError`] for an invalid option, for an unknown one, and of the extraction.
pub fn job(session: &Session, request: &JobRequest<'_>, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    let output = request.output()?;
    if session.is_flow() {
        return write(session, &options::of_flow(request.options)?, output, watch);
    }
    let (level, spec) = options::of_volume(session, request.options)?;
    write_volume(session, level, &spec, output, watch)
}
