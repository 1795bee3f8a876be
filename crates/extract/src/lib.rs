//! Geometry from datasets: isosurfaces, slices, grid surfaces, vortex cores.
//!
//! # Theory
//! Each is computed block by block. A block needs the pages of its nodes and a bounded working memory. Blocks are tasks
//! of the executor and finish in any order; their results are passed on in one fixed order. So results are the same to
//! the bit for every limit, page size and number of threads.
//!
//! # Practice
//!
//! | module | result | through |
//! |---|---|---|
//! | [`contour`] | isosurfaces and planes of zones and of volumes | pieces of meshes, or mesh files |
//! | [`sliceimage`] | slices at pixels | PNG, arrays |
//! | [`surfaces`] | faces and inner planes of zones | rows, or surface and mesh files |
//! | [`cores`] | vortex cores | lines |
//!
//! Bindings run these by name, as [`run_job`]: a new one is a module with a function `job`, and an entry in [`JOBS`].

pub mod contour;
pub mod cores;
mod job;
pub mod sliceimage;
pub mod surfaces;

use field::error::FieldError;
pub use job::{Job, JobRequest, RunJob};
use runtime::session::{ProgressWatch, Session};
use serde_json::json;

/// All jobs, by name.
pub const JOBS: &[Job] = &[
    Job { name: "contour", on_volumes: true, run: contour::job::job },
    Job { name: "grid_surface", on_volumes: false, run: surfaces::job },
    Job { name: "vortex_cores", on_volumes: false, run: cores::job },
];

/// Runs a job by its name. The answer has the session's statistics under `stats`.
///
/// # Errors
/// [`FieldError::Unknown`] for an unknown name, [`FieldError::Usage`] for a job of flows on a volume, and the errors of the
/// job.
pub fn run_job(
    name: &str,
    session: &Session,
    request: &JobRequest<'_>,
    watch: &mut ProgressWatch<'_>,
) -> Result<serde_json::Value, FieldError> {
    let job = JOBS.iter().find(|job| job.name == name).ok_or_else(|| FieldError::Unknown {
        what: "job",
        name: name.to_owned(),
        known: JOBS.iter().map(|job| job.name.to_owned()).collect(),
    })?;
    if !job.on_volumes {
        session.check_flow()?;
    }
    let mut answer = (job.run)(session, request, watch)?;
    answer["stats"] = json!(session.stats());
    Ok(answer)
}
