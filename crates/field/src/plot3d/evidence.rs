//! Chooses among readings that add up, by a sample of the values.
//!
//! Numbers of the wrong width, order or type resemble noise: as floats they have random exponents, as iblank they are
//! huge. A reading wins only if nearly all of its sample is plausible and every other reading's is clearly not. If
//! there is no choice to make, NaNs are valid data.
//! data like any other when there is nothing to choose.

use super::bytes::{int32, real, ByteSource};
use super::options::{ByteOrder, Order, Plot3dOptions};
use super::ordering;
use super::reading::FileReading;
use super::walk::read_spans;
use std::io;

/// Sampled values of each array: this many at its start, middle and end.
const SAMPLE: u64 = 512;
/// Sampled zones.
const ZONES: usize = 4;
/// Least share of plausible values in the worst array of a winning reading.
const GOOD: f64 = 0.98;
/// Largest such share of a losing reading.
const BAD: f64 = 0.9;
/// Fewest implausible values of a losing reading; fewer may have other causes.
const ENOUGH: u64 = 6;
/// Fewest values for a decision: the coordinates of a 2x2x2 zone. Below that chance decides.
const LEAST: u64 = 24;

/// The index of the one plausible reading under `options`, if there is one.
pub(super) fn most_plausible(
    source: &dyn ByteSource,
    readings: &[FileReading],
    options: &Plot3dOptions,
) -> io::Result<Option<usize>> {
    let mut scores = Vec::with_capacity(readings.len());
    for reading in readings {
        let score = score(source, reading, likely_order(source, reading, options)?)?;
        scores.push(if starts_well(source, reading)? { score } else { Score { share: 0.0, ..score } });
    }
    let good: Vec<usize> = (0..scores.len()).filter(|&n| scores[n].share >= GOOD).collect();
    let loses = |s: &Score| s.share <= BAD && (s.odd >= ENOUGH || s.share == 0.0);
    Ok(match good[..] {
        [one] if scores[one].seen >= LEAST && scores.iter().enumerate().all(|(n, s)| n == one || loses(s)) => Some(one),
        _ => None,
    })
}

/// The result of sampling a reading's values.
#[derive(Copy, Clone, Debug)]
struct Score {
    /// The share of plausible values in the least plausible array.
    share: f64,
    /// Implausible values in all arrays.
    odd: u64,
    /// Sampled values.
    seen: u64,
    /// Sampled values that are zero.
    zeros: u64,
}

/// Whether the first numbers of the first zone are plausible. A reading that takes a header for shorter than it is
/// finds integers there, which are implausible as floating-point numbers.
fn starts_well(source: &dyn ByteSource, reading: &FileReading) -> io::Result<bool> {
    let e = &reading.encoding;
    let Some(zone) = reading.zones.first() else { return Ok(false) };
    let width = e.precision.bytes();
    let mut bytes = vec![0_u8; (zone.points().min(4) * width) as usize];
    read_spans(source, &zone.data, 0, &mut bytes)?;
    Ok(bytes.chunks_exact(width as usize).all(|v| plausible_real(real(v, e.byte_order == ByteOrder::Big))))
}

/// The order for sampling a reading's values. With iblank between the planes, coordinates in one order are noise in the
/// other. Without iblank both orders hold the same numbers.
fn likely_order(source: &dyn ByteSource, reading: &FileReading, options: &Plot3dOptions) -> io::Result<Order> {
    let e = &reading.encoding;
    if options.order.is_some() || !e.iblank || !reading.order_is_open() {
        return Ok(e.order);
    }
    Ok(ordering::order(source, reading)?.unwrap_or(e.order))
}

/// The share of plausible values in the least plausible array of the first zones; 0 if all are zeros. The order of the
/// reading must be right.
pub(super) fn plausibility(source: &dyn ByteSource, reading: &FileReading) -> io::Result<f64> {
    score(source, reading, reading.encoding.order).map(|s| if s.zeros == s.seen { 0.0 } else { s.share })
}

fn score(source: &dyn ByteSource, reading: &FileReading, order: Order) -> io::Result<Score> {
    let e = &reading.encoding;
    let width = e.precision.bytes();
    let big = e.byte_order == ByteOrder::Big;
    let mut sum = Score { share: 1.0, odd: 0, seen: 0, zeros: 0 };
    for zone in reading.zones.iter().take(ZONES) {
        // PLANES: the first plane's arrays represent the zone's.
        let points = match order {
            Order::Whole => zone.points(),
            Order::Planes => u64::from(zone.dims[0]) * u64::from(zone.dims[1]),
        };
        let arrays = u64::from(zone.variables) + u64::from(e.iblank);
        for array in 0..arrays.min(16) {
            let iblank = array == u64::from(zone.variables);
            let size = if iblank { 4 } else { width };
            let start = array * points * width;
            let (mut seen, mut fine, mut zeros) = (0_u64, 0_u64, 0_u64);
            for first in [0, (points / 2).saturating_sub(SAMPLE / 2), points.saturating_sub(SAMPLE)] {
                let count = SAMPLE.min(points - first);
                let mut bytes = vec![0_u8; (count * size) as usize];
                read_spans(source, &zone.data, start + first * size, &mut bytes)?;
                for value in bytes.chunks_exact(size as usize) {
                    seen += 1;
                    zeros += u64::from(value.iter().all(|&b| b == 0));
                    fine += u64::from(if iblank {
                        plausible_iblank(int32([value[0], value[1], value[2], value[3]], big))
                    } else {
                        plausible_real(real(value, big))
                    });
                }
            }
            if iblank && zeros == seen {
                // No grid is one hole; a plane of zero coordinates is common.
                fine = 0;
            }
            if seen > 0 {
                sum.share = sum.share.min(fine as f64 / seen as f64);
            }
            (sum.odd, sum.seen, sum.zeros) = (sum.odd + seen - fine, sum.seen + seen, sum.zeros + zeros);
        }
    }
    Ok(sum)
}

/// Lengths and flow quantities of any simulation lie well inside 1e-18 to 1e18.
fn plausible_real(v: f64) -> bool {
    v == 0.0 || (1e-18..1e18).contains(&v.abs())
}

/// Donor zones are negative zone numbers; no dataset has a hundred thousand zones.
fn plausible_iblank(v: i32) -> bool {
    (-100_000..1000).contains(&v)
}
