//! Files, local and of places: opened without waiting, and identified across replacement and rewriting.

use crate::error::FieldError;
use pager::place::{self, FileKind, FileReader, FileStat};
use pager::PageErrorKind;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A regular file, with its metadata at the time of opening.
#[derive(Debug)]
pub struct FileBytes(OpenFile);

#[derive(Debug)]
enum OpenFile {
    Local { file: File, about: Metadata },
    Remote(FileReader),
}

impl FileBytes {
    /// Opens `path` for reading.
    ///
    /// # Errors
    /// The system's error. Folders, pipes and devices are refused: they have no bytes at an offset.
    pub fn open(path: &Path) -> io::Result<Self> {
        if place::is_remote(path) {
            return FileReader::open(path).map(|file| Self(OpenFile::Remote(file))).map_err(PageErrorKind::into_io);
        }
        // Otherwise opening a pipe waits for a writer.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        let about = file.metadata()?;
        if about.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !about.is_file() {
            return Err(io::Error::other("this is no regular file; copy what it gives into one first"));
        }
        Ok(Self(OpenFile::Local { file, about }))
    }

    /// Size in bytes when it was opened.
    pub fn size(&self) -> u64 {
        match &self.0 {
            OpenFile::Local { about, .. } => about.len(),
            OpenFile::Remote(file) => file.size(),
        }
    }

    /// Size in bytes now.
    ///
    /// # Errors
    /// The system's error.
    pub fn size_now(&self) -> io::Result<u64> {
        match &self.0 {
            OpenFile::Local { file, .. } => file.metadata().map(|about| about.len()),
            // Every reply of another size is an error.
            OpenFile::Remote(file) => Ok(file.size()),
        }
    }

    /// Fills `buf` from byte `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` past the end, else the system's error.
    pub fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match &self.0 {
            OpenFile::Local { file, .. } => file.read_exact_at(buf, offset),
            OpenFile::Remote(file) => file.read_exact_at(offset, buf).map_err(PageErrorKind::into_io),
        }
    }

    /// The file's identity when it was opened as `path`.
    ///
    /// # Errors
    /// The system's error.
    pub fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        match &self.0 {
            OpenFile::Local { about, .. } => FileIdentity::new(path, about),
            OpenFile::Remote(_) => identity(path),
        }
    }
}

/// The state of a name.
///
/// # Errors
/// The system's error, or that of the name's place.
pub fn stat(path: &Path) -> io::Result<FileStat> {
    stats(&[path.to_owned()]).remove(0)
}

/// The states of names, remote ones all at the same time.
///
/// # Errors
/// As [`stat`], for each name.
pub fn stats(paths: &[PathBuf]) -> Vec<io::Result<FileStat>> {
    let remote = place::stat(paths);
    let local = |path: &PathBuf| (!place::is_remote(path)).then(|| std::fs::metadata(path).err()).flatten();
    // The system's own words for a local name.
    paths
        .iter()
        .zip(remote)
        .map(|(path, stat)| stat.map_err(|kind| local(path).unwrap_or_else(|| kind.into_io())))
        .collect()
}

/// Size of a regular file in bytes.
///
/// # Errors
/// [`FieldError::Io`] if it is missing or inaccessible, [`FieldError::Format`] if it is something else.
pub fn size_of(path: &Path) -> Result<u64, FieldError> {
    match stat(path) {
        Ok(stat) if stat.kind == FileKind::File => Ok(stat.version.size),
        Ok(_) => Err(FieldError::format(path, "this is no regular file")),
        Err(e) => Err(FieldError::io(path, e)),
    }
}

/// The first bytes of a file, at most `most`.
///
/// # Errors
/// The system's error, or that of the file's place.
pub fn read_start(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    if place::is_remote(path) {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        return place::read_small(path, most).map(|bytes| bytes.to_vec()).map_err(PageErrorKind::into_io);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Identity of a file: path, size, time of change, and number in the file system. Two runs of one case have files of
/// equal names and sizes, and `mv`, `cp -p` and `tar` keep times. Only the number then reveals a replaced file.
#[derive(Clone, Debug)]
pub struct FileIdentity {
    /// Without links.
    path: PathBuf,
    size: u64,
    /// Seconds and nanoseconds.
    changed: [i64; 2],
    inode: u64,
    /// The last change of anything about the file; nobody can set it.
    status: [i64; 2],
}

/// Changes of names and permissions are ignored: a backup by links is no new file.
impl PartialEq for FileIdentity {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, self.size, self.changed, self.inode) == (&other.path, other.size, other.changed, other.inode)
    }
}

/// The present identities of files.
///
/// # Errors
/// [`FieldError::Io`] names a file that is missing or inaccessible.
pub fn identities(files: &[PathBuf]) -> Result<Vec<FileIdentity>, FieldError> {
    if files.iter().any(|path| place::is_remote(path)) {
        // One round trip for all: the answers are known afterwards.
        let _known = place::stat(files);
    }
    files.iter().map(|path| identity(path).map_err(|e| FieldError::io(path, e))).collect()
}

