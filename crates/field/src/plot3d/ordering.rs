//! The order of a file's numbers, WHOLE or PLANES, from the values.
//!
//! **Theory.** Both orders take the same number of bytes, and agree within one plane. They differ in where the next
//! plane of the same variable is. Neighbouring planes of one variable are nearly equal; planes of different variables
//! (x and y, say) are not. So the points of two planes that an order makes neighbours are correlated: nearly perfectly
//! under the right order, and not under the wrong one. Correlation is independent of scale, so the distance of the
//! planes does not matter. Planes of one value (z of an extruded grid) give no information and are left out.
//!
//! **Practice.** The sample is a few hundred values of a few dozen planes of the first zones. The planes are those
//! where the orders disagree: anywhere for WHOLE. For PLANES it is where a WHOLE file passes from one variable to the
//! next.

use super::bytes::{real, ByteSource};
use super::options::Order;
use super::reading::{FileReading, ZoneReading};
use super::walk::read_spans;
use std::io;

/// Sampled zones.
const ZONES: usize = 4;
/// Sampled variables.
const VARIABLES: u64 = 8;
/// Sample of a plane: pieces of this many points in a row, spread over the plane.
const PIECE: u64 = 32;
const PIECES: u64 = 8;
/// Fewest points of a useful plane.
const LEAST: u64 = 16;
/// Fewest points if records leave both orders open, where nothing else gives more evidence.
const LEAST_OPEN: u64 = 4;
/// An order loses if its neighbouring planes leave at least this share of each other's variance unexplained, ...
const ROUGH: f64 = 0.05;
/// ... and this many times as much as under the other order.
const CLEARLY: f64 = 5.0;

/// The order of a file's numbers, if the values decide it.
pub(super) fn order(source: &dyn ByteSource, reading: &FileReading) -> io::Result<Option<Order>> {
    let mut sums = [(0.0, 0_u32); 2];
    let least = if reading.also.is_some() { LEAST_OPEN } else { LEAST };
    let zones = reading.zones.iter().filter(|z| z.dims[2] > 1 && plane_points(z) >= least && z.variables > 1);
    for zone in zones.take(ZONES) {
        for (order, sum) in [Order::Whole, Order::Planes].into_iter().zip(&mut sums) {
            for (variable, k) in places(reading, zone, order) {
                let low = plane(source, reading, zone, order, variable, k)?;
                let high = plane(source, reading, zone, order, variable, k + 1)?;
                if let Some(rough) = unexplained(&low, &high) {
                    *sum = (sum.0 + rough, sum.1 + 1);
                }
            }
        }
    }
    let [whole, planes] = sums.map(|(sum, n)| if n > 0 { sum / f64::from(n) } else { f64::NAN });
    Ok(if planes > ROUGH && planes > CLEARLY * whole {
        Some(Order::Whole)
    } else if whole > ROUGH && whole > CLEARLY * planes {
        Some(Order::Planes)
    } else {
        None
    })
}

fn plane_points(zone: &ZoneReading) -> u64 {
    u64::from(zone.dims[0]) * u64::from(zone.dims[1])
}

/// Variables and planes k to compare with plane k + 1 under an order.
fn places(reading: &FileReading, zone: &ZoneReading, order: Order) -> Vec<(u64, u64)> {
    let planes = u64::from(zone.dims[2]);
    let variables = u64::from(zone.variables);
    let looked_at = variables.min(VARIABLES);
    let mut ks: Vec<u64> = match order {
        Order::Whole => vec![0, (planes - 1) / 2, planes - 2],
        Order::Planes => {
            // Here a WHOLE file reaches variable m.
            let width = reading.encoding.precision.bytes();
            let point = variables * width + if reading.encoding.iblank { 4 } else { 0 };
            (1..=looked_at.min(variables - 1))
                .flat_map(|m| {
                    let k = m * planes * width / point;
                    [k.saturating_sub(1), k]
                })
                .collect()
        }
    };
    ks.retain(|k| k + 1 < planes);
    ks.dedup();
    ks.into_iter().flat_map(|k| (0..looked_at).map(move |v| (v, k))).collect()
}

