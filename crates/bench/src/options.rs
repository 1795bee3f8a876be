//! Arms by their options in JSON.

use crate::counters::counters;
use crate::crossings::crossings;
use crate::extents::{recorded, replayed};
use crate::mmap::Whole;
use crate::overlap::{overlap, overlap_disk, Overlap, OverlapDisk};
use crate::pages::{page_reads, PageReads};
use crate::plain::{pathlines, plain, PathlinesArm};
use crate::remote_reads::{remote_reads, RemoteReads};
use crate::trace::{trace as traced, Arm, TraceArm};
use crate::turns::turns;
use crate::volume::VolumeArm;
use crate::volume_contour::{volume_contour, VolumeSurface};
use crate::volume_mapped::{volume_mapped, VolumeMapped};
use crate::volume_rays::{volume_rays, VolumeRays};
use crate::ways::whole_pathlines;
use crate::windows::{windows, Way, Windows};
use field::error::FieldError;
use field::options::Object;
use field::volume::VoxelType;
use kernels::rays::{full_range, ColourOpacity, Manner, TransferError, TransferFunction, VoxelPaint};
use runtime::events::Events;
use runtime::options as run_options;
use runtime::session::{ProgressWatch, Resources, SourceSpec};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use trace::options::{trace_object, Ground};
use trace::TraceSpec;

fn needs(what: &str) -> FieldError {
    FieldError::Usage(format!("bench options: '{what}' is missing"))
}

fn path(o: &mut Object, key: &str) -> Result<PathBuf, FieldError> {
    o.text(key)?.map(PathBuf::from).ok_or_else(|| needs(key))
}

fn source(o: &mut Object) -> Result<SourceSpec, FieldError> {
    let path = o.text("source")?.ok_or_else(|| needs("source"))?;
    let q = o.texts("q")?;
    run_options::source(&path, Some(q), None, o)
}

/// Latency of each read on a simulated device.
fn latency(o: &mut Object) -> Result<Option<Duration>, FieldError> {
    Ok(o.positive("latency_s")?.map(Duration::from_secs_f64))
}

fn traces(o: &mut Object, watch: &mut ProgressWatch<'_>) -> Result<Vec<TraceSpec>, FieldError> {
    let list = match o.take("traces") {
        Some(Value::Array(list)) => list,
        _ => return Err(needs("traces")),
    };
    let each = |v| {
        let mut t = Object::of(v, "trace options")?;
        let spec = trace_object(&mut t, None, &Ground::bare(), watch)?;
        t.done()?;
        Ok(spec)
    };
    list.into_iter().map(each).collect()
}

/// Takes a key of a serde type.
fn typed<T: serde::de::DeserializeOwned>(o: &mut Object, key: &str) -> Result<Option<T>, FieldError> {
    let wrong = |e| FieldError::Usage(format!("bench options: '{key}': {e}"));
    o.take(key).map(|v| serde_json::from_value(v).map_err(wrong)).transpose()
}

fn volume(o: &mut Object) -> Result<VolumeArm, FieldError> {
    let spec = typed(o, "spec")?.ok_or_else(|| needs("spec"))?;
    let link_bytes_per_s = o.positive("link_bytes_per_s")?;
    Ok(VolumeArm { spec, resources: run_options::resources(o)?, link_bytes_per_s })
}

fn transfer(o: &mut Object) -> Result<TransferFunction, FieldError> {
    let colours = typed(o, "colours")?.ok_or_else(|| needs("colours"))?;
    let opacities = typed(o, "opacities")?.ok_or_else(|| needs("opacities"))?;
    let wrong = |e: TransferError| FieldError::Usage(format!("bench options: {e}"));
    TransferFunction::new(colours, opacities).map_err(wrong)
}

