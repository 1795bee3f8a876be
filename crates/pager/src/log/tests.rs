//! Logs are read back as they were written, whole, cut off, damaged, and through a Chrome trace.

use super::*;
use crate::event::{Did, Observer};
use crate::id::{ArrayId, PageId, SourceId};
use crate::priority::Priority;
use proptest::prelude::*;
use std::path::PathBuf;

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("farfield-log-{}-{name}", std::process::id()))
}

type EventText = Vec<(u64, u32, Event)>;

fn read(path: &std::path::Path) -> (EventText, LogEnd) {
    let mut told = Vec::new();
    let ended = EventReader::open(path).unwrap().each(&mut |at, thread, event, _| {
        told.push((at, thread, event.clone()));
        true
    });
    (told, ended.unwrap())
}

fn write(path: &std::path::Path, events: &[(u64, Event)]) {
    let log = EventLog::create(path).unwrap();
    for (at, event) in events {
        log.event(*at, event);
    }
    log.close().unwrap();
}

/// Fills the fields of any event with these numbers and this text.
struct Some_<'a>(std::iter::Cycle<std::slice::Iter<'a, u64>>, &'a str);

impl crate::event::Pick for Some_<'_> {
    fn number(&mut self, _: &'static str) -> Option<u64> {
        // All fields have 32 bits or more, except those with few values.
        self.0.next().map(|n| n % 2)
    }
    fn text(&mut self, _: &'static str) -> Option<std::sync::Arc<str>> {
        Some(self.1.into())
    }
}

#[test]
fn every_kind_is_read_back_from_both_forms() {
    let numbers = [0, 1, 1, 0, 1];
    let all: Vec<(u64, Event)> = Event::KINDS
        .iter()
        .enumerate()
        .map(|(n, kind)| {
            let event = Event::pick(kind, &mut Some_(numbers.iter().cycle(), "a \"text\", ü")).unwrap();
            assert_eq!((event.kind(), event.code() as usize), (*kind, n));
            (n as u64 * 1000, event)
        })
        .collect();
    let (path, chrome) = (file("kinds"), file("kinds.json"));
    write(&path, &all);
    let (told, ended) = read(&path);
    // The thread's name comes first.
    assert!(matches!(told[0].2, Event::Thread { .. }));
    let without: Vec<(u64, Event)> = told[1..].iter().map(|(at, _, e)| (*at, e.clone())).collect();
    assert_eq!(without, all);
    assert_eq!((ended.whole, ended.unknown, ended.lost_bytes), (true, 0, 0));

    let mut out = Vec::new();
    let reader = EventReader::open(&path).unwrap();
    write_chrome(&mut |tell| reader.each(tell), &mut out, &mut |_| true, |e| e).unwrap();
    let rows: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert!(rows.as_array().is_some_and(|rows| rows.len() > all.len()));
    std::fs::write(&chrome, &out).unwrap();
    let (again, ended) = read(&chrome);
    assert_eq!(again, told);
    assert!(ended.whole && ended.unknown == 0);
    for f in [path, chrome] {
        std::fs::remove_file(f).unwrap();
    }
}

fn some_events(n: u64) -> Vec<(u64, Event)> {
    (0..n)
        .map(|i| {
            let page = PageId::new(ArrayId((i % 3) as u32), (i / 7) as u32, i * 12_345);
            let event = match i % 4 {
                0 => Event::Pin { page, worker: 1, group: i, fresh: i % 8 == 0 },
                1 => Event::ReadStart {
                    read: i << 32,
                    source: SourceId(2),
                    offset: u64::MAX - i,
                    bytes: i,
                    segments: 3,
                    depth: 5,
                },
                2 => Event::Want { page, token: i, priority: Priority::Demand },
                _ => Event::Task { task: i, did: Did::Wait, took_us: 5, steps: i, window: 3, token: i },
            };
            // Times of several threads are not in order.
            (i * 3 + 100 - i % 50, event)
        })
        .collect()
}

#[test]
fn a_log_that_is_cut_off_anywhere_is_read_up_to_its_last_whole_block() {
    let (path, cut) = (file("whole"), file("cut"));
    let events = some_events(40_000);
    write(&path, &events);
    let bytes = std::fs::read(&path).unwrap();
    let (told, ended) = read(&path);
    assert_eq!(told.len(), 40_001);
    assert!(ended.whole);
    let mut before = 0;
    for share in 0..40 {
        let len = bytes.len() * share / 40;
        std::fs::write(&cut, &bytes[..len]).unwrap();
        match EventReader::open(&cut) {
            Ok(_) => {}
            Err(e) => {
                assert!(len < 4096 && !e.to_string().is_empty());
                continue;
            }
        }
        let (part, ended) = read(&cut);
        assert!(!ended.whole && ended.unknown == 0);
        assert_eq!(part[..], told[..part.len()]);
        assert!(part.len() >= before && ended.lost_bytes < 2 * BLOCK_BYTES as u64);
        before = part.len();
    }
    assert!(before > 30_000);
    for f in [path, cut] {
        std::fs::remove_file(f).unwrap();
    }
}

