//! Pages a second, and processor time of both ends, over loopback.
//!
//! `page_server_bench [MIB [PAGES [PAGE_BYTES]]]` serves a file from a process of its own. It reads pages at random
//! places, at depths 1 and 64, without and with TLS. `page_server_bench connections N` says the
//! server's memory for so many clients. `page_server_bench serve FILE ADDRESS` and, elsewhere, `page_server_bench line
//! ADDRESS PIN TOKEN SECONDS` measure a line: prefetches as many as the place has room for, and a demand each 50 ms.

use pager::place::{FilePin, FileRef, Place};
use pager::source::{Buffer, Completion, Read, ReadClass};
use pager::PageErrorKind;
use remote::page_server::client::{ClientOptions, Credentials, RemotePlace};
use remote::page_server::secure::{Certificate, Fingerprint, Token, Trust};
use remote::page_server::server::{Server, ServerOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == "serve") {
        return serve(Path::new(&args[2]), &args[3]);
    }
    if args.get(1).is_some_and(|arg| arg == "line") {
        return of_line(&args[2..]);
    }
    let connections = args.get(1).is_some_and(|arg| arg == "connections");
    let number = |n: usize, default: u64| args.get(n).map_or(default, |arg| arg.parse().expect("a number"));
    let (size, pages, page) = if connections {
        (1 << 20, 0, 32 << 10)
    } else {
        (number(1, 256) << 20, number(2, 40_000), number(3, 32 << 10))
    };
    let path = std::env::temp_dir().join(format!("farfield-page-server-bench-{}", std::process::id()));
    let line: Vec<u8> = (0..1u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut file = std::fs::File::create(&path).expect("a file in the temporary folder");
    for _ in 0..size >> 20 {
        file.write_all(&line).expect("room for the file");
    }
    drop(file);
    if connections {
        ["plain", "tls"].iter().for_each(|line| memory(&path, line, number(2, 1000)));
        return std::fs::remove_file(&path).expect("the file is there");
    }
    println!("{:>6} {:>6} {:>10} {:>10} {:>12} {:>12}", "line", "depth", "pages/s", "p50 us", "client us", "server us");
    for (line, depth) in [("plain", 1), ("plain", 64), ("tls", 1), ("tls", 64)] {
        measure(&path, line, depth, size, if depth == 1 { pages / 4 } else { pages }, page);
    }
    std::fs::remove_file(&path).expect("the file is there");
}

/// The server's process: says its address, fingerprint and token, answers each line of its input by its processor time.
fn serve(path: &Path, line: &str) {
    let elsewhere = line.contains(':');
    let certificate = (elsewhere || line == "tls")
        .then(|| Certificate::self_signed(&["localhost".to_owned()]).expect("a certificate"));
    let pin = certificate.as_ref().map_or_else(String::new, |c| c.fingerprint().to_string());
    let token = elsewhere.then(|| Token::fresh().expect("random bytes"));
    let options = ServerOptions {
        names: vec![("file".to_owned(), path.to_owned())],
        listen: if elsewhere { line } else { "127.0.0.1:0" }.to_owned(),
        certificate,
        tokens: token.iter().map(|token| ("client".to_owned(), token.hash())).collect(),
        max_connections: 4096,
        max_connections_per_address: 4096,
        ..ServerOptions::default()
    };
    let server = Server::start(options).expect("a server");
    println!("{} {pin} {}", server.address(), token.map_or_else(String::new, |token| token.secret()));
    for _ in std::io::stdin().lines() {
        println!("{} {}", processor(), resident());
    }
}

/// Microseconds of the processor that this process has used.
fn processor() -> u64 {
    // SAFETY: integers, for which zero is a value.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is valid for writing.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut used) };
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    micros(used.ru_utime) + micros(used.ru_stime)
}

/// Bytes of memory that this process has.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the system's counts");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Reads random pages, each slot one after the other.
struct Reader {
    this: Weak<Reader>,
    place: Arc<RemotePlace>,
    file: FileRef,
    state: Mutex<Progress>,
    bell: Condvar,
    places: u64,
    page: u64,
}

struct Progress {
    left: u64,
    ended: u64,
    random: u64,
    begun: Vec<Instant>,
    took: Vec<u32>,
    memory: Vec<Vec<u8>>,
}

