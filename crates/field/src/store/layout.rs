//! Places of everything in a store. They follow from the catalog, the page boxes and the codec alone, so writer and
//! reader agree without further data.

use super::codec::{Codec, CRC_BYTES};
use super::time::TimeAxis;
use crate::boxes;
use crate::catalog::{ArrayInfo, Catalog, DType, Role};
use crate::error::FieldError;
use crate::heap_size;
use crate::paging::{choose, Layout, Paging};
use crate::unique_names::UniqueNames;
use serde_json::{json, Map, Value};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Most pages in a shard. Its index, the block translation table, then takes 64 KiB.
pub const MAX_SHARD_PAGES: usize = 4096;
/// Target size of a shard of a zone's largest array, in bytes of pages. Large enough for long writes and few files,
/// small enough that a resumed conversion loses little.
const SHARD_BYTES: usize = 64 << 20;
/// Bytes of an index entry: offset and length.
pub const ENTRY_BYTES: usize = 16;
/// Bytes of the checksum of a shard's name, between its index and its first page. It detects a file in another's place.
/// To other readers of Zarr it is a gap.
pub const NAME_BYTES: usize = 4;
/// The entry of a page that does not exist.
pub const ABSENT: u64 = u64::MAX;
/// Limit of a zone's bytes, four exabytes. Keeps all arithmetic below within 64 bits.
const MAX_BYTES: usize = 1 << 62;
/// Granularity of frames: a page of x86-64.
pub(crate) const SYSTEM_PAGE: usize = 4096;
/// Page edge of ranges and boxes, which are themselves paged.
const LEVEL_PAGE: usize = 8;
/// Codec of ranges and boxes. Their rounded numbers compress to about half, and reads are rare.
const LEVEL_CODEC: Codec = Codec::Zstd { level: 1 };
/// Numbers of a box.
const SIDES: usize = 6;
/// Smallest level in bytes that is compressed. Naming the codec of a smaller one takes more than it saves, and a small
/// zone pays for every byte beside its values.
const LEVEL_LEAST: usize = 128;

/// Grouping of an array's pages in shards. All triples are (i, j, k).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ShardGrid {
    /// The cut into pages.
    pub paging: Paging,
    /// Pages of a shard.
    pub shard: [usize; 3],
    /// Shards of a step.
    pub shards: [usize; 3],
}

impl ShardGrid {
    /// Groups pages of at most `page_bytes`: whole i-lines of pages if they fit, then whole planes, else blocks.
    pub fn new(paging: Paging, page_bytes: usize) -> Self {
        let even = |n: usize, most: usize| n.div_ceil(n.div_ceil(most.max(1)));
        let [ni, nj, nk] = paging.pages;
        let most = (SHARD_BYTES / page_bytes.max(1)).clamp(1, MAX_SHARD_PAGES);
        let i = even(ni, most);
        let left = (most / i).max(1);
        let (j, k) = if nj <= left {
            (nj, even(nk, left / nj))
        } else {
            // About as many points along k as along j, which keeps a shard's surface small; the surface is read twice.
            let square = (left as f64 * paging.page[1] as f64 / paging.page[2] as f64).sqrt();
            let k = even(nk, (square as usize).clamp(1, left));
            (even(nj, left / k), k)
        };
        let shard = [i, j, k];
        Self { paging, shard, shards: std::array::from_fn(|a| paging.pages[a].div_ceil(shard[a])) }
    }

    /// Slots of a shard. At the zone's end some are unused.
    pub const fn slots(&self) -> usize {
        self.shard[0] * self.shard[1] * self.shard[2]
    }

    /// Shards of a step.
    pub fn count(&self) -> u64 {
        self.shards.iter().map(|&n| n as u64).product()
    }

    /// Shard coordinates of shard `number`.
    pub const fn coords(&self, number: u64) -> [usize; 3] {
        let (ni, nj) = (self.shards[0] as u64, self.shards[1] as u64);
        [(number % ni) as usize, (number / ni % nj) as usize, (number / ni / nj) as usize]
    }

    /// Number of the shard with the page at page coordinates `at`, and the page's slot in it.
    pub const fn locate(&self, at: [usize; 3]) -> (u64, usize) {
        let s = self.shard;
        let n = ((at[2] / s[2]) as u64 * self.shards[1] as u64 + (at[1] / s[1]) as u64) * self.shards[0] as u64
            + (at[0] / s[0]) as u64;
        (n, ((at[2] % s[2]) * s[1] + at[1] % s[1]) * s[0] + at[0] % s[0])
    }

