//! Reads, checks and lists over HTTP, from a server on this machine.

mod support;

use pager::error::PageErrorKind;
use pager::place::{self, FileKind, FilePin, FileRef, TailRead};
use pager::source::{conformance, Buffer, Completion, Read, ReadClass, Source};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::reads::{read, register, source};
use support::{Handler, ServedFile, Server, ServerFault};

fn stat(url: &str) -> Result<place::FileStat, PageErrorKind> {
    place::stat(&[PathBuf::from(url)]).remove(0)
}

#[test]
fn a_file_of_a_web_server_is_a_source() {
    register();
    let server = Server::start();
    let number = AtomicUsize::new(0);
    conformance::check(|bytes| {
        let name = format!("f{}", number.fetch_add(1, SeqCst));
        source(&server.put(&name, ServedFile::new(bytes)))
    });
}

#[test]
fn places_are_one_a_server() {
    register();
    let of = |url: &str| place::of(Path::new(url)).unwrap().unwrap();
    assert!(Arc::ptr_eq(&of("http://h:80/a"), &of("http://h/b?x")));
    assert!(!Arc::ptr_eq(&of("http://h/a"), &of("https://h/a")));
    assert!(!Arc::ptr_eq(&of("http://me:1@h/a"), &of("http://h/a")));
    assert_eq!(of("http://me:secret@h/a?sig=secret").describe(), "http://h:80");
    assert!(place::of(Path::new("http:///a")).is_err());
}

