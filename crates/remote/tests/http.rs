//! Reads, checks and lists over HTTP, from a server on this machine.

mod support;

use pager::error::PageErrorKind;
use pager::place::{self, FileKind};
use pager::source::{conformance, ReadClass, Source};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
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
    let before = server.count();
    assert_eq!(stat(&server.url("wing.zarr/c/0/1")), Err(PageErrorKind::Missing));
    assert_eq!(server.count() - before, 1, "a chunk is no folder");
    let listed = place::list(Path::new(&server.url("wing.zarr?sig=secret")), 10);
    let Err(PageErrorKind::Unsupported(message)) = listed else { panic!("{listed:?}") };
    assert!(message.contains("@names.txt") && !message.contains("secret"), "{message}");
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
    assert_eq!(place.room(), 8);
    let ranges: Vec<(u64, usize)> = (0..48).map(|n| (n * 1000, 1000)).collect();
    std::thread::scope(|scope| {
        let ahead = scope.spawn(|| (read(&*source, &ranges, ReadClass::Prefetch), Instant::now()));
        while server.count() < 8 {
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
    let results = read(&*source, &ranges, ReadClass::Demand);
    assert!(results.iter().all(|(result, _)| result.is_ok()));
    assert!((32..=64).contains(&server.most_at_once()), "{}", server.most_at_once());
    assert!(remote::http::held_bytes() >= 64 * 408 * 1024);
}
