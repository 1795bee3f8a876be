//! Conversions of small datasets with known values, under every option, with and without interruptions.

mod append;
mod trouble;
mod uniform;
mod whole;

use super::*;
use field::boxes::{cells, BoxPyramid, Xyz};
use field::catalog::{ArrayInfo, Catalog, DType, FlowHeader, ReadCounter, Role, RowReader, ZoneInfo};
use field::error::FieldError;
use field::paging::Layout;
use field::series::SeriesFiles;
use field::store::codec::Codec;
use field::store::{Register, Store, StoreRows, ZoneIds};
use pager::error::PageErrorKind;
use pager::id::{ArrayId, PageId, SourceId};
use pager::map::{ExtentTarget, Located, PageMap};
use std::any::Any;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use testing::TestDir;

/// Values `[step][c][k][j][i]` in memory.
#[derive(Clone)]
struct MemoryValues {
    dims: [usize; 3],
    components: usize,
    size: usize,
    bytes: Arc<Vec<u8>>,
    tally: Arc<ReadCounter>,
}

impl RowReader for MemoryValues {
    fn read_rows(
        &self,
        step: usize,
        c: usize,
        k: usize,
        j: std::ops::Range<usize>,
        out: &mut [u8],
    ) -> Result<(), FieldError> {
        let row = self.dims[0] * self.size;
        let at = (((step * self.components + c) * self.dims[2] + k) * self.dims[1] + j.start) * row;
        out.copy_from_slice(&self.bytes[at..at + j.len() * row]);
        self.tally.add(out.len() as u64);
        Ok(())
    }
    fn tally(&self) -> &ReadCounter {
        &self.tally
    }
}

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

struct ConvertCase {
    input: ConvertInput,
    memory: Vec<Vec<MemoryValues>>,
}

/// A dataset of zones of `dims`, two steps of density, momentum and energy over a steady grid with holes and NaN.
fn case(zones: &[[usize; 3]], dtype: DType, dimension: usize) -> ConvertCase {
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    let array = |name: &str, role, components, dtype| ArrayInfo {
        name: name.into(),
        role,
        components,
        dtype,
        units: "1".into(),
        standard_name: String::new(),
        long_name: name.into(),
    };
    let infos = vec![
        array("xyz", Role::Coordinates, dimension, dtype),
        array("iblank", Role::Iblank, 1, DType::Int32),
        array("density", Role::Field, 1, dtype),
        array("momentum", Role::Field, dimension, dtype),
    ];
    let mut catalog = Catalog {
        format: "made up".into(),
        guessed: vec!["nothing".into()],
        order_assumed: Vec::new(),
        dimension,
        zones: Vec::new(),
        times: vec![0.1, 0.3],
        times_counted: false,
        time_units: "L/a_inf".into(),
        settings: serde_json::json!({"reference": {"mach": 0.3}}),
    };
    let (mut arrays, mut memory) = (Vec::new(), Vec::new());
    for (n, &dims) in zones.iter().enumerate() {
        let header = FlowHeader { mach: 0.1, alpha: f64::NAN, reynolds: 1e5 / 3.0, time: 0.1, gamma: 1.4 };
        catalog.zones.push(ZoneInfo {
            name: format!("zone{}", n + 1),
            dims,
            arrays: infos.clone(),
            headers: vec![header; 2],
        });
        let mut of_zone = Vec::new();
        for a in &infos {
            let steps = if a.role == Role::Field { 2 } else { 1 };
            let mut bytes = Vec::new();
            for p in 0..steps * a.components * dims.iter().product::<usize>() {
                let r = random(&mut seed);
                // Smooth enough to compress, with noise, a few NaN and holes.
                let x = (p as f64 * 0.01).sin() + (r >> 40) as f64 * 1e-9;
                match a.dtype {
                    DType::Int32 => bytes.extend_from_slice(
                        &(if r.is_multiple_of(97) { 0i32 } else { (r % 3) as i32 + 1 }).to_ne_bytes(),
                    ),
                    DType::Float32 => bytes
                        .extend_from_slice(&(if r.is_multiple_of(211) { f32::NAN } else { x as f32 }).to_ne_bytes()),
                    _ => bytes.extend_from_slice(&(if r.is_multiple_of(211) { f64::NAN } else { x }).to_ne_bytes()),
                }
            }
            of_zone.push(MemoryValues {
                dims,
                components: a.components,
                size: a.dtype.size(),
                bytes: Arc::new(bytes),
                tally: Arc::default(),
            });
        }
        arrays.push(
            of_zone
                .iter()
                .zip(&infos)
                .map(|(m, a)| ArraySource {
                    rows: Arc::new(m.clone()),
                    steps: if a.role == Role::Field { 2 } else { 1 },
                })
                .collect(),
        );
        memory.push(of_zone);
    }
    ConvertCase {
        input: ConvertInput { catalog, arrays, files: Vec::new(), series: SeriesFiles::default(), made: String::new() },
        memory,
    }
}

/// The result of a validation on two workers.
fn validated(path: &Path) -> Result<field::store::Validation, FieldError> {
    crate::check::check_store(path, 2, &free, None, &mut |_, _| true)
}

