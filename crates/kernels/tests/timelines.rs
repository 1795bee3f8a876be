//! Timelines against exact solutions: a sheared curve stays a line, and a rotated one keeps its shape. An added
//! particle is where one released at the begin would be.

mod moving;

use field::in_memory_series::FlatSeries;
use field::locator::ZoneFields;
use field::nodes::{Nodes, Zone};
use kernels::flow::ZoneOrder;
use kernels::line::{JoinedLine, Reason};
use kernels::pathline::{PathOptions, Pathline};
use kernels::rk::Method;
use kernels::streamline::{Seed, StepProgress};
use kernels::timeline::{Refine, Timeline, TimelineOptions};
use kernels::unsteady::{Series, UnsteadyFlow, UnsteadyLine};
use moving::{series, still};
use std::sync::Arc;

const TIMES: [f64; 4] = [0.0, 0.5, 1.0, 1.5];

fn options(refine: Refine, stops: &[f64]) -> TimelineOptions {
    let path = PathOptions {
        method: Method::Rk45,
        tolerance: 1e-10,
        times: [0.0, 1.5],
        max_length: f64::INFINITY,
        max_steps: 100_000,
        time_step: None,
        step_cells: 0.25,
        stops: stops.into(),
        stop: None,
        every_step: true,
    };
    TimelineOptions { path, refine, max_points: 1000 }
}

fn flow(nodes: &FlatSeries) -> UnsteadyFlow<FlatSeries> {
    let named = |z: &Zone| ZoneFields::named(z, Some("velocity"), &["speed".to_owned()], 1.4, 1.0).unwrap();
    let fields: Arc<[ZoneFields]> = nodes.zones().iter().map(named).collect();
    let count = nodes.steps().len();
    let series = Series { times: TIMES[..count].into(), fields: vec![fields; count].into(), linear: true };
    UnsteadyFlow::new(nodes.clone(), Arc::new(series), ZoneOrder::file(1))
}

fn trace(nodes: &FlatSeries, curve: &[[f64; 3]], o: &TimelineOptions) -> JoinedLine {
    let mut flow = flow(nodes);
    let mut line = Timeline::along(curve.into(), o, 1);
    while line.step(&mut flow, o, 1).unwrap() != StepProgress::Done {}
    line.into_line()
}

/// Parameters of the points at a time.
fn s_at(line: &JoinedLine, time: f64) -> Vec<f64> {
    (0..line.points.len()).filter(|n| line.time[*n] == time).map(|n| line.fields[3 * n + 1]).collect()
}

fn apart(a: [f64; 3], b: [f64; 3]) -> f64 {
    (0..3).map(|c| (a[c] - b[c]).powi(2)).sum::<f64>().sqrt()
}

fn shear(x: [f64; 3], _: f64) -> [f64; 3] {
    [0.5 * (x[1] - 0.5), 0.0, 0.0]
}

fn spin(x: [f64; 3], _: f64) -> [f64; 3] {
    [0.5 - x[1], x[0] - 0.5, 0.0]
}

#[test]
fn a_sheared_line_stays_a_line_and_as_fine_as_asked() {
    let nodes = series(&TIMES, &still, &shear, None);
    let curve = [[0.5, 0.1, 0.4], [0.5, 0.5, 0.4], [0.5, 0.9, 0.4]];
    let line = trace(&nodes, &curve, &options(Refine::Length(0.05), &[0.0, 0.75]));
    assert_eq!(line.reason, Some(Reason::Time));
    for time in [0.0, 0.75, 1.5] {
        let of: Vec<usize> = (0..line.points.len()).filter(|n| line.time[*n] == time).collect();
        for n in &of {
            let (p, [speed, s, age]) = (line.points[*n], [0, 1, 2].map(|c| line.fields[3 * n + c]));
            let y = 0.1 + 0.4 * s;
            assert!(apart(p, [0.5 + 0.5 * (y - 0.5) * time, y, 0.4]) < 1e-13, "{p:?} at {time}");
            assert!((speed - 0.5 * (y - 0.5)).abs() < 1e-13);
            assert_eq!(age, time);
        }
        assert!(of.windows(2).all(|w| apart(line.points[w[0]], line.points[w[1]]) <= 0.05), "gaps at {time}");
        let s = s_at(&line, time);
        assert!(s.windows(2).all(|w| w[0] < w[1]) && s.first() == Some(&0.0) && s.last() == Some(&2.0));
    }
    assert!(s_at(&line, 1.5).len() > s_at(&line, 0.0).len(), "it stretches");
    // As a multiple of the distance at the release: half of sqrt(1 + 0.75^2) = 1.25 adds none.
    assert_eq!(s_at(&trace(&nodes, &curve, &options(Refine::Times(1.26), &[])), 1.5).len(), 3);
    assert_eq!(s_at(&trace(&nodes, &curve, &options(Refine::Times(1.24), &[])), 1.5).len(), 5);
    assert_eq!(s_at(&trace(&nodes, &curve, &options(Refine::Never, &[])), 1.5).len(), 3);
}