fn mapped_volume(o: &mut Object, how: Whole) -> Result<VolumeMapped, FieldError> {
    let (file, spacing) = (path(o, "file")?, typed(o, "spacing")?.unwrap_or([1.0; 3]));
    Ok(VolumeMapped {
        file,
        how,
        dims: typed(o, "dims")?.ok_or_else(|| needs("dims"))?,
        components: o.whole("components")?.unwrap_or(1) as usize,
        spacing,
        transfer: transfer(o)?,
        cameras: typed(o, "cameras")?.ok_or_else(|| needs("cameras"))?,
        size: typed(o, "size")?.ok_or_else(|| needs("size"))?,
        lengths: typed(o, "lengths")?.unwrap_or([1.0; 2]),
        rounds: o.whole("rounds")?.unwrap_or(1) as usize,
        workers: o.whole("workers")?.unwrap_or(0) as usize,
        pictures: o.text("pictures")?.map(PathBuf::from),
    })
}

fn rays_of(o: &mut Object) -> Result<VolumeRays, FieldError> {
    // Stored colours, opaque by their distance from a background; or one channel.
    let paint = match typed(o, "background")? {
        Some(from) => VoxelPaint::Colour {
            channels: [0, 1, 2],
            limits: [full_range(VoxelType::Uint8); 3],
            opacity: ColourOpacity::Distance { from, nodes: typed(o, "opacities")?.ok_or_else(|| needs("opacities"))? },
        },
        None => VoxelPaint::Scalar { channel: 0, transfer: transfer(o)? },
    };
    Ok(VolumeRays {
        of: volume(o)?,
        paint,
        manner: Manner::default(),
        cameras: typed(o, "cameras")?.ok_or_else(|| needs("cameras"))?,
        size: typed(o, "size")?.ok_or_else(|| needs("size"))?,
        lengths: typed(o, "lengths")?.unwrap_or([1.0; 2]),
        level: o.whole("level")?.unwrap_or(0) as usize,
        steps: typed(o, "steps")?.unwrap_or_else(|| vec![0]),
        ahead: o.truth("ahead")?,
        rounds: o.whole("rounds")?.unwrap_or(1) as usize,
        pictures: o.text("pictures")?.map(PathBuf::from),
        touched: o.truth("touched")?,
        everything: o.truth("everything")?,
        alone: o.truth("alone")?,
        first: o.truth("first")?,
    })
}

fn volume_surface(o: &mut Object) -> Result<VolumeSurface, FieldError> {
    Ok(VolumeSurface {
        of: volume(o)?,
        value: o.number("value")?.ok_or_else(|| needs("value"))?,
        normals: o.truth("normals")?,
        level: o.whole("level")?.unwrap_or(0) as usize,
        rounds: o.whole("rounds")?.unwrap_or(1) as usize,
        area: o.truth("area")?,
        touched: o.truth("touched")?,
    })
}

/// Runs of traces in a flow.
struct FlowTraces {
    source: SourceSpec,
    resources: Resources,
    traces: Vec<TraceSpec>,
}

impl FlowTraces {
    fn of(o: &mut Object, watch: &mut ProgressWatch<'_>) -> Result<Self, FieldError> {
        let (resources, traces) = (run_options::resources(o)?, traces(o, watch)?);
        Ok(Self { source: source(o)?, resources, traces })
    }

    /// The parts of an arm that runs one trace, the first.
    fn into_first(self) -> Result<(SourceSpec, Resources, TraceSpec), FieldError> {
        let first = self.traces.into_iter().next().ok_or_else(|| needs("traces"))?;
        Ok((self.source, self.resources, first))
    }
}

fn first_trace(o: &mut Object, watch: &mut ProgressWatch<'_>) -> Result<TraceSpec, FieldError> {
    traces(o, watch)?.into_iter().next().ok_or_else(|| needs("traces"))
}

/// The arm of streamlines with this name.
fn arm_of_streamlines(kind: &str) -> Option<Arm> {
    match kind {
        "flat" => Some(Arm::Flat),
        "flat_turns" => Some(Arm::FlatTurns),
        "mmap" => Some(Arm::Whole(Whole::Mapped)),
        "mmap_random" => Some(Arm::Whole(Whole::MappedRandom)),
        "read" => Some(Arm::Whole(Whole::Read)),
        "paged" => Some(Arm::Paged),
        _ => None,
    }
}