#[test]
fn two_logs_are_not_written_to_one_file() {
    let (path, other) = (file("two"), file("other"));
    let busy = || EventLog::create(&path).err().map(|e| e.kind());
    let first = EventLog::create(&path).unwrap();
    some_events(20_000).iter().for_each(|(at, event)| first.event(*at, event));
    let before = std::fs::read(&path).unwrap();
    assert_eq!(busy(), Some(std::io::ErrorKind::ResourceBusy));
    assert!(before.len() > BLOCK_BYTES && std::fs::read(&path).unwrap() == before, "it was opened, and no more");
    first.close().unwrap();
    assert_eq!(busy(), Some(std::io::ErrorKind::ResourceBusy), "something may still be made of it");
    assert_eq!(read(&path).0.len(), 20_001);
    // The replacement is another file.
    std::fs::write(&other, "made of it").unwrap();
    std::fs::rename(&other, &path).unwrap();
    let second = EventLog::create(&path).unwrap();
    first.let_go().unwrap();
    assert_eq!(busy(), Some(std::io::ErrorKind::ResourceBusy));
    // Dropping a log unlocks it, and the next one empties the file.
    second.note(&serde_json::json!({"run": {}}));
    drop(second);
    let third = EventLog::create(&path).unwrap();
    third.let_go().unwrap();
    assert_eq!((read(&path).0.len(), busy()), (0, None));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_log_may_go_to_what_is_no_file() {
    let two = [(); 2].map(|()| EventLog::create(std::path::Path::new("/dev/null")).unwrap());
    two.iter().for_each(|log| log.let_go().unwrap());
}

#[test]
fn a_log_of_another_version_is_read_by_names() {
    let path = file("names");
    write(&path, &[(5, Event::Limit { bytes: 7 })]);
    let mut bytes = std::fs::read(&path).unwrap();
    // The same length, so that no other byte moves. One kind gets an unknown name.
    let at = bytes.windows(8).position(|w| w == b"\"squeeze").unwrap();
    bytes[at + 1..at + 8].copy_from_slice(b"squashy");
    let len = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let crc = crc32c::crc32c(&bytes[16..16 + len]);
    bytes[16 + len..20 + len].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let (told, ended) = read(&path);
    assert_eq!(told[1].2, Event::Limit { bytes: 7 });
    assert_eq!((ended.events, ended.unknown), (2, 0));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn what_is_no_log_is_said() {
    let path = file("none");
    for bytes in [
        &b""[..],
        b"FFEVENTS",
        b"FFEVENTS\x02\0\0\0\0\0\0\0",
        b"hello, this is a text",
        b"FFEVENTS\x01\0\0\0\xff\xff\xff\xff",
    ] {
        std::fs::write(&path, bytes).unwrap();
        let said = EventReader::open(&path).err().unwrap();
        assert!(said.kind() == std::io::ErrorKind::InvalidData && said.to_string().len() > 20, "{said}");
    }
    std::fs::remove_file(&path).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever byte is damaged, the events read are a prefix of the written ones, and none comes from a damaged block.
    #[test]
    fn damage_never_tells_what_was_not(at in any::<prop::sample::Index>(), with in 1u8.., length in any::<prop::sample::Index>()) {
        let path = file(&format!("damaged-{:?}", std::thread::current().id()).replace(['(', ')'], ""));
        write(&path, &some_events(9_000));
        let whole = read(&path).0;
        let mut bytes = std::fs::read(&path).unwrap();
        let place = at.index(bytes.len());
        bytes[place] ^= with;
        bytes.truncate(place + 1 + length.index(bytes.len() - place));
        std::fs::write(&path, &bytes).unwrap();
        if EventReader::open(&path).is_ok() {
            let (told, _) = read(&path);
            prop_assert!(told[..] == whole[..told.len()]);
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn numbers_are_read_back(value in any::<u64>(), signed in any::<i64>()) {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, value);
        let mut rest = &bytes[..];
        prop_assert_eq!(take_varint(&mut rest), Some(value));
        prop_assert!(rest.is_empty());
        prop_assert_eq!(unzigzag(zigzag(signed)), signed);
    }
}
