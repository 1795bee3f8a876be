//! Every place, type, order and codec gives the written values and block ranges.

use super::making::{SyntheticStore, TempFolder, Where};
use field::volume::{typed, CodecSpec, Extremes, Missing, Volume, VolumeKind, VolumeLevel, VolumeSpec, BLOCK};
use field::with_voxel;
use pager::{Lookup, PageId, Pager, PagerConfig};
use proptest::prelude::*;
use std::sync::Arc;

pub fn pager(limit: u64) -> Arc<Pager> {
    Pager::new(PagerConfig { limit, readers: 8, ..PagerConfig::default() }).unwrap()
}

/// Reads a whole volume of one array and compares it with the truth.
pub fn compare(made: &SyntheticStore, volume: &Volume, pager: &Arc<Pager>) {
    compare_every(made, volume, &volume.levels[0], [1; 3], pager);
}

/// Reads every n-th voxel and compares it with the truth.
fn compare_every(made: &SyntheticStore, volume: &Volume, level: &VolumeLevel, every: [u64; 3], pager: &Arc<Pager>) {
    let axis = |a: char| made.axes.find(a);
    let worker = pager.worker();
    for array in &level.arrays {
        let t = &array.translation;
        assert_eq!(array.steady, volume.steps == 1);
        for step in 0..volume.steps {
            for page in 0..t.count() {
                let id = PageId::new(array.id, step, page);
                let hold = pager.fetch(&[id]).unwrap_or_else(|e| panic!("{made:?}: {e}"));
                let Lookup::Here(frame) = worker.page(id) else { panic!("held, so it is here") };
                let (first, inside) = t.extent(page);
                assert_eq!(frame.len(), array.brick.bytes());
                with_voxel!(array.brick.voxel, T => {
                    let nc = array.brick.components;
                    let voxels: &[T] = typed(&frame[..array.brick.voxel_bytes()]);
                    let ranges: &[T] = typed(&frame[array.brick.ranges_at()..]);
                    let [pi, pj, _] = array.brick.page.map(|n| n as usize);
                    let [bi, bj, bk] = array.brick.blocks();
                    let at = |i: usize, j: usize, k: usize, c: usize| voxels[((k * pj + j) * pi + i) * nc + c];
                    let [ni, nj, nk] = inside.map(|n| n as usize);
                    for k in 0..nk { for j in 0..nj { for i in 0..ni { for c in 0..nc {
                        let mut place = vec![0; made.shape.len()];
                        let [x, y, z] = [(0, i), (1, j), (2, k)].map(|(a, n)| (u64::from(first[a]) + n as u64) * every[a]);
                        for (a, v) in [('x', x), ('y', y), ('z', z), ('c', array.channels[c] as u64), ('t', step.into())] {
                            if let Some(d) = axis(a) { place[d] = v; }
                        }
                        let want = made.truth(&place) as T;
                        let got = at(i, j, k, c);
                        assert!(got == want || both_nan(got, want), "{made:?} {place:?}: {got} for {want}");
                    } } } }
                    for kb in 0..bk { for jb in 0..bj { for ib in 0..bi { for c in 0..nc {
                        let (mut low, mut high) = (<T as Extremes>::HIGHEST, <T as Extremes>::LOWEST);
                        for k in kb * BLOCK..(kb * BLOCK + BLOCK + 1).min(nk) {
                            for j in jb * BLOCK..(jb * BLOCK + BLOCK + 1).min(nj) {
                                for i in ib * BLOCK..(ib * BLOCK + BLOCK + 1).min(ni) {
                                    let v = at(i, j, k, c);
                                    if v < low { low = v; }
                                    if v > high { high = v; }
                                }
                            }
                        }
                        let n = 2 * (((kb * bj + jb) * bi + ib) * nc + c);
                        assert_eq!(ranges[n..n + 2], [low, high], "{made:?} block {ib} {jb} {kb} {c} of {page}");
                    } } } }
                });
                drop(hold);
            }
        }
    }
}

pub fn open(
    made: &SyntheticStore,
    kind: VolumeKind,
    scratch: &TempFolder,
    shard: Option<Vec<u64>>,
) -> (VolumeSpec, Vec<Vec<u8>>) {
    let (array, tables) = made.write(&scratch.0, shard);
    (made.volume(array, kind), tables)
}

