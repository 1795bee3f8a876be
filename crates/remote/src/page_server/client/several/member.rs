//! One of several servers, as the choice between them sees it.

use super::super::rendezvous::score;
use super::copies::SpreadFile;
use std::time::{Duration, Instant};

/// Bytes of a block, which has a home of its own.
const BLOCK_BITS: u32 = 20;
/// Failures in a row after which a server is left out.
const MOST_FAILURES: u32 = 5;
/// The time for which it is left out; it doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The weight of a new latency, and of one that follows none for [`OLD`].
const NEW_SHARE: f64 = 1.0 / 8.0;
const OLD_SHARE: f64 = 1.0 / 2.0;
const OLD: Duration = Duration::from_secs(1);
/// Reads under way that double the expected wait.
const DOUBLING: f64 = 8.0;
/// The home of a block is passed by if its expected wait is so many times that of another server, and so much longer.
const MUCH: f64 = 3.0;
const MUCH_LONGER_S: f64 = 0.002;
/// A server that is passed by gets one read in so long a time, to see whether it is faster now.
const LET_IN: Duration = Duration::from_secs(1);
/// A server that owes reads stands still if nothing has come for so long, and for so many of its latencies.
const STILL: Duration = Duration::from_millis(100);
const STILL_TIMES: f64 = 10.0;
/// The same while its latency is unknown.
const STILL_UNKNOWN: Duration = Duration::from_secs(2);

pub(super) struct Member {
    /// For [`score`].
    key: u64,
    pub(super) in_flight: u32,
    /// Further reads that its window has room for.
    pub(super) room: i64,
    /// Smoothed, in seconds; `None`: unknown.
    latency: Option<f64>,
    sampled: Instant,
    /// When something came from it last.
    pub(super) heard: Instant,
    /// When the oldest read under way began.
    pub(super) oldest: Option<Instant>,
    failures: u32,
    out_until: Option<Instant>,
    let_in: Instant,
    /// Why no connection is up.
    pub(super) lost: Option<String>,
    /// Whether it stands still.
    pub(super) still: bool,
    /// Whether it is asked if it is back.
    pub(super) probed: bool,
}

impl Member {
    pub(super) fn new(key: u64, now: Instant) -> Self {
        Self {
            key,
            in_flight: 0,
            room: 1,
            latency: None,
            sampled: now,
            heard: now,
            oldest: None,
            failures: 0,
            out_until: None,
            let_in: now,
            lost: None,
            still: false,
            probed: false,
        }
    }

    /// Whether it has no connection, or stands still.
    pub(super) fn is_gone(&self) -> bool {
        self.lost.is_some() || self.still
    }

    /// Whether reads may go there.
    pub(super) fn is_usable(&self, now: Instant) -> bool {
        !self.is_gone() && self.out_until.is_none_or(|until| now >= until)
    }

    /// The expected wait for a read in seconds: the smoothed latency, longer with what is under way. A server that owes
    /// reads is as slow as its oldest one is old, and as it is silent.
    fn wait(&self, now: Instant) -> Option<f64> {
        let age = |since: Instant| now.saturating_duration_since(since).as_secs_f64();
        let silent = if self.in_flight > 0 { age(self.heard) } else { 0.0 };
        let least = self.oldest.map_or(0.0, age).max(silent);
        self.latency.map(|latency| latency.max(least) * (1.0 + f64::from(self.in_flight) / DOUBLING))
    }

    /// A read goes there.
    pub(super) fn begin(&mut self, now: Instant) {
        if self.in_flight == 0 {
            self.heard = now;
        }
        self.in_flight += 1;
        self.room -= 1;
        self.oldest.get_or_insert(now);
    }

    /// A read there has ended, however.
    pub(super) fn end(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.room += 1;
        if self.in_flight == 0 {
            self.oldest = None;
        }
    }

    /// A read was answered after so long.
    pub(super) fn answered(&mut self, took: Duration, now: Instant) {
        (self.heard, self.failures, self.out_until) = (now, 0, None);
        self.sample(took.as_secs_f64(), now);
    }

    /// A read was given up after so long: it would have taken longer.
    pub(super) fn given_up(&mut self, took: Duration, now: Instant) {
        if self.latency.is_none_or(|latency| took.as_secs_f64() > latency) {
            self.sample(took.as_secs_f64(), now);
        }
    }

    fn sample(&mut self, took: f64, now: Instant) {
        let share = if now.saturating_duration_since(self.sampled) > OLD { OLD_SHARE } else { NEW_SHARE };
        self.latency = Some(self.latency.map_or(took, |latency| latency + share * (took - latency)));
        self.sampled = now;
    }

    /// A read failed there.
    pub(super) fn failed(&mut self, now: Instant) {
        self.failures += 1;
        if let Some(more) = self.failures.checked_sub(MOST_FAILURES) {
            self.out_until = Some(now + (FIRST_PAUSE * 2u32.saturating_pow(more.min(8))).min(LONGEST_PAUSE));
        }
    }

    /// Sees whether it stands still.
    pub(super) fn check_still(&mut self, now: Instant) {
        let most = self.latency.map_or(STILL_UNKNOWN, |l| STILL.max(Duration::from_secs_f64(STILL_TIMES * l)));
        let silent = now.saturating_duration_since(self.heard);
        if self.oldest.is_some_and(|oldest| now.saturating_duration_since(oldest) > most) && silent > most {
            self.still = true;
        }
    }
}

/// A server for a read, and whether it may be used: with none that may, the home is the one to wait for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) server: usize,
    pub(super) usable: bool,
}

