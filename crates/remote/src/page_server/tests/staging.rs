//! Files that clients bring: rights, names, limits, resumption.

use super::raw::Raw;
use super::support::*;
use crate::page_server::client::{ClientOptions, Credentials};
use crate::page_server::secure::{Certificate, Token, Trust};
use crate::page_server::server::{Patience, Server, ServerOptions};
use crate::page_server::wire::*;
use pager::place::Place;
use std::path::Path;

const TIME: i64 = 1_700_000_000_123_456_789;

fn staging(folder: &Path, limit: u64) -> ServerOptions {
    ServerOptions { names: Vec::new(), staging: Some((folder.to_owned(), limit)), ..options(folder) }
}

fn start(folder: &Path, limit: u64) -> Server {
    Server::start(staging(folder, limit)).unwrap()
}

fn file(name: &str, size: usize) -> StagedFile {
    StagedFile { name: name.into(), size: size as u64, modified_ns: TIME }
}

fn say(raw: &mut Raw, op: Op, body: &[u8]) -> RawTold {
    let told = raw.ask(Request::new(op, 0), body).unwrap();
    (told.reply.state, told.body)
}

type RawTold = (State, Vec<u8>);

fn begin(raw: &mut Raw, file: &StagedFile) -> StageProgress {
    let (state, body) = say(raw, Op::StageBegin, &write_stage_begin(file, false));
    assert_eq!(state, State::Ok, "{}", String::from_utf8_lossy(&body));
    StageProgress::parse(&body).unwrap()
}

fn put(raw: &mut Raw, file: &StagedFile, offset: u64, bytes: &[u8]) -> State {
    let request = Request { offset, ..Request::new(Op::StagePut, 0) };
    raw.ask(request, &write_stage_put(file, bytes)).unwrap().reply.state
}

fn commit(raw: &mut Raw, file: &StagedFile, crc: u32) -> RawTold {
    loop {
        let (state, body) = say(raw, Op::StageCommit, &write_stage_commit(file, crc));
        if state != State::Ok || StageProgress::parse(&body).unwrap().complete {
            return (state, body);
        }
    }
}

/// Stages a file from where it stands, in chunks.
fn bring(raw: &mut Raw, file: &StagedFile, bytes: &[u8]) -> u64 {
    let there = begin(raw, file);
    if there.complete {
        return there.bytes;
    }
    for (n, chunk) in bytes[there.bytes as usize..].chunks(MOST_STAGED).enumerate() {
        assert_eq!(put(raw, file, there.bytes + (n * MOST_STAGED) as u64, chunk), State::Ok);
    }
    assert_eq!(commit(raw, file, crc32c::crc32c(bytes)).0, State::Ok);
    there.bytes
}

fn used(raw: &mut Raw) -> u64 {
    StageRoom::parse(&say(raw, Op::StageRoom, &[]).1).unwrap().used
}

/// Bytes of all files below a folder.
fn on_disk(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let bytes = entries.map(|entry| match entry.metadata().unwrap() {
        about if about.is_dir() => on_disk(&entry.path()),
        about => about.len(),
    });
    bytes.sum()
}

