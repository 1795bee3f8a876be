//! Random lines through random worlds. The result of a line does not depend on the lines beside it, its lane, the
//! absence of pages, or the number of restarts.

mod worlds;

use field::in_memory::FlatNodes;
use field::nodes::{Each, Miss, Nodes, Zone};
use field::simd::V4;
use kernels::flow::GridFlow;
use kernels::line::JoinedLine;
use kernels::rk::Method;
use kernels::streamline::{step_lanes, Direction, Integrator, Options, Seed, StepProgress, Streamline, TerminalSpeed};
use pager::error::PageError;
use pager::id::{ArrayId, PageId};
use std::collections::BTreeSet;
use worlds::{flow, Roughness, SplitMix, World};

/// Nodes in pages of 2x2x2 points that come and go, as in a pager with hardly any memory. Within a step a resident page
/// stays, and an absent one may arrive.
struct Flaky {
    inner: FlatNodes,
    random: SplitMix,
    here: BTreeSet<PageId>,
    missing: Vec<PageId>,
}

impl Flaky {
    /// Changes pages between two steps.
    fn between(&mut self, wanted: &[PageId]) {
        let random = &mut self.random;
        if random.once_in(3) {
            self.here.retain(|_| !random.once_in(2));
        }
        // Some of the requested pages arrive.
        self.here.extend(wanted.iter().filter(|_| !random.once_in(3)));
    }

    fn page(&mut self, id: PageId) -> Result<(), Miss> {
        if self.here.contains(&id) {
            return Ok(());
        }
        if self.random.once_in(8) {
            self.here.insert(id);
            return Ok(());
        }
        if !self.missing.contains(&id) {
            self.missing.push(id);
        }
        Err(Miss::Absent)
    }

    fn cell(&mut self, zone: usize, array: usize, cell: [u32; 3]) -> Result<(), Miss> {
        let dims = self.inner.zones()[zone].dims();
        let mut result = Ok(());
        for c in 0..8u32 {
            let n: [u32; 3] = core::array::from_fn(|a| (cell[a] + ((c >> a) & 1)).min(dims[a] - 1) / 2);
            let number = (u64::from(n[2]) << 40) | (u64::from(n[1]) << 20) | u64::from(n[0]);
            let one = self.page(PageId::new(ArrayId((zone * 100 + array) as u32), 0, number));
            result = result.and(one);
        }
        result
    }
}

impl Nodes for Flaky {
    type At<'a> = Each<'a, Self>;
    fn zones(&self) -> &[Zone] {
        self.inner.zones()
    }
    fn at(&mut self, zone: usize, cell: [u32; 3]) -> Each<'_, Self> {
        Each::new(self, zone, cell)
    }
    fn vector(&mut self, zone: usize, array: usize, cell: [u32; 3], out: &mut [V4; 8]) -> Result<(), Miss> {
        self.cell(zone, array, cell)?;
        self.inner.vector(zone, array, cell, out)
    }
    fn scalar(&mut self, z: usize, a: usize, component: usize, cell: [u32; 3], out: &mut [f64; 8]) -> Result<(), Miss> {
        self.cell(z, a, cell)?;
        self.inner.scalar(z, a, component, cell, out)
    }
    fn block(&mut self, zone: usize, level: usize, block: [u32; 3]) -> Result<[f32; 6], Miss> {
        self.page(PageId::new(ArrayId((zone * 100 + 50 + level) as u32), 0, u64::from(block[0] / 2)))?;
        self.inner.block(zone, level, block)
    }
    fn missing(&mut self) -> &mut Vec<PageId> {
        &mut self.missing
    }
    fn failure(&mut self) -> Option<PageError> {
        None
    }
}

