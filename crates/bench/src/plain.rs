//! Particles in time, in a plain loop over flat arrays and by Farfield.

use super::device::{open_on, Device};
use super::trace::whole;
use super::watcher::Watcher;
use super::windows::Came;
use field::dataset::Dataset;
use field::error::FieldError;
use field::in_memory::FlatArray;
use field::locator::VectorSource;
use kernels::streamline::Seed;
use output::Destination;
use pager::{Observer, PageId};
use runtime::limits::pager_error;
use runtime::process;
use runtime::session::{ProgressWatch, Resources, Session, SourceSpec};
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trace::admission::{SeedOrder, SeedRule};
use trace::{trace, TraceSpec};

/// A vector on a uniform grid at all time steps, interleaved by point.
struct Regular {
    origin: [f64; 3],
    inverse: [f64; 3],
    dims: [usize; 3],
    times: Vec<f64>,
    steps: Vec<Vec<f32>>,
}

fn wrong(what: &str) -> FieldError {
    FieldError::Usage(format!("the plain loop {what}"))
}

impl Regular {
    fn read(dataset: &Dataset, field: &str) -> Result<Self, FieldError> {
        let [zone] = &*dataset.zones else { return Err(wrong("takes one zone")) };
        let even = zone.uniform.ok_or_else(|| wrong("takes a uniform grid"))?;
        let dims = zone.dims().map(|n| n as usize);
        let rows = dataset.rows()?;
        let points = dims.iter().product::<usize>();
        let times = dataset.catalog.times.clone();
        let mut steps = Vec::with_capacity(times.len());
        for step in 0..times.len() {
            let fields = dataset.fields(Some(field), &[], step)?;
            let array = |n: usize| -> Result<Vec<f32>, FieldError> {
                let slot = &zone.arrays[n];
                match whole(&*rows[0][n], if slot.steady { 0 } else { step }, slot.components, dims, slot.dtype)? {
                    FlatArray::F32(values) => Ok(values),
                    _ => Err(wrong("takes single precision")),
                }
            };
            let (planes, divisor) = match fields[0].vector {
                VectorSource::Stored(n) => (array(n)?, None),
                VectorSource::Quotient(n, d) => (array(n)?, Some(array(d)?)),
                VectorSource::None => return Err(wrong("takes a vector")),
            };
            let mut together = vec![0.0f32; 3 * points];
            for (n, v) in together.iter_mut().enumerate() {
                let (point, component) = (n / 3, n % 3);
                *v = planes[component * points + point] / divisor.as_ref().map_or(1.0, |d| d[point]);
            }
            steps.push(together);
        }
        Ok(Self { origin: even.origin, inverse: even.spacing.map(|s| 1.0 / s), dims, times, steps })
    }

    /// The vector at a place and a share of the way to the next step; `None` outside.
    #[inline(always)]
    fn at(&self, x: [f64; 3], step: usize, share: f64) -> Option<[f64; 3]> {
        let (mut low, mut q) = ([0usize; 3], [0.0; 3]);
        for a in 0..3 {
            let f = (x[a] - self.origin[a]) * self.inverse[a];
            if !(f >= 0.0 && f <= (self.dims[a] - 1) as f64) {
                return None;
            }
            low[a] = (f as usize).min(self.dims[a] - 2);
            q[a] = f - low[a] as f64;
        }
        let (row, plane) = (3 * self.dims[0], 3 * self.dims[0] * self.dims[1]);
        let base = 3 * low[0] + row * low[1] + plane * low[2];
        let mix = |a: f64, b: f64, w: f64| a + (b - a) * w;
        let one = |v: &[f32], c: usize| {
            let v = |di: usize, dj: usize, dk: usize| f64::from(v[base + 3 * di + row * dj + plane * dk + c]);
            let edge = |dj: usize, dk: usize| mix(v(0, dj, dk), v(1, dj, dk), q[0]);
            mix(mix(edge(0, 0), edge(1, 0), q[1]), mix(edge(0, 1), edge(1, 1), q[1]), q[2])
        };
        let (first, second) = (&self.steps[step], &self.steps[step + 1]);
        Some(core::array::from_fn(|c| mix(one(first, c), one(second, c), share)))
    }

