//! Limits: connections, credits, memory, slow clients, fair use.

use super::raw::Raw;
use super::support::*;
use crate::page_server::client::{ClientOptions, Credentials};
use crate::page_server::secure::Token;
use crate::page_server::server::{Patience, Server, ServerOptions};
use crate::page_server::wire::*;
use pager::place::{Place, PlaceFile};
use pager::source::ReadClass;
use pager::*;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn impatient() -> Patience {
    Patience {
        handshake: Duration::from_millis(300),
        hello: Duration::from_millis(300),
        reply: Duration::from_millis(500),
        idle: Duration::from_millis(1500),
        ..Patience::default()
    }
}

#[test]
fn slow_and_idle_connections_are_closed() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(1, 8 << 20)).unwrap();
    let server = Server::start(ServerOptions { patience: impatient(), ..options(&folder.0) }).unwrap();
    let begin = Instant::now();
    // Nothing; half a HELLO, byte by byte; half a request after HELLO; nothing after HELLO.
    let mut raws = vec![Raw::connect(server.address()), Raw::connect(server.address())];
    let mut drip = raws[1].socket.try_clone().unwrap();
    let dripping = std::thread::spawn(move || {
        let head = Request::new(Op::Hello, 1).bytes();
        head.iter()
            .take_while(|byte| {
                std::thread::sleep(Duration::from_millis(100));
                drip.write_all(std::slice::from_ref(*byte)).is_ok()
            })
            .count()
    });
    raws.push(Raw::greeted(server.address(), None));
    raws[2].socket.write_all(&[Op::Read as u8, 0, 0]).unwrap();
    raws.push(Raw::greeted(server.address(), None));
    for raw in &mut raws {
        assert!(raw.is_ended());
    }
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    assert!(dripping.join().unwrap() < 12);
    until("all are gone", Duration::from_secs(1), || server.status()["connections"] == 0);
    // Half a handshake.
    let (server, _) = (
        Server::start(ServerOptions {
            certificate: Some(crate::page_server::secure::Certificate::self_signed(&["localhost".into()]).unwrap()),
            patience: impatient(),
            ..options(&folder.0)
        })
        .unwrap(),
        0,
    );
    let mut raw = Raw::connect(server.address());
    raw.socket.write_all(&[0x16, 3, 1, 2, 0, 1, 0]).unwrap();
    assert!(raw.is_ended());
}

#[test]
fn replies_that_are_never_read_are_dropped() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(1, 8 << 20)).unwrap();
    let server = Server::start(ServerOptions { patience: impatient(), ..options(&folder.0) }).unwrap();
    let mut raw = Raw::greeted(server.address(), None);
    assert_eq!(raw.open("data/a", 0).unwrap().reply.state, State::Ok);
    for n in 0..2 {
        let request = Request { offset: n << 20, len: 8 << 20, ..Request::new(Op::Read, 0) };
        raw.send(request, &[]).unwrap();
    }
    until("the connection is closed", Duration::from_secs(5), || server.status()["connections"] == 0);
    assert!(server.status()["held"] == 0 && server.status()["slow"] == 1, "{}", server.status());
}

#[test]
fn what_was_not_granted_is_cut() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(1, 8 << 20)).unwrap();
    let server = Server::start(ServerOptions { rate: Some(1 << 20), ..options(&folder.0) }).unwrap();
    let mut raw = Raw::connect(server.address());
    let credits = Credits::parse(&raw.hello(None).unwrap().body).unwrap();
    raw.open("data/a", 0).unwrap();
    let request = Request { len: 1 << 20, ..Request::new(Op::Read, 0) };
    for _ in 0..credits.bytes / (1 << 20) + 1 {
        raw.send(request, &[]).unwrap();
    }
    let ended = (0..40).find_map(|_| raw.receive().ok().filter(|(told, _)| told.reply.state == State::Busy));
    assert!(ended.is_some() && raw.is_ended());
    let mut raw = Raw::greeted(server.address(), None);
    for _ in 0..=credits.requests {
        let request = Request { file: 1, len: 1, ..Request::new(Op::Read, 0) };
        if raw.send(request, &[]).is_err() {
            break;
        }
    }
    assert!(raw.is_ended());
    // A claimed length costs the server nothing.
    let mut raw = Raw::greeted(server.address(), None);
    let mut head = Request::new(Op::Read, 9).bytes();
    head[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    raw.socket.write_all(&head).unwrap();
    assert_eq!(raw.receive().unwrap().0.reply.state, State::BadRequest);
    let mut raw = Raw::greeted(server.address(), None);
    head[12..16].copy_from_slice(&[0; 4]);
    head[28..32].copy_from_slice(&u32::MAX.to_le_bytes());
    raw.socket.write_all(&head).unwrap();
    assert_eq!(raw.receive().unwrap().0.reply.state, State::BadRequest);
    assert!(raw.is_ended());
}

