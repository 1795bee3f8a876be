//! Lines from the spool to the file and back.

use super::read::ReadAt;
use super::*;
use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use testing::{mutations, Lcg, TestDir};

mod series;
mod surface;

const GO_ON: fn(u64, u64) -> ControlFlow<()> = |_, _| ControlFlow::Continue(());

/// A line that depends on its seed alone: some without points, some with NaN, a long one.
struct RandomLine {
    points: Vec<[f64; 3]>,
    time: Vec<f64>,
    zone: Vec<i32>,
    density: Vec<f64>,
    velocity: Vec<f32>,
    reason: Reason,
    reason_backward: Reason,
}

fn made(seed: u64) -> RandomLine {
    let mut random = Lcg(seed);
    let n = match seed % 10 {
        3 => 0,
        4 => 1,
        5 => 700 + random.below(5000) as usize,
        _ => random.below(60) as usize,
    };
    let mut number = || match random.below(50) {
        0 => f64::NAN,
        v => v as f64 * 0.37 - 5.0,
    };
    let points: Vec<[f64; 3]> = (0..n).map(|_| [number(), number(), number()]).collect();
    RandomLine {
        time: (0..n).map(|i| i as f64 * 0.25).collect(),
        zone: (0..n).map(|i| (i / 7) as i32 % 4 + 1).collect(),
        density: points.iter().map(|p| p[0] + 1.0).collect(),
        velocity: points.iter().flat_map(|p| [p[1] as f32, 1.5, -2.0]).collect(),
        points,
        reason: if n == 0 { Reason::Outside } else { Reason::ALL[(seed % 8) as usize] },
        reason_backward: Reason::ALL[(seed / 8 % 8) as usize],
    }
}

fn layout(both: bool) -> LineLayout {
    let velocity = FieldSpec { dtype: FieldType::F32, ..FieldSpec::vector("velocity <a&b>", "a_inf") };
    LineLayout { fields: vec![FieldSpec::scalar("density", "rho_inf"), velocity], both, moments: Moments::One }
}

fn spool(dir: &TestDir, seeds: u64, budget_bytes: usize, both: bool) -> LineSpool {
    let options = SpoolOptions { seeds, layout: layout(both), budget_bytes, directory: dir.at().to_path_buf() };
    // A table needs some memory more when it is written.
    LineSpool::new(options, Box::new(FixedBudget::new(budget_bytes + (1 << 20)))).unwrap()
}

fn add(spool: &mut LineSpool, seed: u64) -> Result<(), OutputError> {
    let line = made(seed);
    spool.add(&FinishedLine {
        seed,
        points: &line.points,
        time: &line.time,
        zone: &line.zone,
        fields: &[FieldValues::F64(&line.density), FieldValues::F32(&line.velocity)],
        reason: line.reason,
        reason_backward: line.reason_backward,
    })
}

/// Adds a part of a line's points as a piece.
fn extend(spool: &mut LineSpool, seed: u64, points: std::ops::Range<usize>, first: bool) -> Result<(), OutputError> {
    let line = made(seed);
    let piece = FinishedLine {
        seed,
        points: &line.points[points.clone()],
        time: &line.time[points.clone()],
        zone: &line.zone[points.clone()],
        fields: &[
            FieldValues::F64(&line.density[points.clone()]),
            FieldValues::F32(&line.velocity[3 * points.start..3 * points.end]),
        ],
        reason: line.reason,
        reason_backward: line.reason_backward,
    };
    if points.end == line.points.len() && first {
        spool.add(&piece)
    } else if points.end == line.points.len() {
        spool.finish(&piece)
    } else {
        spool.extend(&piece, first)
    }
}

fn provenance() -> Provenance {
    Provenance {
        program: "farfield 0.1.0".into(),
        source: "wing.xyz+q=wing.q".into(),
        length_unit: "L".into(),
        time_unit: "L/a_inf".into(),
        notes: vec![("field".into(), "velocity".into())],
    }
}