    /// Classical fourth-order steps of a particle between two time steps. Returns their number, and whether the
    /// particle is still inside.
    fn go(&self, x: &mut [f64; 3], step: usize, longest: f64) -> (u64, bool) {
        let span = self.times[step + 1] - self.times[step];
        let count = (span / longest - 1e-9).ceil().max(1.0);
        let (h, shift) = (span / count, 1.0 / count);
        for n in 0..count as u64 {
            let share = n as f64 * shift;
            let ahead = |k: [f64; 3], h: f64| core::array::from_fn(|c| x[c] + h * k[c]);
            let stages = || {
                let a = self.at(*x, step, share)?;
                let b = self.at(ahead(a, 0.5 * h), step, share + 0.5 * shift)?;
                let c = self.at(ahead(b, 0.5 * h), step, share + 0.5 * shift)?;
                let d = self.at(ahead(c, h), step, (share + shift).min(1.0))?;
                Some([a, b, c, d])
            };
            let Some([a, b, c, d]) = stages() else { return (n, false) };
            for i in 0..3 {
                x[i] += h / 6.0 * (a[i] + 2.0 * b[i] + 2.0 * c[i] + d[i]);
            }
        }
        (count as u64, true)
    }
}

/// Pathlines of a trace in a plain loop, time step by time step, `rounds` times: wall and CPU seconds, steps, and ends
/// of particles. Seeds are positions. Steps are of `time_step` or a little less.
///
/// # Errors
/// [`FieldError`] of opening; [`FieldError::Usage`] for options that the loop does not support.
pub fn plain(
    source: SourceSpec,
    resources: Resources,
    spec: &TraceSpec,
    rounds: usize,
    watch: &mut ProgressWatch<'_>,
) -> Result<Value, FieldError> {
    let session = Session::open(source, resources, watch)?;
    let dataset = session.located(watch)?;
    let longest = spec.path.as_ref().and_then(|p| p.time_step).ok_or_else(|| wrong("takes a time step"))?;
    let grid = Regular::read(&dataset, &spec.field)?;
    let rule = SeedRule::new(&spec.seeds, &dataset)?;
    // In Farfield's order, in which neighbours share cache lines.
    let sorted = SeedOrder::near(&rule, &session.pager, watch)?;
    let seeds = (0..spec.seeds.len()).map(|n| match rule.seed(sorted.as_ref().map_or(n, |order| order.get(n)))? {
        Seed::Physical(x) => Ok(x),
        _ => Err(wrong("takes seeds that are positions")),
    });
    let seeds = seeds.collect::<Result<Vec<_>, FieldError>>()?;
    let mut rows = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let (began, cpu) = (Instant::now(), process::cpu_seconds());
        let mut at: Vec<([f64; 3], bool)> = seeds.iter().map(|x| (*x, true)).collect();
        // Positions at each time, as a particle's line has them.
        let mut kept: Vec<[f64; 3]> = Vec::with_capacity(seeds.len() * grid.times.len());
        let mut steps = 0;
        for step in 0..grid.times.len() - 1 {
            for (x, inside) in at.iter_mut().filter(|p| p.1) {
                let (made, stays) = grid.go(x, step, longest);
                (steps, *inside) = (steps + made, stays);
                kept.push(*x);
            }
        }
        rows.push(json!({
            "wall_s": began.elapsed().as_secs_f64(), "cpu_s": process::cpu_seconds() - cpu, "steps": steps,
            "inside": at.iter().filter(|p| p.1).count(), "points": kept.len(), "ends": ends(at.iter().map(|p| p.0)),
        }));
    }
    Ok(json!({"runs": rows, "resident_peak_bytes": process::peak_resident_bytes()}))
}

/// Options of [`pathlines`].
pub struct PathlinesArm {
    /// The dataset.
    pub source: SourceSpec,
    /// Memory, threads, readers. `touched` replaces an observer given here.
    pub resources: Resources,
    /// The trace.
    pub trace: TraceSpec,
    /// Rounds. Pages read in the first are resident in the others.
    pub rounds: usize,
    /// File of the lines; `None`: they stay in memory.
    pub output: Option<PathBuf>,
    /// Lists the pages that were read, which costs time.
    pub touched: bool,
    /// Latency of each read on a device in place of a store's files; `None`: the disk.
    pub latency: Option<Duration>,
}

