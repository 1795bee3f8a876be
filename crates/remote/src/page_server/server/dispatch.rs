//! From requests to replies.

use super::super::wire::{seed, Hello, Op, Reply, Request, State, WireFault, HEAD, MOST_REQUEST_BODY, VERSION};
use super::answer::{self, Answer, Reading};
use super::connection::{Outgoing, Slot, Stage};
use super::event_loop::{EventLoop, GRACE};
use super::mailbox::{Answered, Post};
use super::schedule::{NextRequest, QueuedRequest};
use super::status;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Requests that are answered before the sockets are looked at again.
const MOST_AT_ONCE: usize = 64;
const CREDITS_BROKEN: &str = "more is under way than was granted";

impl EventLoop {
    /// Takes whole requests out of a connection's inbox.
    pub(super) fn requests(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let inbox = std::mem::take(&mut connection.inbox);
        let mut rest = &inbox[..];
        let mut whole = false;
        while let Some((head, after)) = rest.split_first_chunk::<HEAD>() {
            let request = match Request::parse(head) {
                Ok(request) => request,
                Err(fault) => return self.breach(id, None, &fault),
            };
            if request.body as usize > MOST_REQUEST_BODY && !self.may_stage(id) {
                // Before such a body is taken in.
                self.shared.counts.refused.fetch_add(1, Relaxed);
                return self.end_with(id, 0, 0, State::Unauthorized, "this client may not stage files");
            }
            let Some((body, after)) = after.split_at_checked(request.body as usize) else { break };
            rest = after;
            whole = true;
            let job = QueuedRequest { request, seed: seed(head, body), body: body.into(), arrived: Instant::now() };
            if !self.request(id, job) {
                return;
            }
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let begun = connection.partial.filter(|_| !whole);
        connection.partial = (!rest.is_empty()).then(|| begun.unwrap_or_else(Instant::now));
        if connection.stage == Stage::Handshake {
            connection.partial = None;
        }
        connection.inbox = if rest.is_empty() { Vec::new() } else { rest.to_vec() };
    }

    /// Ends a connection that broke the protocol, and says why.
    fn breach(&mut self, id: u64, job: Option<&QueuedRequest>, fault: &WireFault) {
        self.shared.counts.faults.fetch_add(1, Relaxed);
        let (seq, seed) = job.map_or((0, 0), |job| (job.request.seq, job.seed));
        self.end_with(id, seq, seed, State::BadRequest, &fault.0);
    }

    /// The last reply of a connection.
    fn end_with(&mut self, id: u64, seq: u32, seed: u32, state: State, message: &str) {
        let body = message.as_bytes().to_vec();
        let head = Reply::new(seq, state, body.len()).sealed(seed, [&body[..]]);
        self.push(id, Outgoing { head, body, written: 0, answers: None });
        if let Some(connection) = self.connections.get_mut(&id) {
            (connection.stage, connection.since) = (Stage::Ending, Instant::now());
            let staged = self.schedule.remove(id);
            self.release(staged);
            self.absent.remove(id);
        }
    }

    /// One request. Whether the connection goes on.
    fn request(&mut self, id: u64, job: QueuedRequest) -> bool {
        self.shared.counts.count(job.request.op);
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        let (seq, op) = (job.request.seq, job.request.op);
        match (connection.stage, op) {
            (Stage::Hello, Op::Hello) => return self.hello(id, &job),
            (Stage::Ready, Op::Hello) => {
                self.breach(id, Some(&job), &WireFault("a second HELLO".into()));
                return false;
            }
            (Stage::Ready, _) => {}
            _ => {
                self.shared.counts.refused.fetch_add(1, Relaxed);
                self.end_with(id, seq, job.seed, State::Unauthorized, "HELLO comes first");
                return false;
            }
        }
        if connection.client.as_ref().is_none_or(|client| client.is_revoked()) {
            self.shared.counts.refused.fetch_add(1, Relaxed);
            self.end_with(id, seq, job.seed, State::Unauthorized, "the token was revoked");
            return false;
        }
        connection.owed += 1;
        if let Some(client) = &connection.client {
            client.under_way.fetch_add(1, Relaxed);
        }
        connection.owed_bytes += u64::from(job.request.len);
        connection.owed_bodies += job.body.len();
        let before = connection.granted_before.filter(|(_, at)| at.elapsed() < GRACE);
        let before = before.map_or(connection.credits, |(credits, _)| credits);
        let (requests, bytes) =
            (before.requests.max(connection.credits.requests), before.bytes.max(connection.credits.bytes));
        if connection.owed > requests || connection.owed_bytes > bytes {
            self.shared.counts.faults.fetch_add(1, Relaxed);
            self.end_with(id, seq, job.seed, State::Busy, CREDITS_BROKEN);
            return false;
        }
        match op {
            Op::Read | Op::ReadV | Op::Via | Op::Stat | Op::List => self.schedule.push(id, job, false),
            op if op.is_staging() => self.stage(id, job),
            Op::Open => self.open(id, job),
            Op::Close => {
                let state = match self.slot(id, job.request.file) {
                    Some(slot @ Some(Slot::Open(_))) => {
                        *slot = None;
                        State::Ok
                    }
                    _ => State::NotOpen,
                };
                self.reply(id, job, Instant::now(), Answer::of(state));
            }
            Op::Promote => {
                let waited = self.schedule.promote(id, job.request.file) || self.absent.promote(id, job.request.file);
                self.reply(id, job, Instant::now(), Answer::of(if waited { State::Ok } else { State::NotWaiting }));
            }
            Op::Cancel => {
                let withdrawn = self.schedule.withdraw(id, job.request.file);
                let withdrawn = withdrawn.or_else(|| self.absent.withdraw(id, job.request.file));
                let state = if withdrawn.is_some() { State::Ok } else { State::NotWaiting };
                if let Some(withdrawn) = withdrawn {
                    self.reply(id, withdrawn, Instant::now(), Answer::of(State::Cancelled));
                }
                self.reply(id, job, Instant::now(), Answer::of(state));
            }
            Op::Stats => {
                let body = status::status(&self.shared).to_string().into_bytes();
                self.reply(id, job, Instant::now(), Answer::told(State::Ok, body));
            }
            Op::Ping => self.reply(id, job, Instant::now(), Answer::of(State::Ok)),
            _ => {}
        }
        self.connections.get(&id).is_some_and(|connection| connection.stage == Stage::Ready)
    }

    fn may_stage(&self, id: u64) -> bool {
        let client = self.connections.get(&id).and_then(|connection| connection.client.as_ref());
        client.is_some_and(|client| self.shared.staging.is_some() && self.shared.clients.may_stage(client))
    }

    /// Lets a request that stages wait for its turn, if the client may. Its bytes count from now on.
    fn stage(&mut self, id: u64, job: QueuedRequest) {
        let refusal = if self.shared.staging.is_none() {
            "it takes no files: it was started without --staging"
        } else if !self.may_stage(id) {
            "the token has no right to stage; it takes one of 'farfield serve --new-token NAME --may-stage'"
        } else {
            self.hold(job.staged());
            return self.schedule.push(id, job, false);
        };
        self.shared.counts.refused.fetch_add(1, Relaxed);
        self.hold(job.staged());
        self.reply(id, job, Instant::now(), Answer::told(State::Unauthorized, refusal.as_bytes().to_vec()));
    }

    fn hello(&mut self, id: u64, job: &QueuedRequest) -> bool {
        let hello = match Hello::parse(&job.body) {
            Ok(hello) if hello.version == VERSION => hello,
            Ok(hello) => {
                let told = format!("this server speaks version {VERSION}, and not {}", hello.version);
                self.breach(id, Some(job), &WireFault(told));
                return false;
            }
            Err(fault) => {
                self.breach(id, Some(job), &fault);
                return false;
            }
        };
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        match self.shared.clients.hello(&hello, connection.address) {
            Ok(client) => {
                self.schedule.add(id, client.number, &client.connections);
                self.absent.add(id, client.number, &client.connections);
                connection.client = Some(client);
                connection.stage = Stage::Ready;
                let body = connection.credits.bytes();
                let head = Reply::new(job.request.seq, State::Ok, body.len()).sealed(job.seed, [&body[..]]);
                self.push(id, Outgoing { head, body, written: 0, answers: None });
                true
            }
            Err(why) => {
                self.shared.counts.refused.fetch_add(1, Relaxed);
                self.end_with(id, job.request.seq, job.seed, State::Unauthorized, why);
                false
            }
        }
    }

    /// Opens a file under the number that the client gave it.
    fn open(&mut self, id: u64, job: QueuedRequest) {
        let number = job.request.file;
        let at_once = answer::open(&self.shared.files, &job.body, true);
        let Some(slot) = self.slot(id, number) else {
            return self.breach(id, Some(&job), &WireFault(format!("there is no number {number} for files")));
        };
        if matches!(slot, Some(Slot::Opening(_))) {
            return self.breach(id, Some(&job), &WireFault(format!("number {number} is being opened already")));
        }
        match at_once {
            Some(answer) => {
                *slot = answer.opened.clone().map(Slot::Open);
                self.reply(id, job, Instant::now(), answer);
            }
            None => {
                *slot = Some(Slot::Opening(Vec::new()));
                if self.shared.files.origins().has(std::str::from_utf8(&job.body).unwrap_or("")) {
                    return self.open_at_origin(id, job);
                }
                self.by_reader(id, job, Instant::now(), 0, |files, job| {
                    answer::open(files, &job.body, false).unwrap_or_else(|| Answer::of(State::Io))
                });
            }
        }
    }

    /// Answers waiting requests. Returns the time until it should be called again, `None`: at once.
    pub(super) fn pump(&mut self) -> Option<Duration> {
        self.pump_absent();
        for _ in 0..MOST_AT_ONCE {
            if self.schedule.waiting() == 0 || self.shared.readers.full() {
                return Some(Duration::MAX);
            }
            let room = self.room();
            match self.schedule.next(Instant::now(), room) {
                NextRequest::Request(id, job) => self.run_job(id, job),
                NextRequest::Wait(time) => return Some(time),
                NextRequest::Nothing => return Some(Duration::MAX),
                NextRequest::NoRoom => {
                    self.starved = true;
                    return Some(Duration::MAX);
                }
            }
        }
        None
    }

    /// Bytes that the next request may take. With nothing held, the longest request goes.
    pub(super) fn room(&self) -> u32 {
        match self.held {
            0 => u32::MAX,
            held => u32::try_from(self.memory.saturating_sub(held)).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn run_job(&mut self, id: u64, job: QueuedRequest) {
        let begun = Instant::now();
        let deadline = Duration::from_millis(job.request.deadline_ms.into());
        if job.request.deadline_ms > 0 && begun.saturating_duration_since(job.arrived) > deadline {
            return self.reply(id, job, begun, Answer::of(State::Late));
        }
        let charged = answer::bytes_of(&job.request, job.body.len());
        match job.request.op {
            op if op.is_staging() => {
                let Some(area) = self.shared.staging.clone() else { return };
                self.by_reader(id, job, begun, 0, move |_, job| answer::stage(&area, &job.request, &job.body));
            }
            Op::Stat if !self.shared.files.origins().is_empty() => self.stat_at_origins(id, job, begun, charged),
            Op::Stat => self.by_reader(id, job, begun, charged, |files, job| answer::stat(files, &job.body)),
            Op::List if !self.shared.files.origins().is_empty() => self.list_at_origins(id, job, begun, charged),
            Op::List => {
                self.by_reader(id, job, begun, charged, |files, job| answer::list(files, &job.body, job.request.file));
            }
            _ => {
                let file = match self.slot(id, job.request.file) {
                    Some(Some(Slot::Open(file))) => file.clone(),
                    Some(Some(Slot::Opening(waiting))) => return waiting.push(job),
                    _ => return self.reply(id, job, begun, Answer::of(State::NotOpen)),
                };
                let mut reading = match Reading::new(&job.request, &job.body, file) {
                    Ok(reading) => reading,
                    Err(fault) => return self.breach(id, Some(&job), &fault),
                };
                if let Some(answer) = reading.go_on(&self.shared.files, true) {
                    let here = if reading.origin().is_some() {
                        &self.shared.counts.from_memory
                    } else {
                        &self.shared.counts.from_cache
                    };
                    here.fetch_add(1, Relaxed);
                    return self.reply(id, job, begun, answer);
                }
                if reading.origin().is_some() {
                    return self.read_at_origin(id, job, begun, charged, reading);
                }
                self.shared.counts.from_disk.fetch_add(1, Relaxed);
                self.by_reader(id, job, begun, charged, move |files, _| loop {
                    // A reader waits for the disk.
                    if let Some(answer) = reading.go_on(files, false) {
                        return answer;
                    }
                });
            }
        }
    }

    /// Reserves bytes until [`Self::answered`].
    pub(super) fn charge(&mut self, bytes: usize) {
        self.held += bytes;
        self.shared.counts.held.fetch_add(bytes as u64, Relaxed);
    }

    /// Lets a reader answer.
    fn by_reader(
        &mut self,
        line: u64,
        job: QueuedRequest,
        begun: Instant,
        charged: usize,
        work: impl FnOnce(&super::files::FileTable, &QueuedRequest) -> Answer + Send + 'static,
    ) {
        self.charge(charged);
        let (shared, number) = (self.shared.clone(), self.number);
        self.shared.readers.run(move || {
            let answer = work(&shared.files, &job);
            let answered = Answered { line, job, begun, answer, charged };
            shared.mailboxes[number].post(Post::Answered(Box::new(answered)));
        });
    }

    /// A reader is done.
    pub(super) fn answered(&mut self, answered: Answered) {
        let Answered { line, job, begun, answer, charged } = answered;
        self.held -= charged;
        self.shared.counts.held.fetch_sub(charged as u64, Relaxed);
        if job.request.op == Op::Open {
            let opened = answer.opened.clone().map(Slot::Open);
            let waiting = self.slot(line, job.request.file).and_then(|slot| std::mem::replace(slot, opened));
            self.reply(line, job, begun, answer);
            if let Some(Slot::Opening(waiting)) = waiting {
                waiting.into_iter().rev().for_each(|job| self.schedule.push(line, job, true));
            }
            return;
        }
        self.reply(line, job, begun, answer);
    }

    pub(super) fn reply(&mut self, id: u64, job: QueuedRequest, begun: Instant, answer: Answer) {
        self.release(job.staged());
        match answer.state {
            State::Changed => {
                self.shared.counts.changed.fetch_add(1, Relaxed);
            }
            State::BadRequest => {
                let fault = WireFault(String::from_utf8_lossy(&answer.body).into_owned());
                return self.breach(id, Some(&job), &fault);
            }
            _ => {}
        }
        let mut reply = Reply::new(job.request.seq, answer.state, answer.body.len());
        reply.version = answer.version;
        reply.queued = begun.saturating_duration_since(job.arrived);
        reply.served = begun.elapsed();
        let head = reply.sealed(job.seed, [&answer.body[..]]);
        self.body_done(id, job.body.len());
        self.push(id, Outgoing { head, body: answer.body, written: 0, answers: Some(job.request.len) });
    }
}
