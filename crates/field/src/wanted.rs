//! What a run traces and samples, resolved to the arrays of each zone.

use crate::error::FieldError;
use crate::nodes::Zone;
use crate::quantity::{Derived, FreeStream, Quantity, Sources};

/// Where the vector that is traced comes from in one zone.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum VectorSource {
    /// A stored vector array.
    Stored(usize),
    /// Momentum over density: (momentum, density).
    Quotient(usize, usize),
    /// This zone has none.
    None,
}

/// What is traced and what is sampled on the way, for one zone.
#[derive(Clone, Debug)]
pub struct ZoneFields {
    /// The traced vector.
    pub vector: VectorSource,
    /// The sampled fields.
    pub sampled: Vec<Quantity>,
    /// What derived fields are made of.
    pub sources: Sources,
    /// Ratio of specific heats where there is no array of it.
    pub gamma: f64,
    /// The free stream: its Mach number, and what non-dimensional fields are made with.
    pub free: FreeStream,
}

impl ZoneFields {
    /// Arrays that a step reads besides coordinates and iblank.
    pub fn arrays(&self) -> Vec<usize> {
        let mut used = match self.vector {
            VectorSource::Stored(a) => vec![a],
            VectorSource::Quotient(a, b) => vec![a, b],
            VectorSource::None => Vec::new(),
        };
        for q in &self.sampled {
            match *q {
                Quantity::Stored { array, .. } | Quantity::Component { array, .. } => used.push(array),
                Quantity::Derived(d) => {
                    let s = &self.sources;
                    used.extend(s.density);
                    used.extend(s.momentum.filter(|_| d.needs_momentum()));
                    used.extend(s.energy.filter(|_| d.needs_energy()));
                    used.extend(s.gamma.filter(|_| d.needs_energy()));
                }
            }
        }
        used
    }

    /// For a zone: the vector to trace by name (`None`: nothing is traced) and the fields to sample.
    ///
    /// # Errors
    /// [`FieldError::Unknown`] for a name that the zone does not have, [`FieldError::Usage`] for a scalar as the vector.
    pub fn named(
        zone: &Zone,
        vector: Option<&str>,
        sampled: &[String],
        gamma: f64,
        free: impl Into<FreeStream>,
    ) -> Result<Self, FieldError> {
        let sources = Sources::of(zone);
        let find = |name: &str| {
            Quantity::named(zone, name).ok_or_else(|| FieldError::Unknown {
                what: "field",
                name: name.to_owned(),
                known: Quantity::names(zone),
            })
        };
        let source = match vector {
            None => VectorSource::None,
            Some(name) => match (find(name)?, sources.momentum, sources.density) {
                (Quantity::Derived(Derived::Velocity), Some(m), Some(d)) => VectorSource::Quotient(m, d),
                (Quantity::Stored { array, components: 2 | 3 }, ..) => VectorSource::Stored(array),
                _ => {
                    let vectors: Vec<String> = Quantity::names(zone)
                        .into_iter()
                        .filter(|n| Quantity::named(zone, n).is_some_and(|q| q.components() > 1))
                        .collect();
                    let there = if vectors.is_empty() { "none".to_owned() } else { vectors.join(", ") };
                    return Err(FieldError::Usage(format!(
                        "field '{name}' is not a vector, so it cannot be traced; vectors are: {there}"
                    )));
                }
            },
        };
        Ok(Self {
            vector: source,
            sampled: sampled.iter().map(|n| find(n)).collect::<Result<_, _>>()?,
            sources,
            gamma,
            free: free.into(),
        })
    }
}