    /// Page coordinates of the page in `slot` of shard `number`. `None` for a slot past the zone's end.
    pub fn page_at(&self, number: u64, slot: usize) -> Option<[usize; 3]> {
        let c = self.coords(number);
        let s = self.shard;
        let at = [c[0] * s[0] + slot % s[0], c[1] * s[1] + slot / s[0] % s[1], c[2] * s[2] + slot / s[0] / s[1]];
        (0..3).all(|a| at[a] < self.paging.pages[a]).then_some(at)
    }

    /// Page coordinates of the pages of shard `number`.
    pub fn pages_of(&self, number: u64) -> [Range<usize>; 3] {
        let c = self.coords(number);
        std::array::from_fn(|a| c[a] * self.shard[a]..((c[a] + 1) * self.shard[a]).min(self.paging.pages[a]))
    }

    /// Bytes of a shard before its first page: the index entries, their checksum, and the name's checksum.
    pub const fn head_bytes(&self) -> usize {
        self.slots() * ENTRY_BYTES + CRC_BYTES + NAME_BYTES
    }
}

/// The checksum of a shard's name, its path below the root of the store.
pub fn name_checksum(name: &str) -> [u8; NAME_BYTES] {
    crc32c::crc32c(name.as_bytes()).to_le_bytes()
}

/// The form of an array's shards: everything that writing or checking one needs.
#[derive(Copy, Clone, Debug)]
pub struct ShardForm<'a> {
    /// Pages and shards.
    pub grid: &'a ShardGrid,
    /// Encoding of pages.
    pub codec: Codec,
    /// Bytes of a decoded page.
    pub page_bytes: usize,
    /// Bytes of an element.
    pub typesize: usize,
}

/// One array of the store.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayLayout {
    /// Folder below the root, e.g. `zone1/momentum`.
    pub path: String,
    /// Its time steps: those of the dataset, or 1.
    pub steps: usize,
    /// Sizes between the step and k in Zarr's shape: none for scalars, components for vectors.
    pub lead: Vec<usize>,
    /// Element type.
    pub dtype: DType,
    /// Pages and shards.
    pub grid: ShardGrid,
    /// Encoding of pages.
    pub codec: Codec,
    /// Data that only its document needs. Copies of the layout share them.
    about: Arc<About>,
}

/// Contents of an array's document beside its shape.
#[derive(Debug, Default, PartialEq)]
struct About {
    /// Dimension names, in Zarr's order.
    names: Vec<String>,
    /// CF attributes.
    attributes: Map<String, Value>,
}

/// Shares equal [`About`]s. Zones may be many, and most of their arrays have equal ones.
#[derive(Default)]
struct Sayings(HashMap<String, Arc<About>>);

impl Sayings {
    fn share(&mut self, about: About) -> Arc<About> {
        let key = format!("{:?}{:?}", about.names, about.attributes);
        self.0.entry(key).or_insert_with(|| Arc::new(about)).clone()
    }
}

impl ArrayLayout {
    /// A scalar of one step, for tests.
    #[cfg(test)]
    pub(crate) fn plain(path: &str, dtype: DType, grid: ShardGrid, codec: Codec) -> Self {
        Self { path: path.into(), steps: 1, lead: Vec::new(), dtype, grid, codec, about: Arc::default() }
    }

    /// Limits of the pages of a volume's array, or of a further level, over `dims` entries. They are `[t, c, k, j, i]`,
    /// where c alternates the lowest and highest value of each component.
    pub(crate) fn limits(path: String, steps: usize, components: usize, dims: [usize; 3]) -> Self {
        let value = 2 * components * DType::Float32.size();
        let name = path.rsplit('/').next().unwrap_or(&path);
        let mut names = vec!["t".into(), "limit".into()];
        names.extend(["z", "y", "x"].map(|a| format!("{a}_{name}")));
        Self {
            steps,
            lead: vec![2 * components],
            dtype: DType::Float32,
            grid: level_grid(dims, value),
            codec: level_codec(value * dims.iter().product::<usize>()),
            about: Arc::new(About { names, attributes: Map::new() }),
            path,
        }
    }

