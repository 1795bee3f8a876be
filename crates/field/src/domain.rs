//! Domains: the parts of space of a dataset, as kernels that follow particles see them.
//!
//! # Theory
//! A particle is in a cell of a domain, at fractions of the cell. Its step needs the cell's map and vectors. Its way
//! leads over a face to the next cell, to another domain, or to a boundary. So kernels see the traits below, and no
//! numbers of nodes along axes.
//!
//! # Kinds
//!
//! | kind | cells | implementation |
//! |---|---|---|
//! | curvilinear zone | [`CellId`](crate::shape::CellId), [cubes](crate::reference_cell::Hexahedron) | `[Zone]`, [`ZoneLocator`](crate::locator::ZoneLocator) |
//! | uniform zone | the same | the same, by the arithmetic of a [`Lattice`](crate::lattice::Lattice) |
//!
//! Voxels of volumes have no particles: see [`crate::volume`].
//!
//! # A new kind
//! A new kind of domain, as an unstructured mesh or blocks of refined cells, implements:
//! 1. [`DomainCell`] for the name of a cell;
//! 2. [`ReferenceCell`], unless its cells are cubes;
//! 3. [`Domains`] for everything that needs no page, with the memory that one step may need;
//! 4. [`Locator`] for a worker's view through pages;
//! 5. [`SeriesLocator`], if it has time steps.
//!
//! Kernels are generic over the implementation, which a run chooses once. They step four particles at a time if
//! [`ReferenceCell::IS_CUBE`] holds. Tetrahedra in pages, in the tests of the crate `trace`, are an example.

pub use crate::cell_cache::LaterValues;
use crate::cell_cache::Loaded;
use crate::nodes::Miss;
use crate::reference_cell::ReferenceCell;
use crate::shape::{Blank, CellPoint, DomainCell, Face};
use crate::simd::V4;
use pager::error::PageError;
use pager::id::PageId;
use pager::Pager;
use std::sync::Arc;

/// The domains of one kind in a dataset, numbered from 0, without their pages.
pub trait Domains {
    /// The name of a cell.
    type Cell: DomainCell;
    /// The traced vector and the sampled fields of one domain.
    type Fields;
    /// Number of domains.
    fn count(&self) -> usize;
    /// Number of a domain's cells.
    fn cells(&self, domain: usize) -> u64;
    /// The place of an index of a domain: fractional numbers along its axes, or what a kind without axes defines.
    fn spot(&self, domain: u32, index: [f64; 3]) -> CellPoint<Self::Cell>;
    /// The index of a place in cell number `n` of a domain, from numbers in [0, 1) that `draw` gives. Equal numbers
    /// give an equal place.
    fn index_in(&self, domain: usize, n: u64, draw: &mut dyn FnMut() -> f64) -> [f64; 3];
    /// Passes to `page` the numbers of a cell's pages of points. Nothing for an unknown domain.
    fn pages_of(&self, cell: Self::Cell, page: impl FnMut(u64));
    /// A cell's place on a curve that fills the domains: near cells have near keys. Keys within a page differ in the
    /// lowest twelve bits alone.
    fn curve_key(&self, cell: Self::Cell) -> u64;
    /// Bytes of the largest step over `steps` time steps. Counts each page that a particle's cell can lie in, for each
    /// array, with the pages that locate them.
    fn step_bytes(&self, fields: &[Self::Fields], pager: &Pager, steps: usize) -> u64;
    /// Bytes beside [`Self::step_bytes`] and [`Self::closure_bytes`] for streamlines in domains that move.
    fn neighbour_bytes(&self, pager: &Pager) -> u64;
    /// Bytes that suffice for any step: [`Self::step_bytes`], and a search in every other domain. Never more than all
    /// pages of the run.
    fn closure_bytes(&self, fields: &[Self::Fields], pager: &Pager, steps: usize) -> u64;
}

/// What lies beyond a face.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Neighbour<C> {
    /// A cell of the same domain, with the particle's fractions there.
    Cell(CellPoint<C>),
    /// Nothing, for certain.
    Boundary(Boundary),
    /// The domain ends. Another one may follow there, or the same one across a seam.
    OtherDomain,
}

/// The kind of a boundary.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// Flow goes out or comes in.
    Open,
    /// No flow goes through.
    Wall,
}

/// How a walk ended.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum WalkEnd<C> {
    /// In a usable cell that holds the point.
    Found(CellPoint<C>),
    /// In a cell that holds the point but is not usable.
    Hole(CellPoint<C>),
    /// At the domain's edge; the point lies beyond (if the domain does not fold back).
    Edge(CellPoint<C>),
    /// Nowhere.
    Lost {
        /// Whether the cell is blanked out or has no geometry.
        blank: bool,
    },
}

/// One worker's view of domains of one kind: locates points and loads cells. Up to [`LANES`](crate::locator::LANES)
/// tasks take turns, each with loaded cells of its own. Values do not depend on earlier calls, so any worker may
/// continue any task.
///
/// A call that finds absent pages lists them in [`Self::missing`] and returns a [`Miss`].
pub trait Locator {
    /// The name of a cell.
    type Cell: DomainCell;
    /// Which fractions lie in a cell.
    type Shape: ReferenceCell;
    /// The domains.
    type Domains: Domains<Cell = Self::Cell> + ?Sized;

