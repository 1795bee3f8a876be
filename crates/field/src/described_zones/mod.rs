//! Zones that a document describes: what a reader of a foreign format says of its files.
//!
//! # Theory
//! A reader (in Python, a module a format) knows headers alone. It says which zones there are and where the numbers of
//! each array stand: in runs of bytes of files, with their type, byte order and distances, or by a rule. Everything
//! behind that is here and is the same for all formats: pages, rows, boxes, identities.
//!
//! # Practice
//! [`ZonesSpec`] is the document, [`DescribedZones::open`] checks it against the files and makes a
//! [`Format`](crate::format::Format) of it: [`Dataset::from_described`](crate::dataset::Dataset::from_described).

mod open;
mod spec;
#[cfg(test)]
mod tests;

pub use open::DescribedZones;
pub use spec::{ArraySpec, Place, RuleSpec, SourcesSpec, StoredSpec, ZoneSpec, ZonesSpec};
