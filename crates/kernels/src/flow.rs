//! The tracers' view of a vector field, and its implementation over a gridded dataset.

use crate::line::Reason;
use field::cell::Rst;
use field::domain::{Locator, WalkEnd};
use field::locator::{Blank, CellId, CellPoint, ZoneLocator};
use field::nodes::Miss;
use field::shape::DomainCell;
use field::simd::V4;
use std::sync::Arc;

/// A sample of the traced vector.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Sample<C> {
    /// The vector, and its place.
    Value([f64; 3], C),
    /// In no zone, proven; or only in unusable cells.
    Outside(Exit),
}

impl<C> Sample<C> {
    /// A vector found at a place. Where it is NaN there is no flow, as where iblank says so.
    pub(crate) fn of(v: V4, place: C) -> Self {
        if v.is_finite_xyz() {
            Self::Value(v.xyz(), place)
        } else {
            Self::Outside(Exit::Hole)
        }
    }
}

/// Why a point has no flow.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// No cell holds it.
    Left,
    /// Its only cell is blanked out.
    Hole,
}

impl Exit {
    /// Why a line ends there. A wall is the most specific reason.
    pub(crate) fn reason(self, wall: bool) -> Reason {
        match (wall, self) {
            (true, _) => Reason::Wall,
            (false, Self::Hole) => Reason::Hole,
            (false, Self::Left) => Reason::Left,
        }
    }
}

/// A vector field that can be sampled in physical space, at a time if it is unsteady. `Err` reports absence: nothing
/// has changed, and the same call must be repeated when the pages are resident.
pub trait Flow {
    /// The memory of the last place.
    type Cursor: Copy + Send;
    /// Sets the time. A steady field ignores it.
    #[inline(always)]
    fn set_time(&mut self, _time: f64) {}
    /// Starts at a point.
    ///
    /// # Errors
    /// [`Miss`].
    fn seed(&mut self, x: [f64; 3]) -> Result<Sample<Self::Cursor>, Miss>;
    /// The vector at `x`, searched from the last place.
    ///
    /// # Errors
    /// [`Miss`].
    fn at(&mut self, x: [f64; 3], from: &Self::Cursor) -> Result<Sample<Self::Cursor>, Miss>;
    /// The vector at `x` if that needs no search. `None`: call [`Self::at`], whose result is the same to the last bit.
    #[inline(always)]
    fn quick(&mut self, _x: V4, _from: &Self::Cursor) -> Option<V4> {
        None
    }
    /// The cursor of a point that [`Self::quick`] has answered.
    #[inline(always)]
    fn quick_cursor(&mut self, _x: V4, from: &Self::Cursor) -> Self::Cursor {
        *from
    }
    /// The length scale of steps: the size of the cursor's cell, along its shortest direction.
    ///
    /// # Errors
    /// [`Miss`].
    fn length_scale(&mut self, at: &Self::Cursor) -> Result<f64, Miss>;
}

/// The order of search among domains.
#[derive(Clone, Debug)]
pub struct ZoneOrder(
    /// Domain numbers, first to be searched first.
    pub Arc<[u32]>,
);

impl ZoneOrder {
    /// File order.
    pub fn file(zones: usize) -> Self {
        Self((0..zones as u32).collect())
    }
}

/// The domains of a dataset as a [`Flow`]. Between domains it follows PLOT3D's conventions. A particle keeps its domain
/// until it leaves it or its cell is a fringe. Then the domain named there is searched, and then the domains in order.
pub struct DomainFlow<L> {
    /// The locator.
    pub space: L,
    /// Order of search between domains.
    pub order: ZoneOrder,
    /// Changes of domain so far, for measurements.
    pub crossings: u64,
}

/// The flow in curvilinear zones, over access to their nodes.
pub type GridFlow<N> = DomainFlow<ZoneLocator<N>>;

/// The place of a particle, and the fringe cell that it was last tested in.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct ParticlePosition<C = CellId> {
    /// Cell and fractions.
    pub spot: CellPoint<C>,
    /// The last fringe cell without a better domain.
    pub kept_fringe: Option<C>,
}

impl<L: Locator> DomainFlow<L> {
    /// Over a space.
    pub fn new(space: L, order: ZoneOrder) -> Self {
        Self { space, order, crossings: 0 }
    }

