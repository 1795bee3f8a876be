//! The reads under way at several servers. Nothing here calls a server: each method returns the steps to take, which are
//! taken without the lock.

use super::attempt::{Attempt, Dones, Effect, Hedge, Orphan, SpreadRead};
use super::copies::SpreadFile;
use super::latency::{HedgeBudget, Latencies};
use super::member::{choose, least_loaded, Member};
use pager::place::FileRef;
use pager::source::{Buffer, Completion, Read, ReadClass, ReadStep};
use pager::PageErrorKind;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of all hedges at most.
const MOST_HEDGED: usize = 8 << 20;
/// A withdrawal is repeated after this: it may have come before its read.
const AGAIN: Duration = Duration::from_millis(20);
/// The time that a read stays at a server that stands still; it doubles each time that the read goes elsewhere.
const FIRST_STAY: Duration = Duration::from_millis(100);
/// Time between two looks at the reads under way.
const SHORTEST_TICK: Duration = Duration::from_millis(1);
const LONGEST_TICK: Duration = Duration::from_millis(10);
/// Bytes of a read in the tables.
const READ_BYTES: u64 = 400;

/// See the module. Invariants:
/// 1. A read in the table has an attempt under way, or a hedge that has not arrived.
/// 2. The memory of a hedge lives until its server has ended it.
pub(super) struct ReadTable {
    reads: HashMap<u64, SpreadRead>,
    ids: HashMap<(usize, u64), u64>,
    next: u64,
    orphans: HashMap<u64, Orphan>,
    pub(super) members: Vec<Member>,
    names: Vec<String>,
    latencies: Latencies,
    pub(super) budget: HedgeBudget,
    hedged: usize,
}

fn address_of(done: &Arc<dyn Completion>) -> usize {
    Arc::as_ptr(done).cast::<()>() as usize
}

/// The token of a read at a server.
fn token_of(id: u64, hedge: bool) -> u64 {
    id << 1 | u64::from(hedge)
}

/// Whether another server may do better.
fn passes(kind: &PageErrorKind) -> bool {
    kind.is_transient() || matches!(kind, PageErrorKind::Missing | PageErrorKind::Io(_))
}

impl ReadTable {
    pub(super) fn new(members: Vec<Member>, names: Vec<String>) -> Self {
        Self {
            reads: HashMap::new(),
            ids: HashMap::new(),
            next: 0,
            orphans: HashMap::new(),
            members,
            names,
            latencies: Latencies::default(),
            budget: HedgeBudget::default(),
            hedged: 0,
        }
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.reads.is_empty() && self.orphans.is_empty()
    }

    /// The age at which a read of so many bytes is late.
    pub(super) fn hedge_after(&self, bytes: u64) -> Duration {
        self.latencies.hedge_after(bytes)
    }

    /// Bytes of hedges and tables.
    pub(super) fn bytes(&self) -> u64 {
        self.hedged as u64 + self.reads.len() as u64 * READ_BYTES
    }

    /// Starts reads of a file, which has the version that they want.
    pub(super) fn begin(
        &mut self,
        file: &Arc<SpreadFile>,
        whole: &FileRef,
        reads: Vec<Read>,
        done: &Arc<dyn Completion>,
        dones: &Dones,
        now: Instant,
    ) -> Vec<Effect> {
        self.budget.earn(reads.len());
        let mut steps = Vec::with_capacity(reads.len());
        for read in reads {
            let id = self.next;
            self.next += 1;
            self.ids.insert((address_of(done), read.token), id);
            let spread = SpreadRead {
                token: read.token,
                done: done.clone(),
                dones: dones.clone(),
                file: file.clone(),
                path: whole.path.clone(),
                base: whole.base,
                offset: read.offset,
                buffers: read.buffers,
                class: read.class,
                clock: now,
                primary: None,
                hedge: None,
                promoted: false,
                failed: 0,
                last: None,
                moves: 0,
                withdrawn: false,
                trouble: None,
            };
            self.reads.insert(id, spread);
            self.start(id, now, &mut steps);
        }
        steps
    }

