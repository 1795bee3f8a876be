//! Broken and hostile files give a clear error, in time and memory bounded by their size.

use super::super::Plot3dInput;
use super::*;
use proptest::prelude::*;

fn error(bytes: &[u8]) -> String {
    let folder = Plot3dFolder::new();
    let path = folder.file("bad.xyz", bytes);
    let e = folder.open(&path, &[], &[]).map(|p| p.catalog).unwrap_err();
    let text = e.to_string();
    assert!(text.contains("bad.xyz"), "{text}");
    text
}

fn grid(format: Format) -> WriteSpec {
    WriteSpec { format, ..WriteSpec::new(Kind::Grid, vec![[7, 6, 5], [4, 9, 3]]) }
}

#[test]
fn truncated() {
    for format in [Format::Fortran, Format::Binary, Format::Ascii] {
        let whole = bytes(&grid(format));
        for cut in [1, 8, 100, whole.len() / 2] {
            let mut text = &whole[..whole.len() - cut];
            if format == Format::Ascii {
                // A shortened number is still a number.
                let words = text.iter().rposition(|b| *b == b' ').unwrap();
                text = &text[..words];
                if cut == 1 {
                    continue;
                }
            }
            let says = error(text);
            assert!(says.contains("truncated?"), "{format:?} -{cut}: {says}");
        }
    }
    let says = error(&bytes(&grid(Format::Binary))[..1000]);
    let total = 4 + 24 + (7 * 6 * 5 + 4 * 9 * 3) * 24;
    assert!(says.contains(&format!("at least {total} bytes, the file has 1000")), "{says}");
}

#[test]
fn padded() {
    for format in [Format::Fortran, Format::Binary] {
        for more in [1, 4, 512] {
            let mut file = bytes(&grid(format));
            file.extend(std::iter::repeat_n(0, more));
            let says = error(&file);
            assert!(says.contains(&format!("{more} bytes follow the last zone (padded?)")), "{says}");
        }
    }
    let mut text = bytes(&grid(Format::Ascii));
    text.extend_from_slice(b" 1.0");
    assert!(error(&text).contains("padded?"));
}

#[test]
fn swapped_header() {
    // Header in one order, data in the other: it adds up, and a remark names the oddity.
    let little = bytes(&WriteSpec { format: Format::Binary, ..WriteSpec::new(Kind::Grid, vec![[7, 6, 5]]) });
    let big = bytes(&WriteSpec {
        format: Format::Binary,
        byte_order: ByteOrder::Big,
        ..WriteSpec::new(Kind::Grid, vec![[7, 6, 5]])
    });
    let mixed = [&big[..16], &little[16..]].concat();
    let folder = Plot3dFolder::new();
    let open = folder.open(&folder.file("a.xyz", &mixed), &[], &[]).unwrap();
    assert!(
        open.catalog.guessed.iter().any(|s| s.contains("do not look like coordinates")),
        "{:?}",
        open.catalog.guessed
    );
}

#[test]
fn nan_filled_is_data() {
    let spec = WriteSpec { format: Format::Binary, ..WriteSpec::new(Kind::Grid, vec![[7, 6, 5]]) };
    let mut file = Vec::new();
    write(&mut file, &spec, &mut |_, _, _, plane| plane.fill(f64::NAN)).unwrap();
    let folder = Plot3dFolder::new();
    let open = folder.open(&folder.file("a.xyz", &file), &[], &[]).unwrap();
    assert_eq!(open.catalog.zones[0].dims, [7, 6, 5]);
    assert!(open.catalog.guessed.iter().any(|s| s.contains("do not look like coordinates")));
}

#[test]
fn wrong_record_marks() {
    let mut file = bytes(&grid(Format::Fortran));
    let at = 12 + 32 + 4 + 7 * 6 * 5 * 24;
    file[at] ^= 1;
    let says = error(&file);
    assert!(says.contains("starts with the length 5040 but ends with 5041"), "{says}");
}

