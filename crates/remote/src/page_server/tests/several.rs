//! Several servers together: one of them killed, stopped, slow, with other files, or with a line that flips bits.

use super::proxy::{calm, flip, Disturb, Proxy};
use super::support::*;
use crate::page_server::client::{ClientOptions, Credentials, SeveralServers};
use crate::page_server::secure::{Fingerprint, Trust};
use crate::page_server::server::Server;
use pager::place::{FileRef, FoundExtent, IndexedExtent, Place};
use pager::source::{Buffer, Completion, Read, ReadClass};
use pager::PageErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LEN: usize = 24 << 20;
const PAGE: usize = 16 << 10;

fn several(addresses: &[SocketAddr], options: ClientOptions, replicas: usize) -> SeveralServers {
    let hosts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let url = format!("farfield://{}/data", hosts.join(","));
    SeveralServers::open(&url, vec![Credentials::default(); addresses.len()], options, replicas).unwrap()
}

/// Reads pages at random places, so many at a time, and checks each. Returns the time and the failures.
fn load(
    place: &SeveralServers,
    file: &FileRef,
    truth: &[u8],
    count: u64,
    depth: usize,
) -> (Duration, Vec<PageErrorKind>) {
    let (log, begun) = (Arc::new(Log::default()), Instant::now());
    let done: Arc<dyn Completion> = log.clone();
    let mut memory = vec![vec![0u8; PAGE]; depth];
    let mut rng = Rng(5);
    let mut places: Vec<(u64, u64)> = Vec::new();
    let (mut started, mut failed) = (0u64, Vec::new());
    let mut start = |slot: usize, memory: &mut [Vec<u8>], token: u64| {
        let offset = rng.below((truth.len() - PAGE) as u64);
        let buffers = vec![Buffer { ptr: memory[slot].as_mut_ptr(), len: PAGE }];
        place.submit(file, vec![Read { token, offset, buffers, class: ReadClass::Demand }], &done);
        (token, offset)
    };
    while started < count.min(depth as u64) {
        places.push(start(started as usize, &mut memory, started));
        started += 1;
    }
    for n in 0..count as usize {
        let (token, result) = log.wait(n + 1)[n].clone();
        let slot = places.iter().position(|(known, _)| *known == token).expect("a read ended twice");
        match result {
            Ok(()) => {
                let at = places[slot].1 as usize;
                assert!(memory[slot] == truth[at..at + PAGE], "wrong bytes");
            }
            Err(kind) => failed.push(kind),
        }
        if started < count {
            places[slot] = start(slot, &mut memory, started);
            started += 1;
        }
    }
    (begun.elapsed(), failed)
}

/// Copies a file as `cp -p` does.
fn copy_with_time(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
    let modified = std::fs::metadata(from).unwrap().modified().unwrap();
    std::fs::File::options().write(true).open(to).unwrap().set_modified(modified).unwrap();
}

fn read_requests(server: &Server) -> u64 {
    server.status()["requests"]["read"].as_u64().unwrap_or_else(|| panic!("{}", server.status()))
}

#[test]
fn the_same_bytes_from_two_and_three_servers() {
    const FILES: u64 = 8;
    let folder = folder();
    let truth = bytes(3, LEN);
    std::fs::write(folder.0.join("0"), &truth).unwrap();
    (1..FILES).for_each(|n| std::fs::hard_link(folder.0.join("0"), folder.0.join(n.to_string())).unwrap());
    let servers: Vec<Server> = (0..3).map(|_| serve(&folder.0)).collect();
    for count in 2..=3 {
        let addresses: Vec<SocketAddr> = servers[..count].iter().map(Server::address).collect();
        let place = several(&addresses, hasty(), 1);
        let before: Vec<u64> = servers.iter().map(read_requests).collect();
        for n in 0..FILES {
            let (_, failed) = load(&place, &file(&n.to_string()), &truth, 150, 16);
            assert!(failed.is_empty(), "{failed:?}");
        }
        let each: Vec<u64> = servers[..count].iter().zip(&before).map(|(s, b)| read_requests(s) - b).collect();
        let even = FILES * 150 / count as u64;
        assert!(each.iter().all(|n| (even * 3 / 4..even * 5 / 4).contains(n)), "{each:?}");
        assert!(each.iter().sum::<u64>() <= FILES * 150 * 106 / 100, "{each:?}");
    }
}

