//! Reads at servers: where the time of each went, and the course of some of them on both sides.
//!
//! The server says how long a request waited there and how long it worked on it. So no clocks are compared: what is
//! left of the round trip is the line's. The parts of a read add up to its time exactly.

use super::dist::{seconds, Dist};
use super::scan::Scan;
use pager::{Event, ServerStep};
use serde_json::{json, Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Most reads whose course is shown.
const SHOWN: usize = 48;
/// Most servers listed.
const SERVERS: usize = 100;
/// Most attempts of one read that are kept.
const ATTEMPTS: usize = 16;

/// The parts of a read, in their order: before it is sent, attempts that came to nothing, on the line, in the server's
/// queue, at work there, until the last byte.
const PARTS: [&str; 6] = ["waiting", "again", "line", "queue", "service", "receiving"];

/// A read under way.
struct AskedRead {
    began: u64,
    bytes: u64,
    /// When it was sent, to which server, on which connection.
    sent: Vec<(u64, u32, u32)>,
    /// The first byte of the last reply: when, from whom, the server's queue and service.
    came: Option<(u64, u32, u32, u64, u64)>,
}

/// The course of a read.
struct Course {
    server: u32,
    began: u64,
    /// In the order of [`PARTS`].
    parts: [u64; 6],
}

impl AskedRead {
    /// Its parts, if it was answered.
    fn course(&self, end: u64) -> Option<Course> {
        let (came, server, connection, queue, service) = self.came?;
        let first = self.sent.first().map_or(self.began, |(at, ..)| *at);
        let before = || self.sent.iter().rev().filter(|(at, ..)| *at <= came);
        let same = before().find(|(_, s, c)| (*s, *c) == (server, connection));
        let sent = same.or_else(|| before().find(|(_, s, _)| *s == server)).map_or(first, |(at, ..)| *at);
        let trip = came.saturating_sub(sent);
        let service = service.min(trip);
        let queue = queue.min(trip - service);
        let parts = [
            first.saturating_sub(self.began),
            sent.saturating_sub(first),
            trip - queue - service,
            queue,
            service,
            end.saturating_sub(came),
        ];
        Some(Course { server, began: self.began, parts })
    }
}

#[derive(Default)]
struct ServerReads {
    reads: u64,
    bytes: u64,
    /// Reads that ended without an answer of it.
    unanswered: u64,
    connections: BTreeSet<u32>,
    connecting: Dist,
    retried: u64,
    hedged: u64,
    withdrawn: u64,
    took: Dist,
    parts: [Dist; 6],
}

pub(super) struct Servers {
    /// Whether the log has any server.
    met: bool,
    from: u64,
    names: BTreeMap<u32, Arc<str>>,
    servers: BTreeMap<u32, ServerReads>,
    reads: HashMap<u64, AskedRead>,
    shown: Vec<Course>,
}

impl Servers {
    pub(super) fn new(scan: &Scan) -> Self {
        Self {
            met: scan.kinds.contains_key("at server"),
            from: scan.middle(SHOWN as u64 * 20).0,
            names: BTreeMap::new(),
            servers: BTreeMap::new(),
            reads: HashMap::new(),
            shown: Vec::new(),
        }
    }

    pub(super) fn event(&mut self, at: u64, event: &Event) {
        match event {
            Event::Server { server, name } => drop(self.names.insert(*server, name.clone())),
            Event::ReadStart { read, bytes, .. } if self.met => {
                self.reads.insert(*read, AskedRead { began: at, bytes: *bytes, sent: Vec::new(), came: None });
            }
            Event::AtServer { read, server, connection, did, wait_us, service_us } => {
                let of = self.servers.entry(*server).or_default();
                if *connection > 0 {
                    of.connections.insert(*connection);
                }
                match did {
                    ServerStep::Connected => of.connecting.add(*wait_us),
                    ServerStep::Retried => of.retried += 1,
                    ServerStep::Hedged => of.hedged += 1,
                    ServerStep::Withdrawn => of.withdrawn += 1,
                    ServerStep::Sent | ServerStep::FirstByte => {}
                }
                let Some(asked) = self.reads.get_mut(read) else { return };
                match did {
                    ServerStep::Sent if asked.sent.len() < ATTEMPTS => asked.sent.push((at, *server, *connection)),
                    ServerStep::FirstByte => asked.came = Some((at, *server, *connection, *wait_us, *service_us)),
                    _ => {}
                }
            }
            Event::ReadEnd { read, .. } => {
                let Some(asked) = self.reads.remove(read) else { return };
                match asked.course(at) {
                    Some(course) => self.ended(&asked, course),
                    None => {
                        if let Some((_, server, _)) = asked.sent.last() {
                            self.servers.entry(*server).or_default().unanswered += 1;
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn ended(&mut self, asked: &AskedRead, course: Course) {
        let of = self.servers.entry(course.server).or_default();
        of.reads += 1;
        of.bytes += asked.bytes;
        of.took.add(course.parts.iter().sum());
        of.parts.iter_mut().zip(course.parts).for_each(|(dist, us)| dist.add(us));
        if course.began >= self.from && self.shown.len() < SHOWN {
            self.shown.push(course);
        }
    }

    fn name(&self, server: u32) -> &str {
        self.names.get(&server).map_or("unnamed", |name| name)
    }

    /// The servers, those of the most bytes first.
    pub(super) fn json(&self) -> Value {
        let mut rows: Vec<(&u32, &ServerReads)> = self.servers.iter().collect();
        rows.sort_by_key(|(_, s)| std::cmp::Reverse(s.bytes));
        let row = |(n, s): &(&u32, &ServerReads)| {
            let parts: Map<String, Value> = PARTS.iter().zip(&s.parts).map(|(p, d)| ((*p).into(), d.json())).collect();
            json!({
                "name": self.name(**n), "reads": s.reads, "bytes": s.bytes, "unanswered": s.unanswered,
                "connections": s.connections.len().max(s.connecting.count() as usize), "connecting": s.connecting.json(),
                "retried": s.retried, "hedged": s.hedged, "withdrawn": s.withdrawn,
                "took": s.took.json(), "parts": parts,
            })
        };
        rows.iter().take(SERVERS).map(row).collect()
    }

    /// The courses of some reads: server, begin, and the six parts one after another, in seconds.
    pub(super) fn courses(&self) -> Value {
        let mut shown: Vec<&Course> = self.shown.iter().collect();
        shown.sort_by_key(|course| course.began);
        let course = |c: &&Course| {
            let parts: Vec<f64> = c.parts.iter().map(|us| seconds(*us)).collect();
            json!({"server": self.name(c.server), "begin_s": seconds(c.began), "parts_s": parts})
        };
        json!({"parts": PARTS, "reads": shown.iter().map(course).collect::<Vec<_>>()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pager::SourceId;

    fn at(read: u64, server: u32, did: ServerStep, wait_us: u64, service_us: u64) -> Event {
        Event::AtServer { read, server, connection: server + 1, did, wait_us, service_us }
    }

    /// What happens, and the parts of its reads.
    fn told(events: &[(u64, Event)]) -> Servers {
        let mut scan = Scan::default();
        events.iter().for_each(|(us, event)| scan.event(*us, 0, event));
        let mut servers = Servers::new(&scan);
        events.iter().for_each(|(us, event)| servers.event(*us, event));
        servers
    }

    fn start(read: u64) -> Event {
        Event::ReadStart { read, source: SourceId(0), offset: 0, bytes: 1000, segments: 1, depth: 1 }
    }

    #[test]
    fn the_parts_of_a_read_add_up_to_it() {
        use ServerStep::*;
        let end = |read| Event::ReadEnd { read, ok: true };
        let found = told(&[
            (0, Event::Server { server: 0, name: "a:1".into() }),
            (0, Event::Server { server: 1, name: "b:1".into() }),
            // A plain one.
            (10, start(1)),
            (15, at(1, 0, Connected, 3, 0)),
            (20, at(1, 0, Sent, 0, 0)),
            (90, at(1, 0, FirstByte, 30, 15)),
            (100, end(1)),
            // Asked of another one, which answers; its clock says more than the round trip took.
            (200, start(2)),
            (205, at(2, 0, Sent, 0, 0)),
            (240, at(2, 1, Hedged, 0, 0)),
            (245, at(2, 1, Sent, 0, 0)),
            (265, at(2, 1, FirstByte, 90, 12)),
            (270, end(2)),
            // Tried again.
            (300, start(3)),
            (310, at(3, 0, Sent, 0, 0)),
            (400, at(3, 0, Retried, 0, 0)),
            (450, at(3, 0, Sent, 0, 0)),
            (470, at(3, 0, FirstByte, 0, 0)),
            (490, end(3)),
            // Withdrawn without an answer.
            (500, start(4)),
            (501, at(4, 1, Sent, 0, 0)),
            (502, at(4, 1, Withdrawn, 0, 0)),
            (503, Event::ReadEnd { read: 4, ok: false }),
            // Of a local file.
            (600, start(5)),
            (601, end(5)),
        ]);
        let parts: Vec<[u64; 6]> = found.shown.iter().map(|course| course.parts).collect();
        assert_eq!(parts, [[10, 0, 25, 30, 15, 10], [5, 40, 0, 8, 12, 5], [10, 140, 20, 0, 0, 20]]);
        let times: Vec<u64> = parts.iter().map(|parts| parts.iter().sum()).collect();
        assert_eq!(times, [90, 70, 190]);
        let json = found.json();
        let of = |server: usize, what: &str| json[server][what].as_u64().unwrap();
        assert!(json[0]["name"] == "a:1" && json[1]["name"] == "b:1", "{json}");
        assert_eq!([of(0, "reads"), of(0, "bytes"), of(0, "connections"), of(0, "retried")], [2, 2000, 1, 1]);
        assert_eq!([of(1, "reads"), of(1, "hedged"), of(1, "withdrawn"), of(1, "unanswered")], [1, 1, 1, 1]);
        let sums: f64 = PARTS.iter().map(|part| json[0]["parts"][part]["total_s"].as_f64().unwrap()).sum();
        assert!((sums - json[0]["took"]["total_s"].as_f64().unwrap()).abs() < 1e-12, "{json}");
        assert_eq!(found.courses()["reads"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn a_log_without_servers_has_none() {
        let found = told(&[(10, start(1)), (20, Event::ReadEnd { read: 1, ok: true })]);
        assert!(found.json() == json!([]) && found.reads.is_empty() && found.courses()["reads"] == json!([]));
    }
}
