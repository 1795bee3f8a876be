//! Lines that break, bits that flip, servers that go, files that change.

use super::proxy::{calm, flip, Proxy};
use super::support::*;
use crate::page_server::client::{ClientOptions, Credentials};
use crate::page_server::server::{Server, ServerOptions};
use pager::place::FileRef;
use pager::source::{Buffer, Completion, Read, ReadClass};
use pager::PageErrorKind;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn a_flipped_bit_is_seen_and_healed() {
    let folder = folder();
    let truth = bytes(7, 40_000);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let server = serve(&folder.0);
    let trials = in_soak(60, 2000);
    let mut rng = Rng(11);
    let ranges: Vec<(u64, usize)> = (0..12).map(|n| (n * 3000, 1000 + n as usize)).collect();
    // Replies of HELLO, OPEN and twelve reads; requests of the same.
    let (down, up) = (48 + 72 + 12 * 1038, 32 + 10 + 32 + 6 + 12 * 32);
    for trial in 0..trials {
        let to_server = trial % 4 == 3;
        // Past HELLO: a flip there ends the connection before it begins.
        let bit = if to_server { 42 * 8 + rng.below((up - 42) * 8) } else { 48 * 8 + rng.below((down - 48) * 8) };
        let proxy = Proxy::new(server.address(), move |n| match (n, to_server) {
            (0, true) => (flip(bit as usize), calm()),
            (0, false) => (calm(), flip(bit as usize)),
            _ => (calm(), calm()),
        });
        let options = ClientOptions { connections: 1, ..hasty() };
        let place = place_at(proxy.address, Credentials::default(), options);
        let file = file("a");
        for ((at, len), (result, got)) in ranges.iter().zip(read_all(&place, &file, &ranges)) {
            assert_eq!(result, Ok(()), "trial {trial}, bit {bit}, to the server: {to_server}");
            assert!(got == truth[*at as usize..*at as usize + len], "trial {trial}: bit {bit} was believed");
        }
        assert!(proxy.connections.load(SeqCst) > 1, "trial {trial}: bit {bit} was not seen");
    }
}

#[test]
fn a_line_that_flips_bits_for_good_is_named() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(7, 4000)).unwrap();
    let server = serve(&folder.0);
    // A bit of the first read's bytes, on each connection.
    let proxy = Proxy::new(server.address(), |_| (calm(), flip((48 + 72 + 32 + 100) * 8)));
    let place = place_at(proxy.address, Credentials::default(), hasty());
    match read(&place, &file("a"), 0, 1000) {
        Err(PageErrorKind::Protocol { server, message }) => {
            assert_eq!(server, proxy.address.to_string());
            assert!(message.contains("checksum"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

/// Reads a file until told to stop, and hands over each result.
fn reading(
    place: &Arc<crate::page_server::client::RemotePlace>,
    file: &FileRef,
    len: usize,
    while_so: impl FnOnce(),
) -> Vec<Result<Vec<u8>, PageErrorKind>> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let reader = s.spawn(|| {
            let mut results = Vec::new();
            while !stop.load(SeqCst) {
                let ranges: Vec<(u64, usize)> = (0..16).map(|n| (n * 4096 % len as u64, 4096)).collect();
                results.extend(read_all(place, file, &ranges).into_iter().map(|(r, bytes)| r.map(|()| bytes)));
            }
            results
        });
        std::thread::sleep(Duration::from_millis(30));
        while_so();
        std::thread::sleep(Duration::from_millis(60));
        stop.store(true, SeqCst);
        reader.join().unwrap()
    })
}

#[test]
fn a_file_that_changes_is_never_mixed() {
    let folder = folder();
    let server = serve(&folder.0);
    let path = folder.0.join("a");
    let len = 64 << 10;
    type Change = fn(&std::path::Path);
    let changes: [(&str, Change); 4] = [
        ("replaced", |path| {
            std::fs::write(path.with_extension("new"), vec![2; 64 << 10]).unwrap();
            std::fs::rename(path.with_extension("new"), path).unwrap();
        }),
        ("truncated", |path| {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_len(10_000).unwrap();
        }),
        ("deleted", |path| std::fs::remove_file(path).unwrap()),
        ("written over", |path| {
            use std::os::unix::fs::FileExt;
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.write_all_at(&vec![2; 64 << 10], 0).unwrap();
        }),
    ];
    for (what, change) in changes {
        std::fs::write(&path, vec![1; len]).unwrap();
        // Times of files are those of the kernel's clock, which ticks.
        std::thread::sleep(Duration::from_millis(15));
        let place = place(&server);
        let old = file("a");
        let results = reading(&place, &old, len, || change(&path));
        let (mut good, mut failed) = (0, 0);
        for result in &results {
            match result {
                Ok(bytes) => {
                    assert!(bytes.iter().all(|b| *b == 1), "{what}: bytes of another version");
                    assert_eq!(failed, 0, "{what}: a version that is gone came back");
                    good += 1;
                }
                Err(PageErrorKind::Missing) if what == "deleted" => failed += 1,
                Err(PageErrorKind::Changed { was, is }) if what != "deleted" => {
                    assert!(was != is, "{was}");
                    failed += 1;
                }
                other => panic!("{what}: {other:?}"),
            }
        }
        assert!(good > 0 && failed > 0, "{what}: {good} {failed}");
        // A later opening sees the new version alone.
        let now = read(&place, &file("a"), 0, 1000);
        match what {
            "deleted" => assert_eq!(now, Err(PageErrorKind::Missing)),
            "truncated" => assert_eq!(now, Ok(vec![1; 1000])),
            _ => assert_eq!(now, Ok(vec![2; 1000])),
        }
        let _ = std::fs::remove_file(&path);
    }
    // The folder of the file is another one: its old file is as it was.
    let inner = folder.0.join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join("b"), [1; 100]).unwrap();
    let place = place(&server);
    let old = file("inner/b");
    assert_eq!(read(&place, &old, 0, 100), Ok(vec![1; 100]));
    std::fs::rename(&inner, folder.0.join("away")).unwrap();
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join("b"), [2; 100]).unwrap();
    let new = file("inner/b");
    new.pin.check(&place.look_one("inner/b").unwrap().version).unwrap();
    assert_eq!(read(&place, &new, 0, 100), Ok(vec![2; 100]));
    assert!(matches!(read(&place, &old, 0, 100), Err(PageErrorKind::Changed { .. })));
}

