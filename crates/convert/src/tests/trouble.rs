//! Interruptions, refusals and damage.

use super::*;
use crate::disk::Disk;
use crate::request::ConvertRequest;
use crate::run::run;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

#[test]
fn killed_anywhere_it_resumes_to_the_same_bytes() {
    let dir = TestDir::new("kill");
    let c = case(&[[20, 19, 18], [12, 5, 7], [6, 6, 6]], DType::Float32, 3);
    let dst = dir.path("s.zarr");
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
        let keep = dir.path("old.zarr");
        if overwrite {
            std::fs::remove_dir_all(&keep).ok();
            copy(&dst, &keep);
        }
        let mut seed = 77;
        let mut kills = 0;
        for round in 0..16 {
            // One fuse a round, or a short one repeatedly until the end.
            let mut fuse = 1 + (random(&mut seed) % if round % 4 == 0 { 40 } else { 900 }) as i64;
            loop {
                let disk = Disk { fuse: Some(AtomicI64::new(fuse)) };
                let o = ConvertOptions { resume: true, ..o.clone() };
                match run(&ConvertRequest::new(&c.input, &dst, &o), &disk, &free, &mut |_| true) {
                    Ok(_) => break,
                    Err(e) => {
                        assert!(e.to_string().contains("the power is cut"), "{e}");
                        kills += 1;
                        // The target reads right, or is not a store.
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
            assert!(!dir.path("s.zarr.partial").exists());
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
    let dir = TestDir::new("guard");
    let source = dir.path("source");
    std::fs::write(&source, b"1").unwrap();
    let mut c = case(&[[9, 8, 7]], DType::Float32, 3);
    let first = dir.path("first");
    std::fs::write(&first, b"1").unwrap();
    c.input.files = vec![first, source.clone()];
    let dst = dir.path("s.zarr");
    let o = options(4, Layout::Cubed, Codec::None);
    let again = |o: &ConvertOptions, input: &ConvertInput| convert(input, &dst, o, &free, &mut |_| true);
    // Cancelled half way: only a resumable rest is there.
    let calls = AtomicU32::new(0);
    let e = convert(&c.input, &dst, &o, &free, &mut |_| calls.fetch_add(1, Ordering::SeqCst) < 2).unwrap_err();
    assert!(matches!(e, FieldError::Interrupted));
    assert!(!dst.exists() && dir.path("s.zarr.partial").exists());
    let resume = ConvertOptions { resume: true, ..o.clone() };
    let e = again(&ConvertOptions { page: 8, ..resume.clone() }, &c.input).unwrap_err();
    assert!(e.to_string().contains("other options"), "{e}");
    std::fs::write(&source, b"22").unwrap();
    let e = again(&resume, &c.input).unwrap_err();
    assert!(e.to_string().contains("the source has changed"), "{e}");
    again(&o, &c.input).unwrap();
    check_store(&c, &dst);
    // It exists already.
    let e = again(&o, &c.input).unwrap_err();
    assert!(e.to_string().contains("--overwrite"), "{e}");
    assert!(!dir.path("s.zarr.partial").exists());
    assert_eq!(again(&resume, &c.input).unwrap().resumed_units, 4 + 2);
    let e = again(&ConvertOptions { codec: Codec::Lz4, ..resume.clone() }, &c.input).unwrap_err();
    assert!(e.to_string().contains("other options"), "{e}");
    // A folder that is no store is not replaced.
    std::fs::create_dir(dir.path("mine")).unwrap();
    std::fs::write(dir.path("mine/thesis.tex"), b"x").unwrap();
    let e =
        convert(&c.input, &dir.path("mine"), &ConvertOptions { overwrite: true, ..o.clone() }, &free, &mut |_| true)
            .unwrap_err();
    assert!(e.to_string().contains("no Zarr store"), "{e}");
    // Two at once: the second fails while the first works.
    let other = dir.path("two.zarr");
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
    let e = convert(&c.input, &dir.path("three.zarr"), &o, &free, &mut |_| std::fs::write(&source, b"333").is_ok())
        .unwrap_err();
    let which = source.display().to_string();
    assert!(e.to_string().contains("changed while") && e.to_string().contains(&which), "{e}");
    assert!(!dir.path("three.zarr").exists());
    // A refused charge.
    let refuse = |n: u64| -> Result<Box<dyn Any>, FieldError> {
        Err(FieldError::LimitTooSmall { limit: 1, needs: n, what: "x".into() })
    };
    assert!(convert(&c.input, &dir.path("four.zarr"), &o, &refuse, &mut |_| true).is_err());
    // The result of a dry run.
    let d = dry_run(&c.input, &dst, &o, &free).unwrap();
    let real: u64 = digest(&dst).values().map(|v| v.len() as u64).sum();
    assert!(d.store_bytes > real * 7 / 10 && d.store_bytes < real * 14 / 10, "{d:?} {real}");
    let made = convert(&c.input, &dir.path("five.zarr"), &o, &free, &mut |_| true).unwrap();
    assert_eq!((d.shards, d.pages), (made.units, made.pages));
    let padding = made.padded_bytes as f64 / made.source_bytes as f64;
    assert_eq!((d.padding_disk, d.source_bytes), (padding, made.source_bytes));
}

/// The same input with other values in other files, which a catalog does not distinguish.
fn with_other_values(c: &ConvertCase, files: Vec<PathBuf>) -> ConvertCase {
    let mut memory = c.memory.clone();
    for m in memory.iter_mut().flatten().filter(|m| m.size == 4 && m.components == 1) {
        let bytes = m.bytes.iter().map(|b| b ^ 1).collect();
        *m = MemoryValues { bytes: Arc::new(bytes), ..m.clone() };
    }
    let arrays = c.input.arrays.iter().zip(&memory).map(|(sources, zone)| {
        let each = sources.iter().zip(zone);
        each.map(|(s, m)| ArraySource { rows: Arc::new(m.clone()), steps: s.steps }).collect()
    });
    ConvertCase { input: ConvertInput { arrays: arrays.collect(), files, ..c.input.clone() }, memory }
}

#[test]
fn a_store_of_another_source_is_not_taken_for_done() {
    let dir = TestDir::new("another");
    let long_ago = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let source = |name: &str, at: std::time::SystemTime| {
        let path = dir.path(name);
        std::fs::write(&path, b"values").unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
        path
    };
    let mut one = case(&[[9, 8, 7]], DType::Float32, 3);
    one.input.files = vec![source("one", long_ago)];
    let two = with_other_values(&one, vec![source("two", long_ago)]);
    let dst = dir.path("s.zarr");
    let o = options(4, Layout::Cubed, Codec::None);
    let resume = ConvertOptions { resume: true, ..o.clone() };
    let both = ConvertOptions { overwrite: true, ..resume.clone() };
    let again = |o: &ConvertOptions, c: &ConvertCase| convert(&c.input, &dst, o, &free, &mut |_| true);
    again(&o, &one).unwrap();
    let of_one = digest(&dst);
    assert_eq!(again(&resume, &one).unwrap().resumed_units, 6);
    // Of the same name, size and age, but other files.
    let e = again(&resume, &two).unwrap_err();
    assert!(e.to_string().contains("another source") && e.to_string().contains("--overwrite"), "{e}");
    assert!(digest(&dst) == of_one && !dir.path("s.zarr.partial").exists());
    assert_eq!(again(&both, &two).unwrap().resumed_units, 0);
    check_store(&two, &dst);
    // Moved over the old one, as `mv` and `cp -p` do.
    std::fs::rename(dir.path("two"), dir.path("one")).unwrap();
    let two = ConvertCase { input: ConvertInput { files: one.input.files.clone(), ..two.input }, ..two };
    again(&ConvertOptions { overwrite: true, ..o.clone() }, &two).unwrap();
    let of_two = digest(&dst);
    // Written at another time and place, it is the same.
    convert(&two.input, &dir.path("t.zarr"), &o, &free, &mut |_| true).unwrap();
    assert!(digest(&dir.path("t.zarr")) == of_two);
    std::fs::rename(source("three", long_ago), dir.path("one")).unwrap();
    let three = with_other_values(&two, two.input.files.clone());
    assert_eq!(again(&both, &three).unwrap().resumed_units, 0);
    check_store(&three, &dst);
    // A store without a record of its sources is readable, and is made again.
    let root = Store::open(&dst).unwrap().root;
    let new = digest(&dst);
    std::fs::write(dst.join("zarr.json"), field::store::metadata::Root { source: None, ..root }.document()).unwrap();
    check_store(&three, &dst);
    assert!(again(&resume, &three).unwrap_err().to_string().contains("--overwrite"));
    assert_eq!(again(&both, &three).unwrap().resumed_units, 0);
    assert!(digest(&dst) == new);
    // A missing source is named.
    std::fs::remove_file(dir.path("one")).unwrap();
    let e = again(&both, &three).unwrap_err();
    assert!(e.to_string().contains("one") && !dir.path("s.zarr.partial").exists(), "{e}");
}

#[test]
fn what_somebody_else_put_in_the_folder_stays() {
    let dir = TestDir::new("stranger");
    let c = case(&[[9, 8, 7]], DType::Float32, 3);
    let (dst, partial) = (dir.path("s.zarr"), dir.path("s.zarr.partial"));
    let o = options(4, Layout::Cubed, Codec::None);
    std::fs::create_dir_all(partial.join("mine")).unwrap();
    std::fs::write(partial.join("mine/thesis.tex"), b"x").unwrap();
    for o in [o.clone(), ConvertOptions { resume: true, overwrite: true, ..o.clone() }] {
        let e = convert(&c.input, &dst, &o, &free, &mut |_| true).unwrap_err().to_string();
        assert!(e.contains("s.zarr.partial") && e.contains("'mine'") && e.contains("choose another target"), "{e}");
        assert!(!dst.exists() && digest(&partial).len() == 1);
    }
    // Entries that appear during the work stay, too, and are found at the next continuation.
    std::fs::rename(&partial, dir.path("elsewhere")).unwrap();
    let stop = convert(&c.input, &dst, &o, &free, &mut |_| false);
    assert!(matches!(stop, Err(FieldError::Interrupted)));
    std::fs::write(partial.join("notes"), b"x").unwrap();
    let resume = ConvertOptions { resume: true, ..o.clone() };
    let e = convert(&c.input, &dst, &resume, &free, &mut |_| true).unwrap_err().to_string();
    assert!(e.contains("'notes'"), "{e}");
    std::fs::remove_file(partial.join("notes")).unwrap();
    convert(&c.input, &dst, &resume, &free, &mut |_| std::fs::write(partial.join("notes"), b"x").is_ok()).unwrap();
    assert_eq!(digest(&partial).keys().collect::<Vec<_>>(), ["notes"]);
    check_store(&c, &dst);
    // No work is left there.
    assert_eq!(convert(&c.input, &dst, &resume, &free, &mut |_| true).unwrap().resumed_units, 6);
    assert!(partial.join("notes").exists());
}

#[test]
fn two_that_need_one_index_wait_for_each_other() {
    use std::sync::mpsc::channel;
    let dir = TestDir::new("waits");
    let c = case(&[[23, 18, 9], [5, 4, 1]], DType::Float32, 3);
    let pages = field::store::layout::choose_pages(&c.input.catalog, 8, Layout::Cubed);
    let build = |name: &str, progress: &mut dyn FnMut(PieceProgress) -> bool| {
        build_index(&c.input, &pages, &dir.path(name), 64 << 20, 2, &free, progress)
    };
    build("alone", &mut |_| true).unwrap();
    let (working, is_working) = channel();
    let (waiting, is_waiting) = channel();
    let (first, second) = std::thread::scope(|scope| {
        let build = &build;
        let first = scope.spawn(move || {
            let mut once = Some(working);
            build("index", &mut |_| {
                // It is running, and continues when another run waits for it.
                once.take().is_none_or(|w| w.send(()).is_ok() && is_waiting.recv().is_ok())
            })
        });
        is_working.recv().unwrap();
        // A run without a wait returns at once.
        let mut asked = 0;
        let stopped = build("index", &mut |p| {
            assert_eq!((p.done, p.total), (0, 0));
            asked += 1;
            asked < 3
        });
        assert!(matches!(stopped, Err(FieldError::Interrupted)) && asked == 3);
        let mut waited = false;
        let second = build("index", &mut |p| {
            if p.total == 0 && !waited {
                waited = waiting.send(()).is_ok();
            }
            true
        });
        assert!(waited);
        (first.join().unwrap(), second)
    });
    assert_eq!(first.unwrap().resumed_units, 0);
    // It used the result of the first.
    let second = second.unwrap();
    assert!(second.resumed_units == second.units && second.units > 0);
    assert!(digest(&dir.path("index")) == digest(&dir.path("alone")));
    assert!(!dir.path("index.partial").exists());
}

#[test]
fn a_shard_that_was_cut_off_is_named() {
    let dir = TestDir::new("cut");
    let c = case(&[[9, 8, 7]], DType::Float32, 3);
    let dst = dir.path("s.zarr");
    convert(&c.input, &dst, &options(4, Layout::Cubed, Codec::None), &free, &mut |_| true).unwrap();
    let path = dst.join("zone1/density/c.1.0.0.0");
    let whole = std::fs::metadata(&path).unwrap().len();
    for (len, part) in [(whole - 1, "page (i"), (10, "index"), (0, "index")] {
        std::fs::File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
        let rows = StoreRows::new(&Store::open(&dst).unwrap(), 0, 2, 0).unwrap();
        let e = (0..7).find_map(|k| rows.read_rows(1, 0, k, 0..8, &mut [0; 9 * 8 * 4]).err()).unwrap().to_string();
        assert!(e.contains("c.1.0.0.0: ") && e.contains(part) && e.contains(&format!("ends at byte {len} but")), "{e}");
        assert!(e.contains("convert its source again"), "{e}");
    }
}

/// Each page is in a frame of whole pages of the system.
#[test]
fn small_pages_are_padded_in_memory() {
    let dir = TestDir::new("padding");
    let c = case(&[[17, 17, 17]], DType::Float32, 3);
    let d = dry_run(&c.input, &dir.path("s.zarr"), &options(4, Layout::Cubed, Codec::None), &free).unwrap();
    let page = d.page_boxes[0];
    let count: usize = page.iter().map(|n| 17usize.div_ceil(*n)).product();
    let scalar = page.iter().product::<usize>() * 4;
    // Coordinates and iblank once, momentum and density at two steps.
    let frames: usize =
        [(3, 1), (1, 1), (3, 2), (1, 2)].map(|(c, steps)| (c * scalar).div_ceil(4096) * steps).iter().sum();
    let wanted = (frames * 4096 * count) as f64 / d.source_bytes as f64;
    assert!((d.padding_memory - wanted).abs() < 1e-12 && wanted > 5.0 && d.padding_disk < 2.0, "{d:?} {wanted}");
    // If a page fills its frame there is no padding.
    let d = dry_run(
        &case(&[[32, 32, 32]], DType::Float32, 3).input,
        &dir.path("t"),
        &options(16, Layout::Cubed, Codec::None),
        &free,
    );
    let d = d.unwrap();
    assert_eq!((d.padding_disk, d.padding_memory), (1.0, 1.0));
}

/// Every bit of every file is checked; page maps over a damaged store give right values or an error.
#[test]
fn every_damage_is_found() {
    let dir = TestDir::new("damage");
    let c = case(&[[9, 8, 7], [5, 5, 1]], DType::Float32, 3);
    for codec in CODECS {
        let dst = dir.path("s.zarr");
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
        // Two exchanged whole shards.
        std::fs::write(dst.join("zone1/density/c.0.0.0.0"), &whole["zone1/density/c.1.0.0.0"]).unwrap();
        assert!(!ok(&dst));
        std::fs::write(dst.join("zone1/density/c.0.0.0.0"), &whole["zone1/density/c.0.0.0.0"]).unwrap();
    }
}

/// Its buffers are charged. With little memory it uses fewer workers and shorter reads, with the same result.
#[test]
fn a_validation_takes_what_memory_there_is() {
    use crate::check::check_store;
    use std::sync::atomic::AtomicU64;
    let dir = TestDir::new("validate");
    let c = case(&[[20, 19, 18], [12, 5, 7]], DType::Float32, 3);
    let dst = dir.path("s.zarr");
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
            // The way of reading does not affect the result.
            assert_eq!(field::store::Validation { reads: wanted.reads, ..found }, wanted, "{limit} {workers}");
        }
    }
    let stopped = check_store(&dst, 2, &free, None, &mut |_, _| false);
    assert!(matches!(stopped, Err(FieldError::Interrupted)));
}

/// No page comes out wrong.
fn read_or_fail(c: &ConvertCase, path: &Path) {
    let Ok(store) = Store::open(path) else { return };
    let mut pager = MemoryRegistrar::default();
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
                    // The first component of the first row: components of a point are adjacent in a frame.
                    for i in 0..e[0].len() {
                        let (at, of) = (i * m.components * m.size, from + i * m.size);
                        assert_eq!(frame[at..at + m.size], m.bytes[of..of + m.size]);
                    }
                }
            }
        }
    }
}

#[test]
fn a_folder_that_may_not_be_opened_is_said_at_once() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TestDir::new("denied");
    let c = case(&[[5, 4, 3]], DType::Float32, 1);
    let dst = dir.path("s.zarr");
    let partial = dir.path("s.zarr.partial");
    std::fs::create_dir_all(&partial).unwrap();
    std::fs::set_permissions(&partial, PermissionsExt::from_mode(0o311)).unwrap();
    let error = std::thread::scope(|s| {
        let as_nobody = || {
            // SAFETY: a system call without memory, about this thread alone: root may open everything.
            unsafe { libc::setfsuid(65_534) };
            // Where root cannot change its user there is nothing to test.
            let denied = std::fs::File::open(&partial).is_err();
            denied.then(|| convert(&c.input, &dst, &options(4, Layout::Cubed, Codec::None), &free, &mut |_| true))
        };
        s.spawn(as_nobody).join().unwrap()
    });
    if let Some(error) = error {
        let error = error.unwrap_err();
        assert!(error.is_access() && error.to_string().contains("s.zarr.partial"), "{error}");
    }
    std::fs::set_permissions(&partial, PermissionsExt::from_mode(0o755)).unwrap();
}
