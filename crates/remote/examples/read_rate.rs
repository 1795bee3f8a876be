//! Pages a second of a remote file, and the processor time of a page.
//!
//! `read_rate URL [DEPTH] [PAGES] [BYTES]`. Depth 0: as many reads at once as the place has room for.

use pager::place::{self, PlaceFile};
use pager::source::{Buffer, Completion, Read, ReadClass, Source};
use pager::PageErrorKind;
use std::path::Path;
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex};
use std::time::Instant;

struct FinishedReads(Mutex<Sender<(u64, Result<(), PageErrorKind>)>>);

impl Completion for FinishedReads {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        let _gone = self.0.lock().unwrap().send((token, result));
    }
}

fn cpu_us() -> f64 {
    // SAFETY: the call fills the whole structure.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let us = |t: libc::timeval| t.tv_sec as f64 * 1e6 + t.tv_usec as f64;
    us(usage.ru_utime) + us(usage.ru_stime)
}

fn main() -> Result<(), PageErrorKind> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, or: usize| arguments.get(n).and_then(|text| text.parse().ok()).unwrap_or(or);
    let (depth, pages, len) = (number(1, 64), number(2, 20_000), number(3, 32 << 10));
    let url = arguments.first().expect("a URL");
    remote::register();
    let place = place::of(Path::new(url))?.expect("a remote URL");
    let source = PlaceFile::new(place.clone(), Path::new(url));
    let size = source.size()?;
    let slots = if depth == 0 { 64 } else { depth };
    let mut memory = vec![vec![0u8; len]; slots];
    let (tell, told) = channel();
    let done: Arc<dyn Completion> = Arc::new(FinishedReads(Mutex::new(tell)));
    let mut seed = 1u64;
    let mut start = |slot: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let offset = (seed >> 20) % (size / len as u64) * len as u64;
        let buffers = vec![Buffer { ptr: memory[slot].as_mut_ptr(), len }];
        source.submit(vec![Read { token: slot as u64, offset, buffers, class: ReadClass::Demand }], &done);
        Instant::now()
    };
    let (begun, cpu) = (Instant::now(), cpu_us());
    let mut since = vec![begun; slots];
    let mut free: Vec<usize> = (0..slots).collect();
    let mut took = Vec::with_capacity(pages);
    let mut started = 0;
    while took.len() < pages {
        while started < pages && (depth > 0 || place.room() > 0) {
            let Some(slot) = free.pop() else { break };
            since[slot] = start(slot);
            started += 1;
        }
        let (slot, result) = told.recv().expect("a completion");
        result?;
        took.push(since[slot as usize].elapsed());
        free.push(slot as usize);
    }
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu_us() - cpu);
    took.sort_unstable();
    let us = |share: usize| took[(pages - 1) * share / 100].as_secs_f64() * 1e6;
    println!(
        "{:.0} pages/s, {:.1} us CPU a page, p50 {:.0} us, p99 {:.0} us, room {}, form {:?}, {} KiB held",
        pages as f64 / seconds,
        cpu / pages as f64,
        us(50),
        us(99),
        place.room(),
        place.form(),
        remote::http::held_bytes() >> 10
    );
    Ok(())
}
