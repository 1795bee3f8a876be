//! Appearances of fields of zones, as users specify them and as rays use them.

use super::scene::Ray;
use crate::rays::{Lamps, Projection, SceneError, Shading, TransferEntry, TransferFunction, TransferTable};
use core::ops::Range;
use field::cell::interpolate_scalar;
use field::locator::CellPoint;
use glam::{DMat3, DVec3};

/// The appearance of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct CellAppearance {
    /// Colours and opacities by value.
    pub transfer: TransferFunction,
    /// The length to which opacities refer.
    pub unit: f64,
    /// How a ray becomes its pixel. Means are over the length of the ray in the zones. A surface is the first step with
    /// its value reached at the middle.
    pub projection: Projection,
    /// Lights its gradients.
    pub shading: Option<Shading>,
    /// Planes, each a normal and an offset: points with `x . normal < offset` are cut away.
    pub planes: Vec<([f64; 3], f64)>,
    /// A box in space: its lower and its higher corner. Everything outside is cut away.
    pub within: Option<[[f64; 3]; 2]>,
    /// The sampled numbers that it shows: one, or those of a vector, which is shown by its length.
    pub value: Range<usize>,
    /// The first of three sampled numbers that are its gradient in space, which lighting uses. `None`: it faces the eye
    /// everywhere.
    pub gradient: Option<usize>,
}

impl CellAppearance {
    /// Composites the whole first sampled number.
    pub fn new(transfer: TransferFunction, unit: f64) -> Self {
        let (projection, value) = (Projection::Composite, 0..1);
        Self { transfer, unit, projection, shading: None, planes: Vec::new(), within: None, value, gradient: None }
    }
}

/// An appearance prepared for rays.
pub(super) struct PreparedLook {
    look: CellAppearance,
    table: TransferTable,
    lamps: Option<Lamps>,
}

/// The light of one unit of length, premultiplied, and its opacity. For a projection: the value, four times.
pub(super) type ShownLight = [f32; 4];

/// The state of a ray's projection.
#[derive(Copy, Clone, Debug, Default)]
struct ProjectedValue {
    /// The largest value, or the sum of values times lengths.
    value: f64,
    /// The length with values.
    length: f64,
}

/// The state of a tile's rays for each appearance, in one array each. A tile has so many rays that each byte counts.
pub(super) struct AppearanceStates {
    looks: usize,
    /// Light of pieces with an unknown end.
    seen: Vec<ShownLight>,
    /// Projections.
    tallies: Vec<ProjectedValue>,
    /// The visible part of each ray for each appearance, if there are several: a ray is as long as the longest.
    parts: Vec<[f64; 2]>,
}

/// The state of one ray for each appearance.
pub(super) struct RayShare<'a> {
    seen: &'a mut [ShownLight],
    tallies: &'a mut [ProjectedValue],
    parts: &'a [[f64; 2]],
}

impl AppearanceStates {
    pub fn new(looks: &[PreparedLook], rays: &[Ray]) -> Self {
        let several = if looks.len() > 1 { rays } else { &[] };
        let tallies = if looks.iter().any(PreparedLook::projects) { rays.len() * looks.len() } else { 0 };
        Self {
            looks: looks.len(),
            seen: vec![[0.0; 4]; rays.len() * looks.len()],
            tallies: vec![ProjectedValue::default(); tallies],
            parts: several.iter().flat_map(|ray| looks.iter().map(|look| look.part(ray))).collect(),
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.seen.len() * size_of::<ShownLight>()
            + self.tallies.len() * size_of::<ProjectedValue>()
            + self.parts.len() * size_of::<[f64; 2]>()
    }

    /// Bytes for `rays` rays.
    pub fn bytes_of(looks: &[PreparedLook], rays: usize) -> usize {
        let tally = if looks.iter().any(PreparedLook::projects) { size_of::<ProjectedValue>() } else { 0 };
        let part = if looks.len() > 1 { size_of::<[f64; 2]>() } else { 0 };
        rays * looks.len() * (size_of::<ShownLight>() + tally + part)
    }

    /// The state of one ray.
    #[inline]
    pub fn of(&mut self, ray: usize) -> RayShare<'_> {
        let of = ray * self.looks..(ray + 1) * self.looks;
        RayShare {
            seen: &mut self.seen[of.clone()],
            tallies: self.tallies.get_mut(of.clone()).unwrap_or(&mut []),
            parts: self.parts.get(of).unwrap_or(&[]),
        }
    }

    /// Adds the projections of a finished ray, of several fields together, behind its gathered light.
    pub fn project(&self, looks: &[PreparedLook], ray: usize, light: &mut [f32; 3], through: &mut f32) {
        let tallies = self.tallies.get(ray * self.looks..(ray + 1) * self.looks).unwrap_or(&[]);
        let each = looks.iter().zip(tallies).filter_map(|(look, tally)| look.projected(tally));
        blend(TransferEntry::sum(each).0, light, through);
    }
}

