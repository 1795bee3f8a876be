//! The root's `zarr.json`: the description of the store, and the crc32c of every other document. It is the commit mark.
//!
//! The document begins with fixed bytes up to its own checksum. The checksum covers all bytes, with its own eight
//! digits as zeros. So any changed byte is detected, even white space, and no canonical form is needed.

use super::codec::Codec;
use crate::catalog::{ArrayInfo, Catalog, FlowHeader, ZoneInfo};
use crate::error::FieldError;
use crate::json::Each;
use crate::paging::{Layout, Paging};
use crate::series::Sources;
use crate::uniform::Uniform;
use serde::ser::{SerializeMap, Serializer};
use serde::Serialize;
use serde_json::{json, Value};
use std::path::Path;

/// Version of the contents of the `farfield` key.
pub const VERSION: u64 = 3;
/// The earliest supported version.
const FIRST_READ: u64 = 2;
/// Start of the document, up to the checksum's digits.
const PREFIX: &[u8] = br#"{"zarr_format":3,"node_type":"group","attributes":{"farfield":{"crc32c":""#;
const DIGITS: usize = 8;
/// Limit of a root document in bytes. A thousand zones take about 2 MB.
pub const MAX_ROOT_BYTES: u64 = 1 << 28;

/// The root's entry for one array.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ArraySeal {
    /// Bytes of all its shards.
    pub bytes: u64,
    /// crc32c over its shards' seals, by step and shard number. A shard's seal is the crc32c of its pages' checksums,
    /// in the order of their slots, and of its index's. So validation detects exchanged shards.
    pub pages: u32,
}

/// The root's content.
#[derive(Clone, Debug, PartialEq)]
pub struct Root {
    /// Whether it holds data, or only ranges and boxes of data that are paged in place.
    pub data: bool,
    /// The requested page edge.
    pub page: usize,
    /// Shape of pages.
    pub layout: Layout,
    /// Encoding of pages.
    pub codec: Codec,
    /// The dataset's contents, as its source described them.
    pub catalog: Catalog,
    /// Digest of the identities of its source files. `None` in stores that predate it.
    pub source: Option<String>,
    /// Whether each zone has the coordinate `time`. False in indexes and in stores that predate it.
    pub time_axis: bool,
    /// Source files of each step. `None` in indexes and in stores that predate it.
    pub sources: Option<Sources>,
    /// Page box of each zone.
    pub pages: Vec<[usize; 3]>,
    /// Steps of each array of each zone.
    pub steps: Vec<Vec<usize>>,
    /// The uniform grid equal to each zone's coordinates, compared point by point. `None` for other zones, and in
    /// stores that predate it.
    pub uniform: Vec<Option<Uniform>>,
    /// Length and crc32c of the other documents, in [`super::layout::documents`]'s order.
    pub documents: Vec<(u64, u32)>,
    /// Seals of the arrays, in [`super::layout::all_arrays`]'s order.
    pub seals: Vec<ArraySeal>,
}

impl Root {
    /// The document. It is written item by item. With trees of values for it and for `info`, a conversion of 4,000
    /// zones took 173 MB of private memory instead of 92.
    pub fn document(&self) -> Vec<u8> {
        seal(&RootDocument {
            zarr_format: 3,
            node_type: "group",
            attributes: Attributes { farfield: FarfieldAttributes(self), conventions: "CF-1.11" },
        })
    }

