//! Pictures of scenes: geometry by a software renderer, volumes and zones by rays. All memory fits the limit.
//!
//! # Theory
//! A pixel depends on the scene alone. Bands, the arrival order of pages and the number of threads do not change it.
//!
//! # Practice
//! A scene becomes a picture in these modules:
//!
//! | module | work |
//! |---|---|
//! | [`scene`] | reads the scene's document, gathers its objects, draws one picture or one for each time step |
//! | [`picture`] | draws geometry in bands of rows, blends volumes in, writes PNG |
//! | [`raycast`] | casts rays through volumes and zones as tasks of the executor |
//!
//! Before a change: `kernels` has the steps that draw and cast, and `runtime` runs them. Code here chooses rows, tiles
//! and their order, and charges their memory to the pager's ledger.

pub mod picture;
pub mod raycast;
pub mod scene;
