//! Typed events for logs, reports and subscribers. Always compiled in, and nearly free without an observer.
//!
//! `events!` declares each kind once. It generates the enum, the names of kinds and fields in logs, and the fields
//! for `tracing` subscribers. A field is a number, a page (three numbers), or a text; a kind has at most one text.

use crate::id::{ArrayId, PageId, SourceId};
use crate::priority::Priority;
use std::sync::Arc;

/// The target of events for subscribers of `tracing`, at level `TRACE`. A subscriber is called with the pager's lock
/// held, as an [`Observer`] is. It must be quick and must not call the pager.
pub const TARGET: &str = "farfield";

/// Gets an event's fields, in their order.
pub trait FieldSink {
    /// A number.
    fn number(&mut self, name: &'static str, value: u64);
    /// A text.
    fn text(&mut self, name: &'static str, value: &str);
}

/// Gives an event's fields by name. `None`: there is no such field.
pub trait Pick {
    /// A number.
    fn number(&mut self, name: &'static str) -> Option<u64>;
    /// A text.
    fn text(&mut self, name: &'static str) -> Option<Arc<str>>;
}

/// The types that a field can have.
trait EventField: Sized {
    fn put(&self, name: &'static str, sink: &mut impl FieldSink);
    fn pick(name: &'static str, from: &mut impl Pick) -> Option<Self>;
    /// Names of its numbers and of its text.
    fn names(name: &'static str, to: &mut Vec<(&'static str, bool)>) {
        to.push((name, false));
    }
}

macro_rules! numbers {
    ($($type:ty: |$value:ident| $out:expr, |$number:ident| $in:expr;)*) => {$(
        impl EventField for $type {
            fn put(&self, name: &'static str, sink: &mut impl FieldSink) {
                let $value = *self;
                sink.number(name, $out);
            }
            fn pick(name: &'static str, from: &mut impl Pick) -> Option<Self> {
                let $number = from.number(name)?;
                $in
            }
        }
    )*};
}

numbers! {
    u64: |v| v, |n| Some(n);
    u32: |v| u64::from(v), |n| u32::try_from(n).ok();
    bool: |v| u64::from(v), |n| Some(n != 0);
    ArrayId: |v| u64::from(v.0), |n| u32::try_from(n).ok().map(ArrayId);
    SourceId: |v| u64::from(v.0), |n| u32::try_from(n).ok().map(SourceId);
    Priority: |v| u64::from(v == Priority::Demand), |n| Some(if n == 0 { Priority::Prefetch } else { Priority::Demand });
    Did: |v| v as u64, |n| Did::ALL.get(usize::try_from(n).ok()?).copied();
    ServerStep: |v| v as u64, |n| ServerStep::ALL.get(usize::try_from(n).ok()?).copied();
}

impl EventField for PageId {
    fn put(&self, _: &'static str, sink: &mut impl FieldSink) {
        sink.number("array", u64::from(self.array.0));
        sink.number("step", u64::from(self.step));
        sink.number("page", self.page);
    }
    fn pick(_: &'static str, from: &mut impl Pick) -> Option<Self> {
        let array = u32::try_from(from.number("array")?).ok()?;
        let step = u32::try_from(from.number("step")?).ok()?;
        Some(Self::new(ArrayId(array), step, from.number("page")?))
    }
    fn names(_: &'static str, to: &mut Vec<(&'static str, bool)>) {
        to.extend([("array", false), ("step", false), ("page", false)]);
    }
}

impl EventField for Arc<str> {
    fn put(&self, name: &'static str, sink: &mut impl FieldSink) {
        sink.text(name, self);
    }
    fn pick(name: &'static str, from: &mut impl Pick) -> Option<Self> {
        from.text(name)
    }
    fn names(name: &'static str, to: &mut Vec<(&'static str, bool)>) {
        to.push((name, true));
    }
}

/// Why a thread stopped stepping a task.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// Its step lacks pages: it waits for them.
    Wait = 0,
    /// It reached another window of time, and other tasks go first.
    Turn = 1,
    /// It is done.
    End = 2,
}

impl Did {
    /// All variants, each at the index of its number.
    pub const ALL: [Self; 3] = [Self::Wait, Self::Turn, Self::End];
}

/// What happened to a read at a server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ServerStep {
    /// A connection was made for it.
    Connected = 0,
    /// The request was sent.
    Sent = 1,
    /// The first byte of the reply arrived.
    FirstByte = 2,
    /// The attempt failed, and another one follows.
    Retried = 3,
    /// It was also asked of another server, or on another connection.
    Hedged = 4,
    /// The request was withdrawn.
    Withdrawn = 5,
}

impl ServerStep {
    /// All variants, each at the index of its number.
    pub const ALL: [Self; 6] =
        [Self::Connected, Self::Sent, Self::FirstByte, Self::Retried, Self::Hedged, Self::Withdrawn];
}

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $kind:literal { $($(#[$of:meta])* $field:ident: $type:ty,)* })*) => {
        /// An event of a run.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Event {
            $($(#[$doc])* $name { $($(#[$of])* $field: $type,)* },)*
        }

        #[derive(Copy, Clone)]
        enum Code { $($name,)* }

        impl Event {
            /// The names of all kinds, each at the index of its [`Self::code`].
            pub const KINDS: &'static [&'static str] = &[$($kind,)*];

            /// The kind's number. Stable as long as no kind is inserted before it.
            pub fn code(&self) -> u8 {
                match self { $(Self::$name { .. } => Code::$name as u8,)* }
            }

            /// The kind's name.
            pub fn kind(&self) -> &'static str {
                match self { $(Self::$name { .. } => $kind,)* }
            }

            /// Names of a kind's fields, in their order, and whether they are texts.
            pub fn fields(code: u8) -> Vec<(&'static str, bool)> {
                let mut names = Vec::new();
                $(if code == Code::$name as u8 {
                    $(<$type as EventField>::names(stringify!($field), &mut names);)*
                })*
                names
            }

            /// Gives all fields to `sink`.
            #[inline]
            pub fn put(&self, sink: &mut impl FieldSink) {
                match self { $(Self::$name { $($field,)* } => { $($field.put(stringify!($field), sink);)* })* }
            }

            /// The event of this kind with these fields. `None` for an unknown kind, or if a field is missing or
            /// invalid.
            pub fn pick(kind: &str, from: &mut impl Pick) -> Option<Self> {
                match kind {
                    $($kind => Some(Self::$name { $($field: <$type as EventField>::pick(stringify!($field), from)?,)* }),)*
                    _ => None,
                }
            }

            /// Passes the event to subscribers of `tracing`.
            #[inline(never)]
            pub(crate) fn trace(&self) {
                match self {
                    $(Self::$name { $($field,)* } => {
                        tracing::event!(target: TARGET, tracing::Level::TRACE, kind = $kind, $($field = ?$field,)*)
                    })*
                }
            }
        }
    };
}

events! {
    /// An array was registered.
    Array = "array" {
        /// Its id in other events.
        array: ArrayId,
        /// Pages a step.
        pages: u64,
        /// Pages along i, if the pages form a box; else 0.
        pages_i: u64,
        /// Pages along j, as `pages_i`.
        pages_j: u64,
        /// Pages along k, as `pages_i`.
        pages_k: u64,
        /// Whether its pages are derived.
        derived: bool,
        /// Its name.
        name: Arc<str>,
    }
    /// A source was registered.
    Source = "source" {
        /// Its id in other events.
        source: SourceId,
        /// Path or URL.
        name: Arc<str>,
    }
    /// The first event of a thread; later ones have its number.
    Thread = "thread" {
        /// Its name.
        name: Arc<str>,
    }
    /// A document of the run: its settings, or its results.
    Note = "note" {
        /// A JSON object.
        json: Arc<str>,
    }
    /// The source log of this log ends here, before its run did.
    Cut = "cut" {
        /// Bytes of its last, incomplete block.
        lost_bytes: u64,
    }
    /// A page was requested under `token`.
    Want = "want" {
        /// The page.
        page: PageId,
        /// The request's token.
        token: u64,
        /// Whether it will be waited for.
        priority: Priority,
    }
    /// A page was requested to locate another, or to derive it.
    Input = "input" {
        /// The page.
        page: PageId,
        /// Whether the other one will be waited for.
        priority: Priority,
    }
    /// A resident page was used to locate another, or to derive it.
    Use = "use" {
        /// The page.
        page: PageId,
    }
    /// An absent page is demanded for the first time. It is queued ahead of prefetches ([`Self::Queued`]), and may have
    /// been one of those.
    Fault = "fault" {
        /// The page.
        page: PageId,
    }
    /// The first use of a page by a worker in this group of its steps. Recorded at once for a page that is pinned now.
    /// For a page pinned before, it is recorded together with others, before the next pin. Two pages that share a place
    /// in the worker's cache may be recorded twice in a group.
    Pin = "pin" {
        /// The page.
        page: PageId,
        /// The worker.
        worker: u32,
        /// The group of steps: see [`Worker::begin_step`](crate::Worker::begin_step).
        group: u64,
        /// Whether the page is pinned now. A page pinned before changes nothing for the pager.
        fresh: bool,
    }
    /// A worker released all its pins.
    Release = "release" {
        /// The worker.
        worker: u32,
    }
    /// A hold on a page was added.
    Hold = "hold" {
        /// The page.
        page: PageId,
    }
    /// A hold on a page was released.
    Unhold = "unhold" {
        /// The page.
        page: PageId,
    }
    /// A charge outside the pool, granted or refused.
    Charged = "charge" {
        /// Requested bytes.
        bytes: u64,
        /// Bytes in the ledger now.
        used: u64,
        /// Whether there was room.
        ok: bool,
    }
    /// A page was queued for reading without a demand.
    Queued = "queued" {
        /// The page.
        page: PageId,
    }
    /// A page's memory was reserved.
    Reserve = "reserve" {
        /// The page.
        page: PageId,
        /// Whether a task waits for it.
        priority: Priority,
        /// Bytes of its frame.
        bytes: u64,
        /// Bytes of all frames now.
        frames: u64,
        /// Free bytes of the pool, which stay charged.
        cached: u64,
        /// Bytes in the ledger now.
        used: u64,
    }
    /// Pages were dropped, or none could be. Not recorded where the reservation of a page follows.
    Squeeze = "squeeze" {
        /// Bytes of all frames now.
        frames: u64,
        /// Free bytes of the pool, which stay charged.
        cached: u64,
        /// Bytes in the ledger now.
        used: u64,
        /// Whether another page had to be dropped and all were in use.
        full: bool,
        /// Whether a task waits for the room.
        priority: Priority,
    }
    /// A frame was freed before it held its page.
    Freed = "freed" {
        /// The intended page.
        page: PageId,
    }
    /// A read was handed to its source.
    ReadStart = "read" {
        /// Identifies the read until its end.
        read: u64,
        /// The source.
        source: SourceId,
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64,
        /// Segments that the read joins.
        segments: u32,
        /// Reads in flight, with this one.
        depth: u32,
    }
    /// A read was completed.
    ReadEnd = "read end" {
        /// As in the start.
        read: u64,
        /// Whether every byte arrived.
        ok: bool,
    }
    /// A page was decoded.
    Decode = "decode" {
        /// The page.
        page: PageId,
        /// Duration.
        took_ns: u64,
    }
    /// A derived page was computed.
    Derive = "derive" {
        /// The page.
        page: PageId,
        /// Duration, with the time spent on its inputs.
        took_ns: u64,
    }
    /// A page became resident.
    Publish = "publish" {
        /// The page.
        page: PageId,
        /// Its bytes.
        bytes: u64,
        /// Bytes in the ledger now.
        used: u64,
    }
    /// A page became failed.
    Failed = "failed" {
        /// The page.
        page: PageId,
        /// Why.
        reason: Arc<str>,
    }
    /// The request for a page was cancelled, or a prefetch found no room.
    Dropped = "dropped" {
        /// The page.
        page: PageId,
    }
    /// A page was dropped to make room.
    Evict = "evict" {
        /// The page.
        page: PageId,
    }
    /// A page was dropped because the run has passed it.
    GiveBack = "give back" {
        /// The page.
        page: PageId,
    }
    /// An eviction hint named a page.
    EvictHint = "offer" {
        /// The page.
        page: PageId,
        /// Its expected reuse. 0: never, 1: last of all pages.
        again: u32,
    }
    /// Hints of pages used since then were dropped.
    DropStaleHints = "sort offers" {
        /// Remaining hints.
        left: u64,
    }
    /// From now on no prefetch replaces a page used at this count of published pages, or later.
    Lately = "lately" {
        /// The count.
        count: u64,
    }
    /// A page's memory was reserved ahead of its use.
    PrefetchIssued = "prefetch" {
        /// The page.
        page: PageId,
    }
    /// A prefetched page was used for the first time.
    PrefetchUsed = "prefetch used" {
        /// The page.
        page: PageId,
    }
    /// A prefetched page was dropped before any use.
    PrefetchWasted = "prefetch wasted" {
        /// The page.
        page: PageId,
    }
    /// A request's pages are all settled.
    Resume = "resume" {
        /// The request's token.
        token: u64,
    }
    /// A demanded page has to wait for memory.
    Full = "full" {
        /// The page.
        page: PageId,
        /// Bytes that it needs.
        needs: u64,
    }
    /// The memory limit was changed.
    Limit = "limit" {
        /// The new limit.
        bytes: u64,
    }
    /// A thread stopped stepping a task.
    Task = "task" {
        /// The task.
        task: u64,
        /// Why.
        did: Did,
        /// Microseconds since the thread started stepping it.
        took_us: u64,
        /// Steps made in that time.
        steps: u64,
        /// The window of time that it is in now.
        window: u32,
        /// The token of its request.
        token: u64,
    }
    /// A thread computed until now.
    Compute = "compute" {
        /// For so long.
        took_us: u64,
        /// Steps made.
        steps: u64,
    }
    /// A thread was idle until now.
    Wait = "wait" {
        /// For so long.
        took_us: u64,
    }
    /// A thread did other work until now.
    Span = "span" {
        /// For so long.
        took_us: u64,
        /// The work.
        name: Arc<str>,
    }
    /// A picture was started.
    FrameStart = "frame start" {
        /// Its number.
        frame: u64,
    }
    /// A picture was finished.
    FrameEnd = "frame end" {
        /// Its number.
        frame: u64,
    }
    /// Bytes were given to another process or machine.
    Send = "send" {
        /// Number of bytes.
        bytes: u64,
        /// To whom.
        name: Arc<str>,
    }
    /// A server was used for the first time.
    Server = "server" {
        /// Its number in later events.
        server: u32,
        /// Its name and port.
        name: Arc<str>,
    }
    /// Something happened to a read at a server.
    AtServer = "at server" {
        /// The read.
        read: u64,
        /// The server.
        server: u32,
        /// The connection, by its number at the server.
        connection: u32,
        /// The step.
        did: ServerStep,
        /// Microseconds: of a connection, how long it took; of a first byte, how long the request waited at the server.
        wait_us: u64,
        /// Microseconds that the server worked on the request, as it says.
        service_us: u64,
    }
}

/// Receives events. Calls come from any thread, with the pager's lock held. An observer must be quick and must not call
/// the pager.
pub trait Observer: Send + Sync {
    /// `at_us` is microseconds since the pager was made. For an event with a duration it is the end.
    fn event(&self, at_us: u64, event: &Event);

    /// Several events of one thread in their order. Some happened a while before `at_us`.
    fn events(&self, at_us: u64, events: &[Event]) {
        events.iter().for_each(|event| self.event(at_us, event));
    }
}
