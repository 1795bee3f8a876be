//! What a tracer asks of the world, and the answer over a gridded dataset.

use crate::line::Reason;
use field::cell::Rst;
use field::locator::{Blank, CellId, CellPoint, WalkEnd, ZoneLocator};
use field::motion::Neighbours;
use field::nodes::{Miss, Nodes};
use field::simd::V4;
use std::sync::Arc;

/// A sample of the traced vector.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Sample<C> {
    /// The vector, and where it was found.
    Value([f64; 3], C),
    /// In no zone, proven; or only in cells that are not usable.
    Outside(Exit),
}

impl<C> Sample<C> {
    /// A vector found at a place; where it is no number there is no flow, as where iblank says so.
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
    /// Why a line ends there; a wall tells more than either.
    pub(crate) fn reason(self, wall: bool) -> Reason {
        match (wall, self) {
            (true, _) => Reason::Wall,
            (false, Self::Hole) => Reason::Hole,
            (false, Self::Left) => Reason::Left,
        }
    }
}

/// A vector field that can be sampled in physical space, at a time where it changes. `Err` carries absence: nothing has changed, and
/// the same call is to be made again once the pages are there.
pub trait Flow {
    /// What is remembered of the last place.
    type Cursor: Copy + Send;
    /// Goes to a time. A steady field is the same at all of them.
    #[inline(always)]
    fn set_time(&mut self, _time: f64) {}
    /// Starts at a point.
    ///
    /// # Errors
    /// [`Miss`].
    fn seed(&mut self, x: [f64; 3]) -> Result<Sample<Self::Cursor>, Miss>;
    /// The vector at `x`, looked for from the last place.
    ///
    /// # Errors
    /// [`Miss`].
    fn at(&mut self, x: [f64; 3], from: &Self::Cursor) -> Result<Sample<Self::Cursor>, Miss>;
    /// The vector at `x` where that takes no search: `None` says nothing, and [`Self::at`] answers, to the last bit the same.
    #[inline(always)]
    fn quick(&mut self, _x: V4, _from: &Self::Cursor) -> Option<V4> {
        None
    }
    /// The cursor of a point for which [`Self::quick`] had an answer.
    #[inline(always)]
    fn quick_cursor(&mut self, _x: V4, from: &Self::Cursor) -> Self::Cursor {
        *from
    }
    /// A length that steps are measured by: the size of the cursor's cell, along its shortest direction.
    ///
    /// # Errors
    /// [`Miss`].
    fn length_scale(&mut self, at: &Self::Cursor) -> Result<f64, Miss>;
}

/// How zones are searched.
#[derive(Clone, Debug)]
pub struct ZoneOrder(
    /// Zone numbers, first to be searched first.
    pub Arc<[u32]>,
);

impl ZoneOrder {
    /// File order.
    pub fn file(zones: usize) -> Self {
        Self((0..zones as u32).collect())
    }
}

/// A gridded dataset as a [`Flow`]. Between zones it follows PLOT3D's conventions: a particle keeps its zone until it
/// leaves it or its cell has a negative corner; then the zone named there is searched, then the zones in order.
pub struct GridFlow<N> {
    /// Where things are.
    pub space: ZoneLocator<N>,
    /// Order of search between zones.
    pub order: ZoneOrder,
    /// Zone changes so far, for measurements.
    pub crossings: u64,
    /// Of a step of a series, what the motion of grids at it follows from; none: they stand.
    pub near: Option<Neighbours>,
}

/// Where a particle is, and which fringe cell it has already asked about.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct ParticlePosition {
    /// Cell and fractions.
    pub spot: CellPoint,
    /// The last cell with a negative corner for which no better zone was found.
    pub kept_fringe: Option<CellId>,
}

impl<N: Nodes> GridFlow<N> {
    /// Over a space.
    pub fn new(space: ZoneLocator<N>, order: ZoneOrder) -> Self {
        Self { space, order, crossings: 0, near: None }
    }

