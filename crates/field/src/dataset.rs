//! A dataset that is open: what it holds, and the pager's numbers for it.

use crate::catalog::{Catalog, Role, Rows};
use crate::error::FieldError;
use crate::inplace::{page_box, InPlace};
use crate::nodes::{ArraySlot, BoxLevel, Zone};
use crate::plot3d::Plot3d;
use crate::quantity::{Quantity, DEFINITIONS};
use crate::space::ZoneFields;
use crate::store::{LevelId, Register, Store};
use crate::translate::Translation;
use pager::id::{ArrayId, SourceId};
use pager::map::PageMap;
use pager::Pager;
use std::path::Path;
use std::sync::Arc;

/// Where the pages come from.
pub enum Origin {
    /// Files paged where they lie; boxes come from an index beside them in the cache.
    Plot3d(Box<Plot3d>),
    /// Our own store.
    Store(Box<Store>),
}

/// An open dataset.
pub struct Dataset {
    /// What it holds.
    pub catalog: Catalog,
    /// Where it comes from.
    pub origin: Origin,
    /// Zones as the accessors see them.
    pub zones: Arc<[Zone]>,
    /// Ranges of each zone's arrays by page, coarsest last: lower limits of each component, then upper, float64. Empty
    /// where there is no index.
    pub ranges: Vec<Vec<Vec<LevelId>>>,
}

struct Registrar<'a>(&'a Pager);

impl Register for Registrar<'_> {
    fn add_file(&mut self, path: &Path) -> SourceId {
        self.0.add_file(path)
    }
    fn add_array(&mut self, map: Arc<dyn PageMap>) -> ArrayId {
        self.0.add_array(map)
    }
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
        })
        .collect()
}

fn zone(
    catalog: &Catalog,
    n: usize,
    page: [usize; 3],
    arrays: Vec<ArraySlot>,
    boxes: &[LevelId],
) -> Result<Zone, FieldError> {
    let z = &catalog.zones[n];
    let role = |r: Role| z.arrays.iter().position(|a| a.role == r);
    let xyz = role(Role::Coordinates).ok_or_else(|| FieldError::Usage(format!("{} has no coordinates", z.name)))?;
    let levels =
        boxes.iter().map(|l| BoxLevel { id: l.id, translation: Translation::new(l.paging.dims, l.paging.page) });
    Ok(Zone {
        name: z.name.clone(),
        translation: Translation::new(z.dims, page),
        arrays,
        xyz,
        iblank: role(Role::Iblank),
        boxes: levels.collect(),
    })
}

impl Dataset {
    /// Registers a store.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for a zone without coordinates.
    pub fn from_store(store: Store, pager: &Pager) -> Result<Self, FieldError> {
        let ids = store.register(&mut Registrar(pager));
        let catalog = store.catalog.clone();
        let zones = ids.iter().zip(&store.zones).enumerate().map(|(n, (z, layout))| {
            let arrays = slots(&catalog, n, &z.arrays, |a| layout.arrays[a].steps);
            zone(&catalog, n, layout.paging.page, arrays, &z.boxes)
        });
        let zones = zones.collect::<Result<Vec<_>, _>>()?;
        let ranges = ids.into_iter().map(|z| z.ranges).collect();
        Ok(Self { catalog, origin: Origin::Store(Box::new(store)), zones: zones.into(), ranges })
    }

    /// Registers PLOT3D files, with the boxes of an index where one is given.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for a zone without coordinates; [`FieldError::Format`] if the index is of other data.
    pub fn from_plot3d(files: Plot3d, index: Option<&Store>, pager: &Pager) -> Result<Self, FieldError> {
        let catalog = files.catalog.clone();
        let sources: Arc<[SourceId]> = files.files().paths().iter().map(|p| pager.add_file(p)).collect();
        let index_ids = index.map(|s| s.register(&mut Registrar(pager)));
        if index.is_some_and(|s| s.catalog.zones.len() != catalog.zones.len()) {
            return Err(FieldError::Usage("the cached index is of other data; run `farfield cache clear`".into()));
        }
        let mut zones = Vec::with_capacity(catalog.zones.len());
        for (n, z) in catalog.zones.iter().enumerate() {
            let mut ids = Vec::with_capacity(z.arrays.len());
            let mut steps = Vec::with_capacity(z.arrays.len());
            for (a, info) in z.arrays.iter().enumerate() {
                let layout = files.layout(n, a).ok_or_else(|| FieldError::Unknown {
                    what: "array",
                    name: info.name.clone(),
                    known: Vec::new(),
                })?;
                steps.push(layout.steps());
                ids.push(pager.add_array(Arc::new(InPlace::new(layout, sources.clone()))));
            }
            let boxes = index_ids.as_ref().map_or(&[][..], |i| &i[n].boxes[..]);
            zones.push(zone(&catalog, n, page_box(z.dims), slots(&catalog, n, &ids, |a| steps[a]), boxes)?);
        }
        // The index is made of geometry alone: it knows no ranges of fields.
        Ok(Self { catalog, origin: Origin::Plot3d(Box::new(files)), zones: zones.into(), ranges: Vec::new() })
    }