#[test]
fn a_dataset_appears_with_all_its_files_and_stays() {
    let folder = folder();
    let content = bytes(1, 700_000);
    let small = bytes(2, 100);
    let (data, text, empty) = (file("wing/c/0", content.len()), file("wing/zarr.json", 100), file("wing/e", 0));
    let mut server = start(&folder.0, 1 << 20);
    for round in 0..2 {
        let mut raw = Raw::greeted(server.address(), None);
        let before = if round == 0 { 0 } else { content.len() as u64 };
        assert_eq!(bring(&mut raw, &data, &content), before);
        assert_eq!(bring(&mut raw, &text, &small), if round == 0 { 0 } else { 100 });
        bring(&mut raw, &empty, &[]);
        assert_eq!(used(&mut raw), 700_100);
        if round == 0 {
            // Neither a file nor the folder of hidden ones is seen.
            let hidden = [".staging", ".staging/complete/wing/zarr.json", "./wing", "wing", "wing/zarr.json"];
            for name in hidden {
                assert_ne!(raw.open(name, 1).unwrap().reply.state, State::Ok, "{name}");
            }
            let place = place(&server);
            assert_eq!(place.list(Path::new("farfield://host/"), 9).unwrap(), Vec::new());
        }
        assert_eq!(say(&mut raw, Op::StagePublish, b"wing").0, State::Ok);
        assert_eq!(say(&mut raw, Op::StagePublish, b"wing").0, State::Ok);
        let place = place(&server);
        let names: Vec<String> =
            place.list(Path::new("farfield://host/"), 9).unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["wing"]);
        let found = raw.open("wing/c/0", 1).unwrap();
        let stat = RemoteStat::parse(&found.body).unwrap();
        assert_eq!((stat.size, stat.modified_ns), (content.len() as u64, TIME));
        let read = Request { file: 1, offset: 600_000, len: 100_000, ..Request::new(Op::Read, 0) };
        assert_eq!(raw.ask(read, &[]).unwrap().body, content[600_000..]);
        assert_eq!(server.status()["staging"]["names"][0], "wing");
        drop(server);
        server = start(&folder.0, 1 << 20);
    }
    // A second server on the same folder would count for itself.
    let second = Server::start(staging(&folder.0, 1 << 20)).unwrap_err().to_string();
    assert!(second.contains("another server"), "{second}");
    // Another version of one file, and a further one, join the dataset.
    let mut raw = Raw::greeted(server.address(), None);
    let (newer, more) = (bytes(3, 50_000), bytes(4, 10));
    let other = StagedFile { modified_ns: TIME + 1, ..file("wing/c/0", newer.len()) };
    bring(&mut raw, &other, &newer);
    bring(&mut raw, &file("wing/d/0/0", 10), &more);
    assert_eq!(raw.open("wing/d/0/0", 1).unwrap().reply.state, State::Missing);
    assert_eq!(say(&mut raw, Op::StagePublish, b"wing").0, State::Ok);
    assert_eq!(raw.open("wing/d/0/0", 1).unwrap().reply.state, State::Ok);
    assert_eq!(std::fs::read(folder.0.join("wing/c/0")).unwrap(), newer);
    assert_eq!((used(&mut raw), on_disk(&folder.0)), (50_110, 50_110));
    assert_eq!(say(&mut raw, Op::StageRemove, b"wing").0, State::Ok);
    assert_eq!(raw.open("wing/zarr.json", 1).unwrap().reply.state, State::Missing);
    assert_eq!((used(&mut raw), on_disk(&folder.0)), (0, 0));
    assert_eq!(say(&mut raw, Op::StageRemove, b"wing").0, State::Missing);
}

