//! The files of a volume's pages, and their state.

use super::spec::{PlaceSpec, VolumeSpec};
use crate::error::FieldError;
use crate::file::{identities, Digest};
use pager::place;
use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Sources of pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeFiles {
    /// Files listed by name, each once.
    pub files: Vec<PathBuf>,
    /// Folders of chunks, one file each. Files may be millions, so they are walked, not listed.
    pub folders: Vec<PathBuf>,
}

impl VolumeFiles {
    /// The files of a volume.
    pub fn of(spec: &VolumeSpec) -> Self {
        let (mut files, mut folders) = (BTreeSet::new(), BTreeSet::new());
        for place in spec.levels.iter().flat_map(|l| &l.arrays).map(|a| &a.place) {
            match place {
                PlaceSpec::Contiguous { file, .. } => {
                    files.insert(PathBuf::from(file));
                }
                PlaceSpec::Planes { files: each, .. } | PlaceSpec::Table { files: each, .. } => {
                    files.extend(each.iter().map(PathBuf::from));
                }
                PlaceSpec::Keys { prefix, .. } | PlaceSpec::Shards { prefix, .. } => {
                    let folder = prefix.rfind('/').map_or(".", |at| &prefix[..at.max(1)]);
                    folders.insert(PathBuf::from(folder));
                }
            }
        }
        Self { files: files.into_iter().collect(), folders: folders.into_iter().collect() }
    }

    /// A digest that changes if a chunk in one of the folders changes, independent of their order. A missing folder is
    /// part of the digest. That of a remote folder is another one each time. `go_on` is called now and then, and returns whether to continue.
    ///
    /// # Errors
    /// [`FieldError::Io`], [`FieldError::Interrupted`].
    pub fn of_folders(&self, go_on: &mut dyn FnMut() -> bool) -> Result<Digest, FieldError> {
        let mut all = Digest::default();
        for folder in &self.folders {
            if place::is_remote(folder) {
                // A listing has no versions, or costs as many requests as there are chunks. So nothing is known again.
                let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64);
                all = all.text(&folder.to_string_lossy()).words(&[now, std::process::id().into()]);
                continue;
            }
            let mut sum = [0u64; 2];
            let mut open = vec![folder.clone()];
            let mut count = 0u64;
            while let Some(folder) = open.pop() {
                let entries = match std::fs::read_dir(&folder) {
                    // Chunks that were never written need no folder.
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                    entries => entries.map_err(|e| FieldError::io(&folder, e))?,
                };
                for entry in entries {
                    let entry = entry.map_err(|e| FieldError::io(&folder, e))?;
                    count += 1;
                    if count.is_multiple_of(1024) && !go_on() {
                        return Err(FieldError::Interrupted);
                    }
                    let path = entry.path();
                    match std::fs::metadata(&path) {
                        Ok(m) if m.is_dir() => open.push(path),
                        Ok(m) => {
                            let one = of_file(&path, &m);
                            sum = [sum[0].wrapping_add(one[0]), sum[1].wrapping_add(one[1])];
                        }
                        // The file has vanished, or is a link to nothing; reading it reports that.
                        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                        Err(e) => return Err(FieldError::io(path, e)),
                    }
                }
            }
            all = all.text(&folder.to_string_lossy()).words(&[count, sum[0], sum[1]]);
        }
        Ok(all)
    }

    /// The state of all files of a volume and of the way to read them, as the key of its cache entries.
    ///
    /// # Errors
    /// As [`Self::of_folders`].
    pub fn state(
        &self,
        spec: &VolumeSpec,
        tables: &[Vec<u8>],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Digest, FieldError> {
        let mut digest = Digest::default().text("ranges 1");
        // Names, colours and places in space do not affect ranges.
        for (n, level) in spec.levels.iter().enumerate() {
            digest = digest.text(&format!("\0{n} {:?} {}", level.dims, spec.times.len()));
            for array in &level.arrays {
                let said = (&array.dtype, array.big_endian, &array.shape, &array.axes, &array.chunk, &array.order);
                let read = (&array.channels, array.fill, &array.codecs);
                digest = digest.text(&format!("\0{said:?}{read:?}")).text(&of_place(&array.place));
            }
        }
        let crcs: Vec<u64> = tables.iter().map(|t| u64::from(crc32c::crc32c(t)) << 32 | t.len() as u64).collect();
        digest = digest.words(&crcs);
        digest = identities(&self.files)?.iter().fold(digest, Digest::state);
        Ok(digest.text(&self.of_folders(go_on)?.to_string()))
    }
}

/// The contents of a place except the names of its files.
fn of_place(place: &PlaceSpec) -> String {
    match place {
        PlaceSpec::Contiguous { offset, .. } => format!("contiguous {offset}"),
        PlaceSpec::Planes { offset, offsets, .. } => format!("planes {offset} {offsets:?}"),
        PlaceSpec::Table { files, table } => format!("table {table} {}", files.len()),
        PlaceSpec::Keys { prefix, separator } => format!("keys {prefix} {separator}"),
        PlaceSpec::Shards { prefix, separator, shard, index_crc32c, index_at_end, root: _ } => {
            format!("shards {prefix} {separator} {shard:?} {index_crc32c} {index_at_end}")
        }
    }
}

fn of_file(path: &Path, about: &Metadata) -> [u64; 2] {
    let text = path.to_string_lossy();
    let numbers = [
        about.len(),
        about.mtime() as u64,
        about.mtime_nsec() as u64,
        about.ctime() as u64,
        about.ctime_nsec() as u64,
        about.ino(),
    ];
    Digest::default().text(&text).words(&numbers).halves()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_folders_count_in_any_order() {
        let dir = std::env::temp_dir().join(format!("ff-volume-state-{}", std::process::id()));
        let _gone = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("c/0")).unwrap();
        for n in 0..20 {
            std::fs::write(dir.join(format!("c/0/{n}")), [n]).unwrap();
        }
        let of = VolumeFiles { files: Vec::new(), folders: vec![dir.join("c"), dir.join("none")] };
        let before = of.of_folders(&mut || true).unwrap();
        assert_eq!(of.of_folders(&mut || true).unwrap(), before);
        std::fs::write(dir.join("c/0/7"), [8]).unwrap();
        let after = of.of_folders(&mut || true).unwrap();
        assert_ne!(after, before, "a chunk of the same size");
        std::fs::remove_file(dir.join("c/0/3")).unwrap();
        assert_ne!(of.of_folders(&mut || true).unwrap(), after, "a chunk less");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
