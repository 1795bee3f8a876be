//! Rays through volumes.
mod bricks;
mod lanes;
mod march;
mod pages;
mod queue;
mod ray;
mod sample;
mod scene;
mod skip;
mod tile;
mod transfer;

pub use pages::{Context, Counts};
pub use ray::LONGEST_STEP;
pub use scene::{Clip, Look, Paint, Scene, SceneError, Setting};
pub use tile::{RayTile, TILE};
pub use transfer::{TransferError, TransferFunction};
