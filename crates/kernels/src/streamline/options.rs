//! Options of a streamline: seed, direction, accuracy, limits.

use crate::flow::DomainFlow;
use crate::rk::Method;
use field::domain::{Domains, Locator};
use field::expression::Condition;
use field::locator::{Blank, CellPoint};
use field::nodes::Miss;
use std::sync::Arc;

/// A cell and fractions, and the position.
type LocatedSeed<C> = (CellPoint<C>, [f64; 3]);

/// The direction of tracing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Direction {
    /// With the vector.
    Forward,
    /// Against it.
    Backward,
    /// Backward and forward, one line.
    Both,
}

/// Options of lines. Lengths and times are the dataset's.
#[derive(Clone, Debug)]
pub struct Options {
    /// Integrator.
    pub method: Integrator,
    /// Direction.
    pub direction: Direction,
    /// Largest local error of a step, as a share of the step's length.
    pub tolerance: f64,
    /// Largest length of each half.
    pub max_length: f64,
    /// Largest time of each half.
    pub max_time: f64,
    /// Most steps of each half.
    pub max_steps: u32,
    /// Speed below which a line ends.
    pub terminal_speed: TerminalSpeed,
    /// First step, length; `None`: from the cell.
    pub initial_step: Option<f64>,
    /// Longest step, length; the step of methods without step control. `None`: from the cell.
    pub max_step: Option<f64>,
    /// Step of the methods without step control if `max_step` is `None`, in cells.
    pub step_cells: f64,
    /// Condition that ends a half, tested at the seed and at the end of each step. Its sides are the last of the
    /// sampled components, behind those that the line keeps.
    pub stop: Option<Arc<Condition>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            method: Integrator::Rk45,
            direction: Direction::Forward,
            tolerance: 1e-6,
            max_length: f64::INFINITY,
            max_time: f64::INFINITY,
            max_steps: 2000,
            terminal_speed: TerminalSpeed::default(),
            initial_step: None,
            max_step: None,
            step_cells: 0.25,
            stop: None,
        }
    }
}

/// The speed below which a particle is at rest. It follows from the line itself only. So a line is the same in a flow
/// that is a thousand times as slow, and independent of other knowledge of the flow.
///
/// ```
/// # use kernels::streamline::TerminalSpeed;
/// assert!(TerminalSpeed::default().rests(1e-25, 1e-12) && !TerminalSpeed::default().rests(1e-25, 1e-14));
/// assert!(TerminalSpeed::Absolute(0.1).rests(0.05, 1.0) && TerminalSpeed::default().rests(0.0, 0.0));
/// ```
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum TerminalSpeed {
    /// A speed in the units of the data.
    Absolute(f64),
    /// A share of the largest speed of the line since its seed.
    Relative(f64),
}

impl Default for TerminalSpeed {
    fn default() -> Self {
        Self::Relative(Self::SHARE)
    }
}

impl TerminalSpeed {
    /// The default share. A speed that cancels in doubles keeps some 1e-16 of it.
    pub const SHARE: f64 = 1e-12;

    /// Whether a particle of this speed rests, on a line with the largest speed `fastest`. A speed of NaN rests.
    #[inline(always)]
    pub fn rests(self, speed: f64, fastest: f64) -> bool {
        let least = match self {
            Self::Absolute(least) => least,
            Self::Relative(share) => share * fastest,
        };
        !(speed > least)
    }
}

/// Available integrators.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Integrator {
    /// Embedded pairs with step control within each cell ([`crate::cellstep`]): Bogacki and Shampine's 3(2) first,
    /// Dormand and Prince's 5(4) if that is not exact enough.
    Rk45,
    /// Dormand-Prince 5(4) with step control in physical space, across cell faces.
    Rk45Physical,
    /// Fixed steps of a method in physical space.
    Fixed(Method),
}

/// The place of a seed.
#[derive(Clone, Debug, PartialEq)]
pub enum Seed {
    /// In physical space; located cold.
    Physical([f64; 3]),
    /// In a zone's computational space, 0-based fractional ijk.
    Computational {
        /// Zone number.
        zone: u32,
        /// 0-based fractional index.
        ijk: [f64; 3],
    },
    /// The first of these places in computational space (zone, 0-based ijk) with a usable cell: random seeds.
    FirstUsable(Box<[(u32, [f64; 3])]>),
}

impl Seed {
    /// Its cell and its position.
    ///
    /// # Errors
    /// [`Miss`].
    pub(crate) fn place<L: Locator>(&self, flow: &mut DomainFlow<L>) -> Result<Option<LocatedSeed<L::Cell>>, Miss> {
        match self {
            Self::Physical(x) => Ok(flow.start(*x)?.map(|s| (s, *x))),
            Self::Computational { zone, ijk } => usable_place(flow, *zone, *ijk),
            Self::FirstUsable(places) => {
                for (zone, ijk) in places {
                    let found = usable_place(flow, *zone, *ijk)?;
                    if found.is_some() {
                        return Ok(found);
                    }
                }
                Ok(None)
            }
        }
    }
}

/// A place in computational space, if its cell is usable.
fn usable_place<L: Locator>(
    flow: &mut DomainFlow<L>,
    zone: u32,
    ijk: [f64; 3],
) -> Result<Option<LocatedSeed<L::Cell>>, Miss> {
    let spot = flow.space.domains().spot(zone, ijk);
    let l = flow.space.geometry(spot.cell)?;
    Ok((l.blank != Blank::Hole).then(|| (spot, l.map().point(spot.rst))))
}
