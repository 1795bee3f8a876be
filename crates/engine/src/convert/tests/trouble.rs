//! Interruptions, refusals and damage.

use super::*;
use crate::convert::disk::Disk;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

#[test]
fn killed_anywhere_it_resumes_to_the_same_bytes() {
    let dir = Folder::new("kill");
    let c = case(&[[20, 19, 18], [12, 5, 7], [6, 6, 6]], DType::Float32, 3);
    let dst = dir.join("s.zarr");
    for (codec, overwrite) in [(Codec::None, false), (Codec::Lz4, true)] {
        let o = ConvertOptions { memory_limit: 64 << 20, overwrite, ..options(4, Layout::Cubed, codec) };
        convert(&c.input, &dst, &o, &free, &mut |_| true).unwrap();
        let whole = digest(&dst);
        let old = if overwrite {
            let other = case(&[[7, 7, 7]], DType::Float64, 3);
            convert(
                &other.input,
                &dst,
                &ConvertOptions { overwrite: true, ..options(8, Layout::Cubed, Codec::None) },
                &free,
                &mut |_| true,
            )
            .unwrap();
            Some(digest(&dst))
        } else {
            std::fs::remove_dir_all(&dst).unwrap();
            None
        };
        let keep = dir.join("old.zarr");
        if overwrite {
            std::fs::remove_dir_all(&keep).ok();
            copy(&dst, &keep);
        }
        let mut seed = 77;
        let mut kills = 0;
        for round in 0..16 {
            // One fuse a round, or a short one again and again until it is through.
            let mut fuse = 1 + (random(&mut seed) % if round % 4 == 0 { 40 } else { 900 }) as i64;
            loop {
                let disk = Disk { fuse: Some(AtomicI64::new(fuse)) };
                let o = ConvertOptions { resume: true, ..o.clone() };
                match run(&c.input, &dst, &o, None, &disk, &free, &mut |_| true) {
                    Ok(_) => break,
                    Err(e) => {
                        assert!(e.to_string().contains("the power is cut"), "{e}");
                        kills += 1;
                        // What is there now reads right or is not a store.
                        match (dst.exists(), &old) {
                            (true, Some(old)) => {
                                let d = digest(&dst);
                                assert!(d == *old || d == whole);
                            }
                            (true, None) => assert!(digest(&dst) == whole),
                            (false, old) => assert!(old.is_none(), "the old store is gone"),
                        }
                        fuse += 40 + (random(&mut seed) % 100) as i64;
                    }
                }
            }
            assert!(digest(&dst) == whole, "round {round}");
            assert!(!dir.join("s.zarr.partial").exists());
            std::fs::remove_dir_all(&dst).unwrap();
            if overwrite {
                copy(&keep, &dst);
            }
        }
        assert!(kills > 15, "{kills}");
        std::fs::remove_dir_all(&dst).ok();
    }
}

fn copy(from: &Path, to: &Path) {
    for (name, bytes) in digest(from) {
        let p = to.join(name);
        std::fs::create_dir_all(p.parent().unwrap()).unwrap();
        std::fs::write(p, bytes).unwrap();
    }
}

