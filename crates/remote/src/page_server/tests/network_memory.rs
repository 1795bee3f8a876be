//! A server whose files lie at an origin: another page server, and a disk.

use super::raw::Raw;
use super::support::*;
use crate::page_server::client::{self, ClientOptions, Credentials, RemotePlace};
use crate::page_server::server::{HostMemory, OriginOptions, Server, ServerOptions};
use crate::page_server::wire::*;
use pager::place::{FileKind, FilePin, FileRef, IndexedExtent, Place};
use pager::source::ReadClass;
use pager::PageErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

/// Deadlines of the server's own client, so that tests can wait for them.
fn register() {
    let options = ClientOptions { network_timeout: Duration::from_secs(1), ..hasty() };
    let find = move |url: &str| client::place_of(url, options);
    pager::place::register("farfield+tcp", Arc::new(find));
}

fn behind(origin: &Server, memory: OriginOptions) -> ServerOptions {
    register();
    let address = format!("farfield+tcp://{}/data", origin.address());
    ServerOptions {
        names: vec![("far".to_owned(), address.into())],
        listen: "127.0.0.1:0".to_owned(),
        origins: memory,
        ..ServerOptions::default()
    }
}

fn memory(cache: u64) -> OriginOptions {
    OriginOptions { cache, host: || None, ..OriginOptions::default() }
}

fn far(name: &str) -> FileRef {
    FileRef { path: far_path(name).into(), base: 0, pin: Arc::new(FilePin::default()) }
}

fn far_path(name: &str) -> PathBuf {
    format!("farfield://host/far/{name}").into()
}

fn count(server: &Server, name: &str) -> u64 {
    let status = server.status();
    name.split('.').fold(&status, |at, part| &at[part]).as_u64().unwrap_or_else(|| panic!("{name}: {status}"))
}

fn reads_of(origin: &Server) -> u64 {
    ["read", "readv"].iter().map(|op| count(origin, &format!("requests.{op}"))).sum()
}

#[test]
fn bytes_come_from_the_origin_once() {
    let folder = folder();
    let truth = bytes(1, 3_000_011);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let origin = serve(&folder.0);
    let server = Server::start(behind(&origin, memory(64 << 20))).unwrap();
    let place = place(&server);
    let file = far("a");
    let ranges: Vec<(u64, usize)> = (0..60).map(|n| (n * 48_611, 48_000)).collect();
    for round in 0..3 {
        for ((at, len), (result, got)) in ranges.iter().zip(read_all(&place, &file, &ranges)) {
            assert_eq!(result, Ok(()), "{round}");
            assert!(got == truth[*at as usize..*at as usize + len], "{round} {at}");
        }
        assert_eq!(count(&origin, "requests.open"), 1);
    }
    let (asked, came) = (reads_of(&origin), count(&server, "origin_bytes"));
    // Overlapping blocks come once: no byte is fetched twice.
    assert!(asked <= 60 && came <= truth.len() as u64 + 4096, "{asked} reads, {came} bytes");
    assert_eq!(asked, count(&server, "origin_reads"));
    assert_eq!(count(&server, "from_memory") + count(&server, "from_origin"), 180);
    assert!(count(&server, "from_memory") >= 120);
    // Another client, other ranges.
    let other = place_at(server.address(), Credentials::default(), hasty());
    assert!(read(&other, &far("a"), 0, truth.len()).unwrap() == truth);
    let rest = reads_of(&origin);
    assert!(read(&other, &far("a"), 77, 1_000_000).unwrap() == truth[77..1_000_077]);
    assert_eq!(reads_of(&origin), rest);
    let metrics = server.prometheus();
    assert!(metrics.contains("farfield_cache_used_bytes ") && metrics.contains("farfield_origin_reads_total "));
    assert!(matches!(read(&place, &far("a"), 3_000_000, 100), Err(PageErrorKind::Short { have: 3_000_011, .. })));
    assert_eq!(read(&place, &far("none"), 0, 1), Err(PageErrorKind::Missing));
    assert_eq!(read(&place, &far("none/a"), 0, 1), Err(PageErrorKind::Missing));
}

