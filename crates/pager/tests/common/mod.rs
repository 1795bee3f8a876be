//! A small format with all features that formats use: pages in pieces, encoded pages with a checksum, index pages,
//! pages never written. And tasks that request pages as the executor does.
#![allow(dead_code)]

use pager::source::memory::Memory;
use pager::source::simulated::{Simulated, Simulation};
use pager::source::Source;
use pager::*;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

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

/// The truth: byte `i` of a page.
pub fn truth(seed: u64, step: u32, page: u64, i: usize) -> u8 {
    let x = (seed << 48) ^ (u64::from(step) << 40) ^ (page << 20) ^ (i as u64 / 8);
    (x.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> (8 * (i % 8))) as u8
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// Straight into the frame, in this many segments.
    Plain(usize),
    /// Every byte flipped, crc32c behind.
    Coded,
    /// As `Coded`, places in an index page.
    Indexed,
}

/// One array of the test format.
pub struct Map {
    pub name: String,
    pub seed: u64,
    pub kind: MapKind,
    pub steps: u32,
    pub pages: u64,
    pub bytes: usize,
    pub source: SourceId,
    /// Place of each page, by step and page; `None`: never written.
    pub places: Vec<Option<u64>>,
    /// The array of index pages, each with 16 places.
    pub index: Option<ArrayId>,
    pub located: AtomicU64,
    pub decoded: AtomicU64,
}

pub const PER_INDEX: u64 = 16;

impl Map {
    fn place(&self, id: PageId) -> usize {
        (u64::from(id.step) * self.pages + id.page) as usize
    }
}

impl PageMap for Map {
    fn name(&self) -> &str {
        &self.name
    }
    fn pages(&self) -> u64 {
        self.pages
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.bytes
    }
    fn locate(&self, id: PageId, index: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        self.located.fetch_add(1, SeqCst);
        let place = match self.index {
            None => self.places[self.place(id)],
            Some(array) => {
                let page = PageId::new(array, id.step, id.page / PER_INDEX);
                let Some(bytes) = index(page) else { return Located::Need(page) };
                let at = (id.page % PER_INDEX) as usize * 8;
                // SAFETY: the pager keeps the page during this call.
                let bytes = unsafe { &*bytes };
                let place = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
                (place != u64::MAX).then_some(place)
            }
        };
        let Some(place) = place else { return Located::Fill };
        match self.kind {
            MapKind::Plain(n) => {
                let cut = |i: usize| self.bytes * i / n;
                let segments = (0..n).map(|i| Extent {
                    source: self.source,
                    offset: place + cut(i) as u64,
                    len: cut(i + 1) - cut(i),
                    to: ExtentTarget::Frame(cut(i)),
                });
                Located::Extents { segments: segments.collect(), encoded_len: 0, scratch_len: 0, found: Box::default() }
            }
            _ => {
                let len = self.bytes + 4;
                let segments = vec![Extent { source: self.source, offset: place, len, to: ExtentTarget::Encoded(0) }];
                Located::Extents { segments, encoded_len: len, scratch_len: self.bytes, found: Box::default() }
            }
        }
    }
    fn decode(
        &self,
        id: PageId,
        _: &[u64],
        encoded: &[u8],
        scratch: &mut [u8],
        frame: &mut [u8],
    ) -> Result<(), PageError> {
        self.decoded.fetch_add(1, SeqCst);
        if let MapKind::Plain(_) = self.kind {
            return Ok(());
        }
        let (body, sum) = encoded.split_at(self.bytes);
        let stored = u32::from_le_bytes(sum.try_into().unwrap());
        let computed = crc32c::crc32c(body);
        if stored != computed {
            return Err(PageError::new(
                format!("{} page {}", self.name, id.page),
                PageErrorKind::Checksum { stored, computed },
            ));
        }
        scratch.copy_from_slice(body);
        frame.iter_mut().zip(scratch).for_each(|(f, b)| *f = !*b);
        Ok(())
    }
    fn fill(&self, _: PageId, frame: &mut [u8]) {
        frame.fill(0xF1);
    }
    fn checked(&self) -> bool {
        !matches!(self.kind, MapKind::Plain(_))
    }
}