#[test]
fn a_server_that_comes_back_is_read_on() {
    let folder = folder();
    let truth = bytes(3, 1 << 20);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let server = serve(&folder.0);
    let address = server.address();
    let place = place_at(
        address,
        Credentials::default(),
        ClientOptions { network_timeout: Duration::from_secs(10), ..hasty() },
    );
    let file = file("a");
    assert_eq!(read(&place, &file, 0, 10).unwrap(), truth[..10]);
    std::thread::scope(|s| {
        let reader = s.spawn(|| {
            for n in 0..300u64 {
                let ranges: Vec<(u64, usize)> = (0..8).map(|m| ((n * 8 + m) * 401 % 1_000_000, 4000)).collect();
                for ((at, len), (result, got)) in ranges.iter().zip(read_all(&place, &file, &ranges)) {
                    assert_eq!(result, Ok(()));
                    assert!(got == truth[*at as usize..*at as usize + len]);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let mut server = Some(server);
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(150));
            drop(server.take());
            std::thread::sleep(Duration::from_millis(200));
            let again = ServerOptions { listen: address.to_string(), ..options(&folder.0) };
            server = Some(Server::start(again).unwrap());
        }
        reader.join().unwrap();
    });
}

#[test]
fn cut_lines_lose_no_read() {
    let folder = folder();
    let truth = bytes(3, 1 << 20);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let server = serve(&folder.0);
    let proxy = Proxy::new(server.address(), |_| (calm(), calm()));
    let place = place_at(proxy.address, Credentials::default(), hasty());
    let file = file("a");
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            for _ in 0..10 {
                std::thread::sleep(Duration::from_millis(40));
                proxy.cut();
            }
            stop.store(true, SeqCst);
        });
        let mut rng = Rng(1);
        while !stop.load(SeqCst) {
            let ranges: Vec<(u64, usize)> =
                (0..20).map(|_| (rng.below(1_000_000), 1 + rng.below(20_000) as usize)).collect();
            for ((at, len), (result, got)) in ranges.iter().zip(read_all(&place, &file, &ranges)) {
                assert_eq!(result, Ok(()));
                assert!(got == truth[*at as usize..*at as usize + len]);
            }
        }
    });
    assert!(proxy.connections.load(SeqCst) > 5);
}

