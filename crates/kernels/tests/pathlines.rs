//! Pathlines against exact solutions: uniform flows, rotating grids, holes that come and go.

mod moving;

use field::in_memory::{FlatArray, FlatNodes};
use field::in_memory_series::FlatSeries;
use field::locator::ZoneFields;
use field::nodes::{Nodes, Zone};
use field::uniform::Uniform;
use kernels::flow::ZoneOrder;
use kernels::line::{JoinedLine, Reason};
use kernels::pathline::{PathOptions, Pathline};
use kernels::rk::Method;
use kernels::streakline::{StreakOptions, Streakline};
use kernels::streamline::{Seed, StepProgress};
use kernels::unsteady::{Series, UnsteadyFlow, UnsteadyLine};
use moving::{series, still, DIMS};
use std::sync::Arc;

fn options(times: [f64; 2]) -> PathOptions {
    PathOptions {
        method: Method::Rk45,
        tolerance: 1e-9,
        times,
        max_length: f64::INFINITY,
        max_steps: 100_000,
        time_step: None,
        step_cells: 0.25,
        every_step: true,
        stops: [].into(),
        stop: None,
    }
}

fn trace(nodes: &FlatSeries, times: &[f64], linear: bool, x: [f64; 3], o: &PathOptions) -> JoinedLine {
    let named = |z: &Zone| ZoneFields::named(z, Some("velocity"), &["speed".to_owned()], 1.4, 1.0).unwrap();
    let fields: Arc<[ZoneFields]> = nodes.zones().iter().map(named).collect();
    let series = Series { times: times.into(), fields: vec![fields; times.len()].into(), linear };
    let mut flow = UnsteadyFlow::new(nodes.clone(), Arc::new(series), ZoneOrder::file(1));
    let mut line = Pathline::new(Seed::Physical(x), o, 1);
    while line.step(&mut flow, o, 2).unwrap() != StepProgress::Done {}
    line.into_line()
}

fn turned(x: [f64; 3], angle: f64) -> [f64; 3] {
    let (s, c) = angle.sin_cos();
    let (u, v) = (x[0] - 0.5, x[1] - 0.5);
    [0.5 + c * u - s * v, 0.5 + s * u + c * v, x[2]]
}

fn end(line: &JoinedLine) -> [f64; 3] {
    *line.points.last().unwrap()
}

fn close(a: [f64; 3], b: [f64; 3], most: f64) {
    assert!((0..3).all(|c| (a[c] - b[c]).abs() <= most), "{a:?} {b:?}");
}

#[test]
fn a_flow_that_speeds_up_everywhere() {
    // Linear in time, so interpolation is exact and so is any method of second order.
    let times = [0.0, 0.2, 0.25, 0.7, 1.0];
    let nodes = series(&times, &still, &|_, t| [0.1 + 0.2 * t, 0.3 - 0.4 * t, 0.05], None);
    let at = |x: [f64; 3], t: f64| [x[0] + 0.1 * t + 0.1 * t * t, x[1] + 0.3 * t - 0.2 * t * t, x[2] + 0.05 * t];
    let x = [0.2, 0.3, 0.4];
    for method in [Method::Rk45, Method::Rk4] {
        let line = trace(&nodes, &times, true, x, &PathOptions { method, ..options([0.0, 1.0]) });
        assert_eq!((line.reason, line.time[0]), (Some(Reason::Time), 0.0));
        assert_eq!(*line.time.last().unwrap(), 1.0);
        for t in &times {
            assert!(line.time.contains(t), "steps end at the times of the series");
        }
        for (p, t) in line.points.iter().zip(&line.time) {
            close(*p, at(x, *t), 1e-13);
        }
        for (v, t) in line.fields.iter().zip(&line.time) {
            assert!((v - (0.1 + 0.2 * t)).abs() < 1e-14, "sampled fields are those of the moment");
        }
        // From between two steps to between two others.
        let part = trace(&nodes, &times, true, x, &PathOptions { method, ..options([0.1, 0.6]) });
        let moved: [f64; 3] = core::array::from_fn(|c| x[c] + at(x, 0.6)[c] - at(x, 0.1)[c]);
        close(end(&part), moved, 1e-13);
    }
}

