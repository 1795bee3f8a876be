//! Every fault of a server: its outcome, its requests, and never a wrong byte.

mod support;

use pager::source::{conformance, ReadClass, Source};
use pager::PageErrorKind::{self, *};
use std::net::TcpListener;
use std::time::{Duration, Instant};
use support::reads::{read, register, source};
use support::{ServedFile, Server, ServerFault};

const LEN: usize = 2000;
/// The reads of each row.
const RANGES: [(u64, usize); 3] = [(0, 1000), (1500, 500), (7, 100)];

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The end of a row.
enum End {
    /// Exact bytes, by so many requests more than reads.
    Exact(usize),
    /// Each read fails so, by no further request.
    Fails(fn(&PageErrorKind) -> bool),
    /// Each read fails so after further attempts.
    FailsLate(fn(&PageErrorKind) -> bool),
}

/// The faults of the first `count` requests, and their end.
fn check(name: &str, fault: ServerFault, count: usize, end: &End) {
    let server = Server::start();
    let truth = conformance::bytes(LEN);
    let url = server.put("a", ServedFile::new(truth.clone()));
    server.fault(fault, count);
    let source = source(&url);
    let begun = Instant::now();
    let results = read(&*source, &RANGES, ReadClass::Demand);
    let (took, requests) = (begun.elapsed(), server.count());
    for ((result, bytes), (offset, len)) in results.iter().zip(RANGES) {
        match end {
            End::Exact(_) => {
                assert_eq!(*result, Ok(()), "{name}");
                assert!(*bytes == truth[offset as usize..offset as usize + len], "{name}: wrong bytes");
            }
            End::Fails(expected) | End::FailsLate(expected) => {
                let Err(kind) = result else { panic!("{name}: it succeeded") };
                assert!(expected(kind), "{name}: {kind}");
            }
        }
    }
    assert!(took < ms(6000), "{name}: {took:?}");
    match end {
        End::Exact(more) => assert!(requests <= RANGES.len() + more, "{name}: {requests} requests"),
        End::Fails(_) => assert_eq!(requests, RANGES.len(), "{name}"),
        // Ten at once, ten a second, a tenth of all.
        End::FailsLate(_) => {
            assert!(requests <= 3 + 11 + took.as_millis() as usize / 100, "{name}: {requests} requests")
        }
    }
}

/// Runs rows side by side: they mostly wait.
fn table(rows: Vec<(&str, ServerFault, usize, End)>) {
    register();
    std::thread::scope(|scope| {
        for (name, fault, count, end) in &rows {
            scope.spawn(move || check(name, fault.clone(), *count, end));
        }
    });
}

const ALWAYS: usize = usize::MAX;

fn status(status: u16) -> ServerFault {
    ServerFault::Status(status, Vec::new())
}

#[test]
fn answers_that_no_other_attempt_mends() {
    let unauthorized: fn(&PageErrorKind) -> bool =
        |e| matches!(e, Unauthorized { message, .. } if message.contains("check"));
    let protocol: fn(&PageErrorKind) -> bool = |e| matches!(e, Protocol { .. });
    table(vec![
        ("400", status(400), ALWAYS, End::Fails(protocol)),
        ("401", status(401), ALWAYS, End::Fails(unauthorized)),
        ("403", status(403), ALWAYS, End::Fails(unauthorized)),
        ("404", status(404), ALWAYS, End::Fails(|e| *e == Missing)),
        ("410", status(410), ALWAYS, End::Fails(protocol)),
        ("204", status(204), ALWAYS, End::Fails(protocol)),
        ("304", status(304), ALWAYS, End::Fails(protocol)),
        ("200 to a range", ServerFault::Whole, ALWAYS, End::Fails(protocol)),
        ("another first byte", ServerFault::Range(1, 0, 0), ALWAYS, End::Fails(protocol)),
        ("another last byte", ServerFault::Range(0, -1, 0), ALWAYS, End::Fails(protocol)),
        ("another range", ServerFault::Range(3, 3, 0), ALWAYS, End::Fails(protocol)),
        ("no Content-Range", ServerFault::NoContentRange, ALWAYS, End::Fails(protocol)),
        ("too long by its head", ServerFault::Length(5), ALWAYS, End::Fails(protocol)),
        ("too short by its head", ServerFault::Length(-5), ALWAYS, End::Fails(protocol)),
        ("too long a body", ServerFault::Long(7), ALWAYS, End::Fails(protocol)),
    ]);
}

