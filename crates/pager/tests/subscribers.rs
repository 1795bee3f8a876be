//! Events for subscribers of `tracing`. A binary of its own with one test: `tracing` remembers for each place in the
//! code whether a subscriber exists. A test beside it on a thread without one could decide that for all.

mod common;
use common::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

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
        let o = observed(None);
        tasks(&o, 5, 200, 4);
        o.pager.counters()
    });
    let told = subscriber.0.lock().unwrap();
    // All was done on this thread, which is the one that subscribes.
    assert_eq!((told["fault"], told["publish"], told["evict"]), (c.faults, c.published, c.evictions));
    assert_eq!((told["decode"], told["read"]), (c.decoded, c.reads));
    assert_eq!(told["array"], 1);
    // Without a subscriber no event is delivered.
    drop(told);
    tasks(&observed(None), 5, 20, 4);
    assert_eq!(subscriber.0.lock().unwrap()["array"], 1);
}