    /// Asks the server that suits best, into the read's own buffers.
    fn start(&mut self, id: u64, now: Instant, steps: &mut Vec<Effect>) {
        let Some(read) = self.reads.get_mut(&id) else { return };
        let choice = choose(&mut self.members, &read.file, read.offset - read.base, read.failed, now);
        let chosen = choice.and_then(|choice| Some((choice, read.file.copy(choice.server)?)));
        let Some((choice, pin)) = chosen else {
            let kind = self.all_failed(id, now);
            return self.finish(id, Err(kind), now, steps);
        };
        match choice.usable {
            true => read.trouble = None,
            false => _ = read.trouble.get_or_insert(now),
        }
        read.primary = Some(Attempt::new(choice.server, now));
        self.members[choice.server].begin(now);
        steps.push(Effect::Submit {
            server: choice.server,
            done: read.dones[choice.server].clone(),
            file: FileRef { path: read.path.clone(), base: read.base, pin },
            read: Read {
                token: token_of(id, false),
                offset: read.offset,
                buffers: read.buffers.clone(),
                class: read.class,
            },
        });
    }

    /// Asks another server, too.
    fn hedge(&mut self, id: u64, server: usize, now: Instant, steps: &mut Vec<Effect>) {
        let Some(read) = self.reads.get_mut(&id) else { return };
        let Some(pin) = read.file.copy(server) else { return };
        let len: usize = read.buffers.iter().filter(|buffer| !buffer.is_hole()).map(|buffer| buffer.len).sum();
        let mut memory = vec![0u8; len];
        let mut at = 0;
        let buffers = read.buffers.iter().map(|buffer| {
            if buffer.is_hole() {
                return *buffer;
            }
            let own = Buffer { ptr: memory[at..].as_mut_ptr(), len: buffer.len };
            at += buffer.len;
            own
        });
        let buffers = buffers.collect();
        self.hedged += len;
        read.hedge = Some(Hedge { attempt: Attempt::new(server, now), memory, arrived: false });
        self.members[server].begin(now);
        let (done, token) = (read.done.clone(), read.token);
        steps.push(Effect::Note { done, token, server, step: ReadStep::Hedged });
        steps.push(Effect::Submit {
            server,
            done: read.dones[server].clone(),
            file: FileRef { path: read.path.clone(), base: read.base, pin },
            read: Read { token: token_of(id, true), offset: read.offset, buffers, class: ReadClass::Demand },
        });
    }

    /// A server has ended a read.
    pub(super) fn ended(
        &mut self,
        server: usize,
        token: u64,
        result: Result<(), PageErrorKind>,
        now: Instant,
        steps: &mut Vec<Effect>,
    ) {
        let (id, is_hedge) = (token >> 1, token & 1 == 1);
        self.members[server].end();
        if let Some(orphan) = self.orphans.get(&id).filter(|orphan| is_hedge && orphan.attempt.server == server) {
            let took = now.saturating_duration_since(orphan.attempt.since);
            self.hedged -= orphan.memory.len();
            self.orphans.remove(&id);
            self.judge(server, took, &result, now);
            return;
        }
        let Some(read) = self.reads.get_mut(&id) else { return };
        let attempt = if is_hedge { read.hedge.as_ref().map(|hedge| &hedge.attempt) } else { read.primary.as_ref() };
        let Some(since) = attempt.map(|attempt| attempt.since) else { return };
        if !is_hedge {
            read.primary = None;
        }
        // A promoted read was partly done when its clock began.
        let demanded = (read.class == ReadClass::Demand && !read.promoted).then_some(read.clock);
        let len = read.len() as u64;
        let took = now.saturating_duration_since(since);
        self.judge(server, took, &result, now);
        match (result, is_hedge) {
            (Ok(()), _) => {
                if let Some(clock) = demanded {
                    self.latencies.note(len, now.saturating_duration_since(clock));
                }
                if is_hedge {
                    self.arrived(id, now, steps);
                } else {
                    self.finish(id, Ok(()), now, steps);
                }
            }
            (Err(kind), _) => self.failed(id, server, kind, is_hedge, now, steps),
        }
    }

    /// What a result says of its server.
    fn judge(&mut self, server: usize, took: Duration, result: &Result<(), PageErrorKind>, now: Instant) {
        let member = &mut self.members[server];
        match result {
            Err(PageErrorKind::Withdrawn) => member.given_up(took, now),
            Err(kind) if kind.is_network() || matches!(kind, PageErrorKind::Io(_)) => member.failed(now),
            // An answer, if not the one that was hoped for.
            Ok(()) | Err(_) => member.answered(took, now),
        }
    }

