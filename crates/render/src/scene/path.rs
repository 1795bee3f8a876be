//! Pictures along a camera path, and their time steps.

use super::document::{KeySpec, SceneDocument};
use field::error::FieldError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Picture {
    /// Number in its file's name: its place on the camera path, or its time step without a path.
    pub(super) number: usize,
    pub(super) step: usize,
}

/// Time steps of a picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PictureSteps {
    pub(crate) shown: usize,
    /// Time step of the next picture, if there is one.
    pub(crate) next: Option<usize>,
}

/// The chosen pictures of a path, with time steps interpolated between key frames.
pub(super) fn on_path(document: &SceneDocument, times: usize) -> Result<Vec<Picture>, FieldError> {
    let path = &document.path;
    let last = path.last().map_or(0, |k| k.frame);
    let step_of = |k: &KeySpec| k.step.unwrap_or(document.step);
    for key in path {
        if step_of(key) >= times {
            return Err(FieldError::Usage(format!(
                "path: there is no time step {}; the dataset has {times}, counted from 0",
                step_of(key)
            )));
        }
    }
    let step = |number: usize| {
        let next = path.iter().position(|k| k.frame >= number).unwrap_or(path.len() - 1);
        let (a, b) = (&path[next.saturating_sub(1)], &path[next]);
        let (from, to) = (step_of(a) as f64, step_of(b) as f64);
        let t =
            if b.frame > a.frame { (number.max(a.frame) - a.frame) as f64 / (b.frame - a.frame) as f64 } else { 1.0 };
        (from + (to - from) * t).round() as usize
    };
    let numbers = match &document.film {
        Some(film) => film.frames.of_path(last + 1)?,
        None => vec![0],
    };
    Ok(numbers.into_iter().map(|number| Picture { number, step: step(number) }).collect())
}
