//! Element types of volumes, and the contents of a page in memory.

use serde::{Deserialize, Serialize};

/// Element type of a volume in frames (native byte order).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VoxelType {
    /// 8-bit unsigned integer.
    Uint8,
    /// 8-bit signed integer.
    Int8,
    /// 16-bit unsigned integer.
    Uint16,
    /// 16-bit signed integer.
    Int16,
    /// 32-bit unsigned integer.
    Uint32,
    /// 32-bit signed integer.
    Int32,
    /// 64-bit unsigned integer.
    Uint64,
    /// 64-bit signed integer.
    Int64,
    /// IEEE single precision.
    Float32,
    /// IEEE double precision.
    Float64,
}

impl VoxelType {
    /// All types.
    pub const ALL: [Self; 10] = [
        Self::Uint8,
        Self::Int8,
        Self::Uint16,
        Self::Int16,
        Self::Uint32,
        Self::Int32,
        Self::Uint64,
        Self::Int64,
        Self::Float32,
        Self::Float64,
    ];

    /// Bytes of an element.
    pub const fn size(self) -> usize {
        match self {
            Self::Uint8 | Self::Int8 => 1,
            Self::Uint16 | Self::Int16 => 2,
            Self::Uint32 | Self::Int32 | Self::Float32 => 4,
            Self::Uint64 | Self::Int64 | Self::Float64 => 8,
        }
    }

    /// Whether it has integers that double precision lacks.
    pub const fn is_wide(self) -> bool {
        matches!(self, Self::Uint64 | Self::Int64)
    }

    /// NumPy's and Zarr's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uint8 => "uint8",
            Self::Int8 => "int8",
            Self::Uint16 => "uint16",
            Self::Int16 => "int16",
            Self::Uint32 => "uint32",
            Self::Int32 => "int32",
            Self::Uint64 => "uint64",
            Self::Int64 => "int64",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
        }
    }

    /// The type with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }
}

/// A Rust type of voxels.
pub trait Voxel: Copy + PartialOrd + Send + Sync + 'static {
    /// Its name at run time.
    const TYPE: VoxelType;
    /// The nearest number in single precision.
    fn to_f32(self) -> f32;
    /// The nearest number in double precision.
    fn to_f64(self) -> f64;
    /// The number without its fraction.
    fn to_whole(self) -> i128;
}

macro_rules! voxels {
    ($($t:ty => $name:ident),*) => { $(
        impl Voxel for $t {
            const TYPE: VoxelType = VoxelType::$name;
            #[inline(always)]
            fn to_f32(self) -> f32 { self as f32 }
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
            #[inline(always)]
            fn to_whole(self) -> i128 { self as i128 }
        }
    )* };
}

voxels!(u8 => Uint8, i8 => Int8, u16 => Uint16, i16 => Int16, u32 => Uint32, i32 => Int32, u64 => Uint64, i64 => Int64,
    f32 => Float32, f64 => Float64);

/// Runs code for the Rust type of a [`VoxelType`]: `with_voxel!(kind, T => expression with T)`.
#[macro_export]
macro_rules! with_voxel {
    ($kind:expr, $t:ident => $body:expr) => {
        match $kind {
            $crate::volume::VoxelType::Uint8 => {
                type $t = u8;
                $body
            }
            $crate::volume::VoxelType::Int8 => {
                type $t = i8;
                $body
            }
            $crate::volume::VoxelType::Uint16 => {
                type $t = u16;
                $body
            }
            $crate::volume::VoxelType::Int16 => {
                type $t = i16;
                $body
            }
            $crate::volume::VoxelType::Uint32 => {
                type $t = u32;
                $body
            }
            $crate::volume::VoxelType::Int32 => {
                type $t = i32;
                $body
            }
            $crate::volume::VoxelType::Uint64 => {
                type $t = u64;
                $body
            }
            $crate::volume::VoxelType::Int64 => {
                type $t = i64;
                $body
            }
            $crate::volume::VoxelType::Float32 => {
                type $t = f32;
                $body
            }
            $crate::volume::VoxelType::Float64 => {
                type $t = f64;
                $body
            }
        }
    };
}

/// Voxels of a block along each axis. A block is the unit of skipping within a page.
pub const BLOCK: usize = 4;

/// The contents of a volume page's frame. First come the voxels of a full page box as `[k][j][i][component]`, in native
/// byte order. They include padding past the volume's end, with undefined contents. From [`Brick::ranges_at`] on, each
/// block of [`BLOCK`]^3 voxels has its lowest and highest value, in the voxels' type, as
/// `[block k][block j][block i][component]`.
///
/// The range of a block is that of the cells whose low corner lies in it, as far as their corners lie in this page. So
/// it includes the layer after the block. NaN is ignored; a block without numbers has its lowest above its highest.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Brick {
    /// Voxels of a full page along i, j, k.
    pub page: [u32; 3],
    /// Numbers of a voxel: 1, 3 or 4 for colours, or the number of interleaved channels.
    pub components: usize,
    /// Their type.
    pub voxel: VoxelType,
}

impl Brick {
    /// Voxels of a full page.
    pub const fn voxels(&self) -> usize {
        self.page[0] as usize * self.page[1] as usize * self.page[2] as usize
    }

    /// Bytes of the voxels.
    pub const fn voxel_bytes(&self) -> usize {
        self.voxels() * self.components * self.voxel.size()
    }

    /// Blocks along i, j, k.
    pub const fn blocks(&self) -> [usize; 3] {
        [
            (self.page[0] as usize).div_ceil(BLOCK),
            (self.page[1] as usize).div_ceil(BLOCK),
            (self.page[2] as usize).div_ceil(BLOCK),
        ]
    }

    /// Offset of the ranges of blocks, a multiple of 64. At least eight unused bytes follow the voxels, so that reads
    /// slightly past the last voxel stay within the page.
    pub const fn ranges_at(&self) -> usize {
        (self.voxel_bytes() + 8).next_multiple_of(64)
    }

    /// Bytes of a frame.
    pub const fn bytes(&self) -> usize {
        let [bi, bj, bk] = self.blocks();
        self.ranges_at() + bi * bj * bk * self.components * 2 * self.voxel.size()
    }
}
