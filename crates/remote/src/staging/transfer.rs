//! One file to its servers: read once, sent to each that lacks it, and compared with what each has read back.

use super::plan::{Plan, PlannedFile};
use super::rate::Rate;
use super::{StageError, Target};
use crate::page_server::client::{StagedChunk, StagingRefusal};
use crate::page_server::wire::MOST_STAGED;
use pager::place::{self, FileReader};
use pager::PageErrorKind;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a file that are read at once.
const BLOCK: usize = 1 << 20;
/// Chunks on their way to a server, for each file.
const WINDOW: usize = 24;
/// Refusals of a file without progress after which it fails: each is tried once more.
const MOST_REFUSALS: u32 = 2;

/// Time until a server that is busy is asked again.
const BUSY: Duration = Duration::from_millis(20);

/// Bytes of memory for one file: its block as the place has it and here, and each chunk as a body and in the socket's
/// queue.
fn memory_of(file: &PlannedFile) -> u64 {
    let most = |bytes: usize| file.staged.size.min(bytes as u64);
    3 * most(BLOCK) + file.servers.len() as u64 * 2 * most(WINDOW * MOST_STAGED)
}

/// Memory that files share.
pub(super) struct MemoryShare {
    most: u64,
    held: Mutex<u64>,
    freed: Condvar,
}

impl MemoryShare {
    pub(super) fn new(most: u64) -> Self {
        Self { most, held: Mutex::new(0), freed: Condvar::new() }
    }

    /// Waits for so many bytes. With nothing held, any number is given.
    fn take(&self, bytes: u64) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        while *held > 0 && *held + bytes > self.most {
            held = self.freed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        *held += bytes;
    }

    fn give_back(&self, bytes: u64) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) -= bytes;
        self.freed.notify_all();
    }
}

/// See the module.
pub(super) struct Transfers {
    plan: Arc<Plan>,
    targets: Arc<Vec<Target>>,
    rate: Option<Rate>,
    memory: MemoryShare,
    next: AtomicUsize,
    stop: Arc<AtomicBool>,
}

/// A server that lacks a file.
struct Copy<'a> {
    target: &'a Target,
    /// Bytes that it has.
    there: u64,
    /// Chunks on their way: bytes of each.
    chunks: VecDeque<(StagedChunk, u64)>,
    complete: bool,
    refusals: u32,
    refused: Option<String>,
}

impl Transfers {
    pub(super) fn new(
        plan: Arc<Plan>,
        targets: Arc<Vec<Target>>,
        rate: Option<Rate>,
        memory: MemoryShare,
        stop: Arc<AtomicBool>,
    ) -> Self {
        Self { plan, targets, rate, memory, next: AtomicUsize::new(0), stop }
    }

    /// Transfers files until there are no more. The first error ends all threads.
    pub(super) fn run(&self) -> Result<(), StageError> {
        while let Some(file) = self.plan.files.get(self.next.fetch_add(1, Relaxed)) {
            let memory = memory_of(file);
            self.memory.take(memory);
            let result = self.go_on().and_then(|()| self.file(file));
            self.memory.give_back(memory);
            if let Err(error) = result {
                self.stop.store(true, Relaxed);
                return Err(error);
            }
        }
        Ok(())
    }

    fn go_on(&self) -> Result<(), StageError> {
        if self.stop.load(Relaxed) {
            Err(StageError::Interrupted)
        } else {
            Ok(())
        }
    }

    fn file(&self, file: &PlannedFile) -> Result<(), StageError> {
        let mut copies: Vec<Copy<'_>> = Vec::new();
        for server in &file.servers {
            let target = &self.targets[*server];
            let found = target.place.stage_begin(&file.staged, false);
            let found = found.map_err(|refusal| target.error(&file.staged.name, refusal))?;
            target.there.fetch_add(found.bytes, Relaxed);
            if !found.complete {
                let (there, chunks) = (found.bytes, VecDeque::new());
                copies.push(Copy { target, there, chunks, complete: false, refusals: 0, refused: None });
            }
        }
        while !copies.is_empty() {
            self.round(file, &mut copies)?;
            copies.retain(|copy| !copy.complete);
            for copy in &mut copies {
                let why = copy.refused.take().unwrap_or_default();
                let found = copy.target.place.stage_begin(&file.staged, false);
                let found = found.map_err(|refusal| copy.target.error(&file.staged.name, refusal))?;
                copy.refusals = if found.bytes > copy.there { 1 } else { copy.refusals + 1 };
                if copy.refusals >= MOST_REFUSALS {
                    return Err(copy.target.error(&file.staged.name, StagingRefusal::Unfit(why)));
                }
                (copy.there, copy.complete) = (found.bytes, found.complete);
            }
        }
        Ok(())
    }