impl Reader {
    fn start(&self, slot: usize) -> bool {
        let mut state = self.state.lock().expect("no panic");
        if state.left == 0 {
            return false;
        }
        state.left -= 1;
        state.random = state.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let offset = (state.random >> 33) % self.places * self.page;
        state.begun[slot] = Instant::now();
        let ptr = state.memory[slot].as_mut_ptr();
        drop(state);
        let buffers = vec![Buffer { ptr, len: self.page as usize }];
        let read = Read { token: slot as u64, offset, buffers, class: ReadClass::Demand };
        let done: Arc<dyn Completion> = self.this.upgrade().expect("it is held by the measurement");
        self.place.submit(&self.file, vec![read], &done);
        true
    }
}

impl Completion for Reader {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        result.expect("a page");
        let mut state = self.state.lock().expect("no panic");
        let took = state.begun[token as usize].elapsed().as_micros() as u32;
        state.took.push(took);
        state.ended += 1;
        drop(state);
        if !self.start(token as usize) {
            self.bell.notify_all();
        }
    }
}

/// A server in a process of its own.
struct OtherServer {
    process: Child,
    input: ChildStdin,
    out: BufReader<ChildStdout>,
    address: String,
    trust: Option<Trust>,
}

impl OtherServer {
    fn start(path: &Path, line: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.arg("serve").arg(path).arg(line).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("a second process");
        let mut out = BufReader::new(process.stdout.take().expect("its output"));
        let input = process.stdin.take().expect("its input");
        let mut said = String::new();
        out.read_line(&mut said).expect("its address");
        let mut words = said.split_whitespace();
        let (address, pin) = (words.next().expect("its address"), words.next().unwrap_or(""));
        let trust = Fingerprint::parse(pin).map(Trust::Pinned);
        Self { process, input, out, address: address.to_owned(), trust }
    }

    /// Its time of the processor in microseconds, and its memory in bytes.
    fn used(&mut self) -> (u64, u64) {
        writeln!(self.input).expect("the server runs");
        let mut said = String::new();
        self.out.read_line(&mut said).expect("the server runs");
        let (time, memory) = said.trim().split_once(' ').expect("two numbers");
        (time.parse().expect("a number"), memory.parse().expect("a number"))
    }

    fn place(&self) -> Arc<RemotePlace> {
        let credentials = Credentials { token: None, trust: self.trust.clone() };
        let url = format!("farfield://{}", self.address);
        Arc::new(RemotePlace::open(&url, credentials, ClientOptions::default()).expect("an address"))
    }

    fn end(self) {
        drop((self.input, self.out));
        let mut process = self.process;
        process.wait().expect("the server ends");
    }
}

/// Opens many connections.
fn memory(path: &Path, line: &str, count: u64) {
    let mut server = OtherServer::start(path, line);
    let before = server.used().1;
    let places: Vec<Arc<RemotePlace>> = (0..count).map(|_| server.place()).collect();
    places.iter().for_each(|place| drop(place.stats().expect("a server")));
    let after = server.used().1;
    println!("{line:>6} {:.1} KiB a connection", (after - before) as f64 / 1024.0 / count as f64);
    drop(places);
    server.end();
}

fn measure(path: &Path, line: &str, depth: usize, size: u64, pages: u64, page: u64) {
    let mut other = OtherServer::start(path, line);
    let place = other.place();
    let path: Arc<Path> = Path::new("farfield://host/file").into();
    let file = FileRef { path, base: 0, pin: Arc::new(FilePin::default()) };
    let mut server_time = || other.used().0;
    let mut result = None;
    // The first round opens connections and finds the window.
    for pages in [pages / 4, pages] {
        let progress = Progress {
            left: pages,
            ended: 0,
            random: 7,
            begun: vec![Instant::now(); depth],
            took: Vec::with_capacity(pages as usize),
            memory: vec![vec![0; page as usize]; depth],
        };
        let reader = Arc::new_cyclic(|this| Reader {
            this: this.clone(),
            place: place.clone(),
            file: file.clone(),
            state: Mutex::new(progress),
            bell: Condvar::new(),
            places: size / page,
            page,
        });
        let (begin, client, server) = (Instant::now(), processor(), server_time());
        for slot in 0..depth {
            let _started = reader.start(slot);
        }
        let mut state = reader.state.lock().expect("no panic");
        while state.ended < pages {
            state = reader.bell.wait(state).expect("no panic");
        }
        let seconds = begin.elapsed().as_secs_f64();
        let (client, server) = (processor() - client, server_time() - server);
        state.took.sort_unstable();
        let p50 = state.took[state.took.len() / 2];
        let each = |micros: u64| micros as f64 / pages as f64;
        result = Some((pages as f64 / seconds, p50, each(client), each(server)));
    }
    let (rate, p50, client, server_us) = result.expect("two rounds");
    let (rtt, measured, window, links) = place.measured();
    println!(
        "{line:>6} {depth:>6} {rate:>10.0} {p50:>10} {client:>12.1} {server_us:>12.1}   rtt {:.0} us, {:.0} MB/s, window {window}, {links} connections",
        rtt * 1e6,
        measured as f64 / 1e6
    );
    other.end();
}

