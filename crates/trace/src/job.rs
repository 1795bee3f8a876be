//! Lines of one kind: their memory, their run in the executor, their results in the spool.

use crate::admission::{SeedOrder, SeedRule};
use crate::finished_lines::{provenance, LineSink};
use crate::line_kinds::Tracer;
use crate::line_task::{Tracing, OF_TASK};
use crate::report::TraceReport;
use crate::resume::ResumeState;
use crate::spec::TraceSpec;
use field::dataset::Dataset;
use field::error::FieldError;
use field::locator::ZoneFields;
use field::nodes::Zone;
use output::{LineArrays, LineLayout, LineSpool, OutputFile, Reason, SpoolOptions};
use pager::Pager;
use runtime::executor::{self, RunLoad, RunStats, OF_RECORD};
use runtime::last_use::Leaving;
use runtime::ledger_share::LedgerShare;
use runtime::limits::{
    enough_limit, kept_away, least_limit, line_bytes, more_than, results_budget, window_bytes, would_do, KEPT_LEAST,
    KEPT_POINTS, OF_STATES,
};
use runtime::next_window::Likely;
use runtime::session::{ProgressWatch, Session};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Mutex, PoisonError};

/// Bytes of pages that lines use.
pub(crate) struct Need {
    /// Of the largest step.
    step: u64,
    /// Of any step, wherever it leads.
    closure: u64,
    /// Of all pages of a time step.
    whole_step: u64,
}

impl Need {
    /// For lines that use `steps` time steps at a time.
    pub(crate) fn of(dataset: &Dataset, fields: &[ZoneFields], pager: &Pager, steps: usize) -> Self {
        let page_bytes = |z: &Zone, of: &ZoneFields| -> u64 {
            let arrays = of.arrays().into_iter().chain([z.xyz]).chain(z.iblank).map(|n| &z.arrays[n]);
            arrays.map(|a| (z.translation.component * a.components * a.dtype.size()) as u64).sum()
        };
        let zones = dataset.zones.iter().zip(fields);
        Self {
            step: dataset.step_bytes(fields, pager, steps),
            closure: dataset.closure_bytes(fields, pager, steps),
            whole_step: zones.map(|(z, of)| page_bytes(z, of).saturating_mul(z.translation.count())).sum(),
        }
    }

