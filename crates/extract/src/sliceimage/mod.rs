//! Slices as pictures and as arrays: a plane through a volume or a dataset, sampled at pixels.
//!
//! # Theory
//! Pixels are computed by tiles, each a restartable task (`kernels::slice` defines a pixel's value). Tiles are computed
//! in rows, as many rows at a time as fit into an eighth of the limit. Whole rows of pixels are written at once, so a
//! picture may be far larger than memory. If colours follow the range of the slice itself, it is known only at the last
//! pixel. The numbers wait in a log then, whose rest is on disk.
//!
//! Invariant: the output is equal bit for bit for every limit, page size and number of workers, as each pixel's value
//! is. Only pixels with an unreadable page may differ. Lack of memory is an error.
//!
//! # Practice
//! [`PlaneSpec`] places the slice, [`of_volume`] and [`of_grid`] prepare it, and [`Slice::write`] or [`Slice::arrays`]
//! computes it. Rows run from the top of the picture down; `x` grows to the right if possible, from either side of the
//! plane.

mod edges;
mod geometry;
pub mod options;
mod paint;
mod png;
mod run;
mod source;

#[cfg(test)]
mod tests;

pub use edges::{edges, place, SliceMarks};
pub use geometry::{box_corners, in_voxels, level_for, volume_corners, Laid, PlaneSpec, LONG_SIDE, MOST_PIXELS};
pub use paint::SlicePaint;
pub use run::Pixels;

use edges::MarkedSlice;
use field::error::FieldError;
use field::nodes::Nodes;
use field::volume::{rgb_of, ChannelSpec, Missing, VolumeArray, VolumeKind, VolumeLevel, VoxelType};
use kernels::draw::ScaleBar;
use kernels::slice::{Filter, GridSlice, Pick, SliceArray, VolumeSlice};
use output::{FieldSpec, FieldType, HeldMemory, OutputError, Provenance, RasterLayout, RasterWriter};
use pager::Pager;
use png::PngWriter;
use runtime::blocking::BlockingFlow;
use runtime::executor::RunStats;
use runtime::ledger_share::LedgerShare;
use runtime::limits::refused;
use runtime::session::{ProgressWatch, Session};
use serde_json::{json, Map, Value};
use source::{GridSource, VolumeSource};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A volume as slices use it.
#[derive(Copy, Clone, Debug)]
pub struct VolumeView<'a> {
    /// Its levels, finest first.
    pub levels: &'a [VolumeLevel],
    /// The kind of its numbers.
    pub kind: VolumeKind,
    /// Its channels.
    pub channels: &'a [ChannelSpec],
    /// Unit of positions.
    pub length_unit: &'a str,
    /// Own colours of labels, by number.
    pub label_colors: &'a BTreeMap<u64, String>,
}

/// The sliced part of a volume.
#[derive(Clone, Debug, Default)]
pub struct VolumeChoice {
    /// Numbers of the channels; `None`: all.
    pub channels: Option<Vec<usize>>,
    /// The level; `None`: the coarsest with voxels no larger than a pixel.
    pub level: Option<usize>,
    /// Interpolation between voxels; `None`: trilinear, for labels the nearest.
    pub filter: Option<Filter>,
    /// Time step.
    pub step: u32,
    /// Treats labels as numbers, for lookups of values: 64-bit ones as far as doubles represent them.
    pub as_numbers: bool,
}

/// The meaning of the numbers of a slice's pixels.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SliceNumbers {
    /// Doubles.
    Doubles,
    /// Unsigned 64-bit integers as the bits of doubles; 0 without a value.
    Unsigned,
    /// The same with a sign.
    Signed,
}

impl SliceNumbers {
    fn of(voxel: VoxelType) -> Self {
        match voxel {
            VoxelType::Uint64 => Self::Unsigned,
            VoxelType::Int64 => Self::Signed,
            _ => Self::Doubles,
        }
    }
}

