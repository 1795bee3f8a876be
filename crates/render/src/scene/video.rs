//! A video, made by the system's `ffmpeg` from pictures through a pipe.

use field::error::FieldError;
use output::{directory_of, partial_file, OutputError};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::JoinHandle;

/// Most bytes kept of `ffmpeg`'s messages.
const MOST_WORDS: u64 = 4096;

/// An unfinished video. It gets its name when it is complete, and leaves nothing if dropped before [`Video::finish`].
pub(crate) struct Video {
    target: PathBuf,
    /// Beside the target, so that the last rename is atomic.
    temporary: PathBuf,
    /// Lock of that file: an unlocked file belongs to an ended run.
    _lock: File,
    child: Child,
    pipe: Option<ChildStdin>,
    said: Option<JoinHandle<String>>,
}

impl Video {
    /// Starts `ffmpeg` for pictures of `size` pixels, `fps` a second.
    ///
    /// # Errors
    /// [`FieldError::Usage`] without `ffmpeg` on the system, with an alternative.
    pub(crate) fn begin(target: &Path, [width, height]: [u32; 2], fps: f64) -> Result<Self, FieldError> {
        let name = target
            .file_name()
            .ok_or_else(|| FieldError::Usage(format!("{}: this names no file for a video", target.display())))?;
        let (temporary, lock) =
            partial_file::file(&directory_of(target), name).map_err(|e| OutputError::io(target, "write", e))?;
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-loglevel", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24"]);
        command.args(["-s", &format!("{width}x{height}"), "-r", &fps.to_string(), "-i", "pipe:0", "-an"]);
        // Players need even sides, and colours at half the resolution.
        command.args(["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]);
        command.args(["-f", "mp4"]).arg(&temporary);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| match (std::fs::remove_file(&temporary), e.kind()) {
            (_, io::ErrorKind::NotFound) => FieldError::Usage(format!(
                "{}: this system has no ffmpeg, which makes videos; install it, or write numbered pictures: -o {}",
                target.display(),
                target.with_extension("").display().to_string() + "_%04d.png"
            )),
            _ => OutputError::io(target, "start ffmpeg to write", e).into(),
        })?;
        let said = child.stderr.take().map(|stderr| {
            std::thread::spawn(move || {
                let mut words = Vec::new();
                let mut stderr = stderr.take(MOST_WORDS);
                let _what_there_is = stderr.read_to_end(&mut words);
                // The rest is read so that `ffmpeg` does not wait, and dropped.
                let _nothing = io::copy(&mut stderr.into_inner(), &mut io::sink());
                String::from_utf8_lossy(&words).trim().to_owned()
            })
        });
        let pipe = child.stdin.take();
        Ok(Self { target: target.to_owned(), temporary, _lock: lock, child, pipe, said })
    }

    /// Writes the next rows of pixels.
    pub(crate) fn write(&mut self, rows: &[u8]) -> io::Result<()> {
        match &mut self.pipe {
            Some(pipe) => pipe.write_all(rows),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn words(&mut self) -> String {
        self.said.take().and_then(|said| said.join().ok()).unwrap_or_default()
    }

    /// The error of a failed write: `ffmpeg`'s message, if it ended by itself.
    pub(crate) fn failed(&mut self, e: io::Error) -> FieldError {
        if e.kind() != io::ErrorKind::BrokenPipe {
            return OutputError::io(&self.target, "write", e).into();
        }
        self.pipe = None;
        let _ended = self.child.wait();
        let words = self.words();
        FieldError::Output(format!(
            "{}: ffmpeg ended before all pictures were there: {}",
            self.target.display(),
            if words.is_empty() { "it did not say why" } else { &words }
        ))
    }

    /// Waits for the end, gives the file its name, and returns its bytes.
    ///
    /// # Errors
    /// [`FieldError`] with `ffmpeg`'s message.
    pub(crate) fn finish(mut self) -> Result<u64, FieldError> {
        self.pipe = None;
        let failed = |e| OutputError::io(&self.target, "write", e);
        let status = self.child.wait().map_err(failed)?;
        if !status.success() {
            let words = self.words();
            return Err(FieldError::Output(format!("{}: ffmpeg failed ({status}): {words}", self.target.display())));
        }
        let bytes = std::fs::metadata(&self.temporary).map_err(failed)?.len();
        std::fs::rename(&self.temporary, &self.target).map_err(failed)?;
        Ok(bytes)
    }
}

impl Drop for Video {
    fn drop(&mut self) {
        self.pipe = None;
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _gone = self.child.kill();
            let _ended = self.child.wait();
        }
        // A renamed file is no longer under this name.
        let _none = std::fs::remove_file(&self.temporary);
    }
}
