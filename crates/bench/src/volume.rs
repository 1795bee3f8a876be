//! A volume for an arm, with a pager of its own.

use super::link::Link;
use field::error::FieldError;
use field::volume::{Volume, VolumeSpec};
use pager::source::Source;
use pager::{Counters, Pager};
use runtime::process;
use runtime::session::Resources;
use serde_json::{json, Value};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Options of an arm's volume.
pub struct VolumeArm {
    /// The reader's specification.
    pub spec: VolumeSpec,
    /// Memory, threads, readers.
    pub resources: Resources,
    /// Bytes a second of the line to the files, if there is one.
    pub link_bytes_per_s: Option<f64>,
}

pub(super) struct OpenVolume {
    pub volume: Volume,
    pub pager: Arc<Pager>,
    pub threads: usize,
    base_bytes: u64,
    _link: Option<Link>,
}

impl VolumeArm {
    /// Opens the volume without reading it.
    pub(super) fn open(&self, resources: &Resources) -> Result<OpenVolume, FieldError> {
        let base_bytes = process::base_bytes();
        let pager = resources.pager()?;
        let link = self.link_bytes_per_s.map(Link::new).transpose();
        let link = link.map_err(|e| FieldError::io(Path::new(&self.spec.path), e))?;
        let through = |source: Arc<dyn Source>| link.as_ref().map_or(source.clone(), |link| link.source(source));
        let volume = Volume::open_through(self.spec.clone(), Vec::new(), &pager, &through)?;
        pager.set_direct(process::is_past_cache(volume.bytes_to_read()));
        Ok(OpenVolume { volume, pager, threads: resources.threads(), base_bytes, _link: link })
    }
}

impl OpenVolume {
    /// Rows of an arm, and its process's figures at the end.
    pub fn report(&self, rows: Vec<Value>) -> Value {
        json!({
            "rounds": rows, "base_bytes": self.base_bytes, "peak_bytes": self.pager.counters().peak_bytes,
            "resident_peak_bytes": process::peak_resident_bytes(), "threads": self.threads,
            "transport": self.pager.reader_name(), "pages": self.volume.page_count(), "bytes": self.volume.bytes(),
        })
    }
}

/// A clock, with the pager's counters.
pub(super) struct Clock {
    began: Instant,
    cpu: f64,
    before: Counters,
}

impl Clock {
    pub fn new(pager: &Pager) -> Self {
        let before = pager.counters();
        Self { cpu: process::cpu_seconds(), before, began: Instant::now() }
    }

    /// Time and counts since it was made.
    pub fn read(&self, pager: &Pager) -> Value {
        let (wall, cpu, after) = (self.began.elapsed(), process::cpu_seconds() - self.cpu, pager.counters());
        let before = &self.before;
        json!({
            "wall_s": wall.as_secs_f64(), "cpu_s": cpu, "faults": after.faults - before.faults,
            "evictions": after.evictions - before.evictions, "bytes_read": after.bytes_read - before.bytes_read,
            "reads": after.reads - before.reads,
        })
    }
}
