//! The time of a page: looked up again, pinned for the first time, and read from a warm file, beside `pread` and
//! crc32c.
//!
//! `cargo run --release -p farfield-pager --example page_bench [MiB] [PAGE KiB] [DEPTH] [ONLY]`

use pager::source::simulated::{Simulated, Simulation};
use pager::*;
use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pages with a crc32c behind each; the page is read straight into the frame.
struct Shard {
    source: SourceId,
    pages: u64,
    bytes: usize,
    /// No checksums behind the pages.
    bare: bool,
}

impl PageMap for Shard {
    fn name(&self) -> &str {
        "bench"
    }
    fn pages(&self) -> u64 {
        self.pages
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.bytes
    }
    fn locate(&self, id: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        if self.bare {
            let page = Extent {
                source: self.source,
                offset: id.page * self.bytes as u64,
                len: self.bytes,
                to: ExtentTarget::Frame(0),
            };
            return Located::Extents { segments: vec![page], encoded_len: 0, scratch_len: 0, found: Box::default() };
        }
        let offset = id.page * (self.bytes as u64 + 4);
        let page = Extent { source: self.source, offset, len: self.bytes, to: ExtentTarget::Frame(0) };
        let sum =
            Extent { source: self.source, offset: offset + self.bytes as u64, len: 4, to: ExtentTarget::Encoded(0) };
        Located::Extents { segments: vec![page, sum], encoded_len: 4, scratch_len: 0, found: Box::default() }
    }
    fn decode(&self, id: PageId, _: &[u64], encoded: &[u8], _: &mut [u8], frame: &mut [u8]) -> Result<(), PageError> {
        let stored = encoded.try_into().map(u32::from_le_bytes).unwrap_or(0);
        let computed = crc32c::crc32c(frame);
        if stored == computed || self.bare {
            Ok(())
        } else {
            Err(PageError::new(format!("page {}", id.page), PageErrorKind::Checksum { stored, computed }))
        }
    }
    fn fill(&self, _: PageId, frame: &mut [u8]) {
        frame.fill(0);
    }
    fn checked(&self) -> bool {
        true
    }
}

/// Processor time of this process in seconds, which other load on the machine does not change.
fn cpu() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the struct is valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

fn order(n: u64) -> Vec<u64> {
    let mut v: Vec<u64> = (0..n).collect();
    let mut x = 12345u64;
    for i in (1..v.len()).rev() {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        v.swap(i, (x >> 33) as usize % (i + 1));
    }
    v
}

/// Drops a file from the page cache.
fn forget(path: &Path) -> std::io::Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    // SAFETY: the descriptor is open.
    unsafe { libc::posix_fadvise(std::os::fd::AsRawFd::as_raw_fd(&file), 0, 0, libc::POSIX_FADV_DONTNEED) };
    Ok(())
}