fn check(made: &SyntheticStore, kind: VolumeKind, shard: Option<Vec<u64>>) -> (Volume, Arc<Pager>) {
    let scratch = TempFolder::new();
    let (spec, tables) = open(made, kind, &scratch, shard);
    // As a reader passes it on.
    let text = serde_json::to_string(&spec).unwrap();
    let spec = serde_json::from_str(&text).unwrap();
    let pager = pager(16 << 20);
    let volume = Volume::open(spec, tables, &pager).unwrap_or_else(|e| panic!("{made:?}: {e}"));
    compare(made, &volume, &pager);
    (volume, pager)
}

pub fn made() -> SyntheticStore {
    SyntheticStore {
        axes: "zyx".into(),
        shape: vec![11, 13, 17],
        chunk: vec![4, 5, 6],
        order: None,
        dtype: "uint8".into(),
        big: false,
        codecs: Vec::new(),
        place: Where::Keys,
        holes: Vec::new(),
        fill: None,
        cut: false,
    }
}

const SHARDS: [Where; 4] = [
    Where::Shards { crc: true, at_end: true },
    Where::Shards { crc: true, at_end: false },
    Where::Shards { crc: false, at_end: true },
    Where::Shards { crc: false, at_end: false },
];

const TYPES: [&str; 12] =
    ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64", "bool", "float16"];

#[test]
fn every_type_in_both_byte_orders() {
    for dtype in TYPES {
        for big in [false, true] {
            for place in [Where::Keys, Where::Contiguous] {
                let chunk = if place == Where::Keys { vec![4, 5, 6] } else { vec![11, 13, 17] };
                check(&SyntheticStore { dtype: dtype.into(), big, place, chunk, ..made() }, VolumeKind::Scalar, None);
            }
        }
    }
}

#[test]
fn pages_that_are_pieces_of_the_same_rows_are_read_together() {
    let of = |axes: &str, shape: &[u64], dtype: &str, pages: &[u64]| {
        let made = SyntheticStore {
            axes: axes.into(),
            shape: shape.into(),
            chunk: shape.to_vec(),
            dtype: dtype.into(),
            ..made()
        };
        let scratch = TempFolder::new();
        let (spec, tables) =
            open(&SyntheticStore { place: Where::Contiguous, ..made }, VolumeKind::Scalar, &scratch, None);
        let volume = Volume::open(spec, tables, &pager(16 << 20)).unwrap();
        let array = &volume.levels[0].arrays[0];
        pages.iter().map(|page| array.read_with(*page).collect()).collect::<Vec<Vec<u64>>>()
    };
    // Rows of 5000 bytes are five pages of about one KiB, which are read together. Of rows of 20,000 bytes sixteen KiB
    // are.
    assert_eq!(
        of("zyx", &[16, 16, 5000], "uint8", &[0, 7, 9]),
        [vec![0, 1, 2, 3, 4], (5..10).collect(), (5..10).collect()]
    );
    assert_eq!(of("zyx", &[16, 16, 5000], "float32", &[3, 17]), [(0..16).collect::<Vec<u64>>(), (16..20).collect()]);
    // If the last index goes along x, the contiguous pages are columns.
    let [first]: [Vec<u64>; 1] = of("xyz", &[16, 16, 5000], "uint8", &[0]).try_into().unwrap();
    assert!(first.len() == 5 && first.windows(2).all(|w| w[1] - w[0] == first[1]), "{first:?}");
    // A row of one page has no others.
    assert_eq!(of("zyx", &[16, 16, 600], "uint8", &[5]), [[5]]);
}