#[test]
fn back_in_time_is_the_way_back() {
    let times = [0.0, 0.5, 1.0, 1.5];
    let swirl = |x: [f64; 3], t: f64| [-(x[1] - 0.5) * (1.0 + t), (x[0] - 0.5) * (1.0 + t), 0.1 * t];
    let nodes = series(&times, &still, &swirl, None);
    let there = trace(&nodes, &times, true, [0.7, 0.5, 0.2], &options([0.2, 1.4]));
    assert_eq!(there.reason, Some(Reason::Time));
    let back = trace(&nodes, &times, true, end(&there), &options([1.4, 0.2]));
    assert_eq!((back.time[0], *back.time.last().unwrap()), (1.4, 0.2));
    close(end(&back), [0.7, 0.5, 0.2], 1e-7);
    assert!(back.time.windows(2).all(|t| t[1] < t[0]));
}

#[test]
fn a_grid_that_turns_makes_no_line_crooked() {
    // Uniform flow on a grid that turns by half a radian a step: corners move on chords, the flow is the same in all cells.
    let times = [0.0, 1.0, 2.0, 3.0];
    let nodes = series(&times, &|x, t| turned(x, 0.5 * t), &|_, _| [0.1, 0.05, 0.02], None);
    for method in [Method::Rk45, Method::Rk4, Method::Euler] {
        let line = trace(&nodes, &times, true, [0.35, 0.4, 0.5], &PathOptions { method, ..options([0.0, 3.0]) });
        assert_eq!(line.reason, Some(Reason::Time));
        for (p, t) in line.points.iter().zip(&line.time) {
            close(*p, [0.35 + 0.1 * t, 0.4 + 0.05 * t, 0.5 + 0.02 * t], 1e-12);
        }
    }
}

#[test]
fn a_grid_that_moves_on_leaves_a_particle_behind() {
    let times = [0.0, 1.0, 2.0];
    let nodes = series(&times, &|x, t| [x[0] + t, x[1], x[2]], &|_, _| [0.0; 3], None);
    let line = trace(&nodes, &times, true, [0.75, 0.5, 0.5], &options([0.0, 2.0]));
    assert_eq!(line.reason, Some(Reason::Left));
    // The trailing face passes it at 0.75, and a step is halved down to a thousandth.
    let last = *line.time.last().unwrap();
    assert!((0.74..=0.75).contains(&last), "{last}");
    // It may move along with the grid instead.
    let nodes = series(&times, &|x, t| [x[0] + t, x[1], x[2]], &|_, _| [1.0, 0.0, 0.0], None);
    let line = trace(&nodes, &times, true, [0.75, 0.5, 0.5], &options([0.0, 2.0]));
    assert_eq!(line.reason, Some(Reason::Time));
    close(end(&line), [2.75, 0.5, 0.5], 1e-12);
}

#[test]
fn linear_interpolation_is_of_second_order_in_time() {
    // x' = cos 3t, with a known integral; the flow is uniform.
    let error = |steps: usize| {
        let times: Vec<f64> = (0..=steps).map(|n| n as f64 / steps as f64).collect();
        let nodes = series(&times, &still, &|_, t| [0.5 * (3.0 * t).cos(), 0.0, 0.0], None);
        let line = trace(&nodes, &times, true, [0.2, 0.5, 0.5], &options([0.0, 1.0]));
        (end(&line)[0] - 0.2 - 0.5 * 3.0f64.sin() / 3.0).abs()
    };
    let slope = (error(8) / error(16)).log2();
    assert!((slope - 2.0).abs() < 0.05, "{slope}");
}

