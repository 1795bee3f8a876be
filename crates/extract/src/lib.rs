//! Geometry out of datasets: isosurfaces, slices, grid surfaces, vortex cores.
//!
//! # Theory
//! Each is computed block by block: a block needs the pages of its nodes and little beside them, and blocks are handed over in one order.
//! So results are the same to the bit for every limit, page size and number of threads.
//!
//! # Practice
//! [`contour`] draws surfaces of zones and of volumes, [`sliceimage`] pictures and arrays of planes, [`surfaces`] parts of grid surfaces,
//! [`cores`] vortex cores.

pub mod contour;
pub mod cores;
pub mod sliceimage;
pub mod surfaces;