#[test]
fn requests_wait_for_memory_and_less_is_granted() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(1, 8 << 20)).unwrap();
    // One event loop with room for one of the longest replies.
    let little = ServerOptions { memory_limit: MOST_READ, rate: Some(1 << 40), ..options(&folder.0) };
    let server = Server::start(little).unwrap();
    let mut raws = [Raw::greeted(server.address(), None), Raw::greeted(server.address(), None)];
    for raw in &mut raws {
        raw.open("data/a", 0).unwrap();
    }
    // The first does not read its reply; the second waits for its memory, and hears that less is granted.
    raws[0].send(Request { len: 8 << 20, ..Request::new(Op::Read, 0) }, &[]).unwrap();
    until("the memory is taken", Duration::from_secs(5), || server.status()["held"].as_u64() >= Some(8 << 20));
    let (seq, _) = raws[1].send(Request { len: 1 << 20, ..Request::new(Op::Read, 0) }, &[]).unwrap();
    let (told, _) = raws[1].receive().unwrap();
    assert_eq!(told.reply.state, State::Granted);
    assert!(Credits::parse(&told.body).unwrap().requests < 512);
    assert_eq!(raws[0].receive().unwrap().0.body.len(), 8 << 20);
    let answer = (0..20).find_map(|_| raws[1].receive().ok().filter(|(told, _)| told.reply.seq == seq));
    assert_eq!(answer.unwrap().0.reply.state, State::Ok);
    let again = (0..20).map(|_| raws[1].receive().unwrap().0).find(|told| told.reply.state == State::Granted);
    assert!(Credits::parse(&again.unwrap().body).is_ok());
}

/// A client whose line is slow has requests waiting, and the memory is not short for that.
#[test]
fn a_slow_line_shrinks_no_credits() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(1, 8 << 20)).unwrap();
    // Each event loop has room for one of the longest replies.
    let server = Server::start(ServerOptions { memory_limit: 2 * MOST_READ, ..options(&folder.0) }).unwrap();
    let mut raw = Raw::greeted(server.address(), None);
    raw.open("data/a", 0).unwrap();
    let asked: Vec<u32> = (0..400)
        .map(|n| raw.send(Request { offset: n * 4096, len: 32 << 10, ..Request::new(Op::Read, 0) }, &[]).unwrap().0)
        .collect();
    // Longer than the server's looks at its memory.
    std::thread::sleep(Duration::from_millis(1200));
    let status = server.status();
    assert!(status["clients"][0]["under_way"].as_u64() > Some(50) && status["credits"] == 512, "{status}");
    for _ in &asked {
        assert_eq!(raw.receive().unwrap().0.reply.state, State::Ok);
    }
    until("nothing is under way", Duration::from_secs(2), || server.status()["clients"][0]["under_way"] == 0);
    assert!(server.prometheus().contains("farfield_client_requests_under_way{client=\"127.0.0.1\"} 0"));
}

#[test]
fn connections_are_limited_by_address_and_in_all() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(1, 100)).unwrap();
    let few = ServerOptions { max_connections_per_address: 3, ..options(&folder.0) };
    let server = Server::start(few).unwrap();
    let raws: Vec<Raw> = (0..3).map(|_| Raw::greeted(server.address(), None)).collect();
    assert!(Raw::connect(server.address()).hello(None).is_err());
    assert_eq!(server.status()["turned_away"], 1);
    drop(raws);
    until("room again", Duration::from_secs(2), || server.status()["connections"] == 0);
    Raw::greeted(server.address(), None);
}

