//! From joined points to lines: orientation, filters, output.

use super::plan::CorePlan;
use super::spec::{provenance, CoreSpec};
use super::store::{refused, CoreStore, StoredPoint, BEYOND, FAILED, HOLE, OWN};
use field::dataset::Dataset;
use field::error::FieldError;
use kernels::cores::chains::Chains;
use kernels::cores::pencil::{cross, dot};
use kernels::cores::Method;
use output::{
    FieldSpec, FieldType, FieldValues, FinishedLine, HeldMemory, LineArrays, LineLayout, LineSpool, Moments,
    OutputError, OutputFile, Reason, SpoolOptions,
};
use pager::Pager;
use runtime::ledger_share::LedgerShare;
use runtime::limits::results_budget;
use runtime::session::{ProgressWatch, Session};
use std::ops::ControlFlow;
use std::path::Path;

/// The unit of a method's strength in a field whose derivatives `plan` has defined.
pub fn unit_of_strength(dataset: &Dataset, method: Method, field: &str) -> String {
    dataset.units(&match method {
        Method::SujudiHaimes => format!("grad({field}.x)"),
        Method::Levy => format!("curl({field})"),
        Method::Lambda2 => format!("lambda2({field})"),
    })
}

/// The layout of all lines.
pub(super) fn layout(dataset: &Dataset, spec: &CoreSpec) -> LineLayout {
    let unit = unit_of_strength(dataset, spec.method, &spec.field);
    let mut fields = vec![FieldSpec::scalar("strength", unit), FieldSpec::scalar("angle", "degrees")];
    if spec.method == Method::Levy {
        fields.push(FieldSpec::scalar("helicity_normalized", ""));
    }
    fields.extend(spec.scalars.iter().map(|name| FieldSpec {
        name: name.clone(),
        components:
            dataset.zones_with(name).next().and_then(|z| dataset.quantity(z, name).ok()).map_or(1, |q| q.components()),
        dtype: FieldType::F64,
        unit: dataset.units(name),
    }));
    LineLayout { fields, both: true, moments: Moments::One }
}

/// A part of a chain that passes the filters.
struct ChainPiece {
    chain: u32,
    /// Places within the chain, first and one past the last.
    from: u32,
    to: u32,
    /// Runs against the chain's order, so that it follows the velocity.
    backward: bool,
    /// The first place follows the last.
    closed: bool,
}

/// Lines that pass.
pub(super) struct CoreLines<'p> {
    plan: &'p CorePlan,
    store: CoreStore,
    chains: Chains,
    pieces: Vec<ChainPiece>,
    /// The memory of the pieces.
    held: HeldMemory,
}

/// Counts of the written lines.
pub(super) struct CoreSummary {
    pub lines: u64,
    pub points: u64,
    pub reasons: Vec<(&'static str, u64)>,
    pub spilled_bytes: u64,
    pub arrays: Option<LineArrays>,
}

fn less(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    core::array::from_fn(|c| a[c] - b[c])
}

impl<'p> CoreLines<'p> {
    pub fn new(
        session: &Session,
        spec: &CoreSpec,
        plan: &'p CorePlan,
        mut store: CoreStore,
    ) -> Result<Self, FieldError> {
        let chains = store.join()?;
        let held = store.account();
        let mut made = Self { plan, store, chains, pieces: Vec::new(), held };
        for n in 0..made.chains.len() {
            made.filter(&session.pager, spec, n)?;
        }
        Ok(made)
    }

    fn entry(&self, chain: usize, place: usize) -> &StoredPoint {
        &self.store.entries[self.chains.line(chain)[place] as usize]
    }

    /// The angle between a line and the velocity at a place, in degrees; for closed lines in their direction of
    /// traversal.
    fn angle(&self, chain: usize, place: usize, v: [f64; 3]) -> f64 {
        let count = self.chains.line(chain).len();
        let closed = self.chains.closed[chain];
        let before = if place > 0 || !closed { place.saturating_sub(1) } else { count - 1 };
        let after = if place + 1 < count || !closed { (place + 1).min(count - 1) } else { 0 };
        let along = less(self.entry(chain, after).x, self.entry(chain, before).x);
        let across = cross(along, v);
        dot(across, across).sqrt().atan2(dot(along, v).abs()).to_degrees()
    }

    /// Divides a chain where it does not pass, and keeps parts that are long enough.
    fn filter(&mut self, pager: &Pager, spec: &CoreSpec, chain: usize) -> Result<(), FieldError> {
        let count = self.chains.line(chain).len();
        let mut numbers = Vec::new();
        let (mut from, mut turned) = (0, 0.0);
        let mut pieces = Vec::new();
        for place in 0..=count {
            let passes = place < count && {
                self.store.numbers(self.chains.line(chain)[place], &mut numbers)?;
                let v = [numbers[0], numbers[1], numbers[2]];
                if place > from {
                    let along = less(self.entry(chain, place).x, self.entry(chain, place - 1).x);
                    turned += dot(along, v);
                }
                spec.max_angle.is_none_or(|most| self.angle(chain, place, v) <= most)
            };
            if !passes {
                if place > from {
                    pieces.push((from, place, turned < 0.0));
                }
                (from, turned) = (place + 1, 0.0);
            }
        }
        for (from, to, backward) in pieces {
            let closed = self.chains.closed[chain] && to - from == count;
            let steps = (from + 1..to).map(|n| [n - 1, n]).chain(closed.then_some([to - 1, from]));
            let length: f64 = steps
                .map(|[a, b]| {
                    let d = less(self.entry(chain, a).x, self.entry(chain, b).x);
                    dot(d, d).sqrt()
                })
                .sum();
            if to - from >= 2 && length >= spec.min_length {
                if self.pieces.len() == self.pieces.capacity() {
                    let more = self.pieces.capacity().max(64);
                    let bytes = more * size_of::<ChainPiece>();
                    if !self.held.grow(bytes) {
                        return Err(refused(pager, OutputError::Memory { needs: 2 * bytes as u64 }));
                    }
                    self.pieces.reserve_exact(more);
                }
                self.pieces.push(ChainPiece {
                    chain: chain as u32,
                    from: from as u32,
                    to: to as u32,
                    backward,
                    closed,
                });
            }
        }
        Ok(())
    }