    /// Parses the document.
    ///
    /// # Errors
    /// [`FieldError::Format`] about `path` if a byte has changed or the document is not a Farfield store's.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, FieldError> {
        let bad = |m: &str| FieldError::format(path, m.to_owned());
        let value = unseal(path, bytes)?;
        let ours = &value["attributes"]["farfield"];
        Self::from_value(ours).ok_or_else(|| bad("the document is not as this Farfield writes it; convert again"))
    }

    fn from_value(v: &Value) -> Option<Self> {
        let level = match &v["level"] {
            Value::Null => None,
            n => Some(i32::try_from(n.as_i64()?).ok()?),
        };
        let catalog = catalog_from(&v["catalog"])?;
        let uniform = match &v["uniform"] {
            Value::Null => vec![None; catalog.zones.len()],
            each => uniforms(each, &catalog)?,
        };
        let pair = |v: &Value| Some((v[0].as_u64()?, unhex(v[1].as_str()?)?));
        let pairs = |v: &Value| v.as_array()?.iter().map(pair).collect::<Option<Vec<_>>>();
        Some(Self {
            data: match v["kind"].as_str()? {
                "store" => true,
                "index" => false,
                _ => return None,
            },
            page: number(&v["page"])?,
            layout: Layout::parse(v["layout"].as_str()?)?,
            codec: Codec::parse(v["codec"].as_str()?, level).ok()?,
            catalog,
            source: match &v["source"] {
                Value::Null => None,
                text => Some(text.as_str()?.to_owned()),
            },
            time_axis: v.get("time_axis").map_or(Some(false), Value::as_bool)?,
            sources: match &v["sources"] {
                Value::Null => None,
                sources => Some(Sources::from_value(sources)?),
            },
            pages: v["pages"].as_array()?.iter().map(triple).collect::<Option<_>>()?,
            steps: v["steps"].as_array()?.iter().map(numbers).collect::<Option<_>>()?,
            uniform,
            documents: pairs(&v["documents"])?,
            seals: pairs(&v["arrays"])?.into_iter().map(|(bytes, pages)| ArraySeal { bytes, pages }).collect(),
        })
    }

    /// The page boxes as pagings of the zones.
    pub fn pagings(&self) -> Vec<Paging> {
        self.catalog.zones.iter().zip(&self.pages).map(|(z, &page)| Paging::new(z.dims, page)).collect()
    }
}

/// The serialized form of a root.
#[derive(Serialize)]
struct RootDocument<'a> {
    zarr_format: u8,
    node_type: &'static str,
    attributes: Attributes<'a>,
}

#[derive(Serialize)]
struct Attributes<'a> {
    farfield: FarfieldAttributes<'a>,
    #[serde(rename = "Conventions")]
    conventions: &'static str,
}

/// The contents of the `farfield` key.
struct FarfieldAttributes<'a>(&'a Root);

impl Serialize for FarfieldAttributes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let root = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("crc32c", &hex(0))?;
        map.serialize_entry("version", &VERSION)?;
        map.serialize_entry("kind", if root.data { "store" } else { "index" })?;
        map.serialize_entry("page", &root.page)?;
        map.serialize_entry("layout", root.layout.name())?;
        map.serialize_entry("codec", root.codec.name())?;
        map.serialize_entry("level", &root.codec.level())?;
        map.serialize_entry("pages", &root.pages)?;
        map.serialize_entry("steps", &root.steps)?;
        map.serialize_entry("catalog", &CatalogDocument(&root.catalog))?;
        map.serialize_entry("arrays", &Each(|| root.seals.iter().map(|s| (s.bytes, hex(s.pages)))))?;
        map.serialize_entry("documents", &Each(|| root.documents.iter().map(|d| (d.0, hex(d.1)))))?;
        if let Some(source) = &root.source {
            map.serialize_entry("source", source)?;
        }
        if root.time_axis {
            map.serialize_entry("time_axis", &true)?;
        }
        if let Some(sources) = &root.sources {
            map.serialize_entry("sources", &sources.value())?;
        }
        if root.uniform.iter().any(Option::is_some) {
            map.serialize_entry("uniform", &Each(|| root.uniform.iter().map(|u| u.map(|u| u.value()))))?;
        }
        map.end()
    }
}

/// A root document of `value`, with its checksum filled in. The `farfield` key must be the first attribute and begin
/// with `"crc32c": "00000000"`.
pub(crate) fn seal(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(value).expect("numbers, text and lists of them are JSON");
    debug_assert!(bytes.starts_with(PREFIX));
    let crc = hex(crc32c::crc32c(&bytes));
    bytes[PREFIX.len()..PREFIX.len() + DIGITS].copy_from_slice(crc.as_bytes());
    bytes
}