fn written(spool: &mut LineSpool, path: &Path, partial: bool) -> Vec<u8> {
    spool.write(OutputFile::create(path).unwrap(), &provenance(), partial, &mut GO_ON.clone()).unwrap();
    fs::read(path).unwrap()
}

#[test]
fn pieces_do_not_show_in_the_bytes() {
    let dir = TestDir::new("spool-pieces");
    const SEEDS: u64 = 40;
    for (round, budget) in [64 << 20, 75_000, 300_000].into_iter().enumerate() {
        let mut random = Lcg(round as u64);
        let (mut whole, mut pieces) = (spool(&dir, SEEDS, budget, false), spool(&dir, SEEDS, budget, false));
        (0..SEEDS).for_each(|seed| add(&mut whole, seed).unwrap());
        let mut at = [0; SEEDS as usize];
        let mut left: Vec<u64> = (0..SEEDS).collect();
        while !left.is_empty() {
            let n = random.below(left.len() as u64) as usize;
            let (seed, end) = (left[n], made(left[n]).points.len());
            let begin = at[seed as usize];
            if begin > 0 && begin < end && random.below(20) == 0 {
                // Dropped and restarted: its earlier pieces do not belong to the line.
                let next = (1 + random.below(end as u64) as usize).min(end - 1);
                extend(&mut pieces, seed, 0..next, true).unwrap();
                at[seed as usize] = next;
                continue;
            }
            let next = (begin + random.below(80) as usize).min(end);
            extend(&mut pieces, seed, begin..next, begin == 0).unwrap();
            at[seed as usize] = next;
            if next == end {
                left.swap_remove(n);
                assert!(pieces.entry(seed).unwrap().is_some());
                assert!(
                    matches!(extend(&mut pieces, seed, 0..end, true), Err(OutputError::Line { .. })),
                    "it came twice"
                );
            } else {
                assert!(pieces.entry(seed).unwrap().is_none(), "it goes on");
            }
            assert!(pieces.stats().held_bytes <= budget as u64);
        }
        assert_eq!(pieces.stats().points, whole.stats().points);
        for name in ["a.npz", "a.vtp", "a.csv"] {
            let expected = written(&mut whole, &dir.path(name), false);
            assert_eq!(written(&mut pieces, &dir.path(name), false), expected, "{name}, budget {budget}");
        }
    }
}

#[test]
fn lines_of_many_pieces_are_put_together_in_order() {
    let dir = TestDir::new("spool-gather");
    // Some short, one longer than all memory, many empty; in pieces of two points, as packed tasks pass them on.
    const SEEDS: u64 = 3000;
    let of = |seed: u64| match seed {
        7 => 20_000,
        seed if seed % 3 == 0 => 0,
        seed => 20 + seed % 40,
    };
    let keep = |spool: &mut LineSpool, seed: u64, range: std::ops::Range<u64>, begins: bool, ends: bool| {
        let value = |at: u64| seed as f64 * 1e6 + at as f64;
        let points: Vec<[f64; 3]> = range.clone().map(|at| [value(at), -value(at), 0.5]).collect();
        let density: Vec<f64> = range.clone().map(value).collect();
        let velocity: Vec<f32> = range.clone().flat_map(|at| [at as f32, seed as f32, 1.0]).collect();
        let line = FinishedLine {
            seed,
            points: &points,
            time: &density,
            zone: &vec![seed as i32; points.len()],
            fields: &[FieldValues::F64(&density), FieldValues::F32(&velocity)],
            reason: Reason::Left,
            reason_backward: Reason::Left,
        };
        match (begins, ends) {
            (true, true) => spool.add(&line).unwrap(),
            (false, true) => spool.finish(&line).unwrap(),
            (begins, false) => spool.extend(&line, begins).unwrap(),
        }
    };
    let mut plain = spool(&dir, SEEDS, 64 << 20, false);
    (0..SEEDS).for_each(|seed| keep(&mut plain, seed, 0..of(seed), true, true));
    let expected = written(&mut plain, &dir.path("a.npz"), false);
    for budget in [75_000, 400_000, 2 << 20] {
        let mut pieces = spool(&dir, SEEDS, budget, false);
        for at in (0..20_000).step_by(2) {
            for seed in (0..SEEDS).filter(|seed| of(*seed) > at || (of(*seed) == 0 && at == 0)) {
                let end = (at + 2).min(of(seed));
                keep(&mut pieces, seed, at..end, at == 0, end == of(seed));
            }
        }
        assert!(pieces.stats().spilled_bytes > 2 << 20);
        assert_eq!(written(&mut pieces, &dir.path("b.npz"), false), expected, "budget {budget}");
        assert!(pieces.stats().held_bytes <= budget as u64);
        let whole = (0..SEEDS).all(|seed| pieces.entry(seed).unwrap().is_some_and(|entry| entry.is_whole()));
        assert!(whole, "a line is read in one piece");
        assert_eq!(written(&mut pieces, &dir.path("b.npz"), false), expected, "again");
        let arrays = pieces.arrays(false).unwrap();
        assert_eq!(arrays.points.len() as u64 / 3, pieces.stats().points);
    }
}

