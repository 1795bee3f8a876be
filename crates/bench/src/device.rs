//! A device of known latency over local files: a source of the pager, and blocking reads.

use super::later::{Act, Clockwork, Later};
use field::dataset::Dataset;
use field::error::FieldError;
use field::store::{Register, Store};
use pager::id::{ArrayId, SourceId};
use pager::map::PageMap;
use pager::source::{Buffer, Completion, Read, Source};
use pager::{PageErrorKind, Pager};
use runtime::session::{ProgressWatch, Resources, Session, SourceSpec};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// State shared by reads on the device.
struct Shared {
    latency: Duration,
    later: Later,
    reads: AtomicU64,
    /// Total delay of reads by the late wake-up of their thread.
    late_us: AtomicU64,
}

/// Completes each read at a fixed time after its submission, whatever their number. The pager bounds the reads in
/// flight.
pub(super) struct Device {
    shared: Arc<Shared>,
    _clockwork: Clockwork,
}

impl Device {
    pub fn new(latency: Duration) -> std::io::Result<Self> {
        let clockwork = Clockwork::new("farfield-device")?;
        let (reads, late_us) = (AtomicU64::new(0), AtomicU64::new(0));
        let shared = Arc::new(Shared { latency, later: clockwork.later(), reads, late_us });
        Ok(Self { shared, _clockwork: clockwork })
    }

    /// A file on the device.
    pub fn file(&self, path: &Path) -> Arc<dyn Source> {
        Arc::new(OnDevice { shared: self.shared.clone(), file: Lazy::new(path) })
    }

    /// Reads so far.
    pub fn reads(&self) -> u64 {
        self.shared.reads.load(Relaxed)
    }

    /// Mean seconds of a read, without its copy.
    pub fn latency_s(&self) -> f64 {
        let late = self.shared.late_us.load(Relaxed) as f64 * 1e-6 / self.reads().max(1) as f64;
        self.shared.latency.as_secs_f64() + late
    }
}

/// Replaces a store's files by files on the device.
struct Registered<'a>(&'a Pager, &'a Device);

impl Register for Registered<'_> {
    fn add_file(&mut self, path: &Path) -> SourceId {
        self.0.add_source(self.1.file(path))
    }
    fn add_array(&mut self, map: Arc<dyn PageMap>) -> ArrayId {
        self.0.add_array(map)
    }
}

/// Opens a dataset on the disk, or a store on a device with this latency of each read.
///
/// # Errors
/// [`FieldError`] of opening.
pub(super) fn open_on(
    latency: Option<Duration>,
    source: SourceSpec,
    resources: Resources,
    watch: &mut ProgressWatch<'_>,
) -> Result<(Session, Option<Device>), FieldError> {
    let device = latency.map(Device::new).transpose().map_err(|e| FieldError::io(&source.path, e))?;
    let session = match &device {
        None => Session::open(source, resources, watch)?,
        Some(device) => Session::open_as(source, resources, |source, pager| {
            Dataset::from_store_by(Store::open(&source.path)?, pager, &mut Registered(pager, device))
        })?,
    };
    Ok((session, device))
}

fn fill(file: &File, offset: u64, buffers: &[Buffer]) -> Result<(), PageErrorKind> {
    let mut at = offset;
    for b in buffers {
        if b.is_hole() {
            at += b.len as u64;
            continue;
        }
        // SAFETY: the buffers are this read's until it is completed.
        let mut bytes = unsafe { std::slice::from_raw_parts_mut(b.ptr, b.len) };
        while !bytes.is_empty() {
            let n = file.read_at(bytes, at).map_err(|e| PageErrorKind::from(&e))?;
            at += n as u64;
            if n == 0 {
                let end = offset + buffers.iter().map(|b| b.len as u64).sum::<u64>();
                return Err(PageErrorKind::Short { offset, end, have: at });
            }
            bytes = &mut bytes[n..];
        }
    }
    Ok(())
}

/// A file that is opened at its first use.
struct Lazy {
    path: PathBuf,
    file: Mutex<Option<Arc<File>>>,
}

impl Lazy {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), file: Mutex::new(None) }
    }

    fn open(&self) -> Result<Arc<File>, PageErrorKind> {
        let mut held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(f) = &*held {
            return Ok(f.clone());
        }
        let file = Arc::new(File::open(&self.path).map_err(|e| PageErrorKind::Io(e.to_string()))?);
        *held = Some(file.clone());
        Ok(file)
    }

    fn size(&self) -> Result<u64, PageErrorKind> {
        self.open()?.metadata().map(|m| m.len()).map_err(|e| PageErrorKind::Io(e.to_string()))
    }
}

struct OnDevice {
    shared: Arc<Shared>,
    file: Lazy,
}

impl Source for OnDevice {
    fn describe(&self) -> String {
        self.file.path.display().to_string()
    }
    fn size(&self) -> Result<u64, PageErrorKind> {
        self.file.size()
    }
    fn submit(&self, batch: Vec<Read>, done: &Arc<dyn Completion>) {
        let file = match self.file.open() {
            Ok(f) => f,
            Err(e) => return batch.iter().for_each(|r| done.complete(r.token, Err(e.clone()))),
        };
        self.shared.reads.fetch_add(batch.len() as u64, Relaxed);
        self.shared.later.put(|| {
            let due = Instant::now() + self.shared.latency;
            batch.into_iter().map(move |read| {
                let (file, done, shared) = (file.clone(), done.clone(), self.shared.clone());
                let act = move || {
                    let late_us = Instant::now().saturating_duration_since(due).as_micros() as u64;
                    shared.late_us.fetch_add(late_us, Relaxed);
                    let result = fill(&file, read.offset, &read.buffers);
                    done.complete(read.token, result);
                };
                (due, Box::new(act) as Act)
            })
        });
    }
}

/// A file whose reads complete before `submit` returns.
pub(super) struct Blocking(Lazy);

impl Blocking {
    pub fn new(path: &Path) -> Self {
        Self(Lazy::new(path))
    }
}

impl Source for Blocking {
    fn describe(&self) -> String {
        self.0.path.display().to_string()
    }
    fn size(&self) -> Result<u64, PageErrorKind> {
        self.0.size()
    }
    fn submit(&self, batch: Vec<Read>, done: &Arc<dyn Completion>) {
        for read in batch {
            done.complete(read.token, self.0.open().and_then(|file| fill(&file, read.offset, &read.buffers)));
        }
    }
}
