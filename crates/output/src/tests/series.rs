//! Lines as a file for each of several times.

use super::*;

const TIMES: [f64; 4] = [0.0, 0.5, 1.5, 4.0];

/// Particles that start at 0, step by a quarter, and end at different times; some never start.
fn through(dir: &TestDir, budget_bytes: usize, trail: f64, order: impl Iterator<Item = u64>) -> LineSpool {
    let moments = Moments::Through { times: TIMES.into(), trail };
    let layout = LineLayout { fields: vec![FieldSpec::vector("velocity", "m/s")], both: false, moments };
    let options = SpoolOptions { seeds: SEEDS, layout, budget_bytes, directory: dir.at().to_path_buf() };
    let mut spool = LineSpool::new(options, Box::new(FixedBudget::new(1 << 30))).unwrap();
    for seed in order {
        let n = points_of(seed);
        let time: Vec<f64> = (0..n).map(|i| 0.25 * i as f64).collect();
        let points: Vec<[f64; 3]> = time.iter().map(|t| [seed as f64, *t, 0.0]).collect();
        let velocity: Vec<f64> = time.iter().flat_map(|t| [seed as f64, 1.0, *t]).collect();
        let line = FinishedLine {
            seed,
            points: &points,
            time: &time,
            zone: &vec![1; n],
            fields: &[FieldValues::F64(&velocity)],
            reason: if n == 0 { Reason::Outside } else { Reason::Left },
            reason_backward: Reason::Unfinished,
        };
        spool.add(&line).unwrap();
    }
    spool
}

const SEEDS: u64 = 300;

fn points_of(seed: u64) -> usize {
    (seed * 7 % 40) as usize
}

fn tree(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files =
        |at: &Path| -> Vec<std::path::PathBuf> { fs::read_dir(at).unwrap().map(|e| e.unwrap().path()).collect() };
    let all = files(dir).into_iter().flat_map(|p| if p.is_dir() { files(&p) } else { vec![p] });
    all.map(|p| (p.strip_prefix(dir).unwrap().display().to_string(), fs::read(&p).unwrap())).collect()
}

#[test]
fn a_file_for_each_time_whatever_the_budget() {
    let dir = TestDir::new("series");
    let mut seen: Option<BTreeMap<String, Vec<u8>>> = None;
    for (n, budget) in [90_000usize, 200_000, 64 << 20].into_iter().enumerate() {
        let order: Vec<u64> = if n % 2 == 0 { (0..SEEDS).rev().collect() } else { (0..SEEDS).collect() };
        let mut spool = through(&dir, budget, 0.0, order.into_iter());
        spool.write(OutputFile::create(&dir.path("t.pvd")).unwrap(), &provenance(), false, &mut GO_ON.clone()).unwrap();
        let files = tree(dir.at());
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(names, ["t.pvd", "t/t_0000.vtp", "t/t_0001.vtp", "t/t_0002.vtp", "t/t_0003.vtp"]);
        assert_eq!(seen.get_or_insert_with(|| files.clone()), &files, "{budget}");
    }
    let files = seen.unwrap();
    let list = String::from_utf8(files["t.pvd"].clone()).unwrap();
    for (n, time) in ["0.0", "0.5", "1.5", "4.0"].into_iter().enumerate() {
        assert!(list.contains(&format!("timestep=\"{time}\" group=\"\" part=\"0\" file=\"t/t_000{n}.vtp\"")), "{list}");
        let alive = (0..SEEDS).filter(|s| points_of(*s) as f64 * 0.25 > TIMES[n]).count();
        let text = String::from_utf8_lossy(&files[&format!("t/t_000{n}.vtp")]).into_owned();
        assert!(text.contains(&format!("NumberOfPoints=\"{alive}\" NumberOfVerts=\"{alive}\"")), "{n}: {alive}");
    }
}

