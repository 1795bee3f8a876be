//! Ranges, boxes, iblank values and walls of a dataset: from one pass over all of it, or from a store's own ranges.

use crate::executor::Nobody;
use crate::gridface::GridFace;
use crate::gridkind::{GridKind, GridLook};
use crate::limits::{charge_other, fetch_error};
use crate::session::{ProgressWatch, Session};
use crate::values::{visit_box, NodeBox};
use crate::walls::walls;
use field::dataset::Dataset;
use field::error::FieldError;
use field::nodes::Zone;
use field::plot3d::iblank::{hides_cell, of_point, Blank, HOLE};
use field::quantity::{Quantity, Sources};
use field::translate::Translation;
use pager::place::is_remote;
use pager::{ArrayId, Lookup, PageId, Priority, Wake, Worker};
use serde_json::{json, Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Different iblank values of a kind that are counted separately: more than any reader needs, in little memory.
const COUNTED: usize = 4096;
/// Listed ones of these, the most frequent first.
const LISTED: usize = 64;
/// Pages of the coarsest ranges and boxes that are read without an explicit survey. They are small and lie together,
/// but thousands take longer than `info` may.
const MOST_PAGES: u64 = 4096;
/// Pages of these requested at once.
const AT_ONCE: usize = 32;

#[derive(Default)]
pub(crate) struct SurveyResult {
    /// `[low, high]` by the name of a field.
    pub ranges: Map<String, Value>,
    /// Whether the ranges include blanked points; `None` without ranges.
    pub with_holes: Option<bool>,
    /// Number of first time steps that ranges, boxes and the rest cover.
    pub steps: Option<usize>,
    /// Boxes by zone.
    pub boxes: Vec<Value>,
    /// iblank values by zone.
    pub blanks: Vec<Blanks>,
    /// Kinds of grid by zone.
    pub kinds: Vec<GridKind>,
    /// Faces that are walls at every step.
    pub walls: Option<Vec<GridFace>>,
    /// By field: usable points of the surveyed steps with NaN or infinite values. Empty without a survey.
    pub not_numbers: HashMap<String, NotNumbers>,
}

/// Points with values that are not finite numbers.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NotNumbers {
    /// Points at all steps.
    pub points: u64,
    /// The first and the last step with such points.
    pub steps: Option<[usize; 2]>,
}

impl NotNumbers {
    fn add(&mut self, step: usize) {
        self.join(Self { points: 1, steps: Some([step; 2]) });
    }

    fn join(&mut self, other: Self) {
        self.points += other.points;
        self.steps = match (self.steps, other.steps) {
            (Some(a), Some(b)) => Some([a[0].min(b[0]), a[1].max(b[1])]),
            (a, b) => a.or(b),
        };
    }
}

/// Points by iblank value of a kind. Beyond [`COUNTED`] different values, those farthest from zero are counted
/// together. So the result does not depend on the order of pages.
#[derive(Default)]
struct BlankCounts {
    points: BTreeMap<(u32, i32), u64>,
    others: u64,
}

impl BlankCounts {
    fn add(&mut self, value: i32, points: u64) {
        *self.points.entry((value.unsigned_abs(), value)).or_default() += points;
        if self.points.len() > COUNTED {
            self.others += self.points.pop_last().map_or(0, |(_, n)| n);
        }
    }

    /// The listed values, in order of value, and the points of all others.
    fn listed(&self) -> (Vec<(i32, u64)>, u64) {
        let mut all: Vec<(i32, u64)> = self.points.iter().map(|((_, v), n)| (*v, *n)).collect();
        all.sort_by_key(|(value, n)| (std::cmp::Reverse(*n), value.unsigned_abs(), *value));
        let rest = all.split_off(all.len().min(LISTED));
        all.sort_unstable();
        (all, self.others + rest.iter().map(|(_, n)| n).sum::<u64>())
    }
}