#[test]
fn each_operation_that_writes_needs_the_right_to_stage() {
    let outer = folder();
    let folder = outer.0.join("staged");
    let data = outer.0.join("data");
    std::fs::create_dir_all(&data).unwrap();
    let (reads, writes, wrong) = (Token::fresh().unwrap(), Token::fresh().unwrap(), Token::fresh().unwrap());
    let tokens = || vec![("reads".to_owned(), reads.hash()), ("writes".to_owned(), writes.hash())];
    let server = Server::start(ServerOptions {
        names: vec![("data".into(), data)],
        tokens: tokens(),
        stagers: vec![writes.hash()],
        ..staging(&folder, 1 << 20)
    });
    let server = server.unwrap();
    let content = bytes(1, 300_000);
    let staged = file("wing/a", content.len());
    let request = |op: Op| match op {
        Op::StageBegin => write_stage_begin(&staged, false),
        Op::StagePut => write_stage_put(&staged, &content[..MOST_STAGED]),
        Op::StageCommit => write_stage_commit(&staged, 1),
        Op::StagePublish | Op::StageRemove => b"wing".to_vec(),
        _ => Vec::new(),
    };
    let operations: Vec<Op> = Op::ALL.iter().copied().filter(|op| op.is_staging()).collect();
    assert_eq!(operations.len(), 6);
    for op in &operations {
        let body = request(*op);
        // Without a token and with a wrong one there is no connection.
        for token in [None, Some(&wrong)] {
            let mut raw = Raw::connect(server.address());
            assert_eq!(raw.hello(token).unwrap().reply.state, State::Unauthorized, "{op:?}");
            assert!(raw.is_ended());
        }
        let mut raw = Raw::connect(server.address());
        raw.send(Request::new(*op, 0), &body).unwrap();
        assert_eq!(raw.receive().unwrap().0.reply.state, State::Unauthorized, "{op:?} before HELLO");
        // A token that may only read goes on reading; bytes beyond those of its requests end the connection.
        let mut raw = Raw::greeted(server.address(), Some(&reads));
        raw.send(Request::new(*op, 0), &body).unwrap();
        let told = raw.receive().unwrap().0;
        assert_eq!(told.reply.state, State::Unauthorized, "{op:?}");
        if *op == Op::StagePut {
            assert!(raw.is_ended());
        } else {
            assert!(String::from_utf8_lossy(&told.body).contains("--may-stage"), "{told:?}");
            assert_eq!(raw.ask(Request::new(Op::Ping, 0), &[]).unwrap().reply.state, State::Ok);
        }
        // A right that is taken away, and then the token with it.
        let mut raw = Raw::greeted(server.address(), Some(&writes));
        assert_eq!(begin(&mut raw, &staged).bytes, 0);
        server.set_stagers(Vec::new());
        raw.send(Request::new(*op, 0), &body).unwrap();
        assert_eq!(raw.receive().unwrap().0.reply.state, State::Unauthorized, "{op:?} without the right");
        server.set_stagers(vec![writes.hash()]);
        let mut raw = Raw::greeted(server.address(), Some(&writes));
        begin(&mut raw, &staged);
        server.set_tokens(vec![("reads".into(), reads.hash())]);
        raw.send(Request::new(*op, 0), &body).unwrap();
        assert_eq!(raw.receive().unwrap().0.reply.state, State::Unauthorized, "{op:?} with a revoked token");
        assert!(raw.is_ended());
        server.set_tokens(tokens());
    }
    // Nothing of it was written.
    assert_eq!(on_disk(&folder), 0);
    // Without --staging nobody may, with whatever token.
    let plain = serve(&outer.0);
    let mut raw = Raw::greeted(plain.address(), None);
    for op in &operations {
        let body = if *op == Op::StagePut { write_stage_put(&staged, &content[..10]) } else { request(*op) };
        let (state, why) = say(&mut raw, *op, &body);
        assert_eq!(state, State::Unauthorized);
        assert!(String::from_utf8_lossy(&why).contains("--staging"));
    }
    // Reads go on for both.
    let server = Server::start(ServerOptions { stagers: vec![writes.hash()], tokens: tokens(), ..staging(&folder, 1) });
    assert!(server.is_err(), "the first server has the folder");
}

#[test]
fn no_name_leads_out_of_the_folder() {
    let outer = folder();
    let folder = outer.0.join("staged");
    let server =
        Server::start(ServerOptions { names: vec![("data".into(), outer.0.clone())], ..staging(&folder, 1 << 20) });
    let server = server.unwrap();
    std::os::unix::fs::symlink(&outer.0, folder.join("link")).unwrap();
    std::fs::create_dir(folder.join("wing")).unwrap();
    std::os::unix::fs::symlink(&outer.0, folder.join("wing/link")).unwrap();
    std::fs::create_dir_all(folder.join(".staging/complete/wing")).unwrap();
    std::os::unix::fs::symlink(&outer.0, folder.join(".staging/complete/wing/out")).unwrap();
    let mut raw = Raw::greeted(server.address(), None);
    let long = "x".repeat(256);
    let longest = format!("wing/{}", "y/".repeat(3000));
    for name in [
        "",
        "/",
        "..",
        ".",
        "a/..",
        "../a",
        "a/../../b",
        "a//b",
        "/etc/passwd",
        "a/",
        ".hidden/a",
        ".staging/gone/a",
        "a\0b/c",
        "a/b\0c",
        "a b/c",
        "é/a",
        "data/a",
        "data",
        &long,
        &format!("a/{long}"),
        &longest,
    ] {
        let staged = file(name, 4);
        let (state, why) = say(&mut raw, Op::StageBegin, &write_stage_begin(&staged, false));
        if state == State::BadRequest {
            raw = Raw::greeted(server.address(), None);
            continue;
        }
        assert_eq!(state, State::Unfit, "{name:?}: {}", String::from_utf8_lossy(&why));
        assert_eq!(put(&mut raw, &staged, 0, b"evil"), State::Unfit, "{name:?}");
        assert_eq!(commit(&mut raw, &staged, 0).0, State::Unfit, "{name:?}");
        if !name.contains('/') {
            assert_eq!(say(&mut raw, Op::StagePublish, name.as_bytes()).0, State::Unfit, "{name:?}");
            assert_eq!(say(&mut raw, Op::StageRemove, name.as_bytes()).0, State::Unfit, "{name:?}");
        }
    }
    // A link below is never followed: the whole file stays where it is, unseen.
    for name in ["wing/out/evil", "wing/out"] {
        let staged = file(name, 4);
        begin(&mut raw, &staged);
        assert_eq!(put(&mut raw, &staged, 0, b"evil"), State::Ok);
        let (state, _) = commit(&mut raw, &staged, crc32c::crc32c(b"evil"));
        assert!(state == State::Unfit || name == "wing/out", "{name}: {state:?}");
    }
    assert_eq!(say(&mut raw, Op::StageRemove, b"link").0, State::Ok);
    assert_eq!(say(&mut raw, Op::StageRemove, b"wing").0, State::Ok);
    // Bytes at the names of other datasets are as they were.
    let mut names: Vec<_> = std::fs::read_dir(&outer.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["staged"]);
    assert_eq!(on_disk(&folder), 0);
    // Random names.
    let mut rng = Rng(7);
    for _ in 0..500 {
        const PARTS: [&str; 10] = ["..", ".", "", "a", "link", "wing", ".staging", "parts", "é", "\n"];
        let parts: Vec<&str> = (0..1 + rng.below(5)).map(|_| PARTS[rng.below(10) as usize]).collect();
        let staged = file(&parts.join("/"), 1);
        let (state, _) = say(&mut raw, Op::StageBegin, &write_stage_begin(&staged, false));
        if state == State::Ok {
            assert!(parts.iter().all(|part| !["..", ".", ""].contains(part)) && !parts[0].starts_with('.'));
        }
    }
    assert_eq!(std::fs::read_dir(&outer.0).unwrap().count(), 1);
}