#[test]
fn a_curve_that_turns_keeps_its_shape() {
    let nodes = series(&TIMES, &still, &spin, None);
    let curve: Vec<[f64; 3]> = (0..9).map(|n| [0.6 + 0.02 * f64::from(n), 0.5, 0.3]).collect();
    let line = trace(&nodes, &curve, &options(Refine::Times(1.01), &[]));
    assert_eq!(line.points.len(), 9, "nothing stretches");
    let (sin, cos) = 1.5f64.sin_cos();
    for (p, x) in line.points.iter().zip(&curve) {
        let r = x[0] - 0.5;
        assert!(apart(*p, [0.5 + r * cos, 0.5 + r * sin, 0.3]) < 1e-8, "{p:?}");
    }
}

#[test]
fn the_order_of_the_method() {
    let nodes = series(&TIMES, &still, &spin, None);
    let error = |time_step: f64| {
        let mut o = options(Refine::Never, &[]);
        (o.path.method, o.path.time_step) = (Method::Rk4, Some(time_step));
        let line = trace(&nodes, &[[0.8, 0.5, 0.3], [0.9, 0.5, 0.3]], &o);
        let (sin, cos) = 1.5f64.sin_cos();
        apart(line.points[1], [0.5 + 0.4 * cos, 0.5 + 0.4 * sin, 0.3])
    };
    let errors = [0.25, 0.125, 0.0625].map(error);
    for pair in errors.windows(2) {
        let order = (pair[0] / pair[1]).log2();
        assert!((3.8..4.4).contains(&order), "order {order} of {errors:?}");
    }
}

#[test]
fn a_particle_put_in_later_is_where_it_would_be() {
    let strain = |x: [f64; 3], t: f64| [(x[0] - 0.5) * (0.5 + t), -(x[1] - 0.5) * (0.5 + t), 0.1 * (x[0] - x[2])];
    let nodes = series(&TIMES, &still, &strain, None);
    let curve = [[0.45, 0.2, 0.3], [0.52, 0.8, 0.5]];
    let o = options(Refine::Length(0.1), &[]);
    let line = trace(&nodes, &curve, &o);
    assert!(line.points.len() > 4);
    let mut flow = flow(&nodes);
    for (n, p) in line.points.iter().enumerate() {
        let s = line.fields[3 * n + 1];
        let x =
            core::array::from_fn(
                |c| if s == 1.0 { curve[1][c] } else { curve[0][c] + (curve[1][c] - curve[0][c]) * s },
            );
        let mut alone = Pathline::new(Seed::Physical(x), &o.path, 1);
        while alone.step(&mut flow, &o.path, 0).unwrap() != StepProgress::Done {}
        assert_eq!(p, alone.into_line().points.last().unwrap(), "s = {s}");
    }
}

#[test]
fn what_cannot_be_as_fine_says_so() {
    let nodes = series(&TIMES, &still, &shear, None);
    let curve = [[0.5, 0.1, 0.4], [0.5, 0.9, 0.4]];
    let line = trace(&nodes, &curve, &TimelineOptions { max_points: 9, ..options(Refine::Length(0.01), &[]) });
    assert_eq!((line.points.len(), line.reason), (9, Some(Reason::Points)));
}

#[test]
fn particles_that_have_ended_are_left_out() {
    let along = |_: [f64; 3], _: f64| [0.2, 0.0, 0.0];
    let hole = |unit: [f64; 3], _: f64| unit[0] > 0.6 && (unit[1] - 0.5).abs() < 0.15;
    let nodes = series(&TIMES, &still, &along, Some(&hole));
    let curve: Vec<[f64; 3]> = (0..9).map(|n| [0.5, 0.1 + 0.1 * f64::from(n), 0.4]).collect();
    let line = trace(&nodes, &curve, &options(Refine::Times(1.5), &[]));
    let s = s_at(&line, 1.5);
    assert!(s.contains(&0.0) && s.contains(&8.0) && !s.contains(&4.0), "{s:?}");
    assert_eq!(line.reason, Some(Reason::Time));
    let outside = trace(&nodes, &[[5.0, 5.0, 5.0], [6.0, 5.0, 5.0]], &options(Refine::Never, &[]));
    assert_eq!((outside.points.len(), outside.reason, outside.outside), (0, Some(Reason::Left), true));
    // All have left: the line is as empty, but its seeds are in the grid.
    let fast = series(&TIMES, &still, &|_: [f64; 3], _: f64| [9.0, 0.0, 0.0], None);
    let left = trace(&fast, &curve, &options(Refine::Never, &[]));
    assert_eq!((left.points.len(), left.reason, left.outside), (0, Some(Reason::Left), false));
}
