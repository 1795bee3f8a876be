//! Bytes to pinned pages under one ledger.
//!
//! The pager knows sources, extents, codecs (through [`map::PageMap`]), frames, residency and replacement. It does not
//! know cells, grids, or formats of datasets.
//!
//! *Theory.* Application-controlled demand paging (Cox and Ellsworth 1997; Ellsworth 2001), with absence as a value. A
//! worker looks a page up ([`Worker::page`]). If the page is absent, its task requests it ([`Pager::request`]) and is
//! woken when the page is resident. Meanwhile the worker computes another task. Code that computes has no thread, lock
//! or wait.
//!
//! *Practice.* A page passes through these modules in order:
//!
//! | module | work |
//! |---|---|
//! | `request` | one flight for each page on its way, whatever the number of requests |
//! | `pump` | translation, the reservation of all memory in one charge, extents sorted and joined, a bounded number of reads |
//! | [`source`] | reads |
//! | `publish` | decoding on any free worker ([`Pager::work`]), publication |
//! | `derived` | the same for pages computed from other pages |
//! | `table`, `worker` | lookups without a lock, pins |
//! | `evict`, [`policy`] | replacement |
//!
//! All memory comes from the `pool` and is counted in the [`Ledger`]. `page_state` has the states of a page and their
//! transitions. `flights`, `reads` and `residency` hold the data under the lock.
//!
//! ```
//! use pager::source::memory::Memory;
//! use pager::*;
//! use std::sync::Arc;
//!
//! /// Pages of 8 bytes, one after the other.
//! struct Plain(SourceId);
//!
//! impl PageMap for Plain {
//!     fn name(&self) -> &str {
//!         "plain"
//!     }
//!     fn pages(&self) -> u64 {
//!         4
//!     }
//!     fn page_bytes(&self, _: PageId) -> usize {
//!         8
//!     }
//!     fn locate(&self, id: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
//!         let extent = Extent { source: self.0, offset: id.page * 8, len: 8, to: ExtentTarget::Frame(0) };
//!         Located::Extents { segments: vec![extent], encoded_len: 0, scratch_len: 0, found: Box::default() }
//!     }
//!     fn decode(&self, _: PageId, _: &[u64], _: &[u8], _: &mut [u8], _: &mut [u8]) -> Result<(), PageError> {
//!         Ok(())
//!     }
//!     fn fill(&self, _: PageId, frame: &mut [u8]) {
//!         frame.fill(0);
//!     }
//!     fn checked(&self) -> bool {
//!         false
//!     }
//! }
//!
//! let pager = Pager::new(PagerConfig { limit: 1 << 20, ..PagerConfig::default() })?;
//! let source = pager.add_source(Arc::new(Memory::new("memory", (0..32).collect())));
//! let array = pager.add_array(Arc::new(Plain(source)));
//! let page = PageId::new(array, 0, 2);
//!
//! let worker = pager.worker();
//! assert!(matches!(worker.page(page), Lookup::Absent));
//! let hold = pager.fetch(&[page])?;
//! let Lookup::Here(bytes) = worker.page(page) else { panic!("held, so it is here") };
//! assert_eq!(bytes, [16, 17, 18, 19, 20, 21, 22, 23]);
//! # drop(hold);
//! # Ok::<(), PagerError>(())
//! ```

pub mod error;
pub mod id;
pub mod map;
pub mod place;
pub mod source;

mod charge;
mod counters;
mod derived;
pub mod event;
mod evict;
mod flights;
mod frames;
mod idle;
mod join;
mod ledger;
pub mod log;
mod making;
mod os;
mod page_hash;
mod page_state;
mod pager;
mod pins;
pub mod policy;
mod pool;
pub mod prices;
mod priority;
mod publish;
mod pump;
mod reads;
pub mod replay;
mod request;
mod residency;
mod slab;
mod sources;
pub mod spin_lock;
mod state;
mod table;
mod touched;
mod translated;
mod worker;

pub use charge::Charge;
pub use counters::Counters;
pub use error::{PageError, PageErrorKind};
pub use event::{Did, Event, Observer, ServerStep};
pub use id::{ArrayId, PageId, SourceId};
pub use ledger::{ChargeKind, Full, Ledger, CHARGE_KINDS};
pub use log::{EventLog, EventReader};
pub use map::{Extent, ExtentTarget, Located, PageMap};
pub use os::make_huge;
pub use page_hash::{IdHash, PageHash};
pub use pager::{Pager, PagerConfig, PagerError, SMALLEST_LIMIT};
pub use policy::PolicyKind;
pub use priority::{Priority, Requested, Wake};
pub use request::Hold;
pub use residency::Reuse;
pub use source::file::Backend;
pub use source::folder::{FileNames, Folder};
pub use worker::{Lookup, Worker};
