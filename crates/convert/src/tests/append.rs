//! Added steps, and the state after a power failure meanwhile.

use super::*;
use crate::append::append_on;
use crate::disk::Disk;
use std::sync::atomic::AtomicI64;

/// Five steps over a steady grid, and the input of the first `count` of them, with a file each.
fn series(dir: &TestDir, count: usize) -> ConvertInput {
    let mut case = case(&[[13, 9, 8], [6, 6, 1]], DType::Float32, 3);
    let catalog = &mut case.input.catalog;
    catalog.times = (0..count).map(|n| n as f64 * 0.5).collect();
    for (z, zone) in catalog.zones.iter_mut().enumerate() {
        zone.headers = vec![zone.headers[0]; count];
        for (a, memory) in case.memory[z].iter().enumerate() {
            let mut bytes = memory.bytes.to_vec();
            let step = bytes.len() / 2;
            let steps = if zone.arrays[a].role == Role::Field { count } else { 1 };
            if steps > 1 {
                // Own files of steps: the first two exist already.
                for n in 2..5u8 {
                    let turned: Vec<u8> = bytes[..step].rchunks_exact(4).flatten().map(|b| b ^ (n & 1)).collect();
                    bytes.extend(turned);
                }
            }
            let memory = MemoryValues { bytes: Arc::new(bytes), ..memory.clone() };
            case.input.arrays[z][a] = ArraySource { rows: Arc::new(memory), steps };
        }
    }
    let file = |name: String| {
        let path = dir.path(&name);
        if !path.exists() {
            std::fs::write(&path, &name).unwrap();
        }
        path
    };
    let steps: Vec<Vec<PathBuf>> = (0..count).map(|n| vec![file(format!("q{n}"))]).collect();
    let steady = vec![file("grid".into())];
    ConvertInput {
        files: steady.iter().chain(steps.iter().flatten()).cloned().collect(),
        series: SeriesFiles { steady, steps },
        ..case.input
    }
}

#[test]
fn cut_anywhere_it_is_the_old_store_or_the_new_one() {
    let dir = TestDir::new("append");
    let (few, all) = (series(&dir, 2), series(&dir, 5));
    let dst = dir.path("s.zarr");
    for codec in [Codec::None, Codec::Zstd { level: 1 }] {
        let o = options(4, Layout::Cubed, codec);
        convert(&all, &dir.path("whole"), &ConvertOptions { overwrite: true, ..o.clone() }, &free, &mut |_| true)
            .unwrap();
        let whole = digest(&dir.path("whole"));
        std::fs::remove_dir_all(&dst).ok();
        convert(&few, &dst, &o, &free, &mut |_| true).unwrap();
        let old = digest(&dst);
        let add = |disk: &Disk| {
            let memory = ConvertOptions { memory_limit: 64 << 20, ..o.clone() };
            append_on(&all, &dst, &memory, RequestedPages::default(), disk, &free, &mut |_| true)
        };
        // A failure at every single operation; every second time the rest is continued.
        let (mut fuse, mut cuts) = (0, 0);
        loop {
            match add(&Disk { fuse: Some(AtomicI64::new(fuse)) }) {
                Ok(done) => {
                    assert_eq!(done.steps, 2..5);
                    break;
                }
                Err(e) => assert!(e.to_string().contains("the power is cut"), "{e}"),
            }
            cuts += 1;
            let now = digest(&dst);
            assert!(now == old || now == whole, "after {fuse} operations");
            assert!(validated(&dst).unwrap().is_ok());
            if now == whole {
                // It was committed, and only the rest beside it was not removed yet.
                assert!(add(&Disk::default()).unwrap().steps.is_empty());
                assert!(!dir.path("s.zarr.partial").exists());
                std::fs::remove_dir_all(&dst).unwrap();
                convert(&few, &dst, &o, &free, &mut |_| true).unwrap();
            } else if fuse % 2 == 0 {
                std::fs::remove_dir_all(dir.path("s.zarr.partial")).ok();
            }
            fuse += 1 + fuse / 16;
        }
        assert!(cuts > 20, "{cuts}");
        assert!(digest(&dst) == whole && !dir.path("s.zarr.partial").exists());
    }
}

/// The rest of another conversion beside the store is not used for this one.
#[test]
fn leftovers_of_another_conversion_are_not_used() {
    let dir = TestDir::new("leftovers");
    let (few, all) = (series(&dir, 2), series(&dir, 5));
    let (dst, o) = (dir.path("s.zarr"), options(4, Layout::Cubed, Codec::None));
    convert(&few, &dst, &o, &free, &mut |_| true).unwrap();
    // All five steps from the beginning, abandoned half way: its units have other numbers.
    let mut calls = 0;
    let replace = ConvertOptions { overwrite: true, ..o.clone() };
    let stopped = convert(&all, &dst, &replace, &free, &mut |_| {
        calls += 1;
        calls < 8
    });
    assert!(matches!(stopped, Err(FieldError::Interrupted)) && dir.path("s.zarr.partial").exists());
    append(&all, &dst, &o, RequestedPages::default(), &free, &mut |_| true).unwrap();
    convert(&all, &dir.path("whole"), &o, &free, &mut |_| true).unwrap();
    assert!(digest(&dst) == digest(&dir.path("whole")));
    // A missing shard is detected, and the old store stays.
    convert(&few, &dst, &replace, &free, &mut |_| true).unwrap();
    std::fs::remove_file(dst.join("zone1/density/c.0.0.0.0")).unwrap();
    let before = digest(&dst);
    let said = append(&all, &dst, &o, RequestedPages::default(), &free, &mut |_| true).unwrap_err().to_string();
    assert!(said.contains("density/c.0.0.0.0") && said.contains("convert"), "{said}");
    assert!(digest(&dst) == before);
}
