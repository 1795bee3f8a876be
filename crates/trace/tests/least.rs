//! Traces from disk. A limit that is too small is an error at the start, and the limit that it names suffices. Lines
//! past the page cache are the same.

use convert::{convert, ConvertOptions};
use field::error::FieldError;
use field::plot3d::write::{write, WriteSpec};
use field::plot3d::{Kind, Precision};
use field::store::codec::Codec;
use kernels::streamline::{Direction, Options};
use output::Destination;
use pager::PolicyKind;
use runtime::session::{charge_for, Resources, Session, SourceSpec};
use runtime::whole_dataset::convert_input;
use std::path::{Path, PathBuf};
use trace::seeds::Seeds;
use trace::{trace, OverTime, TraceSpec};

fn rake(count: u64) -> TraceSpec {
    TraceSpec {
        seeds: Seeds::Line { from: [0.5, 0.6, 0.7], to: [12.0, 13.0, 14.0], count },
        field: "velocity".into(),
        step: 0,
        scalars: vec!["density".into(), "pressure".into()],
        options: Options { direction: Direction::Both, ..Options::default() },
        stop: None,
        path: None,
        over: OverTime::default(),
    }
}

fn plot3d(kind: Kind, n: usize) -> Vec<u8> {
    let spec = WriteSpec { precision: Precision::Single, ..WriteSpec::new(kind, vec![[n; 3], [n / 2; 3]]) };
    let mut bytes = Vec::new();
    let mut noise = 1u64;
    let mut plane = |zone: usize, variable: usize, k: usize, plane: &mut [f64]| {
        let ni = spec.dims[zone][0];
        for (m, value) in plane.iter_mut().enumerate() {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Digits that no codec compresses.
            let r = (noise >> 20) as f64 / (1u64 << 44) as f64;
            let at = [m % ni, m / ni, k].map(|v| v as f64);
            *value = match (spec.kind, variable) {
                (Kind::Grid, 0..=2) => at[variable] + 0.2 * r + zone as f64 * (n - 1) as f64,
                (Kind::Grid, _) => 1.0,
                (_, 0) => 1.5 + 0.1 * r,
                (_, v) => 0.1 * v as f64 + 0.1 * r,
            };
        }
    };
    write(&mut bytes, &spec, &mut plane).expect("memory takes everything");
    bytes
}

fn session(
    path: &Path,
    q: &[PathBuf],
    folder: &Path,
    memory_limit: u64,
    workers: usize,
) -> Result<Session, FieldError> {
    let spec =
        SourceSpec { path: path.into(), q: q.to_vec(), cache_dir: folder.join("cache"), ..SourceSpec::default() };
    let resources = Resources { memory_limit, workers, readers: 4, replacement: PolicyKind::Clock, observer: None };
    Session::open(spec, resources, &mut |_, _, _| true)
}

#[test]
fn the_least_limit_does() {
    let folder = std::env::temp_dir().join(format!("farfield-least-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let spec = rake(40);
    for (n, page) in [(61, 64), (64, 32)] {
        let (grid, q) = (folder.join("a.xyz"), folder.join("a.q"));
        std::fs::write(&grid, plot3d(Kind::Grid, n)).expect("written");
        std::fs::write(&q, plot3d(Kind::Q, n)).expect("written");
        let mut sources = vec![(grid.clone(), vec![q.clone()])];
        for codec in [Codec::None, Codec::Zstd { level: 1 }, Codec::Lz4] {
            let from = session(&grid, std::slice::from_ref(&q), &folder, 256 << 20, 1).expect("good files");
            let input = convert_input(&from.dataset()).expect("it can be read");
            let dst = folder.join(codec.name());
            let o = ConvertOptions { page, codec, workers: 1, overwrite: true, ..Default::default() };
            convert(&input, &dst, &o, &charge_for(&from), &mut |_| true).expect("it is converted");
            sources.push((dst, Vec::new()));
        }
        for (path, q) in &sources {
            for workers in [1, 2] {
                let run = |limit: u64| {
                    let s = session(path, q, &folder, limit, workers)?;
                    let r = trace(&s, &spec, Destination::Memory, &mut |_, _, _| true)?;
                    assert_eq!(s.pager.ledger().overdraft(), 0);
                    Ok(r.1.map(|a| a.points.len()))
                };
                let rich = run(256 << 20).expect("ample");
                let (mut limit, mut told) = (256 << 10, Vec::new());
                let points = loop {
                    match run(limit) {
                        Ok(points) => break points,
                        Err(FieldError::LimitTooSmall { needs, what, .. }) => {
                            // First the need of any run, then the need of this run's largest step.
                            assert!(
                                needs > limit && told.len() < 2,
                                "{n}^3 points, pages of {page}^3, {path:?}, {workers} workers: {needs} for {what} after {told:?}"
                            );
                            told.push(format!("{needs} for {what}"));
                            limit = needs;
                        }
                        Err(e) => panic!("{e}"),
                    }
                };
                assert_eq!(points, rich);
            }
        }
    }
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// Drops the files below a folder from the page cache.
fn evict(folder: &Path) {
    use std::os::fd::AsRawFd;
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().is_dir() {
            evict(&entry.path());
            continue;
        }
        let file = std::fs::File::open(entry.path()).expect("it is there");
        file.sync_all().expect("written");
        // SAFETY: a hint about an open file.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }
}

#[test]
fn lines_past_the_page_cache_are_the_same() {
    let folder = std::env::temp_dir().join(format!("farfield-direct-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (grid, q) = (folder.join("a.xyz"), folder.join("a.q"));
    std::fs::write(&grid, plot3d(Kind::Grid, 50)).expect("written");
    std::fs::write(&q, plot3d(Kind::Q, 50)).expect("written");
    let spec = rake(60);
    let from = session(&grid, &[q], &folder, 256 << 20, 1).expect("good files");
    let input = convert_input(&from.dataset()).expect("it can be read");
    let mut all = Vec::new();
    for codec in [Codec::None, Codec::Zstd { level: 1 }, Codec::Lz4] {
        let dst = folder.join(codec.name());
        let o = ConvertOptions { page: 16, codec, workers: 1, overwrite: true, ..Default::default() };
        convert(&input, &dst, &o, &charge_for(&from), &mut |_| true).expect("it is converted");
        for direct in [false, true] {
            evict(&dst);
            let s = session(&dst, &[], &folder, 16 << 20, 2).expect("a store");
            s.pager.set_direct(direct);
            let r = trace(&s, &spec, Destination::Memory, &mut |_, _, _| true).expect("it is traced");
            assert_eq!(s.pager.ledger().overdraft(), 0);
            all.push(r.1.expect("in memory").points);
        }
    }
    assert!(all[0].len() > 1000 && all.iter().all(|points| *points == all[0]));
    std::fs::remove_dir_all(&folder).expect("removed");
}