#[test]
fn more_than_the_limit_is_refused_before_its_first_byte() {
    let folder = folder();
    let server = start(&folder.0, 1000);
    let mut raw = Raw::greeted(server.address(), None);
    assert_eq!(begin(&mut raw, &file("a/1", 600)).bytes, 0);
    for size in [401, 1 << 20, usize::MAX >> 1, usize::MAX] {
        let (state, why) = say(&mut raw, Op::StageBegin, &write_stage_begin(&file("a/2", size), false));
        let why = String::from_utf8(why).unwrap();
        assert!(state == State::Full && why.contains(&size.to_string()) && why.contains("400 are left"), "{why}");
    }
    begin(&mut raw, &file("a/2", 400));
    assert_eq!(used(&mut raw), 1000);
    // What is only looked for takes no room.
    let body = write_stage_begin(&file("a/3", 1), true);
    assert_eq!(StageProgress::parse(&say(&mut raw, Op::StageBegin, &body).1).unwrap().bytes, 0);
    let body = write_stage_begin(&file("a/2", 400), true);
    assert_eq!(StageProgress::parse(&say(&mut raw, Op::StageBegin, &body).1).unwrap().bytes, 400);
    // Another version gives the room of the first back.
    begin(&mut raw, &StagedFile { modified_ns: 1, ..file("a/2", 300) });
    assert_eq!(used(&mut raw), 900);
    assert_eq!(put(&mut raw, &file("a/2", 400), 0, &[0; 10]), State::Unfit);
    drop(server);
    // So it is counted at the next start.
    let server = start(&folder.0, 1000);
    assert_eq!(used(&mut Raw::greeted(server.address(), None)), 900);
}