fn streamlines(o: &mut Object, arm: Arm, watch: &mut ProgressWatch<'_>) -> Result<TraceArm, FieldError> {
    let (touched, latency) = (o.truth("touched")?, latency(o)?);
    let active = o.whole("active")?.unwrap_or(0) as usize;
    let FlowTraces { source, resources, traces } = FlowTraces::of(o, watch)?;
    Ok(TraceArm { resources, traces, source, arm, touched, latency, active })
}

fn paged_pathlines(o: &mut Object, watch: &mut ProgressWatch<'_>) -> Result<PathlinesArm, FieldError> {
    Ok(PathlinesArm {
        resources: run_options::resources(o)?,
        trace: first_trace(o, watch)?,
        source: source(o)?,
        rounds: o.whole("rounds")?.unwrap_or(1) as usize,
        output: o.text("output")?.map(PathBuf::from),
        touched: o.truth("touched")?,
        latency: latency(o)?,
    })
}

/// The arm of windows, and the events that it records.
fn recorded_windows(o: &mut Object, watch: &mut ProgressWatch<'_>) -> Result<(Windows, Events), FieldError> {
    let way = match o.text("way")?.as_deref() {
        Some("listed") => Way::Listed,
        Some("units") => Way::Units,
        Some("ours") => Way::Ours,
        _ => return Err(FieldError::Usage("bench options: 'way' is listed, units or ours".into())),
    };
    let mut resources = run_options::resources(o)?;
    let events = Events::begin(o.text("events")?.as_deref(), &mut resources)?;
    let spec = Windows {
        store: path(o, "source")?,
        trace: first_trace(o, watch)?,
        resources,
        way,
        list: path(o, "list")?,
        output: path(o, "output")?,
        latency: latency(o)?,
    };
    Ok((spec, events))
}

fn overlap_of(o: &mut Object, watch: &mut ProgressWatch<'_>) -> Result<Overlap, FieldError> {
    Ok(Overlap {
        store: path(o, "source")?,
        trace: first_trace(o, watch)?,
        resources: run_options::resources(o)?,
        latency: latency(o)?.ok_or_else(|| needs("latency_s"))?,
        active: o.whole("active")?.unwrap_or(0) as usize,
    })
}

fn overlap_of_disk(o: &mut Object, watch: &mut ProgressWatch<'_>) -> Result<OverlapDisk, FieldError> {
    Ok(OverlapDisk {
        store: path(o, "source")?,
        trace: first_trace(o, watch)?,
        resources: run_options::resources(o)?,
        waiting: o.truth("waiting")?,
    })
}

fn reads_of_pages(o: &mut Object) -> Result<PageReads, FieldError> {
    Ok(PageReads {
        store: path(o, "source")?,
        zone: o.whole("zone")?.unwrap_or(0) as usize,
        array: o.text("array")?.ok_or_else(|| needs("array"))?,
        batch: o.whole("batch")?.unwrap_or(64) as usize,
        count: o.whole("count")?.ok_or_else(|| needs("count"))? as usize,
        seed: o.whole("seed")?.unwrap_or(1),
        rounds: o.whole("rounds")?.unwrap_or(1) as usize,
        pread_buffers: o.whole("pread_buffers")?.unwrap_or(0) as usize,
        direct: o.truth("direct")?,
    })
}

fn reads_of_remote_file(o: &mut Object) -> Result<RemoteReads, FieldError> {
    let seconds = |value: Option<f64>, or: f64| Duration::from_secs_f64(value.unwrap_or(or));
    Ok(RemoteReads {
        file: path(o, "source")?,
        bytes: o.whole("bytes")?.unwrap_or(32 << 10).max(1) as usize,
        depth: o.whole("depth")?.unwrap_or(64) as usize,
        ahead: o.whole("ahead")?.unwrap_or(0) as usize,
        most: seconds(o.positive("seconds")?, 2.0),
        warm_up: seconds(o.positive("warm_up_s")?, 0.25),
    })
}