/// A prepared slice: its pixels and their sources.
pub struct Slice {
    /// Its pixels.
    pub laid: Laid,
    /// Its quantities, in the order of a pixel's numbers.
    pub fields: Vec<FieldSpec>,
    /// The shown level of a volume.
    pub level: Option<usize>,
    /// Colours that suit its numbers: as stored, of channels, or of labels; `None` if numbers need a table.
    pub look: Option<SlicePaint>,
    /// The meaning of its numbers.
    pub numbers: SliceNumbers,
    /// Annotations of a picture; none by default.
    pub marks: SliceMarks,
    length_unit: String,
    what: SliceSource,
}

enum SliceSource {
    Volume(VolumeSource),
    Grid(Box<GridSource>),
}

/// A slice in memory of the caller.
#[derive(Clone, Debug)]
pub struct SliceArrays {
    /// Row by row from the top, the numbers of a pixel adjacent; NaN without a value. See [`Slice::numbers`].
    pub values: Vec<f64>,
    /// State of each pixel: 1 (it has a value), 2 (outside) or 3 (failed).
    pub pixels: Vec<u8>,
    /// Counts of pixels by state.
    pub counts: Pixels,
    /// Statistics of the run.
    pub run: RunStats,
}

/// Chosen channels of a level of a volume, in the order of a pixel's numbers.
struct ChosenChannels<'a> {
    view: VolumeView<'a>,
    level: &'a VolumeLevel,
    channels: Vec<usize>,
    numbers: SliceNumbers,
}

impl<'a> ChosenChannels<'a> {
    fn new(view: VolumeView<'a>, level: &'a VolumeLevel, choice: &VolumeChoice) -> Result<Self, FieldError> {
        let channels = match &choice.channels {
            Some(channels) => channels.clone(),
            None => (0..view.channels.len()).collect(),
        };
        if channels.is_empty() {
            return Err(FieldError::Usage("no channel of the volume is asked for".into()));
        }
        // All numbers of a pixel have one kind.
        let names = |channel: &usize| {
            let (spec, (array, _)) = view.channels.get(*channel).zip(level.valued(*channel))?;
            let plain = view.kind == VolumeKind::Labels && !choice.as_numbers;
            let plain = plain && spec.scale.is_none() && spec.missing.is_none();
            Some(if plain { SliceNumbers::of(array.brick.voxel) } else { SliceNumbers::Doubles })
        };
        let kinds: Vec<SliceNumbers> = channels.iter().filter_map(names).collect();
        let numbers = match kinds.split_first() {
            Some((first, others)) if others.iter().all(|kind| kind == first) => *first,
            _ => SliceNumbers::Doubles,
        };
        Ok(Self { view, level, channels, numbers })
    }

