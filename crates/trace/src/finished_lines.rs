//! Finished lines on their way from tasks to the spool and the state file.

use crate::report::TraceReport;
use crate::resume::StateWriter;
use crate::TraceSpec;
use field::dataset::Dataset;
use kernels::line::{JoinedLine, Reason};
use kernels::streamline::Direction;
use output::{
    self, FieldSpec, FieldType, FieldValues, FinishedLine, LineLayout, LineSpool, Moments, OutputError, Provenance,
};
use pager::error::PageError;
use runtime::executor::RunStats;
use runtime::session::Session;
use std::ops::Range;

/// A line of the results: a part of a task's result, field by field.
pub(crate) struct LineCut {
    number: u64,
    range: Range<usize>,
    reason: Option<Reason>,
    columns: Vec<Vec<f64>>,
}

impl LineCut {
    /// The line in the spool's form, cut from a task's result.
    fn as_line(
        &self,
        j: &JoinedLine,
        put: impl FnOnce(&FinishedLine<'_>) -> Result<(), OutputError>,
    ) -> Result<(), OutputError> {
        let Self { number, range, reason, columns } = self;
        let values: Vec<FieldValues<'_>> = columns.iter().map(|c| FieldValues::F64(c)).collect();
        put(&FinishedLine {
            seed: *number,
            points: &j.points[range.clone()],
            time: &j.time[range.clone()],
            zone: &j.zone[range.clone()],
            fields: &values,
            reason: reason.unwrap_or(Reason::Left),
            reason_backward: j.reason_backward.or(*reason).unwrap_or(Reason::Left),
        })
    }
}

/// Cuts a task's result into lines: one, or one for each moment. `moment` is the moment of the present lines, if each
/// is of one time step.
pub(crate) fn cut(layout: &LineLayout, task: u64, moment: u64, j: &JoinedLine) -> Vec<LineCut> {
    let each = layout.moments.lines_per_seed();
    let stride: usize = layout.fields.iter().map(|f| f.components).sum();
    let line = |number: u64, range: Range<usize>, reason: Option<Reason>| LineCut {
        number,
        columns: split(&j.fields[range.start * stride..range.end * stride], &layout.fields, range.len()),
        range,
        reason,
    };
    match &layout.moments {
        Moments::At { times, steps: None, .. } => {
            let mut first = 0;
            let of = |(n, time): (usize, &f64)| {
                let count = j.time[first..].iter().take_while(|t| *t == time).count();
                let range = first..first + count;
                first += count;
                // A line with remaining points continues to the next moment.
                let goes_on = n + 1 < times.len() && (count > 0 || first < j.points.len());
                line(task * each + n as u64, range, if goes_on { Some(Reason::Time) } else { j.reason })
            };
            times.iter().enumerate().map(of).collect()
        }
        Moments::At { steps: Some(_), .. } => vec![line(task * each + moment, 0..j.points.len(), j.reason)],
        Moments::One | Moments::Through { .. } => vec![line(task, 0..j.points.len(), j.reason)],
    }
}

pub(crate) struct LineSink {
    pub spool: LineSpool,
    /// The state of the particles, if it is saved.
    pub state: Option<StateWriter>,
    pub reasons: [u64; 16],
    /// Tasks whose seeds lie in no zone.
    pub outside: u64,
    /// Other tasks without a point, by reason.
    pub empty: [u64; 16],
    pub failed: u64,
    pub failure: Option<String>,
}

impl LineSink {
    pub(crate) fn new(spool: LineSpool, state: Option<StateWriter>) -> Self {
        Self { spool, state, reasons: [0; 16], outside: 0, empty: [0; 16], failed: 0, failure: None }
    }

