//! Pictures of scenes: geometry by a software renderer, volumes by rays, both in bands that fit the limit.
//!
//! # Theory
//! A pixel depends on the scene alone: not on the band that it is drawn in, on the pages that come first, or on the number of threads.
//!
//! # Practice
//! [`scene`] reads a scene and draws it, once or for every time step; [`picture`] draws geometry in bands; [`raycast`] casts rays through
//! volumes and zones as tasks of the executor.

pub mod picture;
pub mod raycast;
pub mod scene;
