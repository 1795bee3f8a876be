//! Figures: time to open, time and processor time of a hit.

use super::super::format::{file_name, FileKey, RecordRow, SegmentKind, SegmentName, HEADER, ROW, SEGMENT, TRAILER};
use super::super::CachedPlace;
use super::{flush, key, open, scrap, truth};
use crate::disk_cache::{DiskCache, DiskCacheOptions};
use pager::error::PageErrorKind;
use pager::place::mirror::Mirror;
use pager::place::{FilePin, FileRef, FileVersion, Place};
use pager::source::{Buffer, Completion, Read, ReadClass};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PAGE: usize = 32 << 10;

/// 160 full segments; their records are holes of sparse files, their indices are true.
#[test]
fn ten_gigabytes_open_in_no_time() {
    let folder = scrap("ten");
    let path = folder.0.join("cache");
    std::fs::create_dir(&path).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let each = (SEGMENT as usize - HEADER - TRAILER) / (PAGE + 40 + ROW);
    for n in 0..160u64 {
        let name = SegmentName { number: n + 1, born: n, kind: SegmentKind::Small };
        let mut options = std::fs::File::options();
        let file = options.write(true).create_new(true).mode(0o600).open(path.join(file_name(n + 1, true))).unwrap();
        let mut rows = Vec::new();
        for r in 0..each as u64 {
            let key = FileKey { version: 5, ..key(r % 3) };
            RecordRow {
                key,
                offset: (n << 32) + (r << 15),
                at: HEADER as u64 + r * (PAGE as u64 + 40),
                len: PAGE as u32,
            }
            .put(&mut rows);
        }
        let trailer = name.trailer(&rows);
        file.write_all_at(&name.header(), 0).unwrap();
        file.write_all_at(&rows, SEGMENT - (rows.len() + trailer.len()) as u64).unwrap();
        file.write_all_at(&trailer, SEGMENT - trailer.len() as u64).unwrap();
    }
    let mut best = Duration::MAX;
    for round in 0..4 {
        if round == 1 {
            println!("not in the page cache:");
            drop_pages(&path);
        }
        let start = Instant::now();
        let cache = open(&folder, DiskCacheOptions { bytes: 11 << 30, keep_free_percent: 0, ..Default::default() });
        best = best.min(start.elapsed());
        let records = cache.records();
        assert_eq!(records, 160 * each);
        let bytes = cache.index_bytes() as f64 / records as f64;
        println!("{records} records, open {:?}, {bytes:.1} bytes of memory a record", start.elapsed());
        assert!(bytes < 32.0);
    }
    assert!(best < Duration::from_millis(500), "{best:?}");
}

struct HitsTold(Mutex<Sender<bool>>);

impl Completion for HitsTold {
    fn complete(&self, _: u64, result: Result<(), PageErrorKind>) {
        self.0.lock().unwrap().send(result.is_ok()).unwrap();
    }
}

fn processor() -> Duration {
    // SAFETY: a plain structure of numbers.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `used` is writable.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut used) }, 0);
    let of = |t: libc::timeval| Duration::from_micros(t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64);
    of(used.ru_utime) + of(used.ru_stime)
}

fn drop_pages(folder: &Path) {
    for (path, _) in super::files(folder) {
        let file = std::fs::File::open(path).unwrap();
        file.sync_all().unwrap();
        // SAFETY: the descriptor is open.
        assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) }, 0);
    }
}

/// Reads all pages once, `depth` at a time. Returns the median time of a batch, and the processor time of a read.
fn reads(place: &dyn Place, file: &FileRef, pages: u64, depth: u64) -> (Duration, Duration) {
    let (tx, rx) = channel();
    let done: Arc<dyn Completion> = Arc::new(HitsTold(Mutex::new(tx)));
    let mut memory = vec![0u8; PAGE * depth as usize];
    let (used, mut times) = (processor(), Vec::new());
    for first in (0..pages).step_by(depth as usize) {
        let start = Instant::now();
        let reads = (0..depth).zip(memory.chunks_mut(PAGE)).map(|(n, bytes)| Read {
            token: n,
            offset: (((first + n) * 7919) % pages) << 15,
            buffers: vec![Buffer { ptr: bytes.as_mut_ptr(), len: PAGE }],
            class: ReadClass::Demand,
        });
        place.submit(file, reads.collect(), &done);
        (0..depth).for_each(|_| assert!(rx.recv().unwrap()));
        times.push(start.elapsed());
    }
    times.sort_unstable();
    (times[times.len() / 2], (processor() - used) / pages as u32)
}

#[test]
#[ignore = "a measurement"]
fn a_hit_takes() {
    let folder = scrap("hits");
    let cache = open(&folder, DiskCacheOptions { queue: 1 << 30, keep_free_percent: 0, ..Default::default() });
    let mirror = Mirror::register("figures", &folder.0);
    let place = CachedPlace::new(mirror, cache.clone(), true);
    let version = FileVersion { size: 1 << 40, tag: "t".into() };
    let path: &Path = Path::new("figures://host/a");
    let key = FileKey { file: DiskCache::file(&place.describe(), path), version: version.digest() };
    let (pages, start) = (6400u64, Instant::now());
    (0..pages).for_each(|n| cache.store(key, n << 15, truth(key, n << 15, PAGE)));
    flush(&cache);
    println!("stored {pages} records of 32 KiB in {:?} with making their bytes", start.elapsed());
    let file = FileRef { path: path.into(), base: 0, pin: Arc::new(FilePin::known(version)) };
    for (name, cold) in [("warm", false), ("cold", true), ("warm", false)] {
        for depth in [1, 32] {
            if cold {
                drop_pages(&folder.0.join("cache"));
            }
            let (time, cpu) = reads(&place, &file, pages, depth);
            println!("{name}, depth {depth}: {time:?} a batch, {cpu:?} of the processor a read");
        }
    }
    println!("{:?}", cache.counts());
}
