//! Several traces in turn, each from a cold start, so that changes of the machine's load affect all of them alike.

use super::plain::measured;
use field::error::FieldError;
use runtime::session::{ProgressWatch, Resources, Session, SourceSpec};
use serde_json::{json, Value};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use trace::TraceSpec;

/// Runs the traces one after the other, `rounds` times, in reverse order every other time. The dataset is opened anew
/// for each, after `cold` files and folders are dropped from the page cache.
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
        // The order alternates, so that after-effects of a trace (a device's credit, the processor's clock) affect all
        // alike.
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

/// Drops a file, or all files of a folder, from the page cache. Dirty pages stay, but the files were written long ago.
pub(super) fn evict(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return std::fs::read_dir(path)?.try_for_each(|entry| evict(&entry?.path()));
    }
    let file = std::fs::File::open(path)?;
    // SAFETY: advice about an open file.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    Ok(())
}
