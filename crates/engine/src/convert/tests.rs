//! Conversions of small datasets whose values are known, under every option, with and without interruptions.

use super::*;
use crate::convert::disk::Disk;
use field::boxes::{cells, BoxPyramid, Xyz};
use field::catalog::{ArrayInfo, DType, FlowHeader, Role, ZoneInfo};
use field::store::{Register, Store, StoreRows, ZoneIds};
use pager::error::PageErrorKind;
use pager::id::{ArrayId, PageId, SourceId};
use pager::map::{Located, PageMap, Target};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// Values `[step][c][k][j][i]` in memory.
#[derive(Clone)]
struct Memory {
    dims: [usize; 3],
    components: usize,
    size: usize,
    bytes: Arc<Vec<u8>>,
}

impl Rows for Memory {
    fn read_rows(&self, step: usize, c: usize, k: usize, j: std::ops::Range<usize>, out: &mut [u8]) -> Result<(), FieldError> {
        let row = self.dims[0] * self.size;
        let at = (((step * self.components + c) * self.dims[2] + k) * self.dims[1] + j.start) * row;
        out.copy_from_slice(&self.bytes[at..at + j.len() * row]);
        Ok(())
    }
}

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

struct Case {
    input: ConvertInput,
    memory: Vec<Vec<Memory>>,
}

/// A dataset of zones of `dims`, two steps of density, momentum and energy over a steady grid with holes and NaN.
fn case(zones: &[[usize; 3]], dtype: DType, dimension: usize) -> Case {
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
        dimension,
        zones: Vec::new(),
        times: vec![0.1, 0.3],
        time_units: "L/a_inf".into(),
        settings: serde_json::json!({"reference": {"mach": 0.3}}),
    };
    let (mut arrays, mut memory) = (Vec::new(), Vec::new());
    for (n, &dims) in zones.iter().enumerate() {
        let header = FlowHeader { mach: 0.1, alpha: f64::NAN, reynolds: 1e5 / 3.0, time: 0.1, gamma: 1.4 };
        catalog.zones.push(ZoneInfo { name: format!("zone{}", n + 1), dims, arrays: infos.clone(), headers: vec![header; 2] });
        let mut of_zone = Vec::new();
        for a in &infos {
            let steps = if a.role == Role::Field { 2 } else { 1 };
            let mut bytes = Vec::new();
            for p in 0..steps * a.components * dims.iter().product::<usize>() {
                let r = random(&mut seed);
                // Smooth enough to compress, with noise, a few NaN and holes.
                let x = (p as f64 * 0.01).sin() + (r >> 40) as f64 * 1e-9;
                match a.dtype {
                    DType::Int32 => bytes.extend_from_slice(&(if r % 97 == 0 { 0i32 } else { (r % 3) as i32 + 1 }).to_ne_bytes()),
                    DType::Float32 => bytes.extend_from_slice(&(if r % 211 == 0 { f32::NAN } else { x as f32 }).to_ne_bytes()),
                    _ => bytes.extend_from_slice(&(if r % 211 == 0 { f64::NAN } else { x }).to_ne_bytes()),
                }
            }
            of_zone.push(Memory { dims, components: a.components, size: a.dtype.size(), bytes: Arc::new(bytes) });
        }
        arrays.push(
            of_zone
                .iter()
                .zip(&infos)
                .map(|(m, a)| ArraySource { rows: Arc::new(m.clone()), steps: if a.role == Role::Field { 2 } else { 1 } })
                .collect(),
        );
        memory.push(of_zone);
    }
    Case { input: ConvertInput { catalog, arrays, files: Vec::new() }, memory }
}

