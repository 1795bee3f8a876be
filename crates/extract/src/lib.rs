//! Geometry from datasets: isosurfaces, slices, grid surfaces, vortex cores.
//!
//! # Theory
//! Each is computed block by block. A block needs the pages of its nodes and a bounded working memory. Blocks are tasks
//! of the executor and finish in any order; their results are passed on in one fixed order. So results are the same to
//! the bit for every limit, page size and number of threads.
//!
//! # Practice
//!
//! | module | result | through |
//! |---|---|---|
//! | [`contour`] | isosurfaces and planes of zones and of volumes | pieces of meshes, or mesh files |
//! | [`sliceimage`] | slices at pixels | PNG, arrays |
//! | [`surfaces`] | faces and inner planes of zones | rows, or surface and mesh files |
//! | [`cores`] | vortex cores | lines |

pub mod contour;
pub mod cores;
pub mod sliceimage;
pub mod surfaces;
