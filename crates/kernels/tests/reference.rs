//! Lines through random smooth worlds against an independent integration of the same interpolated field. The reference
//! is the classical method in physical space with very small steps, each stage located cold.

mod worlds;

use field::in_memory::FlatNodes;
use kernels::flow::{Flow, GridFlow, ParticlePosition, Sample};
use kernels::line::{JoinedLine, Reason};
use kernels::streamline::{Direction, Options, Seed, StepProgress, Streamline};
use worlds::{flow, Roughness, SplitMix, World};

fn trace(flow: &mut GridFlow<FlatNodes>, x: [f64; 3], o: &Options) -> JoinedLine {
    let mut s = Streamline::new(Seed::Physical(x), o, 1);
    for _ in 0..200_000 {
        if s.step(flow, o).expect("nothing is absent") == StepProgress::Done {
            return s.into_line();
        }
    }
    panic!("does not end");
}

/// From `x` for a time, or `None` if a stage is outside.
fn follow(
    flow: &mut GridFlow<FlatNodes>,
    x: [f64; 3],
    at: ParticlePosition,
    time: f64,
) -> Option<([f64; 3], ParticlePosition)> {
    /// Longest step of the reference, time. Cells take some 0.1 to cross, and kinks at their faces reduce the order.
    const STEP: f64 = 5e-4;
    let steps = (time.abs() / STEP).ceil().max(1.0);
    let h = time / steps;
    let (mut x, mut place) = (x, at);
    for _ in 0..steps as u64 {
        let mut rate = |d: [f64; 3], share: f64, from: &ParticlePosition| match flow
            .at(core::array::from_fn(|c| x[c] + share * h * d[c]), from)
        {
            Ok(Sample::Value(v, p)) => Some((v, p)),
            _ => None,
        };
        let (k1, p) = rate([0.0; 3], 0.0, &place)?;
        let (k2, p) = rate(k1, 0.5, &p)?;
        let (k3, p) = rate(k2, 0.5, &p)?;
        let (k4, p) = rate(k3, 1.0, &p)?;
        x = core::array::from_fn(|c| x[c] + h / 6.0 * (k1[c] + 2.0 * k2[c] + 2.0 * k3[c] + k4[c]));
        place = p;
    }
    Some((x, place))
}

#[test]
fn positions_agree_within_the_tolerance() {
    let (mut compared, mut worst) = (0, [0.0f64; 3]);
    for world_seed in 0..40 {
        let mut random = SplitMix(world_seed ^ 0x0007_2acc);
        let world = World::new(&mut random, Roughness::Smooth);
        let mut flow = flow(world.nodes());
        for _ in 0..3 {
            // Also on nodes, edges and faces of cells.
            let seed: [f64; 3] = core::array::from_fn(|_| random.range(0.2, 0.8));
            let Ok(Some(spot)) = flow.start(seed) else { continue };
            let seed = if random.once_in(2) {
                let on: [f64; 3] = core::array::from_fn(|a| if random.once_in(2) { 1.0 } else { spot.rst[a] });
                flow.position(spot.cell, on).expect("here")
            } else {
                seed
            };
            let Ok(Some(spot)) = flow.start(seed) else { continue };
            let direction = random.pick(&[Direction::Forward, Direction::Backward]);
            let sign = if direction == Direction::Forward { 1.0 } else { -1.0 };
            for (n, tolerance) in [1e-4, 1e-6, 1e-8].into_iter().enumerate() {
                let o = Options { direction, tolerance, max_time: 0.6, max_steps: 100_000, ..Options::default() };
                let line = trace(&mut flow, seed, &o);
                let ordered: Vec<usize> =
                    if sign > 0.0 { (1..line.points.len()).collect() } else { (0..line.seed).rev().collect() };
                let (mut x, mut place, mut time) = (seed, ParticlePosition { spot, kept_fringe: None }, 0.0);
                let mut length = 0.0;
                for p in ordered {
                    // The last point of a line that left is on the boundary, where stages are outside.
                    let Some((y, at)) = follow(&mut flow, x, place, line.time[p] - time) else { break };
                    length += (0..3).map(|c| (y[c] - x[c]).powi(2)).sum::<f64>().sqrt();
                    (x, place, time) = (y, at, line.time[p]);
                    let off = (0..3).map(|c| (line.points[p][c] - x[c]).abs()).fold(0.0, f64::max);
                    worst[n] = worst[n].max(off / (length + 0.01));
                    compared += 1;
                    assert!(
                        off < 10.0 * tolerance * (length + 0.01) + 2e-8,
                        "world {world_seed}, seed {seed:?}, {direction:?}, tolerance {tolerance:e}: {off:e} off at {p} of {}, time {time}",
                        line.points.len()
                    );
                }
                assert!(matches!(line.reason, Some(Reason::Time | Reason::Left)), "{:?}", line.reason);
            }
        }
    }
    println!("{compared} points, worst error a length {worst:?}");
    assert!(compared > 2000, "{compared}");
}
