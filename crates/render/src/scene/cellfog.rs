//! Fields of flows as volumes in scenes: their bounds, and their rays between the surfaces of a picture.

use super::appearance::{least_pixel, shading, PLAIN_OPACITY};
use super::colour_maps::RangedMap;
use super::depth_compositing::{lay, Lack, PreparedScene, Rays, TimeBudget};
use super::geometry_log::Range;
use super::objects::{VolumeLook, VolumeTint};
use super::volumes::UNITS;
use super::SceneDocument;
use crate::picture::{Aabb, Camera, Depths, GeometryError, Haze, HazeRows};
use crate::raycast::{cast_cells, CastOptions, CellSource};
use field::dataset::Dataset;
use field::error::FieldError;
use field::nodes::Nodes;
use field::quantity::Quantity;
use glam::DVec3;
use kernels::cellrays::{CellAppearance, CellRaySetting, CellScene};
use kernels::rays::{Projection, TransferFunction};
use runtime::blocking::BlockingFlow;
use runtime::session::{ProgressWatch, Session};
use runtime::values::{visit_box, NodeBox};
use std::sync::Mutex;

/// Least steps along the diagonal of the drawn boxes. Colours also change within larger cells.
const STEPS: f64 = 256.0;
/// Most halvings of a step, whatever the size of cells and pixels.
const HALVINGS: u8 = 10;

