//! Reads, checks and lists over HTTP, from a server on this machine.

mod support;

use pager::error::PageErrorKind;
use pager::place::{self, FileKind, PlaceFile};
use pager::source::{conformance, Source};
use remote::NetworkOptions;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Once};
use std::time::Duration;
use support::{Fault, Handler, ServedFile, Server};

fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let ms = Duration::from_millis;
        remote::set_options(NetworkOptions {
            connect: ms(400),
            first_byte: ms(300),
            stall: ms(300),
            network_timeout: ms(1500),
            backoff: ms(10),
            longest_backoff: ms(100),
            connections: 64,
        });
        remote::register();
    });
}

fn source(url: &str) -> Arc<PlaceFile> {
    let path = Path::new(url);
    Arc::new(PlaceFile::new(place::of(path).unwrap().unwrap(), path))
}

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
        server
            .faults(move |asked| if asked.method == "HEAD" { Fault::Status(status, Vec::new()) } else { Fault::None });
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
