//! The traced vector and sampled fields of a run, resolved to the arrays of each zone.

use crate::error::FieldError;
use crate::nodes::{Corners, Miss, Zone};
use crate::quantity::{ConservedCorners, Derived, FreeStream, Quantity, Sources};
use crate::simd::V4;

/// The source of the traced vector in one zone.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum VectorSource {
    /// A stored vector array.
    Stored(usize),
    /// Momentum over density: (momentum, density).
    Quotient(usize, usize),
    /// This zone has no vector.
    None,
}

impl VectorSource {
    /// The vector at the corners of a cell, into `v`. All absent pages are listed at once.
    ///
    /// # Errors
    /// [`Miss`].
    #[inline(always)]
    pub fn corners(self, at: &mut impl Corners, v: &mut [V4; 8]) -> Result<(), Miss> {
        match self {
            Self::Stored(a) => at.vector(a, v)?,
            Self::Quotient(m, d) => {
                let mut rho = [0.0; 8];
                let a = at.vector(m, v);
                let b = at.scalar(d, 0, &mut rho);
                if a.is_err() || b.is_err() {
                    return Err(Miss::worst([a.err(), b.err(), None]));
                }
                for (v, rho) in v.chunks_exact_mut(4).zip(rho.chunks_exact(4)) {
                    let inv = V4::splat(1.0) / V4::new(rho[0], rho[1], rho[2], rho[3]);
                    v[0] = v[0] * inv.lane::<0>();
                    v[1] = v[1] * inv.lane::<1>();
                    v[2] = v[2] * inv.lane::<2>();
                    v[3] = v[3] * inv.lane::<3>();
                }
            }
            Self::None => *v = [V4::zero(); 8],
        }
        Ok(())
    }
}

/// The traced vector and sampled fields of one zone.
#[derive(Clone, Debug)]
pub struct ZoneFields {
    /// The traced vector.
    pub vector: VectorSource,
    /// The sampled fields.
    pub sampled: Vec<Quantity>,
    /// The arrays for derived fields.
    pub sources: Sources,
    /// Ratio of specific heats, if there is no array of it.
    pub gamma: f64,
    /// The free stream: its Mach number, and the scales of non-dimensional fields.
    pub free: FreeStream,
}

impl ZoneFields {
    /// Values of the sampled fields at the corners of a cell, a row per component. All absent pages are listed at once.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn sample(&self, at: &mut impl Corners, out: &mut Vec<[f64; 8]>) -> Result<(), Miss> {
        out.clear();
        let conserved = self.conserved(at);
        let mut miss = conserved.as_ref().err().copied();
        for q in &self.sampled {
            let rows = match *q {
                Quantity::Derived(d) => {
                    if let Ok(c) = &conserved {
                        d.at_corners(c, self.free, |row| out.push(row));
                    }
                    continue;
                }
                Quantity::Stored { array, components } => (array, 0..components),
                Quantity::Component { array, component } => (array, component..component + 1),
            };
            for k in rows.1 {
                let mut v = [0.0; 8];
                match at.scalar(rows.0, k, &mut v) {
                    Ok(()) => out.push(v),
                    Err(m) => miss = Some(Miss::worst([miss, Some(m), None])),
                }
            }
        }
        miss.map_or(Ok(()), Err)
    }

    /// The conserved variables for the sampled fields, at the corners of a cell.
    #[inline(always)]
    fn conserved(&self, at: &mut impl Corners) -> Result<ConservedCorners, Miss> {
        let mut c = ConservedCorners { of: [[0.0; 8]; 6] };
        let [density, x, y, z, energy, gamma] = &mut c.of;
        *gamma = [self.gamma; 8];
        let derived = || self.sampled.iter().filter_map(|q| if let Quantity::Derived(d) = q { Some(*d) } else { None });
        if derived().next().is_none() {
            return Ok(c);
        }
        let mut miss: Option<Miss> = None;
        let mut take = |array: Option<usize>, into: &mut [f64; 8]| {
            if let Some(Err(m)) = array.map(|array| at.scalar(array, 0, into)) {
                miss = Some(Miss::worst([miss, Some(m), None]));
            }
        };
        take(self.sources.density, density);
        if derived().any(Derived::needs_energy) {
            take(self.sources.energy, energy);
            take(self.sources.gamma, gamma);
        }
        if let (true, Some(m)) = (derived().any(Derived::needs_momentum), self.sources.momentum) {
            let mut v = [V4::zero(); 8];
            if let Err(m) = at.vector(m, &mut v) {
                miss = Some(Miss::worst([miss, Some(m), None]));
            }
            for (n, v) in v.iter().enumerate() {
                [x[n], y[n], z[n]] = v.xyz();
            }
        }
        miss.map_or(Ok(c), Err)
    }

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

    /// The fields of a zone, by the names of the vector to trace (if any) and the fields to sample.
    ///
    /// # Errors
    /// [`FieldError::Unknown`] for a name that the zone lacks, [`FieldError::Usage`] for a scalar as the vector.
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