    /// The form of its shards.
    pub fn form(&self) -> ShardForm<'_> {
        let page_bytes = self.page_bytes();
        ShardForm { grid: &self.grid, codec: self.codec, page_bytes, typesize: self.dtype.size() }
    }

    /// Bytes on the heap, with its part of shared data.
    pub(crate) fn held(&self) -> u64 {
        let about = &self.about;
        let shared =
            heap_size::shared::<About>() + heap_size::texts(&about.names) + heap_size::object(&about.attributes);
        self.held_by_copy() + shared.div_ceil(Arc::strong_count(about) as u64)
    }

    /// Bytes on the heap of each copy alone.
    pub(crate) fn held_by_copy(&self) -> u64 {
        heap_size::text(&self.path) + heap_size::list(&self.lead)
    }

    /// Components of a page: the product of `lead`.
    pub fn components(&self) -> usize {
        self.lead.iter().product()
    }

    /// Bytes of a decoded page.
    pub fn page_bytes(&self) -> usize {
        self.components() * self.grid.paging.page_points() * self.dtype.size()
    }

    /// Bytes of all pages in memory, in frames of whole system pages.
    pub fn resident_bytes(&self) -> u64 {
        self.page_count().saturating_mul(self.page_bytes().next_multiple_of(SYSTEM_PAGE) as u64)
    }

    /// Bytes of all values, without padding.
    pub fn value_bytes(&self) -> u64 {
        self.steps as u64 * self.grid.paging.points() * (self.components() * self.dtype.size()) as u64
    }

    /// Pages of all steps.
    pub fn page_count(&self) -> u64 {
        self.steps as u64 * self.grid.paging.count()
    }

    /// Shards of all steps.
    pub fn shard_count(&self) -> u64 {
        self.steps as u64 * self.grid.count()
    }

    /// File of a shard below the root.
    pub fn shard_path(&self, step: usize, shard: u64) -> String {
        let [i, j, k] = self.grid.coords(shard);
        let lead = ".0".repeat(self.lead.len());
        format!("{}/c.{step}{lead}.{k}.{j}.{i}", self.path)
    }

    /// The array's `zarr.json`.
    pub fn document(&self) -> Vec<u8> {
        let p = self.grid.paging;
        let shape = |first: usize, along: [usize; 3]| -> Vec<usize> {
            let mut v = vec![first];
            v.extend(&self.lead);
            v.extend([along[2], along[1], along[0]]);
            v
        };
        let outer: [usize; 3] = std::array::from_fn(|a| self.grid.shard[a] * p.page[a]);
        // Never a plausible zero. A reader that does not recognize a deleted shard shows these values.
        let fill = match self.dtype {
            DType::Float32 | DType::Float64 => json!("NaN"),
            DType::Int32 => json!(i32::MIN),
            DType::Uint8 => json!(u8::MAX),
        };
        let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
        let mut value = json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape(self.steps, p.dims),
            "data_type": self.dtype.name(),
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape(1, outer)}},
            // All shards of an array in one folder, so that only one folder has to be made durable.
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
            "fill_value": fill,
            "codecs": [{"name": "sharding_indexed", "configuration": {
                "chunk_shape": shape(1, p.page),
                "codecs": self.codec.metadata(self.dtype.size()),
                "index_codecs": [little, {"name": "crc32c"}],
                // At the start its place is known, and a shard that lost its end is detected by its extents.
                "index_location": "start"}}],
            "dimension_names": self.about.names,
        });
        // Beside the values, documents are most of the size of a small zone.
        if !self.about.attributes.is_empty() {
            value["attributes"] = self.about.attributes.clone().into();
        }
        value.to_string().into_bytes()
    }
}

/// One zone of the store.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneLayout {
    /// Folder below the root.
    pub path: String,
    /// The cut of its points into pages, common to all its arrays.
    pub paging: Paging,
    /// Arrays in catalog order. In an index (no data) they only determine the ranges.
    pub arrays: Vec<ArrayLayout>,
    /// Ranges by array and level: lower and upper limit of each component, `[t, 2, c, k, j, i]` over pages at level 0.
    pub ranges: Vec<Vec<ArrayLayout>>,
    /// Boxes of blocks of cells by level, `[t, 6, k, j, i]`; empty for a zone without coordinates.
    pub boxes: Vec<ArrayLayout>,
    /// Index of the array with the coordinates.
    pub xyz: Option<usize>,
    /// Index of the array with iblank.
    pub iblank: Option<usize>,
    /// Times of the steps. `None` in an index, in stores that predate it, and if an array has its name.
    pub time: Option<TimeAxis>,
}

