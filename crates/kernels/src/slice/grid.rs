//! Slices of datasets on grids.

use super::plane::PixelPlane;
use super::tile::{Pixel, Tile};
use crate::flow::GridFlow;
use crate::streamline::StepProgress;
use field::domain::Locator;
use field::locator::CellPoint;
use field::nodes::{Miss, Nodes};
use field::simd::V4;
use pager::error::PageError;

/// Most pixels of a step, after which pins may be released.
const AT_ONCE: usize = 128;

/// The common data of the tiles of a slice of a dataset.
#[derive(Clone, Debug)]
pub struct GridSlice {
    /// The pixels.
    pub plane: PixelPlane,
}

/// A tile, and the place of its last pixel found in each zone.
#[derive(Clone, Debug)]
pub struct GridTile {
    /// The tile.
    pub tile: Tile,
    last: Vec<CellPoint>,
    /// For the pixel in progress.
    found: Vec<CellPoint>,
}

impl GridTile {
    /// A tile without known pixels.
    pub fn new(tile: Tile) -> Self {
        Self { tile, last: Vec::new(), found: Vec::new() }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        Tile::bytes(self.tile.components) + (self.last.capacity() + self.found.capacity()) * size_of::<CellPoint>()
    }
}

impl GridSlice {
    /// One step of a tile. Its pixels are computed in order, up to absent pages, which the nodes list. The first error
    /// of a page is stored in `failure`.
    pub fn step<N: Nodes>(
        &self,
        flow: &mut GridFlow<N>,
        of: &mut GridTile,
        scratch: &mut Vec<f64>,
        failure: &mut Option<PageError>,
    ) -> StepProgress {
        let mut made = 0;
        while let Some(number) = of.tile.open() {
            if made == AT_ONCE {
                return StepProgress::Yield;
            }
            let x = self.plane.position(of.tile.place(number));
            match pixel(flow, x, &mut of.last, &mut of.found, scratch) {
                Ok(true) => {
                    of.tile.numbers(number).iter_mut().zip(scratch.iter()).for_each(|(to, value)| *to = *value);
                    of.tile.pixels[number] = Pixel::Value;
                }
                Ok(false) => of.tile.without(number, Pixel::Outside),
                Err(Miss::Failed) => {
                    flow.space.nodes.missing().clear();
                    let error = flow.space.nodes.failure();
                    *failure = failure.take().or(error);
                    of.tile.without(number, Pixel::Failed);
                }
                Err(Miss::Absent) if made > 0 => {
                    flow.space.nodes.missing().clear();
                    return StepProgress::Yield;
                }
                Err(Miss::Absent) => return StepProgress::Need,
            }
            made += 1;
        }
        // A walk may have requested pages that the search after it did not need.
        flow.space.nodes.missing().clear();
        StepProgress::Done
    }
}

/// The values at a point. False if no usable cell contains it.
fn pixel<N: Nodes>(
    flow: &mut GridFlow<N>,
    x: [f64; 3],
    last: &mut Vec<CellPoint>,
    found: &mut Vec<CellPoint>,
    values: &mut Vec<f64>,
) -> Result<bool, Miss> {
    let spot = locate(flow, x, last, found)?;
    if let Some(spot) = &spot {
        values.clear();
        flow.space.sample(spot, values)?;
    }
    // Only after all is known: a repeated pixel starts where it started.
    for spot in found.drain(..) {
        match last.iter_mut().find(|known| known.cell.zone == spot.cell.zone) {
            Some(known) => *known = spot,
            None => last.push(spot),
        }
    }
    Ok(spot.is_some())
}

/// As [`GridFlow::start`], by a walk from the last pixel found in each zone if that leads to the same cell. The results
/// of all zones are added to `found`.
fn locate<N: Nodes>(
    flow: &mut GridFlow<N>,
    x: [f64; 3],
    last: &[CellPoint],
    found: &mut Vec<CellPoint>,
) -> Result<Option<CellPoint>, Miss> {
    let p = V4::from_xyz(x);
    let order = flow.order.0.clone();
    let mut miss = None;
    found.clear();
    for &zone in order.iter() {
        let near = last.iter().find(|spot| spot.cell.zone == zone);
        let spot = match near {
            Some(near) => flow.space.find_near(near, p),
            None => flow.space.find(zone as usize, p),
        };
        match spot {
            Ok(spot) => found.extend(spot),
            Err(Miss::Failed) => return Err(Miss::Failed),
            // Other zones are searched too, so that all absent pages are reported at once.
            Err(absent) => miss = Some(absent),
        }
    }
    if let Some(miss) = miss {
        return Err(miss);
    }
    let [first, others @ ..] = &found[..] else { return Ok(None) };
    // Volumes are needed only where zones overlap.
    let mut best = *first;
    if !others.is_empty() {
        let mut least = flow.space.volume(best.cell)?;
        for spot in others {
            let volume = flow.space.volume(spot.cell)?;
            if volume < least {
                (least, best) = (volume, *spot);
            }
        }
    }
    Ok(Some(best))
}
