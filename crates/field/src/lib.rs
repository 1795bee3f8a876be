//! Datasets: formats, page maps, cells, point location, interpolation, derived fields. This crate knows cells and
//! formats, but no algorithms or threads.
//!
//! # Theory
//! A dataset consists of domains: zones of structured grids, or one volume. Its arrays lie in files and are cut into
//! boxes of points, the pages of [`pager`]. Kernels name cells, points and fields; this crate translates them to pages
//! and reads the resident ones. If a page is absent, the call lists it and returns a [`Miss`](nodes::Miss). Every call
//! may be repeated: values never depend on earlier calls.
//!
//! # Practice
//!
//! | modules | work |
//! |---|---|
//! | [`plot3d`], [`described_zones`], [`store`], [`volume`] | formats: a [`Catalog`](catalog::Catalog) and page maps |
//! | [`dataset`] | an open dataset: arrays registered with a pager, metadata charged |
//! | [`paging`], [`translate`] | from a node to its page |
//! | [`nodes`], [`paged`], [`in_memory`] | access to nodes, over pages or over arrays in memory |
//! | [`domain`], [`locator`], [`boxes`], [`lattice`] | cells of any kind of domain, and point location |
//! | [`cell`], [`shape`], [`reference_cell`], [`simd`] | the trilinear map of a cell |
//! | [`time_interpolated`], [`in_memory_series`], [`motion`] | grids between time steps |
//! | [`quantity`], [`derive`](mod@derive), [`expression`], [`units`] | derived fields, at nodes or as derived pages |
//!
//! A sample goes from [`locator::ZoneLocator`] through its cell cache to [`nodes::Nodes`], and from there to resident
//! pages. To add a kind of domain, see [`domain`]; to add a format, see [`format`](mod@format).
//!
//! Before a change: results are equal bit for bit whatever the page boxes and the order of calls. Bytes that grow with
//! a dataset are charged before they are allocated. A step that reads more pages needs more in
//! [`domain::Domains::step_bytes`], or runs may not end.

pub mod array_layout;
pub mod boxes;
pub mod byte_runs;
pub mod cache_records;
pub mod catalog;
pub mod cell;
mod cell_cache;
mod cell_pages;
mod closure;
pub mod computed_array;
pub mod curve;
pub mod data_files;
pub mod dataset;
pub mod decimal;
pub mod derive;
pub mod described_zones;
pub mod domain;
pub mod error;
pub mod expression;
pub mod field_selection;
pub mod file;
pub mod format;
mod freestream;
mod heap_size;
pub mod in_memory;
pub mod in_memory_series;
pub mod inplace;
pub mod interleave;
pub mod json;
mod labels;
pub mod lattice;
pub mod locator;
pub mod motion;
pub mod nodes;
pub mod options;
pub mod paged;
pub mod paging;
pub mod plot3d;
pub mod quantity;
pub mod reference_cell;
pub mod series;
pub mod shape;
pub mod simd;
pub mod store;
pub mod stored_numbers;
pub mod time_interpolated;
pub mod translate;
pub mod uniform;
mod unique_names;
pub mod units;
pub mod usage;
pub mod volume;
mod zone_domain;
