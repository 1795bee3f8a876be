//! Curvilinear and uniform zones as a kind of domain.

use crate::cell::Interpolant;
use crate::cell_cache::{LaterValues, Loaded};
use crate::closure;
use crate::curve::{morton_key, BITS};
use crate::domain::{Domains, Locator, Neighbour, SeriesLocator, WalkEnd};
use crate::field_selection::ZoneFields;
use crate::lattice::inside;
use crate::locator::ZoneLocator;
use crate::nodes::{Miss, Nodes, Zone};
use crate::reference_cell::Hexahedron;
use crate::shape::{Blank, CellId, CellPoint, Face};
use crate::simd::V4;
use crate::time_interpolated::TimeInterpolated;
use pager::error::PageError;
use pager::id::PageId;
use pager::Pager;
use std::sync::Arc;

impl Domains for [Zone] {
    type Cell = CellId;
    type Fields = ZoneFields;

    fn count(&self) -> usize {
        self.len()
    }

    fn cells(&self, domain: usize) -> u64 {
        self[domain].cells().iter().map(|n| u64::from(*n)).product()
    }

    /// `index` is a 0-based fractional (i, j, k).
    fn spot(&self, domain: u32, index: [f64; 3]) -> CellPoint {
        let cells = self[domain as usize].cells();
        let ijk: [u32; 3] = core::array::from_fn(|a| (index[a].floor().max(0.0) as u32).min(cells[a] - 1));
        let rst = core::array::from_fn(|a| index[a] - f64::from(ijk[a]));
        CellPoint { cell: CellId { zone: domain, ijk }, rst }
    }

    fn index_in(&self, domain: usize, n: u64, draw: &mut dyn FnMut() -> f64) -> [f64; 3] {
        let c = self[domain].cells().map(u64::from);
        let low = [n % c[0], n / c[0] % c[1], n / c[0] / c[1]];
        let dims = self[domain].dims();
        core::array::from_fn(|a| low[a] as f64 + if dims[a] > 1 { draw() } else { 0.0 })
    }

    fn pages_of(&self, cell: CellId, page: impl FnMut(u64)) {
        if let Some(zone) = self.get(cell.zone as usize) {
            zone.translation.pages_of_cell(cell.ijk, page);
        }
    }

    /// Along Morton's curve through the pages of a zone.
    fn curve_key(&self, cell: CellId) -> u64 {
        let page = self.get(cell.zone as usize).map_or([16; 3], |z| z.translation.page);
        let at = |a: usize| {
            let (n, within) = (u64::from(cell.ijk[a] / page[a]), u64::from(cell.ijk[a] % page[a]));
            ((n << 4) | (within * 16 / u64::from(page[a]))).min((1 << BITS) - 1)
        };
        morton_key(cell.zone, [at(0), at(1), at(2)])
    }

    fn step_bytes(&self, fields: &[ZoneFields], pager: &Pager, steps: usize) -> u64 {
        closure::step_bytes(self, fields, pager, steps)
    }

    fn neighbour_bytes(&self, pager: &Pager) -> u64 {
        closure::neighbour_bytes(self, pager)
    }

    fn closure_bytes(&self, fields: &[ZoneFields], pager: &Pager, steps: usize) -> u64 {
        closure::closure_bytes(self, fields, pager, steps)
    }
}

// The calls below go to inherent methods, which other users call directly.
impl<N: Nodes> Locator for ZoneLocator<N> {
    type Cell = CellId;
    type Shape = Hexahedron;
    type Domains = [Zone];

