//! Ways of one trace in turns, each from a cold start of its own: what comes and goes on the machine meets all of them alike.

use super::plain::measured;
use field::error::FieldError;
use runtime::session::{ProgressWatch, Resources, Session, SourceSpec};
use serde_json::{json, Value};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use trace::TraceSpec;

/// Runs the traces one after the other, `rounds` times, every other time the last one first, over a dataset that is opened anew each time, with `cold` files and folders
/// dropped from the page cache before.
///
/// # Errors
/// [`FieldError`] of opening and tracing; of files that cannot be dropped.
pub fn turns(
    source: &SourceSpec,
    resources: &Resources,
    traces: &[TraceSpec],
    rounds: usize,
    cold: &[PathBuf],
    watch: &mut ProgressWatch<'_>,
) -> Result<Value, FieldError> {
    let mut rows: Vec<Vec<Value>> = vec![Vec::with_capacity(rounds); traces.len()];
    for round in 0..rounds {
        // Every other round the other way: what a trace leaves behind (a device's credit, the processor's clock) falls to each alike.
        let order = (0..traces.len()).map(|n| if round % 2 == 0 { n } else { traces.len() - 1 - n });
        for (spec, n) in order.map(|n| (&traces[n], n)) {
            for path in cold {
                evict(path).map_err(|e| FieldError::io(path, e))?;
            }
            let session = Session::open(source.clone(), resources.clone(), watch)?;
            session.located(watch)?;
            rows[n].push(measured(&session, spec, watch)?);
        }
    }
    Ok(json!({"traces": rows}))
}

/// Drops a file, or all files of a folder, from the page cache. Their dirty pages stay: they were written long ago.
pub(super) fn evict(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return std::fs::read_dir(path)?.try_for_each(|entry| evict(&entry?.path()));
    }
    let file = std::fs::File::open(path)?;
    // SAFETY: advice about an open file.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    Ok(())
}
