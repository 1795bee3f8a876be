//! Slices as pictures: a plane through a volume or a dataset, sampled at the middles of pixels.
//!
//! # Theory
//! A slice is divided into tiles of [`TILE`] x [`TILE`] pixels, each a task. A step of a task visits every pixel of its
//! tile without a value, in order of rows. Pixels with resident pages are computed, and the absent pages of the others
//! are listed. So a tile requests all its pages at once, and a slow page delays only the pixels inside it.
//!
//! *Volumes.* Between the centres of voxels values are interpolated along i, j and k ([`Filter::Trilinear`]), or the
//! nearest voxel is used. A voxel extends half a voxel around its centre, and so does the volume. In the outermost
//! half, values are those of the outermost centres, so a volume one voxel thick has a thickness. A corner without
//! weight is not read: the place is a centre along that axis, to within [`SNAP`]. A corner that is missing or NaN makes
//! the value NaN.
//!
//! *Datasets.* A pixel uses the cell that a probe at its middle would find. Cold location finds a cell in each zone,
//! and the one of least volume is used, ties in file order. A cold search of a million pixels takes long, and
//! neighbours are mostly in the same or the next cell.
//!
//! So each pixel first walks there from the last pixel of its tile found in the zone
//! ([`field::locator::ZoneLocator::find_near`]). A cell that contains it well inside is the one of the cold search,
//! unless the zone overlaps itself there. Then it is one of the cells that contain the point. It is the same one every
//! time, since a tile is always computed in the same order. In any other case the search is cold.
//!
//! Invariant: a pixel's value depends on the plane, its tile (of fixed size), and the data. It does not depend on the
//! arrival of pages, nor on the thread.
//!
//! # Practice
//! [`PixelPlane`] places the pixels. [`VolumeSlice`] or [`GridSlice`] hold the common data of all tiles, and [`Tile`]
//! is the state of one.

mod grid;
mod plane;
mod tile;
mod volume;

pub use grid::{GridSlice, GridTile};
pub use plane::PixelPlane;
pub use tile::{Pixel, Tile, TILE};
pub use volume::{Filter, Pick, SliceArray, VolumeSlice, SNAP};
