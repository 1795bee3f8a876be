//! Derived fields, page by page: gradients and users' definitions.
//!
//! A derived field is one more array of a zone, with the same page boxes. Its pages are made from those of others
//! ([`page::DerivedPages`]) on first demand. So lines, surfaces, pictures and probes read derived fields as stored
//! ones.
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
