//! Options of vortex cores, parsed from JSON.

use super::{CoreSpec, Method};
use field::error::FieldError;
use field::options::Object;
use serde_json::Value;

/// Options: `method`, `field`, `step`, `scalars`, `min_strength`, `min_length`, `max_angle`.
///
/// # Errors
/// [`FieldError`] for an invalid option, and for an unknown one.
pub fn parse(options: &str) -> Result<CoreSpec, FieldError> {
    of_object(Object::parse(options, "vortex core options")?)
}

/// The same from a scene.
///
/// # Errors
/// As [`parse`].
pub fn of_value(options: Value) -> Result<CoreSpec, FieldError> {
    of_object(Object::of(options, "scene: vortex cores")?)
}

fn of_object(mut o: Object) -> Result<CoreSpec, FieldError> {
    let name = o.text("method")?.unwrap_or_else(|| Method::default().name().to_owned());
    let method = Method::named(&name).ok_or_else(|| FieldError::Unknown {
        what: "method of vortex cores",
        name,
        known: Method::ALL.iter().map(|m| m.name().to_owned()).collect(),
    })?;
    let spec = CoreSpec {
        method,
        field: o.text("field")?.unwrap_or_else(|| "velocity".into()),
        step: o.whole("step")?.unwrap_or(0) as usize,
        scalars: o.texts("scalars")?,
        min_strength: o.number("min_strength")?.unwrap_or(0.0),
        min_length: o.number("min_length")?.unwrap_or(0.0),
        max_angle: o.number("max_angle")?,
    };
    o.done()?;
    Ok(spec)
}
