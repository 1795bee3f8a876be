//! Vortex cores of a dataset at a step.
//!
//! # Theory
//! See [`kernels::cores`] for what a core is. Each block of 64^3 cells of a zone is a task ([`work`]): it gathers what it needs of a slab of
//! planes page by page into memory of its own ([`gather`]), finds the points on the faces of its cells, computes their strength, joins
//! them in cells, and samples fields where points are kept. Points of all blocks go to a bounded log, of which an entry a point stays in memory ([`store`]);
//! when all are there they are joined to lines, which are filtered and written ([`lines`]).
//!
//! Derived pages do all differentiation; those that no cell needs are not made: of holes, and, for lambda2, those of its gradient and its
//! Hessian where no node of a cell is below the least strength.
//!
//! Invariant: lines depend on data and options alone. Blocks are fixed, slabs are not, and nothing is known by its slab.

mod gather;
mod lines;
mod plan;
mod store;
#[cfg(test)]
mod tests;
mod work;

use field::error::FieldError;
pub use kernels::cores::Method;
pub use lines::unit_of_strength;
use output::Destination;
use output::{LineArrays, LineLayout, OutputFile, Provenance, SpoolOptions};
use plan::CorePlan;
use runtime::executor::{self, RunLoad, RunStats};
use runtime::limits::{enough_limit, least_limit, more_than, results_budget};
use runtime::session::{ProgressWatch, Session};
use std::sync::{Mutex, PoisonError};
use store::CoreStore;
use work::CoreBlocks;

/// What is extracted.
#[derive(Clone, Debug)]
pub struct CoreSpec {
    /// What a core is.
    pub method: Method,
    /// The velocity.
    pub field: String,
    /// Time step.
    pub step: usize,
    /// Fields sampled at the points.
    pub scalars: Vec<String>,
    /// Strength that points exceed; for its meaning see [`Method`].
    pub min_strength: f64,
    /// Length that lines have at least, in units of the grid.
    pub min_length: f64,
    /// Angle between line and velocity at a point, at most, in degrees.
    pub max_angle: Option<f64>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct CoreReport {
    /// Lines.
    pub lines: u64,
    /// Their points.
    pub points: u64,
    /// Points at which the vectors are parallel, whatever their strength, those on edges of a block's faces once.
    pub found: u64,
    /// Lines by why they end at their last point.
    pub reasons: Vec<(&'static str, u64)>,
    /// Blocks that met a page that cannot be read.
    pub failed: u64,
    /// Such a page, in words.
    pub failure: Option<String>,
    /// What the run took.
    pub run: RunStats,
    /// Bytes that went through temporary files.
    pub spilled_bytes: u64,
}

fn check(spec: &CoreSpec) -> Result<(), FieldError> {
    let usage = |what: &str| Err(FieldError::Usage(what.to_owned()));
    if !(spec.min_strength >= 0.0 && spec.min_strength.is_finite()) {
        return usage("the least strength of a core must be 0 or more");
    }
    if !(spec.min_length >= 0.0 && spec.min_length.is_finite()) {
        return usage("the least length of a core must be 0 or more");
    }
    if spec.max_angle.is_some_and(|a| !(0.0..=90.0).contains(&a)) {
        return usage("the largest angle between core and velocity must be 0 to 90 degrees");
    }
    Ok(())
}

/// Extracts vortex cores and hands them over.
///
/// # Errors
/// [`FieldError`]: unknown fields, options that make no sense, data in a plane, before any page is read; a limit that does not hold
/// a block with the pages that it needs; what cannot be written; an interruption.
pub fn vortex_cores(
    session: &Session,
    spec: &CoreSpec,
    to: Destination<'_>,
    watch: &mut ProgressWatch<'_>,
) -> Result<(CoreReport, Option<LineArrays>), FieldError> {
    let file = match to {
        Destination::File(p) => Some(OutputFile::create(p).map_err(FieldError::from)?),
        Destination::Memory => None,
    };
    session.dataset().check_step(spec.step)?;
    check(spec)?;
    let plan = CorePlan::new(session, spec)?;
    let pager = &session.pager;
    let (limit, workers) = (pager.ledger().limit(), session.means.threads());
    let size = plan.size(limit, workers);
    let enough = enough_limit(plan.enough_bytes(workers));
    let least = least_limit(plan.least_bytes());
    if limit < least {
        let what = "a block of cells with the pages that it needs".into();
        return Err(FieldError::LimitTooSmall { limit, needs: enough.max(least), what });
    }
    let directory = SpoolOptions::spill_directory(file.as_ref());
    let store = CoreStore::new(pager, &directory, results_budget(limit) / 2, plan.record_numbers())?;
    let work = CoreBlocks { plan: &plan, size, pager, store: Mutex::new(store), failed: Mutex::default() };
    let load = RunLoad { tasks: plan.tasks(), workers, active: size.active, at_once: usize::MAX };
    let all = plan.tasks() as f64;
    let run = executor::run(&work, pager, load, &mut |done| watch("finding cores", done as f64, all))
        .map_err(|e| more_than(e, enough.max(limit + limit / 2)))?;
    session.add_wait(run.wait_s);
    let failed = work.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    let store = work.store.into_inner().unwrap_or_else(PoisonError::into_inner);
    let found = store.found();
    let made = lines::CoreLines::new(session, spec, &plan, store)?;
    let mut written = made.write(session, spec, &directory, file, !failed.is_empty(), watch)?;
    let report = CoreReport {
        lines: written.lines,
        points: written.points,
        found,
        reasons: core::mem::take(&mut written.reasons),
        failed: failed.len() as u64,
        failure: failed.into_iter().min_by_key(|(block, _)| *block).map(|(_, what)| what),
        run,
        spilled_bytes: written.spilled_bytes,
    };
    Ok((report, written.arrays))
}

/// What every line has.
pub fn layout(session: &Session, spec: &CoreSpec) -> LineLayout {
    lines::layout(&session.dataset(), spec)
}

/// What is written beside the lines.
pub fn provenance(session: &Session, spec: &CoreSpec) -> Provenance {
    let dataset = session.dataset();
    let mut notes: Vec<(String, String)> = vec![
        ("method".into(), spec.method.name().into()),
        ("field".into(), spec.field.clone()),
        ("min_strength".into(), format!("{}", spec.min_strength)),
        ("min_length".into(), format!("{}", spec.min_length)),
    ];
    notes.extend(spec.max_angle.map(|a| ("max_angle".into(), format!("{a}"))));
    Provenance {
        program: concat!("farfield ", env!("CARGO_PKG_VERSION")).to_owned(),
        source: String::new(),
        length_unit: dataset.length_unit(),
        time_unit: dataset.catalog.time_units.clone(),
        notes,
    }
}