#[test]
fn what_many_clients_want_at_once_is_read_once() {
    let folder = folder();
    let truth = bytes(2, 8 << 20);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    // Slow, so that all clients wait for the same read.
    let origin = Server::start(ServerOptions { rate: Some(16 << 20), ..options(&folder.0) }).unwrap();
    for cache in [0, 64 << 20] {
        let server = Server::start(behind(&origin, memory(cache))).unwrap();
        let before = reads_of(&origin);
        let clients: Vec<Arc<RemotePlace>> =
            (0..8).map(|_| place_at(server.address(), Credentials::default(), ClientOptions::default())).collect();
        std::thread::scope(|scope| {
            for (n, place) in clients.iter().enumerate() {
                let truth = &truth;
                scope.spawn(move || {
                    let class = if n % 2 == 0 { ReadClass::Demand } else { ReadClass::Prefetch };
                    let (result, got) = read_as(place, &far("a"), &[(4096, 4 << 20)], class).remove(0);
                    assert_eq!(result, Ok(()));
                    assert!(got == truth[4096..][..4 << 20]);
                });
            }
        });
        let parts = count(&server, "origin_reads");
        assert_eq!(reads_of(&origin) - before, parts);
        assert_eq!(count(&server, "origin_bytes"), 4 << 20, "cache of {cache}: {parts} reads");
    }
}

#[test]
fn the_limit_holds() {
    let folder = folder();
    let truth = bytes(3, 24 << 20);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let origin = serve(&folder.0);
    let limit = 4 << 20;
    let server = Server::start(behind(&origin, memory(limit))).unwrap();
    let place = place_at(server.address(), Credentials::default(), ClientOptions::default());
    let file = far("a");
    let mut rng = Rng(7);
    for _ in 0..40 {
        let ranges: Vec<(u64, usize)> =
            (0..20).map(|_| (rng.below(23 << 20), 1 + rng.below(100_000) as usize)).collect();
        for ((at, len), (result, got)) in ranges.iter().zip(read_all(&place, &file, &ranges)) {
            assert_eq!(result, Ok(()));
            assert!(got == truth[*at as usize..*at as usize + len]);
        }
        assert!(count(&server, "cache.used") <= limit);
    }
    assert!(count(&server, "cache.used") > limit * 9 / 10);
    until("all buffers are free again", Duration::from_secs(5), || count(&server, "held") == 0);
}

#[test]
fn a_flipped_bit_is_caught_and_healed() {
    let folder = folder();
    let truth = bytes(4, 300_000);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let origin = serve(&folder.0);
    let server = Server::start(behind(&origin, memory(8 << 20))).unwrap();
    let place = place(&server);
    let file = far("a");
    assert!(read(&place, &file, 0, truth.len()).unwrap() == truth);
    let before = reads_of(&origin);
    assert_eq!(server.damage_cache(), truth.len().div_ceil(4096) as u64);
    assert!(read(&place, &file, 10_000, 200_000).unwrap() == truth[10_000..210_000]);
    assert!(reads_of(&origin) > before && count(&server, "cache.damaged") > 0);
    assert!(read(&place, &file, 0, truth.len()).unwrap() == truth);
}

