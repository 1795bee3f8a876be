//! Destinations of pictures: a PNG, which gets its name when it is complete, or a video; and scratch files.

use super::video::Video;
use crate::picture::{self, Budget, PictureError, StageSetting, Subject};
use field::error::FieldError;
use output::{NewFile, OutputError, SpoolOptions};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of this process's scratch files.
static NEXT: AtomicU64 = AtomicU64::new(0);

pub(super) fn number() -> String {
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The name of a scratch file. Its file is removed on drop.
pub(crate) struct ScratchFile {
    pub(crate) path: PathBuf,
}

impl ScratchFile {
    pub(crate) fn new(extension: &str) -> Self {
        let folder = SpoolOptions::spill_directory(None);
        Self { path: folder.join(format!("farfield-scene-{}.{extension}", number())) }
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        // The file may never have been made.
        let _never_made = std::fs::remove_file(&self.path);
    }
}

/// An unfinished picture file. It leaves nothing if dropped before [`PictureFile::commit`].
pub(crate) struct PictureFile(NewFile);

impl PictureFile {
    /// Makes the temporary file beside `path` before the work, so that a bad path ends the run at its start.
    pub(crate) fn create(path: &Path) -> Result<Self, FieldError> {
        Ok(Self(NewFile::create(path)?))
    }

    /// Gives the file its name, and returns its bytes.
    pub(crate) fn commit(self) -> Result<u64, FieldError> {
        Ok(self.0.commit()?)
    }
}

impl Write for PictureFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.file().as_ref().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The destination of one picture.
pub(crate) enum Out<'a> {
    /// A file, with text beside the picture.
    Png(&'a mut PictureFile, &'a [(&'static str, String)]),
    /// The next picture of a video.
    Video(&'a mut Video),
}

impl Out<'_> {
    pub(crate) fn draw(
        &mut self,
        setting: StageSetting,
        subject: Subject<'_>,
        budget: Budget<'_>,
        workers: usize,
        progress: &mut dyn FnMut(f32) -> bool,
    ) -> Result<(), PictureError> {
        match self {
            Self::Png(file, text) => {
                picture::render_with_text(setting, subject, budget, workers, progress, text, &mut **file)
            }
            Self::Video(video) => {
                picture::render_rows(setting, subject, budget, workers, progress, &mut |rows| video.write(rows))
            }
        }
        .map(|_report| ())
    }

    /// The error for a failed write.
    pub(crate) fn failed(&mut self, e: io::Error) -> FieldError {
        match self {
            Self::Png(file, _) => OutputError::io(file.0.path(), "write", e).into(),
            Self::Video(video) => video.failed(e),
        }
    }
}

/// Keys of a picture's text.
pub(crate) const DIGEST: &str = "farfield-digest";
pub(crate) const SETTLED: &str = "farfield-settled";

/// Longest text that is read, in bytes.
const MOST_TEXT: u32 = 64 << 10;

/// The texts of a complete picture under [`DIGEST`] and [`SETTLED`]. `None` for anything else.
pub(crate) fn read_marks(path: &Path) -> Option<[String; 2]> {
    let mut file = File::open(path).ok().filter(|f| f.metadata().is_ok_and(|m| m.is_file()))?;
    let end = file.metadata().ok()?.len();
    let mut head = [0; 8];
    file.read_exact(&mut head).ok()?;
    if head != *b"\x89PNG\r\n\x1a\n" {
        return None;
    }
    let (mut marks, mut at) = ([None, None], 8u64);
    loop {
        file.read_exact(&mut head).ok()?;
        let [a, b, c, d, kind @ ..] = head;
        let bytes = u32::from_be_bytes([a, b, c, d]);
        at = at.checked_add(u64::from(bytes) + 12)?;
        if at > end {
            return None;
        }
        match &kind {
            // The chunk must end the file, and both texts must have come.
            b"IEND" if at == end => return marks[0].take().zip(marks[1].take()).map(|(d, s)| [d, s]),
            b"IEND" => return None,
            b"iTXt" if bytes <= MOST_TEXT => {
                let mut body = vec![0; bytes as usize];
                file.read_exact(&mut body).ok()?;
                // The key, then two bytes about compression, then language and translated key, each ended by a zero
                // byte.
                let mut parts = body.splitn(2, |b| *b == 0);
                let (key, rest) = (parts.next()?, parts.next()?);
                let value = rest.get(2..).and_then(|r| r.splitn(3, |b| *b == 0).nth(2));
                for (mark, name) in marks.iter_mut().zip([DIGEST, SETTLED]) {
                    if key == name.as_bytes() {
                        *mark = value.and_then(|v| String::from_utf8(v.to_vec()).ok());
                    }
                }
            }
            _ => {}
        }
        file.seek(SeekFrom::Start(at)).ok()?;
    }
}
