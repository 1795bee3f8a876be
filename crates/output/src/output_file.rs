//! The file that a result is written to: it appears under its name when it is whole, or not at all.

use super::frames::FrameFolder;
use super::{partial_file, OutputError};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// What kind of file a result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// NumPy's archive of arrays.
    Npz,
    /// VTK's XML PolyData.
    Vtp,
    /// Comma-separated points.
    Csv,
    /// Apache Parquet: a table of points.
    Parquet,
    /// ParaView's list of files, one a time, which lie in a folder beside it.
    Pvd,
    /// Stanford's polygons.
    Ply,
    /// glTF 2.0 in one file.
    Glb,
}

impl OutputFormat {
    /// The format of lines or rows in a path, from its extension.
    ///
    /// # Errors
    /// [`OutputError::Target`] for any other extension.
    pub fn of(path: &Path) -> Result<Self, OutputError> {
        let extension = extension(path);
        match extension.as_deref() {
            Some("npz") => Ok(Self::Npz),
            Some("vtp") => Ok(Self::Vtp),
            Some("csv") => Ok(Self::Csv),
            Some("parquet") => Ok(Self::Parquet),
            Some("pvd") => Ok(Self::Pvd),
            _ => Err(OutputError::Target {
                path: path.to_path_buf(),
                reason: "the name must end in .vtp, .npz, .parquet, .pvd or .csv".into(),
            }),
        }
    }

    /// The format of a triangle mesh in a path, from its extension.
    ///
    /// # Errors
    /// [`OutputError::Target`] for any other extension.
    pub fn of_mesh(path: &Path) -> Result<Self, OutputError> {
        match extension(path).as_deref() {
            Some("vtp") => Ok(Self::Vtp),
            Some("ply") => Ok(Self::Ply),
            Some("glb") => Ok(Self::Glb),
            Some("npz") => Ok(Self::Npz),
            _ => Err(OutputError::Target {
                path: path.to_path_buf(),
                reason: "the name must end in .vtp, .ply, .glb or .npz".into(),
            }),
        }
    }

    /// True when triangle meshes can be written in it.
    pub fn has_meshes(self) -> bool {
        matches!(self, Self::Vtp | Self::Ply | Self::Glb | Self::Npz)
    }
}

/// What a name ends in, in small letters.
fn extension(path: &Path) -> Option<String> {
    path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase)
}

/// A file in the making, of a result or a picture. Dropped before [`NewFile::commit`], it leaves nothing.
#[derive(Debug)]
pub struct NewFile {
    /// Where it will lie; links are followed, so that a link stays one.
    target: PathBuf,
    /// Where it lies now, in the same directory so that the rename is atomic; none after the commit. See [`hidden`].
    temporary: Option<PathBuf>,
    file: Arc<File>,
}

impl NewFile {
    /// Makes the temporary file beside `path`. Meant to be called before the work, so that a path that cannot be written ends
    /// the run at its start.
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        let refused = |reason: String| OutputError::Target { path: path.to_path_buf(), reason };
        let target = match fs::metadata(path) {
            Ok(known) if known.is_dir() => return Err(refused("it is a directory; name a file".into())),
            // Renaming over a device or a pipe would replace it.
            Ok(known) if !known.is_file() => return Err(refused("it is not a regular file".into())),
            Ok(_) => fs::canonicalize(path).map_err(|e| OutputError::io(path, "write", e))?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => path.to_path_buf(),
            Err(e) => return Err(OutputError::io(path, "write", e)),
        };
        let directory = directory_of(&target);
        if !directory.is_dir() {
            return Err(refused(format!("its folder does not exist: there is no directory {}", directory.display())));
        }
        let name = target.file_name().ok_or_else(|| refused("it has no file name".into()))?;
        match partial_file::file(&directory, name) {
            Ok((temporary, file)) => Ok(Self { target, temporary: Some(temporary), file: Arc::new(file) }),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(refused(e.to_string())),
            Err(e) => Err(OutputError::io(path, "write", e)),
        }
    }

    /// The path it will have.
    pub fn path(&self) -> &Path {
        &self.target
    }

    /// The file, which has no name or a hidden one.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Puts the bytes on disk and gives the file its name; returns how many there are. Where the system refuses, the old file, if
    /// there was one, is still there.
    pub fn commit(mut self) -> Result<u64, OutputError> {
        let failed = |e| OutputError::io(&self.target, "write", e);
        self.file.sync_all().map_err(failed)?;
        let bytes = self.file.metadata().map_err(failed)?.len();
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.target).map_err(failed)?;
        }
        self.temporary = None;
        // The name is in the directory: that has to reach the disk too. Some file systems refuse to sync a directory; the file is
        // whole there all the same.
        if let Ok(directory) = File::open(directory_of(&self.target)) {
            let _refused = directory.sync_all();
        }
        Ok(bytes)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            // Nothing can be done if it is gone already.
            let _gone = fs::remove_file(temporary);
        }
    }
}

/// A result file in the making. Dropped before [`OutputFile::commit`], it leaves nothing.
#[derive(Debug)]
pub struct OutputFile {
    new: NewFile,
    format: OutputFormat,
    /// Of a list of files: where they go.
    folder: Option<FrameFolder>,
}

