//! Rays through volumes.
mod bricks;
mod corners;
mod flat;
mod kept;
mod lanes;
mod look;
mod march;
mod mixed;
mod pages;
mod projected;
mod queue;
mod ray;
mod sample;
mod scene;
mod shade;
mod showing;
mod skip;
mod stops;
mod tile;
mod tint;
mod transfer;
mod window;

pub use kept::Kept;
pub use look::{Clip, ColourOpacity, Look, Manner, Paint, Projection, Shading};
pub use pages::{Context, Counts, Rooms};
pub use ray::LONGEST_STEP;
pub use scene::{Scene, SceneError, Setting, MOST_SOURCES};
pub use stops::{Gathered, MOST_STOPS};
pub use tile::{Bound, Layers, Pixels, RayTile, TILE};
pub use tint::{colour_of, full_range};
pub use transfer::{TransferError, TransferFunction};

pub(crate) use march::opaque_at;
pub(crate) use scene::View;
pub(crate) use shade::Lamps;
pub(crate) use transfer::{Entry, Table};
