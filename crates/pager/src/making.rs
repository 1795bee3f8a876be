//! A derived page in the making, and the state of its inputs.

use crate::error::PageError;
use crate::id::PageId;

/// The remaining work on a derived page.
pub(crate) struct Making {
    /// 1. Inputs that the page map has not read yet.
    pub(crate) wanted: Vec<DerivedInput>,
    /// 2. The page has arrived, or a worker computes it. No other thread accesses or frees its frame and scratch then.
    pub(crate) busy: bool,
    /// 3. The reason why the page will not be finished, found while a worker had it. `None` inside: no task waits for
    ///    it.
    pub(crate) doomed: Option<Option<PageError>>,
    /// Its age: the largest is dropped first.
    pub(crate) serial: u64,
    pub(crate) took_ns: u64,
}

impl Making {
    pub(crate) fn new(inputs: Vec<PageId>, serial: u64) -> Self {
        let wanted = inputs.into_iter().zip(0u32..);
        let wanted = wanted.map(|(page, place)| DerivedInput { page, place, awaited: false, held: false }).collect();
        Self { wanted, busy: true, doomed: None, serial, took_ns: 0 }
    }
}

pub(crate) struct DerivedInput {
    pub(crate) page: PageId,
    /// Its index in the page map's list.
    pub(crate) place: u32,
    /// The page waits for its flight.
    pub(crate) awaited: bool,
    /// It was published while the page waited, and is held until the page map reads it.
    pub(crate) held: bool,
}