/// The value that [`seal`] wrote, if it has this version.
pub(crate) fn unseal(path: &Path, bytes: &[u8]) -> Result<Value, FieldError> {
    let bad = |m: &str| FieldError::format(path, m.to_owned());
    if !bytes.starts_with(PREFIX) || bytes.len() < PREFIX.len() + DIGITS {
        return Err(bad("not the root document of a Farfield store, or damaged"));
    }
    let (at, end) = (PREFIX.len(), PREFIX.len() + DIGITS);
    let crc =
        crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(&bytes[..at]), &[b'0'; DIGITS]), &bytes[end..]);
    if bytes[at..end] != *hex(crc).as_bytes() {
        return Err(bad("checksum mismatch: the document is damaged or was edited; convert again"));
    }
    let value: Value = serde_json::from_slice(bytes).map_err(|e| bad(&format!("not JSON: {e}")))?;
    match value["attributes"]["farfield"]["version"].as_u64() {
        Some(FIRST_READ..=VERSION) => Ok(value),
        Some(v) => Err(bad(&format!("store version {v}; this Farfield reads versions {FIRST_READ} to {VERSION}"))),
        None => Err(bad("no store version")),
    }
}

/// The uniform grids of a catalog's zones, one for each zone.
fn uniforms(v: &Value, catalog: &Catalog) -> Option<Vec<Option<Uniform>>> {
    let each = v.as_array().filter(|each| each.len() == catalog.zones.len())?.iter().zip(&catalog.zones);
    each.map(|(v, zone)| match v {
        Value::Null => Some(None),
        v => Uniform::from_value(v).filter(|u| u.suits(zone.dims)).map(Some),
    })
    .collect()
}

/// Eight lower-case digits.
pub(crate) fn hex(n: u32) -> String {
    format!("{n:08x}")
}

pub(crate) fn unhex(s: &str) -> Option<u32> {
    u32::from_str_radix(s, 16).ok().filter(|&n| hex(n) == s)
}

pub(crate) fn number(v: &Value) -> Option<usize> {
    usize::try_from(v.as_u64()?).ok()
}

fn numbers(v: &Value) -> Option<Vec<usize>> {
    v.as_array()?.iter().map(number).collect()
}

pub(crate) fn triple(v: &Value) -> Option<[usize; 3]> {
    numbers(v)?.try_into().ok()
}

/// A float as text. JSON has no NaN, and a number must be read back to the last bit.
pub(crate) fn float(x: f64) -> Value {
    json!(format!("{x:?}"))
}

pub(crate) fn unfloat(v: &Value) -> Option<f64> {
    v.as_str()?.parse().ok()
}

/// A catalog as JSON, which [`catalog_from`] reads back exactly.
pub fn catalog_value(c: &Catalog) -> Value {
    json!(CatalogDocument(c))
}

/// A catalog as JSON.
struct CatalogDocument<'a>(&'a Catalog);

impl Serialize for CatalogDocument<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let c = self.0;
        let zone = |z: &ZoneInfo| {
            let headers: Vec<Value> =
                z.headers.iter().map(|h| json!([h.mach, h.alpha, h.reynolds, h.time, h.gamma].map(float))).collect();
            let arrays: Vec<Value> = z
                .arrays
                .iter()
                .map(|a| json!([a.name, a.role, a.components, a.dtype, a.units, a.standard_name, a.long_name]))
                .collect();
            json!({"name": z.name, "dims": z.dims, "arrays": arrays, "headers": headers})
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("format", &c.format)?;
        map.serialize_entry("guessed", &c.guessed)?;
        if !c.order_assumed.is_empty() {
            map.serialize_entry("order_assumed", &c.order_assumed)?;
        }
        map.serialize_entry("dimension", &c.dimension)?;
        map.serialize_entry("times", &Each(|| c.times.iter().map(|&t| float(t))))?;
        map.serialize_entry("time_units", &c.time_units)?;
        if c.times_counted {
            map.serialize_entry("times_counted", &true)?;
        }
        map.serialize_entry("zones", &Each(|| c.zones.iter().map(zone)))?;
        // As text, because these contents are the user's.
        map.serialize_entry("settings", &c.settings.to_string())?;
        map.end()
    }
}