/// A folder that goes away.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let p = std::env::temp_dir().join(format!("ff-convert-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&p).ok();
        std::fs::create_dir_all(&p).unwrap();
        Self(p)
    }
    fn join(&self, n: &str) -> PathBuf {
        self.0.join(n)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
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

/// A pager that reads at once and forgets.
#[derive(Default)]
struct Plain {
    files: Vec<PathBuf>,
    maps: Vec<Arc<dyn PageMap>>,
}

impl Register for Plain {
    fn add_file(&mut self, path: &Path) -> SourceId {
        self.files.push(path.to_owned());
        SourceId(self.files.len() as u32 - 1)
    }
    fn add_array(&mut self, map: Arc<dyn PageMap>) -> ArrayId {
        self.maps.push(map);
        ArrayId(self.maps.len() as u32 - 1)
    }
}

impl Plain {
    fn page(&self, id: PageId) -> Result<Vec<u8>, PageErrorKind> {
        let map = &self.maps[id.array.0 as usize];
        let mut have: Option<(PageId, Vec<u8>)> = None;
        loop {
            let located = map.locate(id, &mut |p| have.as_ref().filter(|h| h.0 == p).map(|h| h.1.as_slice() as *const [u8]));
            match located {
                Located::Need(p) => have = Some((p, self.page(p)?)),
                Located::Failed(e) => return Err(e.kind),
                Located::Fill => panic!("our stores have no fill"),
                Located::Extents { segments, encoded_len, scratch_len } => {
                    let (mut frame, mut encoded, mut scratch) = (vec![0xee; map.page_bytes(id)], vec![0; encoded_len], vec![0; scratch_len]);
                    for s in segments {
                        let path = &self.files[s.source.0 as usize];
                        let to = match s.to {
                            Target::Frame(at) => &mut frame[at..at + s.len],
                            Target::Encoded(at) => &mut encoded[at..at + s.len],
                        };
                        let file = std::fs::File::open(path).map_err(|_| PageErrorKind::Missing)?;
                        file.read_exact_at(to, s.offset).map_err(|_| PageErrorKind::Short { offset: s.offset, end: s.offset + s.len as u64, have: 0 })?;
                    }
                    return map.decode(id, &encoded, &mut scratch, &mut frame).map(|()| frame).map_err(|e| e.kind);
                }
            }
        }
    }
}

/// Every value through the page maps equals the source's; every limit and box equals brute force.
fn check_store(case: &Case, path: &Path) {
    let store = Store::open(path).unwrap();
    assert_eq!(field::store::metadata::catalog_value(&store.root.catalog), field::store::metadata::catalog_value(&case.input.catalog));
    assert!(Store::is_store(path));
    let mut pager = Plain::default();
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
                                    let from = ((((step * m.components + c) * p.dims[2] + gk) * p.dims[1] + gj) * p.dims[0] + gi) * m.size;
                                    let to = (((c * p.page[2] + k) * p.page[1] + j) * p.page[0] + i) * m.size;
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
            }
        }
        check_levels(case, &pager, &ids, &store, z);
    }
    let v = Store::validate(path, &mut |_, _| true).unwrap();
    assert!(v.is_ok(), "{:?}", v.problems);
}

fn check_levels(case: &Case, pager: &Plain, ids: &[ZoneIds], store: &Store, z: usize) {
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
                    let size = level.paging.page_points();
                    let get = |c: usize| f64::from_ne_bytes(frame[(c * size + point) * 8..][..8].try_into().unwrap());
                    for c in 0..m.components {
                        let (mut lo, mut hi) = (f64::INFINITY, f64::NEG_INFINITY);
                        let span = |a: usize| at[a] * (p.page[a] << l)..((at[a] + 1) * (p.page[a] << l) + 1).min(p.dims[a]);
                        for k in span(2) {
                            for j in span(1) {
                                for i in span(0) {
                                    let x = value(step, c, [i, j, k]);
                                    lo = lo.min(x);
                                    hi = hi.max(x);
                                }
                            }
                        }
                        assert_eq!((get(c), get(m.components + c)), (lo, hi), "{} level {l} {at:?}", zone.arrays[a].path);
                    }
                }
            }
            dims = dims.map(|n| n.div_ceil(2));
        }
        assert!(levels.last().unwrap().paging.dims.iter().all(|&n| n <= 8));
    }
    let (m, ib) = (&case.memory[z][0], &case.memory[z][1]);
    // SAFETY: plain numbers in vectors that the allocator aligns to 16.
    let (f32s, f64s, holes) = unsafe { (m.bytes.align_to::<f32>().1, m.bytes.align_to::<f64>().1, ib.bytes.align_to::<i32>().1) };
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
            let size = level.paging.page_points();
            let got: [f32; 6] = std::array::from_fn(|c| f32::from_ne_bytes(frame[(c * size + point) * 4..][..4].try_into().unwrap()));
            assert_eq!(got, truth.get(l, at.map(|x| x as u32)), "level {l} {at:?}");
        }
    }
    assert_eq!(cells(p.dims).len(), 3);
}

