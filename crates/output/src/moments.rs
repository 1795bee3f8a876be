//! What lines have to do with times of the dataset.

use std::sync::Arc;

/// The times at which lines are wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Moments {
    /// None: lines are of one moment.
    #[default]
    One,
    /// A line goes through them: it has a point at each that its particle lives to see.
    Through {
        /// Rising.
        times: Arc<[f64]>,
        /// In a file of its own, each particle trails so much time of its line behind it.
        trail: f64,
    },
    /// A seed has a line at each of them. Line number = number of the seed times how many they are, plus that of the moment.
    At {
        /// In the order of the run.
        times: Arc<[f64]>,
        /// The time step that each of them is, where lines are of one time step.
        steps: Option<Arc<[u32]>>,
        /// Of the times, for people.
        unit: String,
    },
}

impl Moments {
    /// Whether a seed has one line, whatever the moments.
    pub fn is_one_line(&self) -> bool {
        !matches!(self, Self::At { .. })
    }

    /// Lines that a seed has.
    pub fn lines_per_seed(&self) -> u64 {
        match self {
            Self::One | Self::Through { .. } => 1,
            Self::At { times, .. } => times.len() as u64,
        }
    }

    /// Of the line `number`: its seed.
    pub fn seed(&self, number: u64) -> u64 {
        number / self.lines_per_seed().max(1)
    }

    /// Of the line `number`, where each is of one moment: when that is.
    pub fn time(&self, number: u64) -> Option<f64> {
        match self {
            Self::At { times, .. } => times.get((number % times.len().max(1) as u64) as usize).copied(),
            _ => None,
        }
    }

    /// Of the line `number`, where each is of one time step: which.
    pub fn step(&self, number: u64) -> Option<u32> {
        match self {
            Self::At { steps: Some(steps), .. } => steps.get((number % steps.len().max(1) as u64) as usize).copied(),
            _ => None,
        }
    }

    /// The unit of what [`Self::time`] says.
    pub fn unit(&self) -> &str {
        match self {
            Self::At { unit, .. } => unit,
            _ => "",
        }
    }

    /// The times, for a file each.
    pub fn times(&self) -> &[f64] {
        match self {
            Self::One => &[],
            Self::Through { times, .. } | Self::At { times, .. } => times,
        }
    }
}