    /// The bytes of a hedge are there.
    fn arrived(&mut self, id: u64, now: Instant, steps: &mut Vec<Effect>) {
        let Some(read) = self.reads.get_mut(&id) else { return };
        let Some(hedge) = &mut read.hedge else { return };
        hedge.arrived = true;
        match &mut read.primary {
            None => self.go_on(id, now, steps),
            Some(primary) => {
                primary.withdrawn = Some(now);
                let (server, done) = (primary.server, read.dones[primary.server].clone());
                let (outer, token) = (read.done.clone(), read.token);
                steps.push(Effect::Note { done: outer, token, server, step: ReadStep::Withdrawn });
                steps.push(Effect::Withdraw { server, done, token: token_of(id, false) });
            }
        }
    }

    fn failed(
        &mut self,
        id: u64,
        server: usize,
        kind: PageErrorKind,
        is_hedge: bool,
        now: Instant,
        steps: &mut Vec<Effect>,
    ) {
        let Some(read) = self.reads.get_mut(&id) else { return };
        if let Some(hedge) = read.hedge.take_if(|_| is_hedge) {
            self.hedged -= hedge.memory.len();
        }
        let kind = match kind {
            PageErrorKind::Changed { was, is } => {
                let kind = PageErrorKind::Changed { was: format!("{was} at {}", self.names[server]), is };
                read.file.spoil(kind.clone());
                kind
            }
            kind => kind,
        };
        let ends = kind != PageErrorKind::Withdrawn && !passes(&kind);
        if ends && (!is_hedge || read.primary.is_none()) {
            return self.finish(id, Err(kind), now, steps);
        }
        if kind != PageErrorKind::Withdrawn {
            read.failed |= 1 << server;
            read.last = Some(kind);
        }
        if read.primary.is_none() {
            self.go_on(id, now, steps);
        }
    }

    /// No attempt writes to the buffers of a read.
    fn go_on(&mut self, id: u64, now: Instant, steps: &mut Vec<Effect>) {
        let Some(read) = self.reads.get_mut(&id) else { return };
        if read.withdrawn {
            return self.finish(id, Err(PageErrorKind::Withdrawn), now, steps);
        }
        match &read.hedge {
            Some(hedge) if hedge.arrived => self.finish(id, Ok(()), now, steps),
            Some(_) => {}
            None => self.start(id, now, steps),
        }
    }

    /// Ends a read.
    fn finish(&mut self, id: u64, result: Result<(), PageErrorKind>, now: Instant, steps: &mut Vec<Effect>) {
        let Some(read) = self.reads.remove(&id) else { return };
        // A token may be used again as soon as it is completed.
        if self.ids.get(&(address_of(&read.done), read.token)) == Some(&id) {
            self.ids.remove(&(address_of(&read.done), read.token));
        }
        let (done, token) = (read.done, read.token);
        let Some(hedge) = read.hedge else {
            return steps.push(Effect::Complete { done, token, result });
        };
        if hedge.arrived {
            self.hedged -= hedge.memory.len();
            return match result {
                Ok(()) => steps.push(Effect::Copy { done, token, memory: hedge.memory, buffers: read.buffers }),
                Err(_) => steps.push(Effect::Complete { done, token, result }),
            };
        }
        let mut attempt = hedge.attempt;
        let server = attempt.server;
        attempt.withdrawn = Some(now);
        let of_server = read.dones[server].clone();
        self.orphans.insert(id, Orphan { attempt, done: of_server.clone(), memory: hedge.memory });
        steps.push(Effect::Withdraw { server, done: of_server, token: token_of(id, true) });
        steps.push(Effect::Complete { done, token, result });
    }

