//! Errors of the engine as classes of `farfield.errors`.

use crate::watch::signal;
use field::error::FieldError;
use pager::PageErrorKind;
use pyo3::prelude::*;

/// Makes an exception of a class of `farfield.errors`.
pub fn raise(py: Python<'_>, class: &str, message: String) -> PyErr {
    let made = py.import("farfield.errors").and_then(|m| m.getattr(class)).and_then(|c| c.call1((message,)));
    match made {
        Ok(e) => PyErr::from_value(e),
        Err(e) => e,
    }
}

/// The class for an error.
fn class_of(e: &FieldError) -> &'static str {
    match e {
        FieldError::At { inner, .. } => class_of(inner),
        e if e.is_access() => "AccessError",
        FieldError::Io { .. } | FieldError::Format { .. } | FieldError::Page(_) => "DataError",
        FieldError::Output(_) | FieldError::Denied(_) => "DataError",
        FieldError::Ambiguous { .. } => "AmbiguousError",
        FieldError::Unknown { .. } | FieldError::Lacking { .. } => "UnknownName",
        FieldError::Usage(_) => "UsageError",
        FieldError::LimitTooSmall { .. } => "MemoryLimitError",
        FieldError::System(_) => "FarfieldError",
        FieldError::Internal(_) => "InternalError",
        FieldError::Interrupted => "Interrupted",
    }
}

/// The exception for an error of the engine.
pub fn to_python(py: Python<'_>, e: FieldError) -> PyErr {
    if let Some(signal) = matches!(e, FieldError::Interrupted).then(signal).flatten() {
        return signal;
    }
    let class = class_of(&e);
    let message = match &e {
        FieldError::LimitTooSmall { limit, needs, what } => format!(
            "the memory limit of {} is too small: {what} needs about {}; raise --memory-limit to that",
            size(*limit, f64::round),
            // Rounded up, because the shown amount must suffice.
            size(*needs, f64::ceil)
        ),
        FieldError::Page(p) if p.kind == PageErrorKind::Missing => {
            format!("{}: this file is missing; the data are damaged", p.what)
        }
        FieldError::Page(p) if p.kind.ends_run() => p.to_string(),
        FieldError::Page(p) if e.is_access() => format!("{p}; check the permissions of that file and its folders"),
        FieldError::Page(p) if matches!(p.kind, PageErrorKind::Exhausted(_) | PageErrorKind::TooLarge { .. }) => {
            p.to_string()
        }
        FieldError::Page(p) => format!(
            "{p}; the data are damaged or were changed while they were read: `farfield validate` lists what is wrong"
        ),
        FieldError::Interrupted => "interrupted".to_owned(),
        e => e.to_string(),
    };
    raise(py, class, message)
}

/// A size in a few digits, the last one rounded by `round`.
fn size(bytes: u64, round: fn(f64) -> f64) -> String {
    let by = |unit: u64, parts: f64| round(bytes as f64 / unit as f64 * parts) / parts;
    match bytes {
        1 => "1 byte".to_owned(),
        b if b >= 1 << 30 => format!("{:.2} GiB", by(1 << 30, 100.0)),
        b if b >= 1 << 20 => format!("{:.1} MiB", by(1 << 20, 10.0)),
        b if b >= 1 << 10 => format!("{:.1} KiB", by(1 << 10, 10.0)),
        b => format!("{b} bytes"),
    }
}
