//! Lines that end where a condition holds, in known flows and fields.

mod moving;

use field::expression::{parse::parse, Condition};
use field::in_memory::{FlatArray, FlatNodes};
use field::in_memory_series::FlatSeries;
use field::locator::{CellId, ZoneFields, ZoneLocator, LANES};
use field::nodes::{Nodes, Zone};
use kernels::flow::{GridFlow, ZoneOrder};
use kernels::line::{JoinedLine, Reason};
use kernels::pathline::{PathOptions, Pathline};
use kernels::rk::Method;
use kernels::saved_state::{SavedState, Saver};
use kernels::streakline::{StreakOptions, Streakline};
use kernels::streamline::{step_lanes, Direction, Integrator, Options, Seed, StepProgress, Streamline};
use kernels::unsteady::{Series, UnsteadyFlow, UnsteadyLine};
use moving::{series, still};
use std::sync::Arc;

fn condition(text: &str) -> Option<Arc<Condition>> {
    Some(Arc::new(Condition::of(&parse(text).unwrap()).unwrap()))
}

/// A vortex on a warped grid; `height` is x, which trilinear cells represent exactly.
fn vortex() -> GridFlow<FlatNodes> {
    let n = [12usize, 11, 5];
    let count = n[0] * n[1] * n[2];
    let (mut xyz, mut v, mut height) = (vec![0.0; 3 * count], vec![0.0; 3 * count], vec![0.0; count]);
    for at in 0..count {
        let f: [f64; 3] =
            core::array::from_fn(|a| [at % n[0], at / n[0] % n[1], at / n[0] / n[1]][a] as f64 / (n[a] - 1) as f64);
        let x = [f[0] + 0.05 * (3.0 * f[1]).sin() * f[0] * (1.0 - f[0]), f[1] + 0.04 * (2.0 * f[0]).cos(), f[2]];
        let u = [0.5 - x[1], x[0] - 0.5, 0.02];
        for c in 0..3 {
            (xyz[c * count + at], v[c * count + at]) = (x[c], u[c]);
        }
        height[at] = x[0];
    }
    let arrays = vec![
        ("xyz".to_owned(), 3, FlatArray::F64(xyz)),
        ("velocity".to_owned(), 3, FlatArray::F64(v)),
        ("height".to_owned(), 1, FlatArray::F64(height)),
    ];
    let nodes = FlatNodes::from_arrays(vec![("zone1".to_owned(), n, arrays)]);
    // Two are kept, and one is for the condition.
    let sampled = ["velocity_y", "velocity_x", "height"].map(str::to_owned);
    let fields: Vec<_> =
        nodes.zones().iter().map(|z| ZoneFields::named(z, Some("velocity"), &sampled, 1.4, 1.0).unwrap()).collect();
    GridFlow::new(ZoneLocator::new(nodes, fields.into()), ZoneOrder::file(1))
}

fn alone(flow: &mut GridFlow<FlatNodes>, x: [f64; 3], o: &Options) -> JoinedLine {
    let mut line = Streamline::new(Seed::Physical(x), o, 2);
    while line.step(flow, o).unwrap() != StepProgress::Done {}
    line.into_line()
}

const METHODS: [Integrator; 3] = [Integrator::Rk45, Integrator::Rk45Physical, Integrator::Fixed(Method::Rk4)];

#[test]
fn a_streamline_ends_at_the_first_point_where_it_holds() {
    for method in METHODS {
        let free = Options { method, max_steps: 400, max_time: 5.0, direction: Direction::Both, ..Options::default() };
        let stops = Options { stop: condition("height > 0.625"), ..free.clone() };
        let mut flow = vortex();
        let (mut stopped, mut ended) = (0, 0);
        for n in 0..24 {
            let angle = f64::from(n) * 0.7;
            let r = 0.06 + 0.012 * f64::from(n);
            let x = [0.5 + r * angle.cos(), 0.5 + r * angle.sin(), 0.3];
            let (all, cut) = (alone(&mut flow, x, &free), alone(&mut flow, x, &stops));
            let holds = |p: &[f64; 3]| p[0] > 0.625;
            // The end of the half from the seed on.
            let after = all.points[all.seed..].iter().position(holds);
            let before = all.points[..=all.seed].iter().rev().position(holds);
            let last = after.map_or(all.points.len() - 1, |n| all.seed + n);
            let first = before.map_or(0, |n| all.seed - n);
            assert_eq!(cut.points, all.points[first..=last], "{method:?} {n}");
            assert_eq!(
                (&cut.time[..], &cut.fields[..]),
                (&all.time[first..=last], &all.fields[2 * first..=2 * last + 1])
            );
            assert_eq!(cut.reason, if after.is_some() { Some(Reason::Stopped) } else { all.reason });
            assert_eq!(cut.reason_backward, if before.is_some() { Some(Reason::Stopped) } else { all.reason_backward });
            stopped += usize::from(after.is_some_and(|n| n > 0));
            ended += usize::from(after.is_none());
        }
        assert!(stopped > 5 && ended > 3, "{stopped} {ended}");
    }
}