/// Chooses the page boxes of a catalog's zones.
pub fn choose_pages(catalog: &Catalog, asked: usize, layout: Layout) -> Vec<Paging> {
    let size = |a: &ArrayInfo| a.dtype.size();
    catalog.zones.iter().map(|z| choose(z.dims, asked, layout, z.arrays.iter().map(size).max().unwrap_or(4))).collect()
}

/// A name as a folder that is valid in every file system and Zarr, and not in `taken`. It has letters, digits, `.`,
/// `_`, `-`, and does not begin with `_` or `.`.
fn folder(name: &str, taken: &mut UniqueNames) -> String {
    let mut s: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).take(100).collect();
    if !s.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        s.insert(0, 'z');
    }
    let document = s == "zarr.json";
    taken.free(s, document)
}

/// An empty set of folder names. Some file systems ignore case, so names differ in more than case.
fn no_folders() -> UniqueNames {
    UniqueNames::new(str::to_ascii_lowercase, '-')
}

/// Lays out a store. `steps` gives the number of steps of each array of each zone.
///
/// # Errors
/// [`FieldError::Format`] about `path` for a catalog that no store can hold: sizes that overflow, arrays without
/// components, or steps that are not the dataset's.
pub fn lay_out(
    path: &Path,
    catalog: &Catalog,
    pages: &[Paging],
    steps: &[Vec<usize>],
    codec: Codec,
) -> Result<Vec<ZoneLayout>, FieldError> {
    let bad = |m: String| FieldError::format(path, m);
    if pages.len() != catalog.zones.len() || steps.len() != catalog.zones.len() {
        return Err(bad("zones and page boxes differ in number".into()));
    }
    let (mut taken, sayings) = (no_folders(), RefCell::default());
    let mut zones = Vec::with_capacity(catalog.zones.len());
    for ((zone, &paging), steps) in catalog.zones.iter().zip(pages).zip(steps) {
        if steps.len() != zone.arrays.len() {
            return Err(bad(format!("{}: arrays and steps differ in number", zone.name)));
        }
        if zone.dims.iter().any(|&n| n > i32::MAX as usize) {
            return Err(bad(format!("{}: {:?} points are too many", zone.name, zone.dims)));
        }
        if paging != Paging::new(zone.dims, paging.page) || zone.dims.contains(&0) {
            return Err(bad(format!("{}: pages of {:?} points do not cut {:?}", zone.name, paging.page, zone.dims)));
        }
        // The largest product of all: all points with padding, all components, eight bytes, all steps.
        let most = steps.iter().copied().max().unwrap_or(1).max(1);
        let total =
            (0..3).try_fold(most.saturating_mul(1 << 10), |n, a| n.checked_mul(paging.pages[a] * paging.page[a]));
        if total.is_none_or(|n| n > MAX_BYTES) {
            return Err(bad(format!("{}: {:?} points are too many", zone.name, zone.dims)));
        }
        let mut largest = 1;
        for (a, &n) in zone.arrays.iter().zip(steps) {
            if !(1..=64).contains(&a.components) || n == 0 || n != 1 && n != catalog.times.len() {
                return Err(bad(format!("{}/{}: {} components, {n} steps", zone.name, a.name, a.components)));
            }
            largest = largest.max(a.components * a.dtype.size() * paging.page_points());
        }
        // Larger pages would fit neither blosc's lengths nor any limit.
        if largest > 1 << 30 {
            return Err(bad(format!("{}: pages of {largest} bytes are too large", zone.name)));
        }
        zones.push(zone_layout(
            catalog,
            zone,
            ShardGrid::new(paging, largest),
            steps,
            codec,
            folder(&zone.name, &mut taken),
            &sayings,
        ));
    }
    Ok(zones)
}

