//! Page servers by their URLs, as a program reads them.

use pager::place::{self, FileKind, FileReader, Opening};
use pager::PageErrorKind;
use remote::page_server::client::{register, set_credentials, ClientOptions, Credentials};
use remote::page_server::secure::{Certificate, Token, Trust};
use remote::page_server::server::{Server, ServerOptions};
use std::path::{Path, PathBuf};

#[test]
fn urls_are_read_like_paths() {
    let folder = std::env::temp_dir().join(format!("farfield-places-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("c")).unwrap();
    std::fs::write(folder.join("zarr.json"), b"{}").unwrap();
    let long: Vec<u8> = (0..3_000_000u32).map(|n| (n >> 7) as u8).collect();
    std::fs::write(folder.join("c/0"), &long).unwrap();
    let options = || ServerOptions {
        names: vec![("wing".to_owned(), folder.clone())],
        listen: "127.0.0.1:0".to_owned(),
        ..ServerOptions::default()
    };
    let plain = Server::start(options()).unwrap();
    let (certificate, token) = (Certificate::self_signed(&["localhost".to_owned()]).unwrap(), Token::fresh().unwrap());
    let trust = Some(Trust::Pinned(certificate.fingerprint()));
    let tokens = vec![("me".to_owned(), token.hash())];
    let by_tls = Server::start(ServerOptions { certificate: Some(certificate), tokens, ..options() }).unwrap();
    register(ClientOptions::default());
    set_credentials(&by_tls.address().to_string(), Credentials { token: Some(token), trust });
    for root in [
        format!("farfield+tcp://{}/wing", plain.address()),
        format!("farfield://{}/wing", plain.address()),
        format!("farfield://{}/wing", by_tls.address()),
    ] {
        let _opening = Opening::begin();
        let path = |name: &str| PathBuf::from(&root).join(name);
        assert_eq!(&*place::read_small(&path("zarr.json"), 100).unwrap(), b"{}", "{root}");
        assert_eq!(place::read_small(&path(".zgroup"), 100), Err(PageErrorKind::Missing));
        let found = place::stat(&[path("c"), path("c/0"), path("c/1")]);
        assert_eq!(found[0].as_ref().unwrap().kind, FileKind::Folder);
        assert_eq!(found[1].as_ref().unwrap().version.size, long.len() as u64);
        assert_eq!(found[2], Err(PageErrorKind::Missing));
        let mut names: Vec<String> = place::list(Path::new(&root), 10).unwrap().into_iter().map(|e| e.name).collect();
        names.sort();
        assert_eq!(names, ["c", "zarr.json"]);
        let reader = FileReader::open(&path("c/0")).unwrap();
        assert!(reader.read_up_to(5, long.len()).unwrap() == long[5..]);
    }
    for url in ["farfield://", "farfield+tcp://192.0.2.1/wing", "farfield://me:secret@host/wing"] {
        let Err(PageErrorKind::Unsupported(message)) = place::of(Path::new(url)) else { panic!("{url}") };
        assert!(message.contains(url) || message.contains("..@host: "), "{message}");
        assert!(!message.contains("secret"), "{message}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
