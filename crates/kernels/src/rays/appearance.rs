//! How volumes are shown, as users say it.

use super::transfer::TransferFunction;
use field::volume::VolumeLevel;

/// What limits a volume in space; all of it holds at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clip {
    /// Planes, each a normal and an offset: what lies at `x . normal < offset` is cut away.
    pub planes: Vec<([f64; 3], f64)>,
    /// A box in space: its lower and its higher corner.
    pub within: Option<[[f64; 3]; 2]>,
    /// First and last voxel along i, j, k: a range of slices, say. The ends count.
    pub voxels: Option<[[f64; 2]; 3]>,
}

/// What gives a voxel its colour.
#[derive(Clone, Debug, PartialEq)]
pub enum VoxelPaint {
    /// A channel through a transfer function.
    Scalar {
        /// The channel.
        channel: usize,
        /// Over its stored numbers.
        transfer: TransferFunction,
    },
    /// Three channels that are red, green and blue of sRGB. Channels are interpolated as they are stored, and become light after that.
    Colour {
        /// The channels; they lie in one array.
        channels: [usize; 3],
        /// Stored numbers that are 0 and 1.
        limits: [[f64; 2]; 3],
        /// What makes them opaque.
        opacity: ColourOpacity,
    },
    /// Numbers that name what a voxel belongs to. The nearest voxel counts; what is named 0 is not shown.
    Labels {
        /// The channel.
        channel: usize,
        /// Colour (sRGB) of some; all others have one that follows from their number.
        colours: Vec<(u64, [f32; 3])>,
        /// Only these are shown; empty: all but 0.
        only: Vec<u64>,
        /// Opacity of one unit of length.
        opacity: f32,
    },
}

/// What makes colours opaque: nodes of a number from 0 to 1, and the opacity of one unit of length there.
#[derive(Clone, Debug, PartialEq)]
pub enum ColourOpacity {
    /// A channel in the same array, such as alpha.
    Channel {
        /// The channel.
        channel: usize,
        /// Stored numbers that are 0 and 1.
        limits: [f64; 2],
        /// Nodes.
        nodes: Vec<(f64, f32)>,
    },
    /// Luma of Rec. 709: 0.2126 R + 0.7152 G + 0.0722 B of the numbers as stored.
    Luminance(Vec<(f64, f32)>),
    /// Distance from a background colour (sRGB) in the cube of colours, of whose diagonal it is a share.
    Distance {
        /// The background.
        from: [f32; 3],
        /// Nodes.
        nodes: Vec<(f64, f32)>,
    },
}

/// What of a ray becomes its pixel.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub enum Projection {
    /// Light of all samples, each through those before it.
    #[default]
    Composite,
    /// The largest value, by the transfer function, whose opacities are then those of the pixel. It lies behind what is composited.
    Maximum,
    /// The mean of all values that are numbers; likewise.
    Mean,
    /// The first place where the value is reached, opaque, in the colour that the transfer function has there.
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

/// In which manner a volume is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manner {
    /// What of a ray becomes its pixel.
    pub projection: Projection,
    /// Takes the voxel that is nearest instead of interpolating.
    pub nearest: bool,
    /// Lights its gradients.
    pub shading: Option<Shading>,
    /// Length to which its opacities belong, instead of the picture's.
    pub unit: Option<f64>,
}

/// A volume, and how it is shown.
#[derive(Clone, Debug)]
pub struct VolumeAppearance {
    /// The level of it that is sampled.
    pub level: VolumeLevel,
    /// Time step.
    pub step: u32,
    /// Colours.
    pub paint: VoxelPaint,
    /// What is cut away.
    pub clip: Clip,
    /// How.
    pub manner: Manner,
}