#[test]
fn a_seed_where_it_holds_is_all_of_its_line() {
    let o = Options { direction: Direction::Both, stop: condition("not height < 0.4"), ..Options::default() };
    let line = alone(&mut vortex(), [0.6, 0.5, 0.5], &o);
    assert_eq!((line.points, line.seed), (vec![[0.6, 0.5, 0.5]], 0));
    assert_eq!((line.reason, line.reason_backward), (Some(Reason::Stopped), Some(Reason::Stopped)));
}

/// Other reasons at the same point do not matter.
#[test]
fn that_it_stopped_tells_more_than_that_it_had_to_end() {
    for method in METHODS {
        let mut flow = vortex();
        let o = Options { method, stop: condition("height > 0.62"), max_steps: 500, ..Options::default() };
        let line = alone(&mut flow, [0.5, 0.3, 0.3], &o);
        let steps = line.points.len() as u32 - 1;
        assert!(steps > 1 && line.reason == Some(Reason::Stopped));
        let same = alone(&mut flow, [0.5, 0.3, 0.3], &Options { max_steps: steps, ..o.clone() });
        assert_eq!((same.points, same.reason), (line.points, Some(Reason::Stopped)));
        let fewer = alone(&mut flow, [0.5, 0.3, 0.3], &Options { max_steps: steps - 1, ..o });
        assert_eq!(fewer.reason, Some(Reason::Steps));
    }
}

#[test]
fn lanes_do_not_matter() {
    let o = Options {
        direction: Direction::Both,
        stop: condition("height > 0.6 or height < 0.3"),
        max_time: 4.0,
        ..Options::default()
    };
    let seeds: Vec<[f64; 3]> = (0..4).map(|n| [0.45 + 0.02 * f64::from(n), 0.2 + 0.1 * f64::from(n), 0.3]).collect();
    let single: Vec<JoinedLine> = seeds.iter().map(|x| alone(&mut vortex(), *x, &o)).collect();
    let mut lines: Vec<Streamline> = seeds.iter().map(|x| Streamline::new(Seed::Physical(*x), &o, 2)).collect();
    let (mut flow, mut done) = (vortex(), [false; LANES]);
    while done != [true; LANES] {
        let mut each = lines.iter_mut();
        let lanes = core::array::from_fn(|n| each.next().filter(|_| !done[n]));
        step_lanes(&mut flow, &o, lanes, |n, _, _, r| done[n] = r.unwrap() == StepProgress::Done);
    }
    let together: Vec<JoinedLine> = lines.into_iter().map(Streamline::into_line).collect();
    assert_eq!(together, single);
    assert!(single.iter().any(|l| l.reason == Some(Reason::Stopped)));
}

const TIMES: [f64; 4] = [0.0, 0.5, 1.0, 2.0];

/// A flow along x that is faster farther on: `speed` is linear, so its samples are exact.
fn faster() -> FlatSeries {
    series(&TIMES, &still, &|x, _| [0.2 + 0.2 * x[0], 0.0, 0.0], None)
}

fn path(times: [f64; 2]) -> PathOptions {
    PathOptions {
        method: Method::Rk45,
        tolerance: 1e-7,
        times,
        max_length: f64::INFINITY,
        max_steps: 1000,
        time_step: Some(0.07),
        step_cells: 0.25,
        every_step: true,
        stops: [].into(),
        stop: condition("speed >= 0.26"),
    }
}

