//! Refusals of clients, servers and names.

use super::raw::Raw;
use super::support::*;
use crate::page_server::client::{ClientOptions, Credentials};
use crate::page_server::secure::{Certificate, Token, Trust};
use crate::page_server::server::{Server, ServerError, ServerOptions};
use crate::page_server::wire::*;
use pager::PageErrorKind;
use std::os::unix::fs::symlink;

fn staged_file() -> StagedFile {
    StagedFile { name: "staged/a".into(), size: 0, modified_ns: 1 }
}

/// A request of each operation that would be answered after HELLO.
fn request_of(op: Op) -> (Request, Vec<u8>) {
    let mut body = Vec::new();
    match op {
        Op::Hello => body = Hello { version: VERSION, token: None }.bytes(),
        Op::Open => body = b"data/a".to_vec(),
        Op::Stat => write_names(&mut body, ["data/a"]),
        Op::List => body = b"data".to_vec(),
        Op::ReadV => write_ranges(&mut body, [Range { offset: 0, len: 4 }]),
        Op::StageBegin => body = write_stage_begin(&staged_file(), false),
        Op::StagePut => body = write_stage_put(&staged_file(), &[]),
        Op::StageCommit => body = write_stage_commit(&staged_file(), 0),
        Op::StagePublish | Op::StageRemove => body = b"kept".to_vec(),
        Op::Via => body = Via { index_offset: 0, index_len: 16, slot: 0, base: 0, from_end: false }.bytes(),
        _ => {}
    }
    let len = match op {
        Op::Read | Op::ReadV => 4,
        Op::Via => 100,
        _ => 0,
    };
    (Request { len, file: 10, ..Request::new(op, 0) }, body)
}

#[test]
fn every_operation_needs_a_token_that_is_taken() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(1, 100)).unwrap();
    let (good, wrong) = (Token::fresh().unwrap(), Token::fresh().unwrap());
    let server = Server::start(ServerOptions {
        tokens: vec![("me".into(), good.hash())],
        staging: Some((folder.0.join("staged"), 1000)),
        stagers: vec![good.hash()],
        ..options(&folder.0)
    });
    let server = server.unwrap();
    std::fs::create_dir(folder.0.join("staged/kept")).unwrap();
    for op in Op::ALL {
        let (request, body) = request_of(*op);
        // Before HELLO, and HELLO without a token.
        let mut raw = Raw::connect(server.address());
        let told = raw.ask(request, &body).unwrap();
        assert_eq!(told.reply.state, State::Unauthorized, "{op:?}: {told:?}");
        assert!(raw.is_ended(), "{op:?}");
        // After HELLO with a wrong token, sent at once.
        let mut raw = Raw::connect(server.address());
        let hello = Hello { version: VERSION, token: Some(*wrong.bytes()) }.bytes();
        raw.send(Request::new(Op::Hello, 0), &hello).unwrap();
        raw.send(request, &body).unwrap();
        let (told, _) = raw.receive().unwrap();
        assert_eq!(told.reply.state, State::Unauthorized, "{op:?}");
        assert!(raw.is_ended(), "{op:?}: nothing follows a refusal");
    }
    // With the token each is answered, until it is revoked.
    for op in Op::ALL.iter().filter(|op| **op != Op::Hello) {
        let (request, body) = request_of(*op);
        let mut raw = Raw::greeted(server.address(), Some(&good));
        assert_eq!(raw.open("data/a", 10).unwrap().reply.state, State::Ok);
        let told = raw.ask(Request { file: if *op == Op::Open { 11 } else { 10 }, ..request }, &body).unwrap();
        let expected = match op {
            Op::Promote | Op::Cancel => State::NotWaiting,
            _ => State::Ok,
        };
        assert_eq!(told.reply.state, expected, "{op:?}");
        server.set_tokens(vec![("other".into(), wrong.hash())]);
        let told = raw.ask(request, &body).unwrap();
        assert_eq!(told.reply.state, State::Unauthorized, "{op:?} with a revoked token");
        assert!(raw.is_ended());
        assert_eq!(Raw::connect(server.address()).hello(Some(&good)).unwrap().reply.state, State::Unauthorized);
        server.set_tokens(vec![("me".into(), good.hash())]);
    }
    let mut raw = Raw::connect(server.address());
    let newer = Hello { version: VERSION + 1, token: Some(*good.bytes()) }.bytes();
    let told = raw.ask(Request::new(Op::Hello, 0), &newer).unwrap();
    assert_eq!(told.reply.state, State::BadRequest);
    assert!(String::from_utf8(told.body).unwrap().contains("speaks version 1"));
    // With the last token revoked nobody is let in, with or without a token.
    server.set_tokens(Vec::new());
    for token in [None, Some(&good), Some(&wrong)] {
        assert_eq!(Raw::connect(server.address()).hello(token).unwrap().reply.state, State::Unauthorized);
    }
    let counted = server.status().to_string() + &server.prometheus();
    assert!(!counted.contains(&good.secret()) && !format!("{good:?}").contains(&good.secret()[..8]));
}