/// Runs one arm. `farfield_bench/arms.py` describes the options and results of each.
///
/// # Errors
/// [`FieldError::Usage`] for options without sense; the errors of the arm.
pub fn run(options: &str, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    let mut o = Object::parse(options, "bench options")?;
    let kind = o.text("arm")?.ok_or_else(|| needs("arm"))?;
    if let Some(arm) = arm_of_streamlines(&kind) {
        let spec = streamlines(&mut o, arm, watch)?;
        o.done()?;
        return traced(&spec, watch);
    }
    match kind.as_str() {
        "counters" => {
            o.done()?;
            counters()
        }
        "page_reads" => {
            let (spec, resources) = (reads_of_pages(&mut o)?, run_options::resources(&mut o)?);
            o.done()?;
            page_reads(&spec, &resources)
        }
        "remote_reads" => {
            let spec = reads_of_remote_file(&mut o)?;
            o.done()?;
            remote_reads(&spec, watch)
        }
        "volume_rays" => {
            let spec = rays_of(&mut o)?;
            o.done()?;
            volume_rays(&spec, watch)
        }
        "volume_mapped" | "volume_read" => {
            let spec = mapped_volume(&mut o, if kind == "volume_read" { Whole::Read } else { Whole::Mapped })?;
            o.done()?;
            volume_mapped(&spec, watch)
        }
        "volume_contour" => {
            let spec = volume_surface(&mut o)?;
            o.done()?;
            volume_contour(&spec, watch)
        }
        kind => run_traces(kind, o, watch),
    }
}

/// Runs one arm of traces in a flow, except streamlines.
fn run_traces(kind: &str, mut o: Object, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    match kind {
        "crossings" => {
            let flow = FlowTraces::of(&mut o, watch)?;
            o.done()?;
            let (source, resources, first) = flow.into_first()?;
            crossings(source, resources, &first, watch)
        }
        "plain" => {
            let flow = FlowTraces::of(&mut o, watch)?;
            let rounds = o.whole("rounds")?.unwrap_or(1) as usize;
            o.done()?;
            let (source, resources, first) = flow.into_first()?;
            plain(source, resources, &first, rounds, watch)
        }
        "mmap_pathlines" | "read_pathlines" => {
            let flow = FlowTraces::of(&mut o, watch)?;
            o.done()?;
            let how = if kind == "mmap_pathlines" { Whole::Mapped } else { Whole::Read };
            let (source, resources, first) = flow.into_first()?;
            whole_pathlines(source, resources, &first, how, watch)
        }
        "pathlines" => {
            let spec = paged_pathlines(&mut o, watch)?;
            o.done()?;
            pathlines(&spec, watch)
        }
        "recorded" => {
            let flow = FlowTraces::of(&mut o, watch)?;
            let list = path(&mut o, "list")?;
            o.done()?;
            let (source, resources, first) = flow.into_first()?;
            recorded(source, resources, &first, &list, watch)
        }
        "replayed" => {
            let (resources, list) = (run_options::resources(&mut o)?, path(&mut o, "list")?);
            o.done()?;
            replayed(&list, &resources, watch)
        }
        "turns" => {
            let flow = FlowTraces::of(&mut o, watch)?;
            let rounds = o.whole("rounds")?.unwrap_or(1) as usize;
            let cold: Vec<PathBuf> = o.texts("cold")?.into_iter().map(PathBuf::from).collect();
            o.done()?;
            turns(&flow.source, &flow.resources, &flow.traces, rounds, &cold, watch)
        }
        "windows" => {
            let (spec, events) = recorded_windows(&mut o, watch)?;
            o.done()?;
            let done = windows(&spec, watch)?;
            events.finish(&done["stats"], watch)?;
            Ok(done)
        }
        "overlap" => {
            let spec = overlap_of(&mut o, watch)?;
            o.done()?;
            overlap(&spec, watch)
        }
        "overlap_disk" => {
            let spec = overlap_of_disk(&mut o, watch)?;
            o.done()?;
            overlap_disk(&spec, watch)
        }
        other => Err(FieldError::Usage(format!("no arm '{other}'"))),
    }
}
