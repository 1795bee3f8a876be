//! Conversion and validation.

use ::convert::volume::{self as volume_converter, VolumeReport};
use ::convert::{
    self as converter, AppendReport, ConvertOptions, ConvertReport, ConvertRequest, DryRun, PieceProgress, Spans,
    VolumeRequest,
};
use ::runtime::events::Events;
use ::runtime::options as run_options;
use ::runtime::selected_fields::{charge_for_made, chosen_input};
use ::runtime::session::{ProgressWatch, Session, Source};
use ::runtime::whole_dataset::convert_input;
use field::catalog::{Catalog, Role, ZoneInfo};
use field::error::FieldError;
use field::options::Object;
use field::paging::Layout;
use field::store::Problem;
use field::volume::store::Downsample;
use pager::Event;
use pyo3::prelude::*;
use python_calls::watched;
use serde_json::{json, Value};
use std::path::Path;
use std::sync::Arc;

/// Refuses definitions without a list of fields, since they would have no effect.
fn no_definitions(source: &Source, what: &str) -> Result<(), FieldError> {
    match source {
        Source::Flow(spec) if !spec.define.is_empty() => {
            Err(FieldError::Usage(format!("'{}': {what}", spec.define[0])))
        }
        _ => Ok(()),
    }
}

/// Input and output of a conversion.
struct Conversion<'a> {
    source: Source,
    destination: &'a str,
    resources: &'a str,
    options: &'a str,
}

#[pyfunction]
#[pyo3(signature = (source, destination, resources, *, tables=Vec::new(), options="{}", progress=None))]
pub fn convert(
    py: Python<'_>,
    source: &str,
    destination: &str,
    resources: &str,
    tables: Vec<Vec<u8>>,
    options: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    watched(py, progress, |watch| {
        let source = run_options::dataset_source(source, tables)?;
        let conversion = Conversion { source, destination, resources, options };
        match conversion.source {
            Source::Flow(_) => convert_flow(conversion, watch),
            _ => convert_volume(conversion, watch),
        }
    })
}

/// Spans of work as events of a session's log.
fn spans(session: &Session) -> Spans {
    if !session.pager.observed() {
        return Spans::default();
    }
    let pager = session.pager.clone();
    Spans::new(move |name, took| {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        pager.record(|| Event::Span { took_us, name: name.into() });
    })
}

fn convert_flow(conversion: Conversion<'_>, watch: &mut ProgressWatch<'_>) -> Result<String, FieldError> {
    let Conversion { source, destination, resources, options } = conversion;
    let request = ConvertRequest::take(Object::parse(options, "convert options")?)?;
    if request.fields.is_empty() {
        no_definitions(
            &source,
            "a store holds the arrays of its source; to keep what is defined, too, name all fields that it is to hold in --fields",
        )?;
    }
    let (resources, events) = Events::with_resources(resources)?;
    let session = Arc::new(Session::open(source, resources, watch)?);
    let (memory_limit, workers) = (session.resources.memory_limit, session.threads());
    let how = ConvertOptions { memory_limit, workers, spans: spans(&session), ..request.options.clone() };
    let input = match &request.fields[..] {
        [] => convert_input(&session.dataset())?,
        fields => chosen_input(&session, fields)?,
    };
    let dst = Path::new(destination);
    let charge = charge_for_made(&session, &input);
    let mut result = json!({
        "destination": destination, "dry_run": request.dry_run, "resumed": false, "page": how.page,
        "layout": how.layout.name(), "codec": request.codec_name, "guessed": input.catalog.guessed,
        "appended": Value::Null, "fields": stored_fields(&input.catalog), "order_assumed": input.catalog.order_assumed,
    });
    let figures = if request.dry_run {
        estimate(converter::dry_run(&input, dst, &how, &charge)?, &input.catalog)
    } else {
        let mut told = |p: PieceProgress| watch("converting", p.done as f64, p.total as f64);
        // With `append`, the bytes of existing steps do not count.
        let before = if how.append { runtime::process::folder_bytes(dst).unwrap_or(0) } else { 0 };
        let report = if how.append {
            let done = converter::append(&input, dst, &how, request.asked_pages(), &charge, &mut told)?;
            extend(&mut result, appended(&done, &input.catalog));
            done.converted.unwrap_or_default()
        } else {
            converter::convert(&input, dst, &how, &charge, &mut told)?
        };
        made(&report, runtime::process::folder_bytes(dst)?.saturating_sub(before), &input.catalog)
    };
    extend(&mut result, figures);
    session.add_read(input.read());
    result["stats"] = json!(session.stats());
    events.finish(&result["stats"], watch)?;
    Ok(result.to_string())
}

/// Adds the keys of one object to another.
fn extend(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}

fn zones(catalog: &Catalog, pages: &[[usize; 3]]) -> Vec<Value> {
    let zone = |(z, page): (&ZoneInfo, &[usize; 3])| json!({"name": z.name, "dims": z.dims, "page": page});
    catalog.zones.iter().zip(pages).map(zone).collect()
}

/// Figures of a dry run.
fn estimate(d: DryRun, catalog: &Catalog) -> Value {
    json!({
        "bytes_in": d.source_bytes, "bytes_out": d.store_bytes, "pages_written": d.pages, "shards": d.shards,
        "padding_disk": d.padding_disk, "padding_memory": d.padding_memory, "seconds_estimated": d.seconds,
        "memory_bytes": d.memory, "zones": zones(catalog, &d.page_boxes),
    })
}