#[test]
fn of_a_line_that_never_ended_nothing_is_written() {
    let dir = TestDir::new("spool-gather-partial");
    let (mut pieces, mut plain) = (spool(&dir, 40, 75_000, false), spool(&dir, 40, 64 << 20, false));
    for at in 0..100 {
        for seed in 0..40 {
            let end = made(seed).points.len();
            let (from, to) = (end * at / 100, end * (at + 1) / 100);
            // The last of 15, a long one, is missing.
            if (seed != 15 || at < 99) && (from < to || at == 99) {
                extend(&mut pieces, seed, from..to, from == 0).unwrap();
            }
        }
    }
    (0..40).filter(|seed| *seed != 15).for_each(|seed| add(&mut plain, seed).unwrap());
    assert!(pieces.stats().spilled_bytes > 0 && made(15).points.len() > 100);
    for name in ["a.npz", "a.csv"] {
        let expected = written(&mut plain, &dir.path(name), true);
        assert_eq!(written(&mut pieces, &dir.path(name), true), expected, "{name}");
    }
}

#[test]
fn putting_lines_together_can_be_interrupted() {
    let dir = TestDir::new("spool-gather-stop");
    let mut spool = spool(&dir, 40, 75_000, false);
    for seed in (0..40).filter(|seed| made(*seed).points.len() > 4) {
        let end = made(seed).points.len();
        extend(&mut spool, seed, 0..end / 2, true).unwrap();
    }
    // One never ends: a partial result has no part of it.
    for seed in (1..40).filter(|seed| made(*seed).points.len() > 4) {
        let end = made(seed).points.len();
        extend(&mut spool, seed, end / 2..end, false).unwrap();
    }
    let output = OutputFile::create(&dir.path("a.npz")).unwrap();
    let stopped = spool.write(output, &provenance(), true, &mut |_, _| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(OutputError::Cancelled { .. })));
    let refused = spool.arrays(true).unwrap_err().to_string();
    assert!(refused.contains("interrupted"), "{refused}");
    let late = extend(&mut spool, 0, 0..1, true).unwrap_err().to_string();
    assert!(late.contains("not be put in order"), "{late}");
    assert!(dir.names().is_empty());
}

