//! The order of replies: deficit round robin over clients, demand before prefetch within one.
//!
//! *Theory.* Each client in turn may take as many bytes as the others, at any number and size of its requests. A
//! client with connections on several event loops has a part of its share on each, so many connections gain nothing. A
//! line whose socket is full has no turn: its replies wait here, where a demand overtakes them.

use super::super::wire::{Op, Request, Urgency};
use super::bucket::Bucket;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that a client may take in a round.
const QUANTUM: i64 = 64 << 10;
/// Least bytes that a request counts.
const LEAST_COST: u32 = 4096;
/// Demands before a prefetch that waits has its turn.
const DEMANDS: u32 = 8;

/// A request that waits.
pub(super) struct QueuedRequest {
    pub(super) request: Request,
    pub(super) body: Box<[u8]>,
    /// The begin of its reply's checksum.
    pub(super) seed: u32,
    pub(super) arrived: Instant,
}

impl QueuedRequest {
    /// Bytes that it counts.
    pub(super) fn cost(&self) -> u32 {
        self.request.len.max(LEAST_COST).saturating_add(self.request.body)
    }

    /// Bytes that it brings, which count against the memory of the server from its arrival on.
    pub(super) fn staged(&self) -> usize {
        if self.request.op == Op::StagePut {
            self.body.len()
        } else {
            0
        }
    }
}

/// The waiting requests of a connection.
struct RequestLine {
    client: u64,
    queues: [VecDeque<QueuedRequest>; 2],
    /// Whether it stands in its client's ring of that urgency.
    stands: [bool; 2],
    /// Whether its socket takes replies.
    open: bool,
}

/// A client on this event loop.
struct Turn {
    /// Its lines with waiting requests, by urgency.
    rings: [VecDeque<u64>; 2],
    /// Its connections here, and on all loops.
    lines: u32,
    all_lines: Arc<AtomicU32>,
    deficit: i64,
    demands: u32,
    stands: bool,
    bucket: Option<Bucket>,
}

/// See the module.
pub(super) struct Schedule {
    lines: HashMap<u64, RequestLine>,
    turns: HashMap<u64, Turn>,
    /// Clients with waiting requests.
    ring: VecDeque<u64>,
    bucket: Option<Bucket>,
    rate_per_client: Option<u64>,
    waiting: usize,
}

/// The next step.
pub(super) enum NextRequest {
    /// A request of a line.
    Request(u64, QueuedRequest),
    /// The rate allows none before this time has passed.
    Wait(Duration),
    /// Nothing can be answered now.
    Nothing,
    /// The next one costs more than there is room for.
    NoRoom,
}

impl Schedule {
    pub(super) fn new(rate: Option<u64>, rate_per_client: Option<u64>) -> Self {
        let bucket = rate.map(Bucket::new);
        Self {
            lines: HashMap::new(),
            turns: HashMap::new(),
            ring: VecDeque::new(),
            bucket,
            rate_per_client,
            waiting: 0,
        }
    }

    /// Requests that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// A connection of a client, which has so many on all loops.
    pub(super) fn add(&mut self, line: u64, client: u64, all_lines: &Arc<AtomicU32>) {
        let turn = self.turns.entry(client).or_insert_with(|| Turn {
            rings: Default::default(),
            lines: 0,
            all_lines: all_lines.clone(),
            deficit: 0,
            demands: 0,
            stands: false,
            bucket: self.rate_per_client.map(Bucket::new),
        });
        turn.lines += 1;
        self.lines.insert(line, RequestLine { client, queues: Default::default(), stands: [false; 2], open: true });
    }

    /// Forgets a connection and its requests. Returns the bytes that those brought.
    pub(super) fn remove(&mut self, line: u64) -> usize {
        let Some(gone) = self.lines.remove(&line) else { return 0 };
        self.waiting -= gone.queues.iter().map(VecDeque::len).sum::<usize>();
        if let Some(turn) = self.turns.get_mut(&gone.client) {
            turn.lines -= 1;
            if turn.lines == 0 {
                self.turns.remove(&gone.client);
                self.ring.retain(|client| *client != gone.client);
            }
        }
        gone.queues.iter().flatten().map(QueuedRequest::staged).sum()
    }

    /// A request waits. `first`: before the others of its line.
    pub(super) fn push(&mut self, line: u64, job: QueuedRequest, first: bool) {
        let Some(found) = self.lines.get_mut(&line) else { return };
        let queue = &mut found.queues[job.request.urgency as usize];
        if first {
            queue.push_front(job);
        } else {
            queue.push_back(job);
        }
        self.waiting += 1;
        self.stand(line);
    }