#[test]
fn faults_that_pass() {
    let mut rows: Vec<(&str, ServerFault, usize, End)> = vec![
        ("short", ServerFault::Cut(10), 1, End::Exact(1)),
        ("short, each read", ServerFault::Cut(50), 3, End::Exact(3)),
        ("short, without a byte", ServerFault::Cut(0), 1, End::Exact(1)),
        ("reset", ServerFault::Reset(10), 2, End::Exact(2)),
        ("stall", ServerFault::Stall(10), 1, End::Exact(2)),
        ("silence", ServerFault::Silence, 1, End::Exact(2)),
        ("late", ServerFault::Late(ms(150)), ALWAYS, End::Exact(0)),
        ("a known number of chunks", ServerFault::Long(0), ALWAYS, End::Exact(0)),
        ("Retry-After", ServerFault::Status(429, vec![("Retry-After", "1".into())]), 1, End::Exact(1)),
    ];
    let names = ["408", "429", "500", "502", "503", "504"];
    rows.extend(names.map(|name| (name, status(name.parse().unwrap()), 2, End::Exact(2))));
    table(rows);
}

#[test]
fn faults_that_do_not_pass() {
    let unreachable: fn(&PageErrorKind) -> bool =
        |e| matches!(e, Unreachable { tried, .. } if tried.contains(" times in "));
    let timed_out: fn(&PageErrorKind) -> bool = |e| matches!(e, TimedOut { .. });
    table(vec![
        ("500", status(500), ALWAYS, End::FailsLate(unreachable)),
        ("503", status(503), ALWAYS, End::FailsLate(unreachable)),
        ("short, without a byte", ServerFault::Cut(0), ALWAYS, End::FailsLate(unreachable)),
        ("reset", ServerFault::Reset(0), ALWAYS, End::FailsLate(unreachable)),
        ("stall", ServerFault::Stall(0), ALWAYS, End::FailsLate(timed_out)),
        ("silence", ServerFault::Silence, ALWAYS, End::FailsLate(timed_out)),
        (
            "a wish for an hour",
            ServerFault::Status(503, vec![("Retry-After", "3600".into())]),
            ALWAYS,
            End::FailsLate(|e| matches!(e, Unreachable { .. })),
        ),
    ]);
}

#[test]
fn a_body_that_progresses_has_no_deadline() {
    register();
    let server = Server::start();
    let truth = conformance::bytes(90);
    let source = source(&server.put("a", ServedFile::new(truth.clone())));
    server.fault(ServerFault::Trickle(ms(20)), ALWAYS);
    let begun = Instant::now();
    let (result, bytes) = read(&*source, &[(0, 90)], ReadClass::Demand).remove(0);
    assert_eq!(result, Ok(()));
    assert!(bytes == truth && begun.elapsed() > ms(1600), "{:?}", begun.elapsed());
}

#[test]
fn nothing_listens() {
    register();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for host in [format!("127.0.0.1:{port}"), "none.invalid".into()] {
        let begun = Instant::now();
        let url = format!("http://{host}/a?sig=secret");
        let (result, _) = read(&*source(&url), &[(0, 9)], ReadClass::Demand).remove(0);
        let Err(kind @ Unreachable { .. }) = result else { panic!("{result:?}") };
        let text = kind.to_string();
        assert!(text.contains(host.split(':').next().unwrap()) && text.contains("check"), "{text}");
        assert!(!text.contains("secret"), "{text}");
        assert!(begun.elapsed() < ms(2000), "{:?}", begun.elapsed());
    }
}

#[test]
fn redirects_are_followed_but_not_for_ever() {
    register();
    let server = Server::start();
    let truth = conformance::bytes(LEN);
    server.put("a", ServedFile::new(truth.clone()));
    let target = server.url("a");
    server.faults(move |asked| {
        let to = |to: &str| ServerFault::Status(302, vec![("Location", to.to_owned())]);
        match asked.path.as_str() {
            "/once" => to(&target),
            "/loop" => to("/loop"),
            "/nowhere" => status(302),
            _ => ServerFault::None,
        }
    });
    let (result, bytes) = read(&*source(&server.url("once")), &[(5, 100)], ReadClass::Demand).remove(0);
    assert_eq!(result, Ok(()));
    assert!(bytes == truth[5..105]);
    for name in ["loop", "nowhere"] {
        let before = server.count();
        let (result, _) = read(&*source(&server.url(name)), &[(0, 9)], ReadClass::Demand).remove(0);
        assert!(matches!(result, Err(Protocol { .. })), "{name}: {result:?}");
        assert!(server.count() - before <= 12, "{name}");
    }
}