/// The present identity of a file.
fn identity(path: &Path) -> io::Result<FileIdentity> {
    if !place::is_remote(path) {
        return FileIdentity::new(path, &std::fs::metadata(path)?);
    }
    let stat = stat(path)?;
    let [tag, _] = Digest::default().text(&stat.version.tag).halves();
    Ok(FileIdentity {
        path: path.to_owned(),
        size: stat.version.size,
        changed: [stat.modified_ns.div_euclid(1_000_000_000), stat.modified_ns.rem_euclid(1_000_000_000)],
        // The tag of its version distinguishes it, as the number in the file system does for a local file.
        inode: tag,
        status: [0, 0],
    })
}

impl FileIdentity {
    /// The path, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size in bytes, and last change of content in nanoseconds since 1970.
    pub fn size_and_time(&self) -> (u64, i128) {
        (self.size, i128::from(self.changed[0]) * 1_000_000_000 + i128::from(self.changed[1]))
    }

    fn new(path: &Path, about: &Metadata) -> io::Result<Self> {
        Ok(Self {
            path: std::fs::canonicalize(path)?,
            size: about.len(),
            changed: [about.mtime(), about.mtime_nsec()],
            inode: about.ino(),
            status: [about.ctime(), about.ctime_nsec()],
        })
    }
}

/// FNV-1a of 128 bits, the same in every run and version. It need not resist forgery.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Digest(u128);

impl Default for Digest {
    fn default() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Digest {
    /// The digest of files.
    pub fn of(files: &[FileIdentity]) -> Self {
        files.iter().fold(Self::default(), Self::file)
    }

    /// Parses the output of [`std::fmt::Display`].
    pub fn parse(text: &str) -> Option<Self> {
        let digest = Self(u128::from_str_radix(text, 16).ok()?);
        (digest.to_string() == text).then_some(digest)
    }

    /// Adds a text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    /// Adds a file.
    #[must_use]
    pub fn file(self, id: &FileIdentity) -> Self {
        let about = format!("\0{}|{}.{:09}|{}\0", id.size, id.changed[0], id.changed[1], id.inode);
        self.bytes(id.path.as_os_str().as_bytes()).text(&about)
    }

    /// As [`Self::file`], but different after any change: also if the file was rewritten in place and given its old
    /// time (`cp -p`). For data that are cheap to make again.
    #[must_use]
    pub fn state(self, id: &FileIdentity) -> Self {
        self.file(id).text(&format!("{}.{:09}\0", id.status[0], id.status[1]))
    }

    /// Adds numbers.
    #[must_use]
    pub fn words(self, words: &[u64]) -> Self {
        words.iter().fold(self, |d, w| d.bytes(&w.to_le_bytes()))
    }

    /// The two halves, for sums of digests without an order.
    pub const fn halves(self) -> [u64; 2] {
        [(self.0 >> 64) as u64, self.0 as u64]
    }

    fn bytes(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |h, &b| (h ^ u128::from(b)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)))
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("farfield-file-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_file_in_the_place_of_another_is_another() {
        let dir = folder("identity");
        let (a, b, link) = (dir.join("a"), dir.join("b"), dir.join("link"));
        std::fs::write(&a, b"1234").unwrap();
        std::fs::write(&b, b"5678").unwrap();
        let when = std::fs::metadata(&a).unwrap().modified().unwrap();
        File::options().write(true).open(&b).unwrap().set_modified(when).unwrap();
        let now = |path: &PathBuf| identities(std::slice::from_ref(path)).map(|mut ids| ids.remove(0));
        let before = now(&a).unwrap();
        assert_eq!(FileBytes::open(&a).unwrap().identity(&a).unwrap(), before);
        std::os::unix::fs::symlink(&a, &link).unwrap();
        assert_eq!(now(&link).unwrap(), before, "by another way to it");
        let open = FileBytes::open(&a).unwrap();
        std::fs::rename(&b, &a).unwrap();
        let after = now(&a).unwrap();
        assert_ne!(after, before, "of the same path, size and time");
        assert_eq!(open.identity(&a).unwrap(), before, "what is open is still the old one");
        assert_ne!(Digest::of(std::slice::from_ref(&after)), Digest::of(std::slice::from_ref(&before)));
        assert_eq!(Digest::default().to_string().len(), 32);
        let e = now(&b).unwrap_err();
        assert!(matches!(e, FieldError::Io { path, .. } if path == b));
        // Rewritten in place with its old time: only the state differs.
        std::fs::write(&a, b"9999").unwrap();
        File::options().write(true).open(&a).unwrap().set_modified(when).unwrap();
        let written = now(&a).unwrap();
        assert_eq!(written, after);
        assert_ne!(Digest::default().state(&written), Digest::default().state(&after));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn nobody_waits_for_a_pipe() {
        let dir = folder("pipe");
        let pipe = dir.join("pipe");
        let name = CString::new(pipe.as_os_str().as_bytes()).unwrap();
        // SAFETY: a C string that lives through the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let said = FileBytes::open(&pipe).unwrap_err().to_string();
        assert!(said.contains("no regular file"), "{said}");
        assert_eq!(FileBytes::open(&dir).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
