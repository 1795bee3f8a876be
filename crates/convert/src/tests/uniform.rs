//! Zones with the coordinates of uniform grids, and zones with one deviating point.

use super::*;
use field::uniform::Uniform;

const GRID: Uniform = Uniform { origin: [0.1, -2.0, 1.0 / 3.0], spacing: [0.1, -0.25, 1.0 / 7.0] };

/// A case with [`GRID`]'s coordinates, except for component and point `moved`, which deviates by one unit in the last
/// place.
fn gridded(dims: [usize; 3], dtype: DType, moved: Option<(usize, usize)>) -> ConvertCase {
    let mut case = case(&[dims], dtype, 3);
    let points: usize = dims.iter().product();
    let mut bytes = Vec::new();
    for c in 0..3 {
        for n in 0..points {
            let ijk = [n % dims[0], n / dims[0] % dims[1], n / dims[0] / dims[1]];
            let x = GRID.stored(dtype, c, ijk[c]);
            let off = moved == Some((c, n));
            match dtype {
                DType::Float32 if off => bytes.extend_from_slice(&(x as f32).next_up().to_ne_bytes()),
                DType::Float32 => bytes.extend_from_slice(&(x as f32).to_ne_bytes()),
                _ => bytes.extend_from_slice(&if off { x.next_up() } else { x }.to_ne_bytes()),
            }
        }
    }
    case.memory[0][0].bytes = Arc::new(bytes);
    case.input.arrays[0][0].rows = Arc::new(case.memory[0][0].clone());
    case
}

fn found(case: &ConvertCase, path: &Path, options: &ConvertOptions) -> Option<Uniform> {
    convert(&case.input, path, options, &free, &mut |_| true).unwrap();
    let store = Store::open(path).unwrap();
    let validation = validated(path).unwrap();
    assert!(validation.is_ok(), "{:?}", validation.problems);
    store.root.uniform[0]
}

#[test]
fn noted_whatever_the_pages() {
    let dir = TestDir::new("uniform");
    let dims = [37, 29, 23];
    for dtype in [DType::Float32, DType::Float64] {
        let case = gridded(dims, dtype, None);
        let mut all = Vec::new();
        for (n, (page, layout, limit)) in
            [(16, Layout::Cubed, 256 << 20), (4, Layout::Cubed, 3 << 20), (16, Layout::Flat, 256 << 20)]
                .into_iter()
                .enumerate()
        {
            let more = ConvertOptions { memory_limit: limit, workers: n + 1, ..options(page, layout, Codec::None) };
            all.push(found(&case, &dir.path(&format!("{}-{n}", dtype.name())), &more).expect("it is uniform"));
        }
        assert!(all.iter().all(|u| *u == all[0]));
        for (c, &count) in dims.iter().enumerate() {
            for n in 0..count {
                assert_eq!(all[0].stored(dtype, c, n), GRID.stored(dtype, c, n), "what is computed is what is stored");
            }
        }
        // From a store, read by boxes; and for data in place, with the geometry alone.
        let store = Store::open(&dir.path(&format!("{}-0", dtype.name()))).unwrap();
        let rows = |a| Arc::new(StoreRows::new(&store, 0, a, 0).unwrap());
        let mut again = case.input.clone();
        for (a, source) in again.arrays[0].iter_mut().enumerate() {
            source.rows = rows(a);
        }
        let again = ConvertCase { input: again, memory: Vec::new() };
        let copy = dir.path(&format!("{}-copy", dtype.name()));
        assert_eq!(found(&again, &copy, &options(8, Layout::Cubed, Codec::Zstd { level: 1 })), Some(all[0]));
        let index = dir.path(&format!("{}-index", dtype.name()));
        build_index(&case.input, &store.paging(), &index, 64 << 20, 2, &free, &mut |_| true).unwrap();
        assert_eq!(Store::open(&index).unwrap().root.uniform, [Some(all[0])]);
    }
}

#[test]
fn one_point_is_enough() {
    let dir = TestDir::new("nearly");
    let dims = [9, 8, 7];
    let last = 9 * 8 * 7 - 1;
    for dtype in [DType::Float32, DType::Float64] {
        for (n, moved) in [(0, 40), (1, 3), (1, last), (2, 5), (2, last), (0, last), (0, 4)].into_iter().enumerate() {
            let path = dir.path(&format!("{}-{n}", dtype.name()));
            let case = gridded(dims, dtype, Some(moved));
            assert_eq!(found(&case, &path, &options(4, Layout::Cubed, Codec::None)), None, "{moved:?}");
        }
    }
    // A moving grid is never uniform, however even each of its steps is.
    let mut case = gridded(dims, DType::Float32, None);
    let mut twice = case.memory[0][0].bytes.to_vec();
    twice.extend_from_within(..);
    case.memory[0][0].bytes = Arc::new(twice);
    case.input.arrays[0][0] = ArraySource { rows: Arc::new(case.memory[0][0].clone()), steps: 2 };
    assert_eq!(found(&case, &dir.path("moves"), &options(4, Layout::Cubed, Codec::None)), None);
}

/// Another grid in the root document is detected, even with a valid checksum.
#[test]
fn a_forged_note_is_found() {
    let dir = TestDir::new("forged");
    let case = gridded([9, 8, 7], DType::Float32, None);
    let path = dir.path("store");
    found(&case, &path, &options(4, Layout::Cubed, Codec::None)).unwrap();
    let mut root = Store::open(&path).unwrap().root;
    let mut other = root.uniform[0].unwrap();
    other.origin[1] += 1e-3;
    root.uniform = vec![Some(other)];
    std::fs::write(path.join("zarr.json"), root.document()).unwrap();
    let validation = validated(&path).unwrap();
    assert!(!validation.is_ok() && validation.problems[0].error.contains("uniform grid"), "{:?}", validation.problems);
    // A grid that is impossible for a zone of these dimensions is refused at opening.
    other.spacing[0] = 0.0;
    root.uniform = vec![Some(other)];
    std::fs::write(path.join("zarr.json"), root.document()).unwrap();
    assert!(Store::open(&path).is_err());
}
