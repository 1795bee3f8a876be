//! Domains: the parts of space that a dataset consists of, and what whoever follows particles asks of them.
//!
//! # Theory
//! A particle is in a cell of a domain, at fractions of the cell. Its step needs the cell's map and vectors. Its way leads over a face to
//! the cell beyond, to another domain, or to a boundary. Nothing else about the arrangement of cells matters to a streamline, a probe or a
//! seed. So kernels see the traits below, and no numbers of nodes along axes.
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
//! A new kind of domain, an unstructured mesh or blocks of refined cells, implements:
//! 1. [`DomainCell`] for the name of a cell;
//! 2. [`ReferenceCell`], unless its cells are cubes;
//! 3. [`Domains`]: what is known without a page, with the proof of the memory that one step may need;
//! 4. [`Locator`]: a worker's view through pages;
//! 5. [`SeriesLocator`], where it has time steps.
//!
//! Kernels are generic over the implementation, which a run chooses once: nothing is dispatched while particles move. Steps of four cubes at
//! a time are taken where [`ReferenceCell::IS_CUBE`] says so. Tetrahedra in pages, in the tests of the crate `trace`, are an example.

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

/// The domains of one kind that a dataset has, numbered from 0: what is known of them without a page.
pub trait Domains {
    /// The name of a cell.
    type Cell: DomainCell;
    /// What is traced and sampled in one domain.
    type Fields;
    /// Number of domains.
    fn count(&self) -> usize;
    /// Number of a domain's cells.
    fn cells(&self, domain: usize) -> u64;
    /// The place of an index of a domain: fractional numbers along its axes, or, of cells in no order along axes, whatever names them.
    fn spot(&self, domain: u32, index: [f64; 3]) -> CellPoint<Self::Cell>;
    /// The index of a place in cell number `n` of a domain, chosen by numbers in [0, 1) that `draw` gives; the same numbers, the same place.
    fn index_in(&self, domain: usize, n: u64, draw: &mut dyn FnMut() -> f64) -> [f64; 3];
    /// Tells `page` the number of each page of points in which a cell lies, as its domain counts pages. Nothing for an unknown domain.
    fn pages_of(&self, cell: Self::Cell, page: impl FnMut(u64));
    /// Where on a curve that fills the domains a cell lies: near keys, near cells. Of two cells in one page the lowest twelve bits differ.
    fn curve_key(&self, cell: Self::Cell) -> u64;
    /// Bytes of the largest step that looks at `steps` time steps at once: every page that the cell of a particle can lie in, for each
    /// array that is read, with the pages on the way to them.
    fn step_bytes(&self, fields: &[Self::Fields], pager: &Pager, steps: usize) -> u64;
    /// Bytes that lines of one step take beside [`Self::step_bytes`] and [`Self::closure_bytes`] where domains move.
    fn neighbour_bytes(&self, pager: &Pager) -> u64;
    /// Bytes that do for any step, wherever it leads: those of [`Self::step_bytes`], and what it takes to look for a particle in every
    /// other domain; never more than all pages that the run can ask for.
    fn closure_bytes(&self, fields: &[Self::Fields], pager: &Pager, steps: usize) -> u64;
}

/// What lies beyond a face.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Neighbour<C> {
    /// A cell of the same domain, with the fractions that the particle has there.
    Cell(CellPoint<C>),
    /// Nothing, for certain.
    Boundary(Boundary),
    /// The domain ends. Another one may go on there, or the same one across a seam.
    OtherDomain,
}

/// What a boundary is.
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
    /// Nowhere; `blank` if in a cell that is blanked out or has no geometry.
    Lost {
        /// Whether it is.
        blank: bool,
    },
}

/// One worker's view of domains of one kind: locates points and loads cells. Up to [`LANES`](crate::locator::LANES) tasks take turns, each
/// with loaded cells of its own. Values depend on what is asked, never on what was asked before, so any worker may continue any task.
///
/// Pages that are absent are listed by [`Self::missing`], and the call comes to nothing but a [`Miss`].
pub trait Locator {
    /// The name of a cell.
    type Cell: DomainCell;
    /// Which fractions lie in a cell.
    type Shape: ReferenceCell;
    /// What is known without a page.
    type Domains: Domains<Cell = Self::Cell> + ?Sized;

