//! Why rays cannot be cast.

use super::appearance::MOST_SOURCES;
use super::ray::LONGEST_STEP;
use super::transfer::TransferError;
use crate::draw::CameraError;

/// Why rays cannot be cast.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SceneError {
    /// The camera makes no sense.
    #[error(transparent)]
    Camera(#[from] CameraError),
    /// A length that is none.
    #[error("{0} must be a positive number")]
    Length(&'static str),
    /// No such channel.
    #[error("the volume has no channel {0}")]
    Channel(usize),
    /// Channels that are one colour lie in arrays of their own.
    #[error("channels {0:?} are not stored side by side, so they are no colour; show them as channels of their own")]
    Apart(Vec<usize>),
    /// Maxima of what has no order.
    #[error("projections and surfaces are those of numbers: colours and labels are composited")]
    Projected,
    /// Nodes that make no sense.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// More than a picture takes.
    #[error("a picture takes {MOST_SOURCES} volumes and channels at most, not {0}")]
    Many(usize),
    /// Steps that leave out too much.
    #[error("steps of {dt} along rays are longer than {} voxels; take at most {most}", LONGEST_STEP)]
    LongSteps {
        /// What was asked for.
        dt: f64,
        /// What would do.
        most: f64,
    },
    /// The voxels do not span a space.
    #[error("the volume's axes do not span a space, or its voxels have no size")]
    Flat,
    /// Pages or axes too long for 32 bits.
    #[error("the volume has {0} voxels along an axis; rays take at most 2^30")]
    Long(u32),
}
