//! How a layer looks.

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

/// How a surface answers to light.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// No highlight: for bodies, where colour is to be read.
    #[default]
    Matte,
    /// A soft highlight: for tubes.
    Satin,
    /// Not lit at all: for outlines.
    Flat,
}

/// From which side the quads of structured surfaces are seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SeenFrom {
    /// From both.
    #[default]
    Both,
    /// From where the cross product of the first and the second direction points; from behind a quad is not there.
    Front,
    /// From the other side alone.
    Back,
}

/// Look of a layer; each kind of piece takes from it what it needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Style {
    /// Colour.
    pub colour: Colour,
    /// Radius of tubes and spheres that bring none.
    pub radius: Radius,
    /// Tubes and spheres never look thinner than this radius in pixels, so that none falls between the samples.
    pub min_pixels: f32,
    /// How it answers to light.
    pub finish: Finish,
    /// 1 hides what is behind, 0 shows nothing of the layer.
    pub opacity: f32,
    /// Lifts tubes and spheres towards the eye by this many pixels, so that a line on a surface is not half buried in it.
    pub lift_pixels: f32,
    /// From which side its quads are seen.
    pub seen_from: SeenFrom,
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
            seen_from: SeenFrom::Both,
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
            seen_from: SeenFrom::Both,
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
            seen_from: SeenFrom::Both,
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
            seen_from: SeenFrom::Both,
        }
    }
}
