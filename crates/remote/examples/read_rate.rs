//! Pages a second of a remote file, and the processor time of a page.
//!
//! `read_rate URL [DEPTH] [PAGES] [BYTES]`

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
    let mut memory = vec![vec![0u8; len]; depth];
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
    let mut since: Vec<Instant> = (0..depth).map(&mut start).collect();
    let mut took = Vec::with_capacity(pages);
    for n in 0..pages {
        let (slot, result) = told.recv().expect("a completion");
        result?;
        took.push(since[slot as usize].elapsed());
        if n + depth < pages {
            since[slot as usize] = start(slot as usize);
        }
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