#[test]
fn versions_are_never_mixed() {
    register();
    type Change = fn(&mut ServedFile);
    let other_tag: Change = |f| f.etag = Some("\"v2\"".into());
    let weak_tag: Change = |f| f.etag = Some("W/\"v2\"".into());
    let other_date: Change = |f| f.modified = Some("Mon, 07 Nov 1994 08:49:37 GMT".into());
    let longer: Change = |f| f.bytes = conformance::bytes(LEN + 1).into();
    let shorter: Change = |f| f.bytes = conformance::bytes(10).into();
    let file = ServedFile::new(conformance::bytes(LEN));
    let untagged = ServedFile { etag: None, ..file.clone() };
    let bare = ServedFile { modified: None, ..untagged.clone() };
    let weak = ServedFile { etag: Some("W/\"v1\"".into()), ..file.clone() };
    let rows = [
        ("another ETag", file.clone(), other_tag),
        ("a weak ETag", weak, weak_tag),
        ("another date", untagged, other_date),
        ("another size, no version", bare, longer),
        ("shorter", file.clone(), shorter),
        ("shorter, with another ETag", file, |f| {
            f.bytes = conformance::bytes(10).into();
            f.etag = Some("\"v2\"".into());
        }),
    ];
    for (name, file, change) in rows {
        let server = Server::start();
        let source = source(&server.put("a", file));
        let first = read(&*source, &RANGES, ReadClass::Demand);
        assert!(first.iter().all(|(result, _)| result.is_ok()), "{name}: {first:?}");
        assert!(source.size() == Ok(LEN as u64), "{name}");
        change(server.files.lock().unwrap().get_mut("/a").unwrap());
        for (result, _) in read(&*source, &RANGES, ReadClass::Demand) {
            let Err(Changed { was, is }) = &result else { panic!("{name}: {result:?}") };
            assert!(was != is && was.contains("2000 bytes") && !is.is_empty(), "{name}: {was}, {is}");
        }
        // A file that was there is not missing.
        server.files.lock().unwrap().clear();
        let (result, _) = read(&*source, &[(0, 9)], ReadClass::Demand).remove(0);
        assert!(matches!(&result, Err(Changed { is, .. }) if is == "deleted"), "{name}: {result:?}");
    }
    // Within one read: the rest of a body that broke.
    let server = Server::start();
    let source = source(&server.put("a", ServedFile::new(conformance::bytes(LEN))));
    server.fault(ServerFault::Cut(10), 1);
    let files = server.clone();
    let mut seen = 0;
    server.faults(move |_| {
        seen += 1;
        if seen == 1 {
            return ServerFault::Cut(10);
        }
        files.files.lock().unwrap().get_mut("/a").unwrap().etag = Some("\"v2\"".into());
        ServerFault::None
    });
    let (result, _) = read(&*source, &[(0, 500)], ReadClass::Demand).remove(0);
    assert!(matches!(result, Err(Changed { .. })), "{result:?}");
}

#[test]
fn ends_of_files_are_told() {
    register();
    let server = Server::start();
    let truth = conformance::bytes(100);
    // 416 without a size, from a server that says it otherwise.
    let url = server.put("a", ServedFile::new(truth.clone()));
    server.faults(|asked| match asked.range() {
        Some((begin, _)) if begin >= 100 || begin == 50 => status(416),
        _ => ServerFault::None,
    });
    let over = read(&*source(&url), &[(90, 20), (100, 5), (50, 1)], ReadClass::Demand);
    assert_eq!(over[0].0, Err(Short { offset: 90, end: 110, have: 100 }));
    assert!(over[0].1[..10] == truth[90..]);
    assert_eq!(over[1].0, Err(Short { offset: 100, end: 105, have: 100 }));
    assert!(matches!(over[2].0, Err(Protocol { .. })), "{:?}", over[2].0);
    // The whole file instead of a longer range.
    let url = server.put("b", ServedFile::new(truth.clone()));
    server.fault(ServerFault::Whole, ALWAYS);
    let whole = read(&*source(&url), &[(0, 101), (0, 100), (1, 200), (0, 99)], ReadClass::Demand);
    assert_eq!(whole[0].0, Err(Short { offset: 0, end: 101, have: 100 }));
    assert!(whole[0].1[..100] == truth);
    assert!(whole[1..].iter().all(|(result, _)| matches!(result, Err(Protocol { .. }))), "{whole:?}");
}