/// A line to each of three servers that delays what comes, and can be disturbed.
struct DelayedLines {
    _folder: TempFolder,
    truth: Vec<u8>,
    servers: Vec<Server>,
    proxies: Vec<Proxy>,
    /// Whether the line of the second server is slow.
    slow: Arc<AtomicBool>,
}

/// Time for up to 64 KiB of a line, and of a slow one.
const CHUNK: Duration = Duration::from_millis(2);
const SLOW_CHUNK: Duration = Duration::from_millis(40);

fn lines() -> DelayedLines {
    let folder = folder();
    let truth = bytes(3, LEN);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let servers: Vec<Server> = (0..3).map(|_| serve(&folder.0)).collect();
    let slow = Arc::new(AtomicBool::new(false));
    let proxies = servers.iter().enumerate().map(|(n, server)| {
        let slow = slow.clone();
        Proxy::new(server.address(), move |_| {
            let slow = slow.clone();
            let late: Disturb = Arc::new(move |_, _| {
                std::thread::sleep(if n == 1 && slow.load(SeqCst) { SLOW_CHUNK } else { CHUNK });
            });
            (calm(), late)
        })
    });
    let proxies = proxies.collect();
    DelayedLines { _folder: folder, truth, servers, proxies, slow }
}

/// Runs a load with healthy servers, then another one with a fault of the second server in its middle.
fn with_a_fault(fault: impl FnOnce(&DelayedLines) + Send) {
    let lines = lines();
    let addresses: Vec<SocketAddr> = lines.proxies.iter().map(|proxy| proxy.address).collect();
    let place = several(&addresses, hasty(), 1);
    let file = file("a");
    let (healthy, failed) = load(&place, &file, &lines.truth, 3000, 24);
    assert!(failed.is_empty(), "{failed:?}");
    let before: u64 = lines.servers.iter().map(read_requests).sum();
    let (hurt, failed) = std::thread::scope(|s| {
        s.spawn(|| {
            std::thread::sleep(healthy / 3);
            fault(&lines);
        });
        load(&place, &file, &lines.truth, 3000, 24)
    });
    assert!(failed.is_empty(), "{failed:?}");
    let requests = lines.servers.iter().map(read_requests).sum::<u64>() - before;
    let ratio = hurt.as_secs_f64() / healthy.as_secs_f64();
    eprintln!("{ratio:.2} of the healthy time {healthy:?}, {requests} requests for 3000 reads");
    // A third of the servers is gone for two thirds of the time.
    assert!(hurt < healthy.mul_f64(1.5) + Duration::from_secs(1), "{healthy:?} {hurt:?}");
    assert!(requests <= 3000 * 106 / 100, "{requests}");
    assert!(place.held_bytes() < 2000, "{}", place.held_bytes());
}

#[test]
fn one_of_three_is_killed() {
    with_a_fault(|lines| {
        lines.servers[1].stop();
        lines.proxies[1].cut();
    });
}

#[test]
fn one_of_three_stops() {
    with_a_fault(|lines| lines.proxies[1].held.store(true, SeqCst));
}

#[test]
fn one_of_three_is_twenty_times_slower() {
    with_a_fault(|lines| lines.slow.store(true, SeqCst));
}

