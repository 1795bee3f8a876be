//! Versions of files. The first reply about a file pins its version, and every later reply must have it.

use crate::error::PageErrorKind;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The version of a file, as its place says it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileVersion {
    /// Size in bytes.
    pub size: u64,
    /// An ETag, a generation, or the time of the last change.
    pub tag: Arc<str>,
}

impl std::fmt::Display for FileVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.tag {
            "" => write!(f, "{} bytes", self.size),
            tag => write!(f, "{tag} of {} bytes", self.size),
        }
    }
}

impl FileVersion {
    /// The digest that stands for it where many versions are kept.
    pub fn digest(&self) -> u64 {
        BuildHasherDefault::<DefaultHasher>::default().hash_one(self)
    }
}

/// The version that reads of one file must have.
pub trait VersionPin: Send + Sync {
    /// The pinned version, if it is known whole: for conditional requests.
    fn expected(&self) -> Option<FileVersion>;
    /// The [`FileVersion::digest`] of the pinned version, if one is pinned: for caches.
    fn digest(&self) -> Option<u64> {
        self.expected().map(|version| version.digest())
    }
    /// The size of the pinned version, if one is pinned.
    fn size(&self) -> Option<u64> {
        self.expected().map(|version| version.size)
    }
    /// Checks the version of a reply, and pins it if none is pinned.
    ///
    /// # Errors
    /// [`PageErrorKind::Changed`] names both versions.
    fn check(&self, seen: &FileVersion) -> Result<(), PageErrorKind>;
    /// The error of a file that is missing. One that was there has changed.
    fn missing(&self) -> PageErrorKind {
        let was = match (self.expected(), self.size()) {
            (Some(was), _) => was.to_string(),
            (None, Some(size)) => format!("a file of {size} bytes"),
            (None, None) => return PageErrorKind::Missing,
        };
        PageErrorKind::Changed { was, is: "deleted".to_owned() }
    }
}

/// The pin of one file.
#[derive(Debug, Default)]
pub struct FilePin(OnceLock<FileVersion>);

impl FilePin {
    /// A file of a known version.
    pub fn known(version: FileVersion) -> Self {
        Self(OnceLock::from(version))
    }
}

impl VersionPin for FilePin {
    fn expected(&self) -> Option<FileVersion> {
        self.0.get().cloned()
    }

    fn check(&self, seen: &FileVersion) -> Result<(), PageErrorKind> {
        let pinned = self.0.get_or_init(|| seen.clone());
        if pinned == seen {
            return Ok(());
        }
        Err(PageErrorKind::Changed { was: pinned.to_string(), is: seen.to_string() })
    }
}

/// A pin that keeps the version of the replies.
pub struct SeenPin {
    inner: Arc<dyn VersionPin>,
    seen: OnceLock<FileVersion>,
}

impl SeenPin {
    /// Over another pin, which checks.
    pub fn new(inner: Arc<dyn VersionPin>) -> Self {
        Self { inner, seen: OnceLock::new() }
    }

    /// The version of the first reply.
    pub fn seen(&self) -> Option<&FileVersion> {
        self.seen.get()
    }

    /// A reply had this version, which was checked elsewhere.
    pub fn note(&self, version: &FileVersion) {
        self.seen.get_or_init(|| version.clone());
    }
}

impl VersionPin for SeenPin {
    fn expected(&self) -> Option<FileVersion> {
        self.inner.expected()
    }

    fn digest(&self) -> Option<u64> {
        self.inner.digest()
    }

    fn size(&self) -> Option<u64> {
        self.inner.size()
    }

    fn check(&self, seen: &FileVersion) -> Result<(), PageErrorKind> {
        self.inner.check(seen)?;
        self.note(seen);
        Ok(())
    }
}

/// The pins of many files, by number: a digest and a size of 8 bytes each. A conditional request needs the whole
/// version, so replies are compared here.
#[derive(Default)]
pub struct PinTable {
    digests: Mutex<HashMap<u64, (u64, u64), BuildHasherDefault<DefaultHasher>>>,
    /// Bytes on the heap.
    bytes: AtomicU64,
}

impl PinTable {
    /// The pin of one of its files.
    pub fn file(self: &Arc<Self>, number: u64) -> Arc<dyn VersionPin> {
        Arc::new(NumberedPin { table: self.clone(), number })
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

struct NumberedPin {
    table: Arc<PinTable>,
    number: u64,
}

impl VersionPin for NumberedPin {
    fn expected(&self) -> Option<FileVersion> {
        None
    }

    fn digest(&self) -> Option<u64> {
        let digests = self.table.digests.lock().unwrap_or_else(PoisonError::into_inner);
        digests.get(&self.number).map(|(digest, _)| *digest)
    }

    fn size(&self) -> Option<u64> {
        let digests = self.table.digests.lock().unwrap_or_else(PoisonError::into_inner);
        digests.get(&self.number).map(|(_, size)| *size)
    }

    fn check(&self, seen: &FileVersion) -> Result<(), PageErrorKind> {
        let digest = seen.digest();
        let mut digests = self.table.digests.lock().unwrap_or_else(PoisonError::into_inner);
        let (pinned, size) = *digests.entry(self.number).or_insert((digest, seen.size));
        self.table.bytes.store(digests.capacity() as u64 * 32, Relaxed);
        if pinned == digest {
            return Ok(());
        }
        let was = format!("another version of {size} bytes when it was first seen");
        Err(PageErrorKind::Changed { was, is: seen.to_string() })
    }
}
