//! Places over networks. It knows no cells, grids or formats.

pub mod http;
pub mod net;
mod options;

pub use options::{options, set_options, NetworkOptions};

/// Registers the places of all schemes of this crate. Connections are made at their first use.
pub fn register() {
    http::register();
}
