//! Files of a level that waits until all of the one before is written: its raw voxels in the order of a volume.

use super::plan::{LevelUnit, VolumePlan};
use super::rows::runs;
use crate::disk::{failed, Disk};
use field::error::FieldError;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Step, level, group: files of one step at a time.
type SpoolKey = (usize, usize, usize);

/// The files of a conversion.
pub(super) struct Spool<'a> {
    plan: &'a VolumePlan<'a>,
    folder: &'a Path,
    open: Mutex<HashMap<SpoolKey, Arc<File>>>,
}

impl<'a> Spool<'a> {
    /// Files in `folder`.
    pub fn new(plan: &'a VolumePlan<'a>, folder: &'a Path) -> Self {
        Self { plan, folder, open: Mutex::new(HashMap::new()) }
    }

    fn path(&self, (step, level, group): SpoolKey) -> PathBuf {
        self.folder.join(format!("level.{step}.{level}.{group}"))
    }

    /// Bytes of a level's file.
    fn bytes(&self, level: usize) -> u64 {
        self.plan.layout.levels[level].grid.paging.points() * self.plan.layout.voxel_bytes() as u64
    }

    /// Whether a level's files at a step exist, while they are needed.
    pub fn is_there(&self, step: usize, level: usize) -> bool {
        let whole = |group: usize| {
            std::fs::metadata(self.path((step, level, group))).is_ok_and(|m| m.len() == self.bytes(level))
        };
        (0..self.plan.layout.groups).all(whole)
    }

    /// Creates a level's files at a step: holes of their full length. Existing ones stay.
    pub fn make(&self, disk: &Disk, step: usize, level: usize) -> Result<(), FieldError> {
        for group in 0..self.plan.layout.groups {
            let path = self.path((step, level, group));
            if std::fs::metadata(&path).is_ok_and(|m| m.len() == self.bytes(level)) {
                continue;
            }
            let file = disk.create(&path)?;
            disk.set_len(&file, &path, self.bytes(level))?;
        }
        Ok(())
    }

    /// Removes a level's files at a step.
    pub fn remove(&self, disk: &Disk, step: usize, level: usize) -> Result<(), FieldError> {
        for group in 0..self.plan.layout.groups {
            let key = (step, level, group);
            self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            disk.remove(&self.path(key))?;
        }
        Ok(())
    }

    fn file(&self, key: SpoolKey) -> Result<(Arc<File>, PathBuf), FieldError> {
        let path = self.path(key);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(&key) {
            return Ok((file.clone(), path));
        }
        let file = File::options().read(true).write(true).open(&path).map_err(|e| failed(&path, e))?;
        let file = Arc::new(file);
        open.insert(key, file.clone());
        Ok((file, path))
    }

    /// Reads voxels of a unit's level.
    pub fn read(&self, unit: &LevelUnit, points: &[Range<usize>; 3], out: &mut [u8]) -> Result<(), FieldError> {
        let (file, path) = self.file((unit.step, unit.level, unit.group))?;
        let dims = self.plan.layout.levels[unit.level].shape.dims;
        for (at, part) in runs(dims, self.plan.layout.voxel_bytes(), points) {
            file.read_exact_at(&mut out[part], at).map_err(|e| failed(&path, e))?;
        }
        Ok(())
    }

    /// Writes voxels of the level after a unit's.
    pub fn write(
        &self,
        disk: &Disk,
        unit: &LevelUnit,
        points: &[Range<usize>; 3],
        bytes: &[u8],
    ) -> Result<(), FieldError> {
        let (file, path) = self.file((unit.step, unit.level + 1, unit.group))?;
        let dims = self.plan.layout.levels[unit.level + 1].shape.dims;
        for (at, part) in runs(dims, self.plan.layout.voxel_bytes(), points) {
            disk.write_at(&file, &path, &bytes[part], at)?;
        }
        Ok(())
    }

    /// Syncs the part of the next level that a unit made.
    pub fn sync(&self, disk: &Disk, unit: &LevelUnit) -> Result<(), FieldError> {
        let (file, path) = self.file((unit.step, unit.level + 1, unit.group))?;
        disk.sync(&file, &path)
    }
}