impl RayShare<'_> {
    /// Begins a piece.
    #[inline]
    pub fn see(&mut self, seen: &[ShownLight]) {
        self.seen.copy_from_slice(seen);
    }

    /// Ends a piece: adds its light, and its share of projections.
    #[inline]
    pub fn pass(&mut self, looks: &[PreparedLook], [from, to]: [f64; 2], light: &mut [f32; 3], through: &mut f32) {
        for (n, (look, seen)) in looks.iter().zip(&*self.seen).enumerate() {
            let [low, high] = self.parts.get(n).copied().unwrap_or([from, to]);
            let length = to.min(high) - from.max(low);
            if look.projects() {
                look.tally(seen[0], length, &mut self.tallies[n]);
            } else {
                look.shine(seen, length, light, through);
            }
        }
    }
}

impl PreparedLook {
    pub fn new(look: CellAppearance) -> Result<Self, SceneError> {
        if !(look.unit > 0.0 && look.unit.is_finite()) {
            return Err(SceneError::Length("the unit of length of opacities"));
        }
        let table = TransferTable::new(&look.transfer, 1.0, 1.0);
        let lamps = look.shading.as_ref().map(Lamps::of);
        Ok(Self { look, table, lamps })
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.table.entries.len() * (size_of::<TransferEntry>() + size_of::<u32>())
    }

    /// Whether pixels are known only at the ends of rays.
    pub fn projects(&self) -> bool {
        matches!(self.look.projection, Projection::Maximum | Projection::Mean)
    }

    /// The part of a ray that is not cut away. If there is none, its end is before its beginning.
    pub fn part(&self, ray: &Ray) -> [f64; 2] {
        let mut ray = *ray;
        if let Some([low, high]) = self.look.within {
            let part = ray.within(low, high);
            ray.cut(part);
        }
        for (normal, offset) in &self.look.planes {
            let n = DVec3::from_array(*normal);
            let (at, along) = (n.dot(DVec3::from_array(ray.o)) - offset, n.dot(DVec3::from_array(ray.d)));
            let t = -at / along;
            ray.cut(match () {
                () if along > 0.0 => Some([t, f64::INFINITY]),
                () if along < 0.0 => Some([f64::NEG_INFINITY, t]),
                () if at >= 0.0 => Some([f64::NEG_INFINITY, f64::INFINITY]),
                () => None,
            });
        }
        [ray.low, ray.high]
    }

    /// The light at a place in a cell.
    pub fn at(&self, sampled: &[[f64; 8]], spot: &CellPoint, ray: &Ray) -> ShownLight {
        let value = match &sampled[self.look.value.clone()] {
            [one] => interpolate_scalar(one, spot.rst),
            many => many.iter().map(|c| interpolate_scalar(c, spot.rst).powi(2)).sum::<f64>().sqrt(),
        } as f32;
        let light = match self.look.projection {
            Projection::Maximum | Projection::Mean => return [value; 4],
            Projection::Composite => self.table.entries[self.table.index(value)],
            Projection::Surface { value: wanted } if f64::from(value) >= wanted => {
                let [r, g, b, a] = self.table.entries[self.table.index(wanted as f32)].0;
                let whole = if a > 0.0 { 1.0 / a } else { 0.0 };
                TransferEntry([r * whole, g * whole, b * whole, 1.0])
            }
            Projection::Surface { .. } => TransferEntry::NOTHING,
        };
        let Some(lamps) = self.lamps.as_ref().filter(|_| light != TransferEntry::NOTHING) else { return light.0 };
        let rises = |c: usize| self.look.gradient.map_or(0.0, |g| interpolate_scalar(&sampled[g + c], spot.rst));
        let gradient = core::array::from_fn(|c| rises(c) as f32);
        lamps.lit(light, gradient, &DMat3::IDENTITY, DVec3::from_array(ray.d).as_vec3()).0
    }

    /// Adds a value that holds for a length to its projection.
    #[inline]
    fn tally(&self, value: f32, length: f64, to: &mut ProjectedValue) {
        if !(length > 0.0) || value.is_nan() {
            return;
        }
        let value = f64::from(value);
        to.value = match self.look.projection {
            Projection::Maximum if to.length > 0.0 => to.value.max(value),
            Projection::Maximum => value,
            _ => to.value + value * length,
        };
        to.length += length;
    }

    /// Adds light of a length behind the gathered light.
    #[inline]
    fn shine(&self, [r, g, b, a]: &ShownLight, length: f64, light: &mut [f32; 3], through: &mut f32) {
        if !(*a > 0.0 && length > 0.0) {
            return;
        }
        let share = -((-f64::from(*a)).ln_1p() * (length / self.look.unit)).exp_m1();
        let by = (share / f64::from(*a)) as f32;
        blend([r * by, g * by, b * by, share as f32], light, through);
    }

    /// The light and the opacity of its projection, if it is one.
    fn projected(&self, tally: &ProjectedValue) -> Option<TransferEntry> {
        let value = match self.look.projection {
            _ if !(tally.length > 0.0) => return None,
            Projection::Maximum => tally.value,
            Projection::Mean => tally.value / tally.length,
            _ => return None,
        };
        Some(self.table.entries[self.table.index(value as f32)])
    }
}

/// Adds light behind the gathered light.
#[inline(always)]
fn blend([r, g, b, a]: [f32; 4], light: &mut [f32; 3], through: &mut f32) {
    for (sum, c) in light.iter_mut().zip([r, g, b]) {
        *sum = through.mul_add(c, *sum);
    }
    *through *= 1.0 - a;
}