fn free(_: u64) -> Result<Box<dyn Any>, FieldError> {
    Ok(Box::new(()))
}

fn digest(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(root: &Path, dir: &Path, out: &mut BTreeMap<String, Vec<u8>>) {
        for e in std::fs::read_dir(dir).unwrap() {
            let p = e.unwrap().path();
            if p.is_dir() {
                walk(root, &p, out);
            } else {
                out.insert(p.strip_prefix(root).unwrap().to_string_lossy().into(), std::fs::read(&p).unwrap());
            }
        }
    }
    let mut out = BTreeMap::new();
    walk(dir, dir, &mut out);
    out
}

/// A pager that reads at once and keeps no page.
#[derive(Default)]
struct MemoryRegistrar {
    files: Vec<PathBuf>,
    maps: Vec<Arc<dyn PageMap>>,
}

impl Register for MemoryRegistrar {
    fn add_file(&mut self, path: &Path) -> SourceId {
        self.files.push(path.to_owned());
        SourceId(self.files.len() as u32 - 1)
    }
    fn add_array(&mut self, map: Arc<dyn PageMap>) -> ArrayId {
        self.maps.push(map);
        ArrayId(self.maps.len() as u32 - 1)
    }
}

impl MemoryRegistrar {
    fn page(&self, id: PageId) -> Result<Vec<u8>, PageErrorKind> {
        let map = &self.maps[id.array.0 as usize];
        let mut have: Option<(PageId, Vec<u8>)> = None;
        loop {
            let located =
                map.locate(id, &mut |p| have.as_ref().filter(|h| h.0 == p).map(|h| h.1.as_slice() as *const [u8]));
            match located {
                Located::Need(p) => have = Some((p, self.page(p)?)),
                Located::Failed(e) => return Err(e.kind),
                Located::Fill | Located::Derived { .. } => panic!("our stores have no fill, and make no pages"),
                Located::Extents { segments, encoded_len, scratch_len, found } => {
                    let (mut frame, mut encoded, mut scratch) =
                        (vec![0xee; map.page_bytes(id)], vec![0; encoded_len], vec![0; scratch_len]);
                    for s in segments {
                        let path = &self.files[s.source.0 as usize];
                        let to = match s.to {
                            ExtentTarget::Frame(at) => &mut frame[at..at + s.len],
                            ExtentTarget::Encoded(at) => &mut encoded[at..at + s.len],
                        };
                        let file = std::fs::File::open(path).map_err(|_| PageErrorKind::Missing)?;
                        file.read_exact_at(to, s.offset).map_err(|_| PageErrorKind::Short {
                            offset: s.offset,
                            end: s.offset + s.len as u64,
                            have: 0,
                        })?;
                    }
                    return map
                        .decode(id, &found, &encoded, &mut scratch, &mut frame)
                        .map(|()| frame)
                        .map_err(|e| e.kind);
                }
            }
        }
    }
}

/// Every value through the page maps equals the source's; every limit and box equals brute force.
fn check_store(case: &ConvertCase, path: &Path) {
    let store = Store::open(path).unwrap();
    assert_eq!(
        field::store::metadata::catalog_value(&store.root.catalog),
        field::store::metadata::catalog_value(&case.input.catalog)
    );
    assert!(Store::is_store(path));
    let mut pager = MemoryRegistrar::default();
    let ids = store.register(&mut pager);
    for (z, zone) in store.zones.iter().enumerate() {
        for (a, layout) in zone.arrays.iter().enumerate() {
            let m = &case.memory[z][a];
            let p = zone.paging;
            let rows = StoreRows::new(&store, z, a, 1 << 20).unwrap();
            for step in 0..layout.steps {
                for page in 0..p.count() {
                    let frame = pager.page(PageId::new(ids[z].arrays[a], step as u32, page)).unwrap();
                    let at = p.coords(page);
                    let e = p.extent(at);
                    for c in 0..m.components {
                        for k in 0..p.page[2] {
                            for j in 0..p.page[1] {
                                for i in 0..p.page[0] {
                                    let clamp = |x: usize, a: usize| (e[a].start + x).min(e[a].end - 1);
                                    let (gi, gj, gk) = (clamp(i, 0), clamp(j, 1), clamp(k, 2));
                                    let from = ((((step * m.components + c) * p.dims[2] + gk) * p.dims[1] + gj)
                                        * p.dims[0]
                                        + gi)
                                        * m.size;
                                    let to = (((k * p.page[1] + j) * p.page[0] + i) * m.components + c) * m.size;
                                    assert_eq!(frame[to..to + m.size], m.bytes[from..from + m.size]);
                                }
                            }
                        }
                    }
                }
                for c in 0..m.components {
                    for k in 0..p.dims[2] {
                        let n = p.dims[0] * p.dims[1] * m.size;
                        let mut out = vec![0; n];
                        rows.read_rows(step, c, k, 0..p.dims[1], &mut out).unwrap();
                        let from = ((step * m.components + c) * p.dims[2] + k) * n;
                        assert_eq!(out, m.bytes[from..from + n]);
                    }
                }
                // A box off the pages' edges.
                let b: [std::ops::Range<usize>; 3] = p.dims.map(|n| n / 3..n.div_ceil(2).max(n / 3 + 1));
                let row = b[0].len() * m.size;
                let mut out = vec![0; m.components * b[2].len() * b[1].len() * row];
                rows.read_box(step, &b, &mut out).unwrap();
                let lines = (0..m.components).flat_map(|c| {
                    let b = &b;
                    b[2].clone().flat_map(move |k| b[1].clone().map(move |j| (c, k, j)))
                });
                for (got, (c, k, j)) in out.chunks_exact(row).zip(lines) {
                    let at = (((step * m.components + c) * p.dims[2] + k) * p.dims[1] + j) * p.dims[0] + b[0].start;
                    assert_eq!(got, &m.bytes[at * m.size..][..row]);
                }
            }
        }
        check_levels(case, &pager, &ids, &store, z);
    }
    let v = validated(path).unwrap();
    assert!(v.is_ok(), "{:?}", v.problems);
}