    /// The description of each channel, its array and its component.
    fn each(&self) -> impl Iterator<Item = Result<(usize, &'a ChannelSpec, &'a VolumeArray, usize), FieldError>> + '_ {
        let count = self.view.channels.len();
        self.channels.iter().map(move |channel| {
            let spec = self.view.channels.get(*channel).zip(self.level.valued(*channel));
            let (spec, (array, component)) = spec.ok_or_else(|| {
                FieldError::Usage(format!(
                    "the volume has {count} channels, counted from 0; it has no channel {channel}"
                ))
            })?;
            Ok((*channel, spec, array, component))
        })
    }

    /// The arrays with the channels.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for an unknown channel.
    fn arrays(&self, step: u32) -> Result<Vec<SliceArray>, FieldError> {
        let mut arrays: Vec<SliceArray> = Vec::new();
        for (to, found) in self.each().enumerate() {
            let (channel, spec, array, component) = found?;
            // Pages of values have NaN there already. A second comparison in double precision would also match
            // neighbours of 64-bit numbers.
            let is_stored = self.level.channel(channel).is_some_and(|(stored, _)| stored.id == array.id);
            let pick = Pick {
                component,
                to,
                scale: spec.scale.unwrap_or([1.0, 0.0]),
                missing: if is_stored { spec.missing.clone() } else { Missing::none() },
                names: self.numbers != SliceNumbers::Doubles,
            };
            match arrays.iter_mut().find(|known| known.id == array.id) {
                Some(known) => known.picks.push(pick),
                None => arrays.push(SliceArray {
                    id: array.id,
                    step: if array.steady { 0 } else { step },
                    translation: array.translation,
                    brick: array.brick,
                    picks: vec![pick],
                    by_opacity: false,
                }),
            }
        }
        Ok(arrays)
    }

    /// The stored type of a channel. Its values in `array` may have another.
    fn stored_type(&self, channel: usize, array: &VolumeArray) -> VoxelType {
        self.level.channel(channel).map_or(array.brick.voxel, |(stored, _)| stored.brick.voxel)
    }

    /// A quantity for each channel.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for an unknown channel.
    fn fields(&self) -> Result<Vec<FieldSpec>, FieldError> {
        self.each()
            .map(|found| {
                let (channel, spec, array, _) = found?;
                let voxel = self.stored_type(channel, array);
                // Single precision does not distinguish all of these numbers; those of labels are names.
                let wide = voxel.size() > 4 || matches!(voxel, VoxelType::Int32 | VoxelType::Uint32);
                let wide = wide || self.view.kind == VolumeKind::Labels;
                let dtype = if wide { FieldType::F64 } else { FieldType::F32 };
                let unit = if spec.units == "1" { String::new() } else { spec.units.clone() };
                Ok(FieldSpec { name: spec.name.clone(), components: 1, dtype, unit })
            })
            .collect()
    }

    /// Colours that suit the channels. All channels are known.
    fn look(&self) -> Option<SlicePaint> {
        let (view, channels) = (&self.view, &self.channels);
        match view.kind {
            VolumeKind::Labels if channels.len() == 1 => {
                let own = view.label_colors.iter().filter_map(|(label, colour)| Some((*label, rgb_of(colour)?)));
                let own = own.collect();
                Some(match self.numbers {
                    SliceNumbers::Doubles => SlicePaint::Labels(own),
                    _ => SlicePaint::Names(own),
                })
            }
            // All of them: a single one is an ordinary number.
            VolumeKind::Rgb | VolumeKind::Rgba if channels.len() == view.channels.len() => {
                let last = *channels.last()?;
                let (array, _) = self.level.valued(last)?;
                Some(SlicePaint::Colours(self.stored_type(last, array)))
            }
            VolumeKind::Channels if channels.len() > 1 => {
                let of = |channel: &usize| {
                    let spec = &view.channels[*channel];
                    let colour = spec.color.as_deref().and_then(rgb_of).unwrap_or(SPREAD[channel % SPREAD.len()]);
                    (colour, spec.limits, spec.inverted)
                };
                Some(SlicePaint::Channels(channels.iter().map(of).collect()))
            }
            _ => None,
        }
    }
}

/// Prepares a slice of a volume.
///
/// # Errors
/// [`FieldError::Usage`] for an unknown level or channel, and the errors of [`PlaneSpec::lay`].
pub fn of_volume(view: VolumeView<'_>, plane: &PlaneSpec, choice: &VolumeChoice) -> Result<Slice, FieldError> {
    let wrong = |what: String| FieldError::Usage(what);
    let finest = view.levels.first().ok_or_else(|| wrong("the volume has no level".into()))?;
    let laid = plane.lay(&volume_corners(finest))?;
    let number = choice.level.unwrap_or_else(|| level_for(view.levels, laid.pixel[0].min(laid.pixel[1])));
    let level = view.levels.get(number).ok_or_else(|| {
        wrong(format!("the volume has {} levels, counted from 0, and level {number} is asked for", view.levels.len()))
    })?;
    let chosen = ChosenChannels::new(view, level, choice)?;
    let (mut arrays, mut fields) = (chosen.arrays(choice.step)?, chosen.fields()?);
    let (look, numbers, components) = (chosen.look(), chosen.numbers, chosen.channels.len());
    if matches!(look, Some(SlicePaint::Colours(_))) {
        // One quantity, as in pictures.
        if let (4, [array]) = (components, &mut arrays[..]) {
            array.by_opacity = true;
        }
        fields = vec![FieldSpec { name: "colour".into(), components, dtype: FieldType::F32, unit: String::new() }];
    }
    let labels = view.kind == VolumeKind::Labels;
    let filter = choice.filter.unwrap_or(if labels { Filter::Nearest } else { Filter::Trilinear });
    if labels && filter == Filter::Trilinear {
        return Err(wrong("between two labels there is nothing: slices of labels take the nearest voxel".into()));
    }
    let plane = in_voxels(&laid.plane, &level.placement)?;
    let slice = VolumeSlice { plane, dims: level.dims, arrays, filter };
    let nothing = if numbers == SliceNumbers::Doubles { f64::NAN } else { 0.0 };
    let what = SliceSource::Volume(VolumeSource { slice, components, nothing });
    Ok(Slice {
        laid,
        fields,
        level: Some(number),
        look,
        numbers,
        marks: SliceMarks::default(),
        length_unit: view.length_unit.to_owned(),
        what,
    })
}