#[test]
fn order_and_budget_do_not_show_in_the_bytes() {
    let dir = TestDir::new("spool-same");
    const SEEDS: u64 = 60;
    let mut orders: Vec<Vec<u64>> = vec![(0..SEEDS).collect(), (0..SEEDS).rev().collect()];
    for round in 0..4 {
        let mut order: Vec<u64> = (0..SEEDS).collect();
        let mut random = Lcg(round);
        for i in (1..order.len()).rev() {
            order.swap(i, random.below(i as u64 + 1) as usize);
        }
        orders.push(order);
    }
    let mut reference: BTreeMap<(&str, bool), Vec<u8>> = BTreeMap::new();
    let mut spilled = 0;
    for (order, budget) in orders.iter().zip([64 << 20, 75_000, 100_000, 300_000, 1 << 20, 90_000]) {
        for both in [true, false] {
            let mut spool = spool(&dir, SEEDS, budget, both);
            for seed in order {
                add(&mut spool, *seed).unwrap();
                assert!(spool.stats().held_bytes <= budget as u64);
            }
            spilled += u64::from(spool.stats().spilled_bytes > 0);
            for name in ["a.npz", "a.vtp", "a.csv", "a.parquet"] {
                let bytes = written(&mut spool, &dir.path(name), false);
                assert_eq!(reference.entry((name, both)).or_insert_with(|| bytes.clone()), &bytes, "{name} {budget}");
            }
        }
    }
    assert!(spilled >= 4);
    assert_eq!(dir.names(), ["a.csv", "a.npz", "a.parquet", "a.vtp"]);
}

#[test]
fn arrays_in_memory_are_the_lines_and_write_the_same_file() {
    let dir = TestDir::new("spool-arrays");
    let mut first = spool(&dir, 30, 80_000, true);
    (0..30).rev().for_each(|seed| add(&mut first, seed).unwrap());
    let arrays = first.arrays(false).unwrap();
    assert_eq!(arrays.line_count(), 30);
    for seed in 0..30usize {
        let line = made(seed as u64);
        let range = arrays.offsets[seed] as usize..arrays.offsets[seed + 1] as usize;
        let same = |a: &[f64], b: &[f64]| a.iter().map(|v| v.to_bits()).eq(b.iter().map(|v| v.to_bits()));
        assert!(same(&arrays.points[3 * range.start..3 * range.end], line.points.as_flattened()));
        assert!(same(&arrays.time[range.clone()], &line.time));
        assert_eq!(arrays.zone[range.clone()], line.zone);
        assert_eq!(arrays.reason[seed], line.reason);
        let LineColumn::F32(velocity) = &arrays.fields[1].1 else { panic!("velocity is 32-bit") };
        let velocity = &velocity[3 * range.start..3 * range.end];
        assert!(velocity.iter().map(|v| v.to_bits()).eq(line.velocity.iter().map(|v| v.to_bits())));
    }
    let options =
        SpoolOptions { seeds: 30, layout: arrays.layout(), budget_bytes: 1 << 20, directory: dir.at().to_path_buf() };
    let mut second = LineSpool::new(options, Box::new(FixedBudget::new(1 << 20))).unwrap();
    arrays.add_to(&mut second).unwrap();
    assert_eq!(written(&mut first, &dir.path("a.vtp"), false), written(&mut second, &dir.path("b.vtp"), false));
}