/// Samples of an array that is read by rows have the values and the positions of its voxels.
#[test]
fn every_so_many_th_voxel() {
    let large = |axes: &str, shape: &[u64], place| {
        let chunk = if place == Where::Planes { [&[1], &shape[1..]].concat() } else { shape.to_vec() };
        SyntheticStore { axes: axes.into(), shape: shape.into(), chunk, place, ..made() }
    };
    let zyx = [129, 131, 133];
    let all = [
        (large("zyx", &zyx, Where::Contiguous), VolumeKind::Scalar),
        (SyntheticStore { dtype: "int16".into(), big: true, ..large("zyx", &zyx, Where::Planes) }, VolumeKind::Scalar),
        (
            SyntheticStore { dtype: "float16".into(), ..large("xyz", &[200, 9, 1200], Where::Contiguous) },
            VolumeKind::Scalar,
        ),
        (large("zyxc", &[129, 131, 133, 3], Where::Contiguous), VolumeKind::Rgb),
        (
            SyntheticStore { dtype: "float32".into(), ..large("tczyx", &[2, 2, 129, 131, 133], Where::Contiguous) },
            VolumeKind::Channels,
        ),
    ];
    for (made, kind) in all {
        let scratch = TempFolder::new();
        let (mut spec, tables) = open(&made, kind, &scratch, None);
        spec.channels[0].missing = if made.dtype == "int16" { Missing::one(-30_000.0) } else { Missing::none() };
        let pager = pager(16 << 20);
        let volume = Volume::open(spec, tables, &pager).unwrap();
        let level = &volume.levels[0];
        assert_eq!(volume.samples.len(), 4);
        for (samples, every) in volume.samples.iter().zip([8, 16, 32, 64]) {
            let every = level.dims.map(|n| u64::from((n - 1) / (n - 1).div_ceil(every)));
            assert!((0..3)
                .all(|a| every[a] * u64::from(samples.dims[a] - 1) + u64::from(samples.dims[a])
                    > u64::from(level.dims[a])));
            compare_every(&made, &volume, samples, every, &pager);
            for corner in 0..8 {
                let at =
                    std::array::from_fn(|a| if corner >> a & 1 == 1 { f64::from(samples.dims[a] - 1) } else { 0.0 });
                let of = std::array::from_fn(|a| at[a] * every[a] as f64);
                assert_eq!(samples.placement.position(at), level.placement.position(of));
            }
            assert_eq!(samples.arrays[0].valued.is_some(), made.dtype == "int16");
        }
    }
    // Each sample would be a read of its own.
    let scratch = TempFolder::new();
    let (spec, tables) =
        open(&large("zyxt", &[129, 131, 133, 2], Where::Contiguous), VolumeKind::Scalar, &scratch, None);
    assert!(Volume::open(spec, tables, &pager(16 << 20)).unwrap().samples.is_empty());
    // Chunks are read whole, so samples save nothing.
    let scratch = TempFolder::new();
    let keys = SyntheticStore { chunk: vec![64; 3], ..large("zyx", &zyx, Where::Keys) };
    let (spec, tables) = open(&keys, VolumeKind::Scalar, &scratch, None);
    assert!(Volume::open(spec, tables, &pager(16 << 20)).unwrap().samples.is_empty());
}

#[test]
fn every_codec() {
    use CodecSpec::*;
    let chains: Vec<Vec<CodecSpec>> = vec![
        vec![Zstd {}],
        vec![Gzip {}],
        vec![Zlib {}],
        vec![Deflate {}],
        vec![Lz4 {}],
        vec![Blosc {}],
        vec![Bz2 {}],
        vec![Lzw {}],
        vec![Packbits {}],
        vec![Crc32c {}],
        vec![Fletcher32 {}],
        vec![Delta {}],
        vec![Shuffle { size: 2 }],
        vec![Predictor { kind: 2, width: 6, samples: 1 }],
        vec![Zstd {}, Delta {}],
        vec![Crc32c {}, Zstd {}],
        vec![Zstd {}, Crc32c {}],
        vec![Fletcher32 {}, Zlib {}, Shuffle { size: 2 }],
        vec![Crc32c {}, Zlib {}, Shuffle { size: 2 }, Delta {}],
        vec![Gzip {}, Blosc {}, Crc32c {}],
        vec![Gzip {}, Blosc {}],
        vec![Delta {}, Shuffle { size: 2 }, Crc32c {}, Delta {}],
        vec![Lzw {}, Predictor { kind: 2, width: 6, samples: 1 }],
        vec![Bz2 {}, Lz4 {}, Zstd {}, Shuffle { size: 2 }],
    ];
    for codecs in chains {
        for big in [false, true] {
            for place in [Where::Keys, Where::Table, SHARDS[0]] {
                let shard = matches!(place, Where::Shards { .. }).then(|| vec![8, 10, 12]);
                let made = SyntheticStore { dtype: "uint16".into(), big, codecs: codecs.clone(), place, ..made() };
                check(&made, VolumeKind::Scalar, shard);
            }
        }
    }
    for (dtype, size) in [("float32", 4), ("float64", 8)] {
        for big in [false, true] {
            for codecs in [
                vec![Zlib {}, Predictor { kind: 3, width: 6, samples: 1 }],
                vec![Zlib {}, Predictor { kind: 2, width: 6, samples: 1 }],
                vec![Blosc {}],
                vec![Zlib {}, Shuffle { size }],
            ] {
                check(
                    &SyntheticStore { dtype: dtype.into(), big, codecs, place: Where::Table, ..made() },
                    VolumeKind::Scalar,
                    None,
                );
            }
        }
    }
}

