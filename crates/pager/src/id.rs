//! Names of paged data. A page is identified by source array, level, step and page. [`ArrayId`] combines source and
//! level: it names one registered [`crate::map::PageMap`].

/// A registered array: one variable of one zone at one level, in one source.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArrayId(pub u32);

/// A registered [`crate::source::Source`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

/// One page: the unit of reading, residency and replacement.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageId {
    /// The array that the page belongs to.
    pub array: ArrayId,
    /// The time step, 0-based.
    pub step: u32,
    /// The page's number within the array and step. The page map defines its meaning.
    pub page: u64,
}

impl PageId {
    /// A page of `array` at `step`.
    pub const fn new(array: ArrayId, step: u32, page: u64) -> Self {
        Self { array, step, page }
    }
}