/// Figures of a conversion.
fn made(report: &ConvertReport, bytes_out: u64, catalog: &Catalog) -> Value {
    let values = report.source_bytes.max(1) as f64;
    json!({
        "resumed": report.resumed_units > 0, "bytes_in": report.source_bytes, "bytes_out": bytes_out,
        "pages_written": report.pages, "shards": report.units, "padding_disk": report.padded_bytes as f64 / values,
        "padding_memory": report.resident_bytes as f64 / values, "seconds_estimated": Value::Null,
        "zones": zones(catalog, &report.page_boxes),
    })
}

/// Properties of the store and the steps that it gained.
fn appended(done: &AppendReport, catalog: &Catalog) -> Value {
    json!({
        "page": done.page, "layout": done.layout.map(Layout::name), "codec": done.codec.map(|c| c.name()),
        "appended": {
            "first": done.steps.start, "steps": done.steps.len(), "steps_in_all": done.times.len().max(1),
            "times": done.times.get(done.steps.clone()), "times_gaps": runtime::info::gaps(&done.times),
            "time_units": catalog.time_units, "times_counted": catalog.times_counted,
        },
    })
}

fn convert_volume(conversion: Conversion<'_>, watch: &mut ProgressWatch<'_>) -> Result<String, FieldError> {
    let Conversion { source, destination, resources, options } = conversion;
    let VolumeRequest { options: mut how, codec_name, dry_run } = VolumeRequest::parse(options)?;
    let (resources, events) = Events::with_resources(resources)?;
    let session = Arc::new(Session::open(source, resources, watch)?);
    session.check_limit()?;
    (how.memory_limit, how.workers, how.spans) = (session.resources.memory_limit, session.threads(), spans(&session));
    let input = runtime::volume::paged_input(&session)?;
    let charge = runtime::volume::charge_beside_pages(&session)?;
    let dst = Path::new(destination);
    let downsample = how.downsample.unwrap_or(Downsample::of(input.spec.kind));
    let report = if dry_run {
        volume_converter::dry_run(&input, dst, &how, &charge)?
    } else {
        let mut told = |p: PieceProgress| watch("converting", p.done as f64, p.total as f64);
        volume_converter::convert(&input, dst, &how, &charge, &mut told)?
    };
    let bytes_out = if dry_run { report.store_bytes } else { runtime::process::folder_bytes(dst)? };
    let mut result = volume_figures(&report, bytes_out);
    extend(
        &mut result,
        json!({
            "destination": destination, "dry_run": dry_run, "what": "volume", "page": how.page, "layout": how.layout.name(),
            "codec": codec_name, "downsample": downsample.name(), "downsample_asked": how.downsample.is_some(),
            "dtype": input.voxel.name(), "kind": input.spec.kind, "steps": input.spec.times.len().max(1),
            "channels": input.spec.channels.iter().map(|c| &c.name).collect::<Vec<_>>(), "guessed": input.spec.guessed,
            "stats": session.stats(),
        }),
    );
    events.finish(&result["stats"], watch)?;
    Ok(result.to_string())
}

/// Figures of a conversion of a volume, or of a dry run.
fn volume_figures(report: &VolumeReport, bytes_out: u64) -> Value {
    let pages: u64 = report.levels.iter().map(|l| l.pages).sum();
    let shards: u64 = report.levels.iter().map(|l| l.shards).sum();
    let levels = report.levels.iter().map(|l| json!({"dims": l.dims, "page": l.page, "pages": l.pages}));
    json!({
        "resumed": report.resumed_units > 0, "bytes_in": report.source_bytes, "bytes_out": bytes_out,
        "pages_written": pages, "shards": shards, "levels": levels.collect::<Vec<_>>(),
        "padding_disk": report.padded_bytes as f64 / report.value_bytes.max(1) as f64,
        "scratch_bytes": report.spool_bytes, "seconds_estimated": report.seconds, "memory_bytes": report.memory,
    })
}

#[pyfunction]
#[pyo3(signature = (source, resources, *, progress=None))]
pub fn validate(
    py: Python<'_>,
    source: &str,
    resources: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    watched(py, progress, |watch| {
        let source = run_options::dataset_source(source, Vec::new())?;
        no_definitions(&source, "validating reads what is stored and names no fields; leave it out")?;
        let (resources, events) = Events::with_resources(resources)?;
        let found = match &source {
            Source::Flow(spec) if spec.is_store()? => {
                let (v, stats) = runtime::validate::run(&spec.path, &resources, watch)?;
                json!({
                    "ok": v.is_ok(), "pages_checked": v.pages, "pages_unchecked": 0, "failures": failures(&v.problems),
                    "failed": v.problem_count, "not_listed": v.not_listed, "stats": stats,
                })
            }
            _ => {
                let session = Session::open(source, resources, watch)?;
                // The pages of a volume have `Dataset.check_pages`.
                session.check_flow()?;
                let v = runtime::validate::read_all(&session, watch)?;
                json!({
                    "ok": v.problem_count == 0, "pages_checked": 0, "pages_unchecked": v.pages,
                    "failures": failures(&v.problems), "failed": v.problem_count, "stats": session.stats(),
                })
            }
        };
        events.finish(&found["stats"], watch)?;
        Ok(found.to_string())
    })
}

/// Names of the fields that a store holds.
fn stored_fields(catalog: &Catalog) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for a in catalog.zones.iter().flat_map(|z| &z.arrays).filter(|a| a.role == Role::Field) {
        if !names.contains(&a.name.as_str()) {
            names.push(&a.name);
        }
    }
    names
}

pub(crate) fn failures(problems: &[Problem]) -> Vec<Value> {
    problems.iter().map(|p| json!({"what": p.what, "error": p.error})).collect()
}
