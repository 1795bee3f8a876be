//! Where a part of an isosurface goes on when it leaves its zone.
//!
//! # Theory
//! A part leaves a zone through edges of the grid that lie in the zone's outermost faces. Where such an edge is crossed is a point of the
//! surface, and a little farther out it lies in whichever zone abuts there, or overlaps. Faces of abutting zones mostly have the same
//! nodes: then the point lies on an edge of the neighbour, too, and all sheets of its cells with that edge are of the part. Where it does
//! not (other spacing, overlap) the sheet that is nearest within a cell is.
//!
//! A zone may abut on itself, as at the seam of an O-grid.

use super::connected::{Exit, Joint, ZonePoint};
use super::grid::Grid;
use field::dataset::Dataset;
use field::error::FieldError;
use field::locator::CellId;
use field::nodes::Miss;
use field::paged::PagedNodes;
use field::simd::V4;
use kernels::flow::GridFlow;
use pager::PageError;
use runtime::blocking::{blocking_flow, until_here};
use runtime::session::Session;

/// How far beyond a face the other zone is looked for, in parts of a cell: coordinates are rounded, and curved faces gape.
const BEYOND: [f64; 3] = [1e-4, 1e-2, 0.1];

/// Finds where parts go on.
pub(crate) struct Across<'a> {
    session: &'a Session,
    flow: GridFlow<PagedNodes>,
    /// The zone of each grid, and the grid of each zone that has one.
    zones: Vec<usize>,
    grids: Vec<Option<usize>>,
    dims: Vec<[u32; 3]>,
    values: Vec<f64>,
    /// Why places could not be looked for.
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
        let flow = blocking_flow(session, dataset, fields, step)?;
        let dims = grids.iter().map(|g| g.dims()).collect();
        Ok(Self { session, flow, zones, grids: by_zone, dims, values: values.to_vec(), lost: Vec::new() })
    }

    /// Grids in which the surface goes on beyond an edge, and where.
    ///
    /// # Errors
    /// [`FieldError::LimitTooSmall`]. Pages that cannot be had are listed in `lost`.
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
        let found = until_here(self.session, &mut self.flow, |flow| {
            let (map, [low, high]) = {
                let loaded = flow.space.full(cell)?;
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
                        // Other zones are still asked, so that all that is absent is reported at once.
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

/// How far from an edge a point may be found that lies on it: it was looked for so far beyond the face, and lines of a grid bend there.
fn slack(beyond: f64) -> f64 {
    1e-3 + 10.0 * beyond
}