/// Sampled values of a plane of a variable under an order.
fn plane(
    source: &dyn ByteSource,
    reading: &FileReading,
    zone: &ZoneReading,
    order: Order,
    variable: u64,
    k: u64,
) -> io::Result<Vec<f64>> {
    let e = &reading.encoding;
    let width = e.precision.bytes();
    let points = plane_points(zone);
    // The reading adds up with all of these places.
    let start = match order {
        Order::Whole => (variable * u64::from(zone.dims[2]) + k) * points * width,
        Order::Planes => {
            let point = u64::from(zone.variables) * width + if e.iblank { 4 } else { 0 };
            k * points * point + variable * points * width
        }
    };
    let mut values = Vec::new();
    let mut bytes = [0_u8; (PIECE * 8) as usize];
    let pieces = points.div_ceil(PIECE).min(PIECES);
    for n in 0..pieces {
        let first = points.saturating_sub(PIECE) * n / (pieces - 1).max(1);
        let part = &mut bytes[..(PIECE.min(points) * width) as usize];
        read_spans(source, &zone.data, start + first * width, part)?;
        values.extend(part.chunks_exact(width as usize).map(|v| real(v, e.big())));
    }
    Ok(values)
}

/// The share of the variance of `a` that a linear function of `b` leaves unexplained. `None` if one of them is
/// constant. 1 if values are not finite, as under an order that splits numbers.
fn unexplained(a: &[f64], b: &[f64]) -> Option<f64> {
    let n = a.len().min(b.len()) as f64;
    let mean = |v: &[f64]| v.iter().sum::<f64>() / n;
    let (ma, mb) = (mean(a), mean(b));
    let (mut aa, mut bb, mut ab) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        aa += (x - ma) * (x - ma);
        bb += (y - mb) * (y - mb);
        ab += (x - ma) * (y - mb);
    }
    if !(aa * bb).is_finite() {
        return Some(1.0);
    }
    // Rounding of single precision does not count as variance.
    let varies = |square: f64, mean: f64| square > 1e-10 * n * mean * mean && square > 0.0;
    (varies(aa, ma) && varies(bb, mb)).then(|| 1.0 - ab * ab / (aa * bb))
}

#[cfg(test)]
mod tests {
    use super::super::options::{Format, Kind, Precision};
    use super::super::tests::Plot3dFolder;
    use super::super::write::{write, WriteSpec};
    use super::super::Plot3dOptions;
    use super::*;
    use crate::catalog::RowReader;

    /// A quarter of an annulus whose spacing grows along k, as in boundary-layer grids; x and y are curved.
    fn coordinate(dims: [usize; 3], variable: usize, k: usize, j: usize, i: usize) -> f64 {
        let turn = 1.4 * j as f64 / (dims[1] - 1) as f64;
        let radius = 1.0 + 0.2 * 1.3_f64.powi(k as i32);
        match variable {
            0 => radius * turn.cos(),
            1 => radius * turn.sin(),
            _ => i as f64 * 0.3,
        }
    }

    fn file(kind: Kind, format: Format, order: Order, dims: [usize; 3], precision: Precision, iblank: bool) -> Vec<u8> {
        let iblank = iblank && kind == Kind::Grid;
        let spec = WriteSpec { format, order, precision, iblank, ..WriteSpec::new(kind, vec![dims]) };
        let mut out = Vec::new();
        write(&mut out, &spec, &mut |_, variable, k, plane| {
            for (n, v) in plane.iter_mut().enumerate() {
                let (j, i) = (n / dims[0], n % dims[0]);
                *v = match (kind, variable) {
                    (Kind::Grid, 3) => 1.0,
                    (Kind::Grid, _) => coordinate(dims, variable, k, j, i),
                    // All planes are equal.
                    _ => 1.0 + variable as f64,
                };
            }
        })
        .unwrap();
        out
    }