fn flow(nodes: &FlatSeries) -> UnsteadyFlow<FlatSeries> {
    let sampled = ["speed", "speed"].map(str::to_owned);
    let named = |z: &Zone| ZoneFields::named(z, Some("velocity"), &sampled, 1.4, 1.0).unwrap();
    let fields: Arc<[ZoneFields]> = nodes.zones().iter().map(named).collect();
    let series = Series { times: TIMES.into(), fields: vec![fields; TIMES.len()].into(), linear: true };
    UnsteadyFlow::new(nodes.clone(), Arc::new(series), ZoneOrder::file(1))
}

fn run<L: UnsteadyLine<Cell = CellId>>(line: &mut L, o: &L::Options) {
    let nodes = faster();
    let mut flow = flow(&nodes);
    while line.step(&mut flow, o, 1).unwrap() != StepProgress::Done {}
}

fn particle(x: f64, o: &PathOptions) -> JoinedLine {
    let mut line = Pathline::new(Seed::Physical([x, 0.5, 0.5]), o, 1);
    run(&mut line, o);
    line.into_line()
}

#[test]
fn a_pathline_ends_at_the_first_step_where_it_holds() {
    let o = path([0.0, 2.0]);
    let all = particle(0.1, &PathOptions { stop: None, ..o.clone() });
    // 0.2 + 0.2 x >= 0.26 from x = 0.3 on.
    let n = all.points.iter().position(|p| p[0] >= 0.3).unwrap();
    let line = particle(0.1, &o);
    assert!(n > 3 && n + 3 < all.points.len());
    assert_eq!((&line.points[..], &line.time[..]), (&all.points[..=n], &all.time[..=n]));
    assert_eq!((line.reason, line.fields.len()), (Some(Reason::Stopped), n + 1));
    // x(t) = (1 + x0) exp(0.2 t) - 1, so it is there at 5 ln(1.3 / 1.1).
    let exact = 5.0 * (1.3f64 / 1.1).ln();
    assert!((0.0..0.07 + 1e-6).contains(&(line.time[n] - exact)), "{} {exact}", line.time[n]);
    // Whichever points are kept.
    let few = particle(0.1, &PathOptions { every_step: false, ..o.clone() });
    assert_eq!((few.points.last(), few.time.last()), (line.points.last(), line.time.last()));
    assert!(few.points.len() < line.points.len() && few.reason == Some(Reason::Stopped));
    let at_once = particle(0.5, &o);
    assert_eq!((at_once.points.len(), at_once.reason), (1, Some(Reason::Stopped)));
}

/// A stopped particle does not continue when the series is longer, also if it stopped at the last time.
#[test]
fn what_has_stopped_stays_where_a_run_goes_on() {
    let whole = path([0.0, 2.0]);
    for x in [0.1, 0.15, 0.3 - 1e-9, 0.02] {
        let first = PathOptions { times: [0.0, 1.0], ..whole.clone() };
        let mut line = Pathline::new(Seed::Physical([x, 0.5, 0.5]), &first, 1);
        run(&mut line, &first);
        let mut kept = Saver::default();
        line.save(&first, &mut kept);
        let mut on = Pathline::restore(Seed::Physical([x, 0.5, 0.5]), &whole, 1, &mut SavedState(&kept.0)).unwrap();
        run(&mut on, &whole);
        assert_eq!(on.into_line(), particle(x, &whole), "{x}");
    }
}

#[test]
fn a_streakline_has_those_that_have_not_stopped() {
    let releases = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0];
    let o = StreakOptions { path: path([0.0, 2.0]), releases: releases.into() };
    let mut line = Streakline::new(Seed::Physical([0.1, 0.5, 0.5]), &o, 1);
    run(&mut line, &o);
    let line = line.into_line();
    assert_eq!(line.reason, Some(Reason::Time));
    // Sampled speed, birth, age: particles younger than the time to x = 0.3 remain.
    let ages: Vec<f64> = line.fields.chunks(3).map(|f| f[2]).collect();
    let exact = 5.0 * (1.3f64 / 1.1).ln();
    let young: Vec<f64> = releases.iter().rev().map(|t| 2.0 - t).filter(|age| *age < exact).collect();
    assert_eq!(ages, young);
    assert!(line.points.iter().all(|p| p[0] < 0.3));
}