    /// Why a line ends at a place.
    fn reason(&self, piece: &ChainPiece, place: u32) -> Reason {
        if piece.closed {
            return Reason::Closed;
        }
        let chain = piece.chain as usize;
        let is_end = place == 0 || place as usize + 1 == self.chains.line(chain).len();
        let flags = if is_end { self.entry(chain, place as usize).flags } else { 0 };
        match flags {
            f if f & FAILED != 0 => Reason::Failed,
            f if f & HOLE != 0 => Reason::Hole,
            f if f & BEYOND != 0 => Reason::Left,
            _ => Reason::Stopped,
        }
    }

    /// Writes all lines.
    pub fn write(
        &self,
        session: &Session,
        spec: &CoreSpec,
        directory: &Path,
        file: Option<OutputFile>,
        partial: bool,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<CoreSummary, FieldError> {
        let pager = &session.pager;
        let layout = layout(&self.plan.dataset, spec);
        let options = SpoolOptions {
            seeds: self.pieces.len() as u64,
            layout: layout.clone(),
            budget_bytes: results_budget(pager.ledger().limit()) / 2,
            directory: directory.to_path_buf(),
        };
        let mut spool =
            LineSpool::new(options, Box::new(LedgerShare::new(pager.clone()))).map_err(|e| refused(pager, e))?;
        let mut counts = [0u64; Reason::ALL.len()];
        let time = self.plan.dataset.catalog.times.get(self.plan.step).copied().unwrap_or(0.0);
        for (n, piece) in self.pieces.iter().enumerate() {
            if n % 64 == 0 && !watch("joining", n as f64, self.pieces.len() as f64) {
                return Err(FieldError::Interrupted);
            }
            let reason = self.line(&mut spool, &layout, n as u64, piece, time)?;
            counts[usize::from(reason.code())] += 1;
        }
        let stats = spool.stats();
        let named = Reason::ALL.iter().map(|r| (r.name(), counts[usize::from(r.code())]));
        let reasons = named.filter(|(_, n)| *n > 0).collect();
        let arrays = match file {
            Some(file) => {
                let mut told = |done: u64, total: u64| match watch("writing", done as f64, total as f64) {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                };
                spool.write(file, &provenance(session, spec), partial, &mut told).map_err(|e| refused(pager, e))?;
                None
            }
            None => Some(spool.arrays(partial).map_err(FieldError::from)?),
        };
        let spilled_bytes = stats.spilled_bytes + self.store.spilled_bytes();
        Ok(CoreSummary { lines: stats.lines, points: stats.points, reasons, spilled_bytes, arrays })
    }

    /// Adds one line to the spool, and returns why it ends.
    fn line(
        &self,
        spool: &mut LineSpool,
        layout: &LineLayout,
        number: u64,
        piece: &ChainPiece,
        time: f64,
    ) -> Result<Reason, FieldError> {
        let chain = piece.chain as usize;
        let mut order: Vec<u32> = (piece.from..piece.to).chain(piece.closed.then_some(piece.from)).collect();
        if piece.backward {
            order.reverse();
        }
        let own = layout.fields.len() - self.sampled(layout);
        let mut columns: Vec<Vec<f64>> =
            layout.fields.iter().map(|f| Vec::with_capacity(order.len() * f.components)).collect();
        let (mut points, mut zone, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for place in &order {
            let id = self.chains.line(chain)[*place as usize];
            let entry = &self.store.entries[id as usize];
            self.store.numbers(id, &mut numbers)?;
            points.push(entry.x);
            zone.push(entry.key.zone() as i32 + 1);
            let angle = self.angle(chain, *place as usize, [numbers[0], numbers[1], numbers[2]]);
            for (c, v) in [numbers[3], angle, numbers[4]].into_iter().take(own).enumerate() {
                columns[c].push(v);
            }
            let mut at = OWN;
            for (column, f) in columns[own..].iter_mut().zip(&layout.fields[own..]) {
                column.extend_from_slice(&numbers[at..at + f.components]);
                at += f.components;
            }
        }
        let times = vec![time; points.len()];
        let ends = [self.reason(piece, piece.from), self.reason(piece, piece.to - 1)];
        let [reason_backward, reason] = if piece.backward { [ends[1], ends[0]] } else { ends };
        let values: Vec<FieldValues<'_>> = columns.iter().map(|c| FieldValues::F64(c)).collect();
        let line = FinishedLine {
            seed: number,
            points: &points,
            time: &times,
            zone: &zone,
            fields: &values,
            reason,
            reason_backward,
        };
        spool.add(&line)?;
        Ok(reason)
    }

    fn sampled(&self, layout: &LineLayout) -> usize {
        layout.fields.len() - if self.plan.method == Method::Levy { 3 } else { 2 }
    }
}