#[test]
fn clients_and_servers_that_are_not_believed_are_refused_with_the_reason() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(1, 100)).unwrap();
    let (server, good) = serve_by_tls(&folder.0);
    let other = Certificate::self_signed(&["localhost".into()]).unwrap();
    let token = Token::fresh().unwrap();
    let refused = |address: std::net::SocketAddr, credentials: Credentials| {
        let place = place_at(address, credentials, ClientOptions::default());
        let begin = std::time::Instant::now();
        let result = read(&place, &file("a"), 0, 10);
        assert!(begin.elapsed().as_secs() < 2, "no use to try again: {result:?}");
        match result {
            Err(PageErrorKind::Unauthorized { message, .. }) => message,
            other => panic!("{other:?}"),
        }
    };
    let address = server.address();
    let message = refused(address, Credentials { token: None, ..good.clone() });
    assert!(message.contains("FARFIELD_TOKEN"), "{message}");
    let message = refused(address, Credentials { token: Some(token.clone()), ..good.clone() });
    assert!(message.contains("does not know the token") && !message.contains(&token.secret()), "{message}");
    let message = refused(address, Credentials { trust: Some(Trust::Pinned(other.fingerprint())), ..good.clone() });
    assert!(message.contains(&other.fingerprint().to_string()), "{message}");
    let message = refused(address, Credentials { trust: Some(Trust::System), ..good.clone() });
    assert!(message.contains("not believed"), "{message}");
    let expired = Certificate::expired(&["localhost".into()]).unwrap();
    let pin = Trust::Pinned(expired.fingerprint());
    let old = Server::start(ServerOptions { certificate: Some(expired), ..options(&folder.0) }).unwrap();
    let message = refused(old.address(), Credentials { trust: Some(pin), ..good.clone() });
    assert!(message.to_lowercase().contains("expired"), "{message}");
    // Authorities of the user's own, and a name that the certificate has.
    let certificate = Certificate::self_signed(&["127.0.0.1".into()]).unwrap();
    let pem = pem(certificate.der());
    let own = Server::start(ServerOptions { certificate: Some(certificate), ..options(&folder.0) }).unwrap();
    let trust = Trust::Authorities(pem.into_bytes());
    let place = place_at(own.address(), Credentials { trust: Some(trust), token: None }, hasty());
    assert_eq!(read(&place, &file("a"), 5, 10).unwrap(), bytes(1, 100)[5..15]);
    // Without TLS where the server wants it, and the other way round.
    let place = place_at(address, Credentials::default(), hasty());
    let result = read(&place, &file("a"), 0, 10);
    assert!(
        matches!(&result, Err(PageErrorKind::Unreachable { last, .. }) if last.contains("FARFIELD_SERVER_PIN")),
        "{result:?}"
    );
    let plain = serve(&folder.0);
    let place = place_at(plain.address(), good, hasty());
    let result = read(&place, &file("a"), 0, 10);
    assert!(result.as_ref().is_err_and(PageErrorKind::is_network), "{result:?}");
}

fn pem(der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in der.chunks(3) {
        let word = three.iter().fold(0u32, |word, b| word << 8 | u32::from(*b)) << (8 * (3 - three.len()));
        for n in 0..4 {
            let digit = char::from(DIGITS[(word >> (18 - 6 * n) & 63) as usize]);
            out.push(if n <= three.len() { digit } else { '=' });
        }
    }
    format!("-----BEGIN CERTIFICATE-----\n{out}\n-----END CERTIFICATE-----\n")
}