fn options(page: usize, layout: Layout, codec: Codec) -> ConvertOptions {
    ConvertOptions { page, layout, codec, workers: 2, ..ConvertOptions::default() }
}

const CODECS: [Codec; 3] = [Codec::None, Codec::Zstd { level: 1 }, Codec::Lz4];

#[test]
fn every_codec_page_and_layout_reads_back() {
    let dir = Folder::new("round");
    let zones = [[33, 17, 9], [5, 1, 1], [21, 6, 1], [1, 1, 1], [40, 3, 23]];
    for dtype in [DType::Float32, DType::Float64] {
        let c = case(&zones, dtype, 3);
        for (n, page) in [4, 8, 16, 32, 64].into_iter().enumerate() {
            for layout in [Layout::Cubed, Layout::Flat] {
                let dst = dir.join("s.zarr");
                let o = ConvertOptions { overwrite: true, ..options(page, layout, CODECS[n % 3]) };
                convert(&c.input, &dst, &o, &free, &mut |_| true).unwrap();
                check_store(&c, &dst);
            }
        }
        for codec in CODECS {
            let dst = dir.join("s.zarr");
            convert(&c.input, &dst, &ConvertOptions { overwrite: true, ..options(8, Layout::Cubed, codec) }, &free, &mut |_| true).unwrap();
            check_store(&c, &dst);
        }
    }
    let flat = case(&[[19, 14, 1], [7, 8, 1]], DType::Float64, 2);
    let dst = dir.join("flat.zarr");
    convert(&flat.input, &dst, &options(4, Layout::Cubed, Codec::None), &free, &mut |_| true).unwrap();
    check_store(&flat, &dst);
}

#[test]
fn the_bytes_do_not_depend_on_limit_or_workers() {
    let dir = Folder::new("limits");
    let c = case(&[[70, 41, 37], [9, 9, 9]], DType::Float32, 3);
    let mut first = None;
    for layout in [Layout::Cubed, Layout::Flat] {
        for (limit, workers) in [(1u64 << 30, 1), (64 << 20, 3), (12 << 20, 2), (9 << 20, 7)] {
            let dst = dir.join("s.zarr");
            let o = ConvertOptions { memory_limit: limit, workers, overwrite: true, ..options(8, layout, Codec::Zstd { level: 2 }) };
            match convert(&c.input, &dst, &o, &free, &mut |_| true) {
                Ok(r) => assert!(r.memory <= limit),
                Err(FieldError::LimitTooSmall { needs, .. }) => {
                    assert!(needs > limit);
                    convert(&c.input, &dst, &ConvertOptions { memory_limit: needs, ..o }, &free, &mut |_| true).unwrap();
                }
                Err(e) => panic!("{e}"),
            }
            let d = digest(&dst);
            match &first {
                Some((l, f)) if *l == layout => assert!(*f == d, "{limit} {workers}"),
                _ => {
                    check_store(&c, &dst);
                    first = Some((layout, d));
                }
            }
        }
    }
    // The least that the error asks for does, whatever is larger than that: pages are then read one at a time.
    for layout in [Layout::Cubed, Layout::Flat] {
        let mut o = options(32, layout, Codec::None);
        convert(&c.input, &dir.join("t"), &o, &free, &mut |_| true).unwrap();
        let whole = digest(&dir.join("t"));
        o.memory_limit = 1000;
        o.overwrite = true;
        let Err(FieldError::LimitTooSmall { needs, .. }) = convert(&c.input, &dir.join("t2"), &o, &free, &mut |_| true) else { panic!() };
        assert!(!dir.join("t2.partial").exists());
        o.memory_limit = needs;
        assert_eq!(convert(&c.input, &dir.join("t2"), &o, &free, &mut |_| true).unwrap().memory, needs);
        assert!(digest(&dir.join("t2")) == whole);
        // Part of the limit is in use elsewhere.
        o.memory_limit = 1 << 30;
        let used = |n: u64| -> Result<Box<dyn Any>, FieldError> {
            if n > needs * 2 {
                return Err(FieldError::LimitTooSmall { limit: needs * 2, needs: n, what: "x".into() });
            }
            Ok(Box::new(()))
        };
        assert!(convert(&c.input, &dir.join("t2"), &o, &used, &mut |_| true).unwrap().memory <= needs * 2);
        assert!(digest(&dir.join("t2")) == whole);
        std::fs::remove_dir_all(dir.join("t")).unwrap();
    }
}

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
            convert(&other.input, &dst, &ConvertOptions { overwrite: true, ..options(8, Layout::Cubed, Codec::None) }, &free, &mut |_| true).unwrap();
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
    let e = convert(&c.input, &dir.join("mine"), &ConvertOptions { overwrite: true, ..o.clone() }, &free, &mut |_| true).unwrap_err();
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
    let e = convert(&c.input, &dir.join("three.zarr"), &o, &free, &mut |_| std::fs::write(&source, b"333").is_ok()).unwrap_err();
    assert!(e.to_string().contains("changed while"), "{e}");
    assert!(!dir.join("three.zarr").exists());
    // A charge that is refused.
    let refuse = |n: u64| -> Result<Box<dyn Any>, FieldError> { Err(FieldError::LimitTooSmall { limit: 1, needs: n, what: "x".into() }) };
    assert!(convert(&c.input, &dir.join("four.zarr"), &o, &refuse, &mut |_| true).is_err());
    // What a dry run says.
    let d = dry_run(&c.input, &dst, &o, &free).unwrap();
    let real: u64 = digest(&dst).values().map(|v| v.len() as u64).sum();
    assert!(d.store_bytes > real * 7 / 10 && d.store_bytes < real * 14 / 10, "{d:?} {real}");
    assert_eq!(d.files as usize, digest(&dst).len());
}

