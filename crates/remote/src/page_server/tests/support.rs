//! Folders, servers and reads for the tests.

use super::super::client::{ClientOptions, Credentials, RemotePlace};
use super::super::secure::{Certificate, Token, Trust};
use super::super::server::{Server, ServerOptions};
use pager::place::{FilePin, FileRef, FoundExtent, IndexedExtent, Place};
use pager::source::{Buffer, Completion, Read, ReadClass};
use pager::PageErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

pub type ReadResult = Result<(), PageErrorKind>;

/// A folder that is removed at the end.
pub struct TempFolder(pub PathBuf);

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

pub fn folder() -> TempFolder {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, SeqCst);
    let path = std::env::temp_dir().join(format!("farfield-page-server-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    TempFolder(path)
}

/// A few in the tests of each change, many in a soak.
pub fn in_soak(few: u64, many: u64) -> u64 {
    if std::env::var_os("FARFIELD_SOAK_S").is_some() {
        many
    } else {
        few
    }
}

/// A seeded generator.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}

pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng(seed);
    let mut out: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| rng.next().to_le_bytes()).collect();
    out.truncate(len);
    out
}

/// Options of a server of one folder under the name `data`.
pub fn options(folder: &Path) -> ServerOptions {
    ServerOptions {
        names: vec![("data".to_owned(), folder.to_owned())],
        listen: "127.0.0.1:0".to_owned(),
        ..ServerOptions::default()
    }
}

pub fn serve(folder: &Path) -> Server {
    Server::start(options(folder)).unwrap()
}

/// With TLS and a token.
pub fn serve_by_tls(folder: &Path) -> (Server, Credentials) {
    let (certificate, token) = (Certificate::self_signed(&["localhost".into()]).unwrap(), Token::fresh().unwrap());
    let trust = Some(Trust::Pinned(certificate.fingerprint()));
    let options =
        ServerOptions { certificate: Some(certificate), tokens: vec![("me".into(), token.hash())], ..options(folder) };
    (Server::start(options).unwrap(), Credentials { token: Some(token), trust })
}

/// Short deadlines.
pub fn hasty() -> ClientOptions {
    ClientOptions {
        network_timeout: Duration::from_secs(3),
        first_timeout: Duration::from_secs(1),
        silence: Duration::from_millis(400),
        stall: Duration::from_millis(800),
        ..ClientOptions::default()
    }
}

pub fn place_at(address: impl std::fmt::Display, credentials: Credentials, options: ClientOptions) -> Arc<RemotePlace> {
    Arc::new(RemotePlace::open(&format!("farfield://{address}"), credentials, options).unwrap())
}

pub fn place(server: &Server) -> Arc<RemotePlace> {
    place_at(server.address(), Credentials::default(), hasty())
}

pub fn url(name: &str) -> PathBuf {
    format!("farfield://host/data/{name}").into()
}

/// A file with a pin of its own.
pub fn file(name: &str) -> FileRef {
    FileRef { path: url(name).into(), base: 0, pin: Arc::new(FilePin::default()) }
}

/// Results by token.
#[derive(Default)]
pub struct Log {
    results: Mutex<Vec<(u64, ReadResult)>>,
    bell: Condvar,
}

impl Completion for Log {
    fn complete(&self, token: u64, result: ReadResult) {
        self.results.lock().unwrap().push((token, result));
        self.bell.notify_all();
    }
}

impl Log {
    pub fn count(&self) -> usize {
        self.results.lock().unwrap().len()
    }

    /// All results, once there are so many. The order is that of their arrival.
    pub fn wait(&self, count: usize) -> Vec<(u64, ReadResult)> {
        let end = Instant::now() + Duration::from_secs(20);
        let mut results = self.results.lock().unwrap();
        while results.len() < count {
            let left = end.checked_duration_since(Instant::now());
            let Some(left) = left else { panic!("{} of {count} reads ended", results.len()) };
            results = self.bell.wait_timeout(results, left).unwrap().0;
        }
        results.clone()
    }
}

/// Reads ranges at the same time; results in their order.
pub fn read_all(place: &RemotePlace, file: &FileRef, ranges: &[(u64, usize)]) -> Vec<(ReadResult, Vec<u8>)> {
    read_as(place, file, ranges, ReadClass::Demand)
}

pub fn read_as(
    place: &RemotePlace,
    file: &FileRef,
    ranges: &[(u64, usize)],
    class: ReadClass,
) -> Vec<(ReadResult, Vec<u8>)> {
    let log = Arc::new(Log::default());
    let mut memory: Vec<Vec<u8>> = ranges.iter().map(|(_, len)| vec![0xAA; *len]).collect();
    let reads = ranges.iter().zip(&mut memory).enumerate().map(|(n, ((offset, len), memory))| Read {
        token: n as u64,
        offset: *offset,
        buffers: vec![Buffer { ptr: memory.as_mut_ptr(), len: *len }],
        class,
    });
    place.submit(file, reads.collect(), &(log.clone() as Arc<dyn Completion>));
    let mut results = log.wait(ranges.len());
    results.sort_by_key(|(token, _)| *token);
    assert!(results.iter().enumerate().all(|(n, (token, _))| n as u64 == *token), "a read ended twice");
    results.into_iter().map(|(_, result)| result).zip(memory).collect()
}

pub fn read(place: &RemotePlace, file: &FileRef, offset: u64, len: usize) -> Result<Vec<u8>, PageErrorKind> {
    let (result, bytes) = read_all(place, file, &[(offset, len)]).remove(0);
    result.map(|()| bytes)
}

/// An index, and the extent of one of its entries.
pub fn indexed(place: &RemotePlace, file: &FileRef, wanted: IndexedExtent) -> Result<FoundExtent, PageErrorKind> {
    let (told, answer) = std::sync::mpsc::channel();
    assert!(place.indexed(file, &wanted, Box::new(move |found| told.send(found).unwrap())));
    answer.recv_timeout(Duration::from_secs(10)).unwrap()
}

/// Waits until something holds.
pub fn until(what: &str, most: Duration, holds: impl Fn() -> bool) {
    let end = Instant::now() + most;
    while !holds() {
        assert!(Instant::now() < end, "not within {most:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
