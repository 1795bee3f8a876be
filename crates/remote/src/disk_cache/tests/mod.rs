//! Tests of the disk cache. `FARFIELD_CASES` multiplies the random ones.

mod crash;
mod damage;
mod figures;
mod limits;
mod parts;
mod places;
mod runs;

use super::format::FileKey;
use super::{DiskCache, DiskCacheOptions};
use pager::source::Buffer;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A folder that is removed.
pub struct Scrap(pub PathBuf);

impl Drop for Scrap {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

pub fn scrap(name: &str) -> Scrap {
    let path = std::env::temp_dir().join(format!("farfield-disk-cache-{name}-{}", std::process::id()));
    let _left = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    Scrap(path)
}

/// Numbers that differ from seed to seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n.max(1)
    }
}

pub fn cases(few: u64) -> u64 {
    std::env::var("FARFIELD_CASES").ok().and_then(|n| n.parse::<u64>().ok()).map_or(few, |n| few.max(n))
}

/// A small cache, with segments of 256 KiB.
pub fn small() -> DiskCacheOptions {
    DiskCacheOptions { bytes: 4 << 20, segment: 256 << 10, keep_free_percent: 0, ..DiskCacheOptions::default() }
}

/// The bytes of a file at a place.
pub fn truth(key: FileKey, offset: u64, len: usize) -> Vec<u8> {
    let seed = key.file ^ key.version.rotate_left(32);
    (offset..offset + len as u64).map(|at| ((seed ^ at).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 51) as u8).collect()
}

pub fn key(n: u64) -> FileKey {
    FileKey { file: (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15), version: (n + 7).wrapping_mul(0xD6E8_FEB8_6659_FD93) }
}

/// The bytes that the cache has there.
pub fn get(cache: &DiskCache, key: FileKey, offset: u64, len: usize) -> Option<Vec<u8>> {
    let pieces = cache.plan(key, &[(offset, offset + len as u64)])?;
    let mut bytes = vec![0xAA; len];
    let buffers = [Buffer { ptr: bytes.as_mut_ptr(), len }];
    // SAFETY: `bytes` lives until the call returns.
    unsafe { cache.fill(key, (offset, &buffers), &pieces, &mut Vec::new()) }.then_some(bytes)
}

pub fn put(cache: &DiskCache, key: FileKey, offset: u64, len: usize) {
    cache.store(key, offset, truth(key, offset, len));
}

pub fn flush(cache: &DiskCache) {
    assert!(cache.flush(Duration::from_secs(60)));
}

/// All files of a folder, by name.
pub fn files(folder: &Path) -> Vec<(PathBuf, u64)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap());
    // Another process may remove a file or name it anew meanwhile.
    let mut found: Vec<_> = entries.filter_map(|e| Some((e.path(), e.metadata().ok()?.len()))).collect();
    found.sort();
    found
}

pub fn size(folder: &Path) -> u64 {
    files(folder).iter().map(|(_, bytes)| bytes).sum()
}

pub fn open(folder: &Scrap, options: DiskCacheOptions) -> Arc<DiskCache> {
    DiskCache::open(&folder.0.join("cache"), options)
}
