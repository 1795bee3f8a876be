//! What the pager tells: to a log, and to whoever subscribes.

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
        // Nothing is used before it is here, is dropped twice, or ends before it began.
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