fn zone_layout(
    catalog: &Catalog,
    zone: &crate::catalog::ZoneInfo,
    grid: ShardGrid,
    steps: &[usize],
    codec: Codec,
    path: String,
    sayings: &RefCell<Sayings>,
) -> ZoneLayout {
    let time = |n: usize| if n == catalog.times.len() { "time" } else { "steady" }.to_owned();
    let component = |n: usize| if n == catalog.dimension { "component".to_owned() } else { format!("component_{n}") };
    let mut taken = no_folders();
    let mut arrays = Vec::new();
    let mut ranges = Vec::new();
    let level = |name: String, steps: usize, lead: Vec<usize>, names: Vec<String>, dtype: DType, dims: [usize; 3]| {
        let values: usize = lead.iter().product();
        let grid = level_grid(dims, values * dtype.size());
        let mut all = vec![time(steps)];
        all.extend(names);
        // Levels differ in size, so each has its own dimensions. `k_r0`: along k, ranges of level 0. Names are short,
        // because a small zone pays for every byte of these documents.
        let (kind, number) = (&name[..1], name.rsplit('_').next().unwrap_or(""));
        all.extend(["k", "j", "i"].map(|a| format!("{a}_{kind}{number}")));
        let path = format!("_farfield/{path}/{name}");
        let codec = level_codec(values * dims.iter().product::<usize>() * dtype.size());
        let about = sayings.borrow_mut().share(About { names: all, attributes: Map::new() });
        ArrayLayout { path, steps, lead, dtype, grid, codec, about }
    };
    for (info, &steps) in zone.arrays.iter().zip(steps) {
        let name = folder(&info.name, &mut taken);
        let c = info.components;
        let mut names = vec![time(steps)];
        if c > 1 {
            names.push(component(c));
        }
        names.extend(["k", "j", "i"].map(str::to_owned));
        let mut attributes = Map::new();
        for (key, value) in
            [("units", &info.units), ("standard_name", &info.standard_name), ("long_name", &info.long_name)]
        {
            if !value.is_empty() {
                attributes.insert(key.into(), json!(value));
            }
        }
        ranges.push(
            boxes::halvings(grid.paging.pages)
                .into_iter()
                .enumerate()
                .map(|(n, dims)| {
                    let names = vec!["limit".to_owned(), component(c)];
                    level(format!("ranges_{name}_{n}"), steps, vec![2, c], names, DType::Float64, dims)
                })
                .collect(),
        );
        let lead = if c > 1 { vec![c] } else { Vec::new() };
        arrays.push(ArrayLayout {
            path: format!("{path}/{name}"),
            steps,
            lead,
            dtype: info.dtype,
            grid,
            codec,
            about: sayings.borrow_mut().share(About { names, attributes }),
        });
    }
    let find = |role: Role| zone.arrays.iter().position(|a| a.role == role);
    let xyz = find(Role::Coordinates).filter(|&n| {
        let a = &zone.arrays[n];
        matches!(a.components, 2 | 3) && matches!(a.dtype, DType::Float32 | DType::Float64)
    });
    let boxes = xyz.map_or_else(Vec::new, |n| {
        boxes::level_dims(zone.dims)
            .into_iter()
            .enumerate()
            .map(|(l, dims)| {
                level(format!("boxes_{l}"), steps[n], vec![SIDES], vec!["side".into()], DType::Float32, dims)
            })
            .collect()
    });
    let iblank = find(Role::Iblank).filter(|&n| zone.arrays[n].dtype == DType::Int32 && zone.arrays[n].components == 1);
    let taken =
        arrays.iter().any(|a: &ArrayLayout| a.path.rsplit('/').next().is_some_and(|n| n.eq_ignore_ascii_case("time")));
    let time = TimeAxis::of(catalog).filter(|_| !taken);
    ZoneLayout { path, paging: grid.paging, arrays, ranges, boxes, xyz, iblank, time }
}

/// Codec of a level of ranges or boxes of `bytes` bytes.
const fn level_codec(bytes: usize) -> Codec {
    if bytes < LEVEL_LEAST {
        Codec::None
    } else {
        LEVEL_CODEC
    }
}

/// The cut of a level of ranges or boxes with `value_bytes` an entry.
fn level_grid(dims: [usize; 3], value_bytes: usize) -> ShardGrid {
    let paging = choose(dims, LEVEL_PAGE, Layout::Cubed, value_bytes);
    ShardGrid::new(paging, value_bytes * paging.page_points())
}

