//! Uniform grids, whose points need not be read.
//!
//! # Theory
//! In a *uniform* zone every point (i, j, k) is `origin + spacing * (i, j, k)` by axis, **to the last bit**. This is
//! computed in double precision and rounded to the precision of the stored coordinates. So a computed and rounded
//! corner ([`Uniform::stored`]) equals the stored one, and gives the same results.
//!
//! Coordinates in single precision are rounded: neither the first one nor the mean step is the original number. So
//! [`fit`] searches for a line through all intervals that round to the stored numbers: first with an origin and a
//! spacing of few digits, then with any.

use crate::boxes::Xyz;
use crate::catalog::DType;
use serde_json::{json, Value};
use std::ops::Range;

/// Halvings of the interval of a search for a slope: down to a double's last bit.
const HALVINGS: usize = 200;
/// Decimal digits that distinguish all doubles.
const DIGITS: usize = 17;

/// A grid of equal steps along the axes. Point (i, j, k), 0-based, is at `origin + spacing * (i, j, k)`, in the unit of
/// the coordinates. A direction of one point has spacing 0.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Uniform {
    /// Position of point (0, 0, 0).
    pub origin: [f64; 3],
    /// The step along i, j, k; may be negative.
    pub spacing: [f64; 3],
}

impl Uniform {
    /// Coordinate `axis` of the points with index `n` along it, before rounding.
    #[inline]
    pub fn at(&self, axis: usize, n: usize) -> f64 {
        self.origin[axis] + n as f64 * self.spacing[axis]
    }

    /// The same in stored precision.
    #[inline]
    pub fn stored(&self, dtype: DType, axis: usize, n: usize) -> f64 {
        round(dtype, self.at(axis, n))
    }

    /// The uniform grid that equals coordinates in memory, `[component][k][j][i]` with `dims` points along i, j, k.
    pub fn find(dims: [usize; 3], components: usize, xyz: Xyz<'_>) -> Option<Self> {
        let dtype = match xyz {
            Xyz::F32(_) => DType::Float32,
            Xyz::F64(_) => DType::Float64,
        };
        let stride = [1, dims[0], dims[0] * dims[1]];
        let value = |c: usize, n: usize| match xyz {
            Xyz::F32(v) => f64::from(v[c * stride[2] * dims[2] + n]),
            Xyz::F64(v) => v[c * stride[2] * dims[2] + n],
        };
        let line = |c: usize| (0..dims[c]).map(|n| value(c, n * stride[c])).collect::<Vec<f64>>();
        let found = Self::of_lines(dtype, dims, components, |c| Some(line(c)))?;
        let whole = [0..dims[0], 0..dims[1], 0..dims[2]];
        found.is_of(&whole, [0; 3], dims, components, xyz).then_some(found)
    }

    /// A candidate grid, from coordinate `c` of the points along each axis `c` through point (0, 0, 0). `line` may
    /// return `None` to give up. [`Self::is_of`] checks all other points.
    pub fn of_lines(
        dtype: DType,
        dims: [usize; 3],
        components: usize,
        mut line: impl FnMut(usize) -> Option<Vec<f64>>,
    ) -> Option<Self> {
        let mut found = Self { origin: [0.0; 3], spacing: [0.0; 3] };
        // Two coordinates belong to a plane, with one point along k.
        if !(2..=3).contains(&components) || dims.iter().skip(components).any(|&n| n != 1) {
            return None;
        }
        for axis in 0..components {
            (found.origin[axis], found.spacing[axis]) = fit(dtype, &line(axis)?)?;
        }
        Some(found)
    }

    /// Whether the points `[i, j, k]` of the zone equal this grid's. They lie in a slab `[component][k][j][i]` of
    /// `size` points, whose first is point `low` of the zone.
    pub fn is_of(
        &self,
        points: &[Range<usize>; 3],
        low: [usize; 3],
        size: [usize; 3],
        components: usize,
        xyz: Xyz<'_>,
    ) -> bool {
        match xyz {
            Xyz::F32(v) => self.fits(points, low, size, components, v, |x| x as f32),
            Xyz::F64(v) => self.fits(points, low, size, components, v, |x| x),
        }
    }