    /// Whether the socket of a line takes replies.
    pub(super) fn set_open(&mut self, line: u64, open: bool) {
        if let Some(found) = self.lines.get_mut(&line) {
            found.open = open;
            if open {
                self.stand(line);
            }
        }
    }

    /// Puts a line into the rings where it has requests.
    fn stand(&mut self, line: u64) {
        let Some(found) = self.lines.get_mut(&line).filter(|found| found.open) else { return };
        let Some(turn) = self.turns.get_mut(&found.client) else { return };
        for urgency in 0..2 {
            if !found.queues[urgency].is_empty() && !found.stands[urgency] {
                found.stands[urgency] = true;
                turn.rings[urgency].push_back(line);
            }
        }
        if !turn.stands && turn.rings.iter().any(|ring| !ring.is_empty()) {
            turn.stands = true;
            self.ring.push_back(found.client);
        }
    }

    /// The line of a client whose request is next, with its urgency.
    fn line_of(lines: &mut HashMap<u64, RequestLine>, turn: &mut Turn) -> Option<(u64, usize)> {
        let mut order = [0, 1];
        if turn.demands >= DEMANDS {
            order = [1, 0];
        }
        for urgency in order {
            while let Some(line) = turn.rings[urgency].front().copied() {
                match lines.get_mut(&line) {
                    Some(found) if found.open && !found.queues[urgency].is_empty() => return Some((line, urgency)),
                    // It comes back with its next request, or when its socket takes replies.
                    Some(found) => found.stands[urgency] = false,
                    None => {}
                }
                turn.rings[urgency].pop_front();
            }
        }
        None
    }

    /// Takes the next request that costs at most `room`.
    pub(super) fn next(&mut self, now: Instant, room: u32) -> NextRequest {
        if let Some(wait) = self.bucket.as_mut().and_then(|bucket| bucket.wait(now)) {
            return if self.ring.is_empty() { NextRequest::Nothing } else { NextRequest::Wait(wait) };
        }
        let mut limited: Option<Duration> = None;
        let mut skipped = 0;
        while let Some(client) = self.ring.front().copied().filter(|_| skipped < self.ring.len()) {
            let Some(turn) = self.turns.get_mut(&client) else {
                self.ring.pop_front();
                continue;
            };
            let Some((line, urgency)) = Self::line_of(&mut self.lines, turn) else {
                (turn.stands, turn.deficit) = (false, 0);
                self.ring.pop_front();
                continue;
            };
            if let Some(wait) = turn.bucket.as_mut().and_then(|bucket| bucket.wait(now)) {
                limited = Some(limited.map_or(wait, |other| other.min(wait)));
                skipped += 1;
                self.ring.rotate_left(1);
                continue;
            }
            let Some(found) = self.lines.get_mut(&line) else { break };
            let first = found.queues[urgency].front();
            let cost = first.map_or(0, QueuedRequest::cost);
            // What brings bytes has its memory already, and gives it back.
            let needs = if first.is_some_and(|job| job.staged() > 0) { 0 } else { cost };
            if i64::from(cost) > turn.deficit {
                let all = i64::from(turn.all_lines.load(Relaxed).max(turn.lines).max(1));
                turn.deficit += (QUANTUM * i64::from(turn.lines) / all).max(1024);
                self.ring.rotate_left(1);
                skipped = 0;
                continue;
            }
            if needs > room {
                return NextRequest::NoRoom;
            }
            let Some(job) = found.queues[urgency].pop_front() else { break };
            self.waiting -= 1;
            turn.deficit -= i64::from(cost);
            turn.demands = if urgency == 0 { turn.demands + 1 } else { 0 };
            // The next request of the client comes from its next line.
            turn.rings[urgency].rotate_left(1);
            if let Some(bucket) = &mut turn.bucket {
                bucket.take(cost);
            }
            if let Some(bucket) = &mut self.bucket {
                bucket.take(cost);
            }
            return NextRequest::Request(line, job);
        }
        limited.map_or(NextRequest::Nothing, NextRequest::Wait)
    }

    /// Makes a waiting prefetch a demand. Whether it waited.
    pub(super) fn promote(&mut self, line: u64, seq: u32) -> bool {
        let Some(mut job) = self.withdraw(line, seq) else { return false };
        job.request.urgency = Urgency::Demand;
        self.push(line, job, false);
        true
    }

    /// Takes a waiting request out.
    pub(super) fn withdraw(&mut self, line: u64, seq: u32) -> Option<QueuedRequest> {
        let found = self.lines.get_mut(&line)?;
        for queue in &mut found.queues {
            if let Some(at) = queue.iter().position(|job| job.request.seq == seq) {
                self.waiting -= 1;
                return queue.remove(at);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