#[test]
fn what_is_written_is_read_back_in_chunks_of_any_size() {
    let dir = TestDir::new("spool-read");
    let mut spool = spool(&dir, 40, 1 << 20, true);
    (0..40).for_each(|seed| add(&mut spool, seed).unwrap());
    for name in ["a.npz", "a.vtp"] {
        written(&mut spool, &dir.path(name), false);
        let file = LineFile::open(&dir.path(name)).unwrap();
        // A line without points is a line of the archive, not of VTK.
        let kept: Vec<u64> = (0..40).filter(|seed| name == "a.npz" || !made(*seed).points.is_empty()).collect();
        assert_eq!(file.line_count(), kept.len() as u64);
        let velocity = file.arrays().iter().find(|array| array.name == "velocity <a&b>").unwrap();
        assert_eq!((velocity.components, velocity.unit.as_deref()), (3, Some("a_inf")));
        let range = file.range("density").unwrap().unwrap();
        assert!(range[0] >= -4.0 && range[1] <= 15.0 && range[0] < range[1]);
        assert_eq!(file.bounds().unwrap().unwrap()[0].len(), 3);
        assert!(file.range("pressure").unwrap_err().to_string().contains("there are: "));
        for max_points in [2, 3, 17, 1000, 1_000_000] {
            let mut lines: Vec<(Vec<[f64; 3]>, Vec<f64>)> = Vec::new();
            let mut goes_on = false;
            file.for_each_chunk(&["density"], max_points, |chunk| {
                assert!(chunk.points.len() <= max_points && chunk.values[0].len() == chunk.points.len());
                assert_eq!(chunk.continues, goes_on);
                goes_on = chunk.to_be_continued;
                for (l, window) in chunk.offsets.windows(2).enumerate() {
                    let (points, values) =
                        (&chunk.points[window[0]..window[1]], &chunk.values[0][window[0]..window[1]]);
                    if l == 0 && chunk.continues {
                        let line = lines.last_mut().unwrap();
                        assert_eq!(line.0.last().map(bits), points.first().map(bits));
                        line.0.extend(&points[1..]);
                        line.1.extend(&values[1..]);
                    } else {
                        assert_eq!(lines.len() as u64, chunk.first_line + l as u64);
                        lines.push((points.to_vec(), values.to_vec()));
                    }
                }
                ControlFlow::Continue(())
            })
            .unwrap();
            assert!(!goes_on);
            assert_eq!(lines.len(), kept.len());
            for (seed, (points, values)) in kept.iter().zip(&lines) {
                let line = made(*seed);
                assert!(points.iter().map(bits).eq(line.points.iter().map(bits)), "{name} {max_points} {seed}");
                assert!(values.iter().map(|v| v.to_bits()).eq(line.density.iter().map(|v| v.to_bits())));
            }
        }
    }
}

fn bits(point: &[f64; 3]) -> [u64; 3] {
    point.map(f64::to_bits)
}

#[test]
fn a_partial_result_says_so() {
    let dir = TestDir::new("spool-partial");
    let mut spool = spool(&dir, 20, 1 << 20, false);
    for seed in [19, 7, 2, 11] {
        add(&mut spool, seed).unwrap();
    }
    let refused =
        spool.write(OutputFile::create(&dir.path("a.vtp")).unwrap(), &provenance(), false, &mut GO_ON.clone());
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("16 of 20 seeds have no line (the first is seed 0)"), "{message}");
    assert!(dir.names().is_empty());
    let arrays = spool.arrays(true).unwrap();
    assert_eq!(arrays.reason.iter().filter(|reason| **reason == Reason::Unfinished).count(), 16);
    let archive = written(&mut spool, &dir.path("a.npz"), true);
    let entries = zip::list(&archive).unwrap();
    let flag = entries.iter().find(|entry| entry.name == "partial.npy").unwrap();
    let mut last = [0];
    archive.read_at(flag.data_at + flag.bytes - 1, &mut last).unwrap();
    assert_eq!(last, [1]);
    assert_eq!(LineFile::open(&dir.path("a.npz")).unwrap().line_count(), 20);
    written(&mut spool, &dir.path("a.vtp"), true);
    assert_eq!(LineFile::open(&dir.path("a.vtp")).unwrap().line_count(), 4);
}

#[test]
fn an_archive_with_a_flipped_bit_is_not_read() {
    let dir = TestDir::new("spool-flipped");
    let mut spool = spool(&dir, 20, 1 << 20, false);
    (0..20).for_each(|seed| add(&mut spool, seed).unwrap());
    let archive = written(&mut spool, &dir.path("a.npz"), false);
    for name in ["points", "offsets"] {
        let entries = zip::list(&archive).unwrap();
        let entry = entries.iter().find(|entry| entry.name == format!("{name}.npy")).unwrap();
        let mut bytes = archive.clone();
        bytes[(entry.data_at + entry.bytes - 3) as usize] ^= 1;
        fs::write(dir.path("b.npz"), bytes).unwrap();
        let refused = LineFile::open(&dir.path("b.npz")).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(&format!("b.npz: array '{name}' is damaged: its checksum is wrong")), "{refused}");
    }
}

