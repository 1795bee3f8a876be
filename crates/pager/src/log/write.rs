//! Writing a log.

use super::{kinds, put_varint, zigzag, BLOCK, BLOCK_BYTES, BLOCK_HEAD, END, MAGIC, VERSION};
use crate::event::{Event, FieldSink, Observer};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A block whose first event is older is written with the next event. A killed run may lose the events since then, and
/// a last block that no event followed.
const PATIENCE_US: u64 = 500_000;

struct LogBlock {
    /// Locked until `let_go`: another writer gets an error.
    file: Option<File>,
    /// No more writes.
    ended: bool,
    /// The block that is being filled, its head included.
    block: Vec<u8>,
    events: u32,
    first_us: u64,
    last_us: u64,
    /// Threads whose names are in the log.
    named: Vec<bool>,
    /// The first error. Nothing is written after it.
    error: Option<io::Error>,
}

/// Writes events to a file, in blocks: see the [module](super). At most one block is kept in memory. The file is locked
/// until [`EventLog::let_go`] or the drop.
pub struct EventLog {
    inside: Mutex<LogBlock>,
}

struct BytesWritten<'a>(&'a mut Vec<u8>);

impl FieldSink for BytesWritten<'_> {
    #[inline]
    fn number(&mut self, _: &'static str, value: u64) {
        put_varint(self.0, value);
    }
    fn text(&mut self, _: &'static str, value: &str) {
        put_varint(self.0, value.len() as u64);
        self.0.extend_from_slice(value.as_bytes());
    }
}

/// Attempts to open a file whose name another run replaces meanwhile. Two or three runs end at once, rarely more.
const TRIES: usize = 100;

/// The file for a log, emptied once no other process writes to it. The lock ends with the process.
fn alone(path: &Path) -> io::Result<File> {
    for _ in 0..TRIES {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            // A pipe or a device cannot be emptied, and any number of runs may write to a device.
            return Ok(file);
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another log is being written to this file"))
            }
            // Some file systems have no locks; a log without a lock is still useful.
            Err(TryLockError::Error(_)) => {}
        }
        match std::fs::metadata(path) {
            Ok(named) if (named.dev(), named.ino()) == (found.dev(), found.ino()) => {
                file.set_len(0)?;
                return Ok(file);
            }
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            // Another run replaced the file between our open and our lock: try the new file.
            _ => {}
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "its name stands for another file each time that it is looked at"))
}

/// A small number for this thread.
fn thread() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local!(static MINE: u32 = NEXT.fetch_add(1, Relaxed));
    MINE.with(|m| *m)
}