#[test]
fn targets_and_resumption_are_guarded() {
    let dir = Folder::new("guard");
    let source = dir.join("source");
    std::fs::write(&source, b"1").unwrap();
    let mut c = case(&[[9, 8, 7]], DType::Float32, 3);
    c.input.files = vec![source.clone()];
    let dst = dir.join("s.zarr");
    let o = options(4, Layout::Cubed, Codec::None);
    let again = |o: &ConvertOptions, input: &ConvertInput| convert(input, &dst, o, &free, &mut |_| true);
    // Cancelled half way: nothing there but what resumes.
    let calls = AtomicU32::new(0);
    let e = convert(&c.input, &dst, &o, &free, &mut |_| calls.fetch_add(1, Ordering::SeqCst) < 2).unwrap_err();
    assert!(matches!(e, FieldError::Interrupted));
    assert!(!dst.exists() && dir.join("s.zarr.partial").exists());
    let resume = ConvertOptions { resume: true, ..o.clone() };
    let e = again(&ConvertOptions { page: 8, ..resume.clone() }, &c.input).unwrap_err();
    assert!(e.to_string().contains("other options"), "{e}");
    std::fs::write(&source, b"22").unwrap();
    let e = again(&resume, &c.input).unwrap_err();
    assert!(e.to_string().contains("the source has changed"), "{e}");
    again(&o, &c.input).unwrap();
    check_store(&c, &dst);
    // There already.
    let e = again(&o, &c.input).unwrap_err();
    assert!(e.to_string().contains("--overwrite"), "{e}");
    assert!(!dir.join("s.zarr.partial").exists());
    assert_eq!(again(&resume, &c.input).unwrap().resumed_units, 4 + 2);
    let e = again(&ConvertOptions { codec: Codec::Lz4, ..resume.clone() }, &c.input).unwrap_err();
    assert!(e.to_string().contains("other options"), "{e}");
    // A folder that is no store is not replaced.
    std::fs::create_dir(dir.join("mine")).unwrap();
    std::fs::write(dir.join("mine/thesis.tex"), b"x").unwrap();
    let e =
        convert(&c.input, &dir.join("mine"), &ConvertOptions { overwrite: true, ..o.clone() }, &free, &mut |_| true)
            .unwrap_err();
    assert!(e.to_string().contains("no Zarr store"), "{e}");
    // Two at once: the second fails while the first works.
    let other = dir.join("two.zarr");
    let mut second = None;
    convert(&c.input, &other, &o, &free, &mut |_| {
        if second.is_none() {
            second = Some(convert(&c.input, &other, &o, &free, &mut |_| true).unwrap_err().to_string());
        }
        true
    })
    .unwrap();
    assert!(second.unwrap().contains("is running"));
    assert!(digest(&other) == digest(&dst));
    // The source changes while it is read.
    let e = convert(&c.input, &dir.join("three.zarr"), &o, &free, &mut |_| std::fs::write(&source, b"333").is_ok())
        .unwrap_err();
    assert!(e.to_string().contains("changed while"), "{e}");
    assert!(!dir.join("three.zarr").exists());
    // A charge that is refused.
    let refuse = |n: u64| -> Result<Box<dyn Any>, FieldError> {
        Err(FieldError::LimitTooSmall { limit: 1, needs: n, what: "x".into() })
    };
    assert!(convert(&c.input, &dir.join("four.zarr"), &o, &refuse, &mut |_| true).is_err());
    // What a dry run says.
    let d = dry_run(&c.input, &dst, &o, &free).unwrap();
    let real: u64 = digest(&dst).values().map(|v| v.len() as u64).sum();
    assert!(d.store_bytes > real * 7 / 10 && d.store_bytes < real * 14 / 10, "{d:?} {real}");
    assert_eq!(d.files as usize, digest(&dst).len());
}

/// Every bit of every file is vouched for; what the page maps read from a damaged store is right or an error.
#[test]
fn every_damage_is_found() {
    let dir = Folder::new("damage");
    let c = case(&[[9, 8, 7], [5, 5, 1]], DType::Float32, 3);
    for codec in CODECS {
        let dst = dir.join("s.zarr");
        convert(
            &c.input,
            &dst,
            &ConvertOptions { overwrite: true, ..options(4, Layout::Cubed, codec) },
            &free,
            &mut |_| true,
        )
        .unwrap();
        let whole = digest(&dst);
        let ok = |dst: &Path| validated(dst).is_ok_and(|v| v.is_ok());
        assert!(ok(&dst));
        let mut seed = 5;
        for (name, bytes) in &whole {
            let p = dst.join(name);
            for n in 0..12 {
                let at = random(&mut seed) as usize % bytes.len();
                let mut bad = bytes.clone();
                match n {
                    0 => bad.truncate(at),
                    1 => bad.push(0),
                    2 => bad.extend_from_slice(b"\n"),
                    3 => bad.clear(),
                    _ => bad[at] ^= 1 << (random(&mut seed) % 8),
                }
                std::fs::write(&p, &bad).unwrap();
                assert!(!ok(&dst), "{name} {n} at {at}");
                read_or_fail(&c, &dst);
            }
            std::fs::remove_file(&p).unwrap();
            assert!(!ok(&dst), "{name} removed");
            read_or_fail(&c, &dst);
            std::fs::write(&p, bytes).unwrap();
        }
        assert!(ok(&dst));
        std::fs::write(dst.join("zone1/stray"), b"x").unwrap();
        assert!(!ok(&dst));
        std::fs::remove_file(dst.join("zone1/stray")).unwrap();
        // Two whole shards that changed places.
        std::fs::write(dst.join("zone1/density/c.0.0.0.0"), &whole["zone1/density/c.1.0.0.0"]).unwrap();
        assert!(!ok(&dst));
        std::fs::write(dst.join("zone1/density/c.0.0.0.0"), &whole["zone1/density/c.0.0.0.0"]).unwrap();
    }
}

