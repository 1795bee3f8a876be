//! OPEN, STAT and reads of files at origins, on an event loop. What is here is answered at once. Whatever is absent is
//! asked for, and the request goes on when a letter says that it came.

use super::super::wire::{read_names, RemoteStat, State, Urgency, STAT_BYTES};
use super::answer::{self, Answer, Reading, MOST_NAMES};
use super::event_loop::EventLoop;
use super::files::FileTable;
use super::mailbox::{Answered, OriginLetter, Post};
use super::origin::{told, FoundName};
use super::schedule::{NextRequest, QueuedRequest};
use super::shared::ServerShared;
use pager::place::{FileStat, Place};
use pager::PageErrorKind;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The state that an origin says of one name.
fn only(mut found: Vec<Result<FileStat, PageErrorKind>>) -> Result<FileStat, PageErrorKind> {
    found.pop().unwrap_or_else(|| Err(PageErrorKind::Io("its place gave no answer".into())))
}

impl EventLoop {
    /// Asks an origin for the version of a file, and answers OPEN with it.
    pub(super) fn open_at_origin(&mut self, line: u64, job: QueuedRequest) {
        let name = std::str::from_utf8(&job.body).unwrap_or("");
        let Some(Ok(found)) = self.shared.files.origins().find(name) else {
            return self.reply(line, job, Instant::now(), Answer::of(State::BadName));
        };
        let place = self.shared.files.origins().place(&found);
        let (shared, number, begun) = (self.shared.clone(), self.number, Instant::now());
        let path = PathBuf::from(&found.address);
        let looked = move |stats| {
            let answer = Answer::opened(shared.files.origins().open_as(&found, only(stats)));
            post(&shared, number, Answered { line, job, begun, answer, charged: 0 });
        };
        place.look(vec![path], Box::new(looked));
    }

    /// Answers STAT where names may be at origins.
    pub(super) fn stat_at_origins(&mut self, line: u64, job: QueuedRequest, begun: Instant, charged: usize) {
        self.charge(charged);
        let (shared, number) = (self.shared.clone(), self.number);
        // Looking at local names may wait for a disk.
        self.shared.readers.run({
            let shared = shared.clone();
            move || {
                let names = match read_names(&job.body, MOST_NAMES) {
                    Ok(names) => names,
                    Err(fault) => {
                        let answer = Answer::fault(&fault);
                        return post(&shared, number, Answered { line, job, begun, answer, charged });
                    }
                };
                let stats = Stats::ask(&shared.files, &names);
                stats.then(&shared.clone(), move |answer| {
                    post(&shared, number, Answered { line, job, begun, answer, charged });
                });
            }
        });
    }

    /// Goes on with a read of which something is absent.
    pub(super) fn read_at_origin(
        &mut self,
        line: u64,
        job: QueuedRequest,
        begun: Instant,
        charged: usize,
        reading: Reading,
    ) {
        let full = reading.origin().filter(|file| file.place().room() == 0 && !file.is_coming(&reading.wanted().0));
        if let Some(file) = full.filter(|_| self.at_origins > 0) {
            // Here it is overtaken by demands, and waits for its client's turn.
            self.full_origin = Some(file.place().clone());
            return self.absent.push(line, job, self.is_pumping);
        }
        self.at_origins += 1;
        // What comes is held beside the reply until it is copied there: whole blocks, also for ranges of a byte.
        let fetched = reading.origin().map_or(0, |file| file.fetch_bytes(&reading.wanted().0));
        let charged = charged + fetched.max(charged);
        self.charge(charged);
        self.shared.counts.from_origin.fetch_add(1, Relaxed);
        self.fetch(line, job, begun, charged, reading);
    }

    /// Sends requests that waited to origins, as many as they take.
    pub(super) fn pump_absent(&mut self) {
        while self.absent.waiting() > 0 {
            if self.at_origins > 0 && self.full_origin.as_ref().is_some_and(|place| place.room() == 0) {
                return;
            }
            self.full_origin = None;
            let NextRequest::Request(line, job) = self.absent.next(Instant::now(), self.room()) else { return };
            self.is_pumping = true;
            self.run_job(line, job);
            self.is_pumping = false;
        }
    }

    /// Lists a folder where names may be at origins, which it waits for on a thread of theirs: not on one for disks.
    pub(super) fn list_at_origins(&mut self, line: u64, job: QueuedRequest, begun: Instant, charged: usize) {
        self.charge(charged);
        let (shared, number) = (self.shared.clone(), self.number);
        self.shared.files.origins().wait_on_thread(move || {
            let answer = answer::list(&shared.files, &job.body, job.request.file);
            post(&shared, number, Answered { line, job, begun, answer, charged });
        });
    }