    /// The error of a read that no server answers.
    fn all_failed(&self, id: u64, now: Instant) -> PageErrorKind {
        let no_server = || PageErrorKind::Io("no server has it".into());
        let Some(read) = self.reads.get(&id) else { return no_server() };
        let here = read.file.here();
        let with_copy = || (0..self.members.len()).filter(|server| here & 1 << server != 0);
        let why = |n: usize| {
            let member = &self.members[n];
            let still = || member.still.then(|| "it stands still".to_owned());
            Some(format!("{}: {}", self.names[n], member.lost.clone().or_else(still)?))
        };
        let gone: Vec<String> = with_copy().filter_map(why).collect();
        if gone.is_empty() {
            return read.last.clone().unwrap_or_else(no_server);
        }
        let names: Vec<&str> = with_copy().map(|n| &*self.names[n]).collect();
        let passed = now.saturating_duration_since(read.trouble.unwrap_or(read.clock));
        PageErrorKind::Unreachable {
            server: names.join(", "),
            tried: format!("for {:.1} s", passed.as_secs_f64()),
            last: gone.join("; "),
        }
    }

    fn id_of(&self, token: u64, done: &Arc<dyn Completion>) -> Option<u64> {
        self.ids.get(&(address_of(done), token)).copied()
    }

    /// Where notes about a read at a server go to. `heard`: when the note came from the server itself.
    pub(super) fn noted(
        &mut self,
        server: usize,
        token: u64,
        heard: Option<Instant>,
    ) -> Option<(Arc<dyn Completion>, u64)> {
        if let Some(heard) = heard {
            self.members[server].heard = heard;
        }
        self.reads.get(&(token >> 1)).map(|read| (read.done.clone(), read.token))
    }

    /// A task waits for reads.
    pub(super) fn promote(&mut self, tokens: &[u64], done: &Arc<dyn Completion>, now: Instant) -> Vec<Effect> {
        let mut steps = Vec::new();
        for token in tokens {
            let Some(id) = self.id_of(*token, done) else { continue };
            let Some(read) = self.reads.get_mut(&id).filter(|read| read.class == ReadClass::Prefetch) else { continue };
            (read.class, read.promoted, read.clock) = (ReadClass::Demand, true, now);
            if let Some(primary) = &read.primary {
                let server = primary.server;
                steps.push(Effect::Promote { server, done: read.dones[server].clone(), token: token_of(id, false) });
            }
        }
        steps
    }

    /// Nobody waits for reads.
    pub(super) fn withdraw(&mut self, tokens: &[u64], done: &Arc<dyn Completion>, now: Instant) -> Vec<Effect> {
        let mut steps = Vec::new();
        for token in tokens {
            let Some(id) = self.id_of(*token, done) else { continue };
            let Some(read) = self.reads.get_mut(&id) else { continue };
            read.withdrawn = true;
            match &mut read.primary {
                None => self.finish(id, Err(PageErrorKind::Withdrawn), now, &mut steps),
                Some(primary) => {
                    primary.withdrawn = Some(now);
                    let server = primary.server;
                    steps.push(Effect::Withdraw {
                        server,
                        done: read.dones[server].clone(),
                        token: token_of(id, false),
                    });
                }
            }
        }
        steps
    }

    /// A server that was asked if it is back has answered, or has not.
    pub(super) fn probed(&mut self, server: usize, is_back: bool, now: Instant) {
        let member = &mut self.members[server];
        member.probed = false;
        if is_back {
            (member.still, member.heard) = (false, now);
        }
    }

    /// Looks at all reads under way: what is late is asked elsewhere, too; servers that are gone or stand still are
    /// passed over. `patience`: the longest time without any server. Returns the time until the next look; `None` if
    /// nothing is under way.
    pub(super) fn tick(&mut self, now: Instant, patience: Duration) -> (Vec<Effect>, Option<Duration>) {
        let mut steps = Vec::new();
        if self.is_idle() {
            return (steps, None);
        }
        self.look_at_members(now, &mut steps);
        self.repeat_withdrawals(now, &mut steps);
        let mut next = LONGEST_TICK;
        let ids: Vec<u64> = self.reads.keys().copied().collect();
        for id in ids {
            if let Some(due) = self.look_at(id, now, patience, &mut steps) {
                next = next.min(due);
            }
        }
        (steps, Some(next.max(SHORTEST_TICK)))
    }

