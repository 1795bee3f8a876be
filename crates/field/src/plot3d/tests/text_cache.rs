//! The cache of text saves time and changes nothing else.

use super::super::Plot3dInput;
use super::*;

/// Integers that fit a plane of 8 x 9 points with iblank, and a box of 1 x 8 x 9 points without.
fn either() -> String {
    let xy: Vec<String> = (0..144).map(|n| (n % 5).to_string()).collect();
    format!("1 8 9\n{}\n{}\n", xy.join(" "), vec!["1"; 72].join(" "))
}

fn solution(head: &str, variables: usize) -> String {
    format!("{head}\n0.3 0. 1e5 0.\n{}\n", vec!["1.5"; 72 * variables].join(" "))
}

fn plane_q() -> String {
    solution("1\n8 9", 4)
}

fn box_q() -> String {
    solution("1 8 9", 5)
}

fn is_ambiguous(open: Result<Plot3d, FieldError>) -> bool {
    matches!(open, Err(FieldError::Ambiguous { readings, .. }) if readings.len() == 2)
}

#[test]
fn how_a_text_was_read_before_binds_nobody() {
    let folder = Plot3dFolder::new();
    let g = folder.file("g.xyz", either().as_bytes());
    let plane = folder.file("plane.q", plane_q().as_bytes());
    let space = folder.file("box.q", box_q().as_bytes());
    assert!(is_ambiguous(folder.open(&g, &[], &[])));
    for _ in 0..2 {
        let open = folder.open(&g, &[plane.clone()], &[]).unwrap();
        assert_eq!((open.catalog.dimension, open.catalog.zones[0].dims), (2, [8, 9, 1]));
        assert!(is_ambiguous(folder.open(&g, &[], &[])), "as it was read with a q file");
        let open = folder.open(&g, &[space.clone()], &[]).unwrap();
        assert_eq!((open.catalog.dimension, open.catalog.zones[0].dims), (3, [1, 8, 9]));
        assert!(is_ambiguous(folder.open(&g, &[], &[])));
    }
    // Hints of a .p3d file apply only to a grid opened through it.
    for (planar, dimension) in [("true", 2), ("false", 3), ("true", 2)] {
        let text = format!(r#"{{"2D": {planar}, "filenames": [{{"time": 0, "xyz": "g.xyz"}}]}}"#);
        let meta = folder.file("g.p3d", text.as_bytes());
        assert_eq!(folder.open(&meta, &[], &[]).unwrap().catalog.dimension, dimension);
        assert!(is_ambiguous(folder.open(&g, &[], &[])));
    }
}

#[test]
fn the_same_is_said_and_nothing_is_read_twice() {
    let folder = Plot3dFolder::new();
    let g = folder.file("g.xyz", either().as_bytes());
    let q = folder.file("plane.q", plane_q().as_bytes());
    let cache = folder.0.join("cache");
    let open = |calls: &mut u32| {
        let mut count = |_: u64, _: u64| {
            *calls += 1;
            true
        };
        Plot3d::open_with_progress(
            Plot3dInput { grids: &[g.clone()], q: &[q.clone()], function: &[], times: &[], dt: None, untimed: "" },
            &Plot3dOptions::default(),
            &cache,
            &mut count,
        )
        .unwrap()
    };
    let (mut cold, mut warm) = (0, 0);
    let first = open(&mut cold);
    let said = first.catalog.guessed.join("\n");
    assert!(said.contains("plane.q goes with one of them"), "{said}");
    assert_eq!(open(&mut warm).catalog.guessed, first.catalog.guessed);
    assert!(cold > 0 && warm == 0, "{cold} {warm}");
    // Text with another time is other text, even at the same size.
    folder.file("g.xyz", either().replacen("1 8 9", "1 9 8", 1).as_bytes());
    let e = folder.open(&g, &[q.clone()], &[]).unwrap_err();
    assert!(matches!(e, FieldError::Ambiguous { .. }), "the q file goes with neither: {e}");
}

#[test]
fn what_cannot_be_kept_is_no_trouble_until_it_is_needed() {
    let folder = Plot3dFolder::new();
    let g = folder.file("g.xyz", either().as_bytes());
    let cache = folder.file("cache", b"a file where a folder goes");
    assert!(is_ambiguous(folder.open(&g, &[], &[])));
    let q = folder.file("plane.q", plane_q().as_bytes());
    let e = folder.open(&g, &[q], &[]).unwrap_err();
    assert!(matches!(&e, FieldError::Io { path, .. } if path.starts_with(&cache)), "{e}");
    // A note that does not parse is ignored.
    std::fs::remove_file(&cache).unwrap();
    assert!(is_ambiguous(folder.open(&g, &[], &[])));
    for note in std::fs::read_dir(&cache).unwrap() {
        std::fs::write(note.unwrap().path(), b"{\"version\": 2, \"readings\": [{\"zones\": [[0, 1, 1, 1]]}]}").unwrap();
    }
    assert!(is_ambiguous(folder.open(&g, &[], &[])));
}

#[test]
fn text_in_the_place_of_other_text_is_read_itself() {
    let folder = Plot3dFolder::new();
    let text = |dims: &str| format!("1\n{dims}\n{}\n", (0..24).map(|n| format!("{n}.5")).collect::<Vec<_>>().join(" "));
    let g = folder.file("g.xyz", text("2 2 2").as_bytes());
    let when = std::fs::metadata(&g).unwrap().modified().unwrap();
    assert_eq!(folder.open(&g, &[], &[]).unwrap().catalog.zones[0].dims, [2, 2, 2]);
    // As `mv` does after `cp -p`: the size and time of the old file.
    let other = folder.file("other.xyz", text("1 2 4").as_bytes());
    std::fs::File::options().write(true).open(&other).unwrap().set_modified(when).unwrap();
    std::fs::rename(&other, &g).unwrap();
    assert_eq!(folder.open(&g, &[], &[]).unwrap().catalog.zones[0].dims, [1, 2, 4]);
}

#[test]
fn of_binary_files_nothing_is_looked_for_or_kept() {
    let folder = Plot3dFolder::new();
    let spec = WriteSpec::new(Kind::Grid, vec![[4, 3, 2]]);
    let g = folder.file("g.xyz", &bytes(&spec));
    folder.open(&g, &[], &[]).unwrap();
    assert!(!folder.0.join("cache").exists());
}