/// Its buffers are charged, fewer workers and shorter reads do where memory is short, and what it says is the same then.
#[test]
fn a_validation_takes_what_memory_there_is() {
    use crate::validate::check_store;
    use std::sync::atomic::AtomicU64;
    let dir = Folder::new("validate");
    let c = case(&[[20, 19, 18], [12, 5, 7]], DType::Float32, 3);
    let dst = dir.join("s.zarr");
    convert(&c.input, &dst, &options(4, Layout::Cubed, Codec::Lz4), &free, &mut |_| true).unwrap();
    for name in ["zone2/density/c.0.0.0.0", "zone1/momentum/c.1.0.0.0.0"] {
        let mut bytes = std::fs::read(dst.join(name)).unwrap();
        let at = bytes.len() - 20;
        bytes[at] ^= 1;
        std::fs::write(dst.join(name), bytes).unwrap();
    }
    let took = AtomicU64::new(0);
    let within = |limit: u64, workers: usize| {
        let charge = |bytes: u64| -> Result<Box<dyn Any>, FieldError> {
            if bytes > limit {
                return Err(FieldError::LimitTooSmall { limit, needs: bytes, what: "it".into() });
            }
            took.store(bytes, Ordering::SeqCst);
            Ok(Box::new(()))
        };
        check_store(&dst, workers, &charge, None, &mut |_, _| true)
    };
    let wanted = within(u64::MAX, 1).unwrap();
    assert_eq!(wanted.problem_count, 2);
    assert!(wanted.problems[0].what.contains("zone1/momentum") && wanted.problems[1].what.contains("zone2/density"));
    let Err(FieldError::LimitTooSmall { needs, .. }) = within(1, 4) else { panic!("nothing should not do") };
    for limit in [needs, 1 << 20, 3 << 20, 1 << 30] {
        for workers in [1, 4] {
            let found = within(limit, workers).unwrap();
            assert!(took.load(Ordering::SeqCst) <= limit);
            // How it was read is no matter of what was found.
            assert_eq!(field::store::Validation { reads: wanted.reads, ..found }, wanted, "{limit} {workers}");
        }
    }
    let stopped = check_store(&dst, 2, &free, None, &mut |_, _| false);
    assert!(matches!(stopped, Err(FieldError::Interrupted)));
}

/// No page comes out wrong.
fn read_or_fail(c: &Case, path: &Path) {
    let Ok(store) = Store::open(path) else { return };
    let mut pager = Plain::default();
    let ids = store.register(&mut pager);
    for (z, zone) in store.zones.iter().enumerate() {
        for (a, layout) in zone.arrays.iter().enumerate() {
            let m = &c.memory[z][a];
            for step in 0..layout.steps {
                for page in 0..zone.paging.count() {
                    let Ok(frame) = pager.page(PageId::new(ids[z].arrays[a], step as u32, page)) else { continue };
                    let e = zone.paging.extent(zone.paging.coords(page));
                    let d = zone.paging.dims;
                    let from =
                        (((step * m.components * d[2] + e[2].start) * d[1] + e[1].start) * d[0] + e[0].start) * m.size;
                    // The first component of the first row: components of a point stand together in a frame.
                    for i in 0..e[0].len() {
                        let (at, of) = (i * m.components * m.size, from + i * m.size);
                        assert_eq!(frame[at..at + m.size], m.bytes[of..of + m.size]);
                    }
                }
            }
        }
    }
}
