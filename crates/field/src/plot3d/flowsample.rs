//! Samples of the flow in a q file.

use super::bytes::{real, ByteSource};
use super::options::Order;
use super::reading::{FileReading, ZoneReading};
use super::walk::read_spans;
use std::io;

/// Sampled zones.
const ZONES: usize = 4;
/// Sampled pieces of rows in each zone, and points of a piece.
const PIECES: u64 = 5;
const PIECE: u64 = 32;

/// Density, momentum and energy at a point.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Flow {
    pub density: f64,
    /// The square of the momentum's length.
    pub momentum2: f64,
    pub energy: f64,
}

impl Flow {
    /// The same flow with velocities multiplied by `by`.
    pub fn times(self, by: f64) -> Self {
        Self { momentum2: self.momentum2 * by * by, energy: self.energy * by * by, ..self }
    }

    pub fn pressure(&self, gamma: f64) -> f64 {
        (gamma - 1.0) * (self.energy - 0.5 * self.momentum2 / self.density)
    }

    pub fn pressure_coefficient(&self, gamma: f64, mach: f64) -> f64 {
        (self.pressure(gamma) - 1.0 / gamma) / (0.5 * mach * mach)
    }
}

/// The flow at some points of the first zones, each with its zone. Points without density, such as holes, are left out.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    pub flows: Vec<(usize, Flow)>,
}

impl Sample {
    /// A sample of a q file whose velocities are divided by `velocity` a_inf.
    pub fn of(source: &dyn ByteSource, reading: &FileReading, velocity: f64) -> io::Result<Self> {
        let dim = reading.encoding.dimension.count();
        let mut flows = Vec::new();
        for (n, zone) in reading.zones.iter().enumerate().take(ZONES) {
            let plane = u64::from(zone.dims[0]) * u64::from(zone.dims[1]);
            let points = zone.points();
            for piece in 0..PIECES {
                // A piece stays within a plane, where both orders agree.
                let first = points.saturating_sub(1) * piece / (PIECES - 1);
                let count = PIECE.min(plane);
                let first = first.min(first / plane * plane + plane - count);
                let columns = (0..dim + 2).map(|v| column(source, reading, zone, v as u64, first, count));
                let columns = columns.collect::<io::Result<Vec<_>>>()?;
                for p in 0..count as usize {
                    let (density, energy) = (columns[0][p], columns[dim + 1][p]);
                    let momentum2 = columns[1..=dim].iter().map(|c| c[p] * c[p]).sum();
                    let flow = Flow { density, momentum2, energy }.times(velocity);
                    if density > 0.0 && flow.momentum2.is_finite() && flow.energy.is_finite() {
                        flows.push((n, flow));
                    }
                }
            }
        }
        Ok(Self { flows })
    }
}

/// Values of a variable at `count` points from `first` on, within one plane.
fn column(
    source: &dyn ByteSource,
    reading: &FileReading,
    zone: &ZoneReading,
    variable: u64,
    first: u64,
    count: u64,
) -> io::Result<Vec<f64>> {
    let e = &reading.encoding;
    let width = e.precision.bytes();
    let plane = u64::from(zone.dims[0]) * u64::from(zone.dims[1]);
    // The reading adds up with all of these places.
    let at = match e.order {
        Order::Whole => (variable * zone.points() + first) * width,
        Order::Planes => {
            let (k, within) = (first / plane, first % plane);
            ((k * u64::from(zone.variables) + variable) * plane + within) * width
        }
    };
    let mut bytes = vec![0_u8; (count * width) as usize];
    read_spans(source, &zone.data, at, &mut bytes)?;
    Ok(bytes.chunks_exact(width as usize).map(|v| real(v, e.big())).collect())
}
