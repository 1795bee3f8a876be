//! Tracers, surfaces, slices and rays: restartable steps over pages.
//!
//! # Theory
//! A kernel advances a *task* (a line, a block or a tile) by restartable steps. A step reads resident pages only. If it
//! finds absent pages, it returns their names and changes nothing, except that finished parts (stages, rays, pixels)
//! stay finished. The caller requests the pages, steps other tasks meanwhile, and repeats the step when the pages are
//! resident.
//!
//! So no kernel contains a thread, a lock, a clock or a read. The result of a task depends on the data and the options
//! alone. It does not depend on the arrival of pages, the number of restarts, or other tasks.
//!
//! # Practice
//!
//! | modules | work |
//! |---|---|
//! | [`streamline`], [`pathline`], [`streakline`], [`timeline`], [`particle`] | tasks of lines and particles |
//! | [`cellstep`], [`cellsteps`], [`rk`] | one integration step: in a cell, in four cells at once, in physical space |
//! | [`flow`], [`unsteady`] | the sampled vector field: between zones, between time steps |
//! | [`mod@line`], [`saved_state`] | points of lines, states of packed and resumed tasks |
//! | [`rays`], [`cellrays`] | rays through volumes, rays through the cells of zones |
//! | [`draw`] | software renderer for lines, surfaces and points |
//! | [`mod@slice`] | planes sampled at pixels |
//! | [`surface`] | isosurfaces and planes of grids, block by block |
//! | [`cores`] | vortex cores |
//!
//! Access to nodes is generic ([`field::nodes::Nodes`]). Over arrays in memory a kernel runs without a pager, as its
//! tests do.

pub mod cellrays;
pub mod cellstep;
pub mod cellsteps;
pub mod cores;
pub mod draw;
pub mod flow;
pub mod line;
pub mod particle;
pub mod pathline;
mod pathoptions;
pub mod rays;
mod reason;
pub mod rk;
pub mod saved_state;
pub mod slice;
pub mod streakline;
pub mod streamline;
pub mod surface;
pub mod timeline;
pub mod unsteady;