#[test]
fn an_index_alone_has_the_same_levels() {
    let dir = Folder::new("index");
    let c = case(&[[23, 18, 9], [5, 4, 1]], DType::Float64, 3);
    let o = options(8, Layout::Cubed, Codec::None);
    convert(&c.input, &dir.join("s.zarr"), &o, &free, &mut |_| true).unwrap();
    let store = Store::open(&dir.join("s.zarr")).unwrap();
    build_index(&c.input, &store.paging(), &dir.join("index"), 64 << 20, 2, &free, &mut |_| true).unwrap();
    let index = Store::open(&dir.join("index")).unwrap();
    assert!(!index.root.data);
    let mut pager = Plain::default();
    let ids = index.register(&mut pager);
    assert!(ids[0].arrays.is_empty());
    for z in 0..2 {
        check_levels(&c, &pager, &ids, &index, z);
    }
    let (a, b) = (digest(&dir.join("s.zarr")), digest(&dir.join("index")));
    assert!(b.iter().filter(|(n, _)| *n != "zarr.json").all(|(n, v)| a.get(n) == Some(v)));
    assert!(Store::validate(&dir.join("index"), &mut |_, _| true).unwrap().is_ok());
    // A second time it is there already; with other pages it is made anew.
    assert_eq!(build_index(&c.input, &store.paging(), &dir.join("index"), 64 << 20, 2, &free, &mut |_| true).unwrap().resumed_units, 12);
    let other = field::store::layout::choose_pages(&c.input.catalog, 4, Layout::Flat);
    assert_eq!(build_index(&c.input, &other, &dir.join("index"), 64 << 20, 2, &free, &mut |_| true).unwrap().resumed_units, 0);
}

/// Every bit of every file is vouched for; what the page maps read from a damaged store is right or an error.
#[test]
fn every_damage_is_found() {
    let dir = Folder::new("damage");
    let c = case(&[[9, 8, 7], [5, 5, 1]], DType::Float32, 3);
    for codec in CODECS {
        let dst = dir.join("s.zarr");
        convert(&c.input, &dst, &ConvertOptions { overwrite: true, ..options(4, Layout::Cubed, codec) }, &free, &mut |_| true).unwrap();
        let whole = digest(&dst);
        let ok = |dst: &Path| Store::validate(dst, &mut |_, _| true).is_ok_and(|v| v.is_ok());
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
                    let from = (((step * m.components * d[2] + e[2].start) * d[1] + e[1].start) * d[0] + e[0].start) * m.size;
                    let n = e[0].len() * m.size;
                    assert_eq!(frame[..n], m.bytes[from..from + n]);
                }
            }
        }
    }
}