/// One array of a zone: name, role, components, type, units, standard name, long name.
fn array_from(v: &Value) -> Option<ArrayInfo> {
    let text = |n: usize| v[n].as_str().map(str::to_owned);
    Some(ArrayInfo {
        name: text(0)?,
        role: serde_json::from_value(v[1].clone()).ok()?,
        components: number(&v[2])?,
        dtype: serde_json::from_value(v[3].clone()).ok()?,
        units: text(4)?,
        standard_name: text(5)?,
        long_name: text(6)?,
    })
}

/// A catalog from [`catalog_value`]'s JSON.
pub fn catalog_from(v: &Value) -> Option<Catalog> {
    let zone = |z: &Value| {
        let header = |h: &Value| {
            let n: Vec<f64> = h.as_array()?.iter().map(unfloat).collect::<Option<_>>()?;
            let [mach, alpha, reynolds, time, gamma] = n.try_into().ok()?;
            Some(FlowHeader { mach, alpha, reynolds, time, gamma })
        };
        Some(ZoneInfo {
            name: z["name"].as_str()?.to_owned(),
            dims: triple(&z["dims"])?,
            arrays: z["arrays"].as_array()?.iter().map(array_from).collect::<Option<_>>()?,
            headers: z["headers"].as_array()?.iter().map(header).collect::<Option<_>>()?,
        })
    };
    Some(Catalog {
        format: v["format"].as_str()?.to_owned(),
        guessed: serde_json::from_value(v["guessed"].clone()).ok()?,
        order_assumed: match v.get("order_assumed") {
            Some(names) => serde_json::from_value(names.clone()).ok()?,
            None => Vec::new(),
        },
        dimension: number(&v["dimension"])?,
        zones: v["zones"].as_array()?.iter().map(zone).collect::<Option<_>>()?,
        times: v["times"].as_array()?.iter().map(unfloat).collect::<Option<_>>()?,
        times_counted: v.get("times_counted").map_or(Some(false), Value::as_bool)?,
        time_units: v["time_units"].as_str()?.to_owned(),
        settings: serde_json::from_str(v["settings"].as_str()?).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{DType, Role};
    use crate::store::layout::{documents, lay_out};
    use proptest::prelude::*;

    fn root() -> Root {
        let array = |name: &str, role, components| ArrayInfo {
            name: name.into(),
            role,
            components,
            dtype: DType::Float32,
            units: "1".into(),
            standard_name: "x\"y".into(),
            long_name: "\u{3c1} in kg".into(),
        };
        let header =
            FlowHeader { mach: 0.1 + 0.2, alpha: f64::NAN, reynolds: f64::INFINITY, time: -0.0, gamma: 5e-324 };
        let zone = ZoneInfo {
            name: "wing / upper".into(),
            dims: [33, 17, 9],
            arrays: vec![array("xyz", Role::Coordinates, 3), array("density", Role::Field, 1)],
            headers: vec![header],
        };
        let catalog = Catalog {
            format: "f".into(),
            guessed: vec!["g".into()],
            order_assumed: vec!["a.q".into()],
            dimension: 3,
            zones: vec![zone.clone(), zone],
            times: vec![1.0 / 3.0],
            times_counted: true,
            time_units: "s".into(),
            settings: json!({"gamma": 1.4000000000000001, "a": [1, null]}),
        };
        Root {
            data: true,
            page: 16,
            layout: Layout::Cubed,
            codec: Codec::Zstd { level: 3 },
            catalog,
            source: Some("00ff".into()),
            time_axis: true,
            sources: Some(Sources { steady: Vec::new(), steps: vec![Vec::new()] }),
            pages: vec![[11, 17, 9], [11, 9, 9]],
            steps: vec![vec![1, 1], vec![1, 1]],
            uniform: vec![None, Some(Uniform { origin: [0.1, -0.0, 5e-324], spacing: [0.1 + 0.2, -1.0 / 3.0, 1e300] })],
            documents: vec![(3, 9), (u64::from(u32::MAX), u32::MAX)],
            seals: vec![ArraySeal { bytes: 1 << 60, pages: 1 }],
        }
    }

    #[test]
    fn round_trip_and_every_bit() {
        // From before stores recorded their sources.
        let old = Root { source: None, sources: None, time_axis: false, ..root() }.document();
        let back = Root::parse(Path::new("p"), &old).unwrap();
        assert_eq!((back.document(), &back.source), (old, &None));
        let r = root();
        let bytes = r.document();
        let back = Root::parse(Path::new("p"), &bytes).unwrap();
        assert_eq!(catalog_value(&back.catalog), catalog_value(&r.catalog));
        assert_eq!(back.document(), bytes);
        let mut bad = bytes.clone();
        for bit in 0..bytes.len() * 8 {
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Root::parse(Path::new("p"), &bad).is_err(), "bit {bit}");
            bad[bit / 8] ^= 1 << (bit % 8);
        }
        for n in 0..bytes.len() {
            assert!(Root::parse(Path::new("p"), &bytes[..n]).is_err());
        }
    }

    #[test]
    fn zones_of_one_name_get_folders_of_their_own() {
        let r = root();
        let zones = lay_out(Path::new("p"), &r.catalog, &r.pagings(), &r.steps, r.codec).unwrap();
        assert_eq!((zones[0].path.as_str(), zones[1].path.as_str()), ("wing___upper", "wing___upper-2"));
        let mut names: Vec<String> = documents(&zones, true).map(|d| d.0).collect();
        let n = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), n);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, rng_seed: prop::test_runner::RngSeed::Fixed(0x726f_6f74), ..ProptestConfig::default() })]
        /// A forger knows the checksum: numbers are changed and the document is sealed again. Nothing may panic,
        /// overflow or request much memory.
        #[test]
        fn forged_numbers_are_survived(at in 0usize..200, n in prop::sample::select(vec!["0", "1", "7", "64", "65", "4096", "2147483647", "4294967296", "9223372036854775807", "18446744073709551615", "-1", "1e300"])) {
            let bytes = root().document();
            let text = String::from_utf8(bytes).unwrap();
            // The at-th run of digits outside the checksum becomes n.
            let body = PREFIX.len() + DIGITS;
            let mut runs = Vec::new();
            let mut last = None;
            for (i, c) in text.char_indices().skip_while(|(i, _)| *i < body) {
                match (c.is_ascii_digit(), last) {
                    (true, None) => last = Some(i),
                    (false, Some(s)) => { runs.push(s..i); last = None; }
                    _ => {}
                }
            }
            let run = runs[at % runs.len()].clone();
            let mut forged = text.clone();
            forged.replace_range(run, n);
            forged.replace_range(PREFIX.len()..body, &hex(0));
            let crc = hex(crc32c::crc32c(forged.as_bytes()));
            forged.replace_range(PREFIX.len()..body, &crc);
            if let Ok(r) = Root::parse(Path::new("p"), forged.as_bytes()) {
                if let Ok(zones) = lay_out(Path::new("p"), &r.catalog, &r.pagings(), &r.steps, r.codec) {
                    let size: usize = documents(&zones, r.data).map(|d| d.1.len()).sum();
                    prop_assert!(size < 1 << 20);
                    for a in crate::store::layout::all_arrays(&zones, r.data) {
                        prop_assert!(a.shard_count() > 0 && a.page_bytes() > 0 && a.value_bytes() > 0);
                    }
                }
            }
        }

        #[test]
        fn noise_is_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..400), prefix: bool) {
            if prefix {
                let mut b = PREFIX.to_vec();
                b.append(&mut bytes);
                bytes = b;
            }
            prop_assert!(Root::parse(Path::new("p"), &bytes).is_err());
        }
    }
}
