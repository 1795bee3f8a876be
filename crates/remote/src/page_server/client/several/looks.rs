//! A check of names at all servers at the same time, and what their answers say together.

use super::copies::{agree, differ, version_of, CopyState, SpreadFile};
use pager::place::{FileKind, FilePin, FileStat};
use pager::PageErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Once a server has answered, the others get so many times its time, and this much more.
const TIMES: u32 = 3;
const MORE: Duration = Duration::from_millis(100);

pub(super) type LookAnswer = Result<FileStat, PageErrorKind>;

/// The outcome for one name: what it is, and the copies of a file.
pub(super) type Found = (LookAnswer, Option<Arc<SpreadFile>>);

/// Receives the outcomes in the order of the names.
pub(super) type FoundThen = Box<dyn FnOnce(Vec<Found>) + Send>;

/// The servers, as a check sees them.
pub(super) struct Servers<'s> {
    pub(super) names: &'s [String],
    /// Each file is at so many of them at least.
    pub(super) replicas: usize,
    /// Those that are gone or much slower than others, by bit: no answer waits for theirs, unless it depends on it.
    pub(super) late: u64,
}

/// See the module.
pub(super) struct LookJob {
    pub(super) paths: Vec<PathBuf>,
    begun: Instant,
    state: Mutex<LookState>,
}

struct LookState {
    /// By server, then by name.
    answers: Vec<Option<Vec<LookAnswer>>>,
    first: Option<Duration>,
    /// Taken with the outcome.
    then: Option<FoundThen>,
    files: Vec<Option<Arc<SpreadFile>>>,
}

