//! Files that are not as they were written: a miss, and never a wrong byte.

use super::super::{clear, info};
use super::{files, flush, get, key, open, put, scrap, size, small, truth, Dice, Scrap};
use crate::disk_cache::DiskCache;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::sync::Arc;

/// A cache of 40 records of some KiB, closed.
fn filled(folder: &Scrap) {
    let cache = open(folder, small());
    (0..40u64).for_each(|n| put(&cache, key(n % 4), n * 10_000, 3000 + n as usize));
    flush(&cache);
    assert_eq!((cache.counts().stored, cache.take_notice()), (40, None));
}

/// Records with their true bytes; the others are misses.
fn sound(cache: &Arc<DiskCache>) -> u64 {
    let mut found = 0;
    for n in 0..40u64 {
        let len = 3000 + n as usize;
        if let Some(bytes) = get(cache, key(n % 4), n * 10_000, len) {
            assert!(bytes == truth(key(n % 4), n * 10_000, len), "record {n}");
            found += 1;
        }
        if let Some(bytes) = get(cache, key(n % 4), n * 10_000 + 100, 500) {
            assert!(bytes == truth(key(n % 4), n * 10_000 + 100, 500), "part of record {n}");
        }
    }
    found
}

#[test]
fn no_flipped_bit_is_given_out() {
    let folder = scrap("flips");
    filled(&folder);
    let cache = folder.0.join("cache");
    let (path, bytes) = files(&cache).into_iter().max_by_key(|(_, bytes)| *bytes).unwrap();
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let mut dice = Dice(11);
    // The ends in full measure, where header, index and trailer are.
    for round in 0..1000u64 {
        let at = match round % 4 {
            0 => dice.below(72),
            1 => bytes - 1 - dice.below(40 * 32 + 40),
            _ => dice.below(bytes),
        };
        let mut old = [0];
        file.read_exact_at(&mut old, at).unwrap();
        file.write_all_at(&[old[0] ^ 1 << dice.below(8)], at).unwrap();
        let opened = open(&folder, small());
        let found = sound(&opened);
        assert!(found >= 39 || (at < 32 && found > 0), "byte {at}: {found} records");
        assert!(opened.take_notice().is_none() || opened.take_notice().is_none(), "said once");
        drop(opened);
        file.write_all_at(&old, at).unwrap();
    }
    // While it is open.
    let opened = open(&folder, small());
    for _ in 0..200 {
        let at = dice.below(bytes);
        let mut old = [0];
        file.read_exact_at(&mut old, at).unwrap();
        file.write_all_at(&[old[0] ^ 1 << dice.below(8)], at).unwrap();
        sound(&opened);
        file.write_all_at(&old, at).unwrap();
    }
    assert!(opened.counts().faults > 20);
    drop(opened);
    assert_eq!(sound(&open(&folder, small())), 40);
}

#[test]
fn what_is_cut_off_is_missed() {
    let folder = scrap("cuts");
    filled(&folder);
    let (path, bytes) = files(&folder.0.join("cache")).into_iter().max_by_key(|(_, bytes)| *bytes).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let mut dice = Dice(5);
    for round in 0..120 {
        let len = if round < 60 { round } else { dice.below(bytes) };
        std::fs::write(&path, &whole[..len as usize]).unwrap();
        let found = sound(&open(&folder, small()));
        assert!(found >= (len / 3200).saturating_sub(1).min(40), "{len} bytes: {found}");
    }
    std::fs::write(&path, &whole).unwrap();
    // While it is open.
    let opened = open(&folder, small());
    std::fs::File::options().write(true).open(&path).unwrap().set_len(bytes / 2).unwrap();
    let found = sound(&opened);
    assert!((15..=25).contains(&found), "{found}");
    let notice = opened.take_notice().unwrap();
    assert!(notice.contains("comes from the server") || notice.contains("come from the server"), "{notice}");
    assert_eq!(opened.take_notice(), None);
}

#[test]
fn a_segment_that_another_process_removed_is_a_miss() {
    let folder = scrap("removed");
    filled(&folder);
    let opened = open(&folder, small());
    files(&folder.0.join("cache")).iter().for_each(|(path, _)| std::fs::remove_file(path).unwrap());
    assert_eq!((sound(&opened), opened.take_notice()), (0, None));
    put(&opened, key(0), 0, 3000);
    flush(&opened);
    assert!(sound(&opened) == 1);
}

