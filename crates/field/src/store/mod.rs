//! store
pub mod codec;