/// Pages of the boxes of a zone of `dims` points at one step, with the indexes of their shards.
pub(crate) fn box_pages(dims: [usize; 3]) -> u64 {
    let grids = boxes::level_dims(dims).into_iter().map(|d| level_grid(d, SIDES * DType::Float32.size()));
    grids.map(|g| g.paging.count() + g.count()).sum()
}

/// All arrays of a store in the order of its root document. An index has no data arrays.
pub fn all_arrays(zones: &[ZoneLayout], data: bool) -> impl Iterator<Item = &ArrayLayout> {
    zones.iter().flat_map(move |z| {
        let data = if data { &z.arrays[..] } else { &[] };
        data.iter().chain(z.ranges.iter().flatten()).chain(&z.boxes)
    })
}

/// All `zarr.json` except the root's, with their paths below the root. Also the chunks of times, which follow from the
/// catalog.
pub fn documents(zones: &[ZoneLayout], data: bool) -> impl Iterator<Item = (String, Vec<u8>)> + '_ {
    let group =
        |path: String| (path + "/zarr.json", json!({"zarr_format": 3, "node_type": "group"}).to_string().into_bytes());
    let about = json!({"zarr_format": 3, "node_type": "group", "attributes": {
        "ranges": "limits in the cells whose low corners lie in a page (level 0), then in 2x2x2 entries",
        "boxes": "limits of x, y, z in the usable of 4x4x4 cells (level 0), then in 2x2x2 boxes"}});
    std::iter::once(("_farfield/zarr.json".into(), about.to_string().into_bytes()))
        .chain(zones.iter().flat_map(move |z| {
            let own = data.then(|| group(z.path.clone()));
            let time = z.time.iter().filter(move |_| data).flat_map(TimeAxis::documents);
            let time = time.map(|(name, bytes)| (format!("{}/{name}", z.path), bytes));
            own.into_iter().chain(time).chain(std::iter::once(group(format!("_farfield/{}", z.path))))
        }))
        .chain(all_arrays(zones, data).map(|a| (format!("{}/zarr.json", a.path), a.document())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names are part of the format, so they must not depend on the way of computing them.
    #[test]
    fn folders_of_many_zones_of_one_name() {
        let mut taken = no_folders();
        let mut next = |name: &str| folder(name, &mut taken);
        let names = ["wing", "Wing", "wing-2", "wing", "wing-2", "zarr.json", "zarr.json", "ZARR.JSON", "", "_a b"];
        let got: Vec<String> = names.iter().map(|n| next(n)).collect();
        let wanted = [
            "wing",
            "Wing-2",
            "wing-2-2",
            "wing-3",
            "wing-2-3",
            "zarr.json-2",
            "zarr.json-3",
            "ZARR.JSON",
            "z",
            "z_a_b",
        ];
        assert_eq!(got, wanted);
        // A quadratic search would take minutes.
        let mut of = |name: &str| (0..200_000).map(|_| folder(name, &mut taken)).last().unwrap();
        assert_eq!([of("a"), of("zarr.json")], ["a-200000", "zarr.json-200003"]);
    }

    #[test]
    fn boxes_are_counted_as_they_are_laid_out() {
        let info = ArrayInfo {
            name: "xyz".into(),
            role: Role::Coordinates,
            components: 3,
            dtype: DType::Float32,
            units: String::new(),
            standard_name: String::new(),
            long_name: String::new(),
        };
        for dims in [[1, 1, 1], [5, 4, 1], [33, 1, 7], [2000, 300, 41], [1 << 20, 1 << 11, 1 << 8]] {
            let zone =
                crate::catalog::ZoneInfo { name: "a".into(), dims, arrays: vec![info.clone()], headers: Vec::new() };
            let catalog = Catalog {
                format: String::new(),
                guessed: Vec::new(),
                order_assumed: Vec::new(),
                dimension: 3,
                zones: vec![zone],
                times: vec![0.0],
                times_counted: false,
                time_units: "1".into(),
                settings: Value::Null,
            };
            let pages = [Paging::new(dims, [16, 16, 16])];
            let zones = lay_out(Path::new("p"), &catalog, &pages, &[vec![1]], Codec::None).unwrap();
            let laid_out: u64 = zones[0].boxes.iter().map(|a| a.page_count() + a.shard_count()).sum();
            assert_eq!(box_pages(dims), laid_out, "{dims:?}");
        }
    }
}