    /// The cell of a seed or of a probe: of the cells that cold location finds in each zone, the one of least volume, ties
    /// in search order. [`Locator::sample`] gives the fields there.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn start(&mut self, x: [f64; 3]) -> Result<Option<CellPoint<L::Cell>>, Miss> {
        let order = self.order.0.clone();
        let mut best: Option<(f64, CellPoint<L::Cell>)> = None;
        let mut miss = None;
        for &z in order.iter() {
            match self.space.find(z as usize, V4::from_xyz(x)) {
                Ok(None) => {}
                Ok(Some(s)) => {
                    let v = self.space.volume(s.cell)?;
                    if best.as_ref().is_none_or(|(b, _)| v < *b) {
                        best = Some((v, s));
                    }
                }
                Err(Miss::Failed) => return Err(Miss::Failed),
                // Other zones are searched too, so that all absent pages are reported at once.
                Err(m) => miss = Some(m),
            }
        }
        miss.map_or(Ok(best.map(|b| b.1)), Err)
    }

    /// Searches a point that has left its cell's zone, or is in a cell that names another zone. The named zone is
    /// searched first, then the others in order. `same` says whether the particle's own zone may contain it again (the
    /// seam of an O-grid).
    ///
    /// # Errors
    /// [`Miss`].
    #[cold]
    pub fn cross(
        &mut self,
        x: V4,
        from: u32,
        named: Option<u32>,
        same: bool,
    ) -> Result<Option<CellPoint<L::Cell>>, Miss> {
        let order = self.order.0.clone();
        let zones = order.len() as u32;
        let own = same.then_some(from);
        let first = named.filter(|z| *z < zones && *z != from);
        let rest = order.iter().copied().filter(|z| *z != from && Some(*z) != first);
        let mut fringe: Option<CellPoint<L::Cell>> = None;
        for z in own.into_iter().chain(first).chain(rest) {
            if let Some(s) = self.space.find(z as usize, x)? {
                self.crossings += u64::from(z != from);
                // A cell that itself only repeats another zone is the second choice.
                match self.space.blank(s.cell)? {
                    Blank::Field => return Ok(Some(s)),
                    Blank::Fringe(_) => fringe = fringe.or(Some(s)),
                    Blank::Hole => {}
                }
            }
        }
        Ok(fringe)
    }

    /// Moves a particle whose cell has a negative corner to the named zone. It moves if a usable cell of that zone (or
    /// of a later one) contains the point and is no fringe itself. `None` if nothing changes, which is nearly always
    /// the case: a copy of the place would take a tenth of a step.
    ///
    /// # Errors
    /// [`Miss`].
    #[inline(always)]
    pub fn settle(
        &mut self,
        place: &ParticlePosition<L::Cell>,
        x: impl FnOnce(&mut Self) -> Result<V4, Miss>,
    ) -> Result<Option<ParticlePosition<L::Cell>>, Miss> {
        match self.space.blank(place.spot.cell) {
            Ok(Blank::Fringe(named)) if place.kept_fringe != Some(place.spot.cell) => {
                let x = x(self)?;
                self.settle_fringe(place, named, x).map(Some)
            }
            Ok(_) => Ok(None),
            Err(miss) => {
                // The cell's other pages are requested together with iblank.
                self.space.geometry(place.spot.cell)?;
                Err(miss)
            }
        }
    }

    #[cold]
    fn settle_fringe(
        &mut self,
        place: &ParticlePosition<L::Cell>,
        named: u32,
        x: V4,
    ) -> Result<ParticlePosition<L::Cell>, Miss> {
        let found = self.cross(x, place.spot.cell.domain(), Some(named), false)?;
        if let Some(s) = found {
            if self.space.blank(s.cell)? == Blank::Field {
                return Ok(ParticlePosition { spot: s, kept_fringe: None });
            }
        }
        Ok(ParticlePosition { kept_fringe: Some(place.spot.cell), ..*place })
    }

    /// Physical position of fractions in a cell.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn position(&mut self, cell: L::Cell, q: Rst) -> Result<[f64; 3], Miss> {
        Ok(self.space.geometry(cell)?.map().point(q))
    }

    /// The vector at a found point.
    fn value(
        &mut self,
        found: Result<ParticlePosition<L::Cell>, Exit>,
    ) -> Result<Sample<ParticlePosition<L::Cell>>, Miss> {
        let place = match found {
            Ok(place) => place,
            Err(exit) => return Ok(Sample::Outside(exit)),
        };
        let v = self.space.cell(place.spot.cell)?.vector.at(place.spot.rst);
        Ok(Sample::of(v, place))
    }

    /// Searches a point from the last place: in its zone, or where a particle that leaves the zone continues.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn locate(
        &mut self,
        x: [f64; 3],
        from: &ParticlePosition<L::Cell>,
    ) -> Result<Result<ParticlePosition<L::Cell>, Exit>, Miss> {
        let p = V4::from_xyz(x);
        let walk = self.space.walk(&from.spot, p)?;
        let zone = from.spot.cell.domain();
        let (named, same, exit) = match walk {
            WalkEnd::Found(spot) => return Ok(Ok(ParticlePosition { spot, kept_fringe: from.kept_fringe })),
            WalkEnd::Hole(_) => (None, false, Exit::Hole),
            WalkEnd::Edge(s) => {
                let named = match self.space.geometry(s.cell)?.blank {
                    Blank::Fringe(z) => Some(z),
                    _ => None,
                };
                (named, true, Exit::Left)
            }
            WalkEnd::Lost { blank } => (None, true, if blank { Exit::Hole } else { Exit::Left }),
        };
        Ok(match self.cross(p, zone, named, same)? {
            Some(spot) => {
                let kept_fringe = matches!(self.space.blank(spot.cell)?, Blank::Fringe(_)).then_some(spot.cell);
                Ok(ParticlePosition { spot, kept_fringe })
            }
            None => Err(exit),
        })
    }
}

impl<L: Locator> Flow for DomainFlow<L> {
    type Cursor = ParticlePosition<L::Cell>;

    fn seed(&mut self, x: [f64; 3]) -> Result<Sample<Self::Cursor>, Miss> {
        let found = self.start(x)?.map(|spot| ParticlePosition { spot, kept_fringe: None });
        self.value(found.ok_or(Exit::Left))
    }

    fn at(&mut self, x: [f64; 3], from: &Self::Cursor) -> Result<Sample<Self::Cursor>, Miss> {
        let found = self.locate(x, from)?;
        self.value(found)
    }

    fn length_scale(&mut self, at: &Self::Cursor) -> Result<f64, Miss> {
        self.space.length(at.spot.cell)
    }
}