impl EventLog {
    /// Creates the file, or empties the one that is there.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] while another log is written to the file, which stays unchanged. Other kinds
    /// when it cannot be created or written.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut file = alone(path)?;
        let document = serde_json::json!({ "kinds": kinds() }).to_string();
        let mut head = Vec::from(MAGIC.as_slice());
        head.extend_from_slice(&VERSION.to_le_bytes());
        // A list of names: far below 4 GiB.
        head.extend_from_slice(&(document.len() as u32).to_le_bytes());
        head.extend_from_slice(document.as_bytes());
        head.extend_from_slice(&crc32c::crc32c(document.as_bytes()).to_le_bytes());
        file.write_all(&head)?;
        let mut block = Vec::with_capacity(BLOCK_BYTES + 1024);
        block.resize(BLOCK_HEAD, 0);
        let inside = LogBlock {
            file: Some(file),
            ended: false,
            block,
            events: 0,
            first_us: 0,
            last_us: 0,
            named: Vec::new(),
            error: None,
        };
        Ok(Self { inside: Mutex::new(inside) })
    }

    fn lock(&self) -> MutexGuard<'_, LogBlock> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a document of the run, at the time of the last event.
    pub fn note(&self, json: &serde_json::Value) {
        let event = Event::Note { json: json.to_string().into() };
        let mut i = self.lock();
        let at = i.last_us;
        i.add(at, thread(), &event);
    }

    /// Adds an event of another log.
    pub fn add(&self, at_us: u64, thread: u32, event: &Event) {
        self.lock().add(at_us, thread, event);
    }

    /// Writes the current block, so that it can be read while the run continues.
    ///
    /// # Errors
    /// The first error of any write since the log was created.
    pub fn flush(&self) -> io::Result<()> {
        let mut i = self.lock();
        i.flush();
        match &i.error {
            Some(e) => Err(io::Error::new(e.kind(), e.to_string())),
            None => Ok(()),
        }
    }

    /// Writes the last block and ends the log. Later events are dropped. The file stays locked, so that the caller can
    /// convert it. A second call does nothing.
    ///
    /// # Errors
    /// The first error of any write since the log was created.
    pub fn close(&self) -> io::Result<()> {
        let mut i = self.lock();
        let i = &mut *i;
        if !i.ended {
            i.flush();
            i.ended = true;
            if let (Some(file), None) = (&mut i.file, &i.error) {
                i.error = file.write_all(END).err();
            }
        }
        i.error.take().map_or(Ok(()), Err)
    }

    /// Ends the log as [`Self::close`] does, and lets others write to the file.
    ///
    /// # Errors
    /// As [`Self::close`].
    pub fn let_go(&self) -> io::Result<()> {
        let closed = self.close();
        if let Some(file) = self.lock().file.take() {
            // Closing the file is not enough: a forked process shares the lock. An unlock fails only where there was no
            // lock.
            let _unlocked = file.unlock();
        }
        closed
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        // A caller that needs the error calls `close` first.
        let _unheard = self.let_go();
    }
}

impl Observer for EventLog {
    fn event(&self, at_us: u64, event: &Event) {
        self.events(at_us, std::slice::from_ref(event));
    }
    fn events(&self, at_us: u64, events: &[Event]) {
        let thread = thread();
        let mut i = self.lock();
        if i.named.get(thread as usize) != Some(&true) {
            i.name_thread(at_us, thread);
        }
        events.iter().for_each(|event| i.add(at_us, thread, event));
    }
}

impl LogBlock {
    fn name_thread(&mut self, at_us: u64, thread: u32) {
        let place = thread as usize;
        if self.named.len() <= place {
            self.named.resize(place + 1, false);
        }
        self.named[place] = true;
        // SAFETY: both calls only read.
        let first = unsafe { libc::gettid() == libc::getpid() };
        let name: Arc<str> = match std::thread::current().name() {
            Some(name) => name.into(),
            None if first => "caller".into(),
            None => format!("thread {thread}").into(),
        };
        self.add(at_us, thread, &Event::Thread { name });
    }

    fn add(&mut self, at_us: u64, thread: u32, event: &Event) {
        if self.ended || self.error.is_some() {
            return;
        }
        if self.events == 0 {
            (self.first_us, self.last_us) = (at_us, at_us);
        }
        self.block.push(event.code());
        put_varint(&mut self.block, u64::from(thread));
        put_varint(&mut self.block, zigzag(at_us.wrapping_sub(self.last_us) as i64));
        event.put(&mut BytesWritten(&mut self.block));
        self.events += 1;
        self.last_us = at_us;
        if self.block.len() >= BLOCK_BYTES || at_us.saturating_sub(self.first_us) >= PATIENCE_US {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.events == 0 {
            return;
        }
        // A block is cut at 64 KiB and one event.
        let bytes = (self.block.len() - BLOCK_HEAD) as u32;
        self.block[..4].copy_from_slice(BLOCK);
        self.block[4..8].copy_from_slice(&bytes.to_le_bytes());
        self.block[8..12].copy_from_slice(&self.events.to_le_bytes());
        self.block[12..20].copy_from_slice(&self.first_us.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&self.block[4..20]), &self.block[BLOCK_HEAD..]);
        self.block[20..24].copy_from_slice(&crc.to_le_bytes());
        if let (Some(file), None) = (&mut self.file, &self.error) {
            self.error = file.write_all(&self.block).err();
        }
        self.block.truncate(BLOCK_HEAD);
        self.events = 0;
    }
}