/// Colours of channels for formats without any.
const SPREAD: [[u8; 3]; 6] = [[255, 0, 255], [0, 255, 0], [0, 160, 255], [255, 80, 0], [255, 255, 0], [255, 255, 255]];

/// Prepares a slice of a dataset on grids, with the named fields.
///
/// # Errors
/// [`FieldError`]: a name that not every zone has, the errors of [`PlaneSpec::lay`], an unreadable page of the
/// dataset's bounds.
pub fn of_grid(
    session: &Session,
    plane: &PlaneSpec,
    names: &[String],
    step: usize,
    watch: &mut ProgressWatch<'_>,
) -> Result<Slice, FieldError> {
    if names.is_empty() {
        return Err(FieldError::Usage("no field is asked for of a slice; name one".into()));
    }
    session.dataset().check_step(step)?;
    session.derive(names)?;
    // Names are checked before an index is built for them.
    session.dataset().fields(None, names, step)?;
    let dataset = session.located(watch)?;
    let zone_fields = dataset.fields(None, names, step)?;
    let (mut low, mut high) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
    {
        let mut flow = BlockingFlow::new(session, &dataset, zone_fields.clone(), step)?;
        for zone in 0..dataset.zones.len() {
            let Some(top) = dataset.zones[zone].boxes.len().checked_sub(1) else { continue };
            let bounds = flow.until_here(|f| f.space.nodes.bounds(zone, top))?;
            for a in 0..3 {
                low[a] = low[a].min(f64::from(bounds[a]));
                high[a] = high[a].max(f64::from(bounds[a + 3]));
            }
        }
    }
    if !low.iter().chain(&high).all(|v| v.is_finite()) {
        return Err(FieldError::Usage("the dataset has no place in space: none of its coordinates is a number".into()));
    }
    let laid = plane.lay(&box_corners(low, high))?;
    let fields: Vec<FieldSpec> = names
        .iter()
        .map(|name| {
            let components = dataset.quantity(0, name)?.components();
            let unit = dataset.units(name);
            let unit = if unit == "1" { String::new() } else { unit };
            Ok(FieldSpec { name: name.clone(), components, dtype: FieldType::F32, unit })
        })
        .collect::<Result<_, FieldError>>()?;
    let source = GridSource {
        slice: GridSlice { plane: laid.plane },
        zones: dataset.zones.clone(),
        fields: zone_fields,
        order: session.zone_order(&dataset)?,
        step: step as u32,
        components: fields.iter().map(|f| f.components).sum(),
        dataset: dataset.clone(),
    };
    let what = SliceSource::Grid(Box::new(source));
    let numbers = SliceNumbers::Doubles;
    let (marks, length_unit) = (SliceMarks::default(), dataset.length_unit());
    Ok(Slice { laid, fields, level: None, look: None, numbers, marks, length_unit, what })
}

impl Slice {
    /// Numbers of a pixel.
    pub fn components(&self) -> usize {
        self.fields.iter().map(|field| field.components).sum()
    }

    /// The title of a picture.
    fn title(&self) -> String {
        let place = || place(self.laid.origin, self.laid.normal, &self.length_unit);
        let of_grids = (self.marks.bar && matches!(self.what, SliceSource::Grid(_))).then(place);
        self.marks.title.clone().or(of_grids).unwrap_or_default()
    }