/// The iblank values of a zone: values that the format defines, and unknown ones.
#[derive(Default)]
pub(crate) struct Blanks {
    zones: usize,
    known: BlankCounts,
    unknown: BlankCounts,
    hidden: u64,
    /// The last value and its count since it last changed. It mostly repeats.
    run: (i32, u64),
}

impl Blanks {
    fn of(zones: usize) -> Self {
        Self { zones, ..Self::default() }
    }

    fn add(&mut self, value: i32) {
        if value != self.run.0 {
            self.flush();
            self.run.0 = value;
        }
        self.run.1 += 1;
    }

    fn flush(&mut self) {
        let (value, points) = std::mem::take(&mut self.run);
        if points > 0 {
            self.hidden += points * u64::from(hides_cell(f64::from(value)));
            let value = of_point(value);
            let unknown = matches!(Blank::of(value, self.zones), Blank::Unknown(_));
            if unknown { &mut self.unknown } else { &mut self.known }.add(value, points);
        }
    }

    /// Cells that are blanked out themselves, whatever their points are.
    pub fn hidden_cells(&self) -> u64 {
        self.hidden
    }

    /// `(iblank_values, iblank_unknown, iblank_others)` as in INFO.
    pub fn json(&self) -> (Value, Value, Value) {
        let ((known, known_others), (unknown, unknown_others)) = (self.known.listed(), self.unknown.listed());
        let names: Vec<String> = unknown.iter().map(|(v, _)| v.to_string()).collect();
        let values: Map<String, Value> =
            known.iter().chain(&unknown).map(|(value, n)| (value.to_string(), json!(n))).collect();
        (values.into(), names.into(), json!({"known": known_others, "unknown": unknown_others}))
    }
}

type ValueRange = (f64, f64);

const NOTHING: ValueRange = (f64::INFINITY, f64::NEG_INFINITY);

fn widen(span: &mut ValueRange, low: f64, high: f64) {
    *span = (span.0.min(low), span.1.max(high));
}

fn span_json(span: ValueRange) -> Value {
    if span.0 <= span.1 {
        json!([span.0, span.1])
    } else {
        Value::Null
    }
}

/// Ranges, boxes and the rest by one pass over all data and steps, in bounded memory. Outer faces of zones are then
/// read again, until they are known not to be walls.
///
/// # Errors
/// [`FieldError`]; [`FieldError::Interrupted`] if `watch` returns false.
pub(crate) fn survey(
    session: &Session,
    dataset: &Dataset,
    watch: &mut ProgressWatch<'_>,
) -> Result<SurveyResult, FieldError> {
    let steps = dataset.catalog.times.len().max(1);
    let mut found = SurveyResult { with_holes: Some(false), steps: Some(steps), ..SurveyResult::default() };
    let mut ranges: HashMap<String, ValueRange> = HashMap::new();
    let looks = |z: &Zone| if z.arrays.iter().all(|a| a.steady) { 1 } else { steps };
    let all: u64 = dataset.zones.iter().map(|z| z.translation.count() * looks(z) as u64).sum();
    let mut done = 0u64;
    for (zone, z) in dataset.zones.iter().enumerate() {
        let mut of_zone = ZoneSurvey::new(dataset, zone)?;
        for step in 0..looks(z) {
            let mut told = |phase: &str, pages: f64, _: f64| watch(phase, done as f64 + pages, all as f64);
            of_zone.look(session, dataset, step, &mut told)?;
            done += z.translation.count();
        }
        of_zone.finish(&mut found, &mut ranges);
    }
    found.ranges = ranges.into_iter().map(|(name, span)| (name, span_json(span))).collect();
    found.walls = Some(walls(session, dataset, 0..steps, watch)?);
    Ok(found)
}

/// A zone during the survey, step by step.
struct ZoneSurvey<'a> {
    zone: usize,
    z: &'a Zone,
    names: Vec<String>,
    fields: Vec<Quantity>,
    spans: Vec<ValueRange>,
    bounds: [[f64; 3]; 2],
    blanks: Blanks,
    kind: Option<GridKind>,
    /// By field: usable points with values that are not finite numbers.
    not_numbers: Vec<NotNumbers>,
}

