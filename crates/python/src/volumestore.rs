//! Volumes and Farfield's own store of them: conversion, what a store says, ranges of data that are paged in place.

use crate::volume::spec;
use ::convert::volume::{self as converter, VolumeReport};
use ::convert::{PieceProgress, Spans, VolumeRequest};
use ::runtime::events::Events;
use ::runtime::options as run_options;
use ::runtime::session::{Session, Source};
use field::error::FieldError;
use field::volume::store::{Downsample, RangeDocument, VolumeStore};
use field::volume::VolumeFiles;
use pager::Event;
use pyo3::prelude::*;
use python_calls::watched;
use serde_json::{json, Value};
use std::path::Path;
use std::sync::Arc;

#[pyfunction]
#[pyo3(signature = (path))]
pub fn stored_volume(py: Python<'_>, path: &str) -> PyResult<String> {
    watched(py, None, |_watch| {
        let store = VolumeStore::open(Path::new(path))?;
        Ok(json!({"spec": store.spec(), "described": store.described()}).to_string())
    })
}

#[pyfunction]
#[pyo3(signature = (spec_json, tables, folder, *, progress=None))]
pub fn known_ranges(
    py: Python<'_>,
    spec_json: &str,
    tables: Vec<Vec<u8>>,
    folder: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<String>> {
    watched(py, progress, |watch| {
        let spec = spec(spec_json)?;
        let mut go_on = || watch("looking at files", 0.0, 0.0);
        let state = VolumeFiles::of(&spec).state(&spec, &tables, &mut go_on)?;
        Ok(RangeDocument::read(Path::new(folder), state).map(|known| told(&known).to_string()))
    })
}

/// Ranges by channel: null where there is no number.
fn told(known: &RangeDocument) -> Value {
    let seen = known.seen.iter().map(|[a, b]| if a <= b { json!([finite(*a), finite(*b)]) } else { Value::Null });
    json!({"seen": seen.collect::<Vec<_>>(), "failed": known.failed})
}

/// Infinite where a value is, or where a page cannot be read.
fn finite(x: f64) -> Value {
    match x {
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        x => json!(x),
    }
}

/// Makes the ranges of an open volume.
pub fn build_ranges(
    session: &Session,
    tables: &[Vec<u8>],
    folder: &str,
    watch: &mut runtime::session::ProgressWatch<'_>,
) -> Result<String, FieldError> {
    let spec = &session.volume()?.spec;
    let mut go_on = || watch("looking at files", 0.0, 0.0);
    let state = VolumeFiles::of(spec).state(spec, tables, &mut go_on)?;
    let made = runtime::volume::build_ranges(session, Path::new(folder), state, watch)?;
    let mut found = told(&made.known);
    found["pages"] = made.pages.into();
    found["stats"] = json!(session.stats());
    Ok(found.to_string())
}

#[pyfunction]
#[pyo3(signature = (spec_json, tables, destination, *, options="{}", memory_limit, workers=0, readers=0, events=None, progress=None))]
#[allow(clippy::too_many_arguments)] // keywords of one call
pub fn convert_volume(
    py: Python<'_>,
    spec_json: &str,
    tables: Vec<Vec<u8>>,
    destination: &str,
    options: &str,
    memory_limit: u64,
    workers: usize,
    readers: usize,
    events: Option<&str>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    watched(py, progress, |watch| {
        let VolumeRequest { options: mut asked, codec_name, dry_run: dry } = VolumeRequest::parse(options)?;
        asked.memory_limit = memory_limit;
        let mut resources = run_options::resources(memory_limit, workers, readers, "clock")?;
        let events = Events::begin(events, &mut resources)?;
        let session = Arc::new(Session::open(Source::Volume(Box::new(spec(spec_json)?), tables), resources, watch)?);
        session.check_limit()?;
        asked.workers = session.threads();
        if session.pager.observed() {
            let pager = session.pager.clone();
            asked.spans = Spans::new(move |name, took| {
                let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                pager.record(|| Event::Span { took_us, name: name.into() });
            });
        }
        let input = runtime::volume::paged_input(&session)?;
        let charge = runtime::volume::charge_beside_pages(&session)?;
        let dst = Path::new(destination);
        let how = asked.downsample.unwrap_or(Downsample::of(input.spec.kind));
        let report = if dry {
            converter::dry_run(&input, dst, &asked, &charge)?
        } else {
            let mut told = |p: PieceProgress| watch("converting", p.done as f64, p.total as f64);
            converter::convert(&input, dst, &asked, &charge, &mut told)?
        };
        let bytes_out = if dry { report.store_bytes } else { runtime::process::folder_bytes(dst)? };
        let mut result = described(&report, bytes_out);
        let more = json!({
            "destination": destination, "dry_run": dry, "what": "volume", "page": asked.page, "layout": asked.layout.name(),
            "codec": codec_name, "downsample": how.name(), "downsample_asked": asked.downsample.is_some(),
            "dtype": input.voxel.name(), "kind": input.spec.kind, "steps": input.spec.times.len().max(1),
            "channels": input.spec.channels.iter().map(|c| &c.name).collect::<Vec<_>>(), "guessed": input.spec.guessed,
            "stats": session.stats(),
        });
        if let (Value::Object(result), Value::Object(more)) = (&mut result, more) {
            result.extend(more);
        }
        events.finish(&result["stats"], watch)?;
        Ok(result.to_string())
    })
}

/// What was done, or would be.
fn described(report: &VolumeReport, bytes_out: u64) -> Value {
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
