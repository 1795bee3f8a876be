//! The store to which steps are added.

use crate::disk::Disk;
use field::error::FieldError;
use field::series::Sources;
use field::store::layout::{all_arrays, ArrayLayout, ZoneLayout};
use field::store::metadata::ArraySeal;
use field::store::Store;
use field::uniform::Uniform;
use std::path::Path;

/// The store to which steps are added.
pub(super) struct Base {
    /// Its present state.
    pub store: Store,
    /// Its steps.
    pub steps: usize,
    /// The sources that the new store will name.
    pub sources: Sources,
    /// Whether the files of its steps were given again: then the new store equals that of a single conversion.
    pub whole: bool,
}

impl Base {
    /// Existing steps of an array.
    pub fn steps_of(&self, layout: &ArrayLayout) -> usize {
        layout.steps.min(self.steps)
    }

    /// The seals of existing shards, in the order of shards; those of new ones follow.
    pub fn seals(&self) -> &[ArraySeal] {
        &self.store.root.seals
    }

    /// The uniform grids of zones without motion.
    pub fn uniform(&self, zones: &[ZoneLayout]) -> Vec<Option<Uniform>> {
        let steady = |z: &ZoneLayout| z.xyz.is_some_and(|xyz| z.arrays[xyz].steps == 1);
        self.store.root.uniform.iter().zip(zones).map(|(u, z)| u.filter(|_| steady(z))).collect()
    }

    /// Refuses a layout in which the existing shards would not be found.
    pub fn check(&self, zones: &[ZoneLayout]) -> Result<(), FieldError> {
        let alike = |(a, b): (&ArrayLayout, &ArrayLayout)| {
            (&a.path, &a.lead, a.dtype, a.grid, a.codec) == (&b.path, &b.lead, b.dtype, b.grid, b.codec)
                && (b.steps == 1 || b.steps > self.steps)
        };
        let (old, new) = (all_arrays(&self.store.zones, true), all_arrays(zones, true));
        if old.count() == new.count() && all_arrays(&self.store.zones, true).zip(all_arrays(zones, true)).all(alike) {
            return Ok(());
        }
        Err(FieldError::format(&self.store.path, "is not laid out as this version of Farfield does it; convert again"))
    }

    /// Links the existing shards into the new store. No file is written through such a link: [`Disk::create`] creates a
    /// new file if there are two names.
    pub fn link(&self, disk: &Disk, to: &Path, go_on: &mut dyn FnMut() -> bool) -> Result<(), FieldError> {
        for layout in all_arrays(&self.store.zones, true) {
            if !go_on() {
                return Err(FieldError::Interrupted);
            }
            for step in 0..layout.steps {
                for shard in 0..layout.grid.count() {
                    let name = layout.shard_path(step, shard);
                    disk.link(&self.store.path.join(&name), &to.join(&name))?;
                }
            }
        }
        Ok(())
    }
}