#[test]
fn a_replaced_file_is_changed_and_never_mixed() {
    let folder = folder();
    let (old, new) = (bytes(5, 400_000), bytes(6, 400_000));
    std::fs::write(folder.0.join("a"), &old).unwrap();
    let origin = serve(&folder.0);
    let server = Server::start(behind(&origin, memory(8 << 20))).unwrap();
    let place = place(&server);
    let file = far("a");
    assert!(read(&place, &file, 0, 100_000).unwrap() == old[..100_000]);
    std::fs::write(folder.0.join("b"), &new).unwrap();
    std::fs::rename(folder.0.join("b"), folder.0.join("a")).unwrap();
    // What is here is of the pinned version, and the rest of it is gone.
    assert!(read(&place, &file, 500, 50_000).unwrap() == old[500..50_500]);
    assert!(matches!(read(&place, &file, 50_000, 100_000), Err(PageErrorKind::Changed { .. })));
    assert!(matches!(read(&place, &file, 200_000, 10), Err(PageErrorKind::Changed { .. })));
    assert!(read(&place, &far("a"), 0, new.len()).unwrap() == new, "a new opening has the new version whole");
    std::fs::remove_file(folder.0.join("a")).unwrap();
    let file = far("a");
    assert_eq!(read(&place, &file, 0, 1).map(|b| b[0]), Ok(new[0]), "what is here is served");
    std::thread::sleep(Duration::from_millis(2100));
    let fresh = place_at(server.address(), Credentials::default(), hasty());
    assert_eq!(read(&fresh, &far("a"), 0, 1), Err(PageErrorKind::Missing));
}

#[test]
fn a_file_deleted_while_it_is_open_is_changed() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(1, 100_000)).unwrap();
    let origin = serve(&folder.0);
    let server = Server::start(behind(&origin, memory(0))).unwrap();
    let place = place(&server);
    let file = far("a");
    read(&place, &file, 0, 10).unwrap();
    drop(origin);
    std::fs::remove_file(folder.0.join("a")).unwrap();
    let lost = read(&place, &file, 50_000, 10);
    assert!(matches!(&lost, Err(PageErrorKind::Unreachable { .. })), "{lost:?}");
}

#[test]
fn without_its_origin_a_server_gives_what_it_has() {
    let folder = folder();
    let truth = bytes(8, 300_000);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let origin = serve(&folder.0);
    let server = Server::start(behind(&origin, memory(8 << 20))).unwrap();
    let place = place_at(server.address(), Credentials::default(), ClientOptions::default());
    let file = far("a");
    assert!(read(&place, &file, 0, 100_000).unwrap() == truth[..100_000]);
    drop(origin);
    assert!(read(&place, &file, 0, 100_000).unwrap() == truth[..100_000]);
    for result in [read(&place, &file, 200_000, 10), read(&place, &far("b"), 0, 10)] {
        let Err(kind) = result else { panic!("it has these bytes from nowhere") };
        assert!(kind.is_transient() && kind.is_network(), "{kind:?}");
        assert!(kind.to_string().contains("the origin of 127.0.0.1"), "{kind}");
    }
    let (told, answer) = std::sync::mpsc::channel();
    place.look(vec![far_path("a"), far_path("b")], Box::new(move |found| told.send(found).unwrap()));
    for stat in answer.recv().unwrap() {
        assert!(stat.as_ref().is_err_and(PageErrorKind::is_transient), "{stat:?}");
    }
    assert!(place.list(&far_path(""), 10).unwrap_err().is_transient());
    assert!(read(&place, &file, 4096, 90_000).unwrap() == truth[4096..94_096]);
}

#[test]
fn names_stay_below_the_origin() {
    let folder = folder();
    std::fs::create_dir_all(folder.0.join("in/sub")).unwrap();
    std::fs::write(folder.0.join("in/a b%20é?#"), b"12345").unwrap();
    std::fs::write(folder.0.join("secret"), b"secret").unwrap();
    let origin = serve(&folder.0);
    let mut options = behind(&origin, memory(1 << 20));
    options.names[0].1 = format!("farfield+tcp://{}/data/in", origin.address()).into();
    let server = Server::start(options).unwrap();
    let place = place(&server);
    assert_eq!(read(&place, &far("a b%20é?#"), 0, 5).unwrap(), b"12345");
    let mut raw = Raw::greeted(server.address(), None);
    for (n, name) in [
        "far/../secret",
        "far/sub/../../secret",
        "far/./a",
        "far//secret",
        "far/\0",
        "far/a\n",
        "far/\t",
        "/far/a",
        "..",
        "",
        "far/%2e%2e/secret",
        "far/..%2fsecret",
        "far\\..\\secret",
        "other/a",
        "far/sub/..",
        "data/secret",
    ]
    .iter()
    .enumerate()
    {
        let told = raw.open(name, n as u32).unwrap();
        assert!(matches!(told.reply.state, State::BadName | State::Missing), "{name:?}: {:?}", told.reply.state);
        assert!(told.body.is_empty());
    }
    let long = format!("far/{}", "a".repeat(5000));
    assert_eq!(raw.open(&long, 40).unwrap().reply.state, State::BadName);
    assert_eq!(raw.open("far", 41).unwrap().reply.state, State::NotFile);
    let mut entries = place.list(&far_path(""), 10).unwrap();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let found: Vec<_> = entries.iter().map(|e| (e.name.as_str(), e.kind, e.size)).collect();
    assert_eq!(found, [("a b%20é?#", FileKind::File, 5), ("sub", FileKind::Folder, 0)]);
    assert_eq!(place.list(&far_path(""), 1), Err(PageErrorKind::TooMany { most: 1 }));
    let roots = place.list(Path::new("farfield://host"), 10).unwrap();
    assert_eq!((roots.len(), roots[0].name.as_str(), roots[0].kind), (1, "far", FileKind::Folder));
}

