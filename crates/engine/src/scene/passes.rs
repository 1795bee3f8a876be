//! From rays of pixels to the light of their samples: what volumes and fields of flows have in common in pictures.

use crate::hatch;
use crate::limits::charge_other;
use crate::picture::{Depths, HazeRows, MOST_SAMPLES};
use crate::raycast::{Ends, Image};
use field::error::FieldError;
use pager::Pager;
use std::sync::Arc;

/// Has rays cast for the rows of `depths`, as often as the pixel with the most depths has depths, and lays what they gather into `light`.
/// `cast` is given the number of the pass and where rays end; with `None` there is no time for edges, and what is seen in front of one
/// surface is taken for the others of a pixel, too. Pixels that lack something are hatched; says how many they are.
///
/// # Errors
/// Those of `cast`; [`FieldError::LimitTooSmall`].
pub(super) fn lay(
    pager: &Arc<Pager>,
    depths: &Depths<'_>,
    light: &mut HazeRows,
    mut cast: impl FnMut(usize, Ends<'_>) -> Result<Option<Image>, FieldError>,
) -> Result<u64, FieldError> {
    let (rows, columns) = (depths.rows(), depths.columns());
    let each = || rows.clone().flat_map(|row| (0..columns).map(move |column| (row, column)));
    let most = light.most();
    let pixels = rows.len() * columns as usize;
    let _marks = charge_other(pager, pixels as u64, "marks of pixels that lack something")?;
    let mut lack = vec![false; pixels];
    // Samples of a pixel that lie at different depths, at edges, take a ray each; most pixels have one depth.
    for pass in 0..most {
        let depth = |x: u32, y: u32| {
            let mut each = [0.0; MOST_SAMPLES];
            let n = depths.of(y, x, &mut each);
            each[..n].get(pass).map_or(f64::NEG_INFINITY, |d| f64::from(*d))
        };
        let rows_of = &*light;
        let some = |x: u32, y: u32| rows_of.pixel(y, x).len() > pass;
        let wanted: Option<&dyn Fn(u32, u32) -> bool> = if pass > 0 { Some(&some) } else { None };
        let Some(image) = cast(pass, Ends { depth: &depth, wanted })? else {
            for (row, column) in each() {
                let all = light.pixel_mut(row, column);
                if let (Some(first), Some(to)) = (all.first().copied(), all.get_mut(pass)) {
                    *to = first;
                }
            }
            continue;
        };
        light.at_depth(pass, |n, to| {
            lack[n] |= image.gaps[n];
            *to = if image.gaps[n] {
                // Nobody is to take what is there for the whole.
                let [r, g, b] = hatch::linear([n as u32 % columns, rows.start + n as u32 / columns]);
                [r, g, b, 0.0]
            } else {
                let [r, g, b, a] = image.rgba[n];
                [r, g, b, 1.0 - a]
            };
        });
    }
    Ok(lack.iter().filter(|l| **l).count() as u64)
}
