//! Lines of one kind: their run in the executor, their results in the spool.

use crate::admission::{SeedOrder, SeedRule};
use crate::finished_lines::{provenance, LineSink};
use crate::line_kinds::Tracer;
use crate::line_task::Tracing;
use crate::memory::{JobMemory, LineMemory, Need};
use crate::report::TraceReport;
use crate::resume::ResumeState;
use crate::spec::TraceSpec;
use field::error::FieldError;
use output::{LineArrays, LineLayout, LineSpool, OutputError, OutputFile, SpoolOptions};
use pager::Pager;
use runtime::executor::{self, RunLoad, RunStats};
use runtime::last_use::PageUsers;
use runtime::ledger_share::LedgerShare;
use runtime::limits::{more_than, results_budget, would_do};
use runtime::next_window::WindowPrediction;
use runtime::session::{ProgressWatch, Session};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Mutex, PoisonError};

/// The lines of one kind to trace.
pub(crate) struct TraceJob<'a> {
    pub(crate) session: &'a Session,
    pub(crate) spec: &'a TraceSpec,
    pub(crate) seeds: &'a SeedRule<'a>,
    /// Number of lines of each tracer.
    pub(crate) tasks: u64,
    pub(crate) layout: LineLayout,
    pub(crate) need: Need,
    pub(crate) file: Option<OutputFile>,
    pub(crate) kept: ResumeState,
}

impl TraceJob<'_> {
    /// Traces all lines of one tracer, then those of the next.
    pub(crate) fn trace<T: Tracer>(
        self,
        tracers: impl ExactSizeIterator<Item = Result<T, FieldError>>,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<(TraceReport, Option<LineArrays>), FieldError> {
        let (session, tasks) = (self.session, self.tasks);
        let job = JobRun::of(self, watch)?;
        let (mut run, all) = (RunStats::default(), tasks * tracers.len() as u64);
        for (n, tracer) in tracers.enumerate() {
            let before = tasks * n as u64;
            let mut told = |done: u64| watch("tracing", (before + done) as f64, all as f64);
            run.add(&job.run_moment(tracer?, n as u64, &mut told)?);
        }
        session.add_wait(run.wait_s);
        job.results(run, watch)
    }

    /// Lines of the results.
    fn lines(&self) -> u64 {
        self.tasks.saturating_mul(self.layout.moments.lines_per_seed())
    }

    /// The spool of all lines under a memory limit. What its share of memory does not hold goes to a file in
    /// `directory`.
    fn spool(&self, limit: u64, directory: PathBuf) -> Result<LineSpool, FieldError> {
        let (pager, budget_bytes) = (&self.session.pager, results_budget(limit));
        let options = SpoolOptions { seeds: self.lines(), layout: self.layout.clone(), budget_bytes, directory };
        LineSpool::new(options, Box::new(LedgerShare::new(pager.clone()))).map_err(|e| match FieldError::from(e) {
            FieldError::LimitTooSmall { needs, what, .. } => {
                FieldError::LimitTooSmall { limit, needs: needs * 8, what }
            }
            e => e,
        })
    }
}

/// A run of a job: its memory, and the results so far.
struct JobRun<'a> {
    job: TraceJob<'a>,
    memory: JobMemory,
    /// Seeds in the order of admission, if sorting them fits into memory.
    sorted: Option<SeedOrder>,
    /// Whether the state at the end is saved.
    saves: bool,
    sink: Mutex<LineSink>,
}

impl<'a> JobRun<'a> {
    /// The run at its beginning.
    ///
    /// # Errors
    /// [`FieldError`]: too small a limit, results that cannot be written, an interruption.
    fn of(job: TraceJob<'a>, watch: &mut ProgressWatch<'_>) -> Result<Self, FieldError> {
        let TraceJob { session, spec, ref layout, ref need, ref kept, .. } = job;
        let memory = JobMemory::of(session, &spec.options, layout, need, kept.longest())?;
        let directory = SpoolOptions::spill_directory(job.file.as_ref());
        let states = kept.writer(&directory, job.tasks)?;
        let saves = states.is_some();
        let spool = job.spool(memory.limit, directory)?;
        let near = job.tasks == spec.seeds.len();
        let sorted = if near { SeedOrder::near(job.seeds, &session.pager, watch)? } else { None };
        Ok(Self { job, memory, sorted, saves, sink: Mutex::new(LineSink::new(spool, states)) })
    }

    /// Traces all lines of one tracer. `moment`: its number.
    fn run_moment<T: Tracer>(
        &self,
        tracer: T,
        moment: u64,
        told: &mut dyn FnMut(u64) -> bool,
    ) -> Result<RunStats, FieldError> {
        let TraceJob { session, seeds, tasks, ref layout, ref need, ref kept, .. } = self.job;
        let (pager, workers) = (&session.pager, session.resources.threads());
        // A line that hands its points over keeps only those of a window.
        let keeps = self.saves || !layout.moments.is_one_line();
        let work = Tracing {
            memory: LineMemory::of(&tracer, tasks, keeps, &self.memory),
            tracer,
            pager,
            zones: &seeds.zones,
            seeds,
            sorted: self.sorted.as_ref(),
            states: kept.reader(),
            saves: self.saves,
            layout,
            moment,
            step_bytes: need.step,
            workers,
            since: AtomicU64::new(pager.now()),
            evicted: AtomicU64::new(pager.evictions()),
            roomy: AtomicBool::new(true),
            nearly: AtomicBool::new(true),
            window: AtomicU32::new(0),
            page_users: PageUsers::default(),
            prediction: WindowPrediction::default(),
            whole_step: need.whole_step,
            holds: AtomicBool::new(false),
            sink: &self.sink,
        };
        let load = RunLoad { tasks, workers, active: work.most_active(pager.ledger().limit()) };
        pager.keep_used_since(if T::WINDOWED { pager.now() } else { u64::MAX });
        let run = executor::run(&work, pager, load, told);
        pager.keep_used_since(u64::MAX);
        // The need at that moment may not be the largest, and lines may be longer than expected.
        let limit = pager.ledger().limit();
        run.map_err(|e| more_than(e, self.memory.enough.max(limit + limit / 2)))
    }

    /// Writes or returns the lines, and saves the state.
    fn results(
        self,
        run: RunStats,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<(TraceReport, Option<LineArrays>), FieldError> {
        let lines = self.job.lines();
        let TraceJob { session, spec, file, kept, .. } = self.job;
        let mut sink = self.sink.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (report, partial) = (sink.report(lines, self.saves, run), sink.failed > 0);
        let arrays = match file {
            Some(file) => {
                let provenance = provenance(session, spec);
                let mut told = |done: u64, total: u64| {
                    if watch("writing", done as f64, total as f64) {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                };
                let written = sink.spool.write(file, &provenance, partial, &mut told);
                written.map_err(|e| refused(e, &session.pager))?;
                None
            }
            None => Some(sink.spool.arrays(partial).map_err(FieldError::from)?),
        };
        // Dropped, it leaves the earlier file in place.
        if let Some(states) = sink.state.filter(|_| !partial) {
            kept.finish(states)?;
        }
        Ok((report, arrays))
    }
}

/// The error of results that could not be written, with a limit that would do.
fn refused(e: OutputError, pager: &Pager) -> FieldError {
    match FieldError::from(e) {
        FieldError::LimitTooSmall { needs, what, .. } => {
            FieldError::LimitTooSmall { limit: pager.ledger().limit(), needs: would_do(pager, needs), what }
        }
        e => e,
    }
}
