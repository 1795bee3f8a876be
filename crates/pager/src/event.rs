//! Typed events: what happened, for logs, reports and whoever subscribes. Always there, nearly free when nobody observes.
//!
//! Each kind is said once, in [`events!`], from which follow the enum, the names under which logs know kinds and fields, and what
//! `tracing` subscribers get. A field is a number, a name of a page (three numbers), or a text; a kind has at most one text.

use crate::id::{ArrayId, PageId, SourceId};
use crate::request::Priority;
use std::sync::Arc;

/// The target under which events go to subscribers of `tracing`, at level `TRACE`. As an [`Observer`], a subscriber is called with the pager's
/// lock held, must be quick, and must not call the pager.
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

/// What a field can be.
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

/// What a task did when its thread let go of it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// Its step lacks pages: it waits for them.
    Wait = 0,
    /// It came to another window of time, and others go first.
    Turn = 1,
    /// It is done.
    End = 2,
}

impl Did {
    /// All of them, each in the place of its number.
    pub const ALL: [Self; 3] = [Self::Wait, Self::Turn, Self::End];
}

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $kind:literal { $($(#[$of:meta])* $field:ident: $type:ty,)* })*) => {
        /// Something that happened.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Event {
            $($(#[$doc])* $name { $($(#[$of])* $field: $type,)* },)*
        }

        #[derive(Copy, Clone)]
        enum Code { $($name,)* }

        impl Event {
            /// The names of all kinds, each in the place of its [`Self::code`].
            pub const KINDS: &'static [&'static str] = &[$($kind,)*];

            /// The kind's number, as long as none is added before it.
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

            /// The event of this kind with these fields; `None` if there is no such kind or a field is missing or makes no sense.
            pub fn pick(kind: &str, from: &mut impl Pick) -> Option<Self> {
                match kind {
                    $($kind => Some(Self::$name { $($field: <$type as EventField>::pick(stringify!($field), from)?,)* }),)*
                    _ => None,
                }
            }

            /// Gives the event to whoever subscribes to `tracing`.
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
        /// Pages along i, j and k, where they lie in a box, i first; else 0.
        pages_i: u64,
        /// See `pages_i`.
        pages_j: u64,
        /// See `pages_i`.
        pages_k: u64,
        /// Whether its pages are made of others.
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
    /// A thread told something for the first time; what follows has its number.
    Thread = "thread" {
        /// Its name.
        name: Arc<str>,
    }
    /// A document of the run: what it was begun with, or what it came to.
    Note = "note" {
        /// A JSON object.
        json: Arc<str>,
    }
    /// The log that this one was made of ends here, before its run did.
    Cut = "cut" {
        /// Bytes of it that were not whole.
        lost_bytes: u64,
    }
    /// A page was asked for, by whoever waits under `token`.
    Want = "want" {
        /// The page.
        page: PageId,
        /// The request's token.
        token: u64,
        /// Whether it will be waited for.
        priority: Priority,
    }
    /// A page was asked for to find, or to make, another.
    Input = "input" {
        /// The page.
        page: PageId,
        /// Whether the other one will be waited for.
        priority: Priority,
    }
    /// A page that is here was used to find, or to make, another.
    Use = "use" {
        /// The page.
        page: PageId,
    }
    /// A page is waited for that is absent, and that nobody had waited for: it is queued to be read, before those of [`Self::Queued`], where
    /// it may have been until now.
    Fault = "fault" {
        /// The page.
        page: PageId,
    }
    /// A worker took a page in hand that it had not had in hand in this group of its steps: at once where it pinned the page for it; where it
    /// had it pinned before, together with others, before it tells of any other pin. (Of two pages that share a place among those that it
    /// finds at once, one may be told of twice in a group.)
    Pin = "pin" {
        /// The page.
        page: PageId,
        /// The worker.
        worker: u32,
        /// The group of steps: see [`Worker::begin_step`](crate::Worker::begin_step).
        group: u64,
        /// Whether it was not pinned yet; if it was, nothing changes for the pager.
        fresh: bool,
    }
    /// A worker let go of all that it had pinned.
    Release = "release" {
        /// The worker.
        worker: u32,
    }
    /// A page is kept from being dropped, once more.
    Hold = "hold" {
        /// The page.
        page: PageId,
    }
    /// One of those holds is over.
    Unhold = "unhold" {
        /// The page.
        page: PageId,
    }
    /// Memory outside of the pool was charged, or could not be.
    Charged = "charge" {
        /// Bytes that were asked for.
        bytes: u64,
        /// Bytes in the ledger now.
        used: u64,
        /// Whether there was room.
        ok: bool,
    }
    /// A page for which nobody waits is queued to be read.
    Queued = "queued" {
        /// The page.
        page: PageId,
    }
    /// A page's memory was reserved.
    Reserve = "reserve" {
        /// The page.
        page: PageId,
        /// Whether someone waits for it.
        priority: Priority,
        /// Bytes of its frame.
        bytes: u64,
        /// Bytes of all frames now.
        frames: u64,
        /// Free bytes of the pool that are charged all the same.
        cached: u64,
        /// Bytes in the ledger now.
        used: u64,
    }
    /// Pages were dropped, or none could be, other than for a page's memory that was reserved next.
    Squeeze = "squeeze" {
        /// Bytes of all frames now.
        frames: u64,
        /// Free bytes of the pool that are charged all the same.
        cached: u64,
        /// Bytes in the ledger now.
        used: u64,
        /// Whether all was in use when one more page was to be dropped.
        full: bool,
        /// Whether someone waits for the room.
        priority: Priority,
    }
    /// A frame's memory was freed that held no page yet.
    Freed = "freed" {
        /// The page that it was for.
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
        /// How long it took.
        took_ns: u64,
    }
    /// A page was made of other pages.
    Derive = "derive" {
        /// The page.
        page: PageId,
        /// How long it took, what was kept of the others included.
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
    /// A page that was asked for is not wanted any more, or was to be read ahead and found no room.
    Dropped = "dropped" {
        /// The page.
        page: PageId,
    }
    /// A page was dropped to make room.
    Evict = "evict" {
        /// The page.
        page: PageId,
    }
    /// A page was given back since the run has passed it.
    GiveBack = "give back" {
        /// The page.
        page: PageId,
    }
    /// A page was said to be wanted again late or never.
    Offer = "offer" {
        /// The page.
        page: PageId,
        /// 0: never, 1: behind all others.
        again: u32,
    }
    /// What was said of pages that were used since is forgotten.
    SortOffers = "sort offers" {
        /// Those of each kind that are left.
        left: u64,
    }
    /// No prefetch takes the place of a page used at this count of pages published, or later.
    Lately = "lately" {
        /// The count.
        count: u64,
    }
    /// A page was asked for ahead of its use, and its memory reserved.
    PrefetchIssued = "prefetch" {
        /// The page.
        page: PageId,
    }
    /// A prefetched page was used for the first time.
    PrefetchUsed = "prefetch used" {
        /// The page.
        page: PageId,
    }
    /// A prefetched page goes and was never used.
    PrefetchWasted = "prefetch wasted" {
        /// The page.
        page: PageId,
    }
    /// A request's pages are all settled.
    Resume = "resume" {
        /// The request's token.
        token: u64,
    }
    /// A page that someone waits for has to wait for memory.
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
    /// A thread let go of a task.
    Task = "task" {
        /// The task.
        task: u64,
        /// Why.
        did: Did,
        /// Microseconds since the thread took it.
        took_us: u64,
        /// Steps that were made of it.
        steps: u64,
        /// The window of time that it is in now.
        window: u32,
        /// The token under which it waits.
        token: u64,
    }
    /// A thread computed until now.
    Compute = "compute" {
        /// For so long.
        took_us: u64,
        /// Steps made.
        steps: u64,
    }
    /// A thread had nothing to do until now.
    Wait = "wait" {
        /// For so long.
        took_us: u64,
    }
    /// A thread did something else until now.
    Span = "span" {
        /// For so long.
        took_us: u64,
        /// What it was.
        name: Arc<str>,
    }
    /// A picture is begun.
    FrameStart = "frame start" {
        /// Its number.
        frame: u64,
    }
    /// A picture is done.
    FrameEnd = "frame end" {
        /// Its number.
        frame: u64,
    }
    /// Bytes were given to another process or machine.
    Send = "send" {
        /// How many.
        bytes: u64,
        /// To whom.
        name: Arc<str>,
    }
}

/// Gets events. Calls may come from any thread, with the pager's lock held: an observer must be quick and must not call the
/// pager.
pub trait Observer: Send + Sync {
    /// `at_us` is microseconds since the pager was made. Of events that last, it is their end.
    fn event(&self, at_us: u64, event: &Event);

    /// Several that have happened on one thread, in this order, some of them a while before `at_us`; otherwise as one by one.
    fn events(&self, at_us: u64, events: &[Event]) {
        events.iter().for_each(|event| self.event(at_us, event));
    }
}
