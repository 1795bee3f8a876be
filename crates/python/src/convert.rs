//! Conversion and validation.

use ::convert::{self as converter, ConvertOptions, ConvertRequest, Spans};
use ::runtime::events::Events;
use ::runtime::options as run_options;
use ::runtime::selected_fields::{charge_for_made, chosen_input};
use ::runtime::session::{Session, SourceSpec};
use ::runtime::whole_dataset::convert_input;
use field::catalog::{Catalog, Role};
use field::error::FieldError;
use field::options::Object;
use field::paging::Layout;
use field::store::Problem;
use pager::Event;
use pyo3::prelude::*;
use python_calls::watched;
use serde_json::{json, Value};
use std::path::Path;
use std::sync::Arc;

/// Definitions mean something where fields are named; here nobody would see what became of them.
fn no_definitions(spec: &SourceSpec, what: &str) -> Result<(), FieldError> {
    match spec.define.first() {
        None => Ok(()),
        Some(text) => Err(FieldError::Usage(format!("'{text}': {what}"))),
    }
}

#[pyfunction]
#[pyo3(signature = (source, destination, *, q=None, function=None, options="{}", memory_limit, workers=0, readers=0, events=None, progress=None))]
#[allow(clippy::too_many_arguments)] // keywords of one call
pub fn convert(
    py: Python<'_>,
    source: &str,
    destination: &str,
    q: Option<Vec<String>>,
    function: Option<Vec<String>>,
    options: &str,
    memory_limit: u64,
    workers: usize,
    readers: usize,
    events: Option<&str>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    watched(py, progress, |watch| {
        let mut o = Object::parse(options, "convert options")?;
        let spec = run_options::source(source, q, function, &mut o)?;
        let asked = ConvertRequest::take(o)?;
        if asked.fields.is_empty() {
            no_definitions(
                &spec,
                "a store holds the arrays of its source; to keep what is defined, too, name all fields that it is to hold in --fields",
            )?;
        }
        let mut resources = run_options::resources(memory_limit, workers, readers, "clock")?;
        let events = Events::begin(events, &mut resources)?;
        let session = Arc::new(Session::open(spec, resources, watch)?);
        let spans = if session.pager.observed() {
            let pager = session.pager.clone();
            Spans::new(move |name, took| {
                let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                pager.record(|| Event::Span { took_us, name: name.into() });
            })
        } else {
            Spans::default()
        };
        let workers = session.resources.threads();
        let how = ConvertOptions { memory_limit, workers, spans, ..asked.options };
        let dry = asked.dry_run;
        let input = match &asked.fields[..] {
            [] => convert_input(&session.dataset())?,
            fields => chosen_input(&session, fields)?,
        };
        let dst = Path::new(destination);
        let charge = charge_for_made(&session, &input);
        let zone =
            |z: &field::catalog::ZoneInfo, page: [usize; 3]| json!({"name": z.name, "dims": z.dims, "page": page});
        let mut result = json!({
            "destination": destination, "dry_run": dry, "resumed": false, "page": how.page, "layout": how.layout.name(),
            "codec": asked.codec_name, "guessed": input.catalog.guessed, "appended": Value::Null,
            "fields": stored_fields(&input.catalog),
            "order_assumed": input.catalog.order_assumed,
        });
        if dry {
            let d = converter::dry_run(&input, dst, &how, &charge)?;
            result["bytes_in"] = d.source_bytes.into();
            result["bytes_out"] = d.store_bytes.into();
            result["pages_written"] = d.pages.into();
            result["shards"] = d.shards.into();
            result["padding_disk"] = d.padding_disk.into();
            result["padding_memory"] = d.padding_memory.into();
            result["seconds_estimated"] = d.seconds.into();
            result["memory_bytes"] = d.memory.into();
            result["zones"] = input.catalog.zones.iter().zip(&d.page_boxes).map(|(z, p)| zone(z, *p)).collect();
        } else {
            let mut told = |p: converter::PieceProgress| watch("converting", p.done as f64, p.total as f64);
            // Of an append, what it adds: the steps that were there are none of what is converted.
            let before = if how.append { runtime::process::folder_bytes(dst).unwrap_or(0) } else { 0 };
            let report = if how.append {
                let done = converter::append(&input, dst, &how, asked.asked_pages(), &charge, &mut told)?;
                let names = [done.layout.map(Layout::name), done.codec.map(|c| c.name())];
                result["page"] = done.page.into();
                [result["layout"], result["codec"]] = names.map(|name| json!(name));
                result["appended"] = json!({
                    "first": done.steps.start, "steps": done.steps.len(), "steps_in_all": done.times.len().max(1),
                    "times": done.times.get(done.steps.clone()), "times_gaps": runtime::info::gaps(&done.times),
                    "time_units": input.catalog.time_units, "times_counted": input.catalog.times_counted,
                });
                done.converted.unwrap_or_default()
            } else {
                converter::convert(&input, dst, &how, &charge, &mut told)?
            };
            let values: u64 = report.source_bytes.max(1);
            result["resumed"] = (report.resumed_units > 0).into();
            result["bytes_in"] = report.source_bytes.into();
            result["bytes_out"] = runtime::process::folder_bytes(dst)?.saturating_sub(before).into();
            result["pages_written"] = report.pages.into();
            result["shards"] = report.units.into();
            result["padding_disk"] = (report.padded_bytes as f64 / values as f64).into();
            result["padding_memory"] = (report.resident_bytes as f64 / values as f64).into();
            result["seconds_estimated"] = serde_json::Value::Null;
            result["zones"] = input.catalog.zones.iter().zip(&report.page_boxes).map(|(z, p)| zone(z, *p)).collect();
        }
        session.add_read(input.read());
        result["stats"] = json!(session.stats());
        events.finish(&result["stats"], watch)?;
        Ok(result.to_string())
    })
}

#[pyfunction]
#[pyo3(signature = (source, *, q=None, function=None, options="{}", memory_limit, workers=0, readers=0, events=None, progress=None))]
#[allow(clippy::too_many_arguments)] // keywords of one call
pub fn validate(
    py: Python<'_>,
    source: &str,
    q: Option<Vec<String>>,
    function: Option<Vec<String>>,
    options: &str,
    memory_limit: u64,
    workers: usize,
    readers: usize,
    events: Option<&str>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    watched(py, progress, |watch| {
        let mut o = Object::parse(options, "validate options")?;
        let spec = run_options::source(source, q, function, &mut o)?;
        no_definitions(&spec, "validating reads what is stored and names no fields; leave it out")?;
        o.done()?;
        let mut resources = run_options::resources(memory_limit, workers, readers, "clock")?;
        let events = Events::begin(events, &mut resources)?;
        if spec.is_store()? {
            let (v, stats) = runtime::validate::run(&spec.path, &resources, watch)?;
            let stats = json!(stats);
            events.finish(&stats, watch)?;
            return Ok(json!({
                "ok": v.is_ok(), "pages_checked": v.pages, "pages_unchecked": 0, "failures": failures(&v.problems),
                "failed": v.problem_count, "stats": stats,
            })
            .to_string());
        }
        let session = Session::open(spec, resources, watch)?;
        let v = runtime::validate::read_all(&session, watch)?;
        let stats = json!(session.stats());
        events.finish(&stats, watch)?;
        Ok(json!({
            "ok": v.problem_count == 0, "pages_checked": 0, "pages_unchecked": v.pages, "failures": failures(&v.problems),
            "failed": v.problem_count, "stats": stats,
        })
        .to_string())
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
