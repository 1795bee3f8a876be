//! Memory of lines: the least for a trace, and the bytes of each line.

use crate::line_kinds::Tracer;
use field::dataset::Dataset;
use field::error::FieldError;
use field::locator::ZoneFields;
use field::nodes::Zone;
use kernels::streamline::Options;
use output::LineLayout;
use pager::Pager;
use runtime::executor::OF_RECORD;
use runtime::limits::{
    enough_limit, kept_away, least_limit, line_bytes, window_bytes, KEPT_LEAST, KEPT_POINTS, OF_STATES,
};
use runtime::session::Session;

/// Bytes of a task in the executor (its slot, a place in the queue, counts), with the allocator's loss between states.
/// With this value 10,000 particles stay within 32 MiB.
pub(crate) const OF_TASK: u64 = 400;

/// Bytes of pages that lines use.
pub(crate) struct Need {
    /// Of the largest step.
    pub(crate) step: u64,
    /// Of any step, wherever it leads.
    closure: u64,
    /// Of all pages of a time step.
    pub(crate) whole_step: u64,
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

/// Memory of a job.
pub(crate) struct JobMemory {
    /// The memory limit, in bytes.
    pub(crate) limit: u64,
    /// A limit that suffices for any step, wherever it leads.
    pub(crate) enough: u64,
    /// Numbers of all fields at a point.
    components: usize,
    /// Most bytes of a line under way.
    line_bytes: u64,
}

impl JobMemory {
    /// For lines that continue from states of at most `longest_state` bytes.
    ///
    /// # Errors
    /// [`FieldError::LimitTooSmall`] if the limit does not hold the largest step.
    pub(crate) fn of(
        session: &Session,
        options: &Options,
        layout: &LineLayout,
        need: &Need,
        longest_state: u64,
    ) -> Result<Self, FieldError> {
        let limit = session.pager.ledger().limit();
        let least = least_limit(need.step);
        let components = layout.fields.iter().map(|f| f.components).sum();
        let line_bytes = line_bytes(options, components).max(2 * longest_state);
        let workers = session.resources.threads() as u64;
        let enough = enough_limit(need.closure + 2 * workers * line_bytes).max(least);
        if limit < least {
            return Err(FieldError::LimitTooSmall {
                limit,
                needs: enough,
                what: "the largest step of a line with its results".into(),
            });
        }
        Ok(Self { limit, enough, components, line_bytes })
    }
}

/// Memory of one line.
pub(crate) struct LineMemory {
    /// Most bytes of a line under way.
    pub(crate) line_bytes: u64,
    /// Bytes of a line amid a step, beside `line_bytes` or its record.
    pub(crate) under_way_bytes: u64,
    /// Bytes of a packed line; 0 if lines are never packed.
    pub(crate) record_bytes: usize,
    /// A waiting line hands over its points if there are at least this many.
    pub(crate) together: usize,
}

impl LineMemory {
    /// For each of `tasks` lines of a tracer. `keeps`: whether a line keeps all its points until its end.
    pub(crate) fn of<T: Tracer>(tracer: &T, tasks: u64, keeps: bool, job: &JobMemory) -> Self {
        let &JobMemory { limit, components, line_bytes, .. } = job;
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
        let step_bytes = T::step_bytes() as u64;
        if !puts_away {
            return Self { line_bytes, under_way_bytes: step_bytes, record_bytes: 0, together: points / 2 };
        }
        // Bytes of a line amid a step, beside its record, are counted with the lines under way.
        let away = T::AWAY_BYTES as u64;
        let points = kept_away(limit / 10, tasks, away + OF_RECORD as u64, components);
        let record = 1 + away + window_bytes(components, points);
        let under_way_bytes = line_bytes + OF_TASK + step_bytes;
        Self { line_bytes, under_way_bytes, record_bytes: record as usize, together: points + 1 }
    }
}