    /// The cell that a seed starts in: of the cells that cold location finds in each zone, the one of least volume, ties
    /// in search order.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn start(&mut self, x: [f64; 3]) -> Result<Option<CellPoint>, Miss> {
        let order = self.order.0.clone();
        let mut best: Option<(f64, CellPoint)> = None;
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
                // Other zones are still asked, so that all that is absent is reported at once.
                Err(m) => miss = Some(m),
            }
        }
        miss.map_or(Ok(best.map(|b| b.1)), Err)
    }

    /// Looks for a point that has left its cell's zone, or whose cell names another zone: the named zone first, then the
    /// others in order. `same` says whether the particle's own zone may hold it again (the seam of an O-grid).
    ///
    /// # Errors
    /// [`Miss`].
    #[cold]
    pub fn cross(&mut self, x: V4, from: u32, named: Option<u32>, same: bool) -> Result<Option<CellPoint>, Miss> {
        let order = self.order.0.clone();
        let zones = order.len() as u32;
        let own = same.then_some(from);
        let first = named.filter(|z| *z < zones && *z != from);
        let rest = order.iter().copied().filter(|z| *z != from && Some(*z) != first);
        let mut fringe: Option<CellPoint> = None;
        for z in own.into_iter().chain(first).chain(rest) {
            if let Some(s) = self.space.find(z as usize, x)? {
                self.crossings += u64::from(z != from);
                // A cell that itself only repeats another zone is second choice.
                match self.space.blank(s.cell)? {
                    Blank::Field => return Ok(Some(s)),
                    Blank::Fringe(_) => fringe = fringe.or(Some(s)),
                    Blank::Hole => {}
                }
            }
        }
        Ok(fringe)
    }

    /// Moves a particle whose cell has a negative corner to the zone that is named there, if a usable cell of it (or of a
    /// later zone) holds the point and is not itself a fringe. `None` where nothing changes, which is nearly always: a place that is
    /// handed over as it was takes a tenth of a step.
    ///
    /// # Errors
    /// [`Miss`].
    #[inline(always)]
    pub fn settle(
        &mut self,
        place: &ParticlePosition,
        x: impl FnOnce(&mut Self) -> Result<V4, Miss>,
    ) -> Result<Option<ParticlePosition>, Miss> {
        match self.space.blank(place.spot.cell) {
            Ok(Blank::Fringe(named)) if place.kept_fringe != Some(place.spot.cell) => {
                let x = x(self)?;
                self.settle_fringe(place, named, x).map(Some)
            }
            Ok(_) => Ok(None),
            Err(miss) => {
                // What else the cell needs is asked for together with iblank.
                self.space.shape(place.spot.cell)?;
                Err(miss)
            }
        }
    }

    #[cold]
    fn settle_fringe(&mut self, place: &ParticlePosition, named: u32, x: V4) -> Result<ParticlePosition, Miss> {
        let found = self.cross(x, place.spot.cell.zone, Some(named), false)?;
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
    pub fn position(&mut self, cell: CellId, q: Rst) -> Result<[f64; 3], Miss> {
        Ok(self.space.shape(cell)?.map().point(q))
    }

    /// The vector where a point was found.
    fn value(&mut self, found: Result<ParticlePosition, Exit>) -> Result<Sample<ParticlePosition>, Miss> {
        let place = match found {
            Ok(place) => place,
            Err(exit) => return Ok(Sample::Outside(exit)),
        };
        let v = self.space.full(place.spot.cell)?.vector.at(place.spot.rst);
        Ok(Sample::of(v, place))
    }

    /// Looks for a point from the last place: in its zone, or where a particle that leaves it goes on.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn locate(&mut self, x: [f64; 3], from: &ParticlePosition) -> Result<Result<ParticlePosition, Exit>, Miss> {
        let p = V4::from_xyz(x);
        let walk = self.space.walk(&from.spot, p)?;
        let zone = from.spot.cell.zone;
        let (named, same, exit) = match walk {
            WalkEnd::Found(spot) => return Ok(Ok(ParticlePosition { spot, kept_fringe: from.kept_fringe })),
            WalkEnd::Hole(_) => (None, false, Exit::Hole),
            WalkEnd::Edge(s) => {
                let named = match self.space.shape(s.cell)?.blank {
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

    /// Size of a cell along its shortest direction.
    ///
    /// # Errors
    /// [`Miss`].
    #[inline(always)]
    pub fn cell_length(&mut self, cell: CellId) -> Result<f64, Miss> {
        match self.space.even_length(cell.zone as usize) {
            Some(length) => Ok(length),
            None => self.curved_length(cell),
        }
    }

    #[inline(never)]
    fn curved_length(&mut self, cell: CellId) -> Result<f64, Miss> {
        let l = self.space.shape(cell)?;
        let (map, thin) = (l.map(), l.thin);
        // Four corners at which each edge begins or ends once. Of the four edges of a direction the longest counts: at a polar axis one
        // of them has shrunk to a point, and steps measured by the cell's width where the particle is would never get past it.
        let corners = [[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]].map(|q| map.jacobian(q));
        let edge =
            |a: usize| corners.iter().map(|j| (0..3).map(|c| j[c][a] * j[c][a]).sum()).fold(0.0f64, f64::max).sqrt();
        // Directions of one point aside.
        Ok((0..3).filter(|a| !thin[*a]).map(edge).filter(|e| *e > 0.0).fold(f64::INFINITY, f64::min))
    }
}

impl<N: Nodes> Flow for GridFlow<N> {
    type Cursor = ParticlePosition;

    fn seed(&mut self, x: [f64; 3]) -> Result<Sample<ParticlePosition>, Miss> {
        let found = self.start(x)?.map(|spot| ParticlePosition { spot, kept_fringe: None });
        self.value(found.ok_or(Exit::Left))
    }

    fn at(&mut self, x: [f64; 3], from: &ParticlePosition) -> Result<Sample<ParticlePosition>, Miss> {
        let found = self.locate(x, from)?;
        self.value(found)
    }

    fn length_scale(&mut self, at: &ParticlePosition) -> Result<f64, Miss> {
        self.cell_length(at.spot.cell)
    }
}
