//! Styles of layers.

use super::colour::Colour;
use serde::{Deserialize, Serialize};

/// Radius of tubes and spheres.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Radius {
    /// In the units of the data.
    Physical(f64),
    /// In pixels of the picture, the same near and far.
    Pixels(f32),
}

/// The response of a surface to light.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// No highlight: for bodies with readable colours.
    #[default]
    Matte,
    /// A soft highlight: for tubes.
    Satin,
    /// Unlit: for outlines.
    Flat,
}

/// The sides from which the quads of structured surfaces are visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VisibleSides {
    /// From both.
    #[default]
    Both,
    /// The side to which the cross product of the first and the second direction points; from the other a quad is
    /// invisible.
    Front,
    /// Only the other side.
    Back,
}

/// Style of a layer; each kind of piece uses the parts that it needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Style {
    /// Colour.
    pub colour: Colour,
    /// Radius of tubes and spheres without a radius of their own.
    pub radius: Radius,
    /// Smallest radius of tubes and spheres in pixels, so that none falls between the samples.
    pub min_pixels: f32,
    /// Response to light.
    pub finish: Finish,
    /// 1 is opaque, 0 is invisible.
    pub opacity: f32,
    /// Moves tubes and spheres towards the eye by this many pixels, so that a line on a surface is not half buried in
    /// it.
    pub lift_pixels: f32,
    /// Visible sides of its quads.
    pub seen_from: VisibleSides,
}

impl Style {
    /// Lit tubes of a radius.
    pub fn tubes(colour: Colour, radius: Radius) -> Style {
        Style {
            colour,
            radius,
            min_pixels: 0.7,
            finish: Finish::Satin,
            opacity: 1.0,
            lift_pixels: 0.0,
            seen_from: VisibleSides::Both,
        }
    }

    /// An opaque surface.
    pub fn surface(colour: Colour) -> Style {
        Style {
            colour,
            radius: Radius::Pixels(1.0),
            min_pixels: 0.7,
            finish: Finish::Matte,
            opacity: 1.0,
            lift_pixels: 0.0,
            seen_from: VisibleSides::Both,
        }
    }

    /// Thin flat lines, for the edges of zones.
    pub fn outline(colour: Colour, width_pixels: f32) -> Style {
        Style {
            colour,
            radius: Radius::Pixels(width_pixels * 0.5),
            min_pixels: 0.4,
            finish: Finish::Flat,
            opacity: 1.0,
            lift_pixels: 1.0,
            seen_from: VisibleSides::Both,
        }
    }

    /// Small spheres, for seeds.
    pub fn points(colour: Colour, radius: Radius) -> Style {
        Style {
            colour,
            radius,
            min_pixels: 1.5,
            finish: Finish::Satin,
            opacity: 1.0,
            lift_pixels: 0.0,
            seen_from: VisibleSides::Both,
        }
    }
}
