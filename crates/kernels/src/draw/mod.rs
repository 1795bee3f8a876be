//! Drawing: a software renderer for lines, surfaces and points.
//!
//! # Theory
//! Every sample of every pixel finds the nearest point to the eye. Tubes and spheres are intersected exactly with its
//! ray, and triangles cover it exactly. Visible points are lit after all are known, in linear light, and averaged over
//! the pixel. Transparent layers are peeled from the front (Everitt 2001), so their order is exact, too.
//!
//! # Practice
//! [`Stage`] holds a picture that is ready to be drawn, [`Canvas`] the buffers of one of its bands. Geometry is
//! streamed through [`Geometry`], once for each band or more. This module reads no file, starts no thread and has no
//! clock.
//!
//! Invariants:
//! 1. A pixel is the same to the bit for any band. It is also the same for any order of bands, of a layer's pieces and
//!    of a piece's primitives. Reason: the picture must not depend on the memory limit or the number of workers. So no
//!    value is computed from a band's own origin, no sum runs over primitives, and the smaller key wins ties in depth.
//! 2. Memory follows from the rows of a canvas, never from the geometry.

// `!(a > b)` treats a NaN like a value out of range, throughout this module.
#![allow(clippy::neg_cmp_op_on_partial_ord)]

mod band;
mod camera;
mod canvas;
mod chunk;
mod colour;
mod furniture;
mod geometry;
pub mod hatch;
mod haze;
mod light;
mod marks;
mod occlusion;
mod overlay;
mod projector;
mod stage;
mod style;
#[cfg(test)]
mod tests;
mod text;
mod ticks;
mod triangle;
mod tube;

pub use band::Samples;
pub use camera::{Camera, CameraError, Fit, Frame, Lens, View, MAX_COORDINATE};
pub use canvas::{gathered, Canvas};
pub use chunk::DrawCounts;
pub use colour::{linear_to_srgb, readable, srgb_to_linear, Colour, ColourMap, ColourMapError, Srgb8};
pub use furniture::{Axes, Furniture, Note, NotePosition, ScalarBar, ScaleBar};
pub use geometry::{Aabb, BoxFilter, Chunk, Geometry, GeometryError, Mesh, Polyline, Positions, QuadGrid, Spheres};
pub use glam::DVec3;
pub use haze::{Depths, Haze, HazeRows, MOST_SAMPLES};
pub use light::{Background, Effects, Light, Lighting};
pub use marks::Marks;
pub use stage::{
    bounds_of, fit_all, fit_layers, pixel_scale, Layer, Stage, StageError, StageSetting, Survey, MOST_PIXELS_A_SIDE,
};
pub use style::{Finish, Radius, Style, VisibleSides};
pub use ticks::{superscript, ticks, Ticks};
