//! Fields that are made of others, page by page: gradients, and what users define.
//!
//! A derived field is one more array of a zone, cut in the same pages as the stored ones, whose pages are made of
//! theirs ([`page::DerivedPages`]) when they are first asked for. So whatever reads a stored field reads a derived one:
//! lines, surfaces, pictures, probes. Pages that nobody asks for are never made.
//!
//! Gradients are central differences in computational space, of the field and of the coordinates alike, so that those
//! of linear fields are exact on any grid; see [`stencil`].

pub mod definitions;
pub mod derived_field;
pub mod fields;
pub mod page;
mod planes;
pub mod reach;
pub mod stencil;

pub use definitions::{Definitions, GRADIENTS};