    #[test]
    fn the_values_tell() {
        for dims in [[9, 8, 2], [33, 17, 3], [5, 21, 40]] {
            for order in [Order::Whole, Order::Planes] {
                for (precision, iblank) in
                    [(Precision::Single, false), (Precision::Double, true), (Precision::Single, true)]
                {
                    for format in [Format::Binary, Format::Ascii] {
                        if iblank && format == Format::Ascii && order == Order::Planes {
                            // Its integers are where WHOLE has coordinates, so it is refused earlier.
                            continue;
                        }
                        let folder = Plot3dFolder::new();
                        let grid = folder.file("a.xyz", &file(Kind::Grid, format, order, dims, precision, iblank));
                        let q = folder.file("a.q", &file(Kind::Q, format, order, dims, precision, false));
                        // Some numbers have fewer digits in text; only the order matters here.
                        let open = folder.open(&grid, &[q], &[]).unwrap();
                        let xyz = open.layout(0, 0).unwrap();
                        let mut row = vec![0; dims[0] * xyz.dtype().size()];
                        xyz.read_rows(0, 1, 1, 3..4, &mut row).unwrap();
                        let got = real(&row[..xyz.dtype().size()], false);
                        let want = coordinate(dims, 1, 1, 3, 0);
                        assert!((got - want).abs() < 1e-5, "{dims:?} {order:?} {format:?}: {:?}", open.catalog.guessed);
                        // The solution is the same everywhere, so it gets the grid's order.
                        let momentum = open.layout(0, if iblank { 3 } else { 2 }).unwrap();
                        let mut row = vec![0; dims[0] * momentum.dtype().size()];
                        momentum.read_rows(0, 1, 1, 3..4, &mut row).unwrap();
                        assert_eq!(real(&row[..momentum.dtype().size()], false), 3.0, "{:?}", open.catalog.guessed);
                        let said = open.catalog.guessed.join(" ");
                        assert!(said.contains("smoothly") && said.contains(&order.word().to_uppercase()), "{said}");
                        // A guessed order alone is no reason for doubt.
                        assert!(open.catalog.doubts().next().is_none(), "{said}");
                    }
                }
            }
        }
    }

    /// Zones of 13x5x1 and 4x4x4 points with iblank have the size of one zone of 2x13x5 points. The coordinates decide,
    /// if they are read in the order of planes.
    #[test]
    fn an_order_that_is_to_be_found_does_not_hide_the_reading() {
        let dims = vec![[13, 5, 1], [4, 4, 4]];
        for order in [Order::Whole, Order::Planes] {
            let spec = WriteSpec {
                format: Format::Binary,
                order,
                precision: Precision::Single,
                iblank: true,
                ..WriteSpec::new(Kind::Grid, dims.clone())
            };
            let mut out = Vec::new();
            write(&mut out, &spec, &mut |zone, variable, k, plane| {
                for (n, v) in plane.iter_mut().enumerate() {
                    let (j, i) = (n / dims[zone][0], n % dims[zone][0]);
                    *v = if variable == 3 { 1.0 } else { coordinate(dims[zone], variable, k, j, i) };
                }
            })
            .unwrap();
            let folder = Plot3dFolder::new();
            let open = folder.open(&folder.file("a.xyz", &out), &[], &[]).unwrap();
            let said = open.catalog.guessed.join(" ");
            assert_eq!(open.catalog.zones.len(), 2, "{said}");
            assert!(said.contains(&order.word().to_uppercase()) && said.contains("the values decided"), "{said}");
            assert!(open.catalog.doubts().next().is_none(), "{said}");
        }
    }

    #[test]
    fn an_option_has_the_last_word() {
        let folder = Plot3dFolder::new();
        let dims = [9, 8, 6];
        let grid =
            folder.file("a.xyz", &file(Kind::Grid, Format::Binary, Order::Planes, dims, Precision::Single, false));
        let options = Plot3dOptions { order: Some(Order::Whole), ..Plot3dOptions::default() };
        let open = super::super::Plot3d::open(&grid, &[], &[], &options, &folder.0).unwrap();
        let mut row = vec![0; dims[0] * 4];
        open.layout(0, 0).unwrap().read_rows(0, 0, 1, 0..1, &mut row).unwrap();
        let got = real(&row[..4], false);
        assert!((got - coordinate(dims, 1, 0, 0, 0)).abs() < 1e-6, "the second plane of the file is y: {got}");
    }
}