    /// Stores a task's result, cut into lines, and its failed page. `rest`: pieces of the line were stored before.
    pub(crate) fn take(
        &mut self,
        j: &JoinedLine,
        lines: &[LineCut],
        rest: bool,
        failure: Option<PageError>,
    ) -> Result<(), OutputError> {
        // A line restored from a state may have met a failed page before.
        let failed = failure.is_some() || j.reason == Some(Reason::Failed) || j.reason_backward == Some(Reason::Failed);
        if j.points.is_empty() && !rest && !failed {
            match j.reason {
                Some(reason) if !j.outside => self.empty[reason as usize] += 1,
                _ => self.outside += 1,
            }
        }
        self.failed += u64::from(failed);
        if let Some(f) = failure {
            self.failure.get_or_insert_with(|| f.to_string());
        }
        for cut in lines {
            cut.as_line(j, |line| {
                self.reasons[usize::from(line.reason.code())] += 1;
                match rest {
                    true => self.spool.finish(line),
                    false => self.spool.add(line),
                }
            })?;
        }
        Ok(())
    }

    /// The report of `run`, with so many `lines`. `saves`: whether the state was to be saved.
    pub(crate) fn report(&self, lines: u64, saves: bool, run: RunStats) -> TraceReport {
        let stats = self.spool.stats();
        let named = |counts: &[u64; 16]| -> Vec<(&'static str, u64)> {
            let all = Reason::ALL.iter().map(|r| (r.name(), counts[usize::from(r.code())]));
            all.filter(|(_, n)| *n > 0).collect()
        };
        TraceReport {
            lines,
            points: stats.points,
            reasons: named(&self.reasons),
            outside: self.outside,
            empty: named(&self.empty),
            state_saved: saves.then_some(self.failed == 0),
            failed: self.failed,
            failure: self.failure.clone(),
            run,
            spilled_bytes: stats.spilled_bytes,
        }
    }

    /// Stores points of an unfinished line: the `first` ones, or later ones.
    pub(crate) fn extend(&mut self, j: &JoinedLine, lines: &[LineCut], first: bool) -> Result<(), OutputError> {
        lines.iter().try_for_each(|cut| cut.as_line(j, |line| self.spool.extend(line, first)))
    }
}

/// Reorders values from point by point to field by field.
fn split(values: &[f64], fields: &[FieldSpec], points: usize) -> Vec<Vec<f64>> {
    let stride: usize = fields.iter().map(|f| f.components).sum();
    let mut at = 0;
    let column = |f: &FieldSpec| {
        let column =
            (0..points).flat_map(|p| values[p * stride + at..p * stride + at + f.components].iter().copied()).collect();
        at += f.components;
        column
    };
    fields.iter().map(column).collect()
}

/// Data written beside the lines. The place of the dataset is left out: equal data give equal bytes in any layout and
/// place.
pub fn provenance(session: &Session, spec: &TraceSpec) -> Provenance {
    let dataset = session.dataset();
    Provenance {
        program: concat!("farfield ", env!("CARGO_PKG_VERSION")).to_owned(),
        source: String::new(),
        length_unit: dataset.length_unit(),
        time_unit: match spec.path {
            None => dataset.travel_time_unit(&spec.field),
            Some(_) => dataset.catalog.time_units.clone(),
        },
        notes: [
            Some(("field".into(), spec.field.clone())),
            Some(("tolerance".into(), format!("{:e}", spec.options.tolerance))),
            spec.stop.as_ref().map(|stop| ("stop".into(), stop.clone())),
        ]
        .into_iter()
        .flatten()
        .collect(),
    }
}

/// The fields of every line of a trace.
pub fn line_layout(dataset: &Dataset, spec: &TraceSpec) -> LineLayout {
    let fields = spec.scalars.iter().map(|name| FieldSpec {
        name: name.clone(),
        components: dataset.quantity(0, name).map_or(1, |q| q.components()),
        dtype: FieldType::F64,
        unit: dataset.units(name),
    });
    let mut fields: Vec<FieldSpec> = fields.collect();
    let time = &dataset.catalog.time_units;
    if spec.over.timeline.is_some() {
        fields.extend([FieldSpec::scalar("s", ""), FieldSpec::scalar("age", time)]);
    } else if spec.path.as_ref().is_some_and(|p| p.streak.is_some()) {
        fields.extend(["birth", "age"].map(|name| FieldSpec::scalar(name, time)));
    }
    LineLayout { fields, both: spec.options.direction == Direction::Both, moments: Moments::One }
}
