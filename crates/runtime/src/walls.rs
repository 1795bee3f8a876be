//! Faces of zones that are walls.

use crate::gridface::{along, GridFace};
use crate::limits::charge_other;
use crate::session::{ProgressWatch, Session};
use crate::values::{read_box, visit_box, NodeBox};
use field::catalog::DType;
use field::dataset::Dataset;
use field::error::FieldError;
use field::motion::Neighbours;
use field::quantity::Quantity;
use std::ops::Range;

/// The outer faces of zones whose nodes are all wall (iblank 2), or all at rest relative to the grid, at each of
/// `steps`. In a 2-D dataset, where a zone is itself a face, the edges of zones.
///
/// # Errors
/// [`FieldError`].
pub fn walls(
    session: &Session,
    dataset: &Dataset,
    steps: Range<usize>,
    watch: &mut ProgressWatch<'_>,
) -> Result<Vec<GridFace>, FieldError> {
    let mut found = Vec::new();
    for face in faces(dataset) {
        // A steady zone is the same at every step.
        let steady = dataset.zones[face.zone].arrays.iter().all(|a| a.steady);
        let mut always = true;
        for step in steps.clone().take(if steady { 1 } else { usize::MAX }) {
            always = is_wall(session, dataset, face, step, watch)?;
            if !always {
                break;
            }
        }
        if always {
            found.push(face);
        }
    }
    Ok(found)
}

fn faces(dataset: &Dataset) -> impl Iterator<Item = GridFace> + '_ {
    let planar = dataset.catalog.dimension == 2;
    dataset.zones.iter().enumerate().flat_map(move |(zone, z)| {
        let dims = z.dims();
        (0..3).flat_map(move |axis| {
            let across = (0..3).filter(|a| *a != axis && dims[*a] == 1).count();
            // A face of one point across is an edge, not a surface.
            let none = if planar { axis == 2 || across != 1 } else { across > 0 };
            let last = dims[axis] - 1;
            let sides = [Some(0), (last > 0).then_some(last)].into_iter().flatten().filter(move |_| !none);
            sides.map(move |index| GridFace::whole(zone, axis, index, dims))
        })
    })
}

/// Whether the nodes of a face are all wall, or all move with the grid.
fn is_wall(
    session: &Session,
    dataset: &Dataset,
    face: GridFace,
    step: usize,
    watch: &mut ProgressWatch<'_>,
) -> Result<bool, FieldError> {
    let z = &dataset.zones[face.zone];
    let motion = z.array("momentum").or_else(|| z.array("velocity"));
    let mut all = |array: Option<usize>, is: fn(&[f64]) -> bool| -> Result<bool, FieldError> {
        let Some(array) = array else { return Ok(false) };
        let q = [Quantity::Stored { array, components: z.arrays[array].components }];
        visit_box(session, dataset, face.nodes(step), &q, watch, &mut |_, v| is(v))
    };
    if all(z.iblank, |v| v[0] == 2.0)? {
        return Ok(true);
    }
    if motion.is_some() && !z.arrays[z.xyz].steady {
        return moves_with_grid(session, dataset, face, step, watch);
    }
    all(motion, |v| v.iter().all(|c| *c == 0.0))
}

/// Whether the flow at all nodes of a face moves with the nodes. Pages are read a strip at a time.
fn moves_with_grid(
    session: &Session,
    dataset: &Dataset,
    face: GridFace,
    step: usize,
    watch: &mut ProgressWatch<'_>,
) -> Result<bool, FieldError> {
    let z = &dataset.zones[face.zone];
    let near = Neighbours::of(step, &dataset.catalog.times);
    // Momentum alone gives no velocity.
    let Some(velocity) = Quantity::named(z, "velocity") else { return Ok(false) };
    let of_velocity = velocity.components();
    let places = Quantity::Stored { array: z.xyz, components: z.arrays[z.xyz].components };
    let rounding = if z.arrays[z.xyz].dtype == DType::Float64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let across = along(face.axis)[1];
    let whole = face.nodes(step);
    let strip = z.translation.page[across];
    let three = |v: &[f64], n: usize, nodes: usize| -> [f64; 3] {
        core::array::from_fn(|c| v.get(c * nodes + n).copied().unwrap_or(0.0))
    };
    let mut from = whole.lo[across];
    while from < whole.hi[across] {
        let (mut lo, mut hi) = (whole.lo, whole.hi);
        lo[across] = from;
        hi[across] = ((from / strip + 1) * strip).min(whole.hi[across]);
        from = hi[across];
        let at = NodeBox { lo, hi, ..whole };
        let nodes = at.count();
        let _charged = charge_other(&session.pager, (nodes * 8 * 12) as u64, "a row of pages of a face that moves")?;
        let v = read_box(session, dataset, at, &[velocity], watch)?;
        let mut x = Vec::with_capacity(3);
        for step in near.steps() {
            x.push(read_box(session, dataset, NodeBox { step: *step as usize, ..at }, &[places], watch)?);
        }
        let with = |n: usize| {
            let own: Vec<[f64; 3]> = x.iter().map(|x| three(x, n, nodes)).collect();
            near.moves_with(three(&v[..of_velocity * nodes], n, nodes), &own, rounding)
        };
        if !(0..nodes).all(with) {
            return Ok(false);
        }
    }
    Ok(true)
}
