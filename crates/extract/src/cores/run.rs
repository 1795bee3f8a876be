//! A whole extraction: blocks to the executor, points to the store, lines to the output.

use super::lines;
use super::plan::CorePlan;
use super::spec::{check, CoreSpec};
use super::store::CoreStore;
use super::work::CoreBlocks;
use field::error::FieldError;
use output::{Destination, LineArrays, LineLayout, OutputFile, SpoolOptions};
use runtime::executor::{self, RunLoad, RunStats};
use runtime::limits::{enough_limit, least_limit, more_than, results_budget};
use runtime::session::{ProgressWatch, Session};
use std::sync::{Mutex, PoisonError};

/// The result of an extraction.
#[derive(Clone, Debug)]
pub struct CoreReport {
    /// Lines.
    pub lines: u64,
    /// Their points.
    pub points: u64,
    /// Points at which the vectors are parallel, of any strength, those on edges of a block's faces once.
    pub found: u64,
    /// Lines by the reason at their last point.
    pub reasons: Vec<(&'static str, u64)>,
    /// Blocks with an unreadable page.
    pub failed: u64,
    /// Such a page, as a message.
    pub failure: Option<String>,
    /// Statistics of the run.
    pub run: RunStats,
    /// Bytes written to temporary files.
    pub spilled_bytes: u64,
}

/// Extracts vortex cores and passes them on.
///
/// # Errors
/// [`FieldError`] for unknown fields, invalid options, or data in a plane, before any page is read. Also for a limit
/// below a block with its pages, errors of writing, and an interruption.
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
    let (limit, workers) = (pager.ledger().limit(), session.resources.threads());
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
    let load = RunLoad { tasks: plan.tasks(), workers, active: size.active };
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

/// The layout of all lines.
pub fn layout(session: &Session, spec: &CoreSpec) -> LineLayout {
    lines::layout(&session.dataset(), spec)
}