#[test]
fn wrong_lines_are_refused() {
    let dir = TestDir::new("spool-wrong");
    let mut spool = spool(&dir, 5, 1 << 20, false);
    add(&mut spool, 1).unwrap();
    assert!(add(&mut spool, 1).unwrap_err().to_string().contains("twice"));
    assert!(add(&mut spool, 5).unwrap_err().to_string().contains("only 5 seeds"));
    let (density, wrong) = ([0.0], [0.0f32; 3]);
    let base = FinishedLine {
        seed: 2,
        points: &[[0.0; 3]],
        time: &[0.0],
        zone: &[1],
        fields: &[FieldValues::F64(&density), FieldValues::F32(&wrong)],
        reason: Reason::Left,
        reason_backward: Reason::Left,
    };
    assert!(spool.add(&FinishedLine { time: &[], ..base }).unwrap_err().to_string().contains("same length"));
    let swapped = [FieldValues::F32(&wrong), FieldValues::F64(&density)];
    assert!(spool.add(&FinishedLine { fields: &swapped, ..base }).unwrap_err().to_string().contains("density"));
    spool.add(&base).unwrap();
    assert_eq!(spool.stats().lines, 2);
}

#[test]
fn names_that_are_taken_get_a_prefix() {
    let field = |name: &str| FieldSpec::scalar(name, "");
    let names = array_names(&[field("time"), field("mach"), field("field_x")], &["time"]).unwrap();
    assert_eq!(names, ["field_time", "mach", "field_x"]);
    assert!(array_names(&[field("a"), field("a")], &[]).is_err());
    assert!(array_names(&[field("")], &[]).is_err());
    assert!(array_names(&[field("a\0")], &[]).is_err());
    assert!(array_names(&[FieldSpec { components: 0, ..field("a") }], &[]).is_err());
}

