//! Fields of flows as volumes in scenes: where they are, and their rays between the surfaces of a picture.

use super::looks::{least_pixel, PLAIN_OPACITY};
use super::maps::Settled;
use super::objects::{VolumeLook, VolumeTint};
use super::passes::{lay, Budget, Lack};
use super::pieces::Range;
use super::volumes::UNITS;
use super::Document;
use crate::blocking::{blocking_flow, until_here};
use crate::picture::{Aabb, Camera, Depths, GeometryError, Haze, HazeRows};
use crate::raycast::{cast_cells, CastOptions, CellSource};
use crate::session::{Session, Watch};
use crate::trace::zone_order;
use crate::values::{visit_box, NodeBox};
use field::dataset::Dataset;
use field::error::FieldError;
use field::nodes::Nodes;
use field::quantity::Quantity;
use glam::DVec3;
use kernels::cellrays::{CellScene, Setting};
use kernels::rays::{Projection, TransferFunction};
use std::sync::Mutex;

/// Parts of the diagonal of what is drawn that are the longest step along a ray: where cells are larger still, colours change within
/// them.
const STEPS: f64 = 256.0;
/// Steps are halved so many times at most, whatever cells and pixels are.
const HALVINGS: u8 = 10;

/// The field that is drawn, and the zones of which it is.
fn drawn<'a>(dataset: &Dataset, look: &'a VolumeLook) -> Result<(&'a str, Vec<usize>), FieldError> {
    let field = look.field.as_deref().ok_or_else(|| FieldError::Usage("a volume of a flow needs a 'field'".into()))?;
    if look.level.is_some() || look.voxels.iter().any(Option::is_some) {
        let what = "a flow has no 'level' of resolution and no 'slices' of voxels; cut it with 'within' and 'planes'";
        return Err(FieldError::Usage(what.into()));
    }
    let plain = look.tint == VolumeTint::Map && matches!(look.projection, Projection::Composite);
    if !plain || look.nearest || look.shading.is_some() {
        let what = "a field of a flow is composited by a map and an opacity: 'projection', 'interpolation', 'shading', colours and \
                    'labels' are of volumes";
        return Err(FieldError::Usage(what.into()));
    }
    let mut zones: Vec<usize> = dataset.zones_with(field).collect();
    if zones.is_empty() {
        return Err(dataset.unknown_field(field));
    }
    zones.retain(|z| !dataset.zones[*z].thin().contains(&true));
    if zones.is_empty() {
        let what = "every zone that has the field is one point thick: rays have no length in it; draw it as a surface";
        return Err(FieldError::Usage(what.into()));
    }
    Ok((field, zones))
}

/// The box of the usable cells of some zones.
fn bounds(session: &Session, dataset: &Dataset, zones: &[usize], step: usize) -> Result<Aabb, FieldError> {
    let mut flow = blocking_flow(session, dataset, dataset.fields(None, &[], step)?, step)?;
    let mut all = Aabb::EMPTY;
    for &zone in zones {
        if let Some(top) = dataset.zones[zone].boxes.len().checked_sub(1) {
            let b = until_here(session, &mut flow, |f| f.space.nodes.bounds(zone, top))?.map(f64::from);
            let [low, high] = [0, 3].map(|n| DVec3::new(b[n], b[n + 1], b[n + 2]));
            if low.cmple(high).all() {
                all = all.union(&Aabb { min: low, max: high });
            }
        }
    }
    if all == Aabb::EMPTY {
        return Err(FieldError::Usage("no zone that has the field has a cell that can be drawn".into()));
    }
    Ok(all)
}

/// The corners of the box of what is drawn, and, where `ranged`, the smallest and largest value at its usable points.
///
/// # Errors
/// [`FieldError`]: fields that there are not, what cannot be read, an interruption.
pub(super) fn gathered(
    session: &Session,
    look: &VolumeLook,
    step: usize,
    ranged: bool,
    watch: &mut Watch<'_>,
) -> Result<([DVec3; 8], Range), FieldError> {
    if let Some(field) = &look.field {
        session.derive(&[field])?;
    }
    let dataset = session.located(watch)?;
    let (field, zones) = drawn(&dataset, look)?;
    let b = bounds(session, &dataset, &zones, step)?;
    let end = |c: usize, a: usize| if c >> a & 1 == 1 { b.max[a] } else { b.min[a] };
    let corners = std::array::from_fn(|c| DVec3::new(end(c, 0), end(c, 1), end(c, 2)));
    let mut range = Range::EMPTY;
    for &zone in zones.iter().filter(|_| ranged) {
        let z = &dataset.zones[zone];
        let iblank = z.iblank.map(|array| Quantity::Stored { array, components: 1 });
        let quantity = dataset.quantity(zone, field)?;
        let wanted: Vec<Quantity> = std::iter::once(quantity).chain(iblank).collect();
        let of_field = quantity.components();
        let nodes = NodeBox { zone, step, lo: [0; 3], hi: z.dims() };
        visit_box(session, &dataset, nodes, &wanted, watch, &mut |_, v| {
            let (of_field, blank) = v.split_at(of_field);
            if blank.first().is_none_or(|b| *b != 0.0) {
                range.include(magnitude(of_field));
            }
            true
        })?;
    }
    Ok((corners, range))
}

