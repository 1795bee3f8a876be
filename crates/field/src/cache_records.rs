//! Records of cache entries: their sources and their last use.
//!
//! The record of `data/NAME` is `data/.records/NAME.json`, `{"sources": [[PATH, BYTES, NANOSECONDS]]}`; its
//! modification time is that of the last use. `farfield.cache` in Python keeps the cache within its size. It removes
//! entries of changed sources first, and then the least recently used.

use crate::file::FileIdentity;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Path of an entry's record.
pub fn record_of(entry: &Path) -> Option<PathBuf> {
    let name = entry.file_name()?.to_str()?;
    Some(entry.parent()?.join(".records").join(format!("{name}.json")))
}

/// Records a use of an entry, and its sources. Without a record, an entry is as old as its own file, so a failed write
/// loses nothing.
pub fn note_use(entry: &Path, sources: &[FileIdentity]) {
    let Some(record) = record_of(entry) else { return };
    let each = |s: &FileIdentity| {
        let (bytes, changed) = s.size_and_time();
        json!([s.path().to_string_lossy(), bytes, i64::try_from(changed).unwrap_or(i64::MAX)])
    };
    let text = json!({"sources": sources.iter().map(each).collect::<Vec<_>>()}).to_string();
    if fs::read_to_string(&record).is_ok_and(|known| known == text) {
        let touched = fs::File::options().write(true).open(&record);
        if touched.is_ok_and(|file| file.set_modified(SystemTime::now()).is_ok()) {
            return;
        }
    }
    let _not_noted = record.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&record, text));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::identities;

    #[test]
    fn a_record_names_the_files_and_is_as_young_as_the_last_use() {
        let folder = std::env::temp_dir().join(format!("farfield-kept-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (source, entry) = (folder.join("grid.xyz"), folder.join("grid.bin"));
        fs::write(&source, "12345").unwrap();
        let known = identities(&[source]).unwrap();
        note_use(&entry, &known);
        let record = record_of(&entry).unwrap();
        let found: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
        assert_eq!(found["sources"][0][0], known[0].path().to_str().unwrap());
        assert_eq!(found["sources"][0][1], 5);
        let old = SystemTime::UNIX_EPOCH;
        fs::File::options().write(true).open(&record).unwrap().set_modified(old).unwrap();
        note_use(&entry, &known);
        assert!(fs::metadata(&record).unwrap().modified().unwrap() > old);
        fs::remove_dir_all(&folder).unwrap();
    }
}
