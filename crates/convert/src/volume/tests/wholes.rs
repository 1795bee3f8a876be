//! Whole conversions against expected results.

use super::super::run::run;
use super::*;
use field::paging::Layout;

#[test]
fn every_type_and_every_way() {
    let small =
        |page| VolumeOptions { page, memory_limit: 1 << 20, workers: 2, levels: Some(4), ..VolumeOptions::default() };
    for voxel in VoxelType::ALL {
        for (n, how) in Downsample::ALL.into_iter().enumerate() {
            let options = VolumeOptions { downsample: Some(how), ..small(6 + n) };
            check_levels(
                &VolumeCase { voxel, ..VolumeCase::default() },
                &options,
                &format!("{}-{}", voxel.name(), how.name()),
            );
        }
        // Missing values, and steps, and channels.
        let missing = if voxel.name().starts_with('u') { 0.0 } else { -7.0 };
        let c = VolumeCase {
            voxel,
            missing: Some(missing),
            steps: 2,
            channels: 2,
            kind: VolumeKind::Channels,
            dims: [17, 18, 9],
            ..VolumeCase::default()
        };
        check_levels(&c, &VolumeOptions { codec: Codec::Lz4, ..small(8) }, &format!("{}-missing", voxel.name()));
    }
}

#[test]
fn labels_colors_and_thin_ones() {
    let o = VolumeOptions { page: 8, memory_limit: 1 << 20, workers: 3, levels: Some(5), ..VolumeOptions::default() };
    for voxel in [VoxelType::Uint64, VoxelType::Int64, VoxelType::Uint16] {
        let c = VolumeCase { kind: VolumeKind::Labels, voxel, ..VolumeCase::default() };
        let store = check_levels(&c, &VolumeOptions { codec: Codec::Zstd { level: 1 }, ..o.clone() }, "labels");
        assert_eq!(store.root.downsample, Downsample::Majority);
    }
    for (kind, channels) in [(VolumeKind::Rgb, 3), (VolumeKind::Rgba, 4)] {
        for voxel in [VoxelType::Uint8, VoxelType::Uint16, VoxelType::Float32] {
            check_levels(&VolumeCase { kind, channels, voxel, ..VolumeCase::default() }, &o, "colors");
        }
    }
    for dims in [[1, 1, 1], [40, 1, 1], [1, 30, 2], [2, 1, 33], [64, 64, 1], [3, 2, 1]] {
        check_levels(&VolumeCase { dims, ..VolumeCase::default() }, &o, "thin");
        check_levels(
            &VolumeCase { dims, voxel: VoxelType::Float32, spacing: [1.0, 2.5, 7.0], ..VolumeCase::default() },
            &o,
            "thin",
        );
    }
    for spacing in [[1.0, 1.0, 3.0], [0.5, 2.0, 2.0], [5.0, 1.0, 1.2]] {
        check_levels(&VolumeCase { spacing, voxel: VoxelType::Uint16, ..VolumeCase::default() }, &o, "anisotropic");
        let flat = VolumeOptions { layout: Layout::Flat, ..o.clone() };
        check_levels(&VolumeCase { spacing, voxel: VoxelType::Int16, ..VolumeCase::default() }, &flat, "flat");
    }
}