#[test]
fn names_are_files_folders_or_missing() {
    register();
    let server = Server::start();
    let file = server.put("wing.zarr/c/0/0", ServedFile::new(vec![1; 10]));
    server.put("wing.zarr/zarr.json", ServedFile::new(b"{}".to_vec()));
    let found = stat(&file).unwrap();
    assert_eq!((found.kind, found.version.size, &*found.version.tag), (FileKind::File, 10, "\"v1\""));
    assert_eq!(found.modified_ns, 784_111_777_000_000_000);
    assert_eq!(stat(&server.url("wing.zarr")).unwrap().kind, FileKind::Folder);
    assert_eq!(stat(&server.url("wing.zarr/")).unwrap().kind, FileKind::Folder);
    assert_eq!(stat(&server.url("none")), Err(PageErrorKind::Missing));
    // One document tells that a store is there. The others are asked for at the same time, and may come later.
    let mut before = 0;
    while server.count() != std::mem::replace(&mut before, server.count()) {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(stat(&server.url("wing.zarr/c/0/1")), Err(PageErrorKind::Missing));
    assert_eq!(server.count() - before, 1, "a chunk is no folder");
    let listed = place::list(Path::new(&server.url("wing.zarr?sig=secret")), 10);
    let Err(PageErrorKind::Unsupported(message)) = listed else { panic!("{listed:?}") };
    assert!(message.contains("@names.txt") && !message.contains("secret"), "{message}");
    assert!(!source(&format!("{file}?sig=secret")).describe().contains("secret"));
    // Many at once.
    let names: Vec<PathBuf> = (0..200).map(|n| server.url(&format!("wing.zarr/c/0/{n}")).into()).collect();
    let found = place::stat(&names);
    assert!(found[0].is_ok() && found[1..].iter().all(|f| *f == Err(PageErrorKind::Missing)));
}

#[test]
fn a_server_without_head_is_asked_for_a_byte() {
    register();
    for status in [403, 405, 501] {
        let server = Server::start();
        let url = server.put("a", ServedFile::new(vec![1; 10]));
        let empty = server.put("b", ServedFile::new(Vec::new()));
        server.faults(
            move |asked| {
                if asked.method == "HEAD" {
                    ServerFault::Status(status, Vec::new())
                } else {
                    ServerFault::None
                }
            },
        );
        let found = stat(&format!("{url}?sig=1")).unwrap();
        assert_eq!((found.version.size, &*found.version.tag), (10, "\"v1\""));
        assert_eq!(stat(&empty).unwrap().version.size, 0);
        assert!(server.asked.lock().unwrap().iter().any(|a| a.path == "/a?sig=1" && a.method == "GET"));
        assert_eq!(stat(&server.url("0")), Err(PageErrorKind::Missing));
    }
}

#[test]
fn a_folder_of_the_server_is_no_file() {
    register();
    let server = Server::start();
    let handler: Handler = Box::new(|asked| match asked.path.as_str() {
        "/dir" => Some((301, vec![("Location".into(), "/dir/".into())], Vec::new())),
        "/dir/" => Some((200, Vec::new(), b"<html>".to_vec())),
        _ => None,
    });
    server.handle(handler);
    assert_eq!(stat(&server.url("dir")).unwrap().kind, FileKind::Folder);
    assert_eq!(stat(&server.url("dir/")).unwrap().kind, FileKind::Folder);
    assert_eq!(source(&server.url("dir")).size(), Ok(0));
}

#[test]
fn demand_goes_before_prefetch() {
    register();
    let server = Server::start();
    let source = source(&server.put("a", ServedFile::new(conformance::bytes(100_000))));
    server.faults(|_| ServerFault::Late(Duration::from_millis(30)));
    let place = source.limited_by().unwrap();
    // Those of a line of which nothing is known.
    assert_eq!(place.room(), 24);
    let ranges: Vec<(u64, usize)> = (0..48).map(|n| (n * 1000, 1000)).collect();
    std::thread::scope(|scope| {
        let ahead = scope.spawn(|| (read(&*source, &ranges, ReadClass::Prefetch), Instant::now()));
        while server.count() < 24 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(place.room(), 0);
        let demanded = read(&*source, &[(70_000, 1000)], ReadClass::Demand).remove(0).0;
        let at = Instant::now();
        let (results, end) = ahead.join().unwrap();
        assert!(demanded.is_ok() && results.iter().all(|(result, _)| result.is_ok()));
        assert!(end > at + Duration::from_millis(30), "it waited for all that nobody waits for");
    });
    assert!(place.room() >= 8);
    assert!(server.most_at_once() < 30, "{}", server.most_at_once());
}

#[test]
fn connections_are_bounded() {
    register();
    let server = Server::start();
    let source = source(&server.put("a", ServedFile::new(conformance::bytes(100_000))));
    server.faults(|_| ServerFault::Late(Duration::from_millis(20)));
    let ranges: Vec<(u64, usize)> = (0..300).map(|n| (n * 300, 300)).collect();
    // Other tests read from servers at the same time, so what is held is watched for a while.
    let (most, results) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| read(&*source, &ranges, ReadClass::Demand));
        let mut most = 0;
        while !reading.is_finished() {
            most = most.max(remote::http::held_bytes());
            std::thread::sleep(Duration::from_millis(1));
        }
        (most, reading.join().unwrap())
    });
    assert!(results.iter().all(|(result, _)| result.is_ok()));
    assert!((32..=64).contains(&server.most_at_once()), "{}", server.most_at_once());
    // Each has the room of its reply, of that reply's head, and of records of TLS.
    let buffer = 3 * 300 + (48 << 10);
    assert!(most >= 32 * buffer, "buffers of replies under way are counted: {most}");
    // A connection without a reply under way has none.
    let end = Instant::now() + Duration::from_secs(5);
    while remote::http::held_bytes() >= 32 * buffer && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(remote::http::held_bytes() < 32 * buffer);
}

type TailAnswer = Result<(place::FileVersion, Vec<u8>), PageErrorKind>;

fn tail(url: &str, pin: &Arc<FilePin>, len: usize) -> TailAnswer {
    let file = FileRef { path: Path::new(url).into(), base: 0, pin: pin.clone() };
    let (tell, told) = channel();
    let then: TailRead = Box::new(move |answer| tell.send(answer).unwrap());
    assert!(place::of(Path::new(url)).unwrap().unwrap().tail(&file, len, then).is_ok());
    told.recv_timeout(Duration::from_secs(10)).unwrap()
}

