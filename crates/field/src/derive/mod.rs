//! Derived fields, page by page: gradients and users' definitions.
//!
//! A derived field is one more array of a zone, with the same page boxes as the stored ones. Its pages are made from
//! theirs ([`page::DerivedPages`]) on first demand. So all readers of stored fields read derived ones: lines, surfaces,
//! pictures, probes.
//!
//! Gradients are central differences in computational space, of the field and of the coordinates alike. So those of
//! linear fields are exact on any grid; see [`stencil`].

pub mod definitions;
pub mod derived_field;
pub mod fields;
pub mod page;
mod planes;
pub mod reach;
pub mod stencil;

pub use definitions::{Definitions, GRADIENTS};
