//! A page server whose files lie at a web server: what it asks there, and what its clients are told.

mod support;

use pager::place::{self, PlaceFile};
use pager::source::ReadClass;
use pager::PageErrorKind;
use remote::page_server::client::{ClientOptions, Credentials, RemotePlace};
use remote::page_server::server::{OriginOptions, Server, ServerOptions};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;
use support::reads::{read, register};
use support::{ServedFile, ServerFault};

const CACHE: u64 = 32 << 20;

fn bytes(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u8).collect()
}

fn before(origin: &str, cache: u64) -> Server {
    register();
    let names = vec![("far".to_owned(), origin.into())];
    let origins = OriginOptions { cache, host: || None, ..OriginOptions::default() };
    let listen = "127.0.0.1:0".to_owned();
    Server::start(ServerOptions { names, listen, origins, ..ServerOptions::default() }).unwrap()
}

/// A source with a client and a pin of its own.
fn source(server: &Server, name: &str) -> Arc<PlaceFile> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let options = ClientOptions { network_timeout: Duration::from_secs(4), ..ClientOptions::default() };
    let url = format!("farfield://{}", server.address());
    let place = Arc::new(RemotePlace::open(&url, Credentials::default(), options).unwrap());
    // The pins of one opening are found by path.
    let unique = NUMBER.fetch_add(1, SeqCst);
    Arc::new(PlaceFile::new(place, Path::new(&format!("farfield://client{unique}/far{name}"))))
}

fn only(source: &PlaceFile, offset: u64, len: usize) -> Result<Vec<u8>, PageErrorKind> {
    let (result, bytes) = read(source, &[(offset, len)], ReadClass::Demand).remove(0);
    result.map(|()| bytes)
}

#[test]
fn ranges_are_asked_for_once_and_rounded_to_blocks() {
    let web = support::Server::start();
    let truth = bytes(1, 300_000);
    web.put("data/a b?#.bin", ServedFile::new(truth.clone()));
    let encoded = web.put("data/a%20b%3F%23.bin", ServedFile::new(truth.clone()));
    assert!(encoded.ends_with("%23.bin"));
    let server = before(&web.url("data"), CACHE);
    let ranges = [(5_000u64, 48_000usize), (100_000, 10), (299_990, 10)];
    for round in 0..2 {
        let source = source(&server, "/a b?#.bin");
        for ((at, len), (result, got)) in ranges.iter().zip(read(&*source, &ranges, ReadClass::Demand)) {
            assert_eq!(result, Ok(()), "{round}");
            assert_eq!(got, truth[*at as usize..*at as usize + len]);
        }
    }
    let mut asked: Vec<_> = web.asked.lock().unwrap().iter().filter_map(support::Asked::range).collect();
    asked.sort_unstable();
    assert_eq!(asked, [(4096, 53_247), (98_304, 102_399), (299_008, 299_999)]);
    assert!(web.asked.lock().unwrap().iter().all(|asked| asked.path == "/data/a%20b%3F%23.bin"));
}

#[test]
fn many_clients_cost_one_request() {
    let web = support::Server::start();
    let truth = bytes(2, 2 << 20);
    web.put("a", ServedFile::new(truth.clone()));
    web.faults(|asked| match asked.range() {
        Some(_) => ServerFault::Late(Duration::from_millis(150)),
        None => ServerFault::None,
    });
    let server = before(&web.url("a"), 0);
    std::thread::scope(|scope| {
        for n in 0..6u64 {
            let (server, truth) = (&server, &truth);
            scope.spawn(move || {
                let (at, len) = (8192 + n as usize * 100, 65_536 - n as usize * 200);
                assert!(only(&source(server, ""), at as u64, len).unwrap() == truth[at..at + len]);
            });
        }
    });
    let asked = web.asked.lock().unwrap().iter().filter(|asked| asked.range().is_some()).count();
    assert_eq!(asked, 1, "the ranges of all are in that of one");
}

#[test]
fn failures_of_the_origin_are_no_missing_files() {
    for (fault, said) in [
        (ServerFault::Status(403, vec![]), "refuses access"),
        (ServerFault::Status(500, vec![]), "cannot be reached"),
        (ServerFault::Whole, "wrong answer"),
        (ServerFault::Range(1, 1, 0), "wrong answer"),
        (ServerFault::Silence, "did not answer in time"),
    ] {
        let web = support::Server::start();
        let truth = bytes(3, 100_000);
        web.put("a", ServedFile::new(truth.clone()));
        let server = before(&web.url("a"), CACHE);
        let source = source(&server, "");
        assert_eq!(only(&source, 0, 8192).unwrap(), truth[..8192]);
        let told = fault.clone();
        web.faults(move |asked| if asked.range().is_some() { told.clone() } else { ServerFault::None });
        let failed = only(&source, 50_000, 100);
        let Err(kind) = &failed else { panic!("{fault:?}: bytes from nowhere") };
        assert!(matches!(kind, PageErrorKind::Unreachable { .. }), "{fault:?}: {kind:?}");
        assert!(kind.to_string().contains("the origin of 127.0.0.1") && kind.to_string().contains(said), "{kind}");
        assert_eq!(only(&source, 100, 8000).unwrap(), truth[100..8100], "what is here is served");
        web.faults(|_| ServerFault::None);
        assert_eq!(only(&source, 50_000, 100).unwrap(), truth[50_000..50_100]);
    }
}

#[test]
fn a_replaced_object_is_changed() {
    let web = support::Server::start();
    let (old, new) = (bytes(4, 100_000), bytes(5, 100_000));
    web.put("a", ServedFile::new(old.clone()));
    let server = before(&web.url("a"), CACHE);
    let first = source(&server, "");
    assert_eq!(only(&first, 0, 8192).unwrap(), old[..8192]);
    web.put("a", ServedFile { etag: Some("\"v2\"".into()), ..ServedFile::new(new.clone()) });
    assert_eq!(only(&first, 10, 8000).unwrap(), old[10..8010], "of the pinned version");
    assert!(matches!(only(&first, 50_000, 10), Err(PageErrorKind::Changed { .. })));
    assert!(matches!(only(&first, 10, 10), Err(PageErrorKind::Changed { .. })));
    assert!(only(&source(&server, ""), 0, new.len()).unwrap() == new);
    web.files.lock().unwrap().clear();
    let gone = only(&source(&server, ""), 0, new.len());
    assert!(gone.is_ok_and(|bytes| bytes == new), "what is here is served while its version is trusted");
    std::thread::sleep(Duration::from_millis(2100));
    assert_eq!(only(&source(&server, ""), 0, 10), Err(PageErrorKind::Missing));
}

#[test]
fn what_a_web_server_cannot_list_is_not_listed() {
    register();
    let web = support::Server::start();
    web.put("data/a", ServedFile::new(bytes(6, 10)));
    let server = before(&web.url("data"), CACHE);
    let listed = place::list(Path::new(&format!("farfield://{}/far", server.address())), 10);
    let Err(PageErrorKind::Unsupported(message)) = listed else { panic!("{listed:?}") };
    assert!(message.contains("cannot be listed"), "{message}");
    let roots = place::list(Path::new(&format!("farfield://{}", server.address())), 10).unwrap();
    assert_eq!((roots.len(), roots[0].name.as_str()), (1, "far"));
}