/// Pathlines by Farfield. The first round reads, the others find their pages resident within the limit. Lines stay in
/// memory or go to a file, as in a run.
///
/// # Errors
/// [`FieldError`] of opening and tracing.
pub fn pathlines(arm: &PathlinesArm, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    let (spec, rounds) = (&arm.trace, arm.rounds);
    let watcher = arm.touched.then(|| Arc::new(Watcher::default()));
    let again = if rounds > 1 { pages_of(arm, watch)? } else { Vec::new() };
    let observer = watcher.clone().map(|watcher| watcher as Arc<dyn Observer>);
    let resources =
        Resources { observer: observer.or_else(|| arm.resources.observer.clone()), ..arm.resources.clone() };
    let (session, device) = open_on(arm.latency, arm.source.clone(), resources, watch)?;
    session.located(watch)?;
    let mut rows = Vec::with_capacity(rounds);
    for round in 0..rounds {
        // A run gives back passed time steps. Their pages are fetched and held again for the later rounds.
        let _held = match round {
            0 => None,
            _ => Some(session.pager.fetch(&again).map_err(pager_error)?),
        };
        watcher.iter().for_each(|watcher| watcher.next_run());
        let mut row = match &arm.output {
            None => measured(&session, spec, watch)?,
            Some(output) => written(&session, spec, output, watch)?,
        };
        if let Some(watcher) = &watcher {
            row["touched"] = watcher.report();
        }
        rows.push(row);
    }
    Ok(json!({
        "runs": rows, "peak_bytes": session.pager.counters().peak_bytes, "resident_peak_bytes": process::peak_resident_bytes(),
        "device_latency_s": device.as_ref().map(Device::latency_s),
    }))
}

/// The pages of a trace, by another session, because an observer slows a run down. Both open the same files in the same
/// order, so their arrays have the same ids.
fn pages_of(arm: &PathlinesArm, watch: &mut ProgressWatch<'_>) -> Result<Vec<PageId>, FieldError> {
    let came = Arc::new(Came::default());
    let resources = Resources { observer: Some(came.clone()), ..arm.resources.clone() };
    let session = Session::open(arm.source.clone(), resources, watch)?;
    session.located(watch)?;
    trace(&session, &arm.trace, Destination::Memory, watch)?;
    Ok(came.pages())
}

/// One trace into memory: its figures, the pager's counters meanwhile, and checksums of its lines.
pub(super) fn measured(
    session: &Session,
    spec: &TraceSpec,
    watch: &mut ProgressWatch<'_>,
) -> Result<Value, FieldError> {
    let before = session.pager.counters();
    let (began, cpu) = (Instant::now(), process::cpu_seconds());
    let (report, lines) = trace(session, spec, Destination::Memory, watch)?;
    let (wall_s, cpu_s) = (began.elapsed().as_secs_f64(), process::cpu_seconds() - cpu);
    let after = session.pager.counters();
    let lines = lines.ok_or_else(|| FieldError::Usage("the arm wants lines in memory".into()))?;
    let last = lines.offsets.windows(2).filter(|w| w[1] > w[0]).map(|w| {
        let at = 3 * (w[1] as usize - 1);
        [lines.points[at], lines.points[at + 1], lines.points[at + 2]]
    });
    let mut digest = crc32fast::Hasher::new();
    lines.offsets.iter().for_each(|n| digest.update(&n.to_le_bytes()));
    lines.points.iter().chain(&lines.time).for_each(|x| digest.update(&x.to_le_bytes()));
    Ok(json!({
        "wall_s": wall_s, "cpu_s": cpu_s, "wait_s": report.run.wait_s, "points": report.points,
        "reasons": report.reasons.iter().map(|(r, n)| ((*r).to_owned(), (*n).into())).collect::<serde_json::Map<_, _>>(),
        "faults": after.faults - before.faults, "bytes_read": after.bytes_read - before.bytes_read,
        "reads": after.reads - before.reads, "evictions": after.evictions - before.evictions,
        "prefetched": after.prefetched - before.prefetched, "prefetched_used": after.prefetched_used - before.prefetched_used,
        "prefetch_dropped": after.prefetch_dropped - before.prefetch_dropped, "dropped": report.run.dropped,
        "digest": format!("{:08x}", digest.finalize()), "ends": ends(last),
    }))
}

/// One trace into a file: its figures.
fn written(
    session: &Session,
    spec: &TraceSpec,
    output: &Path,
    watch: &mut ProgressWatch<'_>,
) -> Result<Value, FieldError> {
    let before = session.pager.counters();
    let (began, cpu) = (Instant::now(), process::cpu_seconds());
    let (report, _) = trace(session, spec, Destination::File(output), watch)?;
    let (wall_s, cpu_s) = (began.elapsed().as_secs_f64(), process::cpu_seconds() - cpu);
    let after = session.pager.counters();
    Ok(json!({
        "wall_s": wall_s, "cpu_s": cpu_s, "wait_s": report.run.wait_s, "points": report.points,
        "faults": after.faults - before.faults, "bytes_read": after.bytes_read - before.bytes_read,
        "reads": after.reads - before.reads,
    }))
}

/// Sums of the particles' ends, for comparison.
fn ends(at: impl Iterator<Item = [f64; 3]>) -> [f64; 3] {
    at.fold([0.0; 3], |sum, x| core::array::from_fn(|c| sum[c] + x[c]))
}