#[test]
fn a_server_that_is_gone_is_unreachable_by_the_deadline() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(3, 1000)).unwrap();
    let server = serve(&folder.0);
    let address = server.address();
    let known = place_at(address, Credentials::default(), hasty());
    read(&known, &file("a"), 0, 10).unwrap();
    drop(server);
    // Known before: the network timeout. Never reached: the shorter one.
    for (place, least, most) in [(known, 2900, 4500), (place_at(address, Credentials::default(), hasty()), 900, 2000)] {
        let begin = Instant::now();
        match read(&place, &file("a"), 0, 10) {
            Err(PageErrorKind::Unreachable { server, tried, last }) => {
                assert_eq!(server, address.to_string());
                assert!(tried.contains("times in") && last.contains("farfield serve"), "{tried} {last}");
            }
            other => panic!("{other:?}"),
        }
        let took = begin.elapsed().as_millis();
        assert!(took >= least && took < most, "{took}");
        assert!(place.look_one("a").is_err());
    }
}

#[test]
fn an_outage_costs_the_deadline_once() {
    let folder = folder();
    let truth = bytes(3, 100_000);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let server = serve(&folder.0);
    let address = server.address();
    let place = place_at(
        address,
        Credentials::default(),
        ClientOptions { network_timeout: Duration::from_millis(600), ..hasty() },
    );
    read(&place, &file("a"), 0, 10).unwrap();
    drop(server);
    let begin = Instant::now();
    for n in 0..50 {
        let result = read(&place, &file("a"), n * 100, 10);
        assert!(matches!(result, Err(PageErrorKind::Unreachable { .. })), "{result:?}");
    }
    assert!(begin.elapsed() < Duration::from_millis(1600), "{:?}", begin.elapsed());
    // It is asked again after a while.
    let _server = Server::start(ServerOptions { listen: address.to_string(), ..options(&folder.0) }).unwrap();
    std::thread::sleep(Duration::from_millis(5100));
    until("it is read on", Duration::from_secs(8), || read(&place, &file("a"), 0, 10).is_ok_and(|b| b == truth[..10]));
}

impl crate::page_server::client::RemotePlace {
    fn look_one(&self, name: &str) -> Result<pager::place::FileStat, PageErrorKind> {
        let (told, answer) = std::sync::mpsc::channel();
        pager::place::Place::look(self, vec![url(name)], Box::new(move |found| told.send(found).unwrap()));
        answer.recv().unwrap().remove(0)
    }
}

#[test]
fn a_silent_server_is_left() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(3, 1000)).unwrap();
    let server = serve(&folder.0);
    let proxy = Proxy::new(server.address(), |_| (calm(), calm()));
    let place = place_at(
        proxy.address,
        Credentials::default(),
        ClientOptions { connect: Duration::from_millis(500), ..hasty() },
    );
    let file = file("a");
    read(&place, &file, 0, 10).unwrap();
    proxy.held.store(true, SeqCst);
    let begin = Instant::now();
    let result = read(&place, &file, 0, 10);
    assert!(matches!(result, Err(PageErrorKind::TimedOut { .. })), "{result:?}");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    proxy.held.store(false, SeqCst);
    // The failure of a server is forgotten after five seconds.
    until("it is read on", Duration::from_secs(8), || read(&place, &file, 0, 10).is_ok());
}

#[test]
fn each_read_ends_once_when_the_client_closes() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(3, 1 << 20)).unwrap();
    let server = serve(&folder.0);
    for wait in [0, 1, 3] {
        let place = place(&server);
        let log = Arc::new(Log::default());
        let mut memory = vec![vec![0; 10_000]; 200];
        let reads = memory.iter_mut().enumerate().map(|(n, m)| Read {
            token: n as u64,
            offset: n as u64 * 4000,
            buffers: vec![Buffer { ptr: m.as_mut_ptr(), len: m.len() }],
            class: if n % 3 == 0 { ReadClass::Prefetch } else { ReadClass::Demand },
        });
        pager::place::Place::submit(&*place, &file("a"), reads.collect(), &(log.clone() as Arc<dyn Completion>));
        std::thread::sleep(Duration::from_millis(wait));
        place.close();
        let results = log.wait(200);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(log.count(), 200);
        for (_, result) in results {
            assert!(matches!(result, Ok(()) | Err(PageErrorKind::Unreachable { .. })), "{result:?}");
        }
        // Nothing is started afterwards.
        assert!(matches!(read(&place, &file("a"), 0, 10), Err(PageErrorKind::Unreachable { .. })));
    }
}