#[test]
fn tls_below_1_3_and_other_protocols_are_refused() {
    let folder = folder();
    let (server, good) = serve_by_tls(&folder.0);
    let connect = |versions: &[&'static rustls::SupportedProtocolVersion], alpn: Option<&[u8]>| {
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        let mut config = builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
        // The verifier of the pin, so that the certificate is no reason to fail.
        let pinned = good.trust.clone().unwrap().client_config().unwrap();
        if versions.len() == 1 && versions[0].version == rustls::ProtocolVersion::TLSv1_3 {
            config = (*pinned).clone();
        }
        config.alpn_protocols = alpn.iter().map(|alpn| alpn.to_vec()).collect();
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        let mut tls = rustls::ClientConnection::new(std::sync::Arc::new(config), name).unwrap();
        let mut socket = std::net::TcpStream::connect(server.address()).unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        let agreed = tls.complete_io(&mut socket).map_err(|e| e.to_string());
        // Whether the server goes on after the handshake.
        agreed.and_then(|_| match std::io::Read::read(&mut rustls::Stream::new(&mut tls, &mut socket), &mut [0; 1]) {
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
            other => Err(format!("{other:?}")),
        })
    };
    let old = connect(&[&rustls::version::TLS12], Some(ALPN)).unwrap_err();
    assert!(old.contains("ProtocolVersion"), "{old}");
    let other = connect(&[&rustls::version::TLS13], Some(b"h2")).unwrap_err();
    assert!(other.contains("NoApplicationProtocol"), "{other}");
    connect(&[&rustls::version::TLS13], None).unwrap_err();
}

#[test]
fn a_server_for_others_needs_tls_and_a_token() {
    let folder = folder();
    let open = || ServerOptions { listen: "0.0.0.0:0".into(), ..options(&folder.0) };
    let certificate = || Some(Certificate::self_signed(&["localhost".into()]).unwrap());
    let Err(ServerError::Insecure(message)) = Server::start(open()) else { panic!("no TLS") };
    assert!(message.contains("TLS"), "{message}");
    let Err(ServerError::Insecure(message)) = Server::start(ServerOptions { certificate: certificate(), ..open() })
    else {
        panic!("no token")
    };
    assert!(message.contains("token"), "{message}");
    let tokens = vec![("me".into(), Token::fresh().unwrap().hash())];
    let Err(ServerError::Insecure(_)) = Server::start(ServerOptions { tokens: tokens.clone(), ..open() }) else {
        panic!("a token without TLS")
    };
    Server::start(ServerOptions { tokens, certificate: certificate(), ..open() }).unwrap();
}

#[test]
fn the_certificate_is_kept_where_only_its_owner_can_go() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let state = folder.0.join("state");
    let hosts = ["localhost".to_owned()];
    let first = Certificate::kept(&state, &hosts).unwrap().fingerprint();
    assert_eq!(Certificate::kept(&state, &hosts).unwrap().fingerprint(), first);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&state), mode(&state.join("key.der"))), (0o700, 0o600));
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o750)).unwrap();
    assert!(Certificate::kept(&state, &hosts).unwrap_err().0.contains("0700"));
}

/// Names that try to leave what is served, or to reach what is no regular file.
fn hostile(rng: &mut Rng, secret: &str) -> String {
    const PARTS: &[&str] = &[
        "..", ".", "", "data", "a", "inner", "link", "out", "loop", "deep", "pipe", "...", "a\0b", "\u{202e}", "é",
        "%2e%2e", "..\\", "~", "proc", "self", "fd", "root", "etc", "passwd", "C:", "//", " ", "\n", "secret",
        "dir-link", "abs-link",
    ];
    let depth = 1 + rng.below(7);
    let mut name: Vec<String> = (0..depth).map(|_| PARTS[rng.below(PARTS.len() as u64) as usize].to_owned()).collect();
    match rng.below(8) {
        0 => name.insert(0, String::new()),
        1 => name = vec![format!("data/{}{secret}", "../".repeat(rng.below(12) as usize))],
        2 => name = vec!["data".into(), "x".repeat(rng.below(9000) as usize)],
        3 => name = vec![secret.to_owned()],
        _ => {}
    }
    if rng.below(3) > 0 {
        name.insert(0, "data".into());
    }
    name.join("/")
}

