//! A Zarr v3 volume that is written shard by shard, for any Zarr tool.
//!
//! It grows in a folder beside its name, and gets the name when all of it is on disk. A run that fails removes the
//! folder. [`put_right`] in the next run of that name cleans up after a killed run. Chunks have a crc32c and no codec.
//! A shard's index is at its start, as in the stores that `convert` writes.

use super::grid::SeedGrid;
use field::error::FieldError;
use field::store::codec::{Codec, Encoder};
use field::store::layout::{ABSENT, ENTRY_BYTES};
use serde_json::{json, Map, Value};
use std::fs::{read_dir, remove_dir_all, rename, File};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// An array of the volume.
#[derive(Clone, Debug)]
pub(super) struct VolumeArray {
    pub(super) name: String,
    /// Numbers of a seed: 1, or 3 for a vector.
    pub(super) components: usize,
    /// Bytes of a number: 8 for floating point, 1 for a flag.
    pub(super) size: usize,
    /// CF attributes.
    pub(super) attributes: Value,
}

/// An unfinished volume. Dropped before [`Volume::finish`], it removes its files.
pub(super) struct Volume {
    target: PathBuf,
    /// The folder in which it grows; `None` after it got its name.
    folder: Option<PathBuf>,
    /// Lock of the folder, held during the run. A folder without a lock is of a dead run.
    _lock: Option<File>,
    grid: SeedGrid,
    overwrite: bool,
    bytes: u64,
}

fn failed(path: &Path, e: std::io::Error) -> FieldError {
    FieldError::output(format!("{}: cannot write the volume: {e}", path.display()), &e)
}

/// The name of a volume's folder, without the numbers of its run.
fn stem(name: &str) -> String {
    format!(".{name}.part-")
}

/// Path of the replaced volume until it is removed.
fn replaced(folder: &Path) -> PathBuf {
    let name = folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    folder.with_file_name(format!("{name}{OLD}"))
}

const OLD: &str = ".old";

/// Locks a folder; `None` if another run has the lock.
fn lock(folder: &Path) -> Option<File> {
    let file = File::open(folder).ok()?;
    file.try_lock().ok().map(|()| file)
}

/// Cleans up after runs that were killed while they wrote a volume of this name.
///
/// The new volume is complete before the old one is moved away. So if neither has the name, the new one gets it. If the
/// new one has it, the old one is removed. A folder without either is part of a volume, and is of no use. Folders of
/// live runs are locked, and stay.
fn put_right(target: &Path, name: &str) -> Result<(), FieldError> {
    let parent = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = read_dir(parent) else { return Ok(()) };
    let stem = stem(name);
    let of_run = |n: &str| {
        n.strip_prefix(&stem).is_some_and(|n| n.trim_end_matches(OLD).bytes().all(|b| b.is_ascii_digit() || b == b'-'))
    };
    let left = entries
        .flatten()
        .filter(|e| e.file_name().to_str().is_some_and(of_run))
        .map(|e| target.with_file_name(e.file_name()));
    let (olds, folders): (Vec<PathBuf>, Vec<PathBuf>) = left.partition(|p| p.extension().is_some_and(|e| e == "old"));
    let there = || target.symlink_metadata().is_ok();
    for folder in folders {
        let Some(_lock) = lock(&folder) else { continue };
        let old = replaced(&folder);
        match (olds.contains(&old), there()) {
            (true, false) => rename(&folder, target).map_err(|e| failed(target, e))?,
            // Another volume has been put there since: both stay for its owner.
            (true, true) => continue,
            (false, _) => remove_dir_all(&folder).map_err(|e| failed(&folder, e))?,
        }
    }
    for old in olds {
        let folder = old.with_extension("");
        if folder.symlink_metadata().is_ok() {
            continue;
        }
        if there() {
            gone(&old)?;
        } else {
            rename(&old, target).map_err(|e| failed(target, e))?;
        }
    }
    Ok(())
}

/// Removes a replaced volume. It may already be removed.
fn gone(old: &Path) -> Result<(), FieldError> {
    match remove_dir_all(old) {
        Err(e) if old.symlink_metadata().is_ok() => Err(failed(old, e)),
        _ => Ok(()),
    }
}