fn places() -> impl Strategy<Value = Where> {
    prop_oneof![
        Just(Where::Contiguous),
        Just(Where::Planes),
        Just(Where::Table),
        Just(Where::Keys),
        prop::sample::select(SHARDS.to_vec()),
    ]
}

/// Axes in some order, with or without t and c, and lengths.
fn arrays() -> impl Strategy<Value = (SyntheticStore, VolumeKind, Option<Vec<u64>>)> {
    let axes = prop::sample::select(vec![
        "zyx", "xyz", "yzx", "zyxc", "czyx", "tzyx", "tczyx", "zcyx", "xyzc", "zytcx", "cxyz", "yx", "xzyt",
    ]);
    (axes, places(), prop::sample::select(TYPES.to_vec()), any::<bool>(), 0u8..5, any::<u64>(), any::<bool>()).prop_map(
        |(axes, place, dtype, big, codec, seed, cut)| {
            let mut s = seed | 1;
            let mut random = move |n: u64| {
                s ^= s << 13;
                s ^= s >> 7;
                s ^= s << 17;
                s % n
            };
            let mut shape = Vec::new();
            let mut chunk = Vec::new();
            let colours = random(3);
            for a in axes.chars() {
                let n = match a {
                    't' => 1 + random(3),
                    'c' => [3, 4, 2][colours as usize],
                    _ => 1 + random(if place == Where::Contiguous { 40 } else { 14 }),
                };
                shape.push(n);
                chunk.push(match place {
                    Where::Contiguous => n,
                    Where::Planes if chunk.is_empty() => 1,
                    Where::Planes => n,
                    _ => 1 + random(n.min(7) + 1),
                });
            }
            let mut order = None;
            if random(3) == 0 {
                let mut o: Vec<usize> = (0..shape.len()).collect();
                for n in (1..o.len()).rev() {
                    o.swap(n, random(n as u64 + 1) as usize);
                }
                order = Some(o);
            }
            let whole = matches!(place, Where::Contiguous | Where::Planes);
            let size = SyntheticStore { dtype: dtype.into(), ..made() }.size();
            let codecs = match codec {
                _ if whole => vec![],
                0 => vec![],
                1 => vec![CodecSpec::Zstd {}],
                2 => vec![CodecSpec::Gzip {}, CodecSpec::Shuffle { size }],
                3 => vec![CodecSpec::Blosc {}],
                _ => vec![CodecSpec::Crc32c {}, CodecSpec::Zlib {}],
            };
            let mut m = SyntheticStore {
                axes: axes.into(),
                shape,
                chunk,
                order,
                dtype: dtype.into(),
                big,
                codecs,
                place,
                holes: vec![],
                fill: None,
                cut: cut && !whole,
            };
            let count: u64 = m.grid().iter().product();
            if !whole && random(2) == 0 {
                m.fill = Some(if dtype == "bool" { 1.0 } else { 5.0 });
                m.holes = (0..count).filter(|_| random(3) == 0).collect();
            }
            let shard =
                matches!(place, Where::Shards { .. }).then(|| m.chunk.iter().map(|c| c * (1 + random(3))).collect());
            let kind = match (axes.contains('c'), colours) {
                (false, _) => VolumeKind::Scalar,
                (true, 0) if random(2) == 0 => VolumeKind::Rgb,
                (true, 1) if random(2) == 0 => VolumeKind::Rgba,
                _ => VolumeKind::Channels,
            };
            (m, kind, shard)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: prop::test_runner::RngSeed::Fixed(0x766f_6c75), ..ProptestConfig::default() })]
    #[test]
    fn what_was_written_is_read((made, kind, shard) in arrays()) {
        check(&made, kind, shard);
    }
}

/// Whether both numbers are NaN.
fn both_nan<T: PartialOrd + Copy>(a: T, b: T) -> bool {
    a.partial_cmp(&a).is_none() && b.partial_cmp(&b).is_none()
}
