//! Pages a second, and processor time of both ends, over loopback.
//!
//! `page_server_bench [MIB [PAGES [PAGE_BYTES]]]` serves a file of so many MiB from a process of its own and reads so
//! many pages at random places, at depths 1 and 64, without and with TLS.

use pager::place::{FilePin, FileRef, Place};
use pager::source::{Buffer, Completion, Read, ReadClass};
use pager::PageErrorKind;
use remote::page_server::client::{ClientOptions, Credentials, RemotePlace};
use remote::page_server::secure::{Certificate, Trust};
use remote::page_server::server::{Server, ServerOptions};
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::Instant;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == "serve") {
        return serve(Path::new(&args[2]), args[3] == "tls");
    }
    let number = |n: usize, default: u64| args.get(n).map_or(default, |arg| arg.parse().expect("a number"));
    let (size, pages, page) = (number(1, 256) << 20, number(2, 40_000), number(3, 32 << 10));
    let path = std::env::temp_dir().join(format!("farfield-page-server-bench-{}", std::process::id()));
    let line: Vec<u8> = (0..1u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut file = std::fs::File::create(&path).expect("a file in the temporary folder");
    for _ in 0..size >> 20 {
        file.write_all(&line).expect("room for the file");
    }
    drop(file);
    println!("{:>6} {:>6} {:>10} {:>10} {:>12} {:>12}", "line", "depth", "pages/s", "p50 us", "client us", "server us");
    for (line, depth) in [("plain", 1), ("plain", 64), ("tls", 1), ("tls", 64)] {
        measure(&path, line, depth, size, if depth == 1 { pages / 4 } else { pages }, page);
    }
    std::fs::remove_file(&path).expect("the file is there");
}

/// The server's process: says its address and fingerprint, answers each line of its input by its processor time.
fn serve(path: &Path, tls: bool) {
    let certificate = tls.then(|| Certificate::self_signed(&["localhost".to_owned()]).expect("a certificate"));
    let pin = certificate.as_ref().map_or_else(String::new, |c| c.fingerprint().to_string());
    let options = ServerOptions {
        names: vec![("file".to_owned(), path.to_owned())],
        listen: "127.0.0.1:0".to_owned(),
        certificate,
        ..ServerOptions::default()
    };
    let server = Server::start(options).expect("a server");
    println!("{} {pin}", server.address());
    for _ in std::io::stdin().lines() {
        println!("{}", processor());
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

fn measure(path: &Path, line: &str, depth: usize, size: u64, pages: u64, page: u64) {
    let me = std::env::current_exe().expect("this program");
    let mut server = Command::new(me);
    let server = server.arg("serve").arg(path).arg(line).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = server.spawn().expect("a second process");
    let mut out = std::io::BufReader::new(server.stdout.take().expect("its output"));
    let mut input = server.stdin.take().expect("its input");
    let mut said = String::new();
    out.read_line(&mut said).expect("its address");
    let (address, pin) = said.trim().split_once(' ').unwrap_or((said.trim(), ""));
    let trust = remote::page_server::secure::Fingerprint::parse(pin).map(Trust::Pinned);
    let credentials = Credentials { token: None, trust };
    let place = RemotePlace::open(&format!("farfield://{address}"), credentials, ClientOptions::default());
    let place = Arc::new(place.expect("an address"));
    let path: Arc<Path> = Path::new("farfield://host/file").into();
    let file = FileRef { path, base: 0, pin: Arc::new(FilePin::default()) };
    let mut server_time = || -> u64 {
        writeln!(input).expect("the server runs");
        let mut said = String::new();
        out.read_line(&mut said).expect("the server runs");
        said.trim().parse().expect("a number")
    };
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
    drop(input);
    server.wait().expect("the server ends");
}
