//! The same lines over different nodes.

use super::device::{open_on, Device};
use super::lines::{Idle, Job, Traced};
use super::mmap::{Memory, MmapNodes, Whole};
use super::watcher::Watcher;
use field::catalog::{DType, RowReader};
use field::dataset::Dataset;
use field::error::FieldError;
use field::in_memory::{FlatArray, FlatNodes};
use field::locator::ZoneFields;
use field::nodes::Nodes;
use field::paged::PagedNodes;
use pager::Counters;
use runtime::process;
use runtime::session::{ProgressWatch, Resources, SourceSpec};
use serde_json::{json, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trace::TraceSpec;

/// Nodes of the kernel.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Arm {
    /// Whole arrays in memory, one line after another.
    Flat,
    /// Whole arrays in memory, by the executor. Only translation distinguishes it from `Paged`.
    FlatTurns,
    /// PLOT3D files mapped or read whole, one line after another on each thread.
    Whole(Whole),
    /// Pages, by the executor.
    Paged,
}

/// Options of [`trace()`].
pub struct TraceArm {
    /// The dataset.
    pub source: SourceSpec,
    /// Memory, threads, readers. `touched` replaces an observer given here.
    pub resources: Resources,
    /// Nodes of the kernel.
    pub arm: Arm,
    /// Traces, run one after another over the same open dataset.
    pub traces: Vec<TraceSpec>,
    /// Lists the pages that were read, which costs time.
    pub touched: bool,
    /// Latency of each read on a device in place of a store's files; `None`: the disk.
    pub latency: Option<Duration>,
    /// Most tasks under way, for arms with an executor; 0: as in a trace.
    pub active: usize,
}

/// Runs the traces of an arm. For each: wall and CPU seconds, steps, points, reasons, a checksum of the lines, and the
/// pager's counters.
///
/// # Errors
/// [`FieldError`] of opening and tracing.
pub fn trace(arm: &TraceArm, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    let watcher = Arc::new(Watcher::default());
    let mut resources = arm.resources.clone();
    if arm.touched {
        resources.observer = Some(watcher.clone());
    }
    let (began, cpu) = (Instant::now(), process::cpu_seconds());
    let (session, device) = open_on(arm.latency, arm.source.clone(), resources, watch)?;
    let dataset = session.located(watch)?;
    let threads = session.resources.threads();
    let Some(first) = arm.traces.first() else { return Err(FieldError::Usage("no traces".into())) };
    let flat = matches!(arm.arm, Arm::Flat | Arm::FlatTurns).then(|| flat_nodes(&dataset, first)).transpose()?;
    let whole = match arm.arm {
        Arm::Whole(how) => Some(Arc::new(Memory::new(&dataset, first.step..first.step + 1, how)?)),
        _ => None,
    };
    let opened = json!({"wall_s": began.elapsed().as_secs_f64(), "cpu_s": process::cpu_seconds() - cpu});
    let mut rows = Vec::with_capacity(arm.traces.len());
    for spec in &arm.traces {
        watcher.next_run();
        let before = session.pager.counters();
        let (began, cpu) = (Instant::now(), process::cpu_seconds());
        let mut job = Job::new(spec, &dataset, &session.pager, watch)?;
        let mut load = job.load(&dataset, &session.pager, threads);
        if arm.active > 0 {
            load.active = arm.active;
        }
        let mut on_done = |done: u64| watch("tracing", done as f64, load.tasks as f64);
        let traced = match (&flat, &whole) {
            (Some((nodes, fields)), _) => {
                job.fields = fields.clone();
                if arm.arm == Arm::Flat {
                    job.by_loop(threads, &|| nodes.clone())?
                } else {
                    let make = |worker| Idle { nodes: nodes.clone(), worker };
                    job.by_executor(&session.pager, load, &make, &mut on_done)?
                }
            }
            (_, Some(memory)) => job.by_loop(threads, &|| MmapNodes::new(memory.clone(), &session))?,
            _ => {
                let make = |worker| PagedNodes::new(dataset.zones.clone(), worker, spec.step as u32);
                job.by_executor(&session.pager, load, &make, &mut on_done)?
            }
        };
        let (wall_s, cpu_s) = (began.elapsed().as_secs_f64(), process::cpu_seconds() - cpu);
        let mut row = row(&traced, &before, &session.pager.counters());
        if matches!(arm.arm, Arm::FlatTurns | Arm::Paged) {
            row["active"] = load.active.into();
        }
        row["wall_s"] = wall_s.into();
        row["cpu_s"] = cpu_s.into();
        if arm.touched {
            row["touched"] = watcher.report();
        }
        rows.push(row);
    }
    Ok(json!({
        "opened": opened, "runs": rows, "base_bytes": session.base_bytes, "peak_bytes": session.pager.counters().peak_bytes,
        "resident_peak_bytes": process::peak_resident_bytes(), "transport": session.pager.reader_name(), "threads": threads,
        "device_latency_s": device.as_ref().map(Device::latency_s),
    }))
}