#[test]
fn wrong_bytes_do_not_become_a_file() {
    let folder = folder();
    let server = start(&folder.0, 1 << 20);
    let mut raw = Raw::greeted(server.address(), None);
    let content = bytes(5, 1000);
    let staged = file("a/1", content.len());
    assert_eq!(put(&mut raw, &staged, 0, &content), State::Unfit, "not begun");
    begin(&mut raw, &staged);
    assert_eq!(commit(&mut raw, &staged, 0).0, State::Unfit, "nothing is there");
    // A wrong checksum of a chunk: the file goes on.
    let mut body = write_stage_put(&staged, &content);
    let last = body.len() - 1;
    body[last] ^= 1;
    assert_eq!(say(&mut raw, Op::StagePut, &body).0, State::Unfit);
    assert_eq!(begin(&mut raw, &staged).bytes, 0);
    assert_eq!(put(&mut raw, &staged, 0, &content), State::Ok);
    assert_eq!(put(&mut raw, &staged, 999, &[0, 0]), State::Unfit, "beyond the end");
    // The disk has other bytes than came: the file begins again.
    let parts = folder.0.join(".staging/parts/a");
    let path = std::fs::read_dir(&parts).unwrap().next().unwrap().unwrap().path();
    let mut flipped = content.clone();
    flipped[500] ^= 4;
    std::fs::write(&path, &flipped).unwrap();
    let (state, why) = commit(&mut raw, &staged, crc32c::crc32c(&content));
    assert!(state == State::Unfit && String::from_utf8_lossy(&why).contains("checksum"));
    assert_eq!(begin(&mut raw, &staged).bytes, 0);
    bring(&mut raw, &staged, &content);
    assert_eq!(say(&mut raw, Op::StagePublish, b"a").0, State::Ok);
    assert_eq!(say(&mut raw, Op::StagePublish, b"b").0, State::Missing);
    assert_eq!(std::fs::read(folder.0.join("a/1")).unwrap(), content);
    // Bodies that are none, and one that is too long, end the connection.
    for (op, body) in [(Op::StageBegin, &b"xx"[..]), (Op::StagePut, b""), (Op::StageCommit, &[0; 40])] {
        let mut raw = Raw::greeted(server.address(), None);
        assert_eq!(say(&mut raw, op, body).0, State::BadRequest, "{op:?}");
        assert!(raw.is_ended());
    }
    let mut raw = Raw::greeted(server.address(), None);
    let head = Request { body: (MOST_STAGE_BODY + 1) as u32, ..Request::new(Op::StagePut, 1) }.bytes();
    std::io::Write::write_all(&mut raw.socket, &head).unwrap();
    assert_eq!(raw.receive().unwrap().0.reply.state, State::BadRequest);
}

/// Servers that end between chunks, and connections that do.
#[test]
fn what_was_begun_goes_on_after_an_end_at_any_point() {
    let cases = in_soak(20, 1000);
    let folder = folder();
    let content = bytes(9, 17 << 20);
    let mut rng = Rng(11);
    for case in 0..cases {
        let staged = StagedFile { modified_ns: TIME + case as i64, ..file("wing/a", content.len()) };
        let mut server = start(&folder.0, 40 << 20);
        let mut sent = 0u64;
        loop {
            let mut raw = Raw::greeted(server.address(), None);
            let there = begin(&mut raw, &staged);
            if there.complete {
                break;
            }
            let end = rng.below(100);
            let mut all = true;
            for (n, chunk) in content[there.bytes as usize..].chunks(MOST_STAGED).enumerate() {
                if n as u64 == end {
                    all = false;
                    break;
                }
                assert_eq!(put(&mut raw, &staged, there.bytes + (n * MOST_STAGED) as u64, chunk), State::Ok);
                sent += chunk.len() as u64;
            }
            if all {
                let body = write_stage_commit(&staged, crc32c::crc32c(&content));
                if rng.below(2) == 0 {
                    // The answer is lost.
                    raw.send(Request::new(Op::StageCommit, 0), &body).unwrap();
                } else {
                    assert_eq!(commit(&mut raw, &staged, crc32c::crc32c(&content)).0, State::Ok);
                }
            }
            drop(raw);
            if rng.below(2) == 0 {
                drop(server);
                server = start(&folder.0, 40 << 20);
            }
        }
        let mut raw = Raw::greeted(server.address(), None);
        assert_eq!(say(&mut raw, Op::StagePublish, b"wing").0, State::Ok);
        assert!(std::fs::read(folder.0.join("wing/a")).unwrap() == content, "case {case}");
        assert!(sent < 6 * content.len() as u64, "{sent} bytes were sent");
    }
}