/// Chooses a server with a copy. `without`: servers that are not wanted, by bit.
pub(super) fn choose(
    members: &mut [Member],
    file: &SpreadFile,
    offset: u64,
    without: u64,
    now: Instant,
) -> Option<Choice> {
    let wanted = file.here() & !without;
    let with_copy = || (0..members.len()).filter(|server| wanted & 1 << server != 0);
    let heaviest = |server: &usize| score(members[*server].key, file.key, offset >> BLOCK_BITS);
    let usable = || with_copy().filter(|server| members[*server].is_usable(now));
    let Some(home) = usable().max_by_key(heaviest) else {
        return with_copy().max_by_key(heaviest).map(|server| Choice { server, usable: false });
    };
    let waits = usable().filter_map(|server| members[server].wait(now).map(|wait| (server, wait)));
    let least = waits.min_by(|(_, a), (_, b)| a.total_cmp(b));
    let much_later =
        |least: f64| members[home].wait(now).is_some_and(|w| w > least * MUCH && w > least + MUCH_LONGER_S);
    let server = match least {
        Some((server, wait)) if server != home && much_later(wait) => {
            if now.saturating_duration_since(members[home].let_in) >= LET_IN {
                members[home].let_in = now;
                home
            } else {
                server
            }
        }
        // A scan stays in one block for a while: without this the lines to the other servers are idle meanwhile.
        _ if members[home].room <= 0 => {
            let most = members[home].wait(now);
            let has_half = |server: &usize| {
                let member = &members[*server];
                member.room >= i64::from(member.in_flight.max(1)) && member.wait(now) <= most
            };
            usable().filter(has_half).max_by_key(heaviest).unwrap_or(home)
        }
        _ => home,
    };
    Some(Choice { server, usable: true })
}

/// The server with the least expected wait among those with a copy that may be used.
pub(super) fn least_loaded(members: &[Member], file: &SpreadFile, without: u64, now: Instant) -> Option<usize> {
    let wanted = file.here() & !without;
    let usable = (0..members.len()).filter(|server| wanted & 1 << server != 0 && members[*server].is_usable(now));
    usable.min_by(|a, b| {
        let wait = |server: usize| members[server].wait(now).unwrap_or(0.0);
        wait(*a).total_cmp(&wait(*b))
    })
}

/// Servers that count for the room of all: those that may be used, without those that are much slower than another.
pub(super) fn with_room(members: &[Member], now: Instant) -> u64 {
    let usable = || members.iter().enumerate().filter(|(_, member)| member.is_usable(now));
    let least = usable().filter_map(|(_, member)| member.wait(now)).min_by(f64::total_cmp).unwrap_or(0.0);
    let in_time = |wait: f64| wait <= least * MUCH || wait <= least + MUCH_LONGER_S;
    usable().filter(|(_, member)| member.wait(now).is_none_or(in_time)).fold(0, |bits, (n, _)| bits | 1 << n)
}

#[cfg(test)]
mod tests {
    use super::super::copies::SpreadFile;
    use super::*;

    #[test]
    fn reads_leave_a_home_that_is_full_slow_or_gone() {
        let now = Instant::now();
        let file = SpreadFile::anywhere("farfield://s/data/f".as_ref(), 3);
        let members = || -> Vec<Member> {
            let member = |n: u64| {
                let mut member = Member::new(n * 77, now);
                (member.latency, member.room) = (Some(0.01), 16);
                member
            };
            (0..3).map(member).collect()
        };
        let chosen =
            |members: &mut [Member], without| choose(members, &file, 0, without, now).map(|c| (c.server, c.usable));
        let home = chosen(&mut members(), 0).unwrap().0;
        let second = chosen(&mut members(), 1 << home).unwrap().0;
        // Full: to the next one, while that has half of its window free and is not slower.
        let mut full = members();
        full[home].room = 0;
        assert_eq!(chosen(&mut full, 0), Some((second, true)));
        full[second].latency = Some(0.011);
        assert_eq!(chosen(&mut full, 1 << (3 - home - second)), Some((home, true)));
        for member in &mut full {
            (member.in_flight, member.room) = (10, 0);
        }
        assert_eq!(chosen(&mut full, 0), Some((home, true)));
        // Much slower: to the fastest one, but for one read a second.
        let mut slow = members();
        (slow[home].latency, slow[second].latency) = (Some(0.2), Some(0.02));
        assert_eq!(chosen(&mut slow, 0), Some((3 - home - second, true)));
        let later = now + LET_IN;
        let at = |members: &mut [Member], now| choose(members, &file, 0, 0, now).map(|c| c.server);
        assert_eq!(at(&mut slow, later), Some(home));
        assert_eq!(at(&mut slow, later), Some(3 - home - second));
        assert_eq!(with_room(&slow, now), 7 & !(1 << home));
        // Gone: to the next one; all gone: the home is the one to wait for.
        let mut gone = members();
        gone[home].lost = Some("gone".into());
        assert_eq!(chosen(&mut gone, 0), Some((second, true)));
        gone.iter_mut().for_each(|member| member.still = true);
        assert_eq!(chosen(&mut gone, 0), Some((home, false)));
        assert_eq!(chosen(&mut gone, 7), None);
        // Five failures in a row leave it out for a second, an answer ends that.
        let mut failing = members();
        (0..5).for_each(|_| failing[home].failed(now));
        assert_eq!(chosen(&mut failing, 0), Some((second, true)));
        assert!(failing[home].is_usable(now + FIRST_PAUSE));
        failing[home].answered(Duration::from_millis(10), now);
        assert_eq!(chosen(&mut failing, 0), Some((home, true)));
    }
}