    /// [`Self::is_of`] for a page's bytes `[component][k][j][i]`, native and unaligned. `extent`: its points in the
    /// zone; `page`: points of a full page.
    pub fn is_of_page(&self, dtype: DType, extent: &[Range<usize>; 3], page: [usize; 3], bytes: &[u8]) -> bool {
        let size = dtype.size();
        let value = |b: &[u8]| match *b {
            [a, b, c, d] => f64::from(f32::from_ne_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => f64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            _ => f64::NAN,
        };
        let row = page[0] * size;
        let rows = bytes.chunks_exact(row).enumerate();
        let rows = rows.map(|(n, row)| (n / page[1] / page[2], [0, n % page[1], n / page[1] % page[2]], row));
        rows.filter(|(_, at, _)| (1..3).all(|a| at[a] < extent[a].len())).all(|(c, at, row)| {
            let place = |i: usize| extent[c].start + if c == 0 { i } else { at[c] };
            let values = row.chunks_exact(size).take(extent[0].len()).enumerate();
            c < 3 && values.into_iter().all(|(i, b)| value(b) == self.stored(dtype, c, place(i)))
        })
    }

    fn fits<T: Copy + PartialEq>(
        &self,
        points: &[Range<usize>; 3],
        low: [usize; 3],
        [ni, nj, nk]: [usize; 3],
        components: usize,
        values: &[T],
        round: impl Fn(f64) -> T,
    ) -> bool {
        let columns = points[0].start - low[0]..points[0].end - low[0];
        let line = |c: usize, j: usize, k: usize| {
            let row = &values[((c * nk + k - low[2]) * nj + j - low[1]) * ni..][columns.clone()];
            match c {
                0 => row.iter().zip(points[0].clone()).all(|(x, i)| *x == round(self.at(0, i))),
                1 => all_are(row, round(self.at(1, j))),
                _ => all_are(row, round(self.at(2, k))),
            }
        };
        let rows = || points[2].clone().flat_map(|k| points[1].clone().map(move |j| (j, k)));
        (0..components).all(|c| rows().all(|(j, k)| line(c, j, k)))
    }

    /// The JSON that [`Self::from_value`] reads back to the last bit.
    pub fn value(&self) -> Value {
        json!({"origin": self.origin, "spacing": self.spacing})
    }

    /// From [`Self::value`]'s JSON: finite numbers.
    pub fn from_value(v: &Value) -> Option<Self> {
        let three = |v: &Value| -> Option<[f64; 3]> {
            let n: Vec<f64> = v.as_array()?.iter().map(Value::as_f64).collect::<Option<_>>()?;
            n.try_into().ok().filter(|n: &[f64; 3]| n.iter().all(|x| x.is_finite()))
        };
        Some(Self { origin: three(&v["origin"])?, spacing: three(&v["spacing"])? })
    }

    /// Whether a zone of `dims` points can have it: steps only along axes with several points.
    pub fn suits(&self, dims: [usize; 3]) -> bool {
        (0..3).all(|a| (dims[a] > 1) == (self.spacing[a] != 0.0))
    }
}

fn all_are<T: PartialEq>(row: &[T], value: T) -> bool {
    row.iter().all(|x| *x == value)
}

#[inline]
fn round(dtype: DType, x: f64) -> f64 {
    if dtype == DType::Float32 {
        f64::from(x as f32)
    } else {
        x
    }
}

/// Origin and spacing of equally spaced points on a line, as stored in `dtype`; spacing 0 for one point. `None` if no
/// pair reproduces them exactly, or if neighbours coincide.
pub fn fit(dtype: DType, line: &[f64]) -> Option<(f64, f64)> {
    let (first, last) = (*line.first()?, *line.last()?);
    if !line.iter().all(|x| x.is_finite()) {
        return None;
    }
    if line.len() == 1 {
        return Some((first, 0.0));
    }
    let up = last > first;
    if !line.windows(2).all(|p| if up { p[1] > p[0] } else { p[1] < p[0] }) {
        return None;
    }
    let good = |&(origin, spacing): &(f64, f64)| {
        spacing.is_finite() && line.iter().enumerate().all(|(n, &x)| round(dtype, origin + n as f64 * spacing) == x)
    };
    let mean = (last - first) / (line.len() - 1) as f64;
    if dtype != DType::Float32 {
        // Steps that may have been used, up to rounding.
        let near = |s: f64| [s, s.next_up(), s.next_down(), s.next_up().next_up(), s.next_down().next_down()];
        let short = (0..DIGITS).map(|d| decimal(mean, d));
        let all = short.chain(near(mean)).chain(near(line[1] - first));
        return all.map(|s| (first, s)).find(good);
    }
    // Numbers that round to a stored value lie at most halfway to its neighbours.
    let low = |x: f64| (x + f64::from((x as f32).next_down())) / 2.0;
    let high = |x: f64| (x + f64::from((x as f32).next_up())) / 2.0;
    // The origin as typed, if it was: 0.1 for the nearest number in single precision.
    let typed = (first as f32).to_string().parse().unwrap_or(first);
    for origin in [typed, first] {
        let each = line.iter().enumerate().skip(1);
        let (least, most) = each.fold((f64::NEG_INFINITY, f64::INFINITY), |(least, most), (n, &x)| {
            let n = n as f64;
            (least.max((low(x) - origin) / n), most.min((high(x) - origin) / n))
        });
        if least <= most {
            let short = (0..DIGITS).map(|d| decimal((least + most) / 2.0, d)).find(|s| (least..=most).contains(s));
            let found = short.into_iter().chain([mean, (least + most) / 2.0]).map(|s| (origin, s)).find(good);
            if found.is_some() {
                return found;
            }
        }
    }
    // Any line: the interval of origins for a slope, whose width is concave in the slope.
    let room = |s: f64| {
        let each = line.iter().enumerate();
        each.fold((f64::NEG_INFINITY, f64::INFINITY), |(least, most), (n, &x)| {
            let at = n as f64 * s;
            (least.max(low(x) - at), most.min(high(x) - at))
        })
    };
    let width = |s: f64| {
        let (least, most) = room(s);
        most - least
    };
    let reach = (high(last) - low(last)).max(high(first) - low(first)) * 2.0 / (line.len() - 1) as f64;
    let (mut a, mut b) = (mean - reach, mean + reach);
    for _ in 0..HALVINGS {
        let third = (b - a) / 3.0;
        let (p, q) = (a + third, b - third);
        if width(p) < width(q) {
            a = p;
        } else {
            b = q;
        }
    }
    let spacing = (a + b) / 2.0;
    let (least, most) = room(spacing);
    Some(((least + most) / 2.0, spacing)).filter(good)
}

/// `x` with `digits` decimal digits after the first.
fn decimal(x: f64, digits: usize) -> f64 {
    format!("{x:.digits$e}").parse().unwrap_or(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(origin: f64, spacing: f64, n: usize, dtype: DType) -> Vec<f64> {
        (0..n).map(|i| round(dtype, origin + i as f64 * spacing)).collect()
    }

    #[test]
    fn numbers_that_were_typed_come_back() {
        for (origin, spacing, n) in
            [(0.1, 0.1, 101), (-2.5, 0.01, 1001), (0.0, 1.0, 7), (7.0, -0.3, 12), (0.0, 0.05, 2), (1e6, 0.5, 300)]
        {
            let found = fit(DType::Float32, &line(origin, spacing, n, DType::Float32)).unwrap();
            assert_eq!((found.0 as f32, found.1 as f32), (origin as f32, spacing as f32));
            if n > 100 {
                assert_eq!(found, (origin, spacing));
            }
            assert_eq!(fit(DType::Float64, &line(origin, spacing, n, DType::Float64)), Some((origin, spacing)));
        }
        assert_eq!(fit(DType::Float32, &[0.5]), Some((0.5, 0.0)));
    }

    #[test]
    fn what_is_no_uniform_line() {
        for bad in [
            vec![],
            vec![f64::NAN],
            vec![0.0, f64::NAN, 2.0],
            vec![0.0, f64::INFINITY],
            vec![1.0, 1.0],
            vec![0.0, 1.0, 1.0, 3.0],
            vec![0.0, 1.0, 3.0],
            vec![0.0, 1.0, 0.0],
        ] {
            for dtype in [DType::Float32, DType::Float64] {
                assert_eq!(fit(dtype, &bad), None, "{bad:?}");
            }
        }
        // One value off by one unit in its last place.
        let mut off = line(0.0, 0.1, 50, DType::Float32);
        off[25] = f64::from((off[25] as f32).next_up().next_up());
        assert_eq!(fit(DType::Float32, &off), None);
        let mut off = line(0.0, 0.1, 50, DType::Float64);
        off[25] = off[25].next_up();
        assert_eq!(fit(DType::Float64, &off), None);
    }

    #[test]
    fn every_point_counts() {
        let dims = [5, 4, 3];
        let truth = Uniform { origin: [0.1, -3.0, 1.0 / 3.0], spacing: [0.1, 0.25, -1.0 / 7.0] };
        let mut xyz = Vec::new();
        for c in 0..3 {
            for n in 0..60 {
                xyz.push(truth.at(c, [n % 5, n / 5 % 4, n / 20][c]) as f32);
            }
        }
        let found = Uniform::find(dims, 3, Xyz::F32(&xyz)).unwrap();
        assert!(found.suits(dims) && !found.suits([5, 1, 3]) && !found.suits([5, 4, 1]));
        for (c, &count) in dims.iter().enumerate() {
            for n in 0..count {
                assert_eq!(found.stored(DType::Float32, c, n), f64::from(truth.at(c, n) as f32));
            }
        }
        for n in 0..xyz.len() {
            let mut other = xyz.clone();
            other[n] = if n % 2 == 0 { f32::NAN } else { other[n] + 0.01 };
            assert_eq!(Uniform::find(dims, 3, Xyz::F32(&other)), None);
            assert!(!found.is_of(&[0..5, 0..4, 0..3], [0; 3], dims, 3, Xyz::F32(&other)));
        }
        // A plane of two coordinates, and one of three.
        let flat: Vec<f64> = (0..2).flat_map(|c| (0..20).map(move |n| [n % 5, n / 5][c] as f64 * 0.5)).collect();
        let found = Uniform::find([5, 4, 1], 2, Xyz::F64(&flat)).unwrap();
        assert_eq!(found, Uniform { origin: [0.0; 3], spacing: [0.5, 0.5, 0.0] });
        let more: Vec<f64> = flat.iter().copied().chain([7.0; 20]).collect();
        assert_eq!(Uniform::find([5, 4, 1], 3, Xyz::F64(&more)).unwrap().origin, [0.0, 0.0, 7.0]);
        assert_eq!(Uniform::find([5, 2, 2], 2, Xyz::F64(&flat)), None);
    }

    #[test]
    fn json_keeps_every_bit() {
        let u = Uniform { origin: [1.0 / 3.0, -0.0, 5e-324], spacing: [0.1 + 0.2, 1e300, -7.0] };
        let text = u.value().to_string();
        let back = Uniform::from_value(&serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(back.origin.map(f64::to_bits), u.origin.map(f64::to_bits));
        assert_eq!(back.spacing.map(f64::to_bits), u.spacing.map(f64::to_bits));
        for bad in [r"{}", r#"{"origin":[1,2],"spacing":[1,2,3]}"#, r#"{"origin":[1,2,3],"spacing":[1,2,null]}"#] {
            assert_eq!(Uniform::from_value(&serde_json::from_str(bad).unwrap()), None);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, rng_seed: prop::test_runner::RngSeed::Fixed(0x756e_6966), ..ProptestConfig::default() })]
        /// Points rounded from equal steps to single precision are recognised, and every value is reproduced.
        #[test]
        fn found_whatever_the_numbers(origin in -1e3..1e3f64, spacing in 1e-3..9.0f64, n in 2usize..400, down: bool) {
            let spacing = if down { -spacing } else { spacing };
            let points = line(origin, spacing, n, DType::Float32);
            let (o, s) = fit(DType::Float32, &points).unwrap();
            prop_assert_eq!(line(o, s, n, DType::Float32), points);
        }
    }
}
