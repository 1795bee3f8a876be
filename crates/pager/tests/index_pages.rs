//! Index pages stay in memory before others.

mod common;
use common::*;
use pager::*;
use std::time::{Duration, Instant};

#[test]
fn index_pages_beyond_their_share_are_paged_like_others() {
    // Room for 16 of 38 index pages: they are evicted and read again, and each page still finds its own.
    let written = write(43, &[MapArray { kind: MapKind::Indexed, holes: 5, ..plain(600, 20_000) }]);
    let o = in_memory(&written, PagerConfig { readers: 2, ..config(512 << 10) });
    let mut rng = Rng(1);
    for _ in 0..300 {
        let id = o.random_page(&mut rng);
        let hold = o.pager.fetch(&[id]).unwrap();
        check(&o, &o.pager.worker(), &[id]);
        drop(hold);
    }
    let c = o.pager.counters();
    assert!(c.fills > 20 && c.index_faults > 38, "{c:?}");
}

#[test]
fn index_pages_stay_while_other_pages_can_go() {
    // 10 index pages take 40 KiB of the 64 KiB that they may take. 160 pages of 20 KB pass twice.
    let pages = MapArray { kind: MapKind::Indexed, ..plain(160, 20_000) };
    let written = write(44, &[pages, plain(1, 400 << 10)]);
    let o = in_memory(&written, PagerConfig { readers: 2, ..config(512 << 10) });
    for id in ids(&o, 0..160).into_iter().chain(ids(&o, 0..160)) {
        drop(o.pager.fetch(&[id]).unwrap());
    }
    let c = o.pager.counters();
    assert_eq!((c.published, c.index_faults), (2 * 160 + 10, 10), "{c:?}");
    // A page that fits without them only is read at once.
    let large = PageId::new(o.arrays[1], 0, 0);
    let began = Instant::now();
    let hold = o.pager.fetch(&[large]).unwrap();
    assert!(began.elapsed() < Duration::from_secs(2), "it waited for memory that no thread releases");
    check(&o, &o.pager.worker(), &[large]);
    drop(hold);
    let again = ids(&o, 7..8);
    let _hold = o.pager.fetch(&again).unwrap();
    check(&o, &o.pager.worker(), &again);
    assert_eq!(o.pager.counters().index_faults, 11, "the index of a page that is read again");
}