#[test]
fn a_demand_overtakes_prefetches() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(1, 1 << 20)).unwrap();
    let server = Server::start(ServerOptions { rate: Some(4 << 20), ..options(&folder.0) }).unwrap();
    let mut raw = Raw::greeted(server.address(), None);
    raw.open("data/a", 0).unwrap();
    let ahead = Request { len: 32 << 10, urgency: Urgency::Prefetch, ..Request::new(Op::Read, 0) };
    let mut asked: Vec<u32> = (0..30).map(|_| raw.send(ahead, &[]).unwrap().0).collect();
    // One is withdrawn, one promoted, one comes too late.
    let (cancelled, promoted) = (asked[28], asked[29]);
    let cancel = raw.send(Request { file: cancelled, ..Request::new(Op::Cancel, 0) }, &[]).unwrap().0;
    let promote = raw.send(Request { file: promoted, ..Request::new(Op::Promote, 0) }, &[]).unwrap().0;
    let demand = raw.send(Request { urgency: Urgency::Demand, ..ahead }, &[]).unwrap().0;
    let late = raw.send(Request { deadline_ms: 1, ..ahead }, &[]).unwrap().0;
    asked.extend([cancel, promote, demand, late]);
    let order: Vec<Reply> = asked.iter().map(|_| raw.receive().unwrap().0.reply).collect();
    let place = |seq: u32| order.iter().position(|reply| reply.seq == seq).unwrap();
    let state = |seq: u32| order[place(seq)].state;
    assert!(place(demand) < 10 && place(promoted) < 10, "{} {}", place(demand), place(promoted));
    assert_eq!((state(cancelled), state(cancel), state(promote)), (State::Cancelled, State::Ok, State::Ok));
    assert_eq!(state(late), State::Late);
    assert!(order[33].queued > Duration::from_millis(100), "{order:?}");
}

#[test]
fn a_greedy_client_gets_its_share() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(1, 4 << 20)).unwrap();
    let tokens: Vec<Token> = (0..4).map(|_| Token::fresh().unwrap()).collect();
    let hashes = tokens.iter().enumerate().map(|(n, token)| (format!("client{n}"), token.hash()));
    let limited = ServerOptions { tokens: hashes.collect(), rate: Some(24 << 20), ..options(&folder.0) };
    let server = Server::start(limited).unwrap();
    let stop = AtomicBool::new(false);
    let got: Vec<AtomicU64> = tokens.iter().map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|s| {
        for (n, token) in tokens.iter().enumerate() {
            // The first asks for twenty times as much, on more connections.
            let threads = if n == 0 { 6 } else { 2 };
            for _ in 0..threads {
                let (stop, got, server) = (&stop, &got[n], &server);
                let depth = if n == 0 { 100 } else { 16 };
                s.spawn(move || {
                    let credentials = Credentials { token: Some(token.clone()), trust: None };
                    let place = place_at(server.address(), credentials, ClientOptions::default());
                    let file = file("a");
                    while !stop.load(SeqCst) {
                        let ranges: Vec<(u64, usize)> = (0..depth).map(|n| (n * 32_768 % (4 << 20), 32_768)).collect();
                        let results = read_as(&place, &file, &ranges, ReadClass::Demand);
                        assert!(results.iter().all(|(result, _)| result.is_ok()));
                        got.fetch_add(results.len() as u64, SeqCst);
                    }
                });
            }
        }
        std::thread::sleep(Duration::from_millis(300));
        let (begin, before) = (Instant::now(), served(&server));
        std::thread::sleep(Duration::from_millis(1500));
        let after = served(&server);
        let seconds = begin.elapsed().as_secs_f64();
        stop.store(true, SeqCst);
        let shares: Vec<f64> = before.iter().zip(&after).map(|(b, a)| (a - b) as f64).collect();
        let all: f64 = shares.iter().sum();
        let fair = all / 4.0;
        let rate = all / seconds / f64::from(24 << 20);
        assert!(rate > 0.5 && rate < 1.15, "{rate} of the rate");
        assert!(shares.iter().all(|share| *share > 0.7 * fair) && shares[0] < 1.3 * fair, "{shares:?}");
    });
}

fn served(server: &Server) -> Vec<u64> {
    let status = server.status();
    let mut clients: Vec<(String, u64)> = status["clients"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["name"].as_str().unwrap().to_owned(), c["bytes"].as_u64().unwrap()))
        .collect();
    clients.sort();
    clients.into_iter().map(|(_, bytes)| bytes).collect()
}

#[test]
fn many_threads_and_files_share_a_place() {
    let folder = folder();
    let truth: Vec<Vec<u8>> = (0..2000).map(|n| bytes(n, 500 + n as usize)).collect();
    for (n, bytes) in truth.iter().enumerate() {
        std::fs::write(folder.0.join(format!("f{n}")), bytes).unwrap();
    }
    let server = Server::start(ServerOptions { memory_limit: 8 << 20, ..options(&folder.0) }).unwrap();
    let place = place(&server);
    std::thread::scope(|s| {
        for t in 0..4 {
            let (place, truth) = (&place, &truth);
            s.spawn(move || {
                let mut rng = Rng(t);
                for _ in 0..400 {
                    let n = rng.below(2000) as usize;
                    let at = rng.below(400);
                    let file = file(&format!("f{n}"));
                    for (result, got) in read_all(place, &file, &[(at, 100), (0, 500)]) {
                        assert_eq!(result, Ok(()));
                        let at = if got.len() == 100 { at as usize } else { 0 };
                        assert!(got == truth[n][at..at + got.len()]);
                    }
                }
            });
        }
    });
    assert!(server.prometheus().contains("farfield_requests_total{op=\"read\"} 32"), "{}", server.prometheus());
}

