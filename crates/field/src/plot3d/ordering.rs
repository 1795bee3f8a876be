//! WHOLE or PLANES, from the values.
//!
//! **Theory.** Both orders take the same bytes, and within one plane they even agree. They differ in which plane is the next
//! one of the same variable. Neighbouring planes of one variable follow each other closely, planes of different variables
//! (x and y, say) do not. So the sampled points of two planes that an order calls neighbours are correlated: under the right
//! order nearly perfectly, under the wrong one not. Correlation knows no scale, so it does not matter how far apart the planes
//! lie; planes of one value (z of an extruded grid) say nothing and are left out.
//!
//! **Practice.** A few hundred values of a few dozen planes of the first zones. Planes are taken where the orders disagree:
//! anywhere for WHOLE, and for PLANES where a WHOLE file goes from one variable to the next.

use super::bytes::{real, ByteSource};
use super::options::Order;
use super::reading::{FileReading, ZoneReading};
use super::walk::read_spans;
use std::io;

/// Zones looked at.
const ZONES: usize = 4;
/// Variables looked at.
const VARIABLES: u64 = 8;
/// Points of a plane looked at: pieces of this many in a row, spread over the plane.
const PIECE: u64 = 32;
const PIECES: u64 = 8;
/// A plane of fewer points says nothing, ...
const LEAST: u64 = 16;
/// ... but where records leave both orders open no other thing says more.
const LEAST_OPEN: u64 = 4;
/// An order loses if planes that it calls neighbours have at least this much of their variance unexplained by each other, ...
const ROUGH: f64 = 0.05;
/// ... and this many times as much as those of the other order.
const CLEARLY: f64 = 5.0;

/// The order of a file's numbers, where the values tell.
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

/// Variables and planes k that are compared with the next one under an order.
fn places(reading: &FileReading, zone: &ZoneReading, order: Order) -> Vec<(u64, u64)> {
    let planes = u64::from(zone.dims[2]);
    let variables = u64::from(zone.variables);
    let looked_at = variables.min(VARIABLES);
    let mut ks: Vec<u64> = match order {
        Order::Whole => vec![0, (planes - 1) / 2, planes - 2],
        Order::Planes => {
            // A WHOLE file comes to variable m at this plane.
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
    // The reading has been found to add up with all of this.
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

/// The share of the variance of `a` that a linear function of `b` does not explain; nothing where one of them is constant. All
/// of it where there are things that are no sensible numbers, as an order gives that cuts numbers in two.
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
    // Rounding of single precision is no variance.
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

    /// A quarter of an annulus that grows along k, as boundary-layer grids do: x and y are no straight lines.
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
                    // Nothing to tell planes by.
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
                            // Its integers stand where WHOLE has coordinates: refused before it comes to this.
                            continue;
                        }
                        let folder = Plot3dFolder::new();
                        let grid = folder.file("a.xyz", &file(Kind::Grid, format, order, dims, precision, iblank));
                        let q = folder.file("a.q", &file(Kind::Q, format, order, dims, precision, false));
                        // Which of the numbers have fewer digits in text is not the point.
                        let open = folder.open(&grid, &[q], &[]).unwrap();
                        let xyz = open.layout(0, 0).unwrap();
                        let mut row = vec![0; dims[0] * xyz.dtype().size()];
                        xyz.read_rows(0, 1, 1, 3..4, &mut row).unwrap();
                        let got = real(&row[..xyz.dtype().size()], false);
                        let want = coordinate(dims, 1, 1, 3, 0);
                        assert!((got - want).abs() < 1e-5, "{dims:?} {order:?} {format:?}: {:?}", open.catalog.guessed);
                        // The solution is the same everywhere, so it is taken as the grid is.
                        let momentum = open.layout(0, if iblank { 3 } else { 2 }).unwrap();
                        let mut row = vec![0; dims[0] * momentum.dtype().size()];
                        momentum.read_rows(0, 1, 1, 3..4, &mut row).unwrap();
                        assert_eq!(real(&row[..momentum.dtype().size()], false), 3.0, "{:?}", open.catalog.guessed);
                        let said = open.catalog.guessed.join(" ");
                        assert!(said.contains("smoothly") && said.contains(&order.word().to_uppercase()), "{said}");
                        // Good numbers in an order that was only found out are good numbers.
                        assert!(open.catalog.doubts().next().is_none(), "{said}");
                    }
                }
            }
        }
    }

    /// Zones of 13x5x1 and 4x4x4 points with iblank are also one of 2x13x5 points, by their size; the coordinates tell, if they are
    /// looked at in the order of planes.
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
