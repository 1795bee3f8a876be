//! Appearances of volumes, as users specify them.

use super::transfer::TransferFunction;
use field::volume::VolumeLevel;

/// Most volumes and channels of a picture.
pub const MOST_SOURCES: usize = 16;

/// The limits of a volume in space; all apply together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clip {
    /// Planes, each a normal and an offset: points with `x . normal < offset` are cut away.
    pub planes: Vec<([f64; 3], f64)>,
    /// A box in space: its lower and its higher corner.
    pub within: Option<[[f64; 3]; 2]>,
    /// First and last voxel along i, j, k (inclusive), such as a range of slices.
    pub voxels: Option<[[f64; 2]; 3]>,
}

/// The source of a voxel's colour.
#[derive(Clone, Debug, PartialEq)]
pub enum VoxelPaint {
    /// A channel through a transfer function.
    Scalar {
        /// The channel.
        channel: usize,
        /// Colours and opacities by stored number.
        transfer: TransferFunction,
    },
    /// Three channels that are red, green and blue of sRGB. Channels are interpolated as stored, and converted to light
    /// after that.
    Colour {
        /// The channels, in one array.
        channels: [usize; 3],
        /// Stored numbers for 0 and 1.
        limits: [[f64; 2]; 3],
        /// The source of their opacity.
        opacity: ColourOpacity,
    },
    /// Labels, which name the object of a voxel. The nearest voxel is used; label 0 is invisible.
    Labels {
        /// The channel.
        channel: usize,
        /// Colours (sRGB) of some; the others have one that follows from their number.
        colours: Vec<(u64, [f32; 3])>,
        /// Only these are visible; empty: all but 0.
        only: Vec<u64>,
        /// Opacity of one unit of length.
        opacity: f32,
    },
}

/// The source of the opacity of colours: nodes over a number from 0 to 1, and the opacity of one unit of length there.
#[derive(Clone, Debug, PartialEq)]
pub enum ColourOpacity {
    /// A channel in the same array, such as alpha.
    Channel {
        /// The channel.
        channel: usize,
        /// Stored numbers for 0 and 1.
        limits: [f64; 2],
        /// Nodes.
        nodes: Vec<(f64, f32)>,
    },
    /// Luma of Rec. 709: 0.2126 R + 0.7152 G + 0.0722 B of the numbers as stored.
    Luminance(Vec<(f64, f32)>),
    /// Distance from a background colour (sRGB) in the cube of colours, as a share of its diagonal.
    Distance {
        /// The background.
        from: [f32; 3],
        /// Nodes.
        nodes: Vec<(f64, f32)>,
    },
}

/// How a ray becomes its pixel.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub enum Projection {
    /// Light of all samples, each through those in front.
    #[default]
    Composite,
    /// The largest value through the transfer function; its opacity is that of the pixel. It is behind composited
    /// light.
    Maximum,
    /// The mean of all values except NaN; likewise.
    Mean,
    /// The first place that reaches the value, opaque, in its colour by the transfer function.
    Surface {
        /// A stored number.
        value: f64,
    },
}

/// Light on surfaces of equal value: Blinn-Phong, lit from both sides, with gradients by central differences of voxels.
#[derive(Clone, Debug, PartialEq)]
pub struct Shading {
    /// Light from everywhere, linear.
    pub ambient: [f32; 3],
    /// Lights: direction towards each, in space, and its linear colour times intensity.
    pub lights: Vec<([f64; 3], [f32; 3])>,
    /// Share of highlights.
    pub specular: f32,
    /// Their exponent.
    pub power: f32,
}

/// How a volume is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manner {
    /// How a ray becomes its pixel.
    pub projection: Projection,
    /// Uses the nearest voxel instead of interpolation.
    pub nearest: bool,
    /// Lights its gradients.
    pub shading: Option<Shading>,
    /// Length to which its opacities refer, instead of the picture's.
    pub unit: Option<f64>,
}

/// A volume and its appearance.
#[derive(Clone, Debug)]
pub struct VolumeAppearance {
    /// The sampled level.
    pub level: VolumeLevel,
    /// Time step.
    pub step: u32,
    /// Colours.
    pub paint: VoxelPaint,
    /// Its limits in space.
    pub clip: Clip,
    /// How it is shown.
    pub manner: Manner,
}