fn check_levels(case: &ConvertCase, pager: &MemoryRegistrar, ids: &[ZoneIds], store: &Store, z: usize) {
    let zone = &store.zones[z];
    let p = zone.paging;
    for (a, levels) in ids[z].ranges.iter().enumerate() {
        let m = &case.memory[z][a];
        let value = |step: usize, c: usize, x: [usize; 3]| -> f64 {
            let at = ((((step * m.components + c) * p.dims[2] + x[2]) * p.dims[1] + x[1]) * p.dims[0] + x[0]) * m.size;
            let b = &m.bytes[at..at + m.size];
            match zone.arrays[a].dtype {
                DType::Float32 => f32::from_ne_bytes(b.try_into().unwrap()).into(),
                DType::Float64 => f64::from_ne_bytes(b.try_into().unwrap()),
                _ => i32::from_ne_bytes(b.try_into().unwrap()).into(),
            }
        };
        let mut dims = p.pages;
        for (l, level) in levels.iter().enumerate() {
            assert_eq!(level.paging.dims, dims);
            for step in 0..zone.arrays[a].steps {
                for n in 0..dims.iter().product::<usize>() {
                    let at = [n % dims[0], n / dims[0] % dims[1], n / dims[0] / dims[1]];
                    let (page, point) = level.paging.locate(at);
                    let frame = pager.page(PageId::new(level.id, step as u32, page)).unwrap();
                    let at_point = &frame[point * 2 * m.components * 8..];
                    let get = |c: usize| f64::from_ne_bytes(at_point[c * 8..][..8].try_into().unwrap());
                    for c in 0..m.components {
                        let (mut lo, mut hi) = (f64::INFINITY, f64::NEG_INFINITY);
                        let span =
                            |a: usize| at[a] * (p.page[a] << l)..((at[a] + 1) * (p.page[a] << l) + 1).min(p.dims[a]);
                        for k in span(2) {
                            for j in span(1) {
                                for i in span(0) {
                                    let x = value(step, c, [i, j, k]);
                                    lo = lo.min(x);
                                    hi = hi.max(x);
                                }
                            }
                        }
                        assert_eq!(
                            (get(c), get(m.components + c)),
                            (lo, hi),
                            "{} level {l} {at:?}",
                            zone.arrays[a].path
                        );
                    }
                }
            }
            dims = dims.map(|n| n.div_ceil(2));
        }
        assert!(levels.last().unwrap().paging.dims.iter().all(|&n| n <= 8));
    }
    let (m, ib) = (&case.memory[z][0], &case.memory[z][1]);
    // SAFETY: plain numbers in vectors that the allocator aligns to 16.
    let (f32s, f64s, holes) =
        unsafe { (m.bytes.align_to::<f32>().1, m.bytes.align_to::<f64>().1, ib.bytes.align_to::<i32>().1) };
    let xyz = if m.size == 4 { Xyz::F32(f32s) } else { Xyz::F64(f64s) };
    let truth = BoxPyramid::build(p.dims, m.components, xyz, Some(holes));
    assert_eq!(truth.levels(), ids[z].boxes.len());
    for (l, level) in ids[z].boxes.iter().enumerate() {
        let d = level.paging.dims;
        assert_eq!(truth.dims(l), d);
        for n in 0..d.iter().product::<usize>() {
            let at = [n % d[0], n / d[0] % d[1], n / d[0] / d[1]];
            let (page, point) = level.paging.locate(at);
            let frame = pager.page(PageId::new(level.id, 0, page)).unwrap();
            let got: [f32; 6] =
                std::array::from_fn(|c| f32::from_ne_bytes(frame[(point * 6 + c) * 4..][..4].try_into().unwrap()));
            assert_eq!(got, truth.get(l, at.map(|x| x as u32)), "level {l} {at:?}");
        }
    }
    assert_eq!(cells(p.dims).len(), 3);
}

fn options(page: usize, layout: Layout, codec: Codec) -> ConvertOptions {
    ConvertOptions { page, layout, codec, workers: 2, ..ConvertOptions::default() }
}

const CODECS: [Codec; 3] = [Codec::None, Codec::Zstd { level: 1 }, Codec::Lz4];
