//! Errors of scenes for rays.

use super::appearance::MOST_SOURCES;
use super::ray::LONGEST_STEP;
use super::transfer::TransferError;
use crate::draw::CameraError;

/// Why a scene is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SceneError {
    /// The camera is invalid.
    #[error(transparent)]
    Camera(#[from] CameraError),
    /// A length that is not positive and finite.
    #[error("{0} must be a positive number")]
    Length(&'static str),
    /// No such channel.
    #[error("the volume has no channel {0}")]
    Channel(usize),
    /// The channels of one colour are in different arrays.
    #[error("channels {0:?} are not stored side by side, so they are no colour; show them as channels of their own")]
    Apart(Vec<usize>),
    /// A maximum of values without an order.
    #[error("projections and surfaces are those of numbers: colours and labels are composited")]
    Projected,
    /// Invalid nodes.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// More volumes or channels than a picture may have.
    #[error("a picture takes {MOST_SOURCES} volumes and channels at most, not {0}")]
    Many(usize),
    /// Steps that skip too much.
    #[error("steps of {dt} along rays are longer than {} voxels; take at most {most}", LONGEST_STEP)]
    LongSteps {
        /// The requested step.
        dt: f64,
        /// The longest step allowed.
        most: f64,
    },
    /// The axes of the voxels are linearly dependent.
    #[error("the volume's axes do not span a space, or its voxels have no size")]
    Flat,
    /// Pages or axes too long for 32 bits.
    #[error("the volume has {0} voxels along an axis; rays take at most 2^30")]
    Long(u32),
}
