//! Ends that do not speak the protocol: clients to a server, servers to a client.

use super::raw::Raw;
use super::support::*;
use crate::page_server::client::{ClientOptions, Credentials};
use crate::page_server::secure::Certificate;
use crate::page_server::server::{Server, ServerOptions};
use crate::page_server::wire::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A request that is right, or nearly so.
fn nearly(rng: &mut Rng) -> Vec<u8> {
    let op = Op::ALL[rng.below(Op::ALL.len() as u64) as usize];
    let mut body = match rng.below(6) {
        0 => Vec::new(),
        1 => b"data/a".to_vec(),
        2 => Hello { version: VERSION, token: None }.bytes(),
        3 => {
            Via { index_offset: rng.below(200), index_len: 16, slot: 0, base: rng.next(), from_end: rng.below(2) == 0 }
                .bytes()
        }
        4 => bytes(rng.next(), rng.below(2000) as usize),
        _ => {
            let mut body = Vec::new();
            write_ranges(&mut body, (0..rng.below(5)).map(|n| Range { offset: n * 100, len: rng.below(100) as u32 }));
            body
        }
    };
    let long = |rng: &mut Rng| if rng.below(3) == 0 { rng.next() } else { rng.below(10_000) };
    let request = Request {
        urgency: Urgency::ALL[rng.below(2) as usize],
        file: long(rng) as u32 % 2000,
        len: (long(rng) as u32).min(MOST_READ as u32),
        offset: long(rng),
        deadline_ms: rng.below(50) as u32,
        body: body.len() as u32,
        ..Request::new(op, rng.below(20) as u32)
    };
    let mut out = request.bytes().to_vec();
    out.append(&mut body);
    match rng.below(8) {
        0 => (0..1 + rng.below(4)).for_each(|_| {
            let at = rng.below(out.len() as u64) as usize;
            out[at] ^= 1 << rng.below(8);
        }),
        1 => out.truncate(rng.below(out.len() as u64) as usize),
        _ => {}
    }
    out
}

/// One client that sends what it likes, and leaves as it likes.
fn nonsense(rng: &mut Rng, server: &Server) {
    let mut raw = Raw::connect(server.address());
    raw.socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    if rng.below(3) > 0 && raw.hello(None).is_ok() && rng.below(3) > 0 {
        let _opened = raw.open("data/a", 0);
    }
    for _ in 0..rng.below(30) {
        let out = if rng.below(10) == 0 { bytes(rng.next(), rng.below(300) as usize) } else { nearly(rng) };
        let (first, second) = out.split_at(rng.below(out.len() as u64 + 1) as usize);
        if raw.socket.write_all(first).and_then(|()| raw.socket.write_all(second)).is_err() {
            break;
        }
    }
    if rng.below(2) == 0 {
        let mut taken = vec![0; 1 + rng.below(100_000) as usize];
        let _some = raw.socket.read(&mut taken);
    }
}

#[test]
fn clients_that_send_anything_harm_nobody() {
    let folder = folder();
    let truth = bytes(1, 50_000);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    for tls in [false, true] {
        let many = ServerOptions {
            certificate: tls.then(|| Certificate::self_signed(&["localhost".into()]).unwrap()),
            ..options(&folder.0)
        };
        let server = Server::start(many).unwrap();
        let begun = Instant::now();
        // With TLS all of it is nonsense, at once.
        let count = in_soak(400, 40_000) / if tls { 4 } else { 1 };
        std::thread::scope(|s| {
            for thread in 0..4 {
                let (server, truth) = (&server, &truth);
                s.spawn(move || {
                    let mut rng = Rng(thread + 100);
                    for n in 0..count / 4 {
                        nonsense(&mut rng, server);
                        if n % 20 == 0 && !tls {
                            let mut good = Raw::greeted(server.address(), None);
                            good.open("data/a", 3).unwrap();
                            let at = rng.below(40_000);
                            let read = Request { file: 3, offset: at, len: 9000, ..Request::new(Op::Read, 0) };
                            assert!(good.ask(read, &[]).unwrap().body == truth[at as usize..at as usize + 9000]);
                        }
                    }
                });
            }
        });
        until("all are gone", Duration::from_secs(10), || server.status()["connections"] == 0);
        let status = server.status();
        println!("{count} clients in {:?}: {status}", begun.elapsed());
        assert!(status["held"] == 0 && (tls || status["faults"].as_u64() > Some(10)), "{status}");
    }
}

/// Takes one request; its head and body.
fn take(socket: &mut TcpStream) -> Option<(Request, [u8; HEAD], Vec<u8>)> {
    let mut head = [0; HEAD];
    socket.read_exact(&mut head).ok()?;
    let request = Request::parse(&head).ok()?;
    let mut body = vec![0; request.body as usize];
    socket.read_exact(&mut body).ok()?;
    Some((request, head, body))
}

