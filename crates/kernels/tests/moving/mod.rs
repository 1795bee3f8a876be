//! One zone with a given unsteady grid and flow.

use field::in_memory::{FlatArray, FlatNodes};
use field::in_memory_series::FlatSeries;

/// A vector by place and time.
pub type Field<'a> = &'a dyn Fn([f64; 3], f64) -> [f64; 3];

/// Points of the zone.
pub const DIMS: [usize; 3] = [13, 11, 9];

/// One zone with a velocity at some times, and iblank if `holes` are given. `grid` maps the points of a unit cube at a
/// time.
pub fn series(
    times: &[f64],
    grid: Field<'_>,
    velocity: Field<'_>,
    holes: Option<&dyn Fn([f64; 3], f64) -> bool>,
) -> FlatSeries {
    let n = DIMS[0] * DIMS[1] * DIMS[2];
    let step = |t: f64| {
        let unit = |at: usize| {
            let ijk = [at % DIMS[0], at / DIMS[0] % DIMS[1], at / DIMS[0] / DIMS[1]];
            core::array::from_fn(|a| ijk[a] as f64 / (DIMS[a] - 1) as f64)
        };
        let points: Vec<[f64; 3]> = (0..n).map(|at| grid(unit(at), t)).collect();
        let planes = |of: &dyn Fn([f64; 3]) -> [f64; 3]| {
            let values: Vec<[f64; 3]> = points.iter().map(|x| of(*x)).collect();
            FlatArray::F64((0..3).flat_map(|c| values.iter().map(move |v| v[c]).collect::<Vec<_>>()).collect())
        };
        let mut arrays = vec![
            ("xyz".to_owned(), 3, planes(&|x| x)),
            ("velocity".to_owned(), 3, planes(&|x| velocity(x, t))),
            ("speed".to_owned(), 1, FlatArray::F64(points.iter().map(|x| velocity(*x, t)[0]).collect())),
        ];
        if let Some(hole) = holes {
            let blank = (0..n).map(|at| i32::from(!hole(unit(at), t))).collect();
            arrays.push(("iblank".to_owned(), 1, FlatArray::I32(blank)));
        }
        FlatNodes::from_arrays(vec![("zone1".to_owned(), DIMS, arrays)])
    };
    FlatSeries::new(times.iter().map(|t| step(*t)).collect(), &[])
}

/// A grid without motion.
pub fn still(x: [f64; 3], _: f64) -> [f64; 3] {
    x
}