#[test]
fn a_client_brings_files_by_tls() {
    let folder = folder();
    let (certificate, token) = (Certificate::self_signed(&["localhost".into()]).unwrap(), Token::fresh().unwrap());
    let trust = Some(Trust::Pinned(certificate.fingerprint()));
    let server = Server::start(ServerOptions {
        certificate: Some(certificate),
        tokens: vec![("me".into(), token.hash())],
        stagers: vec![token.hash()],
        ..staging(&folder.0, 64 << 20)
    });
    let server = server.unwrap();
    let content = bytes(3, 3 << 20);
    let staged = file("a/1", content.len());
    let place = place_at(server.address(), Credentials { token: Some(token), trust }, ClientOptions::default());
    place.stage_begin(&staged, false).unwrap();
    let chunks: Vec<_> = content
        .chunks(MOST_STAGED)
        .enumerate()
        .map(|(n, c)| place.stage_put(&staged, (n * MOST_STAGED) as u64, c))
        .collect();
    chunks.into_iter().for_each(|chunk| chunk.wait().unwrap());
    assert!(place.stage_commit(&staged, crc32c::crc32c(&content)).unwrap().complete);
    place.stage_publish("a").unwrap();
    assert_eq!(std::fs::read(folder.0.join("a/1")).unwrap(), content);
    assert_eq!(server.status()["held"], 0);
    assert_eq!(place.stage_room().unwrap().used, 3 << 20);
    place.stage_remove("a").unwrap();
}

/// Chunks that wait hold memory, and give it back whoever goes first.
#[test]
fn many_clients_stage_in_little_memory() {
    let folder = folder();
    let server = Server::start(ServerOptions { memory_limit: MOST_READ, ..staging(&folder.0, 1 << 30) }).unwrap();
    let contents: Vec<Vec<u8>> = (0..50).map(|n| bytes(n, 2 << 20)).collect();
    std::thread::scope(|scope| {
        for (n, content) in contents.iter().enumerate() {
            let (server, staged) = (&server, file(&format!("a/{n}"), content.len()));
            scope.spawn(move || {
                let mut raw = Raw::greeted(server.address(), None);
                begin(&mut raw, &staged);
                // All at once: the answers are looked at when everything is out.
                let chunks = content.chunks(MOST_STAGED).enumerate();
                let sent = chunks.map(|(n, chunk)| {
                    let request = Request { offset: (n * MOST_STAGED) as u64, ..Request::new(Op::StagePut, 0) };
                    raw.send(request, &write_stage_put(&staged, chunk)).unwrap()
                });
                for _ in 0..sent.count() {
                    assert_eq!(raw.receive().unwrap().0.reply.state, State::Ok);
                }
                if n % 5 == 0 {
                    // What is under way when a connection ends is given back, too.
                    raw.send(Request::new(Op::StagePut, 0), &write_stage_put(&staged, &content[..MOST_STAGED]))
                        .unwrap();
                    raw = Raw::greeted(server.address(), None);
                }
                assert_eq!(commit(&mut raw, &staged, crc32c::crc32c(content)).0, State::Ok);
            });
        }
    });
    until("all memory is given back", std::time::Duration::from_secs(5), || server.status()["held"] == 0);
    assert_eq!(say(&mut Raw::greeted(server.address(), None), Op::StagePublish, b"a").0, State::Ok);
    for (n, content) in contents.iter().enumerate() {
        assert!(std::fs::read(folder.0.join(format!("a/{n}"))).unwrap() == *content);
    }
}

#[test]
fn a_slow_body_is_taken_and_one_that_stops_is_not() {
    use std::io::Write;
    use std::time::Duration;
    let folder = folder();
    let patience = Patience { hello: Duration::from_millis(300), ..Patience::default() };
    let server = Server::start(ServerOptions { patience, ..staging(&folder.0, 1 << 20) }).unwrap();
    let content = bytes(1, 200_000);
    let staged = file("a/1", content.len());
    let mut raw = Raw::greeted(server.address(), None);
    begin(&mut raw, &staged);
    let body = write_stage_put(&staged, &content);
    let head = Request { body: body.len() as u32, ..Request::new(Op::StagePut, 7) }.bytes();
    raw.socket.write_all(&head).unwrap();
    for piece in body.chunks(20_000) {
        std::thread::sleep(Duration::from_millis(150));
        raw.socket.write_all(piece).unwrap();
    }
    assert_eq!(raw.receive().unwrap().0.reply.state, State::Ok);
    raw.socket.write_all(&head).unwrap();
    raw.socket.write_all(&body[..100]).unwrap();
    let begun = std::time::Instant::now();
    assert!(raw.is_ended() && begun.elapsed() < Duration::from_secs(3));
}
