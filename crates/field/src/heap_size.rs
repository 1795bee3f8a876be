//! Memory of an open dataset beside its pages: names, layouts, the pager's lists. It grows with zones, arrays and
//! steps, so it is charged. An upper bound from actual capacities and the allocator's overhead, which a test compares
//! with real allocations.

use crate::catalog::{Catalog, FlowHeader};
use crate::error::FieldError;
use pager::{Charge, ChargeKind, Full, Pager};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The allocator's overhead per allocation: a length, and rounding up to sixteen.
const BESIDE: u64 = 24;
/// The share of every dataset, however few its zones; part of a session's reserve for uncounted memory.
const FEW: u64 = 32 << 10;
/// The least memory of a run beside the dataset: pages, buffers, tables.
const RUN: u64 = 4 << 20;

/// An allocation of `bytes`.
const fn block(bytes: u64) -> u64 {
    if bytes == 0 {
        0
    } else {
        bytes + BESIDE
    }
}

/// The elements of a vector, without what they point to.
pub(crate) fn list<T>(v: &Vec<T>) -> u64 {
    block((v.capacity() * size_of::<T>()) as u64)
}

/// `count` elements in a vector filled one by one, with up to twice the needed capacity.
pub(crate) fn grown<T>(count: usize) -> u64 {
    block((2 * count.max(4) * size_of::<T>()) as u64)
}

/// A value behind an [`Arc`], with its two counts.
pub(crate) fn shared<T>() -> u64 {
    block((size_of::<T>() + 16) as u64)
}

pub(crate) fn text(s: &String) -> u64 {
    block(s.capacity() as u64)
}

pub(crate) fn texts(v: &Vec<String>) -> u64 {
    list(v) + v.iter().map(text).sum::<u64>()
}

/// A JSON object: entries with their hashes, and a table of their places, both with up to twice the needed capacity.
pub(crate) fn object(map: &Map<String, Value>) -> u64 {
    if map.is_empty() {
        return 0;
    }
    let entry = size_of::<Value>() + size_of::<String>() + size_of::<u64>() + 2 * size_of::<usize>();
    let each = map.iter().map(|(key, value)| text(key) + json(value));
    grown::<u8>(map.len() * entry) + block(64) + each.sum::<u64>()
}

fn json(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(s) => text(s),
        Value::Array(v) => list(v) + v.iter().map(json).sum::<u64>(),
        Value::Object(map) => object(map),
    }
}

pub(crate) fn catalog(c: &Catalog) -> u64 {
    let zones = c.zones.iter().map(|z| {
        let arrays = z.arrays.iter().map(|a| [&a.name, &a.units, &a.standard_name, &a.long_name].map(text));
        text(&z.name) + list(&z.arrays) + list::<FlowHeader>(&z.headers) + arrays.flatten().sum::<u64>()
    });
    text(&c.format)
        + texts(&c.guessed)
        + texts(&c.order_assumed)
        + list(&c.zones)
        + zones.sum::<u64>()
        + list(&c.times)
        + text(&c.time_units)
        + json(&c.settings)
}

/// Charges `bytes` for a volume.
///
/// # Errors
/// As [`charge`].
pub(crate) fn charge_volume(pager: &Pager, bytes: u64) -> Result<Charge, FieldError> {
    pager.charge(ChargeKind::Other, bytes).map_err(too_small)
}

/// The error for the list of chunks of a volume.
pub(crate) fn too_small(full: Full) -> FieldError {
    let needs = full.used.saturating_add(full.needs).saturating_add(RUN) / 9 * 10;
    let what = "what is kept of a volume (names of files, where chunks lie)".into();
    FieldError::LimitTooSmall { limit: full.limit, needs, what }
}

/// Charges `bytes` for a dataset.
///
/// # Errors
/// [`FieldError::LimitTooSmall`] with a limit that suffices for them and a small run.
pub(crate) fn charge(pager: &Pager, bytes: u64, zones: usize) -> Result<Arc<Charge>, FieldError> {
    let charge = pager.charge(ChargeKind::Other, bytes.saturating_sub(FEW)).map_err(|full| {
        // A tenth of a limit is reserved for memory that grows with the limit.
        let needs = full.used.saturating_add(full.needs).saturating_add(RUN) / 9 * 10;
        let what = format!("what is kept of {zones} zones (names, sizes, where they lie)");
        FieldError::LimitTooSmall { limit: full.limit, needs, what }
    })?;
    Ok(Arc::new(charge))
}