#[test]
fn a_step_may_hold_until_the_next() {
    let times = [0.0, 0.5, 1.0];
    let nodes = series(&times, &still, &|_, t| [0.2 + 0.4 * t, 0.0, 0.0], None);
    let line = trace(&nodes, &times, false, [0.1, 0.5, 0.5], &options([0.0, 1.0]));
    close(end(&line), [0.1 + 0.5 * 0.2 + 0.5 * 0.4, 0.5, 0.5], 1e-13);
    let back = trace(&nodes, &times, false, end(&line), &options([1.0, 0.0]));
    close(end(&back), [0.1, 0.5, 0.5], 1e-13);
}

#[test]
fn lengths_end_lines_wherever_they_end() {
    // A step shortened for length ends just before a time of the series.
    let times = [0.0, 1.0, 2.0];
    let nodes = series(&times, &still, &|_, _| [0.1, 0.0, 0.0], None);
    for max_length in [0.05, 0.0995, 0.09999999, 0.1, 0.1995, 0.2] {
        for method in [Method::Rk45, Method::Rk4] {
            let o = PathOptions { method, max_length, time_step: Some(1.0), ..options([0.0, 2.0]) };
            let line = trace(&nodes, &times, true, [0.1, 0.5, 0.5], &o);
            assert!(matches!(line.reason, Some(Reason::Length | Reason::Time)), "{max_length} {:?}", line.reason);
            assert!((end(&line)[0] - 0.1 - max_length).abs() < 1e-8, "{max_length}");
        }
    }
}

#[test]
fn a_grid_that_jumps_from_step_to_step_is_searched_anew() {
    // The flow is steady, so held steps give the same.
    let times = [0.0, 0.25, 0.5, 0.75];
    let moving = |x: [f64; 3], t: f64| [4.0 * x[0] - 2.0 * t, x[1], x[2]];
    let nodes = series(&times, &moving, &|x, _| [0.2 * x[0], 0.0, 0.0], None);
    for method in [Method::Rk45, Method::Rk4] {
        let o = PathOptions { method, ..options([0.0, 0.75]) };
        for linear in [true, false] {
            let line = trace(&nodes, &times, linear, [1.0, 0.5, 0.5], &o);
            assert_eq!(line.reason, Some(Reason::Time));
            assert!((end(&line)[0] - 0.15f64.exp()).abs() < 1e-7, "{method:?} {linear} {}", end(&line)[0]);
        }
    }
    // A particle outside of the next step's grid ends there.
    let line = trace(&nodes, &times, false, [3.7, 0.5, 0.5], &options([0.0, 0.75]));
    assert_eq!((line.reason, *line.time.last().unwrap()), (Some(Reason::Left), 0.25));
}

#[test]
fn still_water_ends_with_time() {
    let times = [0.0, 1.0, 2.0];
    for size in [0.0, 1e-17, 1e-300, 1e200] {
        let nodes =
            series(&times, &still, &|x, t| [size * (7.0 * x[1] + t).sin(), size * (5.0 * x[0]).cos(), 0.0], None);
        for method in [Method::Rk45, Method::Rk4] {
            let o = PathOptions { method, max_steps: 2000, ..options([0.0, 2.0]) };
            let line = trace(&nodes, &times, true, [0.3, 0.5, 0.5], &o);
            // A vector with infinite length counts as a hole.
            let reason = if size > 1.0 { Reason::Hole } else { Reason::Time };
            assert_eq!(line.reason, Some(reason), "{size:e} {method:?}, {} points", line.points.len());
        }
    }
    // Times with a rounding larger than a step.
    let nodes = series(&[0.0], &still, &|x, _| [0.5 - x[1], x[0] - 0.5, 0.0], None);
    let o = options([1e17, 1.1e17]);
    assert_eq!(trace(&nodes, &[0.0], true, [0.3, 0.5, 0.5], &o).reason, Some(Reason::Time));
}

#[test]
fn coordinates_that_are_no_numbers_are_holes() {
    let times = [0.0, 1.0];
    let gone = |x: [f64; 3], t: f64| if t == 1.0 && x[0] > 0.6 { [f64::NAN; 3] } else { x };
    let nodes = series(&times, &gone, &|_, _| [0.5, 0.0, 0.0], None);
    let line = trace(&nodes, &times, true, [0.4, 0.5, 0.5], &options([0.0, 1.0]));
    assert_eq!(line.reason, Some(Reason::Hole));
}