    /// The fields under the titles that bars have.
    fn titled(&self) -> Vec<FieldSpec> {
        let title = |name: &str| match &self.what {
            SliceSource::Grid(source) => source.dataset.title(name),
            SliceSource::Volume(_) => name.to_owned(),
        };
        self.fields.iter().map(|field| FieldSpec { name: title(&field.name), ..field.clone() }).collect()
    }

    fn run(
        &self,
        pager: &Arc<Pager>,
        workers: usize,
        watch: &mut ProgressWatch<'_>,
        take: &mut dyn FnMut(&run::PictureRows) -> Result<(), FieldError>,
    ) -> Result<(Pixels, RunStats), FieldError> {
        match &self.what {
            SliceSource::Volume(source) => run::run(source, pager, workers, watch, take),
            SliceSource::Grid(source) => run::run(&**source, pager, workers, watch, take),
        }
    }

    /// Computes the slice into memory of the caller, which is not charged.
    ///
    /// # Errors
    /// [`FieldError`]: lack of memory, a limit that is too small, an interruption.
    pub fn arrays(
        &self,
        pager: &Arc<Pager>,
        workers: usize,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<SliceArrays, FieldError> {
        let [w, h] = self.laid.plane.size.map(|n| n as usize);
        let (mut values, mut pixels): (Vec<f64>, Vec<u8>) = (Vec::new(), Vec::new());
        let count = w.checked_mul(h).and_then(|n| n.checked_mul(self.components()));
        let reserved =
            count.is_some_and(|n| values.try_reserve_exact(n).is_ok() && pixels.try_reserve_exact(w * h).is_ok());
        if !reserved {
            return Err(FieldError::Usage(format!(
                "a slice of {w} x {h} pixels takes more memory than there is; write it to a file instead"
            )));
        }
        let (counts, run) = self.run(pager, workers, watch, &mut |rows| {
            values.extend_from_slice(&rows.values);
            pixels.extend(rows.pixels.iter().map(|p| *p as u8));
            Ok(())
        })?;
        Ok(SliceArrays { values, pixels, counts, run })
    }

    /// Computes the slice and writes it: `.png` with colours by `look`, `.npy` or `.npz` with numbers. Returns a report
    /// as JSON.
    ///
    /// # Errors
    /// [`FieldError`]: another extension, unsuitable colours, errors of writing, a limit that is too small, an
    /// interruption. No part of the file is left then.
    pub fn write(
        &self,
        pager: &Arc<Pager>,
        workers: usize,
        path: &Path,
        look: Option<SlicePaint>,
        provenance: &Provenance,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<Value, FieldError> {
        let failed = |e: FieldError| refused(pager, e);
        let share = || Box::new(LedgerShare::new(pager.clone()));
        let mut told = self.about();
        let (counts, run, bytes) = if RasterWriter::writes(path) {
            let (plane, fields) = (self.laid.plane, self.fields.clone());
            let steps = [plane.first, plane.across, plane.down];
            let words = match self.numbers {
                SliceNumbers::Doubles => None,
                SliceNumbers::Unsigned => Some("<u8"),
                SliceNumbers::Signed => Some("<i8"),
            };
            let layout = RasterLayout { size: plane.size, fields, steps, extent: self.laid.extent, words };
            let provenance = Provenance { length_unit: self.length_unit.clone(), ..provenance.clone() };
            let made = RasterWriter::create(path, layout, provenance, share());
            let mut writer = made.map_err(|e| failed(e.into()))?;
            let mut bytes = Vec::new();
            let (counts, run) = self.run(pager, workers, watch, &mut |rows| {
                bytes.clear();
                bytes.extend(rows.pixels.iter().map(|p| *p as u8));
                writer.push(&rows.values, &bytes).map_err(FieldError::from)
            })?;
            let written = writer.finish(counts.failed > 0, told.clone()).map_err(FieldError::from)?;
            (counts, run, written)
        } else if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("png")) {
            let look = self.suited(look)?;
            let mut text = vec![("Software", concat!("Farfield ", env!("CARGO_PKG_VERSION")).to_owned())];
            if !provenance.source.is_empty() {
                text.push(("Source", provenance.source.clone()));
            }
            text.push(("Description", Value::Object(told.clone()).to_string()));
            let held = HeldMemory::new(share());
            let size = self.laid.plane.size;
            let marks = self.marks.clone();
            let marked = MarkedSlice { marks, title: self.title(), fields: self.titled(), rule: self.rule() };
            let made = PngWriter::create(path, (size, self.components()), look, text, marked, held);
            let mut writer = made.map_err(failed)?;
            let (counts, run) = self.run(pager, workers, watch, &mut |rows| writer.push(rows))?;
            let (bytes, ranges) = writer.finish(watch)?;
            told.insert("ranges".into(), json!(ranges));
            (counts, run, bytes)
        } else {
            let reason = "a slice as a picture is written as .png, as an array as .npy or .npz".into();
            return Err(OutputError::Target { path: path.to_path_buf(), reason }.into());
        };
        told.insert("output".into(), json!(path));
        told.insert("bytes_written".into(), bytes.into());
        told.insert("pixels".into(), counts.told());
        told.insert("partial".into(), (counts.failed > 0).into());
        told.insert("failure".into(), json!(counts.failure));
        told.insert("wait_s".into(), run.wait_s.into());
        Ok(Value::Object(told))
    }

    /// The length of a pixel, if it has one.
    fn rule(&self) -> Option<ScaleBar> {
        let is_length = !matches!(self.length_unit.as_str(), "" | "1" | "voxel" | "degree");
        let [pixel, high] = self.laid.pixel;
        let square = (pixel - high).abs() <= 1e-6 * pixel;
        (is_length && square).then(|| ScaleBar { pixel, unit: self.length_unit.clone() })
    }

    /// Its description in files and reports.
    pub fn about(&self) -> Map<String, Value> {
        let laid = &self.laid;
        let mut about = Map::new();
        about.insert("size".into(), json!(laid.plane.size));
        about.insert("origin".into(), json!(laid.origin));
        about.insert("normal".into(), json!(laid.normal));
        about.insert("right".into(), json!(laid.axes[0]));
        about.insert("up".into(), json!(laid.axes[1]));
        about.insert("extent".into(), json!(laid.extent));
        about.insert("pixel".into(), json!(laid.pixel));
        about.insert("length_unit".into(), self.length_unit.clone().into());
        if let Some([left, right, top, bottom]) = &self.marks.edges {
            about.insert("edges".into(), json!({"left": left, "right": right, "top": top, "bottom": bottom}));
        }
        if let Some(level) = self.level {
            about.insert("level".into(), level.into());
        }
        let fields = self.fields.iter().map(|f| json!({"name": f.name, "components": f.components, "unit": f.unit}));
        about.insert("fields".into(), fields.collect());
        about
    }

    /// The colours of a picture: as requested, or suited to its numbers.
    fn suited(&self, look: Option<SlicePaint>) -> Result<SlicePaint, FieldError> {
        let components = self.components();
        let look = match (look, &self.look) {
            (Some(look), _) => look,
            // Colours, channels and labels have colours of their own.
            (None, Some(own)) => own.clone(),
            (None, None) => SlicePaint::Map { table: grey_table(), range: None },
        };
        if look.takes(components) {
            return Ok(look);
        }
        let names: Vec<&str> = self.fields.iter().map(|f| f.name.as_str()).collect();
        if let SliceSource::Volume(_) = self.what {
            return Err(FieldError::Usage(format!(
                "a map of colours is of one number a pixel, and here are {components} ({}): choose one channel, or leave the map, \
                 its range and grey of 16 bits away",
                names.join(", ")
            )));
        }
        Err(FieldError::Usage(format!(
            "a picture shows one number a pixel, and {} has {components}; name one component, such as {}_x, or write an .npz",
            names.join(" with "),
            names.first().unwrap_or(&"velocity")
        )))
    }
}

/// From black to white.
fn grey_table() -> Vec<[u8; 3]> {
    (0..=255).map(|v| [v; 3]).collect()
}