impl<'a> ZoneSurvey<'a> {
    fn new(dataset: &'a Dataset, zone: usize) -> Result<Self, FieldError> {
        let z = &dataset.zones[zone];
        let names = Quantity::names(z);
        let fields = names.iter().map(|n| dataset.quantity(zone, n)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            zone,
            z,
            spans: vec![NOTHING; names.len()],
            not_numbers: vec![NotNumbers::default(); names.len()],
            names,
            fields,
            bounds: [[f64::INFINITY; 3], [f64::NEG_INFINITY; 3]],
            blanks: Blanks::of(dataset.zones.len()),
            kind: None,
        })
    }

    /// Whether a field may change from step to step.
    fn changes(&self, q: Quantity) -> bool {
        let changes = |array: usize| !self.z.arrays[array].steady;
        self.z.iblank.is_some_and(changes)
            || match q {
                Quantity::Stored { array, .. } | Quantity::Component { array, .. } => changes(array),
                Quantity::Derived(_) => {
                    let s = Sources::of(self.z);
                    [s.density, s.momentum, s.energy, s.gamma].into_iter().flatten().any(changes)
                }
            }
    }

    /// Reads one step, or those of its fields that may differ from the first step's.
    fn look(
        &mut self,
        session: &Session,
        dataset: &Dataset,
        step: usize,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<(), FieldError> {
        let z = self.z;
        let position = z.arrays[z.xyz].components;
        let moves = step == 0 || !z.arrays[z.xyz].steady;
        let counts = z.iblank.is_some_and(|a| step == 0 || !z.arrays[a].steady);
        let taken: Vec<usize> = (0..self.fields.len()).filter(|n| step == 0 || self.changes(self.fields[*n])).collect();
        if !(moves || counts) && taken.is_empty() {
            return Ok(());
        }
        let mut wanted: Vec<Quantity> = Vec::new();
        wanted.extend(moves.then_some(Quantity::Stored { array: z.xyz, components: position }));
        wanted.extend(z.iblank.map(|array| Quantity::Stored { array, components: 1 }));
        wanted.extend(taken.iter().map(|n| self.fields[*n]));
        let charge = || charge_other(&session.pager, GridLook::bytes(z.dims()), "looking at the kind of the grid");
        let _charged = moves.then(charge).transpose()?;
        let mut kind = moves.then(|| GridLook::new(z.dims()));
        let whole = NodeBox { zone: self.zone, step, lo: [0; 3], hi: z.dims() };
        visit_box(session, dataset, whole, &wanted, watch, &mut |at, v| {
            let mut rest = v;
            if let Some(kind) = &mut kind {
                let (x, others) = rest.split_at(position);
                let x = &x[..position.min(3)];
                kind.node(at, x);
                for (c, x) in x.iter().enumerate() {
                    self.bounds[0][c] = self.bounds[0][c].min(*x);
                    self.bounds[1][c] = self.bounds[1][c].max(*x);
                }
                rest = others;
            }
            let mut hole = false;
            if z.iblank.is_some() {
                let (b, others) = rest.split_at(1);
                let b = b[0] as i32;
                hole = b == HOLE;
                if counts {
                    self.blanks.add(b);
                }
                rest = others;
            }
            for n in &taken {
                let (value, others) = rest.split_at(self.fields[*n].components());
                rest = others;
                let x = match value {
                    [x] => *x,
                    vector => vector.iter().map(|c| c * c).sum::<f64>().sqrt(),
                };
                if !hole && x.is_finite() {
                    widen(&mut self.spans[*n], x, x);
                } else if !hole {
                    self.not_numbers[*n].add(step);
                }
            }
            true
        })?;
        // A moving grid has the most general kind of its steps.
        self.kind = self.kind.max(kind.map(|k| k.kind()));
        Ok(())
    }

    fn finish(mut self, found: &mut SurveyResult, ranges: &mut HashMap<String, ValueRange>) {
        if self.z.arrays[self.z.xyz].components < 3 {
            (self.bounds[0][2], self.bounds[1][2]) = (0.0, 0.0);
        }
        // A grid with a coordinate that is not finite has no box.
        let known = self.bounds.as_flattened().iter().all(|v| v.is_finite());
        found.boxes.push(if known { json!(self.bounds) } else { Value::Null });
        found.kinds.extend(self.kind);
        self.blanks.flush();
        found.blanks.push(self.blanks);
        for (name, (span, count)) in self.names.into_iter().zip(self.spans.into_iter().zip(self.not_numbers)) {
            found.not_numbers.entry(name.clone()).or_default().join(count);
            widen(ranges.entry(name).or_insert(NOTHING), span.0, span.1);
        }
    }
}