    /// Whole rows of the arrays, zone by zone in catalog order, for converters.
    ///
    /// # Errors
    /// [`FieldError`] if a store cannot be reopened for it.
    pub fn rows(&self) -> Result<Vec<Vec<Arc<dyn Rows>>>, FieldError> {
        let mut all = Vec::with_capacity(self.catalog.zones.len());
        for (n, z) in self.catalog.zones.iter().enumerate() {
            let mut zone: Vec<Arc<dyn Rows>> = Vec::with_capacity(z.arrays.len());
            for a in 0..z.arrays.len() {
                match &self.origin {
                    Origin::Plot3d(p) => {
                        let layout =
                            p.layout(n, a).ok_or_else(|| FieldError::Usage(format!("no array {a} in {}", z.name)))?;
                        zone.push(layout);
                    }
                    Origin::Store(s) => zone.push(Arc::new(crate::store::StoreRows::new(s, n, a, ROWS_KEPT)?)),
                }
            }
            all.push(zone);
        }
        Ok(all)
    }

    /// Refuses a time step that there is not.
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

    /// A field of a zone by name.
    ///
    /// # Errors
    /// [`FieldError::Unknown`].
    pub fn quantity(&self, zone: usize, name: &str) -> Result<Quantity, FieldError> {
        Quantity::named(&self.zones[zone], name).ok_or_else(|| FieldError::Unknown {
            what: "field",
            name: name.to_owned(),
            known: Quantity::names(&self.zones[zone]),
        })
    }

    /// What is traced and sampled, for each zone, at a step.
    ///
    /// # Errors
    /// [`FieldError::Unknown`], [`FieldError::Usage`].
    pub fn fields(
        &self,
        vector: Option<&str>,
        sampled: &[String],
        step: usize,
    ) -> Result<Arc<[ZoneFields]>, FieldError> {
        let each = self.zones.iter().zip(&self.catalog.zones).map(|(z, info)| {
            let header = info.headers.get(step).or(info.headers.last());
            let gamma = header.map(|h| h.gamma).filter(|g| g.is_finite()).unwrap_or(1.4);
            let mach = header.map(|h| h.mach).unwrap_or(f64::NAN);
            ZoneFields::named(z, vector, sampled, gamma, mach)
        });
        each.collect::<Result<Vec<_>, _>>().map(Into::into)
    }

    /// Units of a field.
    pub fn units(&self, name: &str) -> String {
        let stored = self.catalog.zones.iter().flat_map(|z| &z.arrays).find(|a| a.name == name);
        stored.map_or_else(|| "1".to_owned(), |a| a.units.clone())
    }

    /// A few words for a label.
    pub fn long_name(&self, name: &str) -> String {
        let stored = self.catalog.zones.iter().flat_map(|z| &z.arrays).find(|a| a.name == name);
        match (stored, DEFINITIONS.iter().find(|d| d.name == name)) {
            (Some(a), _) => a.long_name.clone(),
            (None, Some(d)) => d.long_name.to_owned(),
            _ => name.to_owned(),
        }
    }

    /// Whether every page carries a checksum.
    pub fn checked(&self) -> bool {
        matches!(self.origin, Origin::Store(_))
    }

    /// Bytes of the largest step of a tracer: every page that the cell of a particle can lie in, for each array that is
    /// read, with the pages of boxes and shard indexes on the way to them.
    pub fn step_bytes(&self, fields: &[ZoneFields], pager: &Pager) -> u64 {
        let frame = |id: ArrayId| {
            let bytes = pager.map(id).page_bytes(pager::id::PageId::new(id, 0, 0)) as u64;
            bytes.div_ceil(4096) * 4096
        };
        let of_zone = |(z, f): (&Zone, &ZoneFields)| {
            let corners: u64 = z.translation.pages.iter().map(|n| if *n > 1 { 2 } else { 1 }).product();
            let mut used = vec![z.xyz];
            used.extend(z.iblank);
            used.extend(f.arrays());
            used.sort_unstable();
            used.dedup();
            let pages: u64 = used.iter().map(|a| frame(z.arrays[*a].id) * corners + INDEX_BYTES).sum();
            let boxes: u64 = z.boxes.iter().map(|b| frame(b.id) * 2 + INDEX_BYTES / 8).sum();
            // The largest page is read encoded beside its frame.
            let encoded = used.iter().map(|a| frame(z.arrays[*a].id)).max().unwrap_or(0);
            pages + boxes + encoded
        };
        self.zones.iter().zip(fields).map(of_zone).max().unwrap_or(0)
    }
}

/// Shards that a converter keeps open of a store that it reads.
const ROWS_KEPT: usize = 4;
/// A shard index of the size that stores of a few shards have.
const INDEX_BYTES: u64 = 16 << 10;