#[test]
fn interrupted_writing_leaves_nothing() {
    let dir = TestDir::new("spool-interrupt");
    let mut spool = spool(&dir, 1000, 1 << 20, false);
    (0..1000).filter(|seed| seed % 10 != 5).for_each(|seed| add(&mut spool, seed).unwrap());
    for name in ["a.npz", "a.vtp", "a.csv"] {
        let output = OutputFile::create(&dir.path(name)).unwrap();
        let mut asked = 0;
        let stopped = spool.write(output, &provenance(), true, &mut |done, total| {
            asked += 1;
            assert!(done <= total);
            if done >= 512 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        assert!(matches!(stopped, Err(OutputError::Cancelled { .. })));
        assert_eq!(asked, 3);
        assert!(dir.names().is_empty());
    }
}

#[test]
fn millions_of_seeds_fit_a_small_budget() {
    let dir = TestDir::new("spool-index");
    // 160 MB of index entries under 1 MiB: the index is a sparse file.
    let mut spool = spool(&dir, 10_000_000, 1 << 20, false);
    for seed in [9_999_999, 0, 5_000_000] {
        add(&mut spool, seed).unwrap();
    }
    assert!(add(&mut spool, 5_000_000).is_err());
    assert!(spool.stats().held_bytes <= 1 << 20);
    assert_eq!(spool.entry(1).unwrap(), None);
    assert_eq!(spool.entry(9_999_999).unwrap().unwrap().points, made(9_999_999).points.len() as u64);
    let refused =
        SpoolOptions { seeds: 1, layout: layout(true), budget_bytes: 10_000, directory: dir.at().to_path_buf() };
    let refused = LineSpool::new(refused, Box::new(FixedBudget::new(1 << 30)));
    assert!(matches!(refused, Err(OutputError::Memory { needs }) if needs > 10_000));
}

#[test]
fn a_lower_budget_gives_memory_back() {
    let dir = TestDir::new("spool-lower");
    let mut spool = spool(&dir, 60, 4 << 20, false);
    (0..30).for_each(|seed| add(&mut spool, seed).unwrap());
    let before = spool.stats();
    assert_eq!(before.spilled_bytes, 0);
    spool.set_budget(1 << 20).unwrap();
    let after = spool.stats();
    assert!(after.spilled_bytes > 0 && after.held_bytes < before.held_bytes);
    (30..60).for_each(|seed| add(&mut spool, seed).unwrap());
    let low = written(&mut spool, &dir.path("a.npz"), false);
    let mut plain = self::spool(&dir, 60, 64 << 20, false);
    (0..60).for_each(|seed| add(&mut plain, seed).unwrap());
    assert_eq!(low, written(&mut plain, &dir.path("b.npz"), false));
}

#[test]
fn nothing_is_a_result_too() {
    let dir = TestDir::new("spool-nothing");
    for seeds in [0, 3] {
        let options =
            SpoolOptions { seeds, layout: layout(true), budget_bytes: 1 << 20, directory: dir.at().to_path_buf() };
        let mut spool = LineSpool::new(options, Box::new(FixedBudget::new(1 << 20))).unwrap();
        for name in ["a.npz", "a.vtp", "a.csv"] {
            written(&mut spool, &dir.path(name), true);
        }
        for (name, lines) in [("a.npz", seeds), ("a.vtp", 0)] {
            let file = LineFile::open(&dir.path(name)).unwrap();
            assert_eq!((file.line_count(), file.point_count()), (lines, 0));
            assert_eq!(file.bounds().unwrap(), None);
            file.for_each_chunk(&["density"], 10, |chunk| {
                assert!(chunk.points.is_empty());
                ControlFlow::Continue(())
            })
            .unwrap();
        }
    }
}

#[test]
fn damaged_files_of_lines_do_not_panic() {
    let dir = TestDir::new("spool-damage");
    let mut spool = spool(&dir, 5, 1 << 20, true);
    (0..5).for_each(|seed| add(&mut spool, seed).unwrap());
    for name in ["a.npz", "a.vtp"] {
        let bytes = written(&mut spool, &dir.path(name), false);
        fuzz_lines(&bytes);
        mutations(&bytes, 1500, fuzz_lines);
        let cut = LineFile::from_source(std::sync::Arc::new(bytes[..bytes.len() / 2].to_vec()), Path::new(name));
        assert!(cut.is_err(), "{name}");
    }
    assert!(LineFile::open(&dir.path("none.vtp")).err().unwrap().to_string().contains("none.vtp"));
}

/// Of two threads the second may report first, so its error must be the first one's.
#[test]
fn lines_after_a_failure_and_the_end_name_its_cause() {
    let dir = TestDir::new("spool-failure");
    let gone = dir.path("gone");
    fs::create_dir(&gone).unwrap();
    let options = SpoolOptions { seeds: 1000, layout: layout(false), budget_bytes: 128 << 10, directory: gone.clone() };
    let mut spool = LineSpool::new(options, Box::new(FixedBudget::new(2 << 20))).unwrap();
    fs::remove_dir(&gone).unwrap();
    let first = (0..1000).find_map(|seed| add(&mut spool, seed).err()).expect("lines do not fit in memory").to_string();
    assert!(first.contains(gone.to_str().unwrap()), "{first}");
    for seed in [1000 - 1, 0] {
        assert_eq!(add(&mut spool, seed).unwrap_err().to_string(), first);
    }
    let output = OutputFile::create(&dir.path("l.npz")).unwrap();
    let end = spool.write(output, &provenance(), true, &mut GO_ON.clone()).unwrap_err();
    assert_eq!(end.to_string(), first);
}