#[test]
fn cells_blanked_at_either_step_hold_no_particle() {
    let times = [0.0, 1.0, 2.0];
    // At the last time a slab of points is blanked out, which counts from 1 on.
    let hole = |x: [f64; 3], t: f64| t == 2.0 && (0.45..0.7).contains(&x[0]);
    let nodes = series(&times, &still, &|_, _| [0.1, 0.0, 0.0], Some(&hole));
    let caught = trace(&nodes, &times, true, [0.45, 0.5, 0.5], &options([0.0, 2.0]));
    assert_eq!((caught.reason, *caught.time.last().unwrap()), (Some(Reason::Hole), 1.0));
    close(end(&caught), [0.55, 0.5, 0.5], 1e-12);
    let met = trace(&nodes, &times, true, [0.28, 0.5, 0.5], &options([0.0, 2.0]));
    assert_eq!(met.reason, Some(Reason::Hole));
    // Cells with a corner in the slab begin at 5/12.
    assert!((end(&met)[0] - 5.0 / 12.0).abs() < 1e-3 && *met.time.last().unwrap() > 1.0);
    let past = trace(&nodes, &times, true, [0.75, 0.5, 0.5], &options([0.0, 2.0]));
    assert_eq!(past.reason, Some(Reason::Time));
    let seeded = trace(&nodes, &times, true, [0.5, 0.5, 0.5], &options([1.5, 2.0]));
    assert_eq!((seeded.points.len(), seeded.reason), (0, Some(Reason::Left)));
}

#[test]
fn ends_by_length_and_steps_and_with_the_series() {
    let times = [0.0, 1.0];
    let nodes = series(&times, &still, &|_, _| [0.3, 0.0, 0.0], None);
    let x = [0.1, 0.5, 0.5];
    let line = trace(&nodes, &times, true, x, &PathOptions { max_length: 0.2, ..options([0.0, 1.0]) });
    assert_eq!(line.reason, Some(Reason::Length));
    close(end(&line), [0.3, 0.5, 0.5], 1e-9);
    let line = trace(&nodes, &times, true, x, &PathOptions { max_steps: 3, ..options([0.0, 1.0]) });
    assert_eq!((line.reason, line.points.len()), (Some(Reason::Steps), 4));
    let line = trace(&nodes, &times, true, [0.9, 0.5, 0.5], &options([0.0, 1.0]));
    assert_eq!(line.reason, Some(Reason::Left));
    let outside = trace(&nodes, &times, true, x, &options([3.0, 4.0]));
    assert!(outside.points.is_empty());
}

#[test]
fn steps_that_nearly_get_to_a_time_of_the_series_get_there() {
    // Five steps of 0.1 end slightly before 1, and the rest is no step.
    let times = [0.5, 1.0, 1.5];
    let nodes = series(&times, &still, &|_, t| [0.2 * t, 0.1, 0.0], None);
    for method in [Method::Rk45, Method::Rk4, Method::Euler] {
        let o = PathOptions { method, time_step: Some(0.1), ..options([0.5, 1.5]) };
        let line = trace(&nodes, &times, true, [0.1, 0.5, 0.5], &o);
        assert_eq!((line.reason, line.points.len()), (Some(Reason::Time), 11), "{method:?}");
    }
}

fn streak(nodes: &FlatSeries, times: &[f64], x: [f64; 3], o: &StreakOptions) -> JoinedLine {
    let named = |z: &Zone| ZoneFields::named(z, Some("velocity"), &["speed".to_owned()], 1.4, 1.0).unwrap();
    let fields: Arc<[ZoneFields]> = nodes.zones().iter().map(named).collect();
    let series = Series { times: times.into(), fields: vec![fields; times.len()].into(), linear: true };
    let mut flow = UnsteadyFlow::new(nodes.clone(), Arc::new(series), ZoneOrder::file(1));
    let mut line = Streakline::new(Seed::Physical(x), o, 1);
    while line.step(&mut flow, o, 1).unwrap() != StepProgress::Done {}
    line.into_line()
}

