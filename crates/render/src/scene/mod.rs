//! Scenes: from a document that describes a picture to the picture.
//!
//! # Practice
//! [`render`] parses the document ([`SceneDocument`]) and opens its source. It gathers geometry object by object into
//! one log under the ledger: lines of files and traces, grid surfaces row by row, edges of zones. Then it settles what
//! depends on all objects: ranges of colour maps, camera, radius of lines. [`crate::picture`] draws layers over that
//! log in charged bands and writes the PNG. Drawing geometry reads no page.
//!
//! A scene may have several pictures ([`ViewSpec`]) of many time steps ([`FilmSpec`]). All objects of one step are
//! gathered for all pictures before those of the next, so that the series is read once.

mod appearance;
mod cellfog;
mod colour_maps;
mod contours;
mod depth_compositing;
mod destination;
mod document;
mod drawing;
mod error_context;
mod faces;
mod film;
mod frame_names;
mod gather;
mod geometry_log;
mod meshes;
mod moving_lines;
mod objects;
mod overview;
mod parts;
mod path;
mod resume;
mod studio;
#[cfg(test)]
mod tests;
mod video;
mod view;
mod volumes;
mod wall_sides;

pub use document::{CameraSpec, FilmSpec, Frames, KeySpec, MapSpec, Projection, Rgb, SceneDocument, ViewSpec};
pub use objects::{ColourBy, LinesFrom, MeshFrom, Object, Paint, VolumeLook, VolumeTint};
pub use overview::look;

use crate::raycast::SharedBricks;
use field::error::FieldError;
use field::volume::VolumeSpec;
use film::Film;
use runtime::session::{ProgressWatch, Resources, Session, Source};
use serde::Deserialize;
use serde_json::{json, Value};
use std::path::Path;
use std::sync::Arc;
use studio::Studio;

/// Draws a scene to a PNG, or to the files that it names.
///
/// # Errors
/// [`FieldError`]: a scene without sense, missing names, a failed read or write, a limit without room for one row, an
/// interruption. No unfinished file remains. Of several pictures the finished ones remain.
pub fn render(
    scene: &str,
    tables: Vec<Vec<u8>>,
    output: &Path,
    resources: Resources,
    watch: &mut ProgressWatch<'_>,
) -> Result<Value, FieldError> {
    let document = SceneDocument::parse(scene)?;
    let sizes = document.views.iter().filter_map(|v| v.size).chain([document.size]);
    for [width, height] in sizes {
        if width == 0 || height == 0 || width.max(height) > kernels::draw::MOST_PIXELS_A_SIDE {
            return Err(FieldError::Usage(format!(
                "a picture of {width} x {height} pixels cannot be drawn: both sides have to be between 1 and {}",
                kernels::draw::MOST_PIXELS_A_SIDE
            )));
        }
    }
    film::check_outputs(&document, output)?;
    let source = match &document.source {
        None => Source::Nothing,
        Some(source) => match source.get("volume") {
            None => parts::source(source.clone())?.into(),
            Some(spec) => {
                let spec = VolumeSpec::deserialize(spec);
                let spec = spec.map_err(|e| FieldError::Usage(format!("scene: source: {e}")))?;
                Source::PicturedVolume(Box::new(spec), tables)
            }
        },
    };
    let session = Session::open(source, resources, watch)?;
    if session.is_flow() {
        for (name, map) in &document.maps {
            session.derive(&[&map.field]).map_err(|e| error_context::placed_in_map(&document, name, e))?;
        }
    }
    let kept = Arc::new(SharedBricks::default());
    let studio = Studio { document: &document, session: &session, kept: &kept };
    let mut found = Film::new(&studio, output, watch)?.make(watch)?;
    found["stats"] = json!(session.stats());
    Ok(found)
}
