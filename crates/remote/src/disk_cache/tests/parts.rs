use super::super::choice::{ByteOrigin, OriginChoice};
use super::super::format::{FileKey, RecordHead, RecordRow, SegmentKind, SegmentName, HEADER};
use super::super::ghost::GhostTable;
use super::super::index::{CacheIndex, IndexEntry};
use super::super::notes::NameNote;
use super::{cases, key, Dice};
use pager::place::{Entry, FileKind, FileStat, FileVersion};
use std::collections::BTreeMap;
use std::time::Duration;

#[test]
fn heads_and_rows_are_what_was_written_or_nothing() {
    let name = SegmentName { number: 77, born: 5, kind: SegmentKind::Main };
    assert_eq!(SegmentName::from_header(&name.header()), Some(name));
    let head = RecordHead { key: key(1), offset: 1 << 40, len: 4096, sum: 9 };
    let bytes = head.bytes(&name);
    assert_eq!(RecordHead::parse(&name, &bytes), Some(head));
    assert_eq!(RecordHead::parse(&SegmentName { number: 78, ..name }, &bytes), None, "of another segment");
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(RecordHead::parse(&name, &bad), None, "bit {bit}");
    }
    let (mut rows, row) = (Vec::new(), RecordRow { key: key(2), offset: 3, at: HEADER as u64, len: 100 });
    row.put(&mut rows);
    assert_eq!(RecordRow::parse(&rows, 1000), Some(row));
    assert_eq!(RecordRow::parse(&rows, 100), None, "beyond the end");
    let trailer = name.trailer(&rows);
    assert_eq!(SegmentName::from_trailer(&trailer), Some((name, 1, name.sum(&rows))));
}

/// The index gives what a plain map of bytes gives.
#[test]
fn the_index_finds_what_covers_a_range() {
    let mut dice = Dice(3);
    for round in 0..cases(6) {
        let (mut index, mut plain) = (CacheIndex::default(), BTreeMap::<(u64, u64), (u16, u32)>::new());
        for n in 0..3000u64 {
            let (file, offset) = (dice.below(3), dice.below(200) * 1000);
            let (slot, len) = (dice.below(9) as u16, 1 + dice.below(5000) as u32);
            let longer = plain.get(&(file, offset)).is_some_and(|(_, known)| *known > len);
            assert_eq!(index.insert(IndexEntry::new(key(file), offset, slot, n * 8, len)), !longer);
            if !longer {
                plain.insert((file, offset), (slot, len));
            }
            if n % 500 == 499 {
                index.remove_slot(n as u16 / 500);
                plain.retain(|_, (slot, _)| *slot != n as u16 / 500);
            }
            assert_eq!(index.len(), plain.len());
            let (file, from) = (dice.below(3), dice.below(200_000));
            let to = from + 1 + dice.below(9000);
            let has = |at: u64| plain.range(..=(file, at)).rev().take_while(|((f, _), _)| *f == file);
            let has = |at: u64| has(at).any(|((_, o), (_, len))| o + u64::from(*len) > at);
            match index.cover(key(file), from, to, 64) {
                Some(entries) => {
                    let mut at = from;
                    for e in entries {
                        assert!(e.offset <= at && e.end() > at);
                        let known = plain[&(file, e.offset)];
                        assert_eq!((e.slot(), e.len()), known);
                        at = e.end();
                    }
                    assert!(at >= to);
                }
                None => assert!((from..to).any(|at| !has(at)), "round {round}: {from} to {to} is there"),
            }
        }
        assert!(index.any(key(0).file) && !index.any(key(50).file));
        index = CacheIndex::load(index.of_file(key(0).file, usize::MAX));
        assert_eq!(index.len(), plain.keys().filter(|(f, _)| *f == 0).count());
    }
}