#[test]
fn an_index_and_its_extent_come_in_one_reply() {
    let folder = folder();
    let mut shard = bytes(9, 100_000);
    for (at, len) in [(70_000u64, 20_000u64), (u64::MAX, u64::MAX), (0, 5)] {
        shard.extend([at.to_le_bytes(), len.to_le_bytes()].concat());
    }
    std::fs::write(folder.0.join("s"), &shard).unwrap();
    let origin = serve(&folder.0);
    for cache in [0, 8 << 20] {
        let server = Server::start(behind(&origin, memory(cache))).unwrap();
        let place = place(&server);
        for _ in 0..2 {
            let wanted = IndexedExtent { index_len: 48, at_end: true, entry: 0, longest: 64 << 10 };
            let found = indexed(&place, &far("s"), wanted).unwrap();
            assert_eq!(found.extent, Some((70_000, shard[70_000..90_000].to_vec())));
            assert!(found.index == shard[100_000..]);
            let none = indexed(&place, &far("s"), IndexedExtent { entry: 16, ..wanted }).unwrap();
            assert_eq!(none.extent, None);
        }
        let mut raw = Raw::greeted(server.address(), None);
        raw.open("far/s", 1).unwrap();
        let ranges =
            [Range { offset: 5, len: 10_000 }, Range { offset: 60_000, len: 7 }, Range { offset: 20, len: 4096 }];
        let mut body = Vec::new();
        write_ranges(&mut body, ranges);
        let request = Request { file: 1, len: 14_103, ..Request::new(Op::ReadV, 0) };
        let told = raw.ask(request, &body).unwrap();
        let expected = [&shard[5..10_005], &shard[60_000..60_007], &shard[20..4116]].concat();
        assert!(told.reply.state == State::Ok && told.body == expected);
    }
}

#[test]
fn memory_is_given_back_when_the_host_is_short() {
    static AVAILABLE: AtomicU64 = AtomicU64::new(8 << 30);
    fn host() -> Option<HostMemory> {
        Some(HostMemory { total: 16 << 30, available: AVAILABLE.load(SeqCst), stalled: 0.0 })
    }
    let folder = folder();
    let truth = bytes(10, 20 << 20);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let origin = serve(&folder.0);
    let server = Server::start(behind(&origin, OriginOptions { host, ..memory(32 << 20) })).unwrap();
    let place = place_at(server.address(), Credentials::default(), ClientOptions::default());
    let file = far("a");
    assert!(read(&place, &file, 0, truth.len()).unwrap() == truth);
    assert!(count(&server, "cache.used") >= 20 << 20);
    // 800 MiB are to stay available.
    AVAILABLE.store((16 << 30) / 20 - (15 << 20), SeqCst);
    until("the cache shrinks", Duration::from_secs(10), || count(&server, "cache.used") < 8 << 20);
    AVAILABLE.store(1 << 30, SeqCst);
    assert!(count(&server, "cache.given_back") >= 12 << 20);
    assert!(read(&place, &file, 0, truth.len()).unwrap() == truth);
    AVAILABLE.store(8 << 30, SeqCst);
    until("it may grow again", Duration::from_secs(20), || count(&server, "cache.allowed") > 31 << 20);
    assert!(read(&place, &file, 0, truth.len()).unwrap() == truth);
    assert!(count(&server, "cache.used") >= 20 << 20);
}

