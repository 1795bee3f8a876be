//! Typed events: what the pager did, for traces and reports. Always there, free when nobody observes.

use crate::id::{ArrayId, PageId, SourceId};
use crate::request::Priority;
use std::sync::Arc;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An array was registered.
    Array {
        /// Its id in later events.
        array: ArrayId,
        /// Its name.
        name: Arc<str>,
    },
    /// A source was registered.
    Source {
        /// Its id in later events.
        source: SourceId,
        /// Path or URL.
        name: Arc<str>,
    },
    /// A task asked for a page that is absent and that nobody had asked for.
    Fault {
        /// The page.
        page: PageId,
    },
    /// A worker pinned a resident page for the first time since it last released its pins.
    Pin {
        /// The page.
        page: PageId,
        /// The worker.
        worker: u32,
    },
    /// A page waits for its turn to be read.
    Queued {
        /// The page.
        page: PageId,
        /// Whether someone waits for it.
        priority: Priority,
    },
    /// A read was handed to its source.
    ReadStart {
        /// Identifies the read until its end.
        read: u64,
        /// The source.
        source: SourceId,
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Segments that the read joins.
        segments: u32,
    },
    /// A read was completed.
    ReadEnd {
        /// As in the start.
        read: u64,
        /// Whether every byte arrived.
        ok: bool,
    },
    /// A page was decoded.
    Decode {
        /// The page.
        page: PageId,
        /// How long it took.
        took_ns: u64,
    },
    /// A page was made of other pages.
    Derive {
        /// The page.
        page: PageId,
        /// How long it took, what was kept of the others included.
        took_ns: u64,
    },
    /// A page became resident.
    Publish {
        /// The page.
        page: PageId,
        /// Its bytes.
        bytes: u64,
        /// Bytes in the ledger now.
        used: u64,
    },
    /// A page became failed.
    Failed {
        /// The page.
        page: PageId,
        /// Why.
        reason: Arc<str>,
    },
    /// A page was dropped to make room.
    Evict {
        /// The page.
        page: PageId,
    },
    /// A page was asked for ahead of its use.
    PrefetchIssued {
        /// The page.
        page: PageId,
    },
    /// A prefetched page was used for the first time.
    PrefetchUsed {
        /// The page.
        page: PageId,
    },
    /// A request's pages are all settled.
    Resume {
        /// The request's token.
        token: u64,
    },
    /// A page that someone waits for has to wait for memory.
    Full {
        /// The page.
        page: PageId,
        /// Bytes that it needs.
        needs: u64,
    },
    /// The memory limit was changed.
    Limit {
        /// The new limit.
        bytes: u64,
    },
}

/// Gets events. Calls may come from any thread, with the pager's lock held: an observer must be quick and must not call the
/// pager.
pub trait Observer: Send + Sync {
    /// `at_us` is microseconds since the pager was made.
    fn event(&self, at_us: u64, event: &Event);
}