#[test]
fn a_record_takes_some_thirty_bytes_of_memory() {
    for (name, scatter) in [("in order", 0), ("in any order", 0x9E37_79B9)] {
        let mut index = CacheIndex::default();
        let count = 200_000u64;
        for n in 0..count {
            let at = if scatter == 0 { n } else { n.wrapping_mul(scatter) % count };
            index.insert(IndexEntry::new(key(0), at << 15, 0, 0, 32 << 10));
        }
        let each = index.bytes() as f64 / index.len() as f64;
        println!("{name}: {each:.1} bytes a record");
        assert!(each < 34.0, "{name}: {each}");
    }
    let entries = (0..100_000).map(|n| IndexEntry::new(FileKey { file: n << 30, version: n }, 0, 0, 0, 9)).collect();
    let index = CacheIndex::load(entries);
    assert!(index.bytes() as f64 / (index.len() as f64) < 25.0);
}

#[test]
fn reads_go_where_they_were_faster() {
    let (ms, len) = (Duration::from_millis, 32 << 10);
    let asked = |choice: &OriginChoice, n: usize| (0..n).filter(|_| choice.choose(len) == ByteOrigin::Disk).count();
    let choice = OriginChoice::default();
    assert_eq!(asked(&choice, 1000), 1000, "nothing is known");
    (0..40).for_each(|_| choice.note(ByteOrigin::Server, len, ms(20)));
    (0..40).for_each(|_| choice.note(ByteOrigin::Disk, len, ms(1)));
    assert_eq!(asked(&choice, 1000), 1000, "the disk is faster");
    // One late answer changes nothing.
    choice.note(ByteOrigin::Disk, len, ms(900));
    assert_eq!(asked(&choice, 1000), 1000);
    (0..40).for_each(|_| choice.note(ByteOrigin::Disk, len, ms(80)));
    let disk = asked(&choice, 6400);
    assert!((90..=110).contains(&disk), "it is slower, and {disk} of 6400 look whether it still is");
    // Reads of other lengths are another matter.
    assert_eq!(choice.choose(1 << 20), ByteOrigin::Disk);
    // The disk recovers.
    (0..40).for_each(|_| choice.note(ByteOrigin::Disk, len, ms(1)));
    assert_eq!(asked(&choice, 1000), 1000);
    // A slow disk, before the server was ever seen.
    let choice = OriginChoice::default();
    (0..40).for_each(|_| choice.note(ByteOrigin::Disk, len, ms(50)));
    let server = 6400 - asked(&choice, 6400);
    assert!((90..=110).contains(&server), "{server}");
}

#[test]
fn what_was_removed_too_early_is_known() {
    let mut ghosts = GhostTable::new(10 << 30);
    (0..1000).for_each(|n| ghosts.put(key(n), n << 15));
    let known = (0..1000).filter(|n| ghosts.take(key(*n), n << 15)).count();
    assert!(known > 980, "{known}");
    assert!((0..1000).all(|n| !ghosts.take(key(n), n << 15) && !ghosts.take(key(n), 1)));
}

#[test]
fn notes_are_what_was_noted() {
    let version = FileVersion { size: 1 << 40, tag: "\"a-tag\"".into() };
    let names = vec![
        Entry { name: "c".into(), kind: FileKind::Folder, size: 0 },
        Entry { name: "0".into(), kind: FileKind::File, size: 77 },
    ];
    let stat = FileStat { kind: FileKind::File, version, modified_ns: -5 };
    for note in [NameNote::Missing, NameNote::There(stat), NameNote::Names(names), NameNote::Names(Vec::new())] {
        let bytes = note.bytes().unwrap();
        assert_eq!(NameNote::parse(&bytes), Some(note));
        (0..bytes.len()).for_each(|cut| drop(NameNote::parse(&bytes[..cut])));
    }
    let signed = vec![Entry { name: "c?sig=secret".into(), kind: FileKind::File, size: 1 }];
    assert!(!NameNote::Names(signed).bytes().unwrap().windows(6).any(|w| w == b"secret"));
}
