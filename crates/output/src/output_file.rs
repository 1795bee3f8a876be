//! The file of a result: it appears under its name when it is complete, or not at all.

use super::frame_folder::FrameFolder;
use super::new_file::{directory_of, NewFile};
use super::OutputError;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The format of a result's file.
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
    /// ParaView's list of files, one a time, in a folder beside it.
    Pvd,
    /// Stanford's polygons.
    Ply,
    /// glTF 2.0 in one file.
    Glb,
}

impl OutputFormat {
    /// The format of lines or rows, from a path's extension.
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

    /// The format of a triangle mesh, from a path's extension.
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

    /// Whether it has triangle meshes.
    pub fn has_meshes(self) -> bool {
        matches!(self, Self::Vtp | Self::Ply | Self::Glb | Self::Npz)
    }
}

/// The extension of a name, in lower case.
fn extension(path: &Path) -> Option<String> {
    path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase)
}

/// An unfinished result file. Dropped before [`OutputFile::commit`], it leaves nothing.
#[derive(Debug)]
pub struct OutputFile {
    new: NewFile,
    format: OutputFormat,
    /// The folder of a list of files.
    folder: Option<FrameFolder>,
}

impl OutputFile {
    /// Creates the temporary file beside `path`. Call it before the work, so that an unwritable path fails at the start
    /// of the run.
    ///
    /// # Errors
    /// [`OutputError`] when the extension is unknown, the directory is missing or not writable, or `path` is not a
    /// regular file.
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

    /// Its final path.
    pub fn path(&self) -> &Path {
        self.new.path()
    }

    /// Its final directory.
    pub fn directory(&self) -> PathBuf {
        directory_of(self.path())
    }

    pub(crate) fn file(&self) -> &Arc<File> {
        self.new.file()
    }

    /// Syncs the bytes to disk and gives the file its name. Returns its length.
    ///
    /// # Errors
    /// [`OutputError`] when the system refuses; an old file is still there then.
    pub fn commit(self) -> Result<u64, OutputError> {
        self.new.commit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new_file::anonymous;
    use std::fs::{self, OpenOptions};
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