/// The input of an array.
#[derive(Clone, Debug)]
pub struct MapArray {
    pub kind: MapKind,
    pub steps: u32,
    pub pages: u64,
    pub bytes: usize,
    /// One page in this many was never written; 0: all were.
    pub holes: u64,
}

/// Arrays written into one blob, in an order that is not that of their pages.
pub struct WrittenArrays {
    pub blob: Vec<u8>,
    maps: Vec<(MapArray, Vec<Option<u64>>, Vec<u64>)>,
    seed: u64,
}

pub fn write(seed: u64, specs: &[MapArray]) -> WrittenArrays {
    let mut rng = Rng(seed);
    let mut blob = vec![0xEE; 1 + rng.below(5000) as usize];
    let mut maps = Vec::new();
    for (a, s) in specs.iter().enumerate() {
        let n = u64::from(s.steps) * s.pages;
        let mut order: Vec<u64> = (0..n).collect();
        // Mostly in order, with some pairs swapped: some reads are joined and others are not.
        for i in 1..n as usize {
            if rng.below(4) == 0 {
                order.swap(i - 1, i);
            }
        }
        let mut places = vec![None; n as usize];
        for p in order {
            if s.holes > 0 && p % s.holes == s.holes - 1 {
                continue;
            }
            places[p as usize] = Some(blob.len() as u64);
            let (step, page) = ((p / s.pages) as u32, p % s.pages);
            let body: Vec<u8> = (0..s.bytes).map(|i| truth(seed + a as u64, step, page, i)).collect();
            match s.kind {
                MapKind::Plain(_) => blob.extend(body),
                _ => {
                    let coded: Vec<u8> = body.iter().map(|b| !b).collect();
                    blob.extend(&coded);
                    blob.extend(crc32c::crc32c(&coded).to_le_bytes());
                }
            }
        }
        let mut index = Vec::new();
        if s.kind == MapKind::Indexed {
            let per_step = s.pages.div_ceil(PER_INDEX);
            for i in 0..u64::from(s.steps) * per_step {
                let (step, block) = (i / per_step, i % per_step);
                index.push(blob.len() as u64);
                for k in 0..PER_INDEX {
                    let page = block * PER_INDEX + k;
                    let place = (page < s.pages).then(|| places[(step * s.pages + page) as usize]).flatten();
                    blob.extend(place.unwrap_or(u64::MAX).to_le_bytes());
                }
            }
        }
        maps.push((s.clone(), places, index));
    }
    WrittenArrays { blob, maps, seed }
}

pub struct OpenedPager {
    pub pager: Arc<Pager>,
    pub arrays: Vec<ArrayId>,
    pub maps: Vec<Arc<Map>>,
    pub seed: u64,
}

impl WrittenArrays {
    pub fn open(&self, config: PagerConfig, source: impl FnOnce(Vec<u8>) -> Arc<dyn Source>) -> OpenedPager {
        self.open_with(config, |pager| pager.add_source(source(self.blob.clone())))
    }

    /// `path` is a file that holds the blob.
    pub fn open_file(&self, config: PagerConfig, path: &std::path::Path) -> OpenedPager {
        self.open_with(config, |pager| pager.add_file(path))
    }

    fn open_with(&self, config: PagerConfig, source: impl FnOnce(&Pager) -> SourceId) -> OpenedPager {
        let pager = Pager::new(config).unwrap();
        self.register(&pager, source(&pager))
    }

    /// Beside the arrays that a pager has.
    pub fn open_in(&self, pager: &Arc<Pager>, source: impl FnOnce(Vec<u8>) -> Arc<dyn Source>) -> OpenedPager {
        self.register(pager, pager.add_source(source(self.blob.clone())))
    }

