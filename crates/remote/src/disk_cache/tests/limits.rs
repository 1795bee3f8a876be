//! Limits of bytes, of the disk, of memory, and what stays within them.

use super::{files, flush, get, key, open, put, scrap, size, small, truth};
use crate::disk_cache::{info, DiskCache, DiskCacheOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PAGE: usize = 16 << 10;

fn page(cache: &DiskCache, n: u64) -> bool {
    let (file, offset) = (key(n % 7), n * PAGE as u64);
    let got = get(cache, file, offset, PAGE);
    assert!(got.as_ref().is_none_or(|bytes| *bytes == truth(file, offset, PAGE)));
    got.is_some()
}

fn store(cache: &DiskCache, n: u64) {
    put(cache, key(n % 7), n * PAGE as u64, PAGE);
    flush(cache);
}

#[test]
fn the_limit_holds_also_over_restarts() {
    let folder = scrap("cap");
    let path = folder.0.join("cache");
    let mut n = 0;
    for run in 0..5 {
        let cache = open(&folder, small());
        for _ in 0..200 {
            store(&cache, n);
            n += 1;
            let bytes = size(&path);
            assert!(bytes <= small().bytes + small().segment, "run {run}: {bytes}");
        }
        assert!((n - 50..n).filter(|n| page(&cache, *n)).count() == 50, "the newest are there");
        drop(cache);
        let info = info(&path).unwrap();
        assert_eq!(info.bytes, size(&path));
        assert!(info.bytes > small().bytes / 2 || run == 0, "{info:?}");
    }
    let less = DiskCacheOptions { bytes: 1 << 20, ..small() };
    drop(open(&folder, less));
    assert!(size(&path) <= 1 << 20, "{}", size(&path));
    // Another limit of 0: nothing more is stored, and nothing is lost in memory.
    let none = open(&folder, DiskCacheOptions { bytes: 0, ..small() });
    store(&none, n);
    assert!(!page(&none, n) && none.take_notice().is_none());
}

/// A process that ends without closing its cache leaves a segment that nobody writes.
#[test]
fn what_ended_processes_left_is_read_without_storing() {
    let folder = scrap("left");
    let cache = open(&folder, small());
    store(&cache, 1);
    let (from, to) = (folder.0.join("cache"), folder.0.join("copy"));
    std::fs::create_dir(&to).unwrap();
    std::fs::set_permissions(&to, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    for (path, _) in files(&from) {
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
    let reading = DiskCache::open(&to, DiskCacheOptions { bytes: 0, ..small() });
    assert!(page(&reading, 1) && reading.take_notice().is_none());
    assert!(files(&to).iter().any(|(path, _)| path.extension().is_some_and(|e| e == "open")), "it is as it was");
    drop(reading);
    assert!(page(&DiskCache::open(&to, small()), 1));
    assert!(!files(&to).iter().any(|(path, _)| path.extension().is_some_and(|e| e == "open")));
}

#[test]
fn short_runs_leave_few_segments() {
    let folder = scrap("short");
    let first = open(&folder, small());
    store(&first, 0);
    drop(first);
    let watching = open(&folder, small());
    assert!(page(&watching, 0));
    for n in 1..60 {
        let cache = open(&folder, small());
        store(&cache, n);
        assert!((0..=n).all(|n| page(&cache, n)), "run {n}");
        assert!(page(&watching, 0), "what others have open stays readable");
    }
    let info = info(&folder.0.join("cache")).unwrap();
    assert!(info.segments <= 8 && info.records == 60, "{info:?}");
    // Two at the same time have two.
    let (a, b) = (open(&folder, small()), open(&folder, small()));
    store(&a, 100);
    store(&b, 101);
    assert!(page(&a, 100) && page(&b, 101));
    drop((a, b, watching));
    let all = open(&folder, small());
    assert!((0..60).all(|n| page(&all, n)) && page(&all, 100) && page(&all, 101));
    assert_eq!((all.take_notice(), all.counts().faults), (None, 0));
}

#[test]
fn what_is_used_outlives_what_passes_by() {
    let folder = scrap("hot");
    let cache = open(&folder, small());
    // Three quarters of the limit pass by again and again, beside 40 pages that are used.
    let hot: Vec<u64> = (0..40).collect();
    let (mut hits, mut asked) = (0, 0);
    for n in 0..1500u64 {
        store(&cache, 1000 + n);
        let one = hot[(n % 40) as usize];
        if n > 400 {
            asked += 1;
        }
        if page(&cache, one) {
            hits += u64::from(n > 400);
        } else {
            store(&cache, one);
        }
    }
    println!("{hits} of {asked}");
    assert!(hits * 100 >= asked * 95, "{hits} of {asked}");
    let counts = cache.counts();
    assert!(counts.evicted > 50 && counts.dropped == 0, "{counts:?}");
}

#[test]
fn a_full_queue_drops_and_never_waits() {
    let folder = scrap("queue");
    let cache = open(&folder, DiskCacheOptions { queue: 40 << 10, ..small() });
    let bytes = truth(key(0), 0, PAGE);
    let start = Instant::now();
    for n in 0..2000 {
        cache.store(key(0), n * PAGE as u64, bytes.clone());
    }
    let took = start.elapsed();
    flush(&cache);
    let counts = cache.counts();
    assert!(counts.dropped > 0 && counts.stored > 0 && counts.dropped + counts.stored == 2000, "{counts:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(!cache.wants(41 << 10));
}

#[test]
fn the_last_of_the_disk_stays_free() {
    let folder = scrap("free");
    let cache = open(&folder, DiskCacheOptions { keep_free_percent: 100, ..small() });
    store(&cache, 0);
    let notice = cache.take_notice().unwrap();
    assert!(notice.contains("too full"), "{notice}");
    assert!(!page(&cache, 0) && cache.take_notice().is_none());
    assert_eq!(files(&folder.0.join("cache")).iter().filter(|(_, bytes)| *bytes > 0).count(), 0);
}

#[test]
fn segments_of_others_are_found_while_it_is_open() {
    let folder = scrap("others");
    let (mine, theirs) = (open(&folder, small()), open(&folder, small()));
    store(&theirs, 3);
    assert!(!page(&mine, 3));
    drop(theirs);
    std::thread::sleep(Duration::from_millis(1100));
    let end = Instant::now() + Duration::from_secs(10);
    while !page(&mine, 3) {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A file system in memory, where this process may have one.
struct Mount(std::ffi::CString);

impl Mount {
    fn new(at: &Path, data: &str) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let path = std::ffi::CString::new(at.to_str().unwrap()).unwrap();
        let data = std::ffi::CString::new(data).unwrap();
        // SAFETY: all texts end with a zero.
        let made = unsafe { libc::mount(c"tmpfs".as_ptr(), path.as_ptr(), c"tmpfs".as_ptr(), 0, data.as_ptr().cast()) };
        (made == 0).then_some(Self(path))
    }

    fn read_only(&self) {
        let flags = libc::MS_REMOUNT | libc::MS_RDONLY;
        // SAFETY: as above.
        let set = unsafe { libc::mount(std::ptr::null(), self.0.as_ptr(), std::ptr::null(), flags, std::ptr::null()) };
        assert_eq!(set, 0);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::umount2(self.0.as_ptr(), libc::MNT_DETACH) };
    }
}

#[test]
fn a_full_disk_is_a_miss() {
    let folder = scrap("enospc");
    let Some(_mount) = Mount::new(&folder.0.join("cache"), "size=900k,mode=700") else {
        println!("no file system can be mounted here");
        return;
    };
    for round in 0..3 {
        let cache = open(&folder, small());
        (0..3).for_each(|n| store(&cache, round * 10 + n));
        // Another program takes what is left.
        let filler = folder.0.join("cache/filler");
        let mut size = 0;
        while std::fs::write(&filler, vec![1; size]).is_ok() {
            size += 4096;
        }
        (3..9).for_each(|n| store(&cache, round * 10 + n));
        let there = |cache: &DiskCache| (0..9).filter(|n| page(cache, round * 10 + *n)).count();
        assert!((3..9).contains(&there(&cache)), "{}", there(&cache));
        assert!(cache.counts().dropped > 0 && cache.counts().faults == 0);
        let notice = cache.take_notice().unwrap();
        assert!(notice.contains("cannot be written") && cache.take_notice().is_none(), "{notice}");
        drop(cache);
        assert!(there(&open(&folder, small())) >= 3, "also after a restart");
        std::fs::remove_file(filler).unwrap();
    }
    // Five percent of it stay free, with which it never fills.
    let careful = open(&folder, DiskCacheOptions { keep_free_percent: 5, ..small() });
    (200..400).for_each(|n| store(&careful, n));
    assert!((380..400).all(|n| page(&careful, n)), "old segments made room");
    assert_eq!(careful.take_notice(), None);
}

#[test]
fn a_folder_that_cannot_be_written_is_read() {
    let folder = scrap("read-only");
    let path = folder.0.join("cache");
    let mount = Mount::new(&path, "size=8m,mode=700");
    let kept: Arc<DiskCache> = open(&folder, small());
    store(&kept, 1);
    drop(kept);
    match &mount {
        Some(mount) => mount.read_only(),
        None => std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o500)).unwrap(),
    }
    let cache = open(&folder, small());
    if mount.is_some() || files(&path).iter().all(|(p, _)| std::fs::File::options().write(true).open(p).is_err()) {
        store(&cache, 2);
        assert!(page(&cache, 1) && !page(&cache, 2));
        let notice = cache.take_notice().unwrap();
        assert!(notice.contains("cannot be written"), "{notice}");
        assert_eq!(cache.take_notice(), None);
    }
    drop(cache);
    if mount.is_none() {
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    }
}