/// Ranges of stored scalars and boxes of zones from the coarsest levels that `convert` or an index keeps: a few pages a
/// step. If all steps together have too many, only the first step's.
///
/// # Errors
/// [`FieldError`].
pub(crate) fn known(session: &Session, dataset: &Dataset) -> Result<SurveyResult, FieldError> {
    let all = dataset.catalog.times.len().max(1);
    let mut levels = Vec::new();
    for (zone, z) in dataset.zones.iter().enumerate() {
        let boxes = z.boxes.last().map(|b| (None, b.id, b.translation, z.arrays[z.xyz].steady));
        let of_zone = dataset.ranges.get(zone).map_or(&[][..], |l| &l[..]);
        let scalars = z.arrays.iter().zip(of_zone).filter(|(a, _)| a.components == 1);
        let ranges = scalars.filter_map(|(a, level)| {
            let top = level.last()?;
            Some((Some(&a.name), top.id, Translation::new(top.paging.dims, top.paging.page), a.steady))
        });
        levels.extend(boxes.into_iter().chain(ranges).map(|l| (zone, l)));
    }
    let steps_of = |steady: bool, steps: usize| if steady { 1 } else { steps };
    let pages: u64 = levels.iter().map(|(_, (_, _, t, steady))| t.count() * steps_of(*steady, all) as u64).sum();
    let steps = if pages <= MOST_PAGES { all } else { 1 };

    if is_remote(&session.spec.path) {
        // One after the other they cost two round trips each.
        let of_level = |(_, (_, id, t, steady)): &(usize, (_, ArrayId, Translation, bool))| {
            let (id, steps) = (*id, steps_of(*steady, steps) as u32);
            (0..t.count()).flat_map(move |page| (0..steps).map(move |step| PageId::new(id, step, page)))
        };
        let wanted: Vec<PageId> = levels.iter().flat_map(of_level).take(MOST_PAGES as usize).collect();
        let nobody: Arc<dyn Wake> = Arc::new(Nobody);
        let _pending = session.pager.request(&wanted, 0, &nobody, Priority::Prefetch);
    }

    let mut found = SurveyResult { boxes: vec![Value::Null; dataset.zones.len()], ..SurveyResult::default() };
    let mut worker = session.pager.worker();
    let mut ranges: HashMap<&String, ValueRange> = HashMap::new();
    for (zone, (name, id, t, steady)) in &levels {
        let steps = steps_of(*steady, steps);
        if let Some(name) = name {
            let span = ranges.entry(*name).or_insert(NOTHING);
            each_of_level(session, &mut worker, *id, t, 2, steps, &mut |c| widen(span, c[0], c[1]))?;
            continue;
        }
        let mut b = [[f64::INFINITY; 3], [f64::NEG_INFINITY; 3]];
        each_of_level(session, &mut worker, *id, t, 6, steps, &mut |c| {
            for a in 0..3 {
                b[0][a] = b[0][a].min(c[a]);
                b[1][a] = b[1][a].max(c[a + 3]);
            }
        })?;
        if b.as_flattened().iter().all(|v| v.is_finite()) {
            found.boxes[*zone] = json!(b);
        }
    }
    found.steps = (!levels.is_empty()).then_some(steps);
    // These ranges serve searches. A range that is too wide costs one read, and one that is too narrow a result.
    found.with_holes = (!ranges.is_empty()).then(|| dataset.zones.iter().any(|z| z.iblank.is_some()));
    found.ranges = ranges.into_iter().map(|(name, span)| (name.clone(), span_json(span))).collect();
    Ok(found)
}

