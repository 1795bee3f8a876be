//! What is asked of a slice, and what is made of it.

use crate::arguments::Object;
use ::extract::sliceimage::{
    edges, of_grid, of_volume, PlaneSpec, Slice, SliceArrays, SliceMarks, SliceNumbers, SlicePaint, VolumeChoice,
    VolumeView,
};
use ::output::{FieldType, Provenance};
use ::runtime::session::{ProgressWatch, Session};
use ::runtime::volume::VolumeSession;
use field::error::FieldError;
use kernels::slice::Filter;
use numpy::PyArray1;
use pyo3::prelude::*;
use serde_json::{json, Value};
use std::path::Path;

/// A slice in memory: what is said of it as JSON, its numbers one after the other, and what each pixel is.
pub type InMemory<'py> = (String, Bound<'py, PyAny>, Bound<'py, PyAny>);

/// So many numbers.
fn numbers<T, const N: usize>(
    o: &mut Object,
    key: &str,
    form: &str,
    number: impl Fn(&Value) -> Option<T>,
) -> Result<Option<[T; N]>, FieldError> {
    let Some(found) = o.numbers(key, form, number)? else { return Ok(None) };
    let wrong = |_| FieldError::Usage(format!("slice options: '{key}' must be {form}"));
    found.try_into().map(Some).map_err(wrong)
}

/// Where it lies: `normal`, `origin`, `up`, `rightward`, `extent`, `size`, `resolution`.
fn plane(o: &mut Object) -> Result<PlaneSpec, FieldError> {
    let normal = numbers(o, "normal", "three numbers", Value::as_f64)?;
    Ok(PlaneSpec {
        normal: normal.ok_or_else(|| FieldError::Usage("slice options: 'normal' is missing".into()))?,
        origin: numbers(o, "origin", "three numbers", Value::as_f64)?,
        up: numbers(o, "up", "three numbers", Value::as_f64)?,
        rightward: numbers(o, "rightward", "three numbers", Value::as_f64)?.unwrap_or([1.0; 3]),
        extent: numbers(o, "extent", "four numbers", Value::as_f64)?,
        size: numbers(o, "size", "two whole numbers", |v| v.as_u64().and_then(|n| n.try_into().ok()))?,
        resolution: o.number("resolution")?,
    })
}

/// `{"table": [[r, g, b], ...], "range": [low, high] | null}` or `{"grey16": true, "inverted": true | false, "range"}`.
fn look(o: &mut Object) -> Result<Option<SlicePaint>, FieldError> {
    let Some(value) = o.take("look") else { return Ok(None) };
    let mut o = Object::of(value, "look of a slice")?;
    let range = numbers(&mut o, "range", "two numbers", Value::as_f64)?;
    let byte = |v: &Value| v.as_u64().and_then(|n| u8::try_from(n).ok());
    let colour = |v: &Value| {
        let [r, g, b] = v.as_array()?.as_slice() else { return None };
        Some([byte(r)?, byte(g)?, byte(b)?])
    };
    let table = o.numbers("table", "colours of three numbers from 0 to 255", colour)?;
    let inverted = o.truth("inverted")?;
    let look = match (o.truth("grey16")?, table) {
        (true, _) => SlicePaint::Grey16 { range, inverted },
        (false, Some(table)) => SlicePaint::Map { table, range },
        (false, None) => return Err(FieldError::Usage("look of a slice: 'table' is missing".into())),
    };
    o.done()?;
    Ok(Some(look))
}

/// What is laid over a picture: `bar` and `letters`, true or false, and `title`, text.
fn marks(o: &mut Object) -> Result<SliceMarks, FieldError> {
    Ok(SliceMarks { bar: o.truth("bar")?, letters: o.truth("letters")?, edges: None, title: o.text("title")? })
}

/// A slice of a session's dataset, and how it is to look.
fn laid(
    session: &Session,
    options: &str,
    watch: &mut ProgressWatch<'_>,
) -> Result<(Slice, Option<SlicePaint>), FieldError> {
    let mut o = Object::parse(options, "slice options")?;
    let plane = plane(&mut o)?;
    let look = look(&mut o)?;
    let marks = marks(&mut o)?;
    let (fields, step) = (o.texts("fields")?, o.whole("step")?.unwrap_or(0) as usize);
    o.done()?;
    let mut slice = of_grid(session, &plane, &fields, step, watch)?;
    slice.marks = marks;
    Ok((slice, look))
}