    fn fetch(&mut self, line: u64, job: QueuedRequest, begun: Instant, charged: usize, reading: Reading) {
        let (shared, number) = (self.shared.clone(), self.number);
        let Some(file) = reading.origin().cloned() else {
            self.at_origins -= 1;
            return self.answered(Answered { line, job, begun, answer: Answer::of(State::Io), charged });
        };
        let (wanted, came) = reading.wanted();
        let urgent = job.request.urgency == Urgency::Demand;
        let then = move |fetched| {
            let letter = OriginLetter { line, job, begun, reading, fetched, charged };
            shared.mailboxes[number].post(Post::FromOrigin(Box::new(letter)));
        };
        file.fetch(&wanted, &came, urgent, Box::new(then));
    }

    /// A read's blocks came, or did not.
    pub(super) fn came_from_origin(&mut self, letter: OriginLetter) {
        let OriginLetter { line, job, begun, mut reading, fetched, charged } = letter;
        let kind = match fetched {
            Ok(came) => {
                reading.take(came);
                let Some(answer) = reading.go_on(&self.shared.files, true) else {
                    return self.fetch(line, job, begun, charged, reading);
                };
                self.at_origins -= 1;
                return self.answered(Answered { line, job, begun, answer, charged });
            }
            Err(kind) => kind,
        };
        self.at_origins -= 1;
        let changed = matches!(kind, PageErrorKind::Changed { .. });
        let Some(file) = reading.origin().filter(|_| changed) else {
            return self.answered(Answered { line, job, begun, answer: Answer::refused(&kind), charged });
        };
        // The client is told which version there is now.
        let (shared, number) = (self.shared.clone(), self.number);
        let (place, path) = (file.place().clone(), file.path().to_path_buf());
        let address = path.to_string_lossy().into_owned();
        let looked = move |stats| {
            let answer = match only(stats) {
                Ok(stat) => Answer::told(State::Changed, told(&address, &stat).bytes().to_vec()),
                // What was there is not missing: it changed.
                Err(PageErrorKind::Missing) => Answer::refused(&kind),
                Err(other) => Answer::refused(&other),
            };
            post(&shared, number, Answered { line, job, begun, answer, charged });
        };
        place.look(vec![path], Box::new(looked));
    }
}

fn post(shared: &ServerShared, number: usize, answered: Answered) {
    shared.mailboxes[number].post(Post::Answered(Box::new(answered)));
}

/// Names at origins with their numbers among those that were asked about.
type NumberedNames = Vec<(usize, FoundName)>;

/// States of names that are being collected.
struct Stats {
    answers: Vec<(State, RemoteStat)>,
    far: NumberedNames,
}

impl Stats {
    /// Looks at local names.
    fn ask(files: &FileTable, names: &[&str]) -> Self {
        let mut this = Self { answers: Vec::with_capacity(names.len()), far: Vec::new() };
        for (n, name) in names.iter().enumerate() {
            this.answers.push(match files.origins().find(name) {
                Some(Ok(found)) => {
                    this.far.push((n, found));
                    (State::Io, RemoteStat::nothing())
                }
                Some(Err(state)) => (state, RemoteStat::nothing()),
                None => match files.names().state(name) {
                    Ok(found) => (State::Ok, found.told()),
                    Err(state) => (state, RemoteStat::nothing()),
                },
            });
        }
        this
    }

    /// Asks the origins for the others, all at the same time.
    fn then(self, shared: &Arc<ServerShared>, then: impl FnOnce(Answer) + Send + 'static) {
        let Self { answers, far } = self;
        // By place, which takes many names at once.
        let mut asked: Vec<(Arc<dyn Place>, NumberedNames)> = Vec::new();
        for (n, found) in far {
            let place = shared.files.origins().place(&found);
            match asked.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &place)) {
                Some((_, names)) => names.push((n, found)),
                None => asked.push((place, vec![(n, found)])),
            }
        }
        if asked.is_empty() {
            return then(body(&answers));
        }
        let collected = Arc::new(Mutex::new((answers, asked.len(), Some(then))));
        for (place, names) in asked {
            let (collected, shared) = (collected.clone(), shared.clone());
            let paths = names.iter().map(|(_, found)| PathBuf::from(&found.address)).collect();
            let looked = move |stats: Vec<Result<FileStat, PageErrorKind>>| {
                let mut collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
                for ((n, found), stat) in names.iter().zip(stats) {
                    collected.0[*n] = shared.files.origins().told(found, stat);
                }
                collected.1 -= 1;
                if collected.1 == 0 {
                    let (answer, then) = (body(&collected.0), collected.2.take());
                    drop(collected);
                    if let Some(then) = then {
                        then(answer);
                    }
                }
            };
            place.look(paths, Box::new(looked));
        }
    }
}

fn body(answers: &[(State, RemoteStat)]) -> Answer {
    let mut out = Vec::with_capacity(answers.len() * (STAT_BYTES + 1));
    for (state, told) in answers {
        out.push(*state as u8);
        out.extend(told.bytes());
    }
    Answer::told(State::Ok, out)
}
