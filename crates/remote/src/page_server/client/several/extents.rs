//! An index with an extent that it names, from one of several servers in one round trip.
//!
//! Where the file's copies are not known yet, the home is asked for both while all servers are asked for the file. Its
//! reply counts once its version is that of the home's copy. Another server is asked after a failure, and when the reply
//! is late: the bytes have memory of their own, and the first right reply is taken.

use super::copies::SpreadFile;
use pager::place::{ExtentRead, FilePin, FileRef, FoundExtent, IndexedExtent, VersionPin};
use pager::PageErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

type ExtentAnswer = Result<FoundExtent, PageErrorKind>;

/// See the module.
pub(super) struct ExtentJob {
    pub(super) file: FileRef,
    pub(super) wanted: IndexedExtent,
    state: Mutex<ExtentState>,
}

struct ExtentState {
    /// Taken with the outcome.
    then: Option<ExtentRead>,
    /// What the file is, once it is known.
    known: Option<Result<Arc<SpreadFile>, PageErrorKind>>,
    /// Servers that were asked, by bit; those of them that have not answered; when the last one was asked.
    tried: u64,
    asked: u64,
    since: Instant,
    /// Replies, by server, that wait until the file is known.
    replies: Vec<(usize, Arc<FilePin>, ExtentAnswer)>,
    last: Option<PageErrorKind>,
}

/// What follows an event of a job.
pub(super) enum ExtentStep {
    /// Nothing, until something else happens.
    Wait,
    /// Another server should be asked, none of those that were.
    Ask(Arc<SpreadFile>, u64),
    /// The outcome, and its receiver.
    End(ExtentRead, Box<ExtentAnswer>),
}

impl ExtentJob {
    pub(super) fn new(
        file: FileRef,
        wanted: IndexedExtent,
        known: Option<Arc<SpreadFile>>,
        server: usize,
        then: ExtentRead,
    ) -> Self {
        let state = ExtentState {
            then: Some(then),
            known: known.map(Ok),
            tried: 1 << server,
            asked: 1 << server,
            since: Instant::now(),
            replies: Vec::new(),
            last: None,
        };
        Self { file, wanted, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, ExtentState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes its receiver back: it was not begun after all.
    pub(super) fn give_up(&self) -> Option<ExtentRead> {
        self.state().then.take()
    }

    /// It is known what the file is.
    pub(super) fn found(&self, known: Result<Arc<SpreadFile>, PageErrorKind>) -> ExtentStep {
        let mut state = self.state();
        state.known = Some(known);
        self.next(state)
    }

    /// A server has answered.
    pub(super) fn replied(&self, server: usize, pin: Arc<FilePin>, answer: ExtentAnswer) -> ExtentStep {
        let mut state = self.state();
        state.asked &= !(1 << server);
        state.replies.push((server, pin, answer));
        self.next(state)
    }

    /// A server is asked, too.
    pub(super) fn asks(&self, server: usize) {
        let mut state = self.state();
        (state.tried, state.asked) = (state.tried | 1 << server, state.asked | 1 << server);
        state.since = Instant::now();
    }

    /// Looks whether the servers that were asked are late, or among `gone`. Returns the file and the servers that were
    /// asked, if another one should be.
    pub(super) fn late(&self, late: Duration, gone: u64) -> Option<(Arc<SpreadFile>, u64)> {
        let state = self.state();
        let is_late = state.since.elapsed() >= late || state.asked & !gone == 0;
        let known = state.known.as_ref()?.as_ref().ok()?;
        (state.then.is_some() && is_late).then(|| (known.clone(), state.tried))
    }

    /// No further server can be asked. Returns the outcome if none is asked now.
    pub(super) fn no_other(&self) -> Option<(ExtentRead, PageErrorKind)> {
        let mut state = self.state();
        if state.asked != 0 {
            return None;
        }
        let last = state.last.clone().unwrap_or_else(|| PageErrorKind::Io("no server has it".into()));
        state.then.take().map(|then| (then, last))
    }

    fn next(&self, mut state: MutexGuard<'_, ExtentState>) -> ExtentStep {
        let known = match &state.known {
            None => return ExtentStep::Wait,
            Some(Err(kind)) => {
                let kind = kind.clone();
                return end(&mut state, Err(kind));
            }
            Some(Ok(known)) => known.clone(),
        };
        for (server, pin, answer) in std::mem::take(&mut state.replies) {
            let is_copy = known.copy(server).is_some_and(|copy| copy.expected() == pin.expected());
            match answer {
                Ok(found) if is_copy => {
                    let version = known.stat.version.clone();
                    let checked = known.bad().map_or_else(|| self.file.pin.check(&version), Err);
                    return end(&mut state, checked.map(|()| FoundExtent { version, ..found }));
                }
                Ok(_) => {
                    // It changed between the two answers.
                    state.last = Some(PageErrorKind::Changed {
                        was: known.stat.version.to_string(),
                        is: pin.expected().map_or_else(String::new, |version| version.to_string()),
                    });
                }
                Err(kind) if kind.is_transient() || matches!(kind, PageErrorKind::Missing | PageErrorKind::Io(_)) => {
                    // That one server has none says less than that another one did not answer.
                    if state.last.as_ref().is_none_or(|last| *last == PageErrorKind::Missing) {
                        state.last = Some(kind);
                    }
                }
                Err(kind) => return end(&mut state, Err(kind)),
            }
        }
        if state.asked == 0 && state.then.is_some() {
            return ExtentStep::Ask(known, state.tried);
        }
        ExtentStep::Wait
    }
}

fn end(state: &mut ExtentState, answer: ExtentAnswer) -> ExtentStep {
    state.then.take().map_or(ExtentStep::Wait, |then| ExtentStep::End(then, Box::new(answer)))
}