/// Counts what ends, and the latencies of demands.
#[derive(Default)]
struct Ended {
    /// Buffers that no read has.
    free: Mutex<Vec<u64>>,
    pages: AtomicU64,
    demands: Mutex<Vec<Duration>>,
    begun: Mutex<Option<Instant>>,
}

impl Completion for Ended {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        result.expect("a page");
        self.pages.fetch_add(1, Relaxed);
        if token == u64::MAX {
            let begun = self.begun.lock().expect("no panic").take();
            self.demands.lock().expect("no panic").extend(begun.map(|begun| begun.elapsed()));
        } else {
            self.free.lock().expect("no panic").push(token);
        }
    }
}

/// Fills a line.
fn of_line(args: &[String]) {
    const PAGE: usize = 32 << 10;
    const SLOTS: usize = 4096;
    let [address, pin, token, seconds] = args else { panic!("ADDRESS PIN TOKEN SECONDS") };
    let credentials = Credentials { token: Token::parse(token), trust: Fingerprint::parse(pin).map(Trust::Pinned) };
    let place = RemotePlace::open(&format!("farfield://{address}"), credentials, ClientOptions::default());
    let place = place.expect("an address");
    let path: Arc<Path> = Path::new("farfield://host/file").into();
    let file = FileRef { path, base: 0, pin: Arc::new(FilePin::default()) };
    let ended = Arc::new(Ended::default());
    let done: Arc<dyn Completion> = ended.clone();
    let mut memory = vec![vec![0u8; PAGE]; SLOTS + 1];
    ended.free.lock().expect("no panic").extend(0..SLOTS as u64);
    let mut read = |token: u64, offset: u64, class| {
        let ptr = memory[(token as usize).min(SLOTS)].as_mut_ptr();
        Read { token, offset, buffers: vec![Buffer { ptr, len: PAGE }], class }
    };
    let seconds: f64 = seconds.parse().expect("a number");
    let begin = Instant::now();
    let (mut n, mut asked, mut counted, mut from) = (0u64, begin, 0, begin);
    while begin.elapsed().as_secs_f64() < seconds {
        // The first second finds the window.
        if counted == 0 && begin.elapsed() > Duration::from_secs(1) {
            (counted, from) = (ended.pages.load(Relaxed), Instant::now());
            ended.demands.lock().expect("no panic").clear();
        }
        let mut free = ended.free.lock().expect("no panic");
        let left = free.len() - place.room().min(free.len());
        let taken = free.split_off(left);
        drop(free);
        let batch: Vec<Read> = taken
            .into_iter()
            .map(|slot| {
                n += 1;
                read(slot, n * 7919 % 8192 * PAGE as u64, ReadClass::Prefetch)
            })
            .collect();
        place.submit(&file, batch, &done);
        let idle = ended.begun.lock().expect("no panic").is_none();
        if idle && asked.elapsed() > Duration::from_millis(50) {
            asked = Instant::now();
            *ended.begun.lock().expect("no panic") = Some(asked);
            place.submit(&file, vec![read(u64::MAX, n * 104_729 % 8192 * PAGE as u64, ReadClass::Demand)], &done);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    let rate = (ended.pages.load(Relaxed) - counted) as f64 / from.elapsed().as_secs_f64();
    let mut demands = ended.demands.lock().expect("no panic").clone();
    demands.sort_unstable();
    let (rtt, measured, window, links) = place.measured();
    println!(
        "{rate:.0} pages/s, {:.1} Mbit/s, demand p50 {:.1} ms, rtt {:.1} ms, {:.1} MB/s, window {window}, {links} connections",
        rate * PAGE as f64 * 8e-6,
        demands.get(demands.len() / 2).map_or(0.0, |d| d.as_secs_f64() * 1e3),
        rtt * 1e3,
        measured as f64 / 1e6
    );
    while ended.free.lock().expect("no panic").len() < SLOTS || ended.begun.lock().expect("no panic").is_some() {
        std::thread::sleep(Duration::from_millis(1));
    }
}