#[test]
fn the_last_bytes_take_one_request() {
    register();
    let server = Server::start();
    let truth = conformance::bytes(1000);
    let url = server.put("a", ServedFile::new(truth.clone()));
    let empty = server.put("b", ServedFile::new(Vec::new()));
    let requests = |read: &dyn Fn() -> TailAnswer| {
        let before = server.count();
        let answer = read();
        (answer.map(|(version, bytes)| (version.size, bytes)), server.count() - before)
    };
    let fresh = Arc::<FilePin>::default;
    assert_eq!(requests(&|| tail(&url, &fresh(), 100)), (Ok((1000, truth[900..].to_vec())), 1));
    assert_eq!(requests(&|| tail(&url, &fresh(), 5000)), (Ok((1000, truth.clone())), 1));
    let (none, asked) = requests(&|| tail(&empty, &fresh(), 8));
    assert!(none == Ok((0, Vec::new())) && asked <= 2, "{none:?}, {asked} requests");
    assert_eq!(tail(&server.url("none"), &fresh(), 8), Err(PageErrorKind::Missing));
    // A known file, then another one of the same size.
    let pin = fresh();
    assert_eq!(requests(&|| tail(&url, &pin, 10)).1, 1);
    assert_eq!(requests(&|| tail(&url, &pin, 10)), (Ok((1000, truth[990..].to_vec())), 1));
    server.files.lock().unwrap().get_mut("/a").unwrap().etag = Some("\"v2\"".into());
    assert!(matches!(tail(&url, &pin, 10), Err(PageErrorKind::Changed { .. })));
    // A body that breaks; a server that counts nothing from the end; wrong ranges.
    server.fault(ServerFault::Cut(3), 1);
    assert_eq!(requests(&|| tail(&url, &fresh(), 10)), (Ok((1000, truth[990..].to_vec())), 2));
    server.faults(|asked| if asked.suffix().is_some() { ServerFault::Whole } else { ServerFault::None });
    assert_eq!(requests(&|| tail(&url, &fresh(), 10)), (Ok((1000, truth[990..].to_vec())), 2));
    for (status, most) in [(416, 3), (501, 3), (400, 3)] {
        server.faults(move |asked| match asked.suffix() {
            Some(_) => ServerFault::Status(status, Vec::new()),
            None => ServerFault::None,
        });
        let (answer, asked) = requests(&|| tail(&url, &fresh(), 10));
        assert!(answer == Ok((1000, truth[990..].to_vec())) && asked <= most, "{status}: {answer:?}, {asked}");
    }
    for fault in
        [ServerFault::Range(-1, 0, 0), ServerFault::Range(0, 0, 1), ServerFault::Length(3), ServerFault::Long(3)]
    {
        server.fault(fault.clone(), usize::MAX);
        let answer = tail(&url, &fresh(), 10);
        assert!(matches!(answer, Err(PageErrorKind::Protocol { .. })), "{fault:?}: {answer:?}");
    }
}

#[test]
fn a_prefetch_that_is_demanded_goes_first() {
    struct CompletionOrder(Mutex<Vec<u64>>);
    impl Completion for CompletionOrder {
        fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
            assert_eq!(result, Ok(()));
            self.0.lock().unwrap().push(token);
        }
    }
    register();
    let server = Server::start();
    let source = source(&server.put("a", ServedFile::new(conformance::bytes(100_000))));
    server.faults(|_| ServerFault::Late(Duration::from_millis(30)));
    let order = Arc::new(CompletionOrder(Mutex::default()));
    let done: Arc<dyn Completion> = order.clone();
    let mut memory = vec![0u8; 60 * 100];
    let reads = memory.chunks_mut(100).enumerate().map(|(n, bytes)| Read {
        token: n as u64,
        offset: n as u64 * 100,
        buffers: vec![Buffer { ptr: bytes.as_mut_ptr(), len: bytes.len() }],
        class: ReadClass::Prefetch,
    });
    source.submit(reads.collect(), &done);
    source.promote(&[58, 59, 1000], &done);
    while order.0.lock().unwrap().len() < 60 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let order = order.0.lock().unwrap();
    // On a line of which nothing is known, 24 reads go out at once.
    assert!(order[..26].contains(&58) && order[..26].contains(&59), "{order:?}");
}