    fn register(&self, pager: &Arc<Pager>, source: SourceId) -> OpenedPager {
        let (mut arrays, mut maps) = (Vec::new(), Vec::new());
        for (a, (s, places, index)) in self.maps.iter().enumerate() {
            let mut map = Map {
                name: format!("array{a}"),
                seed: self.seed + a as u64,
                kind: s.kind,
                steps: s.steps,
                pages: s.pages,
                bytes: s.bytes,
                source,
                places: places.clone(),
                index: None,
                located: AtomicU64::new(0),
                decoded: AtomicU64::new(0),
            };
            if s.kind == MapKind::Indexed {
                map.index = Some(pager.add_array(Arc::new(Map {
                    name: format!("array{a}/index"),
                    seed: 0,
                    kind: MapKind::Plain(1),
                    steps: s.steps,
                    pages: s.pages.div_ceil(PER_INDEX),
                    bytes: PER_INDEX as usize * 8,
                    source,
                    places: index.iter().map(|p| Some(*p)).collect(),
                    index: None,
                    located: AtomicU64::new(0),
                    decoded: AtomicU64::new(0),
                })));
            }
            let map = Arc::new(map);
            arrays.push(pager.add_array(map.clone()));
            maps.push(map);
        }
        OpenedPager { pager: pager.clone(), arrays, maps, seed: self.seed }
    }

    pub fn simulated(&self, config: PagerConfig, simulation: Simulation) -> OpenedPager {
        self.open(config, |blob| Arc::new(Simulated::new(blob, simulation).unwrap()))
    }
}

impl OpenedPager {
    pub fn random_page(&self, rng: &mut Rng) -> PageId {
        let a = rng.below(self.arrays.len() as u64) as usize;
        let m = &self.maps[a];
        PageId::new(self.arrays[a], rng.below(u64::from(m.steps)) as u32, rng.below(m.pages))
    }

    /// Whether the bytes are the page's.
    pub fn verify(&self, id: PageId, bytes: &[u8]) {
        let a = self.arrays.iter().position(|x| *x == id.array).unwrap();
        let m = &self.maps[a];
        assert_eq!(bytes.len(), m.bytes);
        assert_eq!(bytes.as_ptr() as usize % 64, 0);
        let hole = m.places[m.place(id)].is_none();
        for (i, b) in bytes.iter().enumerate() {
            let want = if hole { 0xF1 } else { truth(m.seed, id.step, id.page, i) };
            assert_eq!(*b, want, "{id:?} byte {i}");
        }
    }
}

/// Counts wakes and remembers their tokens.
pub struct Bell {
    pub tokens: Mutex<Vec<u64>>,
    /// Weak: a pager owns the wakes of its pending requests.
    pub pager: Weak<Pager>,
}

impl Wake for Bell {
    fn wake(&self, token: u64) {
        self.tokens.lock().unwrap().push(token);
        if let Some(p) = self.pager.upgrade() {
            p.notify();
        }
    }
}

impl Bell {
    pub fn new(pager: &Arc<Pager>) -> (Arc<Bell>, Arc<dyn Wake>) {
        let bell = Arc::new(Bell { tokens: Mutex::default(), pager: Arc::downgrade(pager) });
        (bell.clone(), bell)
    }
    pub fn rang(&self) -> usize {
        self.tokens.lock().unwrap().len()
    }
}

/// Works and idles until `done`. Panics after 60 seconds.
pub fn drive(pager: &Arc<Pager>, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        if !pager.work() {
            pager.idle(Duration::from_millis(20));
        }
        assert!(Instant::now() < end, "nothing moves: {:?} stalled {:?}", pager.counters(), pager.stalled());
    }
}