#[test]
fn bytes_do_not_depend_on_limits_and_workers() {
    let dir = folder("same");
    let cases = [
        VolumeCase { voxel: VoxelType::Float32, dims: [61, 50, 41], missing: Some(1.5), ..VolumeCase::default() },
        VolumeCase { kind: VolumeKind::Rgb, channels: 3, dims: [70, 33, 40], ..VolumeCase::default() },
        VolumeCase {
            voxel: VoxelType::Uint16,
            kind: VolumeKind::Channels,
            channels: 2,
            steps: 3,
            dims: [31, 30, 20],
            ..VolumeCase::default()
        },
    ];
    for (n, c) in cases.iter().enumerate() {
        let input = c.input();
        let mut first: Option<BTreeMap<String, Vec<u8>>> = None;
        for (limit, workers) in [(64 << 20, 1), (700 << 10, 1), (1 << 20, 3), (2 << 20, 2)] {
            let path = dir.join(format!("{n}-{limit}-{workers}"));
            let o = VolumeOptions {
                page: 8,
                memory_limit: limit,
                workers,
                levels: Some(4),
                codec: Codec::Zstd { level: 1 },
                ..VolumeOptions::default()
            };
            let report = convert_within(&input, &path, &o);
            assert!(report.memory <= limit.max(8 << 20));
            let files = all_files(&path);
            if let Some(first) = &first {
                assert!(*first == files, "case {n}, limit {limit}, {workers} workers");
            }
            first.get_or_insert(files);
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Killed after any operation on the disk, `resume` makes the same bytes, and the old store stays until the new one is whole.
#[test]
fn killed_anywhere_it_is_completed_to_the_same_bytes() {
    let dir = folder("killed");
    let c = VolumeCase { dims: [40, 30, 25], steps: 2, voxel: VoxelType::Uint16, ..VolumeCase::default() };
    let input = c.input();
    let o = VolumeOptions { page: 4, memory_limit: 1 << 20, workers: 2, levels: Some(4), ..VolumeOptions::default() };
    let whole = dir.join("whole");
    convert(&input, &whole, &o, &free(), &mut |_| true).unwrap();
    let want = all_files(&whole);
    let old_case = VolumeCase { dims: [9, 9, 9], ..VolumeCase::default() };
    let mut seed = 77;
    let mut cuts = 0;
    for round in 0..25 {
        let path = dir.join("v");
        let _gone = std::fs::remove_dir_all(&path);
        convert(&old_case.input(), &path, &o, &free(), &mut |_| true).unwrap();
        let old = all_files(&path);
        let mut fuse = 1 + (random(&mut seed) % if round % 3 == 0 { 60 } else { 700 }) as i64;
        let mut resume = false;
        loop {
            let disk = Disk { fuse: Some(AtomicI64::new(fuse)) };
            let o = VolumeOptions { resume, overwrite: true, ..o.clone() };
            let done = run(&input, &path, &o, &disk, &free(), &mut |_| true);
            let now = all_files(&path);
            assert!(now == old || now == want, "round {round}");
            if done.is_ok() {
                assert!(now == want, "round {round}");
                break;
            }
            cuts += 1;
            // Files of waiting levels may get lost, too: then the level before is converted again.
            if random(&mut seed).is_multiple_of(4) {
                let units = dir.join("v.partial/units");
                for entry in std::fs::read_dir(&units).into_iter().flatten().flatten() {
                    if entry.file_name().to_string_lossy().starts_with("level.") {
                        std::fs::remove_file(entry.path()).unwrap();
                        break;
                    }
                }
            }
            resume = true;
            fuse += 30 + (random(&mut seed) % 200) as i64;
        }
        assert!(!dir.join("v.partial").exists());
    }
    assert!(cuts > 15, "{cuts}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn documents_say_what_there_is() {
    let dir = folder("documents");
    let c =
        VolumeCase { dims: [200, 100, 30], spacing: [1.0, 1.0, 4.0], steps: 3, smooth: true, ..VolumeCase::default() };
    let path = dir.join("v");
    convert(&c.input(), &path, &VolumeOptions::default(), &free(), &mut |_| true).unwrap();
    let root: serde_json::Value = serde_json::from_slice(&std::fs::read(path.join("zarr.json")).unwrap()).unwrap();
    let ome = &root["attributes"]["ome"];
    let set = &ome["multiscales"][0]["datasets"][2]["coordinateTransformations"];
    assert_eq!(set[0]["scale"], serde_json::json!([0.1, 1.0, 4.0, 4.0, 4.0]));
    assert_eq!(set[1]["translation"], serde_json::json!([0.0, 0.0, 0.1, 20.0 + 1.5, 10.0 + 1.5]));
    assert_eq!(
        ome["multiscales"][0]["axes"][4],
        serde_json::json!({"name": "x", "type": "space", "unit": "millimeter"})
    );
    assert_eq!(
        ome["omero"]["channels"][0]["window"],
        serde_json::json!({"min": 0.0, "max": 255.0, "start": 0.0, "end": 99.0})
    );
    let store = VolumeStore::open(&path).unwrap();
    let spec = store.spec();
    // Along i is along y, and along j is against x.
    assert_eq!(spec.levels[2].origin, [10.0 - 1.5, 20.0 + 1.5, 0.1]);
    assert_eq!((spec.levels[2].dims, spec.levels[2].spacing), ([50, 25, 30], [4.0; 3]));
    assert_eq!(
        (spec.times.len(), spec.anatomy.as_deref(), spec.channels[0].scale),
        (3, Some("LPS"), Some([0.5, -3.0]))
    );
    assert_eq!(VolumeRoot::parse(&path, &store.root.document()).unwrap(), store.root);
    assert_eq!(VolumeLayout::new(&path, &store.root).unwrap(), store.layout);
    // Resuming a finished store does nothing; another source does not replace it.
    let again = VolumeOptions { resume: true, ..VolumeOptions::default() };
    let report = convert(&c.input(), &path, &again, &free(), &mut |_| true).unwrap();
    assert_eq!((report.resumed_units, report.store_bytes), (report.units, store.bytes()));
    let other = VolumeOptions { page: 16, ..again };
    assert!(convert(&c.input(), &path, &other, &free(), &mut |_| true)
        .unwrap_err()
        .to_string()
        .contains("--overwrite"));
    // A dry run reports the same.
    let dry = dry_run(&c.input(), &dir.join("w"), &VolumeOptions::default(), &free()).unwrap();
    let files: u64 = all_files(&path).values().map(|f| f.len() as u64).sum();
    assert!((dry.store_bytes as f64 / files as f64 - 1.0).abs() < 0.05, "{} {files}", dry.store_bytes);
    assert!(!dir.join("w").exists() && !dir.join("w.partial").exists());
    // A flipped byte in any document is found.
    for name in ["zarr.json", "1/zarr.json", "_farfield/zarr.json", "_farfield/ranges_0_0_0/zarr.json"] {
        let file = path.join(name);
        let good = std::fs::read(&file).unwrap();
        let mut bad = good.clone();
        bad[good.len() / 2] ^= 1;
        std::fs::write(&file, &bad).unwrap();
        assert!(VolumeStore::open(&path).is_err(), "{name}");
        std::fs::write(&file, &good).unwrap();
    }
    // So is one in a page, a missing shard, and an extra file.
    let shard = path.join("0/c.0.0.0.0.0");
    let good = std::fs::read(&shard).unwrap();
    let mut bad = good.clone();
    *bad.last_mut().unwrap() ^= 8;
    std::fs::write(&shard, &bad).unwrap();
    assert_eq!(validate(&store).problem_count, 1);
    std::fs::remove_file(&shard).unwrap();
    assert!(validate(&store).problem_count >= 1);
    std::fs::write(&shard, &good).unwrap();
    std::fs::write(path.join("0/c.9.0.0.0.0"), b"x").unwrap();
    assert_eq!(validate(&store).problem_count, 1);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn refusals_touch_nothing() {
    let dir = folder("refusals");
    let c = VolumeCase::default();
    let path = dir.join("v");
    let o = VolumeOptions { memory_limit: 10_000, ..VolumeOptions::default() };
    let Err(FieldError::LimitTooSmall { needs, .. }) = convert(&c.input(), &path, &o, &free(), &mut |_| true) else {
        panic!("a limit of ten kilobytes")
    };
    let enough = VolumeOptions { memory_limit: needs, ..o };
    convert(&c.input(), &path, &enough, &free(), &mut |_| true).unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    let mut odd = c.input();
    odd.spec.levels[0].spacing[1] = f64::NAN;
    assert!(convert(&odd, &path, &enough, &free(), &mut |_| true).is_err());
    let labels = VolumeCase { kind: VolumeKind::Labels, voxel: VoxelType::Float32, ..VolumeCase::default() };
    assert!(convert(&labels.input(), &path, &VolumeOptions::default(), &free(), &mut |_| true).is_err());
    let none = VolumeOptions { levels: Some(0), ..VolumeOptions::default() };
    assert!(convert(&c.input(), &path, &none, &free(), &mut |_| true).is_err());
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    // After a stop it can be continued.
    let stopped = convert(&c.input(), &path, &VolumeOptions::default(), &free(), &mut |_| false);
    assert!(matches!(stopped, Err(FieldError::Interrupted)));
    assert!(dir.join("v.partial/plan.json").exists() && !path.exists());
    std::fs::remove_dir_all(&dir).unwrap();
}
