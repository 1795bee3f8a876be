//! Open datasets: catalogs, and arrays registered with the pager.

use crate::catalog::{Catalog, Role, RowReader, ZoneInfo};
use crate::computed_array::ComputedPages;
use crate::derive::derived_field::DerivedField;
use crate::described_zones::DescribedZones;
use crate::error::FieldError;
use crate::format::Format;
use crate::freestream::FlowUnits;
use crate::heap_size;
use crate::inplace::{page_box, InPlace};
use crate::locator::ZoneFields;
use crate::nodes::{ArraySlot, BoxLevel, Zone};
use crate::plot3d::Plot3d;
use crate::quantity::{FreeStream, Quantity};
use crate::store::layout::box_pages;
use crate::store::{LevelId, PagerRegistrar, Register, Store};
use crate::translate::Translation;
use crate::uniform::Uniform;
use crate::usage::Uses;
use crate::volume::Volume;
use pager::id::{ArrayId, SourceId};
use pager::map::PageMap;
use pager::{Charge, Pager};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// A field by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldName {
    /// The name.
    pub name: String,
    /// The first zone that has it.
    pub first: usize,
    /// Number of zones that have it.
    pub zones: usize,
}

/// A part of a dataset, with its own way from a point to pages.
#[derive(Copy, Clone)]
pub enum Domain<'a> {
    /// A block of a structured grid with nodes anywhere in space.
    Curvilinear(&'a Zone),
    /// A lattice of voxels with its levels.
    Uniform(&'a Volume),
}

/// An open dataset: the zones of a flow, or one volume.
pub struct Dataset {
    /// The contents.
    pub catalog: Catalog,
    /// Computed once: it takes a pass over all zones.
    pub(crate) units: FlowUnits,
    /// The data that runs have used.
    pub uses: Uses,
    /// The format of the zones; `None` without zones.
    pub format: Option<Arc<dyn Format>>,
    /// The curvilinear domains.
    pub zones: Arc<[Zone]>,
    /// The uniform domain, if the dataset is a volume.
    pub volume: Option<Arc<Volume>>,
    /// Ranges of each zone's arrays by page, coarsest last: lower limits of each component, then upper, float64. Empty
    /// without an index.
    pub ranges: Vec<Vec<Vec<LevelId>>>,
    /// Derived fields that have pages.
    pub made: Arc<[DerivedField]>,
    /// Charges for all of the above and for the pager's records.
    pub(crate) charges: Vec<Arc<Charge>>,
}

fn slots(catalog: &Catalog, zone: usize, ids: &[ArrayId], steps: impl Fn(usize) -> usize) -> Vec<ArraySlot> {
    let arrays = catalog.zones[zone].arrays.iter().zip(ids).enumerate();
    arrays
        .map(|(n, (a, id))| ArraySlot {
            name: a.name.clone(),
            id: *id,
            components: a.components,
            dtype: a.dtype,
            steady: steps(n) <= 1,
            derived: false,
            making: 0,
        })
        .collect()
}

/// Bytes on the heap of the zones of a catalog, with `boxes` levels of boxes in all.
fn held_by_zones(catalog: &Catalog, boxes: usize) -> u64 {
    let zone = |z: &ZoneInfo| {
        let names = heap_size::text(&z.name) + z.arrays.iter().map(|a| heap_size::text(&a.name)).sum::<u64>();
        size_of::<Zone>() as u64 + names + heap_size::grown::<ArraySlot>(z.arrays.len())
    };
    catalog.zones.iter().map(zone).sum::<u64>() + heap_size::grown::<BoxLevel>(boxes) + 48 * catalog.zones.len() as u64
}

/// Bytes on the heap of the page map of one array of a zone.
fn map_bytes(zone: &str, array: &str) -> u64 {
    let map = heap_size::shared::<InPlace>().max(heap_size::shared::<ComputedPages>());
    map + heap_size::grown::<u8>(zone.len() + 1 + array.len()) + heap_size::grown::<[usize; 2]>(1)
}

/// The levels of boxes of a grid, which is `steady` or moves.
fn levels(boxes: &[LevelId], steady: bool) -> Vec<BoxLevel> {
    let level =
        |l: &LevelId| BoxLevel { id: l.id, translation: Translation::new(l.paging.dims, l.paging.page), steady };
    boxes.iter().map(level).collect()
}

fn zone(
    catalog: &Catalog,
    n: usize,
    page: [usize; 3],
    arrays: Vec<ArraySlot>,
    boxes: &[LevelId],
    uniform: Option<Uniform>,
) -> Result<Zone, FieldError> {
    let z = &catalog.zones[n];
    let role = |r: Role| z.arrays.iter().position(|a| a.role == r);
    let xyz = role(Role::Coordinates).ok_or_else(|| FieldError::Usage(format!("{} has no coordinates", z.name)))?;
    Ok(Zone {
        name: z.name.clone(),
        translation: Translation::new(z.dims, page),
        xyz,
        iblank: role(Role::Iblank),
        boxes: levels(boxes, arrays[xyz].steady),
        uniform: uniform.filter(|_| arrays[xyz].steady),
        arrays,
    })
}

impl Dataset {
    /// Registers a store.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for a zone without coordinates; [`FieldError::LimitTooSmall`] if the zones' metadata
    /// exceed the limit.
    pub fn from_store(store: Store, pager: &Pager) -> Result<Self, FieldError> {
        Self::from_store_by(store, pager, &mut PagerRegistrar(pager))
    }

    /// As [`Self::from_store`], but registers files and arrays through `register`, which may substitute other sources.
    ///
    /// # Errors
    /// As [`Self::from_store`].
    pub fn from_store_by(store: Store, pager: &Pager, register: &mut dyn Register) -> Result<Self, FieldError> {
        let boxes: usize = store.zones.iter().map(|z| z.boxes.len()).sum();
        let level_ids = store.zones.iter().map(|z| {
            let of_arrays = z.ranges.iter().map(|r| heap_size::grown::<LevelId>(r.len())).sum::<u64>();
            of_arrays + heap_size::grown::<Vec<LevelId>>(z.ranges.len())
        });
        let bytes = store.held()
            + store.held_by_pager()
            + heap_size::catalog(&store.catalog)
            + held_by_zones(&store.catalog, boxes)
            + level_ids.sum::<u64>()
            + heap_size::grown::<Vec<Vec<LevelId>>>(store.zones.len());
        let charges = vec![heap_size::charge(pager, bytes, store.zones.len())?];
        let ids = store.register(register);
        let catalog = store.catalog.clone();
        let zones = ids.iter().zip(&store.zones).enumerate().map(|(n, (z, layout))| {
            let arrays = slots(&catalog, n, &z.arrays, |a| layout.arrays[a].steps);
            zone(&catalog, n, layout.paging.page, arrays, &z.boxes, store.root.uniform[n])
        });
        let zones = zones.collect::<Result<Vec<_>, _>>()?;
        let ranges = ids.into_iter().map(|z| z.ranges).collect();
        Ok(Self {
            units: FlowUnits::of(&catalog),
            uses: Uses::default(),
            catalog,
            format: Some(Arc::new(store)),
            zones: zones.into(),
            volume: None,
            ranges,
            made: Arc::new([]),
            charges,
        })
    }

    /// Registers PLOT3D files: [`Self::in_place`].
    ///
    /// # Errors
    /// As [`Self::in_place`].
    pub fn from_plot3d(files: Plot3d, pager: &Pager) -> Result<Self, FieldError> {
        let (catalog, bytes) = (files.catalog.clone(), files.held());
        Self::in_place(Arc::new(files), catalog, bytes, pager)
    }

    /// Registers zones that a document describes: [`Self::in_place`].
    ///
    /// # Errors
    /// As [`Self::in_place`].
    pub fn from_described(zones: DescribedZones, pager: &Pager) -> Result<Self, FieldError> {
        let (catalog, bytes) = (zones.catalog.clone(), zones.held());
        Self::in_place(Arc::new(zones), catalog, bytes, pager)
    }

    /// Registers files whose arrays are paged in place, without boxes (see [`Self::with_boxes`]). `bytes` is the size
    /// of `format` on the heap.
    ///
    /// # Errors
    /// - [`FieldError::Usage`] for a zone without coordinates;
    /// - [`FieldError::Unknown`] for an array without a layout;
    /// - [`FieldError::LimitTooSmall`] if the zones' metadata exceed the limit.
    pub fn in_place(format: Arc<dyn Format>, catalog: Catalog, bytes: u64, pager: &Pager) -> Result<Self, FieldError> {
        // Each array has a page map, with the layout's name.
        let arrays = catalog.zones.iter().flat_map(|z| z.arrays.iter().map(move |a| map_bytes(&z.name, &a.name)));
        let names: u64 = arrays.sum();
        let bytes = bytes + names + heap_size::catalog(&catalog) + held_by_zones(&catalog, 0);
        let charges = vec![heap_size::charge(pager, bytes, catalog.zones.len())?];
        let sources: Arc<[SourceId]> = format.data_files().iter().map(|p| pager.add_file(p)).collect();
        let mut zones = Vec::with_capacity(catalog.zones.len());
        for (n, z) in catalog.zones.iter().enumerate() {
            let mut ids = Vec::with_capacity(z.arrays.len());
            let mut steps = Vec::with_capacity(z.arrays.len());
            for (a, info) in z.arrays.iter().enumerate() {
                let (of, map): (usize, Arc<dyn PageMap>) = match (format.layout(n, a), format.computed(n, a)) {
                    (Some(layout), _) => (layout.steps(), Arc::new(InPlace::new(layout, sources.clone()))),
                    (None, Some(rule)) => (rule.steps(), Arc::new(ComputedPages::new(rule))),
                    (None, None) => {
                        let name = info.name.clone();
                        return Err(FieldError::Unknown { what: "array", name, known: Vec::new() });
                    }
                };
                steps.push(of);
                ids.push(pager.add_array(map));
            }
            zones.push(zone(&catalog, n, page_box(z.dims), slots(&catalog, n, &ids, |a| steps[a]), &[], None)?);
        }
        let (units, format) = (FlowUnits::of(&catalog), Some(format));
        let (ranges, made, uses, volume) = (Vec::new(), Arc::new([]), Uses::default(), None);
        Ok(Self { catalog, units, uses, format, zones: zones.into(), volume, ranges, made, charges })
    }

    /// A volume as a dataset. Its arrays are already registered and charged.
    pub fn from_volume(volume: Volume) -> Self {
        let mut empty = Self::empty();
        empty.catalog.format.clone_from(&volume.spec.format);
        empty.catalog.times.clone_from(&volume.spec.times);
        empty.volume = Some(Arc::new(volume));
        empty
    }

    /// A dataset without domains, for runs that page nothing.
    pub fn empty() -> Self {
        let catalog = Catalog {
            format: String::new(),
            guessed: Vec::new(),
            order_assumed: Vec::new(),
            dimension: 3,
            zones: Vec::new(),
            times: Vec::new(),
            times_counted: false,
            time_units: "1".into(),
            settings: serde_json::Value::Null,
        };
        Self {
            units: FlowUnits::of(&catalog),
            uses: Uses::default(),
            catalog,
            format: None,
            zones: Arc::new([]),
            volume: None,
            ranges: Vec::new(),
            made: Arc::new([]),
            charges: Vec::new(),
        }
    }

    /// The domains: zones in file order, or the volume.
    pub fn domains(&self) -> impl Iterator<Item = Domain<'_>> {
        self.zones.iter().map(Domain::Curvilinear).chain(self.volume.as_deref().map(Domain::Uniform))
    }

    /// Whether pages are read from foreign files in place.
    pub fn is_in_place(&self) -> bool {
        self.format.as_ref().is_some_and(|f| f.is_in_place())
    }

    /// Files paged in place, with the boxes of an index, which is made of geometry alone. Arrays keep their ids, so
    /// resident pages stay valid.
    ///
    /// # Errors
    /// - [`FieldError::Usage`] if the index is of other data;
    /// - [`FieldError::Internal`] for a store, which has its own boxes;
    /// - [`FieldError::LimitTooSmall`] if the boxes exceed the limit.
    pub fn with_boxes(&self, index: &Store, pager: &Pager) -> Result<Self, FieldError> {
        if !self.is_in_place() {
            return Err(FieldError::Internal("a store was given an index of boxes"));
        }
        if index.catalog.zones.len() != self.zones.len() {
            return Err(FieldError::Usage("the cached index is of other data; run `farfield cache clear`".into()));
        }
        let boxes: usize = index.zones.iter().map(|z| z.boxes.len()).sum();
        // Catalog and zones replace the present ones.
        let bytes = index.held_by_pager() + heap_size::grown::<BoxLevel>(boxes) + 48 * self.zones.len() as u64;
        let mut charges = self.charges.clone();
        charges.push(heap_size::charge(pager, bytes, self.zones.len())?);
        let ids = index.register(&mut PagerRegistrar(pager));
        let zones = self.zones.iter().zip(&ids).zip(&index.root.uniform).map(|((z, i), uniform)| {
            let steady = z.arrays[z.xyz].steady;
            Zone { boxes: levels(&i.boxes, steady), uniform: uniform.filter(|_| steady), ..z.clone() }
        });
        Ok(Self {
            catalog: self.catalog.clone(),
            units: self.units,
            uses: self.uses.clone(),
            format: self.format.clone(),
            zones: zones.collect(),
            volume: None,
            ranges: Vec::new(),
            made: self.made.clone(),
            charges,
        })
    }

    /// The dataset with other zones, which have additional arrays.
    pub(crate) fn with_zones(&self, zones: Vec<Zone>, made: Vec<DerivedField>, charges: Vec<Arc<Charge>>) -> Self {
        Self {
            catalog: self.catalog.clone(),
            units: self.units,
            uses: self.uses.clone(),
            format: self.format.clone(),
            zones: zones.into(),
            volume: self.volume.clone(),
            ranges: self.ranges.clone(),
            made: made.into(),
            charges,
        }
    }

    /// Row readers of all arrays, zone by zone in catalog order, for converters.
    ///
    /// # Errors
    /// [`FieldError`] if a store cannot be reopened.
    pub fn rows(&self) -> Result<Vec<Vec<Arc<dyn RowReader>>>, FieldError> {
        let Some(format) = &self.format else { return Ok(Vec::new()) };
        let zones = self.catalog.zones.iter().enumerate();
        zones.map(|(n, z)| (0..z.arrays.len()).map(|a| format.rows(n, a)).collect()).collect()
    }

    /// Refuses a time step that does not exist.
    ///
    /// # Errors
    /// [`FieldError::Usage`].
    pub fn check_step(&self, step: usize) -> Result<(), FieldError> {
        let steps = self.catalog.times.len().max(1);
        if step < steps {
            return Ok(());
        }
        Err(FieldError::Usage(format!("there is no time step {step}; there are {steps}, counted from 0")))
    }

    /// Number of a zone.
    ///
    /// # Errors
    /// [`FieldError::Unknown`].
    pub fn zone_named(&self, name: &str) -> Result<usize, FieldError> {
        self.zones.iter().position(|z| z.name == name).ok_or_else(|| FieldError::Unknown {
            what: "zone",
            name: name.to_owned(),
            known: self.zones.iter().map(|z| z.name.clone()).collect(),
        })
    }

    /// All names of fields: those of every zone first; stored before derived.
    pub fn field_names(&self) -> Vec<FieldName> {
        let mut found: Vec<(FieldName, usize)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for (zone, z) in self.zones.iter().enumerate() {
            for name in Quantity::names(z) {
                let n = *places.entry(name).or_insert_with_key(|name| {
                    found.push((FieldName { name: name.clone(), first: zone, zones: 0 }, usize::MAX));
                    found.len() - 1
                });
                let (field, last) = &mut found[n];
                // A zone that stores a derivable field names it twice.
                field.zones += usize::from(*last != zone);
                *last = zone;
            }
        }
        let mut names: Vec<FieldName> = found.into_iter().map(|f| f.0).collect();
        let derived = |f: &FieldName| self.zones[f.first].array(&f.name).is_none();
        names.sort_by_key(|f| (f.zones < self.zones.len(), derived(f)));
        names
    }

    /// The zones that have a field.
    pub fn zones_with<'a>(&'a self, name: &'a str) -> impl Iterator<Item = usize> + 'a {
        (0..self.zones.len()).filter(move |zone| Quantity::named(&self.zones[*zone], name).is_some())
    }

    /// The error for a name that no zone has.
    pub fn unknown_field(&self, name: &str) -> FieldError {
        let mut known: Vec<String> = self.field_names().into_iter().map(|f| f.name).collect();
        known.extend(self.own_names().chain(self.gradients().map(|g| g.name.to_owned())));
        FieldError::Unknown { what: "field", name: name.to_owned(), known }
    }

    /// Checks that some zone has each field.
    ///
    /// # Errors
    /// [`FieldError::Unknown`] for the first that no zone has.
    pub fn check_names(&self, names: &[String]) -> Result<(), FieldError> {
        match names.iter().find(|name| self.zones_with(name).next().is_none()) {
            Some(name) => Err(self.unknown_field(name)),
            None => Ok(()),
        }
    }

    /// A field of a zone by name.
    ///
    /// # Errors
    /// [`FieldError::Unknown`] if no zone has it, [`FieldError::Lacking`] if only others do.
    pub fn quantity(&self, zone: usize, name: &str) -> Result<Quantity, FieldError> {
        let z = &self.zones[zone];
        Quantity::named(z, name).ok_or_else(|| match self.zones_with(name).next() {
            None => self.unknown_field(name),
            Some(_) => FieldError::Lacking {
                name: name.to_owned(),
                zones: vec![z.name.clone()],
                scope: "",
                known: Quantity::names(z),
            },
        })
    }

    /// The traced vector and sampled fields of each zone at a step.
    ///
    /// # Errors
    /// [`FieldError::Unknown`]; [`FieldError::Lacking`], with the zones that lack a name; [`FieldError::Usage`].
    pub fn fields(
        &self,
        vector: Option<&str>,
        sampled: &[String],
        step: usize,
    ) -> Result<Arc<[ZoneFields]>, FieldError> {
        let each = (0..self.zones.len()).map(|zone| self.fields_of(zone, vector, sampled, step));
        each.collect::<Result<Vec<_>, _>>().map(Into::into).map_err(|e| match e {
            FieldError::Unknown { what: "field", name, .. } => self.not_everywhere(name),
            e => e,
        })
    }

    /// [`Self::fields`] at each step. Steps with equal headers share theirs.
    ///
    /// # Errors
    /// As [`Self::fields`].
    pub fn fields_over_time(&self, vector: &str, sampled: &[String]) -> Result<Box<[Arc<[ZoneFields]>]>, FieldError> {
        let mut all: Vec<Arc<[ZoneFields]>> = Vec::with_capacity(self.catalog.times.len().max(1));
        for step in 0..self.catalog.times.len().max(1) {
            match all.last().filter(|_| self.says_as_before(step)) {
                Some(last) => all.push(last.clone()),
                None => all.push(self.fields(Some(vector), sampled, step)?),
            }
        }
        Ok(all.into())
    }

    /// Bytes on the heap of the result of [`Self::fields_over_time`].
    pub fn fields_over_time_bytes(&self, sampled: &[String]) -> u64 {
        let steps = self.catalog.times.len().max(1);
        let differ = (0..steps).filter(|step| !self.says_as_before(*step)).count();
        let zone = size_of::<ZoneFields>() as u64 + heap_size::grown::<Quantity>(sampled.len());
        differ as u64 * zone * self.zones.len() as u64 + heap_size::grown::<Arc<[ZoneFields]>>(steps)
    }

    /// Whether a step's headers give the same gas as those before.
    fn says_as_before(&self, step: usize) -> bool {
        let said = |zone: &ZoneInfo, step: usize| {
            zone.headers.get(step).or(zone.headers.last()).map(|h| [h.gamma.to_bits(), h.mach.to_bits()])
        };
        step > 0 && self.catalog.zones.iter().all(|z| said(z, step) == said(z, step - 1))
    }

    /// The sampled fields of each zone at a step, by the names that `sampled` gives for it. No vector is traced.
    ///
    /// # Errors
    /// [`FieldError::Unknown`].
    pub fn fields_by_zone(
        &self,
        step: usize,
        sampled: &dyn Fn(usize) -> Vec<String>,
    ) -> Result<Arc<[ZoneFields]>, FieldError> {
        let each = (0..self.zones.len()).map(|zone| self.fields_of(zone, None, &sampled(zone), step));
        each.collect::<Result<Vec<_>, _>>().map(Into::into)
    }

    /// The arrays and the gas for fields of one zone at a step. Nothing is traced or sampled yet.
    ///
    /// # Errors
    /// [`FieldError::Usage`].
    pub fn zone_fields(&self, zone: usize, step: usize) -> Result<ZoneFields, FieldError> {
        self.fields_of(zone, None, &[], step)
    }

    fn fields_of(
        &self,
        zone: usize,
        vector: Option<&str>,
        sampled: &[String],
        step: usize,
    ) -> Result<ZoneFields, FieldError> {
        let (gamma, free) = self.gas(zone, step);
        let fields = ZoneFields::named(&self.zones[zone], vector, sampled, gamma, free)?;
        self.uses.quantities(&fields.sampled);
        Ok(fields)
    }

    /// The error for a name that a line needs and some zone lacks.
    fn not_everywhere(&self, name: String) -> FieldError {
        let has: HashSet<usize> = self.zones_with(&name).collect();
        if has.is_empty() {
            return self.unknown_field(&name);
        }
        let lack = self.zones.iter().enumerate().filter(|(n, _)| !has.contains(n)).map(|(_, z)| z.name.clone());
        let everywhere = self.field_names().into_iter().filter(|f| f.zones == self.zones.len());
        FieldError::Lacking {
            name,
            zones: lack.collect(),
            scope: "a line may enter any zone, and in every one ",
            known: everywhere.map(|f| f.name).collect(),
        }
    }

    /// All pages that can be requested from the pager: of all arrays at all steps, their boxes, ranges and shard
    /// indexes. The boxes of files in place count, made or not, so the number does not depend on a run.
    ///
    /// # Errors
    /// [`FieldError::Format`] for zones too large for any index.
    pub fn page_count(&self) -> Result<u64, FieldError> {
        if let Some(count) = self.format.as_ref().and_then(|f| f.page_count()) {
            return Ok(count);
        }
        let count = |steady: bool| if steady { 1 } else { self.catalog.times.len().max(1) as u64 };
        let of_zone = |z: &Zone| {
            let pages = z.translation.count();
            let boxes = box_pages(z.translation.dims.map(|n| n as usize)).checked_mul(count(z.arrays[z.xyz].steady))?;
            z.arrays
                .iter()
                .filter(|a| !a.derived)
                .try_fold(boxes, |sum, a| pages.checked_mul(count(a.steady))?.checked_add(sum))
        };
        let of_domain = |d: Domain<'_>| match d {
            Domain::Curvilinear(zone) => of_zone(zone),
            Domain::Uniform(volume) => Some(volume.page_count()),
        };
        let sum = self.domains().try_fold(0u64, |sum, d| sum.checked_add(of_domain(d)?));
        sum.ok_or_else(|| {
            let files = self.format.as_ref().map(|f| f.files()).unwrap_or_default();
            let path = files.first().map_or(Path::new(""), |p| p.as_path());
            FieldError::format(path, "has more pages than can be counted; read fewer zones or steps")
        })
    }

    /// The remarks on the data used so far.
    pub fn warnings(&self) -> Vec<&str> {
        self.uses.remarks(&self.catalog)
    }

    /// Ratio of specific heats and free stream of a zone at a step, from its header.
    pub(crate) fn gas(&self, zone: usize, step: usize) -> (f64, FreeStream) {
        self.units.gas(&self.catalog.zones[zone], step)
    }

    /// Bytes of all decoded pages of the arrays, at all steps.
    pub fn bytes(&self) -> u64 {
        let steps = self.catalog.times.len().max(1) as u64;
        let of_zone = |z: &Zone| {
            let each = z.arrays.iter().filter(|a| !a.derived).map(|a| {
                let page = (z.translation.component * a.components * a.dtype.size()) as u64;
                z.translation.count().saturating_mul(page).saturating_mul(if a.steady { 1 } else { steps })
            });
            each.fold(0, u64::saturating_add)
        };
        let of_domain = |d: Domain<'_>| match d {
            Domain::Curvilinear(zone) => of_zone(zone),
            Domain::Uniform(volume) => volume.bytes(),
        };
        self.domains().map(of_domain).fold(0, u64::saturating_add)
    }

    /// Whether every page carries a checksum.
    pub fn checked(&self) -> bool {
        match &self.volume {
            Some(volume) => volume.checked,
            None => self.format.as_ref().is_some_and(|f| !f.is_in_place()),
        }
    }
}
