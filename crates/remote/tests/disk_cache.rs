//! The disk cache before places that exist, at servers on this machine.

mod support;

use pager::error::PageErrorKind;
use pager::place::{self, FilePin, FileRef, Place};
use pager::source::{conformance, Buffer, Completion, Read, ReadClass};
use remote::disk_cache::{CachedPlace, DiskCache, DiskCacheOptions};
use remote::page_server::server::{Server as PageServer, ServerOptions};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;
use support::{ServedFile, Server, ServerFault};

fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(remote::register);
}

struct Scrap(PathBuf);

impl Drop for Scrap {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

fn scrap(name: &str) -> Scrap {
    Scrap(std::env::temp_dir().join(format!("farfield-cached-{name}-{}", std::process::id())))
}

struct Sent(Mutex<Sender<(u64, Result<(), PageErrorKind>)>>);

impl Completion for Sent {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        self.0.lock().unwrap().send((token, result)).unwrap();
    }
}

/// Reads pages of 10,000 bytes, all at once.
fn pages(place: &dyn Place, url: &str, pages: u64) -> Vec<Result<Vec<u8>, PageErrorKind>> {
    let file = FileRef { path: Path::new(url).into(), base: 0, pin: Arc::new(FilePin::default()) };
    let (tx, rx) = channel();
    let mut memory: Vec<Vec<u8>> = (0..pages).map(|_| vec![0; 10_000]).collect();
    let reads = memory.iter_mut().enumerate().map(|(n, bytes)| Read {
        token: n as u64,
        offset: n as u64 * 10_000,
        buffers: vec![Buffer { ptr: bytes.as_mut_ptr(), len: 10_000 }],
        class: ReadClass::Demand,
    });
    let done: Arc<dyn Completion> = Arc::new(Sent(Mutex::new(tx)));
    place.submit(&file, reads.collect(), &done);
    let mut results: Vec<_> = memory.iter().map(|_| Ok(())).collect();
    for _ in 0..pages {
        let (token, result) = rx.recv_timeout(Duration::from_secs(30)).unwrap();
        results[token as usize] = result;
    }
    results.into_iter().zip(memory).map(|(result, bytes)| result.map(|()| bytes)).collect()
}

/// One run: opens the cache, reads, and closes it again.
fn run(folder: &Scrap, url: &str, offline: bool) -> Vec<Result<Vec<u8>, PageErrorKind>> {
    run_and_count(folder, url, offline).0
}

/// As [`run`], with the number of hits.
fn run_and_count(folder: &Scrap, url: &str, offline: bool) -> (Vec<Result<Vec<u8>, PageErrorKind>>, u64) {
    let options = DiskCacheOptions { bytes: 64 << 20, keep_free_percent: 0, ..DiskCacheOptions::default() };
    let cache = DiskCache::open(&folder.0, options);
    let inner = place::of(Path::new(url)).unwrap().unwrap();
    let place = CachedPlace::new(inner, cache.clone(), offline);
    let found = pages(&place, url, 20);
    let hits = cache.counts().hits;
    assert_eq!(cache.take_notice(), None);
    drop(place);
    let mut cache = cache;
    // A reply's own thread may still have it for a moment.
    while let Err(shared) = Arc::try_unwrap(cache) {
        cache = shared;
        std::thread::sleep(Duration::from_millis(1));
    }
    (found, hits)
}

fn check(found: &[Result<Vec<u8>, PageErrorKind>], truth: &[u8]) {
    for (n, page) in found.iter().enumerate() {
        assert!(page.as_deref() == Ok(&truth[n * 10_000..(n + 1) * 10_000]), "page {n}: {:?}", page.as_ref().err());
    }
}

#[test]
fn a_second_run_asks_a_web_server_once() {
    register();
    let (folder, server) = (scrap("http"), Server::start());
    let truth = conformance::bytes(200_000);
    server.put("wing", ServedFile::new(truth.clone()));
    let url = server.url("wing?sig=secret");
    let mut asked = server.count();
    for (n, (offline, requests)) in [(false, 20), (false, 1), (false, 1), (true, 0)].into_iter().enumerate() {
        check(&run(&folder, &url, offline), &truth);
        assert_eq!(server.count() - asked, requests, "run {n}");
        asked = server.count();
    }
    // Another version, of the same size.
    let other: Vec<u8> = truth.iter().map(|b| !b).collect();
    server.put("wing", ServedFile { etag: Some("\"v2\"".into()), ..ServedFile::new(other.clone()) });
    check(&run(&folder, &url, false), &other);
    check(&run(&folder, &url, true), &other);
    // The first one again: its bytes are still there.
    server.put("wing", ServedFile::new(truth.clone()));
    asked = server.count();
    check(&run(&folder, &url, false), &truth);
    assert_eq!(server.count() - asked, 1);
    // A server that says no more than a size is never taken at its word.
    let url = server.put("bare", ServedFile { etag: None, modified: None, ..ServedFile::new(truth.clone()) });
    (0..2).for_each(|_| check(&run(&folder, &url, false), &truth));
    asked = server.count();
    check(&run(&folder, &url, false), &truth);
    assert!(server.count() - asked >= 20);
    // Refused: an error, although the bytes are here.
    server.faults(|_| ServerFault::Status(403, Vec::new()));
    let refused = run(&folder, &server.url("wing?sig=secret"), false);
    assert!(refused.iter().all(|page| matches!(page, Err(PageErrorKind::Unauthorized { .. }))), "{refused:?}");
}

#[test]
fn a_second_run_reads_nothing_of_a_page_server() {
    register();
    let (folder, data) = (scrap("pages"), scrap("pages-data"));
    std::fs::create_dir_all(&data.0).unwrap();
    let (truth, path) = (conformance::bytes(200_000), data.0.join("wing"));
    std::fs::write(&path, &truth).unwrap();
    let server = PageServer::start(ServerOptions {
        names: vec![("data".into(), data.0.clone())],
        listen: "127.0.0.1:0".into(),
        ..ServerOptions::default()
    });
    let server = server.unwrap();
    let url = format!("farfield+tcp://{}/data/wing", server.address());
    for hits in [0, 20, 20] {
        let (found, counted) = run_and_count(&folder, &url, false);
        check(&found, &truth);
        assert_eq!(counted, hits);
    }
    // Another version, of the same size.
    let other: Vec<u8> = truth.iter().map(|b| !b).collect();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, &other).unwrap();
    let (found, counted) = run_and_count(&folder, &url, false);
    check(&found, &other);
    assert_eq!(counted, 0);
    server.stop();
    check(&run(&folder, &url, true), &other);
}
