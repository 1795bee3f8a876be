//! Jobs: what bindings run on an open dataset by name.

use field::error::FieldError;
use runtime::session::{ProgressWatch, Session};
use serde_json::Value;
use std::path::Path;

/// The request for a job.
#[derive(Copy, Clone, Debug)]
pub struct JobRequest<'a> {
    /// A JSON object. A key that the job does not know is an error.
    pub options: &'a str,
    /// The file of the result; `None` for a result within the answer.
    pub output: Option<&'a Path>,
}

impl<'a> JobRequest<'a> {
    /// The file of the result.
    ///
    /// # Errors
    /// [`FieldError::Usage`] if there is none.
    pub fn output(&self) -> Result<&'a Path, FieldError> {
        self.output.ok_or_else(|| FieldError::Usage("this job writes a file: name its output".into()))
    }
}

/// The function of a job. Its answer is a JSON object.
pub type RunJob = fn(&Session, &JobRequest<'_>, &mut ProgressWatch<'_>) -> Result<Value, FieldError>;

/// A job on an open dataset.
pub struct Job {
    /// The name by which bindings run it.
    pub name: &'static str,
    /// Whether it runs on volumes too. Others are refused there.
    pub on_volumes: bool,
    /// What it does.
    pub run: RunJob,
}