#[test]
fn files_lie_at_some_of_the_servers() {
    let folders = [folder(), folder(), folder()];
    let servers: Vec<Server> = folders.iter().map(|folder| serve(&folder.0)).collect();
    let truth = bytes(3, 3 << 20);
    std::fs::write(folders[0].0.join("one"), &truth).unwrap();
    std::fs::write(folders[1].0.join("two"), &truth).unwrap();
    copy_with_time(&folders[1].0.join("two"), &folders[2].0.join("two"));
    let addresses: Vec<SocketAddr> = servers.iter().map(Server::address).collect();
    let place = several(&addresses, hasty(), 1);
    for name in ["one", "two"] {
        let (_, failed) = load(&place, &file(name), &truth, 100, 8);
        assert!(failed.is_empty(), "{failed:?}");
    }
    let (_, failed) = load(&place, &file("none"), &truth, 1, 1);
    assert_eq!(failed, [PageErrorKind::Missing]);
    let mut names: Vec<String> =
        place.list(Path::new("farfield://s/data"), 10).unwrap().into_iter().map(|entry| entry.name).collect();
    names.sort();
    assert_eq!(names, ["one", "two"]);
    // What is not at the servers that answer may be at the one that is gone.
    servers[2].stop();
    let (_, failed) = load(&place, &file("two"), &truth, 100, 8);
    assert!(failed.is_empty(), "{failed:?}");
    let fresh = several(&addresses, hasty(), 1);
    let (took, failed) = load(&fresh, &file("none"), &truth, 1, 1);
    let Err(PageErrorKind::Unreachable { server, last, .. }) = &failed.first().cloned().map_or(Ok(()), Err) else {
        panic!("{failed:?}")
    };
    assert!(*server == addresses[2].to_string() && last.contains("FARFIELD_REPLICAS"), "{server} {last}");
    assert!(took < Duration::from_secs(4), "{took:?}");
    let sure = several(&addresses, hasty(), 2);
    assert_eq!(load(&sure, &file("none"), &truth, 1, 1).1, [PageErrorKind::Missing]);
}

#[test]
fn different_files_of_one_name_are_refused() {
    let folders = [folder(), folder()];
    let servers: Vec<Server> = folders.iter().map(|folder| serve(&folder.0)).collect();
    std::fs::write(folders[0].0.join("a"), bytes(1, 5000)).unwrap();
    copy_with_time(&folders[0].0.join("a"), &folders[1].0.join("a"));
    let addresses: Vec<SocketAddr> = servers.iter().map(Server::address).collect();
    let place = several(&addresses, hasty(), 1);
    let truth = bytes(1, 20_000);
    std::fs::write(folders[1].0.join("a"), &truth).unwrap();
    let (_, failed) = load(&place, &file("a"), &truth, 1, 1);
    let Some(PageErrorKind::Differs { one, other }) = failed.first() else { panic!("{failed:?}") };
    assert!(one.contains("5000 bytes") && one.contains(&addresses[0].to_string()), "{one}");
    assert!(other.contains("20000 bytes") && other.contains(&addresses[1].to_string()), "{other}");
}

#[test]
fn a_server_with_a_bad_line_is_healed_by_another() {
    let folder = folder();
    let truth = bytes(7, LEN);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let servers: Vec<Server> = (0..2).map(|_| serve(&folder.0)).collect();
    // On each connection of the first one a bit of some reply flips.
    let bad = Proxy::new(servers[0].address(), |_| (calm(), flip((48 + 72 + 32 + 100) * 8)));
    let place = several(&[bad.address, servers[1].address()], hasty(), 1);
    let (_, failed) = load(&place, &file("a"), &truth, 300, 8);
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn all_dead_is_an_error_that_names_all() {
    let folder = folder();
    let truth = bytes(7, LEN);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let servers: Vec<Server> = (0..3).map(|_| serve(&folder.0)).collect();
    let addresses: Vec<SocketAddr> = servers.iter().map(Server::address).collect();
    let place = several(&addresses, hasty(), 1);
    let file = file("a");
    assert!(load(&place, &file, &truth, 100, 8).1.is_empty());
    servers.iter().for_each(Server::stop);
    let (took, failed) = load(&place, &file, &truth, 8, 8);
    assert!(took < hasty().network_timeout + Duration::from_secs(2), "{took:?}");
    assert_eq!(failed.len(), 8);
    for kind in &failed {
        let PageErrorKind::Unreachable { server, .. } = kind else { panic!("{kind:?}") };
        assert!(addresses.iter().all(|address| server.contains(&address.to_string())), "{server}");
    }
    // None was ever there.
    let place = several(&addresses, hasty(), 1);
    let begun = Instant::now();
    let (_, failed) = load(&place, &file, &truth, 1, 1);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert!(matches!(failed[..], [PageErrorKind::Unreachable { .. }]), "{failed:?}");
}

#[test]
fn one_of_several_pins_is_enough() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(7, 4000)).unwrap();
    let (one, first) = serve_by_tls(&folder.0);
    let (two, second) = serve_by_tls(&folder.0);
    let pin = |credentials: &Credentials| match credentials.trust {
        Some(Trust::Pinned(pin)) => pin,
        ref other => panic!("{other:?}"),
    };
    let trust = |pins: Vec<Fingerprint>| Some(Trust::PinnedToAny(pins));
    let both = vec![pin(&first), pin(&second)];
    let url = format!("farfield://{},{}/data", one.address(), two.address());
    let credentials = [&first, &second].map(|c| Credentials { token: c.token.clone(), trust: trust(both.clone()) });
    let place = SeveralServers::open(&url, credentials.to_vec(), hasty(), 1).unwrap();
    assert!(load(&place, &file("a"), &bytes(7, PAGE + 1)[..], 0, 1).1.is_empty());
    let (told, found) = std::sync::mpsc::channel();
    place.look(vec![super::support::url("a")], Box::new(move |all| told.send(all).unwrap()));
    assert_eq!(found.recv().unwrap()[0].as_ref().unwrap().version.size, 4000);
    // Only one of the two is believed: the other one's refusal is no silence.
    let credentials =
        [&first, &second].map(|c| Credentials { token: c.token.clone(), trust: trust(both[..1].to_vec()) });
    let place = SeveralServers::open(&url, credentials.to_vec(), hasty(), 1).unwrap();
    let (told, found) = std::sync::mpsc::channel();
    place.look(vec![super::support::url("a")], Box::new(move |all| told.send(all).unwrap()));
    let answer = &found.recv().unwrap()[0];
    assert!(
        matches!(answer, Err(PageErrorKind::Unauthorized { server, .. }) if *server == two.address().to_string()),
        "{answer:?}"
    );
}