impl Volume {
    /// Makes the folder. `overwrite`: a Zarr store of that name is replaced when the new one is complete.
    pub(super) fn create(target: &Path, grid: SeedGrid, overwrite: bool) -> Result<Self, FieldError> {
        let name = target
            .file_name()
            .and_then(|n| n.to_str())
            .ok_or_else(|| FieldError::Usage(format!("{}: this names no folder for a volume", target.display())))?;
        put_right(target, name)?;
        let there = target.symlink_metadata().is_ok();
        if there && !overwrite {
            return Err(FieldError::format(target, "exists; --overwrite replaces it"));
        }
        if there && !target.join("zarr.json").is_file() {
            return Err(FieldError::format(
                target,
                "is there and is no Zarr store, so --overwrite leaves it alone; name another output",
            ));
        }
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let folder = target.with_file_name(format!("{}{}-{number}", stem(name), std::process::id()));
        std::fs::create_dir(&folder).map_err(|e| failed(&folder, e))?;
        let _lock = lock(&folder);
        Ok(Self { target: target.to_owned(), folder: Some(folder), _lock, grid, overwrite, bytes: 0 })
    }

    fn folder(&self) -> &Path {
        self.folder.as_deref().unwrap_or(&self.target)
    }

    /// An unnamed file beside the volume, for temporary data.
    pub(super) fn scratch(&self) -> Result<File, FieldError> {
        let path = self.folder().join(".scratch");
        let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(|e| failed(&path, e))?;
        std::fs::remove_file(&path).map_err(|e| failed(&path, e))?;
        Ok(file)
    }

