//! What is asked of a streamline: where from, which way, how exactly, how far.

use crate::flow::GridFlow;
use crate::rk::Method;
use field::expression::Condition;
use field::locator::{Blank, CellId, CellPoint};
use field::nodes::{Miss, Nodes};
use std::sync::Arc;

/// Which way to go.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Direction {
    /// With the vector.
    Forward,
    /// Against it.
    Backward,
    /// Backward and forward, one line.
    Both,
}

/// How lines are made. Lengths and times are the dataset's.
#[derive(Clone, Debug)]
pub struct Options {
    /// Integrator.
    pub method: Integrator,
    /// Which way.
    pub direction: Direction,
    /// Largest local error of a step, as a share of the step's length.
    pub tolerance: f64,
    /// Length of each half at which it ends.
    pub max_length: f64,
    /// Time of each half at which it ends.
    pub max_time: f64,
    /// Steps of each half at which it ends.
    pub max_steps: u32,
    /// Speed below which a line ends.
    pub terminal_speed: TerminalSpeed,
    /// First step, length; `None`: from the cell.
    pub initial_step: Option<f64>,
    /// Longest step, length; the step of methods without step control. `None`: from the cell.
    pub max_step: Option<f64>,
    /// Step of the methods without step control where `max_step` says nothing, in cells.
    pub step_cells: f64,
    /// What ends a half where it holds, at the seed or at the end of a step. Its sides are the last of what is sampled, behind what
    /// the line keeps.
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

/// The speed at which a particle counts as one at rest. Nothing but the line itself enters, so that it does not depend on what else is
/// known of the flow, and a line is the same in a flow that is a thousand times as slow.
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
    /// A share of the largest speed that the line has had since its seed.
    Relative(f64),
}

impl Default for TerminalSpeed {
    fn default() -> Self {
        Self::Relative(Self::SHARE)
    }
}

impl TerminalSpeed {
    /// The share where nobody says anything: what is left of a speed that doubles have cancelled has some 1e-16 of it.
    pub const SHARE: f64 = 1e-12;

    /// Whether a particle of this speed rests, whose line has been as fast as `fastest`. One whose speed is no number does.
    #[inline(always)]
    pub fn rests(self, speed: f64, fastest: f64) -> bool {
        let least = match self {
            Self::Absolute(least) => least,
            Self::Relative(share) => share * fastest,
        };
        !(speed > least)
    }
}

/// Integrators on offer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Integrator {
    /// Embedded pairs with step control within each cell ([`crate::cellstep`]): Bogacki and Shampine's 3(2) first, Dormand
    /// and Prince's 5(4) where that is not exact enough.
    Rk45,
    /// Dormand-Prince 5(4) with step control in physical space, across cell faces.
    Rk45Physical,
    /// Fixed steps of a method in physical space.
    Fixed(Method),
}

/// Where a seed is given.
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
    /// The first of these places in computational space (zone, 0-based ijk) whose cell is usable: random seeds.
    FirstUsable(Box<[(u32, [f64; 3])]>),
}

impl Seed {
    /// Where it is found, and its position.
    ///
    /// # Errors
    /// [`Miss`].
    pub(crate) fn place<N: Nodes>(&self, flow: &mut GridFlow<N>) -> Result<Option<(CellPoint, [f64; 3])>, Miss> {
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

/// A place in computational space, unless its cell is not usable.
fn usable_place<N: Nodes>(
    flow: &mut GridFlow<N>,
    zone: u32,
    ijk: [f64; 3],
) -> Result<Option<(CellPoint, [f64; 3])>, Miss> {
    let cells = flow.space.nodes.zones()[zone as usize].cells();
    let low: [u32; 3] = core::array::from_fn(|a| (ijk[a].floor().max(0.0) as u32).min(cells[a] - 1));
    let spot = CellPoint { cell: CellId { zone, ijk: low }, rst: core::array::from_fn(|a| ijk[a] - f64::from(low[a])) };
    let l = flow.space.shape(spot.cell)?;
    Ok((l.blank != Blank::Hole).then(|| (spot, l.map().point(spot.rst))))
}
