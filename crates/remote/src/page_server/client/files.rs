//! The numbers of files on one connection. The client chooses them, so a read follows its OPEN without a wait.

use super::super::wire::RemoteStat;
use pager::place::FileVersion;
use pager::PageErrorKind;
use std::collections::HashMap;
use std::sync::Arc;

/// The version in which a connection has opened a file.
pub(super) struct OpenedFile {
    pub(super) version: FileVersion,
    pub(super) digest: u64,
}

impl OpenedFile {
    pub(super) fn new(stat: &RemoteStat) -> Self {
        Self { version: version_of(stat), digest: stat.digest() }
    }
}

/// A version in the words of places.
pub(super) fn version_of(stat: &RemoteStat) -> FileVersion {
    let tag: String = stat.version.iter().map(|b| format!("{b:02x}")).collect();
    FileVersion { size: stat.size, tag: tag.into() }
}

/// The answer to OPEN, once it came.
pub(super) type Opened = Option<Result<Arc<OpenedFile>, PageErrorKind>>;

struct Numbered {
    name: Box<str>,
    opened: Opened,
    /// Reads under way.
    reads: u32,
}

/// See the module.
pub(super) struct LinkFiles {
    numbers: HashMap<Box<str>, u32>,
    files: Vec<Numbered>,
    most: usize,
    hand: usize,
}

impl LinkFiles {
    pub(super) fn new(most: u32) -> Self {
        Self { numbers: HashMap::new(), files: Vec::new(), most: most.max(1) as usize, hand: 0 }
    }

    /// The number for a read of a file, and whether OPEN must go first. `None`: all numbers have reads under way.
    pub(super) fn take(&mut self, name: &str) -> Option<(u32, bool)> {
        if let Some(number) = self.numbers.get(name).copied() {
            self.files[number as usize].reads += 1;
            return Some((number, false));
        }
        let fresh = Numbered { name: name.into(), opened: None, reads: 1 };
        let number = if self.files.len() < self.most {
            self.files.push(fresh);
            self.files.len() - 1
        } else {
            let free = (0..self.most).map(|n| (self.hand + n) % self.most).find(|n| self.files[*n].reads == 0)?;
            self.hand = free + 1;
            self.forget(free as u32);
            self.files[free] = fresh;
            free
        };
        self.numbers.insert(name.into(), number as u32);
        Some((number as u32, true))
    }

    /// OPEN was answered.
    pub(super) fn opened(&mut self, number: u32, result: Result<OpenedFile, PageErrorKind>) {
        if result.is_err() {
            self.forget(number);
        }
        if let Some(file) = self.files.get_mut(number as usize) {
            file.opened = Some(result.map(Arc::new));
        }
    }

    /// A read ended.
    pub(super) fn done(&mut self, number: u32) -> Opened {
        let file = self.files.get_mut(number as usize)?;
        file.reads = file.reads.saturating_sub(1);
        file.opened.clone()
    }

    /// The next read of its name opens it again.
    pub(super) fn forget(&mut self, number: u32) {
        let Some(file) = self.files.get(number as usize) else { return };
        if self.numbers.get(&file.name) == Some(&number) {
            self.numbers.remove(&file.name);
        }
    }
}