/// The drawn field, and its zones.
fn drawn<'a>(dataset: &Dataset, look: &'a VolumeLook) -> Result<(&'a str, Vec<usize>), FieldError> {
    let field = look.field.as_deref().ok_or_else(|| FieldError::Usage("a volume of a flow needs a 'field'".into()))?;
    if look.level.is_some() || look.voxels.iter().any(Option::is_some) {
        let what = "a flow has no 'level' of resolution and no 'slices' of voxels; cut it with 'within' and 'planes'";
        return Err(FieldError::Usage(what.into()));
    }
    if look.tint != VolumeTint::Map || look.nearest {
        let what = "a field of a flow is shown by a map and an opacity: 'interpolation', colours as they are stored and 'labels' are of \
                    volumes";
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

/// The gradient that shades a field.
fn gradient(field: &str) -> String {
    format!("grad_{field}")
}

/// The box of the usable cells of some zones.
fn bounds(session: &Session, dataset: &Dataset, zones: &[usize], step: usize) -> Result<Aabb, FieldError> {
    let mut flow = BlockingFlow::new(session, dataset, dataset.fields(None, &[], step)?, step)?;
    let mut all = Aabb::EMPTY;
    for &zone in zones {
        if let Some(top) = dataset.zones[zone].boxes.len().checked_sub(1) {
            let b = flow.until_here(|f| f.space.nodes.bounds(zone, top))?.map(f64::from);
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

/// The corners of the box of the drawn zones, and, if `ranged`, the range of their usable points.
///
/// # Errors
/// [`FieldError`]: missing fields, a failed read, an interruption.
pub(super) fn gathered(
    session: &Session,
    look: &VolumeLook,
    step: usize,
    ranged: bool,
    watch: &mut ProgressWatch<'_>,
) -> Result<([DVec3; 8], Range), FieldError> {
    if let Some(field) = &look.field {
        session.derive(&[field])?;
    }
    let dataset = session.located(watch)?;
    let (field, zones) = drawn(&dataset, look)?;
    if look.shading.is_some() {
        if dataset.quantity(zones[0], field)?.components() > 1 {
            return Err(FieldError::Usage(format!(
                "'shading' is light on the gradient of a scalar, and '{field}' is a vector; show a scalar of it, such as its magnitude"
            )));
        }
        session.derive(&[&gradient(field)])?;
    }
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
fn transfer(look: &VolumeLook, field: &str, maps: &[RangedMap]) -> Result<TransferFunction, FieldError> {
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
    let opacities = match (look.projection, &look.opacities[..], map) {
        // A surface is opaque, whatever opacity its object gives to values before it.
        (Projection::Surface { value }, ..) => vec![(value, 1.0)],
        (_, given @ [_, ..], _) => given.to_vec(),
        (_, [], None) => return usage("a volume of one colour needs nodes of its 'opacity'"),
        (Projection::Composite, [], Some(m)) => vec![(m.range[0], 0.0), (m.range[1], PLAIN_OPACITY)],
        // Every place with a flow has a value, so none is background.
        (Projection::Maximum | Projection::Mean, [], Some(m)) => vec![(m.range[0], 1.0)],
    };
    TransferFunction::new(colours, opacities).map_err(|e| FieldError::Usage(e.to_string()))
}

/// The sampled numbers at a place: all fields one after the other.
struct SampledFields<'a> {
    dataset: &'a Dataset,
    names: Vec<String>,
    /// First number of each field, and the end of the last.
    first: Vec<usize>,
}

impl SampledFields<'_> {
    /// The numbers of a field, which is added if it is new.
    fn place(&mut self, zone: usize, field: &str) -> Result<std::ops::Range<usize>, FieldError> {
        let n = match self.names.iter().position(|name| name == field) {
            Some(n) => n,
            None => {
                self.first.push(self.first[self.names.len()] + self.dataset.quantity(zone, field)?.components());
                self.names.push(field.to_owned());
                self.names.len() - 1
            }
        };
        Ok(self.first[n]..self.first[n + 1])
    }
}

/// The rays of a picture's fields.
pub(crate) struct CellFog<'a> {
    session: &'a Session,
    source: CellSource,
    setting: CellRaySetting,
    looks: Vec<CellAppearance>,
    bounds: Aabb,
    budget: Option<TimeBudget>,
    lack: Mutex<Lack>,
    scene: PreparedScene<CellScene>,
}

/// An object that shows a field: its number, its document, and the box of its zones.
pub(crate) type Shows<'a> = (usize, &'a VolumeLook, &'a [DVec3; 8]);

impl<'a> CellFog<'a> {
    /// Fields of a flow at a time step, as objects show them, each in the box of its zones.
    ///
    /// # Errors
    /// [`FieldError`]: missing fields, functions without sense.
    pub(crate) fn new(
        session: &'a Session,
        document: &SceneDocument,
        objects: &[Shows<'_>],
        maps: &[RangedMap],
        step: usize,
        camera: &Camera,
        size: [u32; 2],
    ) -> Result<Self, FieldError> {
        // Gathering has read the dataset's boxes already.
        let dataset = session.dataset();
        let order = session.zone_order(&dataset)?;
        let mut sampled = SampledFields { dataset: &dataset, names: Vec::new(), first: vec![0] };
        let mut common: Option<(&str, Vec<usize>)> = None;
        let (mut bounds, mut shown, mut looks, mut samples) = (Aabb::EMPTY, Aabb::EMPTY, Vec::new(), 0.0f64);
        for &(number, look, corners) in objects {
            let (field, zones) = drawn(&dataset, look)?;
            if let Some((other, _)) = common.as_ref().filter(|(_, of)| *of != zones) {
                let what = format!(
                    "'{field}' and '{other}' are not of the same zones, and rays through several fields see one zone at a place; draw \
                     them in pictures of their own"
                );
                return Err(FieldError::Usage(what).at(format!("objects.{number}.field")));
            }
            let own = Aabb::of(*corners);
            bounds = bounds.union(&own);
            let mut seen = own;
            if let Some([low, high]) = look.within {
                let (low, high) = (DVec3::from_array(low), DVec3::from_array(high));
                seen = Aabb { min: seen.min.max(low), max: seen.max.min(high) };
            }
            if seen.min.cmple(seen.max).all() {
                shown = shown.union(&seen);
            }
            samples = samples.max(look.samples);
            let planes = look.planes.iter().map(|[n, o]| (*n, (0..3).map(|a| n[a] * o[a]).sum()));
            let value = sampled.place(zones[0], field)?;
            let gradient = match look.shading {
                Some(_) => Some(sampled.place(zones[0], &gradient(field))?.start),
                None => None,
            };
            looks.push(CellAppearance {
                transfer: transfer(look, field, maps)?,
                unit: look.unit.unwrap_or(own.extent().length() / UNITS),
                projection: look.projection,
                shading: look.shading.map(|[specular, power]| shading(&document.lighting, camera, specular, power)),
                planes: planes.collect(),
                within: look.within,
                value,
                gradient,
            });
            common = Some((field, zones));
        }
        let zones = common.map_or(Vec::new(), |(_, zones)| zones);
        let diagonal = if shown == Aabb::EMPTY { 0.0 } else { shown.extent().length() };
        let longest = (if diagonal > 0.0 { diagonal } else { bounds.extent().length() }) / STEPS;
        let pixel = least_pixel(camera, size[1], if shown == Aabb::EMPTY { &bounds } else { &shown });
        // At least half a pixel at the nearest point.
        let halvings = (0..HALVINGS).find(|n| longest / f64::from(1u32 << n) <= 0.5 * pixel).unwrap_or(HALVINGS);
        let zones: Vec<u32> = order.0.iter().copied().filter(|z| zones.contains(&(*z as usize))).collect();
        Ok(Self {
            source: CellSource::new(&dataset, &sampled.names, &zones, step, &session.pager)?,
            setting: CellRaySetting { camera: *camera, size, longest, halvings, samples, zones },
            looks,
            session,
            bounds,
            budget: TimeBudget::of(document),
            lack: Mutex::default(),
            scene: PreparedScene::default(),
        })
    }

    /// Pixels with gaps and filled pixels of all pictures.
    pub(crate) fn lack(&self) -> Lack {
        *pager::spin_lock::lock(&self.lack)
    }
}

impl Haze for CellFog<'_> {
    fn bounds(&self) -> Aabb {
        self.bounds
    }

    fn is_large(&self, _: &Camera, _: [u32; 2]) -> bool {
        // Groups of as many rows as canvases hold. The gain of larger groups is not measured.
        false
    }

    fn cast(
        &self,
        camera: &Camera,
        size: [u32; 2],
        depths: &Depths,
        light: &mut HazeRows,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), GeometryError> {
        let scene = self.scene.of(camera, size, || {
            CellScene::new(CellRaySetting { camera: *camera, size, ..self.setting.clone() }, self.looks.clone())
        })?;
        let ends = [self.bounds.min.to_array(), self.bounds.max.to_array()];
        let between = |x, y| scene.depths(x, y, ends);
        let (pager, workers) = (&self.session.pager, self.session.resources.threads());
        let lack = lay(
            pager,
            depths,
            size[1],
            self.budget.as_ref(),
            Rays { stop: false, between: &between },
            light,
            &mut |ends, deadline| {
                let options =
                    CastOptions { workers, rows: Some(depths.rows()), deadline, next: None, kept: None, coarse: None };
                let image = cast_cells(pager, &self.source, &scene, &options, Some(ends), &mut |_, _| go_on())?;
                self.session.add_wait(image.stats.wait_s);
                Ok(image)
            },
        )?;
        *pager::spin_lock::lock(&self.lack) += lack;
        Ok(())
    }
}
