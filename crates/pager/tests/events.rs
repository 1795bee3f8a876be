//! The pager's events, in a log and for subscribers.

mod common;
use common::*;
use pager::*;
use std::collections::HashMap;
use std::sync::Arc;

#[test]
fn events_tell_the_life_of_a_page() {
    let path = std::env::temp_dir().join(format!("farfield-events-{}", std::process::id()));
    let log = Arc::new(EventLog::create(&path).unwrap());
    let o = observed(Some(log.clone()));
    tasks(&o, 5, 200, 4);
    log.close().unwrap();
    let mut counts = HashMap::<&str, u64>::new();
    let mut resident = std::collections::HashSet::new();
    let mut reads = std::collections::HashSet::new();
    let mut frames = 0;
    let ended = EventReader::open(&path).unwrap().each(&mut |_, _, event, _| {
        *counts.entry(event.kind()).or_default() += 1;
        // No page is used before it is resident, is dropped twice, or ends before its start.
        match event {
            Event::Array { name, pages, .. } => assert_eq!((&**name, *pages), ("array0", 200)),
            Event::Publish { page, .. } => assert!(resident.insert(*page)),
            Event::Evict { page } => assert!(resident.remove(page)),
            Event::ReadStart { read, .. } => assert!(reads.insert(*read)),
            Event::ReadEnd { read, .. } => assert!(reads.remove(read)),
            Event::Reserve { frames: now, used, .. } => {
                frames = *now;
                assert!(frames <= *used && *used <= 512 << 10);
            }
            _ => {}
        }
        true
    });
    std::fs::remove_file(&path).unwrap();
    assert!(ended.unwrap().whole && frames > 0);
    let (c, count) = (o.pager.counters(), |name: &str| counts.get(name).copied().unwrap_or(0));
    assert_eq!(count("fault"), c.faults);
    assert_eq!(count("publish"), c.published);
    assert_eq!(count("decode"), c.decoded);
    assert_eq!(count("evict"), c.evictions);
    assert_eq!((count("read"), count("read end")), (c.reads, c.reads));
    assert!(count("pin") > 0 && count("resume") > 0 && count("want") >= count("fault"));
}

/// Keeps pins and releases.
#[derive(Default)]
struct Pins(std::sync::Mutex<Vec<Event>>);

impl Observer for Pins {
    fn event(&self, _: u64, event: &Event) {
        if matches!(event, Event::Pin { .. } | Event::Release { .. } | Event::Evict { .. }) {
            self.0.lock().unwrap().push(event.clone());
        }
    }
}

/// Pages that stay pinned are recorded in each group of steps that uses them, before their release. Unused pages are
/// not recorded.
#[test]
fn pins_are_told_of_once_a_group() {
    let pins = Arc::new(Pins::default());
    let o = observed(Some(pins.clone()));
    let page = |n: u64| PageId::new(o.arrays[0], 0, n);
    let mut worker = o.pager.worker();
    let hold = o.pager.fetch(&(0..24).map(page).collect::<Vec<_>>()).unwrap();
    const GROUP: u64 = 512;
    for step in 0..3 * GROUP {
        worker.begin_step();
        // Half of the pages in each group; others in the next, except the first six.
        let group = (step + 1) / GROUP;
        for n in (0..6).chain((6..24).filter(|n| n % 2 == group % 2)) {
            assert!(matches!(worker.page(page(n)), Lookup::Here(_)));
        }
    }
    worker.release();
    drop((worker, hold));
    let told = pins.0.lock().unwrap();
    let mut of = HashMap::<(u64, u64), (u64, u64)>::new();
    let mut released = false;
    for event in told.iter() {
        match event {
            Event::Pin { page, group, fresh, .. } => {
                assert!(!released, "{page:?} of group {group} after it was let go");
                let count = of.entry((*group, page.page)).or_default();
                *(if *fresh { &mut count.0 } else { &mut count.1 }) += 1;
            }
            Event::Release { .. } => released = true,
            _ => {}
        }
    }
    assert!(released);
    for group in 0..4 {
        for n in 0..24 {
            let used = n < 6 || n % 2 == group % 2;
            // Of those that share a place in the worker's cache one may be recorded twice.
            let (fresh, again) = of.get(&(group, n)).copied().unwrap_or_default();
            assert_eq!(fresh + again > 0, used, "page {n} in group {group}");
            assert!(fresh + again <= 2 && (fresh == 0 || group <= 1), "page {n} in group {group}: {fresh} and {again}");
        }
    }
    let twice = of.values().filter(|(fresh, again)| fresh + again > 1).count();
    assert!(twice <= 4, "{twice} told of twice");
}
