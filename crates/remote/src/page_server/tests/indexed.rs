//! Extents that come with the index that names them.

use super::raw::Raw;
use super::support::*;
use crate::page_server::client::{Credentials, RemotePlace};
use crate::page_server::wire::*;
use pager::place::{IndexedExtent, Place};
use pager::source::folder::{About, FileIndex};
use pager::source::{Buffer, Completion, Read, ReadClass, Source};
use pager::{FileNames, PageErrorKind, Pager, PagerConfig};
use std::path::PathBuf;
use std::sync::Arc;

#[test]
fn a_cold_page_costs_one_round_trip() {
    let folder = folder();
    let truth = bytes(1, 10_000);
    let mut shard = truth.clone();
    let slot = |at: u64, len: u64| [at.to_le_bytes(), len.to_le_bytes()].concat();
    shard.extend([slot(100, 5000), slot(u64::MAX, u64::MAX), slot(9000, 2000), slot(99_999, 5)].concat());
    std::fs::write(folder.0.join("shard"), &shard).unwrap();
    let server = serve(&folder.0);
    let mut raw = Raw::greeted(server.address(), None);
    raw.open("data/shard", 4).unwrap();
    let mut ask = |number: u32, len: u32| {
        let via = Via { index_offset: 64, index_len: 64, slot: number * 16, base: 0, from_end: true };
        raw.ask(Request { file: 4, len, ..Request::new(Op::Via, 0) }, &via.bytes()).unwrap()
    };
    let told = ask(0, 10_000);
    let (found, index, page) = ViaFound::split(&told.body).unwrap();
    assert_eq!((told.reply.state, found.extent), (State::Ok, Some((100, 5000))));
    assert!(index == &shard[10_000..] && page == &truth[100..5100]);
    let told = ask(1, 10_000);
    assert_eq!(ViaFound::split(&told.body).unwrap().0.extent, None);
    // An extent that is longer than what was asked for is named, and not sent.
    let told = ask(0, 1000);
    let (found, index, page) = ViaFound::split(&told.body).unwrap();
    assert!(found.extent == Some((100, 5000)) && index.len() == 64 && page.is_empty());
    assert_eq!(ask(3, 1000).reply.state, State::Short);
    let place = place(&server);
    let indexed = |name: &str, number: usize, longest: usize| {
        indexed(&place, &file(name), IndexedExtent { index_len: 64, at_end: true, entry: number * 16, longest })
    };
    let found = indexed("shard", 0, 5000).unwrap();
    assert_eq!((found.version.size, found.index.len()), (10_064, 64));
    assert_eq!(found.extent, Some((100, truth[100..5100].to_vec())));
    assert_eq!(indexed("shard", 0, 4999).unwrap().extent, None);
    assert_eq!(indexed("shard", 1, 5000).unwrap().extent, None);
    assert!(matches!(indexed("shard", 3, 5000), Err(PageErrorKind::Decode(_))));
    assert_eq!(indexed("none", 0, 1000).unwrap_err(), PageErrorKind::Missing);
}

#[test]
fn a_page_of_a_folder_comes_with_its_index() {
    struct Shards(PathBuf, bool);
    impl FileNames for Shards {
        fn describe(&self) -> String {
            "shards".into()
        }
        fn count(&self) -> u64 {
            4
        }
        fn path(&self, number: u64) -> PathBuf {
            self.0.join(number.to_string())
        }
        fn index(&self) -> Option<FileIndex> {
            Some(FileIndex { len: 48, at_end: self.1 })
        }
    }
    pager::place::register(
        "indexed",
        Arc::new(|url| {
            let (address, _) = url["indexed://".len()..].split_once('/').unwrap();
            let open = RemotePlace::open(&format!("farfield://{address}"), Credentials::default(), hasty());
            open.map(|place| Arc::new(place) as Arc<dyn Place>)
        }),
    );
    for at_end in [false, true] {
        let folder = folder();
        let truth = bytes(7, 3000);
        let entries = |base: u64| [(base, 1000u64), (base + 1000, 2000), (u64::MAX, u64::MAX)];
        let index: Vec<u8> = entries(if at_end { 0 } else { 48 })
            .iter()
            .flat_map(|(at, len)| [at.to_le_bytes(), len.to_le_bytes()].concat())
            .collect();
        let shard = if at_end { [&truth[..], &index].concat() } else { [&index[..], &truth].concat() };
        (0..3).for_each(|n| std::fs::write(folder.0.join(n.to_string()), &shard).unwrap());
        let server = serve(&folder.0);
        let root = PathBuf::from(format!("indexed://{}/data", server.address()));
        let pager = Pager::new(PagerConfig { limit: 1 << 20, ..PagerConfig::default() }).unwrap();
        let source = pager.folder(Arc::new(Shards(root, at_end))).unwrap();
        let read = |at: u64, len: usize| {
            let log = Arc::new(Log::default());
            let mut memory = vec![0u8; len];
            let buffers = vec![Buffer { ptr: memory.as_mut_ptr(), len }];
            let read = Read { token: 0, offset: at, buffers, class: ReadClass::Demand };
            source.submit(vec![read], &(log.clone() as Arc<dyn Completion>));
            log.wait(1).remove(0).1.map(|()| memory)
        };
        let count = |op: &str| server.status()["requests"][op].as_u64().unwrap_or(0);
        let begin = if at_end { 0 } else { 48 };
        // An index at the begin is read as bytes of the file, or with what is said of the file.
        for number in 0..2 {
            source.want_entry(number, 16, 2000);
            let of_index = if at_end { read(source.index(number), 16 + 48) } else { read(source.place(number), 48) };
            assert!(of_index.unwrap().ends_with(&index));
            assert!(source.held_bytes().unwrap() >= 2000);
            assert_eq!(read(source.place(number) + begin + 1000, 2000).unwrap(), truth[1000..]);
            assert_eq!((count("via"), count("read")), (number + 1, 0), "at the end: {at_end}");
        }
        // It is given once; another page is read by itself; an index without a wanted page, too.
        assert_eq!(read(source.place(1) + begin + 1000, 2000).unwrap(), truth[1000..]);
        assert_eq!(read(source.place(1) + begin, 1000).unwrap(), truth[..1000]);
        assert!(read(source.index(2), 16 + 48).unwrap().ends_with(&index));
        assert_eq!(count("via"), 2);
        // A missing file, and one that is no shard.
        source.want_entry(3, 0, 1000);
        let missing = read(source.index(3), 16 + 48).unwrap();
        assert_eq!(About::parse(&missing), Some(About::Missing));
        std::fs::write(folder.0.join("3"), b"short").unwrap();
        source.want_entry(3, 0, 1000);
        let short = read(source.index(3), 16 + 48).unwrap();
        assert_eq!(About::parse(&short), Some(About::There(5)));
    }
}