    /// What is known without a page.
    fn domains(&self) -> &Self::Domains;
    /// Gives the turn to a lane. What is loaded for one lane is not overwritten by the others.
    fn take_turn(&mut self, lane: usize);
    /// Finds a point in a domain from nothing: of the usable cells that hold it always the same. `None` is proven.
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
    /// A cell with its vector and sampled fields. Where anything is absent, everything that is absent is listed.
    ///
    /// # Errors
    /// [`Miss`].
    fn cell(&mut self, cell: Self::Cell) -> Result<&Loaded<Self::Cell>, Miss>;
    /// A cell as [`Self::cell`] last loaded it in a lane.
    fn kept(&self, lane: usize, cell: Self::Cell) -> &Loaded<Self::Cell>;
    /// Asks the processor to load what a step in a cell will read. Only a hint.
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
    /// What lies beyond a face, of a particle on it. No page is read: the turn's last [`Self::cell`] was the face's.
    fn beyond(&self, face: Face<Self::Cell>, on: &CellPoint<Self::Cell>) -> Neighbour<Self::Cell>;
    /// Whether `over` leads back through the face `entered`. No page is read.
    fn leads_back(&self, entered: Face<Self::Cell>, over: Face<Self::Cell>) -> bool;
    /// Whether no flow goes through a face beyond which nothing is: it is marked, or all at rest, relative to its domain's motion.
    ///
    /// # Errors
    /// [`Miss`].
    fn is_wall(&mut self, face: Face<Self::Cell>) -> Result<bool, Miss>;
    /// Pages found absent since it was last cleared.
    fn missing(&mut self) -> &mut Vec<PageId>;
    /// The error behind [`Miss::Failed`].
    fn failure(&mut self) -> Option<PageError>;
}

/// A [`Locator`] at a moment between two time steps. Geometry is that of the moment, vectors and fields those of the earlier step unless
/// a method says other.
pub trait SeriesLocator: Locator {
    /// What is traced and sampled in one domain at one time step.
    type Fields;
    /// Goes to the time between two steps. Whoever has the turn calls [`Self::forget`] if they are not those that it had.
    fn set_steps(&mut self, first: u32, next: u32);
    /// Goes to a moment between the two steps: 0 is the earlier, 1 the later.
    fn set_weight(&mut self, weight: f64);
    /// Changes what is traced and sampled, by domain.
    fn set_fields(&mut self, fields: &Arc<[Self::Fields]>);
    /// Forgets what was loaded for the lane that has the turn.
    fn forget(&mut self);
    /// A number below [`KEPT`](crate::locator::KEPT) times [`LANES`](crate::locator::LANES) for a cell in the lane that has the turn: for who
    /// keeps more of it.
    fn slot(&self, cell: Self::Cell) -> usize;
    /// Loads vector and sampled fields of a cell at the later step.
    ///
    /// # Errors
    /// [`Miss`].
    fn load_later(&mut self, cell: Self::Cell, fields: &[Self::Fields], into: &mut LaterValues) -> Result<(), Miss>;
    /// The cell and fractions of a point in a domain where that is arithmetic and every cell is usable; `None` says nothing.
    fn known_spot(&self, domain: u32, x: V4) -> Option<(Self::Cell, V4)>;
    /// A cell, if it is loaded in the lane that has the turn.
    fn loaded(&self, cell: Self::Cell) -> Option<&Loaded<Self::Cell>>;
    /// [`Locator::prefetch`] of fields at the earlier step, or at the later.
    fn prefetch_at(&mut self, cell: Self::Cell, fields: &[Self::Fields], later: bool);
    /// Tells `cells` the cells on the straight way of a particle with a vector for so much time, as far as its domain reaches; none but its
    /// own where the geometry of that is no longer known. Told are as many as it takes to see every page but those of corners.
    fn straight_on(
        &mut self,
        from: &CellPoint<Self::Cell>,
        vector: [f64; 3],
        time: f64,
        cells: &mut dyn FnMut(Self::Cell),
    );
    /// Whether a domain is at different places at the two steps.
    fn moves(&self, domain: u32) -> bool;
    /// As [`Locator::is_wall`] of a domain that moves, with the fields of either step and the time between them.
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
