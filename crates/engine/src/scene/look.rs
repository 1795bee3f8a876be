//! What a first look at a dataset has to know: where its zones lie, and where its body.

use crate::session::{Session, Watch};
use crate::surfaces::AXES;
use crate::trace::{blocking_flow, until_here};
use crate::values::{visit_box, walls};
use field::error::FieldError;
use field::nodes::Nodes;
use field::quantity::Quantity;
use serde_json::{json, Value};

/// Lower and upper corner.
type Corners = [[f64; 3]; 2];

const NOWHERE: Corners = [[f64::INFINITY; 3], [f64::NEG_INFINITY; 3]];

fn include(b: &mut Corners, p: [f64; 3]) {
    if p.iter().all(|c| c.is_finite()) {
        for (a, c) in p.into_iter().enumerate() {
            b[0][a] = b[0][a].min(c);
            b[1][a] = b[1][a].max(c);
        }
    }
}

/// Null where nothing was found.
fn found(b: &Corners) -> Value {
    if b[0][0] <= b[1][0] {
        json!(b)
    } else {
        Value::Null
    }
}

/// `{"zones": [{"name", "box"}], "walls": [{"zone", "axis", "index", "box"}]}`: boxes of the usable cells of each zone, out of the boxes
/// that location needs, and the faces that are all wall or all at rest. Unlike `info` with ranges it reads no field as a whole.
///
/// # Errors
/// [`FieldError`], [`FieldError::Interrupted`] if `watch` says so.
pub fn look(session: &Session, step: usize, watch: &mut Watch<'_>) -> Result<Value, FieldError> {
    let dataset = session.located(watch)?;
    let fields = dataset.fields(None, &[], step)?;
    let mut flow = blocking_flow(session, &dataset, fields, step)?;
    let mut zones = Vec::new();
    for (zone, z) in dataset.zones.iter().enumerate() {
        let mut bounds = NOWHERE;
        if let Some(top) = z.boxes.len().checked_sub(1) {
            let dims = z.boxes[top].translation.dims;
            for n in 0..dims.iter().product::<u32>() {
                let at = [n % dims[0], n / dims[0] % dims[1], n / dims[0] / dims[1]];
                let b = until_here(session, &mut flow, |f| f.space.nodes.block(zone, top, at))?.map(f64::from);
                include(&mut bounds, [b[0], b[1], b[2]]);
                include(&mut bounds, [b[3], b[4], b[5]]);
            }
        }
        zones.push(json!({"name": z.name, "box": found(&bounds)}));
    }
    let mut faces = Vec::new();
    for face in walls(session, &dataset, step, watch)? {
        let z = &dataset.zones[face.zone];
        let position = [Quantity::Stored { array: z.xyz, components: z.arrays[z.xyz].components }];
        let mut bounds = NOWHERE;
        visit_box(session, &dataset, face.nodes(z.dims(), step), &position, watch, &mut |_, v| {
            include(&mut bounds, [v[0], v[1], if v.len() > 2 { v[2] } else { 0.0 }]);
            true
        })?;
        faces.push(json!({"zone": z.name, "axis": AXES[face.axis], "index": face.index + 1, "box": found(&bounds)}));
    }
    Ok(json!({"zones": zones, "walls": faces}))
}
