//! Drawing: a software renderer for lines, surfaces and points, with nothing from outside.
//!
//! # Theory
//! Every sample of every pixel finds what is nearest to the eye: tubes and spheres by the exact intersection with its ray, triangles by
//! exact coverage. What is seen is lit once all is known, in linear light, and averaged over the pixel. See-through layers are
//! peeled from the front (Everitt 2001), so that their order is exact as well.
//!
//! # Practice
//! [`Stage`] holds a picture that is ready to be drawn, [`Canvas`] the buffers of a band of it. Geometry is streamed through
//! [`Geometry`], as often as there are bands. Nothing here reads a file, starts a thread or knows the time.
//!
//! Invariants:
//! 1. A pixel is the same to the bit whatever band it is drawn in, in whatever order the bands, the pieces of a layer and the primitives
//!    of a piece come. Reason: the picture must not depend on the memory limit or on the number of workers. So nothing is computed from a
//!    band's own origin, no sum runs over primitives, and ties in depth go to the smaller key.
//! 2. Memory follows from the rows of a canvas, never from the geometry.

// `!(a > b)` is how a NaN is sent the way of what is out of range, all over this module.
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
pub use style::{Finish, Radius, SeenFrom, Style};
pub use ticks::{superscript, ticks, Ticks};
