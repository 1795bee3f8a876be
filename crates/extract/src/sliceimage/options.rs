//! Options of a slice, parsed from JSON.

use super::{edges, of_grid, of_volume, PlaneSpec, Slice, SliceMarks, SlicePaint, VolumeChoice, VolumeView};
use field::error::FieldError;
use field::options::Object;
use kernels::slice::Filter;
use runtime::session::{ProgressWatch, Session};
use serde_json::Value;

/// A list of `N` numbers.
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

/// The place: `normal`, `origin`, `up`, `rightward`, `extent`, `size`, `resolution`.
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

/// Annotations of a picture: `bar` and `letters`, true or false, and `title`, text.
fn marks(o: &mut Object) -> Result<SliceMarks, FieldError> {
    Ok(SliceMarks { bar: o.truth("bar")?, letters: o.truth("letters")?, edges: None, title: o.text("title")? })
}

/// A slice of a session's dataset, and its colours.
///
/// # Errors
/// [`FieldError`] for an invalid option, an unknown one, and the errors of the slice itself.
pub fn laid(
    session: &Session,
    options: &str,
    watch: &mut ProgressWatch<'_>,
) -> Result<(Slice, Option<SlicePaint>), FieldError> {
    let mut o = Object::parse(options, "slice options")?;
    let plane = plane(&mut o)?;
    let look = look(&mut o)?;
    let marks = marks(&mut o)?;
    let (fields, step) = (o.texts("fields")?, o.whole("step")?.unwrap_or(0) as usize);
    let slice = match session.volume() {
        Ok(volume) => {
            let channels = fields.iter().map(|name| volume.channel_named(name)).collect::<Result<Vec<_>, _>>()?;
            let choice = VolumeChoice {
                channels: Some(channels).filter(|named| !named.is_empty()),
                level: o.whole("level")?.map(|n| n as usize),
                filter: o.truth("nearest")?.then_some(Filter::Nearest),
                step: step as u32,
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
            slice
        }
        Err(_) => {
            o.done()?;
            let mut slice = of_grid(session, &plane, &fields, step, watch)?;
            slice.marks = marks;
            slice
        }
    };
    Ok((slice, look))
}
