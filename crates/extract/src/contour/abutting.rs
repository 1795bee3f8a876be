//! The continuation of a part of an isosurface in other zones.
//!
//! # Theory
//! A part leaves a zone through grid edges in the zone's outermost faces. The crossing of such an edge is a point of
//! the surface, and slightly farther out is an abutting or overlapping zone. Faces of abutting zones mostly have the
//! same nodes. Then the point is on an edge of the neighbour, too, and all sheets of its cells with that edge belong to
//! the part. Otherwise (other spacing, overlap) the nearest sheet within a cell does.
//!
//! A zone may abut itself, as at the seam of an O-grid.

use super::connected::{Exit, Joint, ZonePoint};
use super::grid::Grid;
use field::dataset::Dataset;
use field::error::FieldError;
use field::locator::CellId;
use field::nodes::Miss;
use field::simd::V4;
use pager::PageError;
use runtime::blocking::BlockingFlow;
use runtime::session::Session;

/// Distances beyond a face at which the other zone is searched, in cells: coordinates are rounded, and curved faces
/// have gaps.
const BEYOND: [f64; 3] = [1e-4, 1e-2, 0.1];

/// Finds the continuations of parts.
pub(crate) struct Across<'a> {
    flow: BlockingFlow<'a>,
    /// The zone of each grid, and the grid of each zone that has one.
    zones: Vec<usize>,
    grids: Vec<Option<usize>>,
    dims: Vec<[u32; 3]>,
    values: Vec<f64>,
    /// Errors of searches.
    pub lost: Vec<PageError>,
}

impl<'a> Across<'a> {
    /// For some values of a field at a time step.
    ///
    /// # Errors
    /// [`FieldError::Usage`].
    pub fn new(
        session: &'a Session,
        dataset: &Dataset,
        grids: &[Box<dyn Grid + '_>],
        (field, values): (&str, &[f64]),
        step: usize,
    ) -> Result<Self, FieldError> {
        let zones: Vec<usize> = grids.iter().map(|g| g.zone()).collect();
        let of = |zone: &usize| zones.iter().position(|z| z == zone);
        let by_zone: Vec<Option<usize>> = (0..dataset.zones.len()).map(|zone| of(&zone)).collect();
        let sampled = |zone: usize| by_zone[zone].map(|_| field.to_owned()).into_iter().collect();
        let fields = dataset.fields_by_zone(step, &sampled)?;
        let flow = BlockingFlow::new(session, dataset, fields, step)?;
        let dims = grids.iter().map(|g| g.dims()).collect();
        Ok(Self { flow, zones, grids: by_zone, dims, values: values.to_vec(), lost: Vec::new() })
    }

    /// The grids in which the surface continues beyond an edge, and the places.
    ///
    /// # Errors
    /// [`FieldError::LimitTooSmall`]. Unreadable pages are listed in `lost`.
    pub fn beyond(&mut self, grid: usize, value: usize, exit: Exit) -> Result<Vec<(usize, Joint)>, FieldError> {
        let dims = self.dims[grid];
        let mut ijk: [u32; 3] = core::array::from_fn(|a| exit.node[a].min(dims[a] - 2));
        let axis = usize::from(exit.axis);
        if !exit.high {
            ijk[axis] = 0;
        }
        let cell = CellId { zone: self.zones[grid] as u32, ijk };
        let corner = (0..3).fold(0, |bits, a| bits | ((exit.node[a] - ijk[a]) as usize) << a);
        let ends = [corner, corner | 1 << exit.along];
        let (sought, grids) = (self.values[value], &self.grids);
        let found = self.flow.until_here(|flow| {
            let (map, [low, high]) = {
                let loaded = flow.space.cell(cell)?;
                let values = loaded.sampled.first();
                (loaded.map(), ends.map(|c| values.map_or(f64::NAN, |v| v[c])))
            };
            let part = (sought - low) / (high - low);
            let mut rst: [f64; 3] = core::array::from_fn(|a| (corner >> a & 1) as f64);
            rst[usize::from(exit.along)] = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.5 };
            let mut found: Vec<(usize, Joint)> = Vec::new();
            let mut miss = None;
            for beyond in BEYOND {
                rst[axis] = if exit.high { 1.0 + beyond } else { -beyond };
                let x = V4::from_xyz(map.point(rst));
                for (zone, of) in grids.iter().enumerate() {
                    let Some(of) = of.filter(|of| found.iter().all(|(known, _)| known != of)) else { continue };
                    match flow.space.find(zone, x) {
                        Ok(Some(spot)) => {
                            let at = ZonePoint { index: spot.index(), x: x.xyz() };
                            found.push((of, Joint { at, within: slack(beyond) }));
                        }
                        Ok(None) => {}
                        Err(Miss::Failed) => return Err(Miss::Failed),
                        // Other zones are searched too, so that all absent pages are reported at once.
                        Err(absent) => miss = Some(absent),
                    }
                }
            }
            miss.map_or(Ok(found), Err)
        });
        match found {
            Err(FieldError::Page(e)) => {
                self.lost.push(e);
                Ok(Vec::new())
            }
            found => found,
        }
    }
}

/// Distance from an edge within which a point on it may be found. It was searched that far beyond the face, and grid
/// lines bend there.
fn slack(beyond: f64) -> f64 {
    1e-3 + 10.0 * beyond
}
