//! What is asked of a streamline: where from, which way, how exactly, how far.

use crate::rk::Method;

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
    pub terminal_speed: f64,
    /// First step, length; `None`: from the cell.
    pub initial_step: Option<f64>,
    /// Longest step, length; the step of methods without step control. `None`: from the cell.
    pub max_step: Option<f64>,
    /// Step of the methods without step control where `max_step` says nothing, in cells.
    pub step_cells: f64,
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
            terminal_speed: 1e-12,
            initial_step: None,
            max_step: None,
            step_cells: 0.25,
        }
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