/// A scalar's value, or a vector's length.
fn magnitude(v: &[f64]) -> f64 {
    match v {
        [one] => *one,
        many => many.iter().map(|c| c * c).sum::<f64>().sqrt(),
    }
}

/// Colours and opacities over the field's values.
fn transfer(look: &VolumeLook, field: &str, maps: &[Settled]) -> Result<TransferFunction, FieldError> {
    let usage = |what: &str| Err(FieldError::Usage(what.into()));
    let parts = |rgb: &[u8; 3]| rgb.map(|v| f32::from(v) / 255.0);
    let map = look.paint.map.as_ref().and_then(|name| maps.iter().find(|m| m.name == *name));
    let colours =
        match map {
            Some(m) if m.field != field => return usage(
                "a volume is coloured by the field that it is of: give the map that field, or the object one colour",
            ),
            Some(m) => {
                let ([low, high], last) = (m.range, (m.lut.len() - 1).max(1) as f64);
                m.lut.iter().enumerate().map(|(n, c)| (low + (high - low) * n as f64 / last, parts(c))).collect()
            }
            None => vec![(0.0, parts(&look.paint.rgb))],
        };
    let opacities = match (&look.opacities[..], map) {
        ([], Some(m)) => vec![(m.range[0], 0.0), (m.range[1], PLAIN_OPACITY)],
        ([], None) => return usage("a volume of one colour needs nodes of its 'opacity'"),
        (given, _) => given.to_vec(),
    };
    TransferFunction::new(colours, opacities).map_err(|e| FieldError::Usage(e.to_string()))
}

/// The rays of a picture's field.
pub(crate) struct CellFog<'a> {
    session: &'a Session,
    source: CellSource,
    setting: Setting,
    transfer: TransferFunction,
    bounds: Aabb,
    budget: Option<Budget>,
    lack: Mutex<Lack>,
}

impl<'a> CellFog<'a> {
    /// A field of a flow as an object shows it at a time step, in the box of its zones.
    ///
    /// # Errors
    /// [`FieldError`]: fields that there are not, functions that make no sense.
    #[allow(clippy::too_many_arguments)] // what a picture is made of
    pub(crate) fn new(
        session: &'a Session,
        document: &Document,
        look: &VolumeLook,
        corners: &[DVec3; 8],
        maps: &[Settled],
        step: usize,
        camera: &Camera,
        size: [u32; 2],
    ) -> Result<Self, FieldError> {
        // It was looked at when it was gathered: its boxes are there.
        let dataset = session.dataset();
        let (field, zones) = drawn(&dataset, look)?;
        let order = zone_order(&dataset, &session.spec.zone_order)?;
        let bounds = Aabb::of(*corners);
        let mut shown = bounds;
        if let Some([low, high]) = look.within {
            let (low, high) = (DVec3::from_array(low), DVec3::from_array(high));
            shown = Aabb { min: shown.min.max(low), max: shown.max.min(high) };
        }
        let diagonal = if shown.min.cmple(shown.max).all() { shown.extent().length() } else { 0.0 };
        let all = bounds.extent().length();
        let longest = (if diagonal > 0.0 { diagonal } else { all }) / STEPS;
        let pixel = least_pixel(camera, size[1], &shown);
        // No finer than half a pixel where it is nearest.
        let halvings = (0..HALVINGS).find(|n| longest / f64::from(1u32 << n) <= 0.5 * pixel).unwrap_or(HALVINGS);
        let planes = look.planes.iter().map(|[n, o]| (*n, (0..3).map(|a| n[a] * o[a]).sum()));
        let setting = Setting {
            camera: *camera,
            size,
            longest,
            halvings,
            samples: look.samples,
            unit: look.unit.unwrap_or(all / UNITS),
            planes: planes.collect(),
            within: look.within,
            zones: order.0.iter().copied().filter(|z| zones.contains(&(*z as usize))).collect(),
        };
        Ok(Self {
            source: CellSource::new(&dataset, field, step, &session.pager)?,
            transfer: transfer(look, field, maps)?,
            session,
            setting,
            bounds,
            budget: Budget::of(document),
            lack: Mutex::default(),
        })
    }

    /// What pictures lack.
    pub(crate) fn lack(&self) -> Lack {
        *pager::patient::lock(&self.lack)
    }
}

impl Haze for CellFog<'_> {
    fn bounds(&self) -> Aabb {
        self.bounds
    }

    fn cast(
        &self,
        camera: &Camera,
        size: [u32; 2],
        depths: &Depths<'_>,
        light: &mut HazeRows,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), GeometryError> {
        let scene = CellScene::new(Setting { camera: *camera, size, ..self.setting.clone() }, &self.transfer)?;
        let (pager, workers) = (&self.session.pager, self.session.means.threads());
        let lack = lay(pager, depths, size[1], self.budget, light, |ends, deadline| {
            let options = CastOptions { workers, rows: Some(depths.rows()), deadline, next: None };
            let image = cast_cells(pager, &self.source, &scene, &options, Some(ends), &mut |_, _| go_on())?;
            self.session.add_wait(image.stats.wait_s);
            Ok(image)
        })?;
        *pager::patient::lock(&self.lack) += lack;
        Ok(())
    }
}