fn options(random: &mut SplitMix, scale: f64) -> Options {
    let maybe = |random: &mut SplitMix, n: usize, value: f64| if random.once_in(n) { Some(value) } else { None };
    let length = scale * random.range(0.02, 1.5);
    Options {
        method: match random.below(8) {
            0 => Integrator::Rk45Physical,
            1 => Integrator::Fixed(random.pick(&[Method::Euler, Method::Rk4, Method::Rk45])),
            _ => Integrator::Rk45,
        },
        direction: random.pick(&[Direction::Forward, Direction::Backward, Direction::Both, Direction::Both]),
        tolerance: random.pick(&[1e-6, 1e-6, 1e-4, 1e-9, 1e-12, 1e-2, 0.0, f64::INFINITY]),
        max_length: maybe(random, 3, length).unwrap_or(f64::INFINITY),
        max_time: maybe(random, 3, 0.7).unwrap_or(f64::INFINITY),
        max_steps: random.pick(&[1, 2, 7, 40]),
        terminal_speed: random.pick(&[
            TerminalSpeed::Absolute(0.0),
            TerminalSpeed::default(),
            TerminalSpeed::Absolute(0.2 * scale),
            TerminalSpeed::Relative(0.2),
        ]),
        initial_step: maybe(random, 5, scale * 0.01),
        max_step: maybe(random, 4, scale * 0.03),
        step_cells: 0.25,
        stop: None,
    }
}

fn seed(random: &mut SplitMix, world: &World, flow: &GridFlow<FlatNodes>) -> Seed {
    let inside = |random: &mut SplitMix| {
        let zone = random.below(world.zones.len());
        let cells = flow.space.nodes.zones()[zone].cells();
        let snap = random.once_in(2);
        let ijk = core::array::from_fn(|a| {
            let x = if flow.space.nodes.zones()[zone].dims()[a] == 1 {
                0.0
            } else {
                random.range(0.0, f64::from(cells[a]))
            };
            if snap {
                x.round()
            } else {
                x
            }
        });
        (zone as u32, ijk)
    };
    match random.below(4) {
        0 => Seed::Physical(world.point(random)),
        1 => Seed::FirstUsable((0..3).map(|_| inside(random)).collect()),
        _ => {
            let (zone, ijk) = inside(random);
            Seed::Computational { zone, ijk }
        }
    }
}

fn alone(flow: &mut GridFlow<FlatNodes>, seed: &Seed, options: &Options) -> JoinedLine {
    let mut line = Streamline::new(seed.clone(), options, 1);
    for _ in 0..200_000 {
        if line.step(flow, options).expect("nothing is absent") == StepProgress::Done {
            return line.into_line();
        }
    }
    panic!("does not end: {seed:?} {options:?}");
}

/// All bits, those of NaN included.
fn bits(l: &JoinedLine) -> (Vec<u64>, Vec<i32>, [usize; 2], String) {
    let all =
        l.points.iter().flatten().chain(&l.time).chain(&l.fields).map(|x| if x.is_nan() { 1 } else { x.to_bits() });
    (all.collect(), l.zone.clone(), [l.seed, l.points.len()], format!("{:?} {:?}", l.reason, l.reason_backward))
}

/// All lines, four at a time, in random order and random lanes.
fn together<N: Nodes>(
    flow: &mut GridFlow<N>,
    seeds: &[Seed],
    options: &Options,
    random: &mut SplitMix,
    mut between: impl FnMut(&mut N, &[PageId]),
) -> Vec<JoinedLine> {
    let mut lines: Vec<_> = seeds.iter().map(|s| Some(Streamline::new(s.clone(), options, 1))).collect();
    let mut done: Vec<Option<JoinedLine>> = vec![None; seeds.len()];
    let mut wanted: Vec<Vec<PageId>> = vec![Vec::new(); seeds.len()];
    let mut rounds = 0;
    while done.iter().any(Option::is_none) {
        rounds += 1;
        assert!(rounds < 1_000_000, "does not end");
        let mut lanes: [Option<usize>; 4] = [None; 4];
        for lane in 0..4 {
            let n = random.below(seeds.len());
            if lines[n].is_some() && !lanes.contains(&Some(n)) && !random.once_in(5) {
                lanes[lane] = Some(n);
            }
        }
        let mut taken = lanes.map(|n| n.and_then(|n| lines[n].take()));
        let asked: Vec<PageId> = lanes.iter().flatten().flat_map(|n| wanted[*n].clone()).collect();
        between(&mut flow.space.nodes, &asked);
        // A step without result must leave the line unchanged, except for knowledge of its seed and finished stages in
        // physical space.
        let told = |l: &Streamline| format!("{l:?}");
        let before = taken.each_ref().map(|l| l.as_ref().map(told).filter(|t| t.contains("state: Run")));
        let mut outcome = [StepProgress::Yield; 4];
        let each = taken.each_mut().map(Option::as_mut);
        step_lanes(flow, options, each, |lane, flow, line, result| match result {
            Ok(p) => outcome[lane] = p,
            Err(_) => {
                outcome[lane] = StepProgress::Need;
                assert!(!flow.space.nodes.missing().is_empty(), "absent, but nothing is missing");
                if let (Some(before), Some(n)) = (&before[lane], lanes[lane]) {
                    assert_eq!(*before, told(line), "seed {n} changed");
                }
                if let Some(n) = lanes[lane] {
                    wanted[n].append(flow.space.nodes.missing());
                    wanted[n].sort_unstable();
                    wanted[n].dedup();
                }
            }
        });
        for lane in 0..4 {
            let (Some(n), Some(line)) = (lanes[lane], taken[lane].take()) else { continue };
            if outcome[lane] != StepProgress::Need {
                wanted[n].clear();
            }
            if outcome[lane] == StepProgress::Done {
                done[n] = Some(line.into_line());
            } else {
                lines[n] = Some(line);
            }
        }
    }
    done.into_iter().flatten().collect()
}