/// Also the segment that it writes, and what it has open.
#[test]
fn a_folder_that_is_cleared_by_hand_is_filled_again() {
    let folder = scrap("cleared");
    filled(&folder);
    let opened = open(&folder, small());
    // The next run does not go on with a segment that is more than half full.
    (0..3).for_each(|n| put(&opened, key(7), n * 30_000, 30_000));
    drop(opened);
    let opened = open(&folder, small());
    put(&opened, key(9), 0, 3000);
    flush(&opened);
    assert!(sound(&opened) == 40 && get(&opened, key(9), 0, 3000).is_some());
    assert_eq!(clear(&folder.0.join("cache")).unwrap().growing, 1);
    assert_eq!((sound(&opened), opened.take_notice(), opened.counts().faults), (0, None, 0));
    assert!(get(&opened, key(9), 0, 3000).is_some());
    files(&folder.0.join("cache")).iter().for_each(|(path, _)| std::fs::remove_file(path).unwrap());
    // Enough for another segment, whose creation looks at the folder.
    for n in 0..20 {
        put(&opened, key(8), n * 30_000, 30_000);
        flush(&opened);
    }
    assert!((15..20).all(|n| get(&opened, key(8), n * 30_000, 30_000).is_some()));
    assert_eq!((opened.take_notice(), opened.counts().faults), (None, 0));
}

#[test]
fn foreign_files_stay() {
    let folder = scrap("foreign");
    let cache = folder.0.join("cache");
    std::fs::create_dir_all(cache.join("farfield-00000000000000aa.seg")).unwrap();
    let foreign = ["a.seg", "farfield-1.seg", "farfield-0000000000000001.seg", "farfield-0000000000000002.open", "x"];
    foreign.iter().for_each(|name| std::fs::write(cache.join(name), "not ours, and long enough for a header").unwrap());
    std::os::unix::fs::symlink("/etc/passwd", cache.join("farfield-0000000000000003.seg")).unwrap();
    // A copy under another number is not ours either.
    filled(&folder);
    let (path, _) = files(&cache).into_iter().max_by_key(|(_, bytes)| *bytes).unwrap();
    std::fs::copy(&path, cache.join("farfield-0000000000000004.seg")).unwrap();
    let opened = open(&folder, small());
    for n in 0..600u64 {
        put(&opened, key(9), n * 32_768, 32_768);
        flush(&opened);
    }
    assert!(opened.counts().evicted > 10);
    drop(opened);
    let cleared = clear(&cache).unwrap();
    assert!(cleared.segments > 5 && cleared.growing == 0, "{cleared:?}");
    assert_eq!(info(&cache).unwrap().segments, 0);
    let left: Vec<_> = files(&cache).into_iter().map(|(p, _)| p.file_name().unwrap().to_owned()).collect();
    assert_eq!(left.len(), foreign.len() + 4, "{left:?}");
    for name in foreign {
        assert_eq!(std::fs::read(cache.join(name)).unwrap(), b"not ours, and long enough for a header");
    }
}

#[test]
fn folders_that_cannot_be_used_are_misses() {
    let folder = scrap("unusable");
    for (name, message) in [("file", "no folder"), ("shared", "other users"), ("file/below", "Not a directory")] {
        let path = folder.0.join(name);
        if name == "file" {
            std::fs::write(&path, "x").unwrap();
        } else if name == "shared" {
            std::fs::create_dir(&path).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
        }
        let cache = DiskCache::open(&path, small());
        put(&cache, key(0), 0, 100);
        flush(&cache);
        assert_eq!(get(&cache, key(0), 0, 100), None);
        let notice = cache.take_notice().unwrap();
        assert!(notice.contains(message), "{notice}");
        assert_eq!(cache.take_notice(), None);
    }
    let made = open(&folder, small());
    put(&made, key(0), 0, 100);
    flush(&made);
    drop(made);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let cache = folder.0.join("cache");
    assert_eq!(mode(&cache), 0o700);
    assert!(size(&cache) > 100 && files(&cache).iter().all(|(path, _)| mode(path) == 0o600));
}
