//! Service without faults.

use super::support::*;
use crate::page_server::client::{Credentials, RemotePlace};
use pager::place::{FileKind, Place, PlaceFile};
use pager::source::conformance;
use pager::PageErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;

fn conforms(place: &Arc<RemotePlace>, folder: &Path) {
    let number = AtomicUsize::new(0);
    conformance::check(|bytes| {
        let name = format!("f{}-{:p}", number.fetch_add(1, SeqCst), Arc::as_ptr(place));
        std::fs::write(folder.join(&name), bytes).unwrap();
        // The pins of one opening are found by path, so the host tells the places apart.
        let path = format!("farfield://{}/data/{name}", place.describe());
        Arc::new(PlaceFile::new(place.clone(), Path::new(&path)))
    });
}

/// The suite asks for sizes through the table of places, which this fills.
fn known(place: &Arc<RemotePlace>) {
    static PLACES: std::sync::Mutex<Vec<Arc<RemotePlace>>> = std::sync::Mutex::new(Vec::new());
    PLACES.lock().unwrap().push(place.clone());
    pager::place::register(
        "farfield",
        Arc::new(|url: &str| {
            let host = url.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
            let places = PLACES.lock().unwrap();
            let found = places.iter().find(|place| place.describe() == host).cloned();
            found.map(|place| place as Arc<dyn Place>).ok_or(PageErrorKind::Missing)
        }),
    );
}

#[test]
fn a_served_file_is_a_source() {
    let folder = folder();
    let server = serve(&folder.0);
    let place = place(&server);
    known(&place);
    conforms(&place, &folder.0);
    let stats = place.stats().unwrap();
    assert_eq!(stats["connections"], place.measured().3, "{stats}");
}

#[test]
fn a_file_served_by_tls_is_a_source() {
    let folder = folder();
    let (server, credentials) = serve_by_tls(&folder.0);
    let place = place_at(server.address(), credentials, hasty());
    known(&place);
    conforms(&place, &folder.0);
    let stats = place.stats().unwrap();
    assert!(stats["tls"] == true && stats["clients"][0]["name"] == "me", "{stats}");
}

#[test]
fn bytes_that_are_not_cached_come_from_the_disk() {
    use std::os::fd::AsRawFd;
    let folder = folder();
    let truth = bytes(2, 4 << 20);
    let path = folder.0.join("a");
    std::fs::write(&path, &truth).unwrap();
    let server = serve(&folder.0);
    let place = place(&server);
    let file = file("a");
    for round in 0..3 {
        let open = std::fs::File::open(&path).unwrap();
        open.sync_all().unwrap();
        // SAFETY: the descriptor is open. It is a hint: where the file system ignores it, all comes from the cache.
        unsafe { libc::posix_fadvise(open.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        let ranges: Vec<(u64, usize)> = (0..60).map(|n| (n * 65_537 + round, 30_000)).collect();
        for ((at, len), (result, got)) in ranges.iter().zip(read_all(&place, &file, &ranges)) {
            assert_eq!(result, Ok(()));
            assert!(got == truth[*at as usize..*at as usize + len]);
        }
    }
    let status = server.status();
    let count = |name: &str| status[name].as_u64().unwrap();
    assert_eq!(count("from_cache") + count("from_disk"), 180, "{status}");
}

#[test]
fn names_are_listed_and_looked_at() {
    let folder = folder();
    std::fs::create_dir_all(folder.0.join("c/0")).unwrap();
    std::fs::write(folder.0.join("c/0/a b%20é"), b"12345").unwrap();
    std::os::unix::fs::symlink("/etc", folder.0.join("c/link")).unwrap();
    let server = serve(&folder.0);
    let place = place_at(server.address(), Credentials::default(), hasty());
    let mut entries = place.list(&url("c"), 10).unwrap();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let found: Vec<_> = entries.iter().map(|e| (e.name.as_str(), e.kind, e.size)).collect();
    assert_eq!(found, [("0", FileKind::Folder, 0), ("link", FileKind::Other, 0)]);
    let roots = place.list(Path::new("farfield://host"), 10).unwrap();
    assert_eq!((roots.len(), roots[0].name.as_str(), roots[0].kind), (1, "data", FileKind::Folder));
    assert_eq!(place.list(&url("none"), 10), Err(PageErrorKind::Missing));
    assert_eq!(place.list(&url("c"), 1), Err(PageErrorKind::TooMany { most: 1 }));
    let (told, answer) = std::sync::mpsc::channel();
    let mut paths = vec![url("c/0/a b%20é"), url("c"), url("c/1"), url("c/link")];
    paths.extend((0..3000).map(|n| url(&format!("c/none/{n}"))));
    place.look(paths, Box::new(move |found| told.send(found).unwrap()));
    let found = answer.recv().unwrap();
    let stat = found[0].as_ref().unwrap();
    assert_eq!((stat.kind, stat.version.size), (FileKind::File, 5));
    assert_eq!(found[1].as_ref().unwrap().kind, FileKind::Folder);
    assert!(matches!(&found[3], Err(PageErrorKind::Denied(message)) if message.contains("symbolic link")));
    assert!(found[2] == Err(PageErrorKind::Missing) && found[4..].iter().all(|f| *f == Err(PageErrorKind::Missing)));
    assert_eq!(found.len(), 3004);
}