    fn look_at_members(&mut self, now: Instant, steps: &mut Vec<Effect>) {
        let mut oldest: Vec<Option<Instant>> = vec![None; self.members.len()];
        let primaries = self.reads.values().filter_map(|read| read.primary.as_ref());
        let hedges = self.reads.values().filter_map(|read| read.hedge.as_ref());
        let hedges = hedges.filter(|hedge| !hedge.arrived).map(|hedge| &hedge.attempt);
        for attempt in primaries.chain(hedges).chain(self.orphans.values().map(|orphan| &orphan.attempt)) {
            let known = &mut oldest[attempt.server];
            *known = Some(known.map_or(attempt.since, |known| known.min(attempt.since)));
        }
        for (server, (member, oldest)) in self.members.iter_mut().zip(oldest).enumerate() {
            member.oldest = oldest;
            member.check_still(now);
            if member.is_gone() && !member.probed {
                member.probed = true;
                steps.push(Effect::Probe { server });
            }
        }
    }

    fn repeat_withdrawals(&mut self, now: Instant, steps: &mut Vec<Effect>) {
        let due = |attempt: &mut Attempt| {
            let is_due = attempt.withdrawn.is_some_and(|last| now.saturating_duration_since(last) >= AGAIN);
            if is_due {
                attempt.withdrawn = Some(now);
            }
            is_due.then_some(attempt.server)
        };
        for (id, read) in &mut self.reads {
            if let Some(server) = read.primary.as_mut().and_then(due) {
                steps.push(Effect::Withdraw { server, done: read.dones[server].clone(), token: token_of(*id, false) });
            }
        }
        for (id, orphan) in &mut self.orphans {
            if let Some(server) = due(&mut orphan.attempt) {
                steps.push(Effect::Withdraw { server, done: orphan.done.clone(), token: token_of(*id, true) });
            }
        }
    }

    /// Looks at one read. Returns the time until it is late.
    fn look_at(&mut self, id: u64, now: Instant, patience: Duration, steps: &mut Vec<Effect>) -> Option<Duration> {
        let read = self.reads.get_mut(&id)?;
        let len = read.len();
        let primary = read.primary.as_mut()?;
        let server = primary.server;
        let member = &self.members[server];
        let is_gone = member.is_gone();
        let (file, without) = (&read.file, read.failed | 1 << server);
        let other = || least_loaded(&self.members, file, without, now);
        let may_hedge = read.class == ReadClass::Demand && read.hedge.is_none() && !read.withdrawn;
        let may_hedge = may_hedge && self.hedged + len <= MOST_HEDGED;
        match (is_gone, is_gone.then(other).flatten()) {
            (true, None) => {
                let since = *read.trouble.get_or_insert(now);
                if now.saturating_duration_since(since) >= patience {
                    // It ends as soon as its server lets go of its buffers.
                    read.failed = !0;
                    Self::leave(id, read, now, steps);
                }
                None
            }
            (true, Some(other)) => {
                let stay = FIRST_STAY * 2u32.saturating_pow(read.moves.min(10));
                let is_lost = self.members[server].lost.is_some();
                match primary.withdrawn {
                    None if is_lost || now.saturating_duration_since(primary.since) >= stay => {
                        read.moves += 1;
                        Self::leave(id, read, now, steps);
                    }
                    // Its server does not let go of its buffers.
                    Some(_) if may_hedge => self.hedge(id, other, now, steps),
                    _ => {}
                }
                None
            }
            (false, _) => {
                read.trouble = None;
                if primary.withdrawn.is_some() || !may_hedge {
                    return None;
                }
                let late = self.latencies.hedge_after(len as u64);
                let age = now.saturating_duration_since(read.clock.max(primary.since));
                if age < late {
                    return Some(late - age);
                }
                let other = least_loaded(&self.members, &read.file, without, now)?;
                if self.budget.spend() {
                    self.hedge(id, other, now, steps);
                }
                None
            }
        }
    }

    /// Takes a read away from its server.
    fn leave(id: u64, read: &mut SpreadRead, now: Instant, steps: &mut Vec<Effect>) {
        let Some(primary) = read.primary.as_mut().filter(|primary| primary.withdrawn.is_none()) else { return };
        primary.withdrawn = Some(now);
        let server = primary.server;
        let (done, token) = (read.done.clone(), read.token);
        steps.push(Effect::Note { done, token, server, step: ReadStep::Withdrawn });
        steps.push(Effect::Withdraw { server, done: read.dones[server].clone(), token: token_of(id, false) });
    }
}
