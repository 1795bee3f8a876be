//! A thousand clients, honest, greedy, slow or silent.

use super::crowd::{connect_from, source, token, Apart, Crowd};
use super::raw::Raw;
use super::support::*;
use crate::page_server::server::{Patience, Server, ServerOptions};
use crate::page_server::wire::*;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

const PAGE: u32 = 16 << 10;

fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    sum * sum / (shares.len() as f64 * squares)
}

/// Shares of clients, of whom the last asks for 1,024 pages at a time, over two connections.
fn shares(clients: usize, depth: u32, rate: u64, time: Duration) {
    let folder = folder();
    let truth = bytes(1, 4 << 20);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let limit = 32 << 20;
    let server = Apart::start(&folder.0, &format!("{} {rate} {limit}", clients + 1));
    let base = server.memory("VmRSS");
    let mut crowd = Crowd::new(&truth, PAGE);
    for client in 0..clients {
        crowd.join(server.address, client, &token(client), "data/a", depth);
    }
    for _ in 0..2 {
        crowd.join(server.address, clients, &token(clients), "data/a", 512);
    }
    // The first round of all, so that nobody begins late.
    crowd.run(Duration::from_secs_f64(clients as f64 * 65_536.0 / rate as f64));
    crowd.take_shares(clients + 1);
    let begun = Instant::now();
    crowd.run(time);
    let shares = crowd.take_shares(clients + 1);
    let all: f64 = shares.iter().sum();
    let took = begun.elapsed().as_secs_f64();
    assert!(crowd.members.iter().all(|member| !member.ended), "a connection was cut");
    let fair = all / shares.len() as f64;
    let least = shares[..clients].iter().fold(f64::MAX, |least, share| least.min(*share)) / fair;
    let (jain, greedy) = (jain(&shares), shares[clients] / fair);
    let of_rate = all / took / rate as f64;
    let held = server.memory("VmHWM") - base;
    let most = limit + (clients + 2) * (64 << 10);
    println!(
        "{clients} clients and a greedy one: Jain {jain:.4}, least {least:.3}, greedy {greedy:.3}, {of_rate:.2} of the rate; \
         {} MiB of at most {} MiB",
        held >> 20,
        most >> 20
    );
    assert!(jain >= 0.95 && least >= 0.7 && greedy <= 1.2, "Jain {jain}, least {least}, greedy {greedy}");
    assert!(of_rate > 0.5, "{of_rate} of the rate");
    assert!(held <= most, "{held} bytes of {most}");
}

#[test]
fn a_greedy_client_among_many_gets_one_share() {
    // Some rounds of 64 KiB a client.
    let clients = in_soak(200, 1000) as usize;
    let rate = 64 << 20;
    shares(clients, 8, rate, Duration::from_secs_f64(clients as f64 * 10.0 * 65_536.0 / rate as f64));
}

/// Ends a thread beside a test, also one that fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// The time of each of many reads, one after another.
fn times(raw: &mut Raw, count: usize) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..count)
        .map(|n| {
            let begun = Instant::now();
            let read = Request { len: PAGE, offset: n as u64 * 512 % 100_000, ..Request::new(Op::Read, 0) };
            assert_eq!(raw.ask(read, &[]).unwrap().reply.state, State::Ok);
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times
}

#[test]
fn slow_connections_slow_nobody_else() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(1, 1 << 20)).unwrap();
    let each = in_soak(600, 1000) as usize;
    let soak = each == 1000;
    let patience = match soak {
        true => Patience::default(),
        false => Patience {
            handshake: Duration::from_millis(1500),
            hello: Duration::from_millis(1500),
            ..Patience::default()
        },
    };
    let server = Server::start(ServerOptions { patience, ..options(&folder.0) }).unwrap();
    let mut healthy = Raw::greeted(server.address(), None);
    healthy.open("data/a", 0).unwrap();
    let reads = if soak { 5000 } else { 1000 };
    let p99 = |times: &[Duration]| times[times.len() * 99 / 100];
    let idle = p99(&times(&mut healthy, reads));
    // Half of them say nothing, or half of a head; the others a byte a second.
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let attack = |from: usize| connect_from(source(from), server.address()).unwrap();
        let mut silent: Vec<TcpStream> = (0..each).map(|n| attack(n / 40)).collect();
        for socket in silent.iter_mut().step_by(2) {
            socket.write_all(&Request::new(Op::Hello, 1).bytes()[..20]).unwrap();
        }
        let mut dripping: Vec<TcpStream> = (0..each).map(|n| attack(100 + n / 40)).collect();
        let begun = Instant::now();
        let stop = &stop;
        let _end = StopAtEnd(stop);
        s.spawn(move || {
            let head = Request::new(Op::Hello, 1).bytes();
            for byte in head.iter().cycle() {
                for socket in &mut dripping {
                    // It may be closed already.
                    let _sent = socket.write_all(std::slice::from_ref(byte));
                    if stop.load(SeqCst) {
                        return;
                    }
                }
                std::thread::sleep(Duration::from_millis(if soak { 1000 } else { 200 }));
            }
        });
        // Times of a busy machine scatter: the best of three looks.
        let mut busy = Vec::new();
        for _ in 0..3 {
            busy.push(p99(&times(&mut healthy, reads)));
        }
        // Another one comes meanwhile, and is served.
        let came = Instant::now();
        let mut newcomer = Raw::greeted(server.address(), None);
        newcomer.open("data/a", 0).unwrap();
        times(&mut newcomer, 10);
        assert!(came.elapsed() < Duration::from_millis(900), "a newcomer waited {:?}", came.elapsed());
        let best = busy.iter().min().unwrap();
        println!("p99 idle {idle:?}, among {} slow connections {busy:?}", 2 * each);
        let slack = if soak { Duration::ZERO } else { Duration::from_millis(1) };
        assert!(*best <= idle * 2 + slack, "{busy:?} against {idle:?}");
        let most = Duration::from_secs(10).saturating_sub(begun.elapsed());
        until("the slow ones are closed", most, || server.status()["connections"].as_u64() <= Some(2));
        println!("all closed after {:?}: {}", begun.elapsed(), server.status());
        assert!(silent.iter_mut().all(|socket| {
            socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            super::raw::is_at_end(socket)
        }));
    });
    times(&mut healthy, 10);
    until("nothing is held", Duration::from_secs(2), || server.status()["held"] == 0);
}
