//! A moving grid: a cell cached between two time steps equals the cell loaded anew.

use field::in_memory::{FlatArray, FlatNodes};
use field::in_memory_series::FlatSeries;
use field::locator::{Blank, CellId, ZoneFields, ZoneLocator};
use field::nodes::Nodes;
use field::quantity::FreeStream;
use field::simd::V4;
use field::time_interpolated::TimeInterpolated;
use std::sync::Arc;

const DIMS: [usize; 3] = [9, 7, 6];
const STEPS: u32 = 4;

/// Points that sway, cells that are blanked out now and then, and a point that is NaN at one step.
fn series() -> FlatSeries {
    let step = |t: u32| {
        let n = DIMS.iter().product::<usize>();
        let point = |at: usize| {
            let x = [at % DIMS[0], at / DIMS[0] % DIMS[1], at / DIMS[0] / DIMS[1]].map(|i| i as f64);
            let sway = |a: usize| 0.3 * (f64::from(t) + 0.7 * x[(a + 1) % 3]).sin();
            core::array::from_fn::<f64, 3, _>(|a| match (t, at) {
                (2, 200) => f64::NAN,
                _ => x[a] + sway(a),
            })
        };
        let points: Vec<[f64; 3]> = (0..n).map(point).collect();
        let planes = |by: f64| (0..3).flat_map(|c| points.iter().map(move |x| by * x[c])).collect::<Vec<f64>>();
        let blank = (0..n).map(|at| i32::from(!(at + 5 * t as usize).is_multiple_of(37))).collect();
        let arrays = vec![
            ("xyz".to_owned(), 3, FlatArray::F64(planes(1.0))),
            ("velocity".to_owned(), 3, FlatArray::F64(planes(-2.0))),
            ("iblank".to_owned(), 1, FlatArray::I32(blank)),
        ];
        FlatNodes::from_arrays(vec![("zone1".to_owned(), DIMS, arrays)])
    };
    FlatSeries::new((0..STEPS).map(step).collect(), &[])
}

fn space(series: &FlatSeries) -> ZoneLocator<TimeInterpolated<FlatSeries>> {
    let fields: Vec<ZoneFields> = series
        .zones()
        .iter()
        .map(|z| ZoneFields::named(z, Some("velocity"), &[], 1.4, FreeStream::from(f64::NAN)).unwrap())
        .collect();
    ZoneLocator::new(TimeInterpolated::new(series.clone()), Arc::from(fields))
}

#[test]
fn a_cell_is_at_every_moment_what_it_is_when_it_is_loaded_anew() {
    let series = series();
    let mut kept = space(&series);
    let mut number = 1u64;
    let mut random = move |below: u64| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (number >> 33) % below
    };
    let (mut lanes, mut found) = ([(u32::MAX, 0.0); 4], 0);
    for _ in 0..20_000 {
        let lane = random(4) as usize;
        kept.take_turn(lane);
        let (interval, weight) = (random(u64::from(STEPS)) as u32, random(5) as f64 / 4.0);
        // Mostly another time between the same steps.
        let interval = if lanes[lane].0 == u32::MAX || random(20) == 0 { interval } else { lanes[lane].0 };
        let next = (interval + 1).min(STEPS - 1);
        kept.nodes.set_steps(interval, next);
        if lanes[lane].0 != interval {
            kept.forget();
        }
        lanes[lane] = (interval, weight);
        kept.nodes.set_weight(weight);
        let cell = CellId { zone: 0, ijk: [4, 3, 2].map(|n| n + random(3) as u32) };
        let mut anew = space(&series);
        anew.nodes.set_steps(interval, next);
        anew.nodes.set_weight(weight);
        if random(2) == 0 {
            let (a, b) = (kept.cell(cell).unwrap().vector.at([0.3; 3]), anew.cell(cell).unwrap().vector.at([0.3; 3]));
            assert_eq!(a.xyz().map(f64::to_bits), b.xyz().map(f64::to_bits));
        }
        let bits = |v: &[V4; 8]| v.map(|v| v.xyz().map(|c| if c.is_nan() { u64::MAX } else { c.to_bits() }));
        let (a, b) = (kept.geometry(cell).unwrap(), anew.geometry(cell).unwrap());
        assert_eq!((a.blank, bits(&a.shape)), (b.blank, bits(&b.shape)), "{cell:?} {interval} {weight}");
        // At a step, only that step's boxes are searched.
        let inside = b.map().point([0.5; 3]);
        if random(8) == 0 && inside.iter().all(|c| c.is_finite()) {
            let spot = anew.find(0, V4::from_xyz(inside)).unwrap();
            assert_eq!(kept.find(0, V4::from_xyz(inside)).unwrap(), spot);
            let usable = anew.geometry(cell).unwrap().blank == Blank::Field;
            assert!(!usable || spot.is_some(), "{cell:?} {interval} {weight}");
            found += u32::from(spot.is_some());
        }
    }
    assert!(found > 1000);
}