/// One task after another on this thread: each looks up a few pages at once, restarts until all are resident, and
/// checks them.
pub fn tasks(o: &OpenedPager, seed: u64, count: usize, most_pages: u64) {
    let mut rng = Rng(seed);
    let mut worker = o.pager.worker();
    let (bell, wake) = Bell::new(&o.pager);
    let mut rung = 0;
    for token in 0..count as u64 {
        let pages: Vec<PageId> = (0..1 + rng.below(most_pages)).map(|_| o.random_page(&mut rng)).collect();
        if rng.below(4) == 0 {
            let ahead: Vec<PageId> = (0..3).map(|_| o.random_page(&mut rng)).collect();
            let (_, silent) = Bell::new(&o.pager);
            o.pager.request(&ahead, 0, &silent, Priority::Prefetch);
        }
        let mut elder = None;
        let mut restarts = 0;
        loop {
            worker.begin_step();
            let mut absent = Vec::new();
            {
                let mut here = Vec::new();
                for &id in &pages {
                    match worker.page(id) {
                        Lookup::Here(bytes) => here.push((id, bytes)),
                        Lookup::Absent => absent.push(id),
                        Lookup::Failed(e) => panic!("{e}"),
                    }
                }
                // All of them at once, as a kernel would.
                here.iter().for_each(|(id, bytes)| o.verify(*id, bytes));
            }
            if absent.is_empty() {
                break;
            }
            worker.release();
            restarts += 1;
            if restarts == 3 {
                elder = Some(o.pager.hold(&pages));
            }
            if o.pager.request(&absent, token, &wake, Priority::Demand) == Requested::Pending {
                rung += 1;
                if rng.below(16) == 0 {
                    // Other tasks are not affected.
                    o.pager.cancel(&wake);
                }
                drive(&o.pager, || bell.rang() >= rung);
                assert_eq!(bell.tokens.lock().unwrap()[rung - 1], token);
            }
        }
        drop(elder);
    }
    assert_eq!(bell.rang(), rung, "a wake too many");
}

impl WrittenArrays {
    /// The same arrays with the pages of each in the order of their numbers.
    pub fn in_order(self) -> WrittenArrays {
        let mut blob = Vec::new();
        let mut maps = self.maps;
        for (spec, places, index) in &mut maps {
            assert!(index.is_empty());
            let len = spec.bytes + if matches!(spec.kind, MapKind::Plain(_)) { 0 } else { 4 };
            for place in places.iter_mut().flatten() {
                let at = *place as usize;
                *place = blob.len() as u64;
                blob.extend_from_slice(&self.blob[at..at + len]);
            }
        }
        WrittenArrays { blob, maps, seed: self.seed }
    }
}

/// Two hundred pages in memory behind a limit that holds half of them.
pub fn observed(observer: Option<Arc<dyn Observer>>) -> OpenedPager {
    let spec = MapArray { kind: MapKind::Coded, steps: 1, pages: 200, bytes: 4096, holes: 0 };
    let config = PagerConfig { limit: 512 << 10, observer, ..PagerConfig::default() };
    write(47, &[spec]).open(config, |b| Arc::new(pager::source::memory::Memory::new("memory", b)))
}

/// Plain pages of one step.
pub fn plain(pages: u64, bytes: usize) -> MapArray {
    MapArray { kind: MapKind::Plain(1), steps: 1, pages, bytes, holes: 0 }
}

/// The usual configuration, with a limit.
pub fn config(limit: u64) -> PagerConfig {
    PagerConfig { limit, ..PagerConfig::default() }
}

/// Opened in a source in memory.
pub fn in_memory(written: &WrittenArrays, config: PagerConfig) -> OpenedPager {
    written.open(config, |b| Arc::new(Memory::new("memory", b)))
}

/// Pages of the first array.
pub fn ids(o: &OpenedPager, pages: std::ops::Range<u64>) -> Vec<PageId> {
    pages.map(|p| PageId::new(o.arrays[0], 0, p)).collect()
}

/// Checks that pages are resident and true.
pub fn check(o: &OpenedPager, worker: &Worker, pages: &[PageId]) {
    for &id in pages {
        match worker.page(id) {
            Lookup::Here(bytes) => o.verify(id, bytes),
            other => panic!("{id:?}: {other:?}"),
        }
    }
}