#[test]
fn local_files_may_be_kept_in_memory_too() {
    let folder = folder();
    let (old, new) = (bytes(11, 200_000), bytes(12, 150_000));
    std::fs::write(folder.0.join("a"), &old).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.0.join("link")).unwrap();
    let origins = OriginOptions { cache_local: true, ..memory(4 << 20) };
    let server = Server::start(ServerOptions { origins, ..options(&folder.0) }).unwrap();
    let place = place(&server);
    for _ in 0..2 {
        assert!(read(&place, &file("a"), 0, old.len()).unwrap() == old);
    }
    assert_eq!((count(&server, "from_memory"), count(&server, "origin_bytes")), (1, old.len() as u64));
    let kept = file("a");
    read(&place, &kept, 0, 10).unwrap();
    std::fs::write(folder.0.join("a"), &new).unwrap();
    server.damage_cache();
    assert!(matches!(read(&place, &kept, 0, 10), Err(PageErrorKind::Changed { .. })));
    assert!(read(&place, &file("a"), 0, new.len()).unwrap() == new);
    assert!(matches!(read(&place, &file("link"), 0, 1), Err(PageErrorKind::Denied(_))));
    assert_eq!(place.list(&url(""), 10).unwrap().len(), 2);
}

#[test]
fn a_folder_of_the_disk_survives_a_restart() {
    let (folder, disk) = (folder(), folder_for_disk());
    let truth = bytes(13, 500_000);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let origin = serve(&folder.0);
    let origins = || OriginOptions { cache_disk: Some((disk.0.clone(), 64 << 20)), ..memory(8 << 20) };
    for run in 0..2 {
        let server = Server::start(behind(&origin, origins())).unwrap();
        let place = place(&server);
        assert!(read(&place, &far("a"), 0, truth.len()).unwrap() == truth, "{run}");
    }
    let asked = reads_of(&origin);
    let server = Server::start(behind(&origin, origins())).unwrap();
    assert!(read(&place(&server), &far("a"), 100, 300_000).unwrap() == truth[100..300_100]);
    assert_eq!(reads_of(&origin), asked, "it lay on the disk");
    let wrong =
        Server::start(behind(&origin, OriginOptions { cache_disk: Some(("/proc/none".into(), 1 << 20)), ..memory(0) }));
    assert!(wrong.unwrap_err().to_string().contains("/proc/none"));
}

fn folder_for_disk() -> TempFolder {
    folder()
}

#[test]
fn what_cannot_be_an_origin_is_refused() {
    register();
    for (name, address, said) in [
        ("a", "ftp://host/a", "no place has the scheme"),
        ("a/b", "farfield+tcp://127.0.0.1:1/a", "is no name to serve"),
        ("..", "farfield+tcp://127.0.0.1:1/a", "is no name to serve"),
        ("a", "farfield+tcp://192.0.2.1/a", "for this machine only"),
    ] {
        let options = ServerOptions {
            names: vec![(name.to_owned(), address.into())],
            listen: "127.0.0.1:0".to_owned(),
            ..ServerOptions::default()
        };
        let error = Server::start(options).unwrap_err().to_string();
        assert!(error.contains(said), "{address}: {error}");
    }
}

