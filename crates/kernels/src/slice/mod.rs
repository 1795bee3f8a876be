//! Slices as pictures: a plane through a volume or a dataset, sampled at the middles of pixels.
//!
//! # Theory
//! A slice is cut into tiles of [`TILE`] x [`TILE`] pixels, each a task. A step of a task looks at every pixel of its tile that has no
//! value yet, in order of rows: pixels whose pages are here are done, of the others the absent pages are listed. So a tile asks for
//! its pages all at once, and one page that is long in coming holds up only those pixels that lie in it.
//!
//! *Volumes.* Between the centres of voxels values are interpolated along i, j and k ([`Filter::Trilinear`]), or the nearest voxel
//! is taken. A voxel reaches half a voxel around its centre, and so does the volume: in the outermost half, values are those of the
//! outermost centres, so that a volume one voxel thick has a thickness. A corner that has no part in a value (the place is a centre
//! along that axis, to within [`SNAP`]) is not looked at. A corner that is missing or no number makes none of the value.
//!
//! *Datasets.* A pixel takes the cell that a probe at its middle would find: of the cells that cold location finds in each zone the
//! one of least volume, ties in file order. A cold search of a million pixels takes long, and neighbours mostly lie in the same or the
//! next cell. So each pixel first walks there from the last pixel of its tile that lay in the zone
//! ([`field::locator::Space::find_near`]); a cell that holds it well inside is what the cold search would find, unless the zone lies over
//! itself there; then it is one of the cells that hold the point, the same one every time, since a tile is always made in the same
//! order. In any other case the search is cold.
//!
//! Invariant: a pixel's value depends on the plane, the tile that it lies in (whose size is fixed), and the data; not on what pages came
//! when, nor on who makes it.
//!
//! # Practice
//! [`PixelPlane`] says where pixels are. [`VolumeSlice`] or [`GridSlice`] hold what all tiles have in common, [`Tile`] is the state of one.

mod grid;
mod plane;
mod tile;
mod volume;

pub use grid::{GridSlice, GridTile};
pub use plane::PixelPlane;
pub use tile::{Pixel, Tile, TILE};
pub use volume::{Filter, Pick, SliceArray, VolumeSlice, SNAP};