/// Answers one connection, rightly but for some replies.
fn answer(mut socket: TcpStream, rng: &mut Rng, truth: &[u8], evil: &AtomicU64) {
    let stat = RemoteStat { kind: RemoteKind::File, size: truth.len() as u64, modified_ns: 5, version: [7; 16] };
    while let Some((request, head, body)) = take(&mut socket) {
        let told = match request.op {
            Op::Hello => Credits { requests: 64, files: 16, bytes: 8 << 20 }.bytes(),
            Op::Open => stat.bytes().to_vec(),
            Op::Read => truth[request.offset as usize..][..request.len as usize].to_vec(),
            _ => Vec::new(),
        };
        let mut reply = Reply::new(request.seq, State::Ok, told.len());
        reply.version = if request.op == Op::Hello { 0 } else { stat.digest() };
        let mut out = reply.sealed(seed(&head, &body), [&told[..]]).to_vec();
        out.extend(&told);
        if rng.below(12) == 0 {
            evil.fetch_add(1, SeqCst);
            let sealed = |reply: &Reply, body: &[u8]| [&reply.sealed(seed(&head, &[]), [body])[..], body].concat();
            match rng.below(9) {
                // Another state, with a right checksum and any body.
                0 => {
                    let other = |state: &State| !matches!(state, State::Ok | State::Unauthorized);
                    let states: Vec<State> = State::ALL.iter().copied().filter(other).collect();
                    let state = states[rng.below(states.len() as u64) as usize];
                    let told = bytes(rng.next(), rng.below(100) as usize);
                    out =
                        sealed(&Reply { version: reply.version, ..Reply::new(request.seq, state, told.len()) }, &told);
                }
                // An answer to nothing; the same answer twice.
                1 => out = sealed(&Reply::new(rng.next() as u32, State::Ok, 0), &[]),
                2 => out = [&out[..], &out[..]].concat(),
                // A claim of much that does not come.
                3 => {
                    out[8..12].copy_from_slice(&(MOST_TOLD as u32).to_le_bytes());
                    out[12..16].copy_from_slice(&(MOST_TOLD as u32).to_le_bytes());
                }
                4 => {
                    out[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
                    out[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
                }
                // The bytes of another place or version, with a right checksum of their own request.
                5 => out = sealed(&Reply { version: 77, ..reply }, &told),
                // No credits at all; any bytes; an end.
                6 => {
                    let none = Credits { requests: 0, files: 0, bytes: 0 }.bytes();
                    let granted = Reply::new(u32::MAX, State::Granted, none.len()).sealed(0, [&none[..]]);
                    out = [&granted[..], &none, &out].concat();
                }
                7 => out = bytes(rng.next(), 1 + rng.below(500) as usize),
                _ => out.truncate(rng.below(out.len() as u64) as usize),
            }
        }
        if socket.write_all(&out).is_err() {
            return;
        }
    }
}

#[test]
fn servers_that_answer_anything_are_never_believed() {
    let truth = Arc::new(bytes(9, 60_000));
    let evil = Arc::new(AtomicU64::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (known, count) = (truth.clone(), evil.clone());
    std::thread::spawn(move || {
        for (n, socket) in listener.incoming().enumerate() {
            let (truth, evil) = (known.clone(), count.clone());
            std::thread::spawn(move || answer(socket.unwrap(), &mut Rng(n as u64), &truth, &evil));
        }
    });
    let before = resident();
    let (good, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|s| {
        for thread in 0..4u64 {
            let (truth, good, failed) = (&truth, &good, &failed);
            s.spawn(move || {
                let mut rng = Rng(thread + 5);
                for _ in 0..in_soak(12, 1000) {
                    let options = ClientOptions { network_timeout: Duration::from_millis(1500), ..hasty() };
                    let place = place_at(address, Credentials::default(), options);
                    let file = file("a");
                    let ranges: Vec<(u64, usize)> =
                        (0..20).map(|_| (rng.below(50_000), 1 + rng.below(9000) as usize)).collect();
                    let begun = Instant::now();
                    for ((at, len), (result, got)) in ranges.iter().zip(read_all(&place, &file, &ranges)) {
                        match result {
                            Ok(()) => {
                                assert!(got == truth[*at as usize..*at as usize + len], "wrong bytes were believed");
                                good.fetch_add(1, SeqCst);
                            }
                            Err(_) => {
                                failed.fetch_add(1, SeqCst);
                            }
                        }
                    }
                    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
                }
            });
        }
    });
    let grown = resident().saturating_sub(before);
    println!("{good:?} good, {failed:?} failed, {evil:?} evil replies, {} MiB more", grown >> 20);
    assert!(good.into_inner() > 100 && evil.load(SeqCst) > 20);
    assert!(grown < 200 << 20, "{grown}");
}

fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() << 12
}