    /// Reads the file once, and sends what each copy lacks.
    fn round(&self, file: &PlannedFile, copies: &mut [Copy<'_>]) -> Result<(), StageError> {
        let failed = |kind| StageError::Source { path: file.path.clone(), kind };
        let reader = FileReader::open(&file.path).map_err(failed)?;
        let changed =
            |is: &place::FileVersion| PageErrorKind::Changed { was: file.version.to_string(), is: is.to_string() };
        if reader.size() != file.staged.size {
            return Err(failed(changed(reader.version())));
        }
        let (mut offset, mut crc) = (0u64, 0u32);
        while offset < file.staged.size {
            self.go_on()?;
            let bytes = reader.read_up_to(offset, BLOCK).map_err(failed)?;
            crc = crc32c::crc32c_append(crc, &bytes);
            for copy in copies.iter_mut().filter(|copy| copy.refused.is_none()) {
                self.send(file, copy, offset, &bytes)?;
            }
            offset += bytes.len() as u64;
        }
        for copy in copies.iter_mut() {
            while copy.refused.is_none() && !copy.chunks.is_empty() {
                receive(file, copy)?;
            }
            copy.chunks.clear();
        }
        // A place says the version with each reply; a local file is looked at once more.
        let now = place::stat(std::slice::from_ref(&file.path)).pop();
        match now.unwrap_or(Err(PageErrorKind::Missing)) {
            Ok(now) if now.version == file.version => {}
            Ok(now) => return Err(failed(changed(&now.version))),
            Err(kind) => return Err(failed(kind)),
        }
        for copy in copies.iter_mut().filter(|copy| copy.refused.is_none()) {
            self.commit(file, copy, crc)?;
        }
        Ok(())
    }

    /// Sends the part of a block that a copy lacks.
    fn send(&self, file: &PlannedFile, copy: &mut Copy<'_>, offset: u64, bytes: &[u8]) -> Result<(), StageError> {
        let mut at = offset;
        for chunk in bytes.chunks(MOST_STAGED) {
            let begin = at;
            at += chunk.len() as u64;
            if at <= copy.there {
                continue;
            }
            self.wait_for_rate(chunk.len())?;
            copy.chunks.push_back((copy.target.place.stage_put(&file.staged, begin, chunk), chunk.len() as u64));
            if copy.chunks.len() >= WINDOW {
                receive(file, copy)?;
                if copy.refused.is_some() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn wait_for_rate(&self, bytes: usize) -> Result<(), StageError> {
        let until = Instant::now() + self.rate.as_ref().map_or(Duration::ZERO, |rate| rate.take(bytes));
        loop {
            self.go_on()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
    }

    fn commit(&self, file: &PlannedFile, copy: &mut Copy<'_>, crc: u32) -> Result<(), StageError> {
        let mut before = 0;
        loop {
            self.go_on()?;
            match copy.target.place.stage_commit(&file.staged, crc) {
                Ok(progress) if progress.complete => {
                    copy.complete = true;
                    return Ok(());
                }
                Ok(progress) if progress.bytes <= before => std::thread::sleep(BUSY),
                Ok(progress) => before = progress.bytes,
                Err(StagingRefusal::Unfit(why)) => {
                    copy.refused = Some(why);
                    return Ok(());
                }
                Err(refusal) => return Err(copy.target.error(&file.staged.name, refusal)),
            }
        }
    }
}

/// Waits for the first chunk on its way.
fn receive(file: &PlannedFile, copy: &mut Copy<'_>) -> Result<(), StageError> {
    let Some((chunk, bytes)) = copy.chunks.pop_front() else { return Ok(()) };
    match chunk.wait() {
        Ok(()) => {
            copy.target.sent.fetch_add(bytes, Relaxed);
            Ok(())
        }
        Err(StagingRefusal::Unfit(why)) => {
            copy.refused = Some(why);
            Ok(())
        }
        Err(refusal) => Err(copy.target.error(&file.staged.name, refusal)),
    }
}