#[test]
fn no_name_leads_outside() {
    let outer = folder();
    let served = outer.0.join("served");
    std::fs::create_dir_all(served.join("inner/deep")).unwrap();
    let secret = outer.0.join("secret");
    std::fs::write(&secret, b"SECRET").unwrap();
    std::fs::write(served.join("a"), b"public").unwrap();
    std::fs::write(served.join("inner/a"), b"public").unwrap();
    std::fs::write(served.join("inner/deep/a"), b"public").unwrap();
    symlink("../secret", served.join("out")).unwrap();
    symlink(&secret, served.join("abs-link")).unwrap();
    symlink(&outer.0, served.join("dir-link")).unwrap();
    symlink("a", served.join("link")).unwrap();
    symlink("loop", served.join("loop")).unwrap();
    symlink("/proc/self/root", served.join("inner/proc")).unwrap();
    let pipe = std::ffi::CString::new(served.join("pipe").to_str().unwrap()).unwrap();
    // SAFETY: the path ends with NUL.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    let server = serve(&served);
    let mut raw = Raw::greeted(server.address(), None);
    let count = in_soak(1000, 100_000) as u32;
    let (mut rng, mut opened, mut seen) = (Rng(5), 0, std::collections::HashMap::<String, u32>::new());
    for n in 0..count {
        let name = hostile(&mut rng, secret.to_str().unwrap().trim_start_matches('/'));
        let told = raw.open(&name, n % 100).unwrap();
        *seen.entry(format!("{:?}", told.reply.state)).or_default() += 1;
        if told.reply.state == State::Ok {
            opened += 1;
            let read = Request { file: n % 100, len: 6, ..Request::new(Op::Read, 0) };
            assert_eq!(raw.ask(read, &[]).unwrap().body, b"public", "{name:?}");
            assert!(name.ends_with('a') && !name.contains(".."), "{name:?}");
        }
        let mut body = Vec::new();
        write_names(&mut body, [&*name]);
        let looks = read_looks(&raw.ask(Request::new(Op::Stat, 0), &body).unwrap().body, 1).unwrap();
        assert!(looks[0].0 != State::Ok || !name.contains(".."), "{name:?}: {looks:?}");
        let told = raw.ask(Request { file: 100, ..Request::new(Op::List, 0) }, name.as_bytes()).unwrap();
        if told.reply.state == State::Ok && !name.is_empty() {
            let entries = read_entries(&told.body).unwrap();
            assert!(entries.iter().all(|(_, _, name)| name != "served" && name != "secret"), "{name:?}");
        }
    }
    assert!(opened > 0, "{seen:?}");
    // The client's own reading of addresses, which may be quoted, leads nowhere else either.
    let place = place(&server);
    let mut got = 0;
    for n in 0..in_soak(400, 20_000) {
        let mut name = hostile(&mut rng, secret.to_str().unwrap().trim_start_matches('/'));
        if n % 2 == 0 {
            name = name.replace('.', "%2e").replace('/', if n % 4 == 0 { "/" } else { "%2F" });
        }
        let path = std::path::PathBuf::from(format!("farfield://host/{name}"));
        let asked = pager::place::FileRef { path: path.into(), ..file("a") };
        match read(&place, &asked, 0, 6) {
            Ok(bytes) => {
                assert_eq!(bytes, b"public", "{name:?}");
                got += 1;
            }
            Err(kind) => {
                assert!(!kind.is_network() || matches!(kind, PageErrorKind::Protocol { .. }), "{name:?}: {kind}")
            }
        }
    }
    assert!(got > 0);
    for (name, state) in [
        ("data/link", State::Link),
        ("data/dir-link/secret", State::Link),
        ("data/pipe", State::NotFile),
        ("data/inner", State::NotFile),
        ("data/../secret", State::BadName),
        ("/etc/passwd", State::BadName),
        ("", State::BadName),
        ("other/a", State::Missing),
        ("data/b", State::Missing),
        ("data/a/b", State::Missing),
        ("data/inner/a", State::Ok),
    ] {
        assert_eq!(raw.open(name, 0).unwrap().reply.state, state, "{name:?}");
    }
    // A single file that is served shows nothing beside it.
    let one = ServerOptions { names: vec![("one".into(), served.join("a"))], ..options(&served) };
    let one = Server::start(one).unwrap();
    let mut raw = Raw::greeted(one.address(), None);
    assert_eq!(raw.open("one", 0).unwrap().reply.state, State::Ok);
    assert_eq!(raw.open("one/inner/a", 1).unwrap().reply.state, State::Missing);
    assert_eq!(raw.open("inner/a", 1).unwrap().reply.state, State::Missing);
}

#[test]
fn names_and_addresses_of_a_server_are_checked() {
    let folder = folder();
    for name in ["", "..", "a/b", "a\0"] {
        let options = ServerOptions { names: vec![(name.into(), folder.0.clone())], ..options(&folder.0) };
        assert!(Server::start(options).is_err(), "{name:?}");
    }
    let twice = vec![("a".to_owned(), folder.0.clone()), ("a".to_owned(), folder.0.clone())];
    assert!(Server::start(ServerOptions { names: twice, ..options(&folder.0) }).is_err());
    assert!(Server::start(ServerOptions { names: Vec::new(), ..options(&folder.0) }).is_err());
    assert!(Server::start(options(&folder.0.join("none"))).is_err());
    assert!(Server::start(ServerOptions { memory_limit: 1000, ..options(&folder.0) }).is_err());
    let first = serve(&folder.0);
    let second = Server::start(ServerOptions { listen: first.address().to_string(), ..options(&folder.0) });
    assert!(second.unwrap_err().to_string().contains("cannot listen"));
}
