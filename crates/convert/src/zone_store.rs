//! The store of zones: its sources, its documents and its root.

use super::base::Base;
use super::commit::{check_target, DocumentSeal, Resumption, StorePlan, TargetState};
use super::plan::ConversionPlan;
use field::error::FieldError;
use field::file::{identities, Digest, FileIdentity};
use field::series::Sources;
use field::store::codec::{Codec, CRC_BYTES};
use field::store::layout::{all_arrays, documents, ArrayLayout};
use field::store::metadata::{catalog_value, ArraySeal, Root};
use field::store::Store;
use field::uniform::Uniform;
use serde_json::{json, Value};
use std::path::Path;

/// The seals and grids of a store after its last unit.
#[derive(Default)]
pub(super) struct SealedZones {
    /// The seal of each array.
    pub seals: Vec<ArraySeal>,
    /// The uniform grid of each zone that has one.
    pub uniform: Vec<Option<Uniform>>,
}

/// The sources of a store.
pub(super) struct StoreSource {
    /// All files with pages.
    files: Vec<FileIdentity>,
    /// The files of each step, as the user named them.
    series: Sources,
}

impl StoreSource {
    fn of(plan: &ConversionPlan<'_>) -> Result<Self, FieldError> {
        Ok(Self { files: identities(&plan.input.files)?, series: plan.input.series.identify()? })
    }

    /// The digest of all of it. If the files of the first steps were not given again, it is over the digest of their
    /// store.
    fn digest(&self, plan: &ConversionPlan<'_>) -> String {
        let mut own = Digest::of(&self.files);
        if !plan.input.made.is_empty() {
            own = own.text(&plan.input.made);
        }
        match plan.base {
            Some(base) if !base.whole => {
                let before = base.store.root.source.as_deref().unwrap_or_default();
                Digest::default().text(before).text(&own.to_string()).to_string()
            }
            _ => own.to_string(),
        }
    }

    /// The root's sources of each step.
    fn sources(&self, plan: &ConversionPlan<'_>) -> Option<Sources> {
        let own = || (plan.data && !plan.input.series.steps.is_empty()).then(|| self.series.clone());
        plan.base.map_or_else(own, |base| Some(base.sources.clone()))
    }
}

/// The part of the plan that determines the store's bytes, and (by the digest of `source`) its files.
fn plan_document(plan: &ConversionPlan<'_>, dst: &Path, source: &StoreSource) -> Result<String, FieldError> {
    let root = root_of(plan, source, Vec::new(), SealedZones::default());
    let root = String::from_utf8(root.document()).map_err(|_| FieldError::format(dst, "the catalog is not text"))?;
    // Units are numbered from the first missing step: work on top of another store is useless.
    let base = plan.base.map(|b| json!([b.steps, b.store.root.source]));
    let value: Value = json!({"version": 2, "root": root, "base": base});
    Ok(value.to_string())
}

/// The root, without the source of each step.
fn root_of(plan: &ConversionPlan<'_>, source: &StoreSource, documents: Vec<DocumentSeal>, sealed: SealedZones) -> Root {
    Root {
        data: plan.data,
        page: plan.options.page,
        layout: plan.options.layout,
        codec: plan.options.codec,
        catalog: plan.input.catalog.clone(),
        source: Some(source.digest(plan)),
        time_axis: plan.data,
        sources: None,
        pages: plan.page_boxes(),
        steps: plan.zones.iter().map(|z| z.arrays.iter().map(|a| a.steps).collect()).collect(),
        uniform: sealed.uniform,
        documents,
        seals: sealed.seals,
    }
}

/// Verifies that the store to be extended has not changed since it was examined.
fn still_there(base: &Base, dst: &Path) -> Result<(), FieldError> {
    // As documents: NaN in a header equals itself there.
    if Store::open(dst).is_ok_and(|now| now.root.document() == base.store.root.document()) {
        return Ok(());
    }
    Err(FieldError::format(dst, "was changed by another conversion meanwhile; run this again"))
}

/// Bytes of the data, if known beforehand.
fn needs(plan: &ConversionPlan<'_>) -> Option<u64> {
    if plan.options.codec != Codec::None || !plan.data {
        return None;
    }
    let new = |a: &ArrayLayout| (a.steps - plan.first_step(a)) as u64 * a.grid.paging.count();
    Some(plan.zones.iter().flat_map(|z| &z.arrays).map(|a| new(a) * (a.page_bytes() + CRC_BYTES) as u64).sum())
}

impl StorePlan for ConversionPlan<'_> {
    type Source = StoreSource;
    type Sealed = SealedZones;

    fn source(&self, _go_on: &mut dyn FnMut() -> bool) -> Result<StoreSource, FieldError> {
        StoreSource::of(self)
    }

    fn check_unchanged(&self, before: &StoreSource, now: &StoreSource) -> Result<(), FieldError> {
        let again = if self.data { "converted; convert it again" } else { "looked through; run this again" };
        if let Some(n) = (0..now.files.len()).find(|n| now.files.get(*n) != before.files.get(*n)) {
            return Err(FieldError::format(&self.input.files[n], format!("changed while it was {again}")));
        }
        if now.series != before.series {
            let first = self.input.series.name_of(0);
            return Err(FieldError::format(first, format!("or a file beside it changed while it was {again}")));
        }
        Ok(())
    }

    /// The user does not see indexes: if two runs need the same one, the second waits for the first.
    fn waits(&self) -> bool {
        !self.data
    }

    fn bytes_made(&self, dst: &Path, source: &StoreSource) -> Option<u64> {
        let store = self.options.resume.then(|| Store::open(dst).ok()).flatten()?;
        let want = root_of(self, source, Vec::new(), SealedZones::default());
        let r = &store.root;
        let same = (r.data, r.layout, r.codec) == (want.data, want.layout, want.codec)
            && (!r.data || r.page == want.page)
            && (&r.pages, &r.steps, &r.source) == (&want.pages, &want.steps, &want.source)
            // As text: NaN in a header equals itself there.
            && catalog_value(&r.catalog) == catalog_value(&want.catalog);
        same.then(|| store.bytes())
    }

    fn target(&self, dst: &Path) -> Result<TargetState, FieldError> {
        match self.base {
            Some(base) => still_there(base, dst).map(|()| TargetState::Store),
            None => check_target(dst, self.options.overwrite, self.options.resume),
        }
    }

    fn resumption(&self, dst: &Path, source: &StoreSource) -> Result<Resumption, FieldError> {
        Ok(Resumption {
            document: plan_document(self, dst, source)?,
            needs: needs(self),
            resume: self.options.resume,
            // An index is a cache: one that does not fit is made again without a question.
            anew: !self.data || self.options.append,
        })
    }

    fn documents(&self) -> Box<dyn Iterator<Item = (String, Vec<u8>)> + '_> {
        Box::new(documents(&self.zones, self.data))
    }

    fn folders(&self) -> Vec<String> {
        all_arrays(&self.zones, self.data).map(|layout| layout.path.clone()).collect()
    }

    fn range_shards(&self) -> Vec<String> {
        let mut names = Vec::new();
        for layout in self.zones.iter().flat_map(|z| z.ranges.iter().flatten().chain(&z.boxes)) {
            for step in self.first_step(layout)..layout.steps {
                names.extend((0..layout.grid.count()).map(|n| layout.shard_path(step, n)));
            }
        }
        names
    }

    fn root(&self, source: &StoreSource, documents: Vec<DocumentSeal>, sealed: SealedZones) -> Vec<u8> {
        Root { sources: source.sources(self), ..root_of(self, source, documents, sealed) }.document()
    }
}
