//! A derived page in the making: its inputs, and what became of them.

use crate::error::PageError;
use crate::id::PageId;

/// What is left to do for a derived page.
pub(crate) struct Making {
    /// 1. Inputs that were not taken yet.
    pub(crate) wanted: Vec<DerivedInput>,
    /// 2. The page has arrived, or a worker has it: then nobody else touches its frame and scratch, nor frees them.
    pub(crate) busy: bool,
    /// 3. The reason why the page will not be made, found out while a worker had it. `None` inside: nobody waits for it.
    pub(crate) doomed: Option<Option<PageError>>,
    /// Its age: later ones are given up first.
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

/// An input.
pub(crate) struct DerivedInput {
    pub(crate) page: PageId,
    /// Its place in the list of the page map.
    pub(crate) place: u32,
    /// The page waits for its flight.
    pub(crate) awaited: bool,
    /// It was published while the page waited, and is held until it is taken.
    pub(crate) held: bool,
}