/// Calls `each` with the components of every element of a level at the first `steps` steps. These are float32 for boxes
/// (six) and float64 for ranges (two).
fn each_of_level(
    session: &Session,
    worker: &mut Worker,
    id: ArrayId,
    t: &Translation,
    components: usize,
    steps: usize,
    each: &mut dyn FnMut(&[f64]),
) -> Result<(), FieldError> {
    // Ranges have the wider type.
    let bytes = (t.component * components * 8) as u64;
    let steps: Vec<u32> = (0..steps as u32).collect();
    let mut v = vec![0.0; components];
    for page in 0..t.count() {
        // Pages at the edge are padded.
        let (_, inside) = t.extent(page);
        for some in steps.chunks(AT_ONCE) {
            let ids: Vec<PageId> = some.iter().map(|step| PageId::new(id, *step, page)).collect();
            let short = |e| fetch_error(&session.pager, e, bytes * some.len() as u64, 0);
            let _hold = session.pager.fetch(&ids).map_err(short)?;
            for page_id in ids {
                // It is held: it is resident, or the fetch has returned its error.
                let Lookup::Here(bytes) = worker.page(page_id) else { continue };
                let size = bytes.len() / (t.component * components);
                let value = |n: usize| match bytes.get(n * size..(n + 1) * size) {
                    Some(&[a, b, c, d]) => f64::from(f32::from_ne_bytes([a, b, c, d])),
                    Some(&[a, b, c, d, e, f, g, h]) => f64::from_ne_bytes([a, b, c, d, e, f, g, h]),
                    _ => f64::NAN,
                };
                let (row, plane) = t.strides();
                for k in 0..inside[2] as usize {
                    for j in 0..inside[1] as usize {
                        for n in (0..inside[0] as usize).map(|i| k * plane + j * row + i) {
                            (0..components).for_each(|c| v[c] = value(n * components + c));
                            each(&v);
                        }
                    }
                }
            }
            worker.release();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lists for these values, each with its points.
    fn told(values: impl Iterator<Item = (i32, u64)>, zones: usize) -> (Value, Value, Value) {
        let mut blanks = Blanks::of(zones);
        for (value, points) in values {
            (0..points).for_each(|_| blanks.add(value));
        }
        blanks.flush();
        blanks.json()
    }

    #[test]
    fn unknown_values_are_listed_whatever_else_there_is() {
        let fringe = (1..=200).map(|n| (-n, 1));
        let (values, unknown, others) = told(fringe.chain([(77, 700), (1, 30)]), 500);
        assert_eq!(unknown, json!(["77"]));
        assert_eq!((&values["77"], &values["1"], &values["-1"]), (&json!(700), &json!(30), &json!(1)));
        // One of them is 1; the others name donor zones.
        assert_eq!(others, json!({"known": 200 - 63, "unknown": 0}));
        assert_eq!(values.as_object().map(Map::len), Some(65));
    }

    #[test]
    fn the_most_frequent_are_listed_and_nobody_is_lost() {
        let many = (0..20_000).map(|n| (1000 + n, 1 + u64::from(n == 3000)));
        let (values, unknown, others) = told(many, 1);
        assert_eq!(unknown.as_array().map(Vec::len), Some(LISTED));
        assert_eq!(values["4000"], json!(2));
        let listed: u64 = values.as_object().unwrap().values().filter_map(Value::as_u64).sum();
        assert_eq!(listed + others["unknown"].as_u64().unwrap(), 20_001);
        // The order of values does not matter.
        assert_eq!(told((0..20_000).rev().map(|n| (1000 + n, 1 + u64::from(n == 3000))), 1).0, values);
    }
}