#[test]
fn a_streakline_is_where_the_particles_are() {
    let times = [0.0, 0.2, 0.25, 0.7, 1.0];
    let nodes = series(&times, &still, &|_, t| [0.1 + 0.2 * t, 0.3 - 0.4 * t, 0.05], None);
    let way = |t: f64| [0.1 * t + 0.1 * t * t, 0.3 * t - 0.2 * t * t, 0.05 * t];
    let x = [0.2, 0.3, 0.4];
    for (from, to) in [(0.0, 1.0), (0.1, 0.9), (1.0, 0.0), (0.8, 0.3)] {
        let count = 9;
        let releases: Vec<f64> = (0..count).map(|n| from + (to - from) * f64::from(n) / f64::from(count - 1)).collect();
        let o = StreakOptions { path: options([from, to]), releases: releases.clone().into() };
        let line = streak(&nodes, &times, x, &o);
        assert_eq!((line.reason, line.points.len()), (Some(Reason::Time), count as usize), "{from} to {to}");
        for (n, born) in releases.iter().rev().enumerate() {
            let moved = core::array::from_fn(|c| x[c] + way(to)[c] - way(*born)[c]);
            close(line.points[n], moved, 1e-13);
            let [speed, birth, age] = line.fields[3 * n..3 * n + 3] else { panic!("three fields") };
            assert!((speed - 0.1 - 0.2 * to).abs() < 1e-14 && birth == *born && age == (to - born).abs());
            assert_eq!(line.time[n], to);
        }
        // Each of them is at the end of its pathline.
        for (n, born) in releases.iter().rev().enumerate().skip(1) {
            let path = trace(&nodes, &times, true, x, &options([*born, to]));
            assert_eq!(end(&path), line.points[n]);
        }
    }
}

#[test]
fn particles_that_left_are_no_part_of_a_streakline() {
    let times = [0.0, 1.0, 2.0];
    let nodes = series(&times, &still, &|_, _| [0.5, 0.0, 0.0], None);
    let releases: Arc<[f64]> = [0.0, 0.5, 1.0, 1.5].into();
    let o = StreakOptions { path: options([0.0, 2.0]), releases };
    let line = streak(&nodes, &times, [0.4, 0.5, 0.5], &o);
    // They have left after 1.2.
    assert_eq!((line.reason, line.points.len()), (Some(Reason::Time), 2));
    close(line.points[0], [0.65, 0.5, 0.5], 1e-12);
    close(line.points[1], [0.9, 0.5, 0.5], 1e-12);
    let o = StreakOptions { releases: [0.0, 0.1].into(), ..o };
    // A line without remaining particles is as empty as one with a seed in no zone.
    for (x, outside) in [(0.4, false), (4.0, true)] {
        let line = streak(&nodes, &times, [x, 0.5, 0.5], &o);
        assert_eq!((line.reason, line.points.len(), line.outside), (Some(Reason::Left), 0, outside));
    }
}

#[test]
fn intervals_begin_and_end_at_steps() {
    let s: Series = Series { times: vec![0.0, 1.0, 3.0].into(), fields: Box::new([]), linear: true };
    for (t, forward, backward) in [(0.0, 0, 0), (0.5, 0, 0), (1.0, 1, 0), (2.0, 1, 1), (3.0, 1, 1)] {
        assert_eq!((s.interval(t, true), s.interval(t, false)), (Some(forward), Some(backward)), "{t}");
    }
    for t in [-0.1, 3.1, f64::NAN] {
        assert_eq!((s.interval(t, true), s.interval(t, false)), (None, None));
    }
    let one: Series = Series { times: vec![5.0].into(), fields: Box::new([]), linear: true };
    assert_eq!((one.interval(5.0, true), one.next(0)), (Some(0), 0));
}

