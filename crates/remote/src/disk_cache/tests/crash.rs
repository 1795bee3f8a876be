//! Processes that are killed while they write, and processes at the same time.

use super::{cases, flush, get, key, open, put, scrap, size, small, truth, Dice, Scrap};
use crate::disk_cache::DiskCache;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The folder of a child; without it the child's test is none.
const CHILD: &str = "FARFIELD_CACHE_CHILD";
const SEED: &str = "FARFIELD_CACHE_SEED";
const LIMIT: &str = "FARFIELD_CACHE_FILE_LIMIT";
const FILES: u64 = 20;
const PAGES: u64 = 40;

fn child(folder: &Scrap, seed: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "disk_cache::tests::crash::a_child_that_writes", "--nocapture"]);
    command.env(CHILD, &folder.0).env(SEED, seed.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A child that writes until it is killed, from the moment on at which this returns.
fn writing(folder: &Scrap, seed: u64) -> Child {
    let started = folder.0.join(format!("started-{seed}"));
    let child = child(folder, seed).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while !started.exists() {
        assert!(Instant::now() < end, "the child did not start");
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

fn write(cache: &DiskCache, dice: &mut Dice) {
    let (file, page) = (key(dice.below(FILES)), dice.below(PAGES) * 4096);
    put(cache, file, page, 1 + dice.below(30_000) as usize);
    if dice.below(3) == 0 {
        flush(cache);
    }
}

#[test]
fn a_child_that_writes() {
    let (Some(folder), Ok(seed)) = (std::env::var_os(CHILD), std::env::var(SEED)) else { return };
    let seed: u64 = seed.parse().unwrap();
    if let Ok(limit) = std::env::var(LIMIT) {
        let limit = libc::rlimit { rlim_cur: limit.parse().unwrap(), rlim_max: limit.parse().unwrap() };
        // SAFETY: calls with valid arguments, which change this process only.
        let set = unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            libc::setrlimit(libc::RLIMIT_FSIZE, &limit)
        };
        assert_eq!(set, 0);
    }
    let cache = DiskCache::open(&Path::new(&folder).join("cache"), small());
    std::fs::write(Path::new(&folder).join(format!("started-{seed}")), "").unwrap();
    let mut dice = Dice(seed + 1);
    if std::env::var_os(LIMIT).is_none() {
        loop {
            write(&cache, &mut dice);
        }
    }
    for _ in 0..60 {
        write(&cache, &mut dice);
        flush(&cache);
        sound(&cache);
    }
    let notice = cache.take_notice().unwrap();
    assert!(notice.contains("cannot be written") && cache.take_notice().is_none(), "{notice}");
    assert!(sound(&cache) > 0 && cache.counts().dropped > 0 && cache.counts().faults == 0);
}

/// Records that are there, all with true bytes.
fn sound(cache: &Arc<DiskCache>) -> u64 {
    let mut found = 0;
    for (file, page) in (0..FILES).flat_map(|file| (0..PAGES).map(move |page| (key(file), page * 4096))) {
        for len in [1, 5000] {
            if let Some(bytes) = get(cache, file, page, len) {
                assert!(bytes == truth(file, page, len), "a wrong byte");
                found += 1;
            }
        }
    }
    found
}

fn within_limit(folder: &Scrap) {
    let (bytes, most) = (size(&folder.0.join("cache")), small().bytes + small().segment);
    assert!(bytes <= most, "{bytes} bytes of at most {most}");
}

#[test]
fn killed_writers_leave_no_wrong_byte() {
    let folder = scrap("killed");
    let (mut dice, mut found) = (Dice(77), 0);
    for seed in 0..cases(20) {
        let mut child = writing(&folder, seed);
        std::thread::sleep(Duration::from_micros(dice.below(30_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        within_limit(&folder);
        let cache = open(&folder, small());
        found = sound(&cache);
        assert_eq!((cache.counts().faults, cache.take_notice()), (0, None));
        assert!(!super::files(&folder.0.join("cache")).iter().any(|(p, _)| p.extension().is_some_and(|e| e == "open")));
        drop(cache);
        within_limit(&folder);
    }
    assert!(found > 300, "{found}");
}

#[test]
fn processes_share_a_folder() {
    let folder = scrap("shared");
    let mut children = [writing(&folder, 1), writing(&folder, 2)];
    let cache = open(&folder, small());
    let (mut dice, start) = (Dice(9), Instant::now());
    let mut shared = 0;
    // Longer on a machine that is busy.
    while start.elapsed() < Duration::from_millis(700) || (shared <= 100 && start.elapsed() < Duration::from_secs(15)) {
        write(&cache, &mut dice);
        within_limit(&folder);
        shared = shared.max(sound(&cache));
    }
    let cleared = crate::disk_cache::clear(&folder.0.join("cache")).unwrap();
    assert!(cleared.growing >= 1, "what is written is not removed: {cleared:?}");
    std::thread::sleep(Duration::from_millis(50));
    sound(&cache);
    for child in &mut children {
        assert!(child.try_wait().unwrap().is_none(), "it works until it is killed");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let counts = cache.counts();
    assert!(shared > 100 && counts.stored > 0, "{shared} {counts:?}");
    drop(cache);
    let cache = open(&folder, small());
    sound(&cache);
    within_limit(&folder);
}

#[test]
fn a_limit_of_file_sizes_is_a_full_disk() {
    let folder = scrap("rlimit");
    let done = child(&folder, 5).env(LIMIT, "100000").stderr(Stdio::inherit()).status().unwrap();
    assert!(done.success(), "{done}");
    assert!(super::files(&folder.0.join("cache")).iter().all(|(_, bytes)| *bytes <= 100_000));
    assert!(sound(&open(&folder, small())) > 0);
}