#[test]
fn thousands_of_ranges_are_one_request() {
    let folder = folder();
    let truth = bytes(16, 24 << 20);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let origin = serve(&folder.0);
    let server = Server::start(behind(&origin, memory(1 << 20))).unwrap();
    let mut raw = Raw::greeted(server.address(), None);
    raw.open("far/a", 1).unwrap();
    let mut rng = Rng(5);
    // Also the same byte twice, neighbours, and blocks in no order.
    let mut places: Vec<u64> = (0..1500).map(|_| rng.below(truth.len() as u64 - 1)).collect();
    places.extend([places[0], places[0] + 1, 0]);
    let mut body = Vec::new();
    write_ranges(&mut body, places.iter().map(|offset| Range { offset: *offset, len: 1 }));
    let request = Request { file: 1, len: places.len() as u32, ..Request::new(Op::ReadV, 0) };
    for _ in 0..2 {
        let told = raw.ask(request, &body).unwrap();
        assert_eq!(told.reply.state, State::Ok);
        assert!(told.body.iter().zip(&places).all(|(byte, at)| *byte == truth[*at as usize]));
    }
    until("nothing is held", Duration::from_secs(5), || count(&server, "held") == 0);
}

/// Hits pass what waits for the origin, and clients share the origin, whatever one of them asks for.
#[test]
fn a_greedy_client_delays_no_other() {
    const PAGE: u32 = 48 << 10;
    let folder = folder();
    let truth = bytes(14, 20 << 20);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let origin = Server::start(ServerOptions { rate: Some(8 << 20), ..options(&folder.0) }).unwrap();
    let server = Server::start(behind(&origin, memory(64 << 20))).unwrap();
    let place = place_at(server.address(), Credentials::default(), ClientOptions::default());
    let file = far("a");
    let at = |n: u64| (16 << 20) + n * u64::from(PAGE);
    read(&place, &file, at(0), PAGE as usize).unwrap();
    let mut greedy = Raw::greeted(server.address(), None);
    greedy.open("far/a", 1).unwrap();
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for n in 0..300 {
            let request = Request { file: 1, offset: n * u64::from(PAGE), len: PAGE, ..Request::new(Op::Read, 0) };
            greedy.send(request, &[]).unwrap();
        }
        let (greedy, done) = (&mut greedy, &done);
        scope.spawn(move || {
            for _ in 0..300 {
                let (told, _) = greedy.receive().unwrap();
                assert_eq!(told.reply.state, State::Ok);
                done.fetch_add(1, SeqCst);
            }
        });
        for n in 1..6 {
            assert!(read(&place, &file, at(n), PAGE as usize).unwrap() == truth[at(n) as usize..][..PAGE as usize]);
            assert!(read(&place, &file, at(0), 100).unwrap() == truth[at(0) as usize..][..100]);
        }
        assert!(done.load(SeqCst) < 200, "{} of 300 pages went before 5", done.load(SeqCst));
    });
    until("nothing is held", Duration::from_secs(5), || count(&server, "held") == 0);
}

/// Microseconds of reads one at a time: from the memory cache, and from the kernel's page cache for comparison.
#[test]
#[ignore = "a measurement: cargo test -p farfield-remote --release -- --ignored --nocapture a_hit_costs"]
fn a_hit_costs() {
    const PAGE: usize = 48 << 10;
    let folder = folder();
    let truth = bytes(15, 64 << 20);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let origin = serve(&folder.0);
    let server = Server::start(behind(&origin, memory(256 << 20))).unwrap();
    let from_memory = place_at(server.address(), Credentials::default(), ClientOptions::default());
    let from_files = place_at(origin.address(), Credentials::default(), ClientOptions::default());
    let (memory, files) = (far("a"), file("a"));
    assert!(read(&from_memory, &memory, 0, truth.len()).unwrap() == truth);
    for (what, place, file) in [("memory cache", &from_memory, &memory), ("page cache", &from_files, &files)] {
        let mut rng = Rng(3);
        let mut took: Vec<Duration> = (0..4000)
            .map(|_| {
                let at = rng.below((truth.len() - PAGE) as u64);
                let begun = std::time::Instant::now();
                read(place, file, at, PAGE).unwrap();
                begun.elapsed()
            })
            .collect();
        took.sort_unstable();
        println!("{what}: p50 {:?}, p90 {:?}, p99 {:?}", took[2000], took[3600], took[3960]);
    }
}
