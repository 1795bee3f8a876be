//! Bytes to pinned pages under one ledger.
//!
//! The pager knows sources, extents, codecs (through [`map::PageMap`]), frames, residency and replacement. It does not
//! know cells, grids, or formats of datasets.

pub mod error;
pub mod id;
pub mod map;
pub mod source;
