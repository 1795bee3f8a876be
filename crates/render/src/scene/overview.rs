//! Overview of a dataset before its first picture: the places of its zones and its body.

use super::wall_sides::{flow_side, Enclosure};
use extract::surfaces::face_rows;
use field::error::FieldError;
use field::nodes::Nodes;
use runtime::blocking::BlockingFlow;
use runtime::gridface::AXES;
use runtime::session::{ProgressWatch, Session};
use runtime::walls::walls;
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

/// The corners as JSON; null if nothing was found.
fn found(b: &Corners) -> Value {
    if b[0][0] <= b[1][0] {
        json!(b)
    } else {
        Value::Null
    }
}

/// The middle of the box of all zones.
///
/// # Errors
/// As [`look`]; [`FieldError::Usage`] if no point has finite coordinates.
pub(crate) fn middle(session: &Session, step: usize, watch: &mut ProgressWatch<'_>) -> Result<[f64; 3], FieldError> {
    let mut bounds = NOWHERE;
    for zone in look(session, step, watch)?["zones"].as_array().into_iter().flatten() {
        let corner = |n: usize| core::array::from_fn(|a| zone["box"][n][a].as_f64().unwrap_or(f64::NAN));
        include(&mut bounds, corner(0));
        include(&mut bounds, corner(1));
    }
    if bounds[0][0] > bounds[1][0] {
        let what = "no point of the dataset has coordinates that are numbers; a slice needs an 'origin'";
        return Err(FieldError::Usage(what.into()));
    }
    Ok(core::array::from_fn(|a| 0.5 * (bounds[0][a] + bounds[1][a])))
}

/// `{"zones": [{"name", "box"}], "walls": [{"zone", "axis", "index", "box"}], "encloses", "focus"}`, which have these
/// meanings:
///
/// | key | value |
/// |---|---|
/// | `zones` | boxes of the usable cells of each zone, from the boxes of point location |
/// | `walls` | faces that are all wall or all at rest |
/// | `encloses` | whether the walls enclose the flow, as those of a pipe do |
/// | `focus` | the box of most cells, where there is something to see |
///
/// Unlike `info` with ranges it reads no whole field.
///
/// # Errors
/// [`FieldError`]; [`FieldError::Interrupted`] if `watch` says so.
pub fn look(session: &Session, step: usize, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    let dataset = session.located(watch)?;
    let fields = dataset.fields(None, &[], step)?;
    let mut flow = BlockingFlow::new(session, &dataset, fields, step)?;
    let mut zones = Vec::new();
    let mut places = Vec::new();
    for (zone, z) in dataset.zones.iter().enumerate() {
        let mut bounds = NOWHERE;
        let room = (MOST_PLACES / dataset.zones.len().max(1)).max(1);
        let blocks = |level: usize| z.boxes[level].translation.dims.iter().map(|n| *n as usize).product::<usize>();
        let level = (0..z.boxes.len()).find(|l| blocks(*l) <= room).or(z.boxes.len().checked_sub(1));
        if let Some(level) = level {
            let dims = z.boxes[level].translation.dims;
            for n in 0..dims.iter().product::<u32>() {
                let at = [n % dims[0], n / dims[0] % dims[1], n / dims[0] / dims[1]];
                let b = flow.until_here(|f| f.space.nodes.block(zone, level, at))?.map(f64::from);
                include(&mut bounds, [b[0], b[1], b[2]]);
                include(&mut bounds, [b[3], b[4], b[5]]);
                // A block of a level holds about eight times the cells of a block one level below.
                let cells = 8f64.powi(i32::try_from(level).unwrap_or(i32::MAX));
                let middle: [f64; 3] = core::array::from_fn(|a| 0.5 * (b[a] + b[a + 3]));
                if middle.iter().all(|c| c.is_finite()) {
                    places.push((middle, cells));
                }
            }
        }
        zones.push(json!({"name": z.name, "box": found(&bounds)}));
    }
    let mut faces = Vec::new();
    let mut enclosure = Enclosure::default();
    for face in walls(session, &dataset, step..step + 1, watch)? {
        let z = &dataset.zones[face.zone];
        let mut bounds = NOWHERE;
        let mut side = enclosure.side(flow_side(session, &dataset, &face, step, watch)?);
        face_rows(session, &dataset, &face, step, &[], watch, &mut |_, points, _, _| {
            points.iter().for_each(|p| include(&mut bounds, *p));
            side.row(points);
            Ok(())
        })?;
        faces.push(json!({"zone": z.name, "axis": AXES[face.axis], "index": face.index + 1, "box": found(&bounds)}));
    }
    Ok(json!({
        "zones": zones, "walls": faces, "encloses": enclosure.encloses(), "focus": found(&crowd(&mut places)),
    }))
}

/// Most blocks visited in all zones together: two megabytes.
const MOST_PLACES: usize = 1 << 16;

/// Share of the cells below the focus along each axis, and as many above.
const TAIL: f64 = 0.25;

/// The box of the middle half of the cells along each axis.
fn crowd(places: &mut [([f64; 3], f64)]) -> Corners {
    let mut bounds = NOWHERE;
    let all: f64 = places.iter().map(|p| p.1).sum();
    for axis in 0..3 {
        places.sort_by(|a, b| a.0[axis].total_cmp(&b.0[axis]));
        let mut below = 0.0;
        for (p, cells) in places.iter() {
            if below + cells > TAIL * all && below < (1.0 - TAIL) * all {
                bounds[0][axis] = bounds[0][axis].min(p[axis]);
                bounds[1][axis] = bounds[1][axis].max(p[axis]);
            }
            below += cells;
        }
    }
    bounds
}
