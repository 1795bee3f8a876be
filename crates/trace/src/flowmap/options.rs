//! Options of a flow map.

use super::{FlowMapSpec, MapQuantity, SeedAxis, SeedGrid};
use crate::options::{trace_object, Ground};
use crate::seeds::Seeds;
use field::error::FieldError;
use field::options::{usage, Object};
use runtime::session::{ProgressWatch, Session};
use serde_json::Value;

/// `[[low, high, n], ...]` along x, y and z. Without the last, one seed at 0.
fn grid(value: Option<Value>) -> Result<SeedGrid, FieldError> {
    let wrong = || usage("flow map: 'grid' must be [[low, high, n], [low, high, n], [low, high, n]]");
    let rows = value.and_then(|v| v.as_array().cloned()).filter(|r| (2..=3).contains(&r.len())).ok_or_else(wrong)?;
    let mut axes = [SeedAxis { from: 0.0, to: 0.0, count: 1 }; 3];
    for (axis, row) in axes.iter_mut().zip(&rows) {
        let (from, to, count) = (row[0].as_f64(), row[1].as_f64(), row[2].as_u64());
        let (Some(from), Some(to), Some(count)) = (from, to, count) else { return Err(wrong()) };
        *axis = SeedAxis { from, to, count };
    }
    SeedGrid::new(axes)
}

/// `[[x, y, z], [x, y, z]]`.
fn corners(value: Value) -> Result<[[f64; 3]; 2], FieldError> {
    let wrong = || usage("flow map: 'within' must be [[x, y, z], [x, y, z]], the lower and the higher corner");
    serde_json::from_value(value).map_err(|_| wrong())
}

impl FlowMapSpec {
    /// Parses a pathline's options, and `grid`, `quantities`, `within`, `offset`, `overwrite`.
    ///
    /// # Errors
    /// [`FieldError`] for an invalid grid, quantity or other option.
    pub fn parse(options: &str, session: &Session, watch: &mut ProgressWatch<'_>) -> Result<Self, FieldError> {
        let mut o = Object::parse(options, "flow map options")?;
        let grid = grid(o.take("grid"))?;
        let quantity = |name: String| {
            MapQuantity::ALL.into_iter().find(|q| q.name() == name).ok_or_else(|| FieldError::Unknown {
                what: "quantity of a flow map",
                name,
                known: MapQuantity::ALL.iter().map(|q| q.name().to_owned()).collect(),
            })
        };
        let quantities = o.texts("quantities")?.into_iter().map(quantity).collect::<Result<Vec<_>, _>>()?;
        let within = o.take("within").map(corners).transpose()?;
        let (offset, overwrite) = (o.number("offset")?, o.truth("overwrite")?);
        // The grid has the seeds.
        let trace = trace_object(&mut o, Some(Seeds::Point([0.0; 3])), &Ground::of(session), watch)?;
        o.done()?;
        if trace.stop.is_some() {
            return Err(usage("a flow map follows its particles to the end: it takes no 'stop'"));
        }
        let path = trace.path.ok_or_else(|| usage("a flow map is made of pathlines: 'kind' must say so"))?;
        Ok(Self { grid, field: trace.field, options: trace.options, path, quantities, within, offset, overwrite })
    }
}