impl OutputFile {
    /// Makes the temporary file beside `path`. Meant to be called before the work, so that a path that cannot be written ends
    /// the run at its start.
    ///
    /// # Errors
    /// [`OutputError`] when the extension is unknown, the directory is missing or cannot be written, or `path` is something
    /// other than a file.
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        let format = OutputFormat::of(path)?;
        let new = NewFile::create(path)?;
        let folder = match format {
            OutputFormat::Pvd => Some(FrameFolder::create(new.path())?),
            _ => None,
        };
        Ok(Self { new, format, folder })
    }

    /// As [`OutputFile::create`], for a triangle mesh: the formats are those of [`OutputFormat::of_mesh`].
    ///
    /// # Errors
    /// As [`OutputFile::create`].
    pub fn create_mesh(path: &Path) -> Result<Self, OutputError> {
        let format = OutputFormat::of_mesh(path)?;
        Ok(Self { new: NewFile::create(path)?, format, folder: None })
    }

    /// The folder for the files of a list, once.
    pub(crate) fn take_folder(&mut self) -> Option<FrameFolder> {
        self.folder.take()
    }

    /// The format, from the extension.
    pub fn format(&self) -> OutputFormat {
        self.format
    }

    /// The path it will have.
    pub fn path(&self) -> &Path {
        self.new.path()
    }

    /// The directory it will lie in.
    pub fn directory(&self) -> PathBuf {
        directory_of(self.path())
    }

    pub(crate) fn file(&self) -> &Arc<File> {
        self.new.file()
    }

    /// Puts the bytes on disk and gives the file its name; returns how many there are.
    ///
    /// # Errors
    /// [`OutputError`] when the system refuses; the old file, if there was one, is then still there.
    pub fn commit(self) -> Result<u64, OutputError> {
        self.new.commit()
    }
}

/// The folder that a path lies in.
pub fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// A file without a name in `directory`: it is gone when it is closed, however the process ends.
pub fn anonymous(directory: &Path) -> io::Result<File> {
    let unnamed = OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE).mode(0o600).open(directory);
    match unnamed {
        Ok(file) => Ok(file),
        // Network and older overlay file systems have no files without names: make one and take its name away.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL | libc::ENOENT)) => {
            static COUNTER: AtomicU64 = AtomicU64::new(0);
            let name = format!(".farfield-spill-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
            let path = directory.join(name);
            let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
            fs::remove_file(&path)?;
            Ok(file)
        }
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use testing::TestDir;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let dir = TestDir::new("target");
        let path = dir.path("a.npz");
        let output = OutputFile::create(&path).unwrap();
        output.file().as_ref().write_all(b"half").unwrap();
        drop(output);
        assert_eq!(dir.names(), Vec::<String>::new());

        fs::write(&path, b"old").unwrap();
        let output = OutputFile::create(&path).unwrap();
        output.file().as_ref().write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        output.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(dir.names(), ["a.npz"]);
    }

    #[test]
    fn what_a_killed_run_left_goes_with_the_next_result_of_that_name() {
        let dir = TestDir::new("target-left");
        fs::write(dir.path(".a.npz.part-0"), b"left").unwrap();
        fs::write(dir.path(".a.npz.part-1"), b"left").unwrap();
        let output = OutputFile::create(&dir.path("a.npz")).unwrap();
        output.file().as_ref().write_all(b"new").unwrap();
        output.commit().unwrap();
        assert_eq!(dir.names(), ["a.npz"]);
        assert_eq!(fs::read(dir.path("a.npz")).unwrap(), b"new");
    }

    #[test]
    fn a_link_stays_a_link() {
        let dir = TestDir::new("target-link");
        fs::write(dir.path("real.vtp"), b"old").unwrap();
        std::os::unix::fs::symlink(dir.path("real.vtp"), dir.path("link.vtp")).unwrap();
        let output = OutputFile::create(&dir.path("link.vtp")).unwrap();
        output.file().as_ref().write_all(b"new").unwrap();
        output.commit().unwrap();
        assert!(fs::symlink_metadata(dir.path("link.vtp")).unwrap().is_symlink());
        assert_eq!(fs::read(dir.path("real.vtp")).unwrap(), b"new");
    }

    #[test]
    fn bad_targets_are_refused_at_the_start() {
        let dir = TestDir::new("target-bad");
        let message = |p: &Path| OutputFile::create(p).unwrap_err().to_string();
        assert!(message(&dir.path("a.txt")).contains(".vtp, .npz, .parquet, .pvd or .csv"));
        assert!(message(&dir.path("none/a.vtp")).contains("no directory"));
        fs::create_dir(dir.path("d.vtp")).unwrap();
        assert!(message(&dir.path("d.vtp")).contains("directory"));
        let long = dir.path(&format!("{}.vtp", "x".repeat(240)));
        OutputFile::create(&long).unwrap().commit().unwrap();
        assert!(long.exists());
    }

    #[test]
    fn anonymous_files_leave_no_name() {
        let dir = TestDir::new("anonymous");
        let mut file = anonymous(&dir.path("")).unwrap();
        file.write_all(b"abc").unwrap();
        assert!(dir.names().is_empty());
        let mut back = Vec::new();
        use std::io::Seek;
        file.rewind().unwrap();
        file.read_to_end(&mut back).unwrap();
        assert_eq!(back, b"abc");
    }

    #[test]
    fn a_full_disk_is_said_in_words() {
        let full = OpenOptions::new().write(true).open("/dev/full");
        if let Ok(mut full) = full {
            let refused = full.write_all(b"x").unwrap_err();
            let error = OutputError::io(Path::new("/data/lines.vtp"), "write", refused);
            assert!(error.to_string().contains("no space left on device"));
            assert!(error.to_string().contains("/data/lines.vtp"));
        }
    }
}