impl LookJob {
    pub(super) fn new(paths: Vec<PathBuf>, servers: usize, then: FoundThen) -> Self {
        let state =
            LookState { answers: vec![None; servers], first: None, then: Some(then), files: vec![None; paths.len()] };
        Self { paths, begun: Instant::now(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, LookState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the answers of a server. Returns the outcome with its receiver, once it is certain.
    pub(super) fn answer(
        &self,
        server: usize,
        answers: Vec<LookAnswer>,
        servers: &Servers<'_>,
    ) -> Option<(FoundThen, Vec<Found>)> {
        let mut state = self.state();
        if state.then.is_none() {
            // The outcome did not wait for it.
            for (file, answer) in state.files.iter().zip(&answers) {
                if let Some(file) = file {
                    add_copy(file, (server, &servers.names[server]), answer);
                }
            }
            return None;
        }
        if answers.iter().any(|answer| !is_silence(answer)) {
            state.first.get_or_insert_with(|| self.begun.elapsed());
        }
        state.answers[server] = Some(answers);
        self.outcome(state, servers)
    }

    /// The outcome with its receiver, if no server is worth more patience.
    pub(super) fn tick(&self, servers: &Servers<'_>) -> Option<(FoundThen, Vec<Found>)> {
        self.outcome(self.state(), servers)
    }

    fn outcome(&self, mut state: MutexGuard<'_, LookState>, servers: &Servers<'_>) -> Option<(FoundThen, Vec<Found>)> {
        state.then.as_ref()?;
        let expected = |n: usize| state.answers[n].is_none() && servers.late & 1 << n == 0;
        let is_early = state.first.is_none_or(|first| self.begun.elapsed() < first * TIMES + MORE);
        let patient = is_early && (0..servers.names.len()).any(expected);
        let of = |n: usize| {
            let answers: Vec<Option<&LookAnswer>> =
                state.answers.iter().map(|all| all.as_ref().and_then(|all| all.get(n))).collect();
            judged(&answers, servers, patient).map(|answer| {
                let file = answer.as_ref().ok().filter(|stat| stat.kind == FileKind::File);
                let file = file.map(|stat| Arc::new(file_of(&self.paths[n], stat, &answers)));
                (answer, file)
            })
        };
        let found: Option<Vec<Found>> = (0..self.paths.len()).map(of).collect();
        let found = found?;
        state.files = found.iter().map(|(_, file)| file.clone()).collect();
        state.then.take().map(|then| (then, found))
    }
}

/// Whether a server said nothing of a name.
fn is_silence(answer: &LookAnswer) -> bool {
    answer.as_ref().is_err_and(|kind| kind.is_transient() || matches!(kind, PageErrorKind::Io(_)))
}

/// What the answers of servers say of a name. `None`: not certain yet. `patient`: servers without an answer may give
/// one.
fn judged(answers: &[Option<&LookAnswer>], servers: &Servers<'_>, patient: bool) -> Option<LookAnswer> {
    let given = || answers.iter().enumerate().filter_map(|(n, answer)| Some((n, (*answer)?)));
    let there: Vec<(usize, &FileStat)> = given().filter_map(|(n, answer)| Some((n, answer.as_ref().ok()?))).collect();
    let missing: Vec<usize> = given().filter(|(_, a)| **a == Err(PageErrorKind::Missing)).map(|(n, _)| n).collect();
    // A refusal is an answer: what was refused may not be taken from another server unseen.
    let refused = given().find_map(|(_, answer)| match answer {
        Err(kind) if !is_silence(answer) && *kind != PageErrorKind::Missing => Some(kind.clone()),
        _ => None,
    });
    if let Some(kind) = refused {
        return Some(Err(kind));
    }
    if let Some(((one, first), (other, second))) = there.first().and_then(|first| {
        let other = there.iter().find(|(_, stat)| !agree(first.1, stat))?;
        Some((*first, *other))
    }) {
        return Some(Err(differ((&servers.names[one], first), (&servers.names[other], second))));
    }
    let is_missing = there.is_empty() && missing.len() > servers.names.len() - servers.replicas;
    if is_missing {
        return Some(Err(PageErrorKind::Missing));
    }
    let waits = given().count() < servers.names.len();
    if waits && (patient || there.is_empty()) {
        return None;
    }
    if let Some((_, stat)) = there.first() {
        return Some(Ok(FileStat { version: version_of(stat), ..(*stat).clone() }));
    }
    Some(Err(no_answer(&given().collect::<Vec<_>>(), &missing, servers)))
}

/// The error about a name that may be at a server without an answer.
fn no_answer(given: &[(usize, &LookAnswer)], missing: &[usize], servers: &Servers<'_>) -> PageErrorKind {
    let silent = || {
        given
            .iter()
            .filter_map(|(n, answer)| Some((*n, answer.as_ref().err()?)))
            .filter(|(_, kind)| **kind != PageErrorKind::Missing)
    };
    let names = |of: &mut dyn Iterator<Item = usize>| of.map(|n| &*servers.names[n]).collect::<Vec<_>>().join(", ");
    let said = |kind: &PageErrorKind| match kind {
        PageErrorKind::Unreachable { last, .. } | PageErrorKind::TimedOut { last, .. } => last.clone(),
        other => other.to_string(),
    };
    let tried = silent().find_map(|(_, kind)| match kind {
        PageErrorKind::Unreachable { tried, .. } | PageErrorKind::TimedOut { tried, .. } => Some(tried.clone()),
        _ => None,
    });
    let mut last =
        silent().map(|(n, kind)| format!("{}: {}", servers.names[n], said(kind))).collect::<Vec<_>>().join("; ");
    if !missing.is_empty() {
        let others = names(&mut missing.iter().copied());
        last += &format!(
            "; a file that is not at {others} may be there; if each file is at two of the servers at least, set \
             FARFIELD_REPLICAS=2"
        );
    }
    let server = names(&mut silent().map(|(n, _)| n));
    PageErrorKind::Unreachable { server, tried: tried.unwrap_or_else(|| "once".into()), last }
}

/// A file with the copies that the answers name.
fn file_of(path: &std::path::Path, stat: &FileStat, answers: &[Option<&LookAnswer>]) -> SpreadFile {
    let copy = |answer: &Option<&LookAnswer>| match answer {
        None => CopyState::Asked,
        Some(Ok(stat)) => CopyState::Here(Arc::new(FilePin::known(stat.version.clone()))),
        Some(Err(PageErrorKind::Missing)) => CopyState::Missing,
        Some(Err(_)) => CopyState::Unknown,
    };
    SpreadFile::new(path, stat.clone(), answers.iter().map(copy).collect())
}

/// Adds what a server says of a file that is in use already.
pub(super) fn add_copy(file: &SpreadFile, (server, name): (usize, &str), answer: &LookAnswer) {
    match answer {
        Ok(stat) if agree(stat, &file.stat) => {
            file.set(server, CopyState::Here(Arc::new(FilePin::known(stat.version.clone()))));
        }
        Ok(stat) => file.spoil(differ((name, stat), ("another server", &file.stat))),
        Err(PageErrorKind::Missing) => file.set(server, CopyState::Missing),
        Err(_) => file.set(server, CopyState::Unknown),
    }
}