#[test]
fn absurd_headers() {
    assert!(error(b"").contains("empty"));
    assert!(error(b"hello world\nhello world\n").contains("'hello'"));
    let word = |v: i32| v.to_le_bytes();
    let huge = |words: &[i32]| {
        let mut file: Vec<u8> = words.iter().flat_map(|&w| word(w)).collect();
        file.resize(1024, 0);
        file
    };
    let says = error(&huge(&[1, 1 << 30, 1 << 30, 1 << 30]));
    assert!(says.contains("Nothing in it looks like the header"), "{says}");
    for words in [
        &[1, 1 << 30, 1 << 30, 1 << 30][..],
        &[i32::MAX, i32::MAX, i32::MAX],
        &[i32::MAX; 256],
        &[-1; 256],
        &[0; 256],
        &[4, 100_000_000, 4, 1_200_000_000],
        &[12, 1 << 30, 1 << 30, 1 << 30, 12, i32::MIN, 7],
        &[80, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    ] {
        error(&huge(words));
    }
    assert!(error(b"1000000 2 2 2 1.0").contains("zone count"));
    assert!(error(b"1 100000 100000 100000 1.5").contains("expected"));
    assert!(error(b"2 2 2 1000000000000*1.5").contains("repeat counts"));
    assert!(error(b"18446744073709551615*1 18446744073709551615*1").contains("repeat counts"));
    assert!(error(b"1 2 2 1 12*1.5 0*7").contains("repeat count"));
    assert!(error(b"1 2 2 1\n 11*1.5\n 1.5.6").contains("line 3: '1.5.6' is not a number"));
    assert!(error(b"1 2 2 1 8*1.5 ******** 3*1").contains("too wide"));
    assert!(error(&[b'7'; 1000]).contains("256 bytes"));
}

#[test]
fn other_kinds_are_named() {
    let folder = Plot3dFolder::new();
    let q = WriteSpec { kind: Kind::Q, ..WriteSpec::new(Kind::Grid, vec![[7, 6, 5]]) };
    let f = WriteSpec { kind: Kind::Function, functions: 2, ..q.clone() };
    let g = WriteSpec { kind: Kind::Grid, ..q.clone() };
    let (q, f, g) = (folder.file("a.q", &bytes(&q)), folder.file("a.f", &bytes(&f)), folder.file("a.g", &bytes(&g)));
    let e = folder.open(&q, &[], &[]).unwrap_err().to_string();
    assert!(e.contains("it reads as a solution (q) file, which is opened with its grid: GRID+q=FILE"), "{e}");
    let e = folder.open(&f, &[], &[]).unwrap_err().to_string();
    assert!(e.contains("function file"), "{e}");
    let e = folder.open(&g, &[g.clone()], &[]).unwrap_err().to_string();
    assert!(e.contains("it reads as a grid"), "{e}");
    let text = WriteSpec { kind: Kind::Q, format: Format::Ascii, ..WriteSpec::new(Kind::Grid, vec![[7, 6, 5]]) };
    let e = folder.open(&folder.file("c.q", &bytes(&text)), &[], &[]).unwrap_err().to_string();
    assert!(e.contains("it reads as a solution (q) file"), "{e}");
    let kind = Plot3dOptions { kind: Some(Kind::Q), ..Plot3dOptions::default() };
    assert!(matches!(Plot3d::open(&q, &[], &[], &kind, &folder.0), Err(FieldError::Usage(_))));
    let other = WriteSpec { kind: Kind::Q, ..WriteSpec::new(Kind::Grid, vec![[7, 5, 6]]) };
    let e = folder.open(&g, &[folder.file("b.q", &bytes(&other))], &[]).unwrap_err().to_string();
    assert!(e.contains("b.q") && e.contains("does not go with the grid"), "{e}");
    let e = folder.open(&g, &[q.clone(), q.clone(), q], &[f.clone(), f]).unwrap_err();
    assert!(matches!(e, FieldError::Usage(_)), "{e}");
    assert!(matches!(folder.open(&folder.0.join("none"), &[], &[]), Err(FieldError::Io { .. })));
}

/// Two dimensions with a zone count and iblank, plain: also a 3-D zone one point thick in i, without count and iblank.
fn two_ways() -> WriteSpec {
    WriteSpec {
        format: Format::Binary,
        precision: Precision::Single,
        dimension: Dimension::Two,
        iblank: true,
        ..WriteSpec::new(Kind::Grid, vec![[8, 9, 1]])
    }
}

#[test]
fn ambiguous() {
    let spec = two_ways();
    let folder = Plot3dFolder::new();
    // Values decide where they can: small integers are implausible lengths.
    let open = folder.open(&folder.file("a.xyz", &bytes(&spec)), &[], &[]).unwrap();
    assert_eq!((open.catalog.dimension, open.catalog.zones[0].dims), (2, [8, 9, 1]));
    assert!(open.catalog.guessed.iter().any(|s| s.contains("the values decided")));
    // If they cannot, the error lists both readings with the options that choose.
    let mut file = Vec::new();
    write(&mut file, &spec, &mut |_, _, _, plane| plane.fill(1e30)).unwrap();
    let g = folder.file("b.xyz", &file);
    let e = folder.open(&g, &[], &[]).unwrap_err();
    let FieldError::Ambiguous { readings, .. } = &e else { panic!("{e}") };
    assert_eq!(readings.len(), 2);
    assert!(readings[0].contains("--plot3d-iblank yes --plot3d-zones multi --plot3d-dimension 2"), "{readings:?}");
    assert!(readings[1].contains("--plot3d-iblank no --plot3d-zones single --plot3d-dimension 3"), "{readings:?}");
    let mut options = Plot3dOptions::default();
    options.set("dimension", "2").unwrap();
    assert_eq!(Plot3d::open(&g, &[], &[], &options, &folder.0).unwrap().catalog.dimension, 2);
    options.set("dimension", "3").unwrap();
    assert_eq!(Plot3d::open(&g, &[], &[], &options, &folder.0).unwrap().catalog.zones[0].dims, [1, 8, 9]);
    // A q file that matches only one reading settles it, and so does a .p3d file.
    let q = WriteSpec { kind: Kind::Q, iblank: false, ..spec.clone() };
    let q = folder.file("b.q", &bytes(&q));
    let open = folder.open(&g, &[q.clone()], &[]).unwrap();
    assert_eq!(open.catalog.dimension, 2);
    assert!(open.catalog.guessed.iter().any(|s| s.contains("b.q goes with one of them")), "{:?}", open.catalog.guessed);
    let meta = folder.file("b.p3d", br#"{"2D": true, "filenames": [{"time": 0, "xyz": "b.xyz"}]}"#);
    assert_eq!(folder.open(&meta, &[], &[]).unwrap().catalog.dimension, 2);
    // In text, the integers are iblank.
    let text = folder.file("c.xyz", &bytes(&WriteSpec { format: Format::Ascii, ..spec }));
    let open = folder.open(&text, &[], &[]).unwrap();
    assert_eq!((open.catalog.dimension, open.catalog.zones[0].arrays.len()), (2, 2));
}

/// Errors in a settings file name that file, not the grid.
#[test]
fn settings_that_do_not_fit_are_named() {
    let folder = Plot3dFolder::new();
    let path = folder.file("a.xyz", &bytes(&grid(Format::Binary)));
    for (text, word) in
        [(r#"{"zones": {"wing": {"scale": 2}}}"#, "wing"), (r#"{"zone-names": ["a", "b", "c", "d", "e"]}"#, "5 zones")]
    {
        folder.file("a.xyz.p3d.json", text.as_bytes());
        let e = folder.open(&path, &[], &[]).unwrap_err().to_string();
        assert!(e.contains("a.xyz.p3d.json") && e.contains(word), "{e}");
    }
}

#[test]
fn shrinking_files_are_noticed() {
    let folder = Plot3dFolder::new();
    let whole = bytes(&grid(Format::Binary));
    let path = folder.file("a.xyz", &whole);
    let open = folder.open(&path, &[], &[]).unwrap();
    folder.file("a.xyz", &whole[..whole.len() / 2]);
    let layout = open.layout(1, 0).unwrap();
    let mut rows = vec![0_u8; 4 * 9 * 8];
    let e = layout.read_rows(0, 2, 2, 0..9, &mut rows).unwrap_err().to_string();
    assert!(e.contains("a.xyz") && e.contains("shorter"), "{e}");
    assert!(matches!(layout.read_rows(0, 3, 0, 0..9, &mut rows), Err(FieldError::Usage(_))));
}

/// Records above 2 GiB, in sub-records and as one record with an unsigned length, in a sparse file.
#[test]
fn records_above_2_gib() {
    use std::os::unix::fs::FileExt;
    let folder = Plot3dFolder::new();
    let (ni, nj, nk) = (1024_u64, 1024, 100);
    let data = ni * nj * nk * 24;
    for split in [true, false] {
        let path = folder.0.join("large.xyz");
        let file = std::fs::File::create(&path).unwrap();
        let mut pos = 0;
        let mut put = |bytes: &[u8], skip: u64| {
            file.write_all_at(bytes, pos).unwrap();
            pos += bytes.len() as u64 + skip;
        };
        let words = |list: &[i32]| list.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
        put(&words(&[4, 1, 4, 12, ni as i32, nj as i32, nk as i32, 12]), 0);
        if split {
            let first = write::MAX_SUBRECORD;
            let rest = data - first;
            put(&words(&[-(first as i32)]), first);
            put(&words(&[first as i32]), 0);
            put(&words(&[rest as i32]), rest);
            put(&words(&[-(rest as i32)]), 0);
        } else {
            put(&words(&[data as u32 as i32]), data);
            put(&words(&[data as u32 as i32]), 0);
        }
        // A row that the split cuts in two.
        let cut = write::MAX_SUBRECORD;
        let row = cut / (ni * 8);
        let (c, k, j) = ((row / (nj * nk)) as usize, (row / nj % nk) as usize, (row % nj) as usize);
        let marks = if split { 8 } else { 0 };
        file.write_all_at(&2.5_f64.to_le_bytes()[4..], 36 + (cut / 8 + 1) * 8 + marks + 4).unwrap();
        let open = folder.open(&path, &[], &[]).unwrap();
        assert_eq!(open.catalog.zones[0].dims, [1024, 1024, 100]);
        let layout = open.layout(0, 0).unwrap();
        let mut runs = Vec::new();
        layout.extents(0, c, k, j..j + 1, &mut |r| runs.push(r));
        assert_eq!(runs.len(), if split { 2 } else { 1 });
        assert_eq!(layout.affine(0).is_some(), !split);
        let mut out = vec![0_u8; 8192];
        layout.read_rows(0, c, k, j..j + 1, &mut out).unwrap();
        let values = decode(&out, DType::Float64);
        assert_eq!(values[(cut / 8 + 1 - row * ni) as usize], 2.5);
        assert_eq!(values.iter().filter(|v| **v != 0.0).count(), 1);
    }
}

/// Every variant the fuzzers start from.
fn seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for kind in [Kind::Grid, Kind::Q, Kind::Function] {
        for format in [Format::Fortran, Format::Binary, Format::Ascii] {
            for order in [Order::Whole, Order::Planes] {
                let mut s = WriteSpec { format, order, ..WriteSpec::new(kind, vec![[3, 2, 2], [2, 2, 3]]) };
                s.precision = Precision::Single;
                s.iblank = kind == Kind::Grid && order == Order::Whole;
                s.overflow = (kind == Kind::Q && order == Order::Planes).then_some((7, 1));
                s.max_subrecord = 60;
                all.push(bytes(&s));
            }
        }
    }
    all.push(
        br#"{"filenames": [{"time": 0, "xyz": "b.xyz"}], "names": ["a;b"], "zones": {"z": {"scale": 2}}}"#.to_vec(),
    );
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(1500, 1000), failure_persistence: None, rng_seed: prop::test_runner::RngSeed::Fixed(0x6675_7a7a), ..ProptestConfig::default() })]

    #[test]
    fn mutated_bytes(
        seed in prop::sample::select(seeds()),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        head in prop::option::weighted(0.5, (0_usize..64, any::<u8>())),
        cut in prop::option::weighted(0.3, any::<prop::sample::Index>()),
    ) {
        let mut bytes = seed;
        for (at, v) in flips {
            let at = at.index(bytes.len());
            bytes[at] = v;
        }
        if let Some((at, v)) = head {
            if at < bytes.len() {
                bytes[at] = v;
            }
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        fuzz_sniff(&bytes);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..1200), words in prop::collection::vec(0_i32..40, 0..40)) {
        fuzz_sniff(&bytes);
        let mut small: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        small.extend_from_slice(&bytes);
        fuzz_sniff(&small);
    }
}

