use super::{DescribedZones, ZonesSpec};
use crate::catalog::DType;
use crate::dataset::Dataset;
use crate::error::FieldError;
use crate::format::Format;
use pager::id::PageId;
use pager::{Lookup, Pager, PagerConfig};
use serde_json::{json, Value};
use std::path::{Path, PathBuf};

const DIMS: [usize; 3] = [5, 900, 3];

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _left_behind = std::fs::remove_dir_all(&self.0);
    }
}

fn folder(name: &str) -> Folder {
    let path = std::env::temp_dir().join(format!("farfield-described-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    Folder(path)
}

/// The number of component `c` of array `a` at a point.
fn value(a: usize, c: usize, [i, j, k]: [usize; 3]) -> f64 {
    (1000 * a + 100_000 * c + i + 10 * k) as f64 + j as f64 / 8.0
}

fn points() -> impl Iterator<Item = [usize; 3]> {
    let [ni, nj, nk] = DIMS;
    (0..nk).flat_map(move |k| (0..nj).flat_map(move |j| (0..ni).map(move |i| [i, j, k])))
}

/// A file with the arrays of the document, each stored in another way after a few unrelated bytes.
fn written(folder: &Path) -> Value {
    let mut bytes = b"header!".to_vec();
    let mut begin = |data: Vec<u8>| {
        let at = bytes.len();
        bytes.extend(&data);
        json!([[at, data.len()]])
    };
    let all = |each: &dyn Fn([usize; 3]) -> Vec<u8>| points().flat_map(each).collect::<Vec<u8>>();
    let be64 = |a: usize, c: usize, p| value(a, c, p).to_be_bytes().to_vec();
    let together = |a: usize| all(&|p| (0..3).flat_map(|c| (value(a, c, p) as f32).to_le_bytes()).collect());
    let planes: Vec<u8> = (0..3).flat_map(|c| all(&|p| be64(1, c, p))).collect();
    let (xyz, planes, short) =
        (begin(together(0)), begin(planes), begin(all(&|p| (p[0] as i16 - 2).to_le_bytes().to_vec())));
    // One record per point: a number between the components, in single precision.
    let record = begin(all(&|p| {
        [value(3, 0, p), -1.0, value(3, 1, p), value(3, 2, p)].map(|v| (v as f32).to_le_bytes()).concat()
    }));
    let apart: Vec<Value> = (0..3).map(|c| begin(all(&|p| (value(4, c, p) as f32).to_be_bytes().to_vec()))).collect();
    // Rows with eight bytes between them.
    let rows: Vec<u8> = (0..DIMS[1] * DIMS[2])
        .flat_map(|n| {
            let row = (0..DIMS[0]).flat_map(move |i| value(5, 0, [i, n % DIMS[1], n / DIMS[1]]).to_le_bytes());
            row.chain([7; 8]).collect::<Vec<u8>>()
        })
        .collect();
    let rows = begin(rows);
    std::fs::write(folder.join("a.dat"), bytes).unwrap();
    let part = |runs: &Value, number: &str, more: Value| {
        let mut part = json!({"file": 0, "runs": runs, "number": number});
        part.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        part
    };
    let field = |name: &str, dtype: &str, components: usize, parts: Vec<Value>| json!({"name": name, "role": "field", "dtype": dtype, "components": components, "steps": [{"stored": parts}]});
    let place = part(&xyz, "float32", json!({"component_bytes": 4, "point_bytes": 12}));
    json!({
        "format": "a test", "dimension": 3, "files": [folder.join("a.dat")], "sources": {"steps": [[folder.join("a.dat")]]},
        "zones": [{"dims": DIMS, "arrays": [
            {"name": "xyz", "role": "coordinates", "dtype": "float32", "components": 3, "steps": [{"stored": [place]}]},
            field("planes", "float64", 3, vec![part(&planes, "float64", json!({"big_endian": true}))]),
            field("short", "float32", 1, vec![part(&short, "int16", json!({}))]),
            field("record", "float64", 3, vec![
                part(&json!([[record[0][0], record[0][1]]]), "float32", json!({"point_bytes": 16})),
                part(&json!([[record[0][0].as_u64().unwrap() + 8, record[0][1].as_u64().unwrap() - 8]]), "float32", json!({"point_bytes": 16})),
                part(&json!([[record[0][0].as_u64().unwrap() + 12, record[0][1].as_u64().unwrap() - 12]]), "float32", json!({"point_bytes": 16})),
            ]),
            field("apart", "float32", 3, apart.iter().map(|runs| part(runs, "float32", json!({"big_endian": true}))).collect()),
            field("rows", "float64", 1, vec![part(&rows, "float64", json!({"row_bytes": 8 * DIMS[0] + 8}))]),
            {"name": "line", "role": "field", "dtype": "float32", "components": 3, "steps": [{"computed": [
                {"line": {"axis": 2, "values": [0.1, 0.5, 7.0]}}, {"constant": null},
                {"uniform": {"origin": 0.1, "steps": [0.25, 0.0, -3.0]}},
            ]}]},
        ]}],
    })
}

fn opened(document: &Value) -> Result<DescribedZones, FieldError> {
    DescribedZones::open(serde_json::from_value::<ZonesSpec>(document.clone()).unwrap(), None)
}

fn wanted(array: usize, c: usize, p: [usize; 3]) -> f64 {
    match (array, c) {
        (2, _) => p[0] as f64 - 2.0,
        (6, 0) => f64::from([0.1_f32, 0.5, 7.0][p[2]]),
        (6, 1) => f64::NAN,
        (6, _) => f64::from((0.1 + 0.25 * p[0] as f64 + -3.0 * p[2] as f64) as f32),
        (0 | 3 | 4, c) => f64::from(value(array, c, p) as f32),
        _ => value(array, c, p),
    }
}

fn number(dtype: DType, bytes: &[u8]) -> f64 {
    match dtype {
        DType::Float32 => f64::from(f32::from_ne_bytes(bytes.try_into().unwrap())),
        _ => f64::from_ne_bytes(bytes.try_into().unwrap()),
    }
}

#[test]
fn rows_and_pages_hold_what_is_described() {
    let folder = folder("pages");
    let zones = opened(&written(&folder.0)).unwrap();
    let info = zones.catalog.zones[0].clone();
    assert_eq!(info.name, "zone1");
    let [ni, nj, _] = DIMS;
    for (a, array) in info.arrays.iter().enumerate() {
        let (rows, size) = (zones.rows(0, a).unwrap(), array.dtype.size());
        for c in 0..array.components {
            let mut out = vec![0; ni * size * (nj - 1)];
            rows.read_rows(0, c, 1, 1..nj, &mut out).unwrap();
            for (n, v) in out.chunks_exact(size).enumerate() {
                let (got, want) = (number(array.dtype, v), wanted(a, c, [n % ni, 1 + n / ni, 1]));
                assert!(got == want || got.is_nan() && want.is_nan(), "{} {c} {n}: {got} {want}", array.name);
            }
        }
    }
    let config = PagerConfig { limit: 64 << 20, ..PagerConfig::default() };
    let pager = Pager::new(config).unwrap();
    let dataset = Dataset::from_described(zones, &pager).unwrap();
    let zone = &dataset.zones[0];
    let mut worker = pager.worker();
    for (a, array) in info.arrays.iter().enumerate() {
        let size = array.dtype.size();
        for p in points() {
            let at = zone.translation.node(p.map(|n| n as u32));
            let id = PageId::new(zone.arrays[a].id, 0, at.page);
            let _hold = pager.fetch(&[id]).unwrap();
            let Lookup::Here(page) = worker.page(id) else { panic!("{} is not there", array.name) };
            for c in 0..array.components {
                let from = (at.element * array.components + c) * size;
                let (got, want) = (number(array.dtype, &page[from..from + size]), wanted(a, c, p));
                assert!(got == want || got.is_nan() && want.is_nan(), "{} {c} {p:?}: {got} {want}", array.name);
            }
            worker.release();
        }
    }
}

#[test]
fn documents_that_do_not_add_up_are_refused() {
    let folder = folder("refused");
    let whole = written(&folder.0);
    opened(&whole).unwrap();
    let refused = |pointer: &str, value: Value| {
        let mut document = whole.clone();
        *document.pointer_mut(pointer).unwrap() = value;
        opened(&document).unwrap_err().to_string()
    };
    let first = "/zones/0/arrays/0/steps/0/stored/0";
    let said = refused(&format!("{first}/runs"), json!([[1_000_000_000_u64, 12]]));
    assert!(said.contains("a.dat") && said.contains("zone1/xyz") && said.contains("cut off"), "{said}");
    assert!(refused(&format!("{first}/runs"), json!([[0, 12]])).contains("it has 12 of"));
    assert!(refused(&format!("{first}/runs"), json!([[u64::MAX, 12]])).contains("beyond any file"));
    assert!(refused(&format!("{first}/point_bytes"), json!(2)).contains("lie on one another"));
    assert!(refused(&format!("{first}/component_bytes"), json!(u64::MAX)).contains("beyond any file"));
    assert!(refused(&format!("{first}/file"), json!(1)).contains("no file 1"));
    assert!(refused("/zones/0/dims", json!([0, 1, 1])).contains("numbers of points"));
    assert!(refused("/zones/0/dims", json!([1_u64 << 30, 1_u64 << 30, 1_u64 << 30])).contains("numbers of points"));
    assert!(refused("/zones/0/arrays/0/role", json!("field")).contains("array 1"));
    assert!(refused("/zones/0/arrays/1/components", json!(2)).contains("2 numbers a point"));
    assert!(refused("/zones/0/arrays", json!([])).contains("no coordinates"));
    assert!(refused("/zones/0/arrays/6/steps/0/computed/0/line/axis", json!(0)).contains("along axis 0"));
    assert!(refused("/zones/0/arrays/6/steps/0/computed", json!([{"constant": 1.0}])).contains("a rule"));
    assert!(refused("/zones/0/arrays/2/steps", json!([])).contains("0 steps of 1"));
    assert!(refused("/files/0", json!("no/such/file")).contains("no/such/file"));
    assert!(refused("/sources/steps", json!([])).contains("0 steps"));
    assert!(refused("/dimension", json!(4)).contains("4 dimensions"));
}

#[test]
fn steps_without_times_are_counted() {
    let folder = folder("times");
    let mut document = written(&folder.0);
    let file = folder.0.join("a.dat");
    document["sources"] = json!({"steady": [file], "steps": [[], [], []]});
    let zones = opened(&document).unwrap();
    assert_eq!((zones.catalog.times.as_slice(), zones.catalog.times_counted), (&[0.0, 1.0, 2.0][..], true));
    assert!(zones.catalog.untimed().unwrap().contains("No file gives the times of the 3 steps"));
    assert_eq!(zones.files_by_step(3), [[0], [0], [0]]);
    let spaced = DescribedZones::open(serde_json::from_value(document.clone()).unwrap(), Some(0.1)).unwrap();
    assert_eq!((spaced.catalog.times[2], spaced.catalog.times_counted), (0.2, false));
    document["times"] = json!([1.0, 3.0, 2.0]);
    assert!(opened(&document).unwrap_err().to_string().contains("3 times for 3 steps"));
    document["times"] = json!([1.0, 2.0, 4.0]);
    assert!(!opened(&document).unwrap().catalog.times_counted);
}