/// Figures of a run.
pub(super) fn row(traced: &Traced, before: &Counters, after: &Counters) -> Value {
    let mut reasons = serde_json::Map::new();
    for l in &traced.lines {
        let name = l.reason.map_or("left", kernels::line::Reason::name);
        let sum = reasons.get(name).and_then(Value::as_u64).unwrap_or(0) + 1;
        reasons.insert(name.to_owned(), sum.into());
    }
    json!({
        "lines": traced.lines.len(), "points": traced.points(), "steps": traced.run.steps, "reasons": reasons,
        "digest": traced.digest(), "restarts": traced.run.restarts, "rounds_most": traced.rounds_most,
        "wait_s": traced.run.wait_s, "faults": after.faults - before.faults, "evictions": after.evictions - before.evictions,
        "bytes_read": after.bytes_read - before.bytes_read, "reads": after.reads - before.reads,
        "index_faults": after.index_faults - before.index_faults,
    })
}

/// The whole arrays of a trace in memory, and the fields with their ids there.
fn flat_nodes(dataset: &Dataset, spec: &TraceSpec) -> Result<(FlatNodes, Arc<[ZoneFields]>), FieldError> {
    let fields = dataset.fields(Some(&spec.field), &spec.scalars, spec.step)?;
    let rows = dataset.rows()?;
    let mut zones = Vec::with_capacity(rows.len());
    for ((zone, rows), f) in dataset.zones.iter().zip(&rows).zip(fields.iter()) {
        let mut used = vec![zone.xyz];
        used.extend(zone.iblank);
        used.extend(f.arrays());
        used.sort_unstable();
        used.dedup();
        let dims = zone.dims().map(|n| n as usize);
        let mut arrays = Vec::with_capacity(used.len());
        for a in used {
            let slot = &zone.arrays[a];
            let step = if slot.steady { 0 } else { spec.step };
            arrays.push((
                slot.name.clone(),
                slot.components,
                whole(&*rows[a], step, slot.components, dims, slot.dtype)?,
            ));
        }
        zones.push((zone.name.clone(), dims, arrays));
    }
    let nodes = FlatNodes::from_arrays(zones);
    let again = nodes
        .zones()
        .iter()
        .zip(fields.iter())
        .map(|(z, f)| ZoneFields::named(z, Some(&spec.field), &spec.scalars, f.gamma, f.free));
    let again: Vec<ZoneFields> = again.collect::<Result<_, _>>()?;
    Ok((nodes, again.into()))
}

/// Values in native order, four or eight bytes each, read row by row.
pub(super) fn whole(
    rows: &dyn RowReader,
    step: usize,
    components: usize,
    dims: [usize; 3],
    dtype: DType,
) -> Result<FlatArray, FieldError> {
    let plane = dims[0] * dims[1];
    let count = components * plane * dims[2];
    let size = dtype.size();
    let mut bytes = vec![0u8; plane * size];
    let (mut f32s, mut f64s, mut i32s) = (Vec::new(), Vec::new(), Vec::new());
    match dtype {
        DType::Float32 => f32s.reserve_exact(count),
        DType::Float64 => f64s.reserve_exact(count),
        DType::Int32 => i32s.reserve_exact(count),
        DType::Uint8 => return Err(FieldError::Usage("flat arrays of bytes are not read".into())),
    }
    for c in 0..components {
        for k in 0..dims[2] {
            rows.read_rows(step, c, k, 0..dims[1], &mut bytes)?;
            // Chunks of four and eight bytes, so the conversions cannot fail.
            let four = bytes.chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]);
            match dtype {
                DType::Float32 => f32s.extend(four.map(f32::from_ne_bytes)),
                DType::Int32 => i32s.extend(four.map(i32::from_ne_bytes)),
                _ => f64s.extend(
                    bytes.chunks_exact(8).map(|b| f64::from_ne_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])),
                ),
            }
        }
    }
    Ok(match dtype {
        DType::Float32 => FlatArray::F32(f32s),
        DType::Int32 => FlatArray::I32(i32s),
        _ => FlatArray::F64(f64s),
    })
}