    /// With `bytes` more for a step.
    pub(crate) fn beside(self, bytes: u64) -> Self {
        Self { step: self.step + bytes, closure: self.closure + bytes, ..self }
    }
}

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
        let TraceJob { session, spec, seeds, tasks, layout, need, file, kept } = self;
        let pager = &session.pager;
        let limit = pager.ledger().limit();
        let least = least_limit(need.step);
        let components = layout.fields.iter().map(|f| f.components).sum();
        let workers = session.resources.threads();
        let line_bytes = line_bytes(&spec.options, components).max(2 * kept.longest());
        let enough = enough_limit(need.closure + 2 * workers as u64 * line_bytes).max(least);
        if limit < least {
            return Err(FieldError::LimitTooSmall {
                limit,
                needs: enough,
                what: "the largest step of a line with its results".into(),
            });
        }
        let lines = tasks.saturating_mul(layout.moments.lines_per_seed());
        let directory = SpoolOptions::spill_directory(file.as_ref());
        let states = kept.writer(&directory, tasks)?;
        let saves = states.is_some();
        // A line that hands its points over keeps only those of a window.
        let keeps = saves || !layout.moments.is_one_line();
        let options =
            SpoolOptions { seeds: lines, layout: layout.clone(), budget_bytes: results_budget(limit), directory };
        let spool = LineSpool::new(options, Box::new(LedgerShare::new(pager.clone()))).map_err(|e| {
            match FieldError::from(e) {
                FieldError::LimitTooSmall { needs, what, .. } => {
                    FieldError::LimitTooSmall { limit, needs: needs * 8, what }
                }
                e => e,
            }
        })?;
        let sorted = if tasks == spec.seeds.len() { SeedOrder::near(seeds, pager, watch)? } else { None };
        let sink = Mutex::new(LineSink::new(spool, states));
        let (mut run, all) = (RunStats::default(), tasks * tracers.len() as u64);
        for (n, tracer) in tracers.enumerate() {
            let tracer = tracer?;
            let through_time = T::WINDOWED && tracer.windows() > 1;
            let own = tracer.most_bytes() as u64;
            let fit = |bytes: u64, part: u64| tasks.saturating_mul(bytes + OF_TASK) <= limit / part;
            let room = |points| own + window_bytes(components, points);
            let points = if fit(room(KEPT_POINTS), 16) { KEPT_POINTS } else { KEPT_LEAST };
            let line_bytes = match (through_time, keeps) {
                (true, false) => room(points),
                (true, true) => own + line_bytes / 4,
                _ => line_bytes,
            };
            let puts_away = through_time && T::AWAY_BYTES > 0 && !keeps && !fit(line_bytes, OF_STATES);
            // Bytes of a line amid a step, beside its record, are counted with the lines under way.
            let (record_bytes, under_way_bytes, together) = if puts_away {
                let away = T::AWAY_BYTES as u64;
                let points = kept_away(limit / 10, tasks, away + OF_RECORD as u64, components);
                let record = 1 + away + window_bytes(components, points);
                (record as usize, line_bytes + OF_TASK + T::step_bytes() as u64, points + 1)
            } else {
                (0, T::step_bytes() as u64, points / 2)
            };
            let work = Tracing {
                tracer,
                pager,
                zones: &seeds.zones,
                seeds,
                sorted: sorted.as_ref(),
                states: kept.reader(),
                saves,
                layout: &layout,
                moment: n as u64,
                step_bytes: need.step,
                line_bytes,
                under_way_bytes,
                record_bytes,
                together,
                workers,
                since: AtomicU64::new(pager.now()),
                evicted: AtomicU64::new(pager.evictions()),
                roomy: AtomicBool::new(true),
                nearly: AtomicBool::new(true),
                window: AtomicU32::new(0),
                leaving: Leaving::default(),
                likely: Likely::default(),
                whole_step: need.whole_step,
                holds: AtomicBool::new(false),
                sink: &sink,
            };
            let load = RunLoad { tasks, workers, active: work.most_active(pager.ledger().limit()) };
            pager.keep_used_since(if T::WINDOWED { pager.now() } else { u64::MAX });
            let before = tasks * n as u64;
            let one =
                executor::run(&work, pager, load, &mut |done| watch("tracing", (before + done) as f64, all as f64));
            pager.keep_used_since(u64::MAX);
            // The need at that moment may not be the largest, and lines may be longer than expected.
            let limit = pager.ledger().limit();
            run.add(&one.map_err(|e| more_than(e, enough.max(limit + limit / 2)))?);
        }
        session.add_wait(run.wait_s);
        let mut sink = sink.into_inner().unwrap_or_else(PoisonError::into_inner);
        let stats = sink.spool.stats();
        let named = |counts: &[u64; 16]| -> Vec<(&'static str, u64)> {
            let all = Reason::ALL.iter().map(|r| (r.name(), counts[usize::from(r.code())]));
            all.filter(|(_, n)| *n > 0).collect()
        };
        let partial = sink.failed > 0;
        let report = TraceReport {
            lines,
            points: stats.points,
            reasons: named(&sink.reasons),
            outside: sink.outside,
            empty: named(&sink.empty),
            state_saved: saves.then_some(!partial),
            failed: sink.failed,
            failure: sink.failure,
            run,
            spilled_bytes: stats.spilled_bytes,
        };
        let refused = |e| match FieldError::from(e) {
            FieldError::LimitTooSmall { needs, what, .. } => {
                FieldError::LimitTooSmall { limit: pager.ledger().limit(), needs: would_do(pager, needs), what }
            }
            e => e,
        };
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
                sink.spool.write(file, &provenance, partial, &mut told).map_err(refused)?;
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