#[test]
fn a_line_does_not_depend_on_its_companions() {
    let (mut points, mut reasons) = (0, [0; 8]);
    let worlds = std::env::var("WORLDS").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    for world_seed in 0..worlds {
        let mut random = SplitMix(world_seed);
        let world = World::new(&mut random, Roughness::Wild);
        let options = options(&mut random, world.scale);
        let mut whole = flow(world.nodes());
        let seeds: Vec<Seed> = (0..8).map(|_| seed(&mut random, &world, &whole)).collect();
        let truth: Vec<JoinedLine> = seeds.iter().map(|s| alone(&mut flow(world.nodes()), s, &options)).collect();
        let all_here = together(&mut whole, &seeds, &options, &mut random.clone(), |_, _| {});
        let flaky = Flaky {
            inner: world.nodes(),
            random: SplitMix(world_seed ^ 0xabcd),
            here: BTreeSet::new(),
            missing: Vec::new(),
        };
        let some_here = together(&mut flow(flaky), &seeds, &options, &mut random, |n, wanted| n.between(wanted));
        for (n, t) in truth.iter().enumerate() {
            assert_eq!(bits(t), bits(&all_here[n]), "world {world_seed}, line {n}, beside others: {options:?}");
            assert_eq!(bits(t), bits(&some_here[n]), "world {world_seed}, line {n}, with pages absent: {options:?}");
            points += t.points.len();
            reasons[t.reason.map_or(5, |r| r as usize)] += 1;
        }
    }
    println!("{points} points; ends by reason {reasons:?}");
    // The worlds are wild enough for every reason but failed pages.
    assert!(
        points > 10_000 * worlds as usize / 300 && reasons[..7].iter().all(|n| *n > 10 * worlds / 300),
        "{points} {reasons:?}"
    );
}

/// A half is the same whether or not the other is traced too.
#[test]
fn both_halves_are_what_each_is_alone() {
    for world_seed in 0..100 {
        let mut random = SplitMix(world_seed ^ 0x5eed);
        let world = World::new(&mut random, Roughness::Wild);
        let o = options(&mut random, world.scale);
        let mut flow = flow(world.nodes());
        for n in 0..4 {
            let s = seed(&mut random, &world, &flow);
            let [both, back, on] = [Direction::Both, Direction::Backward, Direction::Forward]
                .map(|direction| alone(&mut flow, &s, &Options { direction, ..o.clone() }));
            let half = |l: &JoinedLine, range: std::ops::Range<usize>| -> Vec<[u64; 4]> {
                range.map(|n| [l.points[n][0], l.points[n][1], l.points[n][2], l.time[n]].map(f64::to_bits)).collect()
            };
            if both.points.is_empty() {
                continue;
            }
            assert_eq!(half(&both, 0..both.seed), half(&back, 0..back.seed), "world {world_seed}, line {n}: {o:?}");
            let ends = (both.seed + 1..both.points.len(), on.seed + 1..on.points.len());
            assert_eq!(half(&both, ends.0), half(&on, ends.1), "world {world_seed}, line {n}: {o:?}");
            assert_eq!((both.reason, both.reason_backward), (on.reason, back.reason), "world {world_seed}, line {n}");
        }
    }
}