/// A slice of a volume, and how it is to look.
fn laid_in(session: &VolumeSession, options: &str) -> Result<(Slice, Option<SlicePaint>), FieldError> {
    let mut o = Object::parse(options, "slice options")?;
    let plane = plane(&mut o)?;
    let look = look(&mut o)?;
    let marks = marks(&mut o)?;
    let volume = &session.volume;
    let named = o.texts("fields")?;
    let channels = named.iter().map(|name| volume.channel_named(name)).collect::<Result<Vec<_>, _>>()?;
    let choice = VolumeChoice {
        channels: Some(channels).filter(|named| !named.is_empty()),
        level: o.whole("level")?.map(|n| n as usize),
        filter: o.truth("nearest")?.then_some(Filter::Nearest),
        step: o.whole("step")?.unwrap_or(0) as u32,
        as_numbers: look.is_some(),
    };
    o.done()?;
    let spec = &volume.spec;
    let view = VolumeView {
        levels: &volume.levels,
        kind: spec.kind,
        channels: &spec.channels,
        length_unit: &spec.length_unit,
        label_colors: &spec.label_colors,
    };
    let mut slice = of_volume(view, &plane, &choice)?;
    let edges = spec.anatomy.as_deref().map(|anatomy| edges(slice.laid.axes, anatomy));
    slice.marks = SliceMarks { edges, ..marks };
    Ok((slice, look))
}

fn provenance(source: String) -> Provenance {
    let program = concat!("farfield ", env!("CARGO_PKG_VERSION")).to_owned();
    Provenance { program, source, ..Provenance::default() }
}

/// Adds what a run came to.
fn with_stats(mut told: Value, stats: Value) -> String {
    if let Some(told) = told.as_object_mut() {
        told.remove("wait_s");
        told.insert("stats".into(), stats);
    }
    told.to_string()
}

/// Writes a slice to a file.
pub fn write(
    session: &Session,
    options: &str,
    output: &str,
    watch: &mut ProgressWatch<'_>,
) -> Result<String, FieldError> {
    let (slice, look) = laid(session, options, watch)?;
    let (workers, output) = (session.means.threads(), Path::new(output));
    let provenance = provenance(session.spec.path.display().to_string());
    let told = slice.write(&session.pager, workers, output, look, &provenance, watch)?;
    session.add_wait(told["wait_s"].as_f64().unwrap_or(0.0));
    Ok(with_stats(told, session.stats()))
}

/// Writes a slice of a volume to a file.
pub fn write_in(
    session: &VolumeSession,
    options: &str,
    output: &str,
    watch: &mut ProgressWatch<'_>,
) -> Result<String, FieldError> {
    let (slice, look) = laid_in(session, options)?;
    let provenance = provenance(session.volume.spec.path.clone());
    let told = slice.write(&session.pager, session.threads(), Path::new(output), look, &provenance, watch)?;
    session.add_wait(told["wait_s"].as_f64().unwrap_or(0.0));
    Ok(with_stats(told, session.stats()))
}

/// What is said of a slice in memory, its numbers, whether they need double precision, and what they are.
type SliceReply = (Value, SliceArrays, bool, SliceNumbers);

/// Makes a slice in memory.
pub fn make(session: &Session, options: &str, watch: &mut ProgressWatch<'_>) -> Result<SliceReply, FieldError> {
    let (slice, _) = laid(session, options, watch)?;
    let arrays = slice.arrays(&session.pager, session.means.threads(), watch)?;
    session.add_wait(arrays.run.wait_s);
    Ok(made(&slice, arrays))
}

/// Makes a slice of a volume in memory.
pub fn make_in(
    session: &VolumeSession,
    options: &str,
    watch: &mut ProgressWatch<'_>,
) -> Result<SliceReply, FieldError> {
    let (slice, _) = laid_in(session, options)?;
    let arrays = slice.arrays(&session.pager, session.threads(), watch)?;
    session.add_wait(arrays.run.wait_s);
    Ok(made(&slice, arrays))
}

fn made(slice: &Slice, arrays: SliceArrays) -> SliceReply {
    let mut told = slice.about();
    let counts = &arrays.counts;
    told.insert("pixels".into(), counts.told());
    told.insert("failure".into(), json!(counts.failure));
    let wide = slice.fields.iter().any(|f| f.dtype == FieldType::F64);
    (Value::Object(told), arrays, wide, slice.numbers)
}

/// Hands a slice over as arrays of NumPy.
pub fn handed<'py>(py: Python<'py>, (told, arrays, wide, numbers): SliceReply) -> InMemory<'py> {
    let values = match (numbers, wide) {
        (SliceNumbers::Unsigned, _) => PyArray1::from_iter(py, arrays.values.into_iter().map(f64::to_bits)).into_any(),
        (SliceNumbers::Signed, _) => {
            PyArray1::from_iter(py, arrays.values.into_iter().map(|v| v.to_bits().cast_signed())).into_any()
        }
        (SliceNumbers::Doubles, true) => PyArray1::from_vec(py, arrays.values).into_any(),
        (SliceNumbers::Doubles, false) => {
            PyArray1::from_iter(py, arrays.values.into_iter().map(|v| v as f32)).into_any()
        }
    };
    (told.to_string(), values, PyArray1::from_vec(py, arrays.pixels).into_any())
}
