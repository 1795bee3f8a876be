//! Places over networks. It knows no cells, grids or formats.

pub mod page_server;