#[test]
fn a_line_at_each_time_goes_to_its_file() {
    let dir = TestDir::new("series-at");
    let moments = Moments::At { times: [1.0, 0.5].into(), steps: Some([3, 2].into()), unit: "s".into() };
    let layout = LineLayout { fields: vec![], both: false, moments };
    let options = SpoolOptions { seeds: 6, layout, budget_bytes: 1 << 20, directory: dir.at().to_path_buf() };
    let mut spool = LineSpool::new(options, Box::new(FixedBudget::new(1 << 30))).unwrap();
    for line in 0..6u64 {
        let points = vec![[line as f64, 0.0, 0.0]; 2 + line as usize];
        let (time, zone) = (vec![0.0; points.len()], vec![1; points.len()]);
        let (reason, reason_backward) = (Reason::Left, Reason::Unfinished);
        let fields = &[];
        spool
            .add(&FinishedLine {
                seed: line,
                points: &points,
                time: &time,
                zone: &zone,
                fields,
                reason,
                reason_backward,
            })
            .unwrap();
    }
    spool.write(OutputFile::create(&dir.path("t.pvd")).unwrap(), &provenance(), false, &mut GO_ON.clone()).unwrap();
    let list = fs::read_to_string(dir.path("t.pvd")).unwrap();
    // Rising, though the run went backward.
    assert!(list.find("t_0001").unwrap() < list.find("t_0000").unwrap());
    for (name, points) in [("t/t_0000.vtp", 2 + 4 + 6), ("t/t_0001.vtp", 3 + 5 + 7)] {
        let lines = LineFile::open(&dir.path(name)).unwrap();
        assert_eq!((lines.line_count(), lines.point_count()), (3, points));
    }
    let arrays = spool.arrays(false).unwrap();
    assert_eq!((arrays.moments.seed(5), arrays.moments.time(5), arrays.moments.step(4)), (2, Some(0.5), Some(3)));
}

#[test]
fn a_folder_of_somebody_else_is_left_alone() {
    let dir = TestDir::new("series-taken");
    fs::create_dir(dir.path("t")).unwrap();
    fs::write(dir.path("t/notes.txt"), "mine").unwrap();
    let refused = OutputFile::create(&dir.path("t.pvd")).unwrap_err().to_string();
    assert!(refused.contains("notes.txt"), "{refused}");
    fs::remove_file(dir.path("t/notes.txt")).unwrap();
    fs::write(dir.path("t/t_0099.vtp"), "old").unwrap();
    drop(OutputFile::create(&dir.path("t.pvd")).unwrap());
    assert_eq!(dir.names(), ["t"], "a run that came to nothing leaves nothing");
    let mut spool = through(&dir, 1 << 20, 0.0, 0..SEEDS);
    spool.write(OutputFile::create(&dir.path("t.pvd")).unwrap(), &provenance(), false, &mut GO_ON.clone()).unwrap();
    assert_eq!(dir.names(), ["t", "t.pvd"]);
    assert_eq!(fs::read_dir(dir.path("t")).unwrap().count(), TIMES.len(), "files of an earlier run are gone");
    fs::write(dir.path("f"), "a file").unwrap();
    let refused = OutputFile::create(&dir.path("f.pvd")).unwrap_err().to_string();
    assert!(refused.contains("which is a file"), "{refused}");
}

#[test]
fn particles_trail_their_lines_behind_them() {
    let dir = TestDir::new("series-trail");
    let mut seen: Option<BTreeMap<String, Vec<u8>>> = None;
    for budget in [90_000usize, 64 << 20] {
        let mut spool = through(&dir, budget, 0.6, 0..SEEDS);
        spool.write(OutputFile::create(&dir.path("t.pvd")).unwrap(), &provenance(), false, &mut GO_ON.clone()).unwrap();
        let files = tree(dir.at());
        assert_eq!(seen.get_or_insert_with(|| files.clone()), &files, "{budget}");
    }
    let files = seen.unwrap();
    // Steps of a quarter: the point itself, and those a quarter and a half before it, where there are any.
    for (n, each) in [1, 3, 3, 3].into_iter().enumerate() {
        let alive = (0..SEEDS).filter(|s| points_of(*s) as f64 * 0.25 > TIMES[n]).count();
        let text = String::from_utf8_lossy(&files[&format!("t/t_000{n}.vtp")]).into_owned();
        let counts = format!("NumberOfPoints=\"{}\" NumberOfVerts=\"{alive}\" NumberOfLines=\"{alive}\"", each * alive);
        assert!(text.contains(&counts), "{n}: {counts}");
        let lines = LineFile::open(&dir.path(&format!("t/t_000{n}.vtp"))).unwrap();
        assert_eq!((lines.line_count(), lines.point_count()), (alive as u64, (each * alive) as u64));
    }
}