/// Random pages read from the device: `depth` threads with `pread`, and the pager.
fn cold(path: &Path, order: &[u64], bytes: usize, depth: usize, only: &str) -> Result<(), Box<dyn std::error::Error>> {
    let order = &order[..order.len().min(8192)];
    let rate = |t: Instant, c: f64| {
        let (rate, us) =
            ((order.len() * bytes) as f64 / t.elapsed().as_secs_f64() / 1e6, (cpu() - c) * 1e6 / order.len() as f64);
        format!("{rate:8.1} MB/s, {us:6.2} us of processor a page")
    };
    for _ in 0..2 {
        forget(path)?;
        let (begin, used, next) = (Instant::now(), cpu(), AtomicUsize::new(0));
        let file = File::open(path)?;
        // SAFETY: the descriptor is open.
        unsafe { libc::posix_fadvise(std::os::fd::AsRawFd::as_raw_fd(&file), 0, 0, libc::POSIX_FADV_RANDOM) };
        std::thread::scope(|s| {
            for _ in 0..depth {
                s.spawn(|| {
                    let mut buffer = vec![0u8; bytes + 4];
                    while let Some(&p) = order.get(next.fetch_add(1, Relaxed)) {
                        if file.read_exact_at(&mut buffer, p * (bytes as u64 + 4)).is_err() {
                            return;
                        }
                        black_box(crc32c::crc32c(&buffer[..bytes]));
                    }
                });
            }
        });
        println!("cold, {depth} threads of pread {}", rate(begin, used));
        for (backend, direct) in [Backend::Uring, Backend::Threads].into_iter().flat_map(|b| [(b, false), (b, true)]) {
            let what = format!("cold, pager, {backend:?}{}", if direct { ", direct" } else { "" });
            if !what.contains(only) {
                continue;
            }
            forget(path)?;
            let pager = Pager::new(PagerConfig { limit: 128 << 20, backend, readers: depth, ..Default::default() })?;
            let source = pager.add_file(path);
            pager.set_direct(direct);
            // Direct reads need alignment of everything: pages without their checksums then, which changes the time
            // little.
            let array = pager.add_array(Arc::new(Shard { source, pages: u64::MAX >> 20, bytes, bare: direct }));
            let (begin, used) = (Instant::now(), cpu());
            for c in order.chunks(512) {
                pager.fetch(&c.iter().map(|p| PageId::new(array, 0, *p)).collect::<Vec<_>>())?;
            }
            println!("{what} {}", rate(begin, used));
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arg = |i: usize, or: usize| std::env::args().nth(i).and_then(|a| a.parse().ok()).unwrap_or(or);
    let (mib, kib, depth) = (arg(1, 256), arg(2, 16), arg(3, 16));
    let bytes = kib << 10;
    let only = std::env::args().nth(4).unwrap_or_default();
    let pages = (mib << 20) as u64 / bytes as u64;
    let path = std::env::temp_dir().join(format!("farfield-page-bench-{}", std::process::id()));
    let mut file = std::io::BufWriter::new(File::create(&path)?);
    for p in 0..pages {
        let page: Vec<u8> = (0..bytes as u64).map(|i| (p.wrapping_mul(31) ^ i.wrapping_mul(17)) as u8).collect();
        file.write_all(&page)?;
        file.write_all(&crc32c::crc32c(&page).to_le_bytes())?;
    }
    file.flush()?;
    drop(file);
    let order = order(pages);

    // Into one buffer in the processor's cache, and into as much memory as the pool below has. The second is the price
    // of keeping pages in memory.
    let mut base = 0.0;
    for (buffers, name) in [(1, "one buffer"), (mib * 1024 / 8 / kib, "kept pages")] {
        let mut best = f64::MAX;
        let file = File::open(&path)?;
        let mut memory = vec![vec![1u8; bytes + 4]; buffers];
        for _ in 0..5 {
            let begin = cpu();
            for (i, &p) in order.iter().enumerate() {
                let buffer = &mut memory[i % buffers];
                file.read_exact_at(buffer, p * (bytes as u64 + 4))?;
                assert_eq!(crc32c::crc32c(&buffer[..bytes]).to_le_bytes(), buffer[bytes..]);
            }
            best = best.min(cpu() - begin);
        }
        base = best / pages as f64 * 1e6;
        println!("pread + crc32c, {name} {base:8.2} us (processor time) a page of {kib} KiB, {pages} pages");
    }

    for backend in [Backend::Uring, Backend::Threads] {
        for (limit, name) in [(mib / 8, "evicting"), (mib * 2, "all fits")] {
            for batch in [64usize, 16, 1] {
                let what = format!("{backend:?}, {name}, by {batch:2}");
                if !what.contains(&only) {
                    continue;
                }
                let (mut best, mut best_wall) = (f64::MAX, f64::MAX);
                for _ in 0..3 {
                    let config =
                        PagerConfig { limit: (limit << 20) as u64, backend, readers: depth, ..Default::default() };
                    let pager = Pager::new(config)?;
                    let source = pager.add_file(&path);
                    let array = pager.add_array(Arc::new(Shard { source, pages, bytes, bare: false }));
                    if name == "evicting" {
                        // Steady state: every frame has been used before.
                        for c in order.chunks(64).take(limit * 1024 / kib / 64 + 1) {
                            pager.fetch(&c.iter().map(|p| PageId::new(array, 1, *p)).collect::<Vec<_>>())?;
                        }
                    }
                    let (wall, begin) = (Instant::now(), cpu());
                    for c in order.chunks(batch) {
                        let ids: Vec<PageId> = c.iter().map(|p| PageId::new(array, 0, *p)).collect();
                        black_box(pager.fetch(&ids)?);
                    }
                    best = best.min(cpu() - begin);
                    best_wall = best_wall.min(wall.elapsed().as_secs_f64());
                }
                let us = best / pages as f64 * 1e6;
                let wall = best_wall / pages as f64 * 1e6;
                println!("fetch {what} {us:8.2} us a page, {:.2} x, wall {wall:8.2} us", us / base);
            }
        }
    }

    cold(&path, &order, bytes, depth, &only)?;

    // One task, one reader, 2 ms a read: the excess is the overhead of a request.
    let pager = Pager::new(PagerConfig { readers: 1, ..Default::default() })?;
    let simulation = Simulation::fixed(Duration::from_millis(2), 1);
    let mut blob = std::fs::read(&path)?;
    blob.truncate(200 * (bytes + 4));
    let source = pager.add_source(Arc::new(Simulated::new(blob, simulation)?));
    let array = pager.add_array(Arc::new(Shard { source, pages: 200, bytes, bare: false }));
    let begin = Instant::now();
    for p in 0..200 {
        pager.fetch(&[PageId::new(array, 0, p)])?;
    }
    println!("a fault of 2 ms         {:8.2} us", begin.elapsed().as_secs_f64() * 1e6 / 200.0);

    let pager = Pager::new(PagerConfig { limit: (mib as u64) << 21, ..Default::default() })?;
    let source = pager.add_file(&path);
    let array = pager.add_array(Arc::new(Shard { source, pages, bytes, bare: false }));
    let some: Vec<PageId> = (0..pages.min(64)).map(|p| PageId::new(array, 0, p)).collect();
    drop(pager.fetch(&some)?);
    let mut worker = pager.worker();
    let rounds = 400_000;
    let begin = Instant::now();
    let mut sum = 0usize;
    for _ in 0..rounds {
        for &id in &some {
            if let Lookup::Here(b) = worker.page(black_box(id)) {
                sum = sum.wrapping_add(b.len());
            }
        }
    }
    let ns = begin.elapsed().as_secs_f64() * 1e9 / (rounds * some.len()) as f64;
    println!("page asked for again    {ns:8.2} ns ({sum})");
    let rounds = 20_000;
    let begin = Instant::now();
    for _ in 0..rounds {
        worker.release();
        for &id in &some {
            black_box(worker.page(black_box(id)));
        }
    }
    let ns = begin.elapsed().as_secs_f64() * 1e9 / (rounds * some.len()) as f64;
    println!("page pinned, released   {ns:8.2} ns");
    std::fs::remove_file(&path)?;
    Ok(())
}
