//! How fields of zones are shown: as users say it, and as rays meet it.

use super::scene::Ray;
use crate::rays::{Lamps, Projection, SceneError, Shading, TransferEntry, TransferFunction, TransferTable};
use core::ops::Range;
use field::cell::interpolate_scalar;
use field::locator::CellPoint;
use glam::{DMat3, DVec3};

/// How a field is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct CellAppearance {
    /// Colours and opacities of its values.
    pub transfer: TransferFunction,
    /// Opacities are those of this length.
    pub unit: f64,
    /// What of a ray becomes its pixel. Means are those over the length of the ray in the zones. A surface is the first step in whose
    /// middle its value is reached.
    pub projection: Projection,
    /// Lights its gradients.
    pub shading: Option<Shading>,
    /// Planes, each a normal and an offset: what lies at `x . normal < offset` is cut away.
    pub planes: Vec<([f64; 3], f64)>,
    /// A box in space outside of which all is cut away: its lower and its higher corner.
    pub within: Option<[[f64; 3]; 2]>,
    /// Which of the numbers that are sampled it shows: one, or those of a vector, of which the length is seen.
    pub value: Range<usize>,
    /// The first of the three of them that are its gradient in space, by which it is lit; `None`: it faces the eye everywhere.
    pub gradient: Option<usize>,
}

impl CellAppearance {
    /// All of the first number that is sampled, composited.
    pub fn new(transfer: TransferFunction, unit: f64) -> Self {
        let (projection, value) = (Projection::Composite, 0..1);
        Self { transfer, unit, projection, shading: None, planes: Vec::new(), within: None, value, gradient: None }
    }
}

/// A look made ready.
pub(super) struct PreparedLook {
    look: CellAppearance,
    table: TransferTable,
    lamps: Option<Lamps>,
}

/// What a look shows at a place: light of one unit of length, premultiplied, and its opacity; of a projection the value, four times.
pub(super) type ShownLight = [f32; 4];

/// What a projection of a ray has come to.
#[derive(Copy, Clone, Debug, Default)]
struct ProjectedValue {
    /// The largest value, or the sum of values times lengths.
    value: f64,
    /// The length of what has one.
    length: f64,
}

/// What the rays of a tile have of looks, each of all of them. A tile has so many rays that each byte counts.
pub(super) struct Owned {
    looks: usize,
    /// What pieces show whose end is not known.
    seen: Vec<ShownLight>,
    /// Where looks project.
    tallies: Vec<ProjectedValue>,
    /// The parts of rays in which looks are seen, where these are several: a ray is as long as any is seen.
    parts: Vec<[f64; 2]>,
}

/// What a ray has of looks.
pub(super) struct RayShare<'a> {
    seen: &'a mut [ShownLight],
    tallies: &'a mut [ProjectedValue],
    parts: &'a [[f64; 2]],
}

impl Owned {
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

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.seen.len() * size_of::<ShownLight>()
            + self.tallies.len() * size_of::<ProjectedValue>()
            + self.parts.len() * size_of::<[f64; 2]>()
    }

    /// Bytes that it takes for so many rays.
    pub fn bytes_of(looks: &[PreparedLook], rays: usize) -> usize {
        let tally = if looks.iter().any(PreparedLook::projects) { size_of::<ProjectedValue>() } else { 0 };
        let part = if looks.len() > 1 { size_of::<[f64; 2]>() } else { 0 };
        rays * looks.len() * (size_of::<ShownLight>() + tally + part)
    }

    /// What a ray has.
    #[inline]
    pub fn of(&mut self, ray: usize) -> RayShare<'_> {
        let of = ray * self.looks..(ray + 1) * self.looks;
        RayShare {
            seen: &mut self.seen[of.clone()],
            tallies: self.tallies.get_mut(of.clone()).unwrap_or(&mut []),
            parts: self.parts.get(of).unwrap_or(&[]),
        }
    }

    /// What projections have come to of a ray that is at its end, behind what it has gathered: those of several fields together.
    pub fn project(&self, looks: &[PreparedLook], ray: usize, light: &mut [f32; 3], through: &mut f32) {
        let tallies = self.tallies.get(ray * self.looks..(ray + 1) * self.looks).unwrap_or(&[]);
        let each = looks.iter().zip(tallies).filter_map(|(look, tally)| look.projected(tally));
        blend(TransferEntry::sum(each).0, light, through);
    }
}

impl RayShare<'_> {
    /// A piece begins.
    #[inline]
    pub fn see(&mut self, seen: &[ShownLight]) {
        self.seen.copy_from_slice(seen);
    }

    /// A piece is at its end: what it adds to light and to what projections have come to.
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

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.table.entries.len() * (size_of::<TransferEntry>() + size_of::<u32>())
    }

    /// Whether its pixels are known when rays are at their ends.
    pub fn projects(&self) -> bool {
        matches!(self.look.projection, Projection::Maximum | Projection::Mean)
    }

    /// The part of a ray that is not cut away; it ends before it begins where there is none.
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

    /// What it shows at a place in a cell.
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

    /// Adds light of a length, where more of it lies behind what was gathered.
    #[inline]
    fn shine(&self, [r, g, b, a]: &ShownLight, length: f64, light: &mut [f32; 3], through: &mut f32) {
        if !(*a > 0.0 && length > 0.0) {
            return;
        }
        let share = -((-f64::from(*a)).ln_1p() * (length / self.look.unit)).exp_m1();
        let by = (share / f64::from(*a)) as f32;
        blend([r * by, g * by, b * by, share as f32], light, through);
    }

    /// The light and the opacity of what its projection has come to, if it is one.
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

/// Adds what lies behind what was gathered.
#[inline(always)]
fn blend([r, g, b, a]: [f32; 4], light: &mut [f32; 3], through: &mut f32) {
    for (sum, c) in light.iter_mut().zip([r, g, b]) {
        *sum = through.mul_add(c, *sum);
    }
    *through *= 1.0 - a;
}
