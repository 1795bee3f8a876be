//! Zones that a document describes: the files of a foreign format, as its reader reports them.
//!
//! # Theory
//! A reader (one Python module per format) knows headers alone. Its document names the zones and the places of their
//! numbers: runs of bytes in files, with type, byte order and strides, or rules. Pages, rows, boxes and identities
//! follow here for all formats.
//!
//! # Practice
//! [`DescribedZones::open`] checks a document, [`ZonesSpec`], against the files and makes it a
//! [`Format`](crate::format::Format) for [`Dataset::from_described`](crate::dataset::Dataset::from_described).

mod open;
mod spec;
#[cfg(test)]
mod tests;

pub use open::DescribedZones;
pub use spec::{ArraySpec, Place, RuleSpec, SourcesSpec, StoredSpec, ZoneSpec, ZonesSpec};
