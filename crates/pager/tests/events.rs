//! What the pager tells: to a log, and to whoever subscribes.

mod common;
use common::*;
use pager::source::memory::Memory;
use pager::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

fn opened(observer: Option<Arc<dyn Observer>>) -> Opened {
    let spec = Spec { kind: Kind::Coded, steps: 1, pages: 200, bytes: 4096, holes: 0 };
    let config = PagerConfig { limit: 512 << 10, observer, ..PagerConfig::default() };
    write(47, &[spec]).open(config, |b| Arc::new(Memory::new("memory", b)))
}

#[test]
fn events_tell_the_life_of_a_page() {
    let path = std::env::temp_dir().join(format!("farfield-events-{}", std::process::id()));
    let log = Arc::new(EventLog::create(&path).unwrap());
    let o = opened(Some(log.clone()));
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

/// Counts events by kind, as a program that embeds the pager would get them.
#[derive(Clone, Default)]
struct Subscriber(Arc<Mutex<HashMap<String, u64>>>);

struct Kind_(String);

impl tracing::field::Visit for Kind_ {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        if field.name() == "kind" {
            self.0 = format!("{value:?}").trim_matches('"').to_owned();
        }
    }
}

impl tracing::Subscriber for Subscriber {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == pager::event::TARGET
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut kind = Kind_(String::new());
        event.record(&mut kind);
        *self.0.lock().unwrap().entry(kind.0).or_default() += 1;
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn subscribers_get_what_a_log_would() {
    let subscriber = Subscriber::default();
    let c = tracing::subscriber::with_default(subscriber.clone(), || {
        let o = opened(None);
        tasks(&o, 5, 200, 4);
        o.pager.counters()
    });
    let told = subscriber.0.lock().unwrap();
    // All was done on this thread, which is the one that subscribes.
    assert_eq!((told["fault"], told["publish"], told["evict"]), (c.faults, c.published, c.evictions));
    assert_eq!((told["decode"], told["read"]), (c.decoded, c.reads));
    assert_eq!(told["array"], 1);
    // And nobody is told when nobody subscribes.
    drop(told);
    tasks(&opened(None), 5, 20, 4);
    assert_eq!(subscriber.0.lock().unwrap()["array"], 1);
}
