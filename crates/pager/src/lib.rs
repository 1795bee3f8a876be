//! Bytes to pinned pages under one ledger.
//!
//! The pager knows sources, extents, codecs (through [`map::PageMap`]), frames, residency and replacement. It does not
//! know cells, grids, or formats of datasets.

pub mod error;
pub mod id;
pub mod map;
pub mod source;

mod counters;
mod event;
mod evict;
mod frames;
mod idle;
mod ledger;
mod os;
mod pager;
pub mod policy;
mod pool;
mod publish;
mod pump;
mod request;
mod slab;
mod state;
mod table;
mod touched;
mod trace;
mod worker;

pub use counters::Counters;
pub use error::{PageError, PageErrorKind};
pub use event::{Event, Observer};
pub use id::{ArrayId, PageId, SourceId};
pub use ledger::{Charge, ChargeKind, Full, Ledger, CHARGE_KINDS};
pub use map::{Located, PageMap, Segment, Target};
pub use pager::{Pager, PagerConfig, PagerError, SMALLEST_LIMIT};
pub use policy::PolicyKind;
pub use request::{Hold, Priority, Requested, Wake};
pub use source::file::Backend;
pub use trace::ChromeTrace;
pub use worker::{Lookup, Worker};