    /// The domains.
    fn domains(&self) -> &Self::Domains;
    /// Makes a lane the present one. Each has its own loaded cells.
    fn take_turn(&mut self, lane: usize);
    /// Finds a point in a domain, without a start: always the same one of the usable cells that hold it. `None` is
    /// proven.
    ///
    /// # Errors
    /// [`Miss`]; all pages of cells that may hold the point are listed at once.
    fn find(&mut self, domain: usize, p: V4) -> Result<Option<CellPoint<Self::Cell>>, Miss>;
    /// Walks from a cell towards a point.
    ///
    /// # Errors
    /// [`Miss`].
    fn walk(&mut self, from: &CellPoint<Self::Cell>, p: V4) -> Result<WalkEnd<Self::Cell>, Miss>;
    /// Whether a cell is usable, or another domain has better values there.
    ///
    /// # Errors
    /// [`Miss`].
    fn blank(&mut self, cell: Self::Cell) -> Result<Blank, Miss>;
    /// A cell's map and whether it is usable.
    ///
    /// # Errors
    /// [`Miss`].
    fn geometry(&mut self, cell: Self::Cell) -> Result<&Loaded<Self::Cell>, Miss>;
    /// A cell with its vector and sampled fields.
    ///
    /// # Errors
    /// [`Miss`]; all absent pages are listed at once.
    fn cell(&mut self, cell: Self::Cell) -> Result<&Loaded<Self::Cell>, Miss>;
    /// A cell as [`Self::cell`] last loaded it in a lane.
    fn kept(&self, lane: usize, cell: Self::Cell) -> &Loaded<Self::Cell>;
    /// Prefetches the numbers that a step in a cell reads. Only a hint.
    #[inline(always)]
    fn prefetch(&self, _cell: Self::Cell) {}
    /// Values of the sampled fields at a located point, appended to `out` component by component.
    ///
    /// # Errors
    /// [`Miss`].
    fn sample(&mut self, spot: &CellPoint<Self::Cell>, out: &mut Vec<f64>) -> Result<(), Miss> {
        let l = self.cell(spot.cell)?;
        out.extend(l.sampled.iter().map(|c| crate::cell::interpolate_scalar(c, spot.rst)));
        Ok(())
    }
    /// Volume of a cell.
    ///
    /// # Errors
    /// [`Miss`].
    fn volume(&mut self, cell: Self::Cell) -> Result<f64, Miss>;
    /// Size of a cell along its shortest direction.
    ///
    /// # Errors
    /// [`Miss`].
    fn length(&mut self, cell: Self::Cell) -> Result<f64, Miss>;
    /// What lies beyond a face, for a particle on it. Reads no page: [`Self::cell`] last loaded the face's cell.
    fn beyond(&self, face: Face<Self::Cell>, on: &CellPoint<Self::Cell>) -> Neighbour<Self::Cell>;
    /// Whether `over` leads back through the face `entered`. Reads no page.
    fn leads_back(&self, entered: Face<Self::Cell>, over: Face<Self::Cell>) -> bool;
    /// Whether no flow goes through a face at a boundary: it is marked, or all its points rest relative to the domain's
    /// motion.
    ///
    /// # Errors
    /// [`Miss`].
    fn is_wall(&mut self, face: Face<Self::Cell>) -> Result<bool, Miss>;
    /// Pages found absent since the list was last cleared.
    fn missing(&mut self) -> &mut Vec<PageId>;
    /// The error behind [`Miss::Failed`].
    fn failure(&mut self) -> Option<PageError>;
}

/// A [`Locator`] at a moment between two time steps. By default, geometry is that of the moment; vectors and fields are
/// those of the earlier step.
pub trait SeriesLocator: Locator {
    /// The traced vector and the sampled fields of one domain at one time step.
    type Fields;
    /// Goes to the interval between two steps. A lane with cells of other steps then calls [`Self::forget`].
    fn set_steps(&mut self, first: u32, next: u32);
    /// Goes to a moment: 0 is the earlier step, 1 the later.
    fn set_weight(&mut self, weight: f64);
    /// Replaces the traced vector and sampled fields, by domain.
    fn set_fields(&mut self, fields: &Arc<[Self::Fields]>);
    /// Forgets the loaded cells of the present lane.
    fn forget(&mut self);
    /// A number below [`KEPT`](crate::locator::KEPT) times [`LANES`](crate::locator::LANES), under which callers store
    /// more data about a cell of the present lane.
    fn slot(&self, cell: Self::Cell) -> usize;
    /// Loads vector and sampled fields of a cell at the later step.
    ///
    /// # Errors
    /// [`Miss`].
    fn load_later(&mut self, cell: Self::Cell, fields: &[Self::Fields], into: &mut LaterValues) -> Result<(), Miss>;
    /// The cell and fractions of a point, if they follow by arithmetic and every cell is usable. `None` proves nothing.
    fn known_spot(&self, domain: u32, x: V4) -> Option<(Self::Cell, V4)>;
    /// A cell, if loaded in the present lane.
    fn loaded(&self, cell: Self::Cell) -> Option<&Loaded<Self::Cell>>;
    /// [`Locator::prefetch`] of fields at the earlier or the later step.
    fn prefetch_at(&mut self, cell: Self::Cell, fields: &[Self::Fields], later: bool);
    /// Passes to `cells` the cells on a particle's straight way with `vector` for `time`, within its domain: enough to
    /// see every page but those at corners. If the geometry of its own cell is not loaded, only that cell.
    fn straight_on(
        &mut self,
        from: &CellPoint<Self::Cell>,
        vector: [f64; 3],
        time: f64,
        cells: &mut dyn FnMut(Self::Cell),
    );
    /// Whether a domain is at different places at the two steps.
    fn moves(&self, domain: u32) -> bool;
    /// As [`Locator::is_wall`] for a domain that moves, with the fields of both steps, which are `time` apart.
    ///
    /// # Errors
    /// [`Miss`].
    fn is_wall_between(
        &mut self,
        face: Face<Self::Cell>,
        fields: [&[Self::Fields]; 2],
        time: f64,
    ) -> Result<bool, Miss>;
}