/// A rotating flow in a steady grid.
fn round_and_round(uniform: bool, holes: Option<&dyn Fn([f64; 3], f64) -> bool>) -> FlatSeries {
    let velocity = |x: [f64; 3], t: f64| [0.5 - x[1], x[0] - 0.5, 0.1 * (3.0 * x[0] + t).sin()];
    let steps = [0.0, 1.0, 2.0].map(|t| {
        let made = series(&[t], &still, &velocity, holes);
        let one = &made.steps()[0];
        let even = Uniform { origin: [0.0; 3], spacing: DIMS.map(|n| 1.0 / (n - 1) as f64) };
        let zones = one.zones().iter().map(|z| Zone { uniform: uniform.then_some(even), ..z.clone() });
        let data = one.data().iter().map(|zone| {
            let mut zone = zone.clone();
            if let (true, FlatArray::F64(xyz)) = (uniform, &mut zone.arrays[0]) {
                xyz.fill(f64::NAN);
            }
            zone
        });
        FlatNodes::new(zones.collect(), data.collect())
    });
    FlatSeries::new(steps.into(), &["xyz"])
}

#[test]
fn a_uniform_grid_is_traced_without_its_coordinates() {
    let hole = |x: [f64; 3], _: f64| (x[0] - 0.8).hypot(x[1] - 0.5) < 0.1;
    for holes in [None, Some(&hole as &dyn Fn([f64; 3], f64) -> bool)] {
        let (even, plain) = (round_and_round(true, holes), round_and_round(false, holes));
        let mut ends = Vec::new();
        for method in [Method::Rk45, Method::Rk4] {
            let o = PathOptions { method, tolerance: 1e-10, time_step: Some(0.02), ..options([0.0, 2.0]) };
            // On corners and faces of cells, at the edge, outside, and elsewhere.
            for x in [
                [0.5, 0.3, 0.5],
                [0.4, 0.25, 0.75],
                [1.0, 1.0, 1.0],
                [0.0, 0.5, 0.5],
                [1.2, 0.5, 0.5],
                [0.61, 0.42, 0.37],
            ] {
                let (a, b) =
                    (trace(&even, &[0.0, 1.0, 2.0], true, x, &o), trace(&plain, &[0.0, 1.0, 2.0], true, x, &o));
                assert_eq!((a.points.is_empty(), a.reason), (b.points.is_empty(), b.reason), "{x:?}");
                if let (Some(p), Some(q)) = (a.points.last(), b.points.last()) {
                    // At an edge steps are halved until one is short enough, not until it is exact.
                    let most = if a.reason == Some(Reason::Time) { 1e-8 } else { 1e-3 };
                    close(*p, *q, most);
                    assert!((a.fields.last().unwrap() - b.fields.last().unwrap()).abs() < 10.0 * most);
                }
                ends.extend(a.reason);
            }
        }
        assert!(ends.contains(&Reason::Time) && ends.contains(&Reason::Left), "{ends:?}");
        assert_eq!(ends.contains(&Reason::Hole), holes.is_some());
    }
}

#[test]
fn points_at_the_times_of_the_series_alone() {
    let times = [0.0, 1.0, 2.0];
    let nodes = round_and_round(false, None);
    let all = options([0.25, 1.75]);
    let few = PathOptions { every_step: false, ..all.clone() };
    for (x, expected) in [([0.5, 0.3, 0.5], vec![0.25, 1.0, 1.75]), ([0.02, 0.02, 0.5], vec![0.25])] {
        let (all, few) = (trace(&nodes, &times, true, x, &all), trace(&nodes, &times, true, x, &few));
        assert_eq!(all.reason, few.reason);
        assert_eq!(all.points.last(), few.points.last(), "where it ends is kept");
        assert_eq!(few.time[..expected.len()], expected[..]);
        assert!(few.points.len() <= 4 && few.points.len() < all.points.len());
        for (p, t) in few.points.iter().zip(&few.time) {
            let n = all.time.iter().position(|u| u == t).expect("one of all points");
            assert_eq!(*p, all.points[n]);
        }
    }
}
