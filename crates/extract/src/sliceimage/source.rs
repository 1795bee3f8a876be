//! Sources of tiles: volumes and datasets on grids.

use super::run::TileSource;
use field::dataset::Dataset;
use field::locator::{ZoneFields, ZoneLocator};
use field::nodes::{Nodes, Zone};
use field::paged::PagedNodes;
use kernels::flow::{GridFlow, ZoneOrder};
use kernels::slice::{GridSlice, GridTile, Tile, VolumeSlice};
use kernels::streamline::StepProgress;
use pager::error::PageError;
use pager::{PageId, Pager, Worker};
use std::sync::Arc;

/// Bytes of a page on its way, in frames: encoded, and decoded again if its parts are joined.
const BESIDE: u64 = 3;

pub(crate) struct VolumeSource {
    pub(crate) slice: VolumeSlice,
    pub(crate) components: usize,
    /// The number of pixels without a value.
    pub(crate) nothing: f64,
}

impl TileSource for VolumeSource {
    type Tile = Tile;
    type Context = Worker;

    fn components(&self) -> usize {
        self.components
    }
    fn nothing(&self) -> f64 {
        self.nothing
    }
    fn size(&self) -> [u32; 2] {
        self.slice.plane.size
    }
    fn step_bytes(&self, _: &Pager) -> [u64; 2] {
        let bytes = self.slice.step_bytes() + BESIDE * self.slice.page_bytes();
        // The pages of later steps are known.
        [bytes, bytes]
    }
    fn context(&self, worker: Worker) -> Worker {
        worker
    }
    fn worker<'c>(&self, context: &'c mut Worker) -> &'c mut Worker {
        context
    }
    fn begin(&self, tile: Tile) -> Tile {
        tile
    }
    fn step(
        &self,
        worker: &mut Worker,
        _lane: usize,
        tile: &mut Tile,
        missing: &mut Vec<PageId>,
        failure: &mut Option<PageError>,
    ) -> StepProgress {
        self.slice.step(worker, tile, missing, failure)
    }
    fn bytes(&self, tile: &Tile) -> usize {
        Tile::bytes(tile.components)
    }
    fn end(&self, tile: Tile) -> Tile {
        tile
    }
}

pub(crate) struct GridSource {
    pub(crate) slice: GridSlice,
    pub(crate) zones: Arc<[Zone]>,
    pub(crate) fields: Arc<[ZoneFields]>,
    pub(crate) order: ZoneOrder,
    pub(crate) step: u32,
    pub(crate) components: usize,
    pub(crate) dataset: Arc<Dataset>,
}

impl TileSource for GridSource {
    type Tile = GridTile;
    type Context = (GridFlow<PagedNodes>, Vec<f64>);

    fn components(&self) -> usize {
        self.components
    }
    fn size(&self) -> [u32; 2] {
        self.slice.plane.size
    }
    fn step_bytes(&self, pager: &Pager) -> [u64; 2] {
        [self.dataset.step_bytes(&self.fields, pager, 1), self.dataset.closure_bytes(&self.fields, pager, 1)]
    }
    fn context(&self, worker: Worker) -> Self::Context {
        let nodes = PagedNodes::new(self.zones.clone(), worker, self.step);
        (GridFlow::new(ZoneLocator::new(nodes, self.fields.clone()), self.order.clone()), Vec::new())
    }
    fn worker<'c>(&self, context: &'c mut Self::Context) -> &'c mut Worker {
        context.0.space.nodes.worker()
    }
    fn begin(&self, tile: Tile) -> GridTile {
        GridTile::new(tile)
    }
    fn step(
        &self,
        (flow, scratch): &mut Self::Context,
        lane: usize,
        tile: &mut GridTile,
        missing: &mut Vec<PageId>,
        failure: &mut Option<PageError>,
    ) -> StepProgress {
        flow.space.take_turn(lane);
        let progress = self.slice.step(flow, tile, scratch, failure);
        match progress {
            StepProgress::Need => missing.append(flow.space.nodes.missing()),
            _ => flow.space.nodes.missing().clear(),
        }
        progress
    }
    fn bytes(&self, tile: &GridTile) -> usize {
        tile.bytes()
    }
    fn end(&self, tile: GridTile) -> Tile {
        tile.tile
    }
}