    fn write(&mut self, name: &str, parts: &[&[u8]]) -> Result<(), FieldError> {
        let path = self.folder().join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|e| failed(parent, e))?;
        }
        let mut file = File::create(&path).map_err(|e| failed(&path, e))?;
        for part in parts {
            file.write_all(part).map_err(|e| failed(&path, e))?;
            self.bytes += part.len() as u64;
        }
        file.sync_data().map_err(|e| failed(&path, e))
    }

    /// Bytes needed to write a block of an array.
    pub(super) fn block_bytes(grid: &SeedGrid, components: usize) -> u64 {
        let [block, chunk] = [grid.block(), grid.chunk()].map(|b| b.iter().product::<u64>());
        // The shard, and one chunk of it.
        (block + chunk) * 8 * components as u64 + 4096
    }

    /// Writes the values of a block: `value(component, [i, j, k])` in little-endian bytes, with seeds counted over the
    /// whole grid.
    pub(super) fn block(
        &mut self,
        array: &VolumeArray,
        block: &[Range<u64>; 3],
        value: &dyn Fn(usize, [u64; 3]) -> [u8; 8],
    ) -> Result<(), FieldError> {
        let (edges, chunk, dims) = (self.grid.block(), self.grid.chunk(), self.grid.dims());
        let per: [u64; 3] = core::array::from_fn(|a| edges[a] / chunk[a]);
        let first: [u64; 3] = core::array::from_fn(|a| block[a].start);
        let slots = per.iter().product::<u64>() as usize;
        let mut index = Vec::with_capacity(slots * ENTRY_BYTES + 4);
        let mut body = Vec::new();
        let start = (slots * ENTRY_BYTES + 4) as u64;
        let fill: [u8; 8] = if array.size == 8 { f64::NAN.to_le_bytes() } else { [u8::MAX; 8] };
        let mut encoder = Encoder::new(Codec::None, array.size).map_err(|e| failed(self.folder(), e))?;
        let mut page = Vec::with_capacity(chunk.iter().product::<u64>() as usize * array.components * array.size);
        let [px, py, pz] = per;
        for (ck, cj, ci) in (0..pz).flat_map(|k| (0..py).flat_map(move |j| (0..px).map(move |i| (k, j, i)))) {
            let low: [u64; 3] = core::array::from_fn(|a| first[a] + [ci, cj, ck][a] * chunk[a]);
            if (0..3).any(|a| low[a] >= dims[a]) {
                index.extend_from_slice(&ABSENT.to_le_bytes());
                index.extend_from_slice(&ABSENT.to_le_bytes());
                continue;
            }
            page.clear();
            for c in 0..array.components {
                for k in low[2]..low[2] + chunk[2] {
                    for j in low[1]..low[1] + chunk[1] {
                        for i in low[0]..low[0] + chunk[0] {
                            let inside = i < dims[0] && j < dims[1] && k < dims[2];
                            let v = if inside { value(c, [i, j, k]) } else { fill };
                            page.extend_from_slice(&v[..array.size]);
                        }
                    }
                }
            }
            let at = start + body.len() as u64;
            let len = encoder.encode(&page, &mut body).map_err(|e| failed(self.folder(), e))?;
            index.extend_from_slice(&at.to_le_bytes());
            index.extend_from_slice(&(len as u64).to_le_bytes());
        }
        let seal = crc32c::crc32c(&index);
        index.extend_from_slice(&seal.to_le_bytes());
        let [i, j, k]: [u64; 3] = core::array::from_fn(|a| first[a] / edges[a]);
        let lead = if array.components > 1 { "0/" } else { "" };
        self.write(&format!("{}/c/{lead}{k}/{j}/{i}", array.name), &[&index, &body])
    }

    fn document(&self, array: &VolumeArray) -> Value {
        let shape = |along: [u64; 3]| {
            let lead = (array.components > 1).then_some(array.components as u64);
            lead.into_iter().chain([along[2], along[1], along[0]]).collect::<Vec<u64>>()
        };
        let little = if array.size > 1 { json!({"endian": "little"}) } else { json!({}) };
        let names: Vec<&str> =
            (array.components > 1).then_some("component").into_iter().chain(["z", "y", "x"]).collect();
        json!({
            "zarr_format": 3, "node_type": "array", "shape": shape(self.grid.dims()),
            "data_type": if array.size == 8 { "float64" } else { "uint8" },
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape(self.grid.block())}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": if array.size == 8 { json!("NaN") } else { json!(u8::MAX) },
            "codecs": [{"name": "sharding_indexed", "configuration": {
                "chunk_shape": shape(self.grid.chunk()),
                "codecs": [{"name": "bytes", "configuration": little}, {"name": "crc32c"}],
                "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
                "index_location": "start"}}],
            "dimension_names": names, "attributes": array.attributes,
        })
    }

    /// The coordinates of an axis, in small chunks.
    fn axis(&mut self, axis: usize, unit: &str) -> Result<(String, Value), FieldError> {
        let name = ["x", "y", "z"][axis];
        let a = self.grid.axes[axis];
        let chunk = a.count.min(AXIS_CHUNK);
        for (n, from) in (0..a.count).step_by(chunk as usize).enumerate() {
            let mut bytes: Vec<u8> = Vec::with_capacity(chunk as usize * 8 + 4);
            for at in from..from + chunk {
                let v = if at < a.count { a.at(at) } else { f64::NAN };
                bytes.extend_from_slice(&v.to_le_bytes());
            }
            let seal = crc32c::crc32c(&bytes);
            bytes.extend_from_slice(&seal.to_le_bytes());
            self.write(&format!("{name}/c/{n}"), &[&bytes])?;
        }
        let document = json!({
            "zarr_format": 3, "node_type": "array", "shape": [a.count], "data_type": "float64",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [chunk]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": "NaN",
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            "dimension_names": [name],
            "attributes": {"axis": name.to_uppercase(), "units": unit, "long_name": format!("{name} of the seeds")},
        });
        Ok((name.to_owned(), document))
    }

    /// Writes documents and coordinates, and gives the volume its name. Returns its bytes.
    pub(super) fn finish(
        mut self,
        arrays: &[VolumeArray],
        length_unit: &str,
        attributes: Map<String, Value>,
    ) -> Result<u64, FieldError> {
        let mut documents = Map::new();
        for axis in 0..3 {
            let (name, document) = self.axis(axis, length_unit)?;
            documents.insert(name, document);
        }
        for array in arrays {
            documents.insert(array.name.clone(), self.document(array));
        }
        for (name, document) in &documents {
            self.write(&format!("{name}/zarr.json"), &[document.to_string().as_bytes()])?;
        }
        let root = json!({
            "zarr_format": 3, "node_type": "group", "attributes": attributes,
            "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": documents},
        });
        self.write("zarr.json", &[root.to_string().as_bytes()])?;
        let Some(folder) = self.folder.clone() else { return Ok(self.bytes) };
        let old = replaced(&folder);
        let there = self.overwrite && self.target.symlink_metadata().is_ok();
        if there {
            rename(&self.target, &old).map_err(|e| failed(&self.target, e))?;
        }
        if let Err(e) = rename(&folder, &self.target) {
            if there {
                // The old volume gets its name again.
                rename(&old, &self.target).map_err(|e| failed(&self.target, e))?;
            }
            return Err(failed(&self.target, e));
        }
        self.folder = None;
        if there {
            gone(&old)?;
        }
        Ok(self.bytes)
    }
}

/// Coordinates in one chunk.
const AXIS_CHUNK: u64 = 4096;

impl Drop for Volume {
    fn drop(&mut self) {
        if let Some(folder) = self.folder.take() {
            // A folder that cannot be removed stays.
            let _left = remove_dir_all(folder);
        }
    }
}
