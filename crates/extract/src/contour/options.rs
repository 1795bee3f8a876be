//! Options of isosurfaces and planes, parsed from JSON.

use super::{of_channel, ContourKind, ContourSpec, VolumeContour, VolumeWhat};
use field::error::FieldError;
use field::options::{usage, Object};
use runtime::session::Session;
use serde_json::Value;

/// A field with values, or a plane.
enum ContourRequest {
    Iso(String, Vec<f64>),
    Plane([f64; 3], [f64; 3]),
}

fn asked(o: &mut Object) -> Result<ContourRequest, FieldError> {
    let values = o.numbers("values", "a list of numbers", Value::as_f64)?;
    match (o.text("field")?, values, vector(o, "origin")?, vector(o, "normal")?) {
        (Some(field), Some(values), None, None) => Ok(ContourRequest::Iso(field, values)),
        (None, None, Some(origin), Some(normal)) => Ok(ContourRequest::Plane(origin, normal)),
        _ => Err(usage("a surface is a field with values, or a plane with origin and normal")),
    }
}

fn vector(o: &mut Object, key: &str) -> Result<Option<[f64; 3]>, FieldError> {
    let Some(list) = o.numbers(key, "three numbers", Value::as_f64)? else { return Ok(None) };
    <[f64; 3]>::try_from(list).map(Some).map_err(|_| usage(format!("{key} is three numbers")))
}

/// For a dataset: `field` and `values`, or `origin` and `normal`; `scalars`, `normals`, `near`, `step`.
///
/// # Errors
/// [`FieldError::Usage`] for an invalid option, and for an unknown one.
pub fn of_flow(options: &str) -> Result<ContourSpec, FieldError> {
    let mut o = Object::parse(options, "contour options")?;
    let what = match asked(&mut o)? {
        ContourRequest::Iso(field, values) => ContourKind::Iso { field, values },
        ContourRequest::Plane(origin, normal) => ContourKind::Plane { origin, normal },
    };
    let (scalars, normals, near) = (o.texts("scalars")?, o.truth("normals")?, vector(&mut o, "near")?);
    let step = o.whole("step")?.unwrap_or(0) as usize;
    o.done()?;
    Ok(ContourSpec { what, scalars, normals, near, step, spill: None })
}

/// For a volume, with the level, `level`.
///
/// # Errors
/// [`FieldError`] for an invalid option, an unknown one, and an unknown channel.
pub fn of_volume(session: &Session, options: &str) -> Result<(usize, VolumeContour), FieldError> {
    let mut o = Object::parse(options, "contour options")?;
    let volume = session.volume()?;
    let what = match asked(&mut o)? {
        ContourRequest::Iso(field, values) => of_channel(volume, &field, &values)?,
        ContourRequest::Plane(origin, normal) => VolumeWhat::Plane { origin, normal },
    };
    let channels = o.texts("scalars")?.iter().map(|name| volume.channel_named(name)).collect::<Result<_, _>>()?;
    let (normals, near) = (o.truth("normals")?, vector(&mut o, "near")?);
    let step = o.whole("step")?.unwrap_or(0) as usize;
    let level = o.whole("level")?.unwrap_or(0) as usize;
    o.done()?;
    Ok((level, VolumeContour { what, channels, normals, near, step, spill: None }))
}
