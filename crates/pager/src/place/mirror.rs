//! A local folder that answers as a remote place, for tests: late, in any order, and with faults.

use super::local;
use super::seam::{Entry, FileKind, FileRef, FileStat, Looked, Place};
use crate::error::PageErrorKind;
use crate::source::helpers::Helpers;
use crate::source::{Completion, Read, ReadForm};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Reads that it answers at the same time.
const DEPTH: usize = 8;

/// Decides the fault of a call, from its path. `None`: it succeeds.
pub type Fault = Arc<dyn Fn(&Path) -> Option<PageErrorKind> + Send + Sync>;

/// The behaviour of a [`Mirror`].
#[derive(Clone, Default)]
pub struct MirrorOptions {
    /// Time before each answer.
    pub latency: Duration,
    /// Whether it says that it never has room for a read.
    pub no_room: bool,
    /// Whether it refuses to list folders.
    pub no_listing: bool,
    /// Faults of reads and checks.
    pub fault: Option<Fault>,
}

/// See the module. `scheme://host/a/b` is `a/b` in the folder.
pub struct Mirror {
    root: PathBuf,
    options: Mutex<MirrorOptions>,
    helpers: Helpers,
    in_flight: Arc<AtomicUsize>,
    calls: [AtomicUsize; 3],
}

impl Mirror {
    /// Registers a folder under a scheme.
    pub fn register(scheme: &str, root: &Path) -> Arc<Self> {
        let mirror = Arc::new(Self {
            root: root.to_owned(),
            options: Mutex::default(),
            helpers: Helpers::new(DEPTH),
            in_flight: Arc::default(),
            calls: Default::default(),
        });
        let found = mirror.clone();
        super::register(scheme, Arc::new(move |_| Ok(found.clone())));
        mirror
    }

    /// Sets its behaviour.
    pub fn set(&self, options: MirrorOptions) {
        *self.options.lock().unwrap_or_else(PoisonError::into_inner) = options;
    }

    /// Calls so far: reads, checks of names, lists.
    pub fn calls(&self) -> [usize; 3] {
        [0, 1, 2].map(|n| self.calls[n].load(SeqCst))
    }

    fn options(&self) -> MirrorOptions {
        self.options.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn local(&self, path: &Path) -> PathBuf {
        let name = path.to_str().unwrap_or_default();
        let name = name.split_once("://").map_or(name, |(_, rest)| rest);
        let name = name.split_once('/').map_or("", |(_, rest)| rest);
        self.root.join(name.trim_matches('/'))
    }
}

/// Answers one read.
fn answer(path: &Path, file: &FileRef, read: &Read) -> Result<(), PageErrorKind> {
    let stat = local::stat(path)?;
    file.pin.check(&stat.version)?;
    let open = File::open(path).map_err(|e| PageErrorKind::from(&e))?;
    let (begin, end) = (read.offset, read.offset.saturating_add(read.len() as u64));
    let mut at = begin - file.base;
    for buffer in &read.buffers {
        let have = stat.version.size.saturating_sub(at).min(buffer.len as u64) as usize;
        if !buffer.is_hole() && have > 0 {
            // SAFETY: the buffer belongs to this read until it is completed.
            let part = unsafe { std::slice::from_raw_parts_mut(buffer.ptr, have) };
            open.read_exact_at(part, at).map_err(|e| PageErrorKind::from(&e))?;
        }
        if have < buffer.len {
            return Err(PageErrorKind::Short { offset: begin, end, have: file.base + stat.version.size });
        }
        at += buffer.len as u64;
    }
    Ok(())
}

impl Place for Mirror {
    fn describe(&self) -> String {
        format!("a mirror of {}", self.root.display())
    }

    fn form(&self) -> ReadForm {
        ReadForm { hole: 0, ..ReadForm::default() }
    }

    fn room(&self) -> usize {
        let most = if self.options().no_room { 0 } else { DEPTH };
        most.saturating_sub(self.in_flight.load(SeqCst))
    }

    fn submit(&self, file: &FileRef, reads: Vec<Read>, done: &Arc<dyn Completion>) {
        self.calls[0].fetch_add(reads.len(), SeqCst);
        self.in_flight.fetch_add(reads.len(), SeqCst);
        let MirrorOptions { latency, fault, .. } = self.options();
        let jobs = reads.into_iter().map(|read| -> Box<dyn FnOnce() + Send> {
            let (path, file, done) = (self.local(&file.path), file.clone(), done.clone());
            let (fault, in_flight) = (fault.clone(), self.in_flight.clone());
            Box::new(move || {
                std::thread::sleep(latency);
                let result = match fault.and_then(|fault| fault(&file.path)) {
                    Some(kind) => Err(kind),
                    None => answer(&path, &file, &read),
                };
                in_flight.fetch_sub(1, SeqCst);
                done.complete(read.token, result);
            })
        });
        self.helpers.run(jobs.collect());
    }

    fn look(&self, paths: Vec<PathBuf>, then: Looked) {
        self.calls[1].fetch_add(paths.len(), SeqCst);
        let MirrorOptions { latency, fault, .. } = self.options();
        let names: Vec<(PathBuf, PathBuf)> = paths.into_iter().map(|path| (self.local(&path), path)).collect();
        self.helpers.run(vec![Box::new(move || {
            std::thread::sleep(latency);
            let found = names.iter().map(|(local, path)| -> Result<FileStat, PageErrorKind> {
                match fault.as_ref().and_then(|fault| fault(path)) {
                    Some(kind) => Err(kind),
                    None => local::stat(local),
                }
            });
            then(found.collect());
        })]);
    }

    fn list(&self, folder: &Path, most: usize) -> Result<Vec<Entry>, PageErrorKind> {
        self.calls[2].fetch_add(1, SeqCst);
        if self.options().no_listing {
            return Err(PageErrorKind::Unsupported(format!("{} lists no folders", self.describe())));
        }
        let found = local::list(&self.local(folder), most)?;
        debug_assert!(found.iter().all(|e| e.kind != FileKind::Folder || e.size == 0));
        Ok(found)
    }
}
