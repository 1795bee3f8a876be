//! Lines and times of the dataset.

use std::sync::Arc;

/// The times of lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Moments {
    /// Lines without several times.
    #[default]
    One,
    /// A line passes through them: it has a point at each time before the end of its particle.
    Through {
        /// Rising.
        times: Arc<[f64]>,
        /// Length in time of the trail of each particle in a file of its own.
        trail: f64,
    },
    /// A seed has a line at each of them. A line's number is that of the seed times the number of moments, plus that of
    /// the moment.
    At {
        /// In the order of the run.
        times: Arc<[f64]>,
        /// The time step of each, if lines are of one time step.
        steps: Option<Arc<[u32]>>,
        /// Unit of the times, for people.
        unit: String,
    },
}

impl Moments {
    /// Whether a seed has one line, for any number of moments.
    pub fn is_one_line(&self) -> bool {
        !matches!(self, Self::At { .. })
    }

    /// Lines of a seed.
    pub fn lines_per_seed(&self) -> u64 {
        match self {
            Self::One | Self::Through { .. } => 1,
            Self::At { times, .. } => times.len() as u64,
        }
    }

    /// The seed of line `number`.
    pub fn seed(&self, number: u64) -> u64 {
        number / self.lines_per_seed().max(1)
    }

    /// The time of line `number`, if each is of one moment.
    pub fn time(&self, number: u64) -> Option<f64> {
        match self {
            Self::At { times, .. } => times.get((number % times.len().max(1) as u64) as usize).copied(),
            _ => None,
        }
    }

    /// The time step of line `number`, if each is of one time step.
    pub fn step(&self, number: u64) -> Option<u32> {
        match self {
            Self::At { steps: Some(steps), .. } => steps.get((number % steps.len().max(1) as u64) as usize).copied(),
            _ => None,
        }
    }

    /// The unit of [`Self::time`].
    pub fn unit(&self) -> &str {
        match self {
            Self::At { unit, .. } => unit,
            _ => "",
        }
    }

    /// The times, with a file each.
    pub fn times(&self) -> &[f64] {
        match self {
            Self::One => &[],
            Self::Through { times, .. } | Self::At { times, .. } => times,
        }
    }
}