    #[inline(always)]
    fn domains(&self) -> &[Zone] {
        self.nodes.zones()
    }
    #[inline(always)]
    fn take_turn(&mut self, lane: usize) {
        self.take_turn(lane);
    }
    #[inline(always)]
    fn find(&mut self, domain: usize, p: V4) -> Result<Option<CellPoint>, Miss> {
        self.find(domain, p)
    }
    #[inline(always)]
    fn walk(&mut self, from: &CellPoint, p: V4) -> Result<WalkEnd<CellId>, Miss> {
        self.walk(from, p)
    }
    #[inline(always)]
    fn blank(&mut self, cell: CellId) -> Result<Blank, Miss> {
        self.blank(cell)
    }
    #[inline(always)]
    fn geometry(&mut self, cell: CellId) -> Result<&Loaded, Miss> {
        self.geometry(cell)
    }
    #[inline(always)]
    fn cell(&mut self, cell: CellId) -> Result<&Loaded, Miss> {
        self.cell(cell)
    }
    #[inline(always)]
    fn kept(&self, lane: usize, cell: CellId) -> &Loaded {
        self.kept(lane, cell)
    }
    #[inline(always)]
    fn prefetch(&self, cell: CellId) {
        self.prefetch(cell);
    }
    #[inline(always)]
    fn volume(&mut self, cell: CellId) -> Result<f64, Miss> {
        self.volume(cell)
    }
    #[inline(always)]
    fn length(&mut self, cell: CellId) -> Result<f64, Miss> {
        self.length(cell)
    }
    #[inline(always)]
    fn beyond(&self, face: Face, on: &CellPoint) -> Neighbour<CellId> {
        self.beyond(face, on)
    }
    fn leads_back(&self, entered: Face, over: Face) -> bool {
        Self::leads_back(entered, over)
    }
    fn is_wall(&mut self, face: Face) -> Result<bool, Miss> {
        self.is_wall(face)
    }
    #[inline(always)]
    fn missing(&mut self) -> &mut Vec<PageId> {
        self.nodes.missing()
    }
    fn failure(&mut self) -> Option<PageError> {
        self.nodes.failure()
    }
}

impl<N: Nodes> SeriesLocator for ZoneLocator<TimeInterpolated<N>> {
    type Fields = ZoneFields;

    #[inline(always)]
    fn set_steps(&mut self, first: u32, next: u32) {
        self.nodes.set_steps(first, next);
    }
    #[inline(always)]
    fn set_weight(&mut self, weight: f64) {
        self.nodes.set_weight(weight);
    }
    #[inline(always)]
    fn set_fields(&mut self, fields: &Arc<[ZoneFields]>) {
        self.set_fields(fields);
    }
    fn forget(&mut self) {
        self.forget();
    }
    #[inline(always)]
    fn slot(&self, cell: CellId) -> usize {
        self.slot(cell)
    }
    #[inline(always)]
    fn load_later(&mut self, cell: CellId, fields: &[ZoneFields], into: &mut LaterValues) -> Result<(), Miss> {
        let fields = &fields[cell.zone as usize];
        self.nodes.set_later(true);
        let mut corners = [V4::zero(); 8];
        let mut at = self.nodes.at(cell.zone as usize, cell.ijk);
        let vector = fields.vector.corners(&mut at, &mut corners);
        let sampled = if fields.sampled.is_empty() { Ok(()) } else { fields.sample(&mut at, &mut into.sampled) };
        self.nodes.set_later(false);
        if vector.is_err() || sampled.is_err() {
            return Err(Miss::worst([vector.err(), sampled.err(), None]));
        }
        into.vector = Interpolant::new(&corners);
        Ok(())
    }
    #[inline(always)]
    fn known_spot(&self, domain: u32, x: V4) -> Option<(CellId, V4)> {
        let (cell, rst) = self.open_lattice(domain as usize)?.cell(x);
        inside(rst).then_some((cell, rst))
    }
    #[inline(always)]
    fn loaded(&self, cell: CellId) -> Option<&Loaded> {
        self.loaded(cell)
    }
    #[inline(always)]
    fn prefetch_at(&mut self, cell: CellId, fields: &[ZoneFields], later: bool) {
        if later {
            self.nodes.set_later(true);
        }
        self.prefetch_of(cell, fields);
        if later {
            self.nodes.set_later(false);
        }
    }
    fn straight_on(&mut self, from: &CellPoint, vector: [f64; 3], time: f64, cells: &mut dyn FnMut(CellId)) {
        self.straight_on(from, vector, time, cells);
    }
    #[inline(always)]
    fn moves(&self, domain: u32) -> bool {
        self.nodes.moves(domain as usize)
    }
    fn is_wall_between(&mut self, face: Face, fields: [&[ZoneFields]; 2], time: f64) -> Result<bool, Miss> {
        self.is_wall_between(face, fields, time)
    }
}