#[test]
fn long_reads_and_long_names_go_through() {
    let folder = folder();
    let truth = bytes(1, 20 << 20);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let (server, credentials) = serve_by_tls(&folder.0);
    let place = place_at(server.address(), credentials, hasty());
    assert!(read(&place, &file("a"), 3, 17 << 20).unwrap() == truth[3..3 + (17 << 20)]);
    let past = read(&place, &file("a"), 3, 20 << 20);
    let short = PageErrorKind::Short { offset: 3, end: 3 + (20 << 20), have: 20 << 20 };
    assert_eq!(past, Err(short));
    let long = read(&place, &file(&"x".repeat(100_000)), 0, 1);
    assert!(matches!(long, Err(PageErrorKind::Denied(_))), "{long:?}");
    assert_eq!(read(&place, &file("a"), 0, 0), Ok(Vec::new()));
}

#[test]
fn a_stopping_server_finishes_what_it_owes() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(1, 1 << 20)).unwrap();
    let server = Server::start(ServerOptions { rate: Some(4 << 20), ..options(&folder.0) }).unwrap();
    let mut raw = Raw::greeted(server.address(), None);
    raw.open("data/a", 0).unwrap();
    for _ in 0..20 {
        raw.send(Request { len: 100_000, ..Request::new(Op::Read, 0) }, &[]).unwrap();
    }
    std::thread::sleep(Duration::from_millis(50));
    let ending = std::thread::spawn(move || {
        let begin = Instant::now();
        server.stop();
        assert!(begin.elapsed() < Duration::from_millis(2300), "{:?}", begin.elapsed());
    });
    let told: Vec<State> = (0..21).map_while(|_| raw.receive().ok()).map(|(told, _)| told.reply.state).collect();
    assert_eq!(told.iter().filter(|state| **state == State::Ok).count(), 20, "{told:?}");
    assert!(raw.is_ended());
    ending.join().unwrap();
}

/// Pages of 4,000 bytes, one after the other.
struct Plain(SourceId, u64);

impl PageMap for Plain {
    fn name(&self) -> &str {
        "plain"
    }
    fn pages(&self) -> u64 {
        self.1
    }
    fn page_bytes(&self, _: PageId) -> usize {
        4000
    }
    fn locate(&self, id: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        let extent = Extent { source: self.0, offset: id.page * 4000, len: 4000, to: ExtentTarget::Frame(0) };
        Located::Extents { segments: vec![extent], encoded_len: 0, scratch_len: 0, found: Box::default() }
    }
    fn decode(&self, _: PageId, _: &[u64], _: &[u8], _: &mut [u8], _: &mut [u8]) -> Result<(), PageError> {
        Ok(())
    }
    fn fill(&self, _: PageId, frame: &mut [u8]) {
        frame.fill(0);
    }
    fn checked(&self) -> bool {
        false
    }
}

#[test]
fn pages_come_through_the_pager() {
    let folder = folder();
    let truth = bytes(9, 4000 * 1000);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let server = serve(&folder.0);
    let place = place(&server);
    // A limit of half of the data.
    let pager = Pager::new(PagerConfig { limit: 2 << 20, ..PagerConfig::default() }).unwrap();
    let path = format!("farfield://{}/data/a", place.describe());
    let source = pager.add_source(Arc::new(PlaceFile::new(place.clone(), Path::new(&path))));
    let array = pager.add_array(Arc::new(Plain(source, 1000)));
    let mut worker = pager.worker();
    let mut rng = Rng(4);
    for _ in 0..200 {
        let first = rng.below(990);
        let pages: Vec<PageId> = (first..first + 10).map(|page| PageId::new(array, 0, page)).collect();
        let hold = pager.fetch(&pages).unwrap();
        worker.begin_step();
        for page in &pages {
            let Lookup::Here(bytes) = worker.page(*page) else { panic!("held, so it is here") };
            let at = page.page as usize * 4000;
            assert!(bytes == &truth[at..at + 4000]);
        }
        drop(hold);
    }
}