/// Three plane zones whose header and data also add up as one 3-D zone. Integers show where the header ends.
#[test]
fn headers_are_integers() {
    for format in [Format::Ascii, Format::Binary] {
        let spec = WriteSpec {
            format,
            dimension: Dimension::Two,
            ..WriteSpec::new(Kind::Grid, vec![[2, 6, 1], [5, 6, 1], [2, 5, 1]])
        };
        let folder = Plot3dFolder::new();
        let open = folder.open(&folder.file("a.xyz", &bytes(&spec)), &[], &[]).unwrap();
        assert_eq!((open.catalog.dimension, open.catalog.zones.len()), (2, 3));
    }
}

#[test]
fn who_interrupts_while_a_hint_is_looked_for_is_heard() {
    let folder = Plot3dFolder::new();
    let bad = folder.file("bad.xyz", b"1\n3 3 3\n1. 2. 3.\n");
    let open = |most: u32| {
        let mut calls = 0;
        let mut progress = |_: u64, _: u64| {
            calls += 1;
            calls <= most
        };
        let cache = folder.0.join("cache");
        let e = Plot3d::open_with_progress(
            Plot3dInput { grids: &[bad.clone()], q: &[], function: &[], times: &[], dt: None, untimed: "" },
            &Plot3dOptions::default(),
            &cache,
            &mut progress,
        );
        (e.unwrap_err(), calls)
    };
    let (e, all) = open(u32::MAX);
    assert!(matches!(e, FieldError::Format { .. }) && all > 1, "{e} {all}");
    for most in 0..all {
        let (e, _) = open(most);
        assert!(matches!(e, FieldError::Interrupted), "after {most} of {all}: {e}");
    }
}

#[test]
fn a_pipe_is_refused_and_nobody_waits_for_it() {
    let folder = Plot3dFolder::new();
    let pipe = folder.0.join("pipe.xyz");
    let name = std::ffi::CString::new(std::os::unix::ffi::OsStrExt::as_bytes(pipe.as_os_str())).unwrap();
    // SAFETY: a C string that outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let meta = folder.file("run.p3d", br#"{"filenames": [{"time": 0, "xyz": "pipe.xyz"}]}"#);
    for path in [&pipe, &meta] {
        let e = folder.open(path, &[], &[]).unwrap_err().to_string();
        assert!(e.contains("pipe.xyz") && e.contains("no regular file"), "{e}");
    }
}
