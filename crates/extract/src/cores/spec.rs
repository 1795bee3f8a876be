//! Options of cores.

use field::error::FieldError;
use kernels::cores::Method;
use output::Provenance;
use runtime::session::Session;

/// An extraction.
#[derive(Clone, Debug)]
pub struct CoreSpec {
    /// The definition of a core.
    pub method: Method,
    /// The velocity.
    pub field: String,
    /// Time step.
    pub step: usize,
    /// Fields sampled at the points.
    pub scalars: Vec<String>,
    /// Least strength of points; for its meaning see [`Method`].
    pub min_strength: f64,
    /// Least length of lines, in units of the grid.
    pub min_length: f64,
    /// Largest angle between line and velocity at a point, in degrees.
    pub max_angle: Option<f64>,
}

/// Refuses invalid options.
pub(super) fn check(spec: &CoreSpec) -> Result<(), FieldError> {
    let usage = |what: &str| Err(FieldError::Usage(what.to_owned()));
    if !(spec.min_strength >= 0.0 && spec.min_strength.is_finite()) {
        return usage("the least strength of a core must be 0 or more");
    }
    if !(spec.min_length >= 0.0 && spec.min_length.is_finite()) {
        return usage("the least length of a core must be 0 or more");
    }
    if spec.max_angle.is_some_and(|a| !(0.0..=90.0).contains(&a)) {
        return usage("the largest angle between core and velocity must be 0 to 90 degrees");
    }
    Ok(())
}

/// The provenance written beside the lines.
pub fn provenance(session: &Session, spec: &CoreSpec) -> Provenance {
    let dataset = session.dataset();
    let mut notes: Vec<(String, String)> = vec![
        ("method".into(), spec.method.name().into()),
        ("field".into(), spec.field.clone()),
        ("min_strength".into(), format!("{}", spec.min_strength)),
        ("min_length".into(), format!("{}", spec.min_length)),
    ];
    notes.extend(spec.max_angle.map(|a| ("max_angle".into(), format!("{a}"))));
    Provenance {
        program: concat!("farfield ", env!("CARGO_PKG_VERSION")).to_owned(),
        source: String::new(),
        length_unit: dataset.length_unit(),
        time_unit: dataset.catalog.time_units.clone(),
        notes,
    }
}
