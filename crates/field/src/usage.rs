//! The parts of a dataset that runs have used, for remarks on some numbers only. An odd Mach number in a header affects
//! pressure coefficients, not streamlines.

use crate::catalog::{Catalog, OF_ENERGY, OF_FREE_STREAM, OF_TIME};
use crate::quantity::{Derived, Quantity};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::Arc;

/// A part of a dataset that only some runs use.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// The Mach number of the free stream.
    FreeStream = 1,
    /// Energy, and the ratio of specific heats.
    Energy = 2,
    /// The times of the steps.
    Time = 4,
}

impl Use {
    const ALL: [Self; 3] = [Self::FreeStream, Self::Energy, Self::Time];

    /// The common text of the remarks about it.
    const fn marker(self) -> &'static str {
        match self {
            Self::FreeStream => OF_FREE_STREAM,
            Self::Energy => OF_ENERGY,
            Self::Time => OF_TIME,
        }
    }
}

/// The parts used so far. Copies share it.
///
/// ```
/// # use field::usage::{Use, Uses};
/// let uses = Uses::default();
/// uses.clone().note(Use::Time);
/// assert!(uses.has(Use::Time) && !uses.has(Use::Energy));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Uses(Arc<AtomicU8>);

impl Uses {
    /// Records a use.
    pub fn note(&self, of: Use) {
        self.0.fetch_or(of as u8, Relaxed);
    }

    /// Whether it was recorded.
    pub fn has(&self, of: Use) -> bool {
        self.0.load(Relaxed) & of as u8 != 0
    }

    /// Records the uses of fields.
    pub fn quantities(&self, fields: &[Quantity]) {
        for q in fields {
            if let Quantity::Derived(d) = q {
                if d.needs_energy() {
                    self.note(Use::Energy);
                }
                if *d == Derived::PressureCoefficient {
                    self.note(Use::FreeStream);
                }
            }
        }
    }

    /// The remarks on all used parts, and those for every user.
    pub(crate) fn remarks<'c>(&self, catalog: &'c Catalog) -> Vec<&'c str> {
        let used = |s: &&str| Use::ALL.iter().any(|u| self.has(*u) && s.contains(u.marker()));
        catalog.doubts().chain(catalog.guessed.iter().map(String::as_str).filter(used)).collect()
    }
}