/// The bytes of a shard: an extent of a kilobyte, then an index whose second entry names it.
fn shard() -> (Vec<u8>, Vec<u8>) {
    let extent = bytes(9, 1000);
    let mut shard = [&bytes(8, 77)[..], &extent].concat();
    for word in [u64::MAX, u64::MAX, 77, 1000] {
        shard.extend(word.to_le_bytes());
    }
    (shard, extent)
}

fn indexed(place: &SeveralServers, file: &FileRef) -> Result<FoundExtent, PageErrorKind> {
    let (told, found) = std::sync::mpsc::channel();
    let wanted = IndexedExtent { index_len: 32, at_end: true, entry: 16, longest: 4000 };
    assert!(place.indexed(file, &wanted, Box::new(move |answer| told.send(answer).unwrap())));
    found.recv_timeout(Duration::from_secs(10)).unwrap()
}

#[test]
fn an_extent_comes_with_its_index() {
    let (shard, extent) = shard();
    let folders = [folder(), folder(), folder()];
    let servers: Vec<Server> = folders.iter().map(|folder| serve(&folder.0)).collect();
    let names: Vec<String> = (0..12).map(|n| n.to_string()).collect();
    for (n, name) in names.iter().enumerate() {
        let first = folders[n % 3].0.join(name);
        std::fs::write(&first, &shard).unwrap();
        copy_with_time(&first, &folders[(n + 1) % 3].0.join(name));
    }
    let addresses: Vec<SocketAddr> = servers.iter().map(Server::address).collect();
    let place = several(&addresses, hasty(), 2);
    let check = |name: &str, file: &FileRef| {
        let found = indexed(&place, file).unwrap_or_else(|kind| panic!("{name}: {kind}"));
        assert_eq!(found.extent, Some((77, extent.clone())), "{name}");
        assert_eq!(found.index, shard[1077..], "{name}");
        assert_eq!(file.pin.expected(), Some(found.version));
    };
    for name in &names {
        let file = file(name);
        check(name, &file);
        // Where it is known which servers have the file, too.
        check(name, &file);
    }
    assert_eq!(indexed(&place, &file("none")), Err(PageErrorKind::Missing));
    servers[1].stop();
    names.iter().for_each(|name| check(name, &file(name)));
    // Of another version than the one that is wanted.
    let old = file("0");
    check("0", &old);
    std::fs::write(folders[0].0.join("0"), [&shard[..], b"more"].concat()).unwrap();
    let answer = indexed(&place, &old);
    assert!(matches!(answer, Err(PageErrorKind::Changed { .. })), "{answer:?}");
}
