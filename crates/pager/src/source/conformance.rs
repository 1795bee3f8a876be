//! The properties of every source. An implementor's test calls [`check`].

use super::{Buffer, Completion, Read, ReadClass, Source};
use crate::error::PageErrorKind;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Log {
    results: Mutex<HashMap<u64, Vec<Result<(), PageErrorKind>>>>,
    bell: Condvar,
}

impl Completion for Log {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        self.results.lock().unwrap_or_else(|e| e.into_inner()).entry(token).or_default().push(result);
        self.bell.notify_all();
    }
}

impl Log {
    fn wait(&self, reads: usize) -> HashMap<u64, Vec<Result<(), PageErrorKind>>> {
        let end = Instant::now() + Duration::from_secs(20);
        let mut r = self.results.lock().unwrap_or_else(|e| e.into_inner());
        while r.len() < reads && Instant::now() < end {
            r = self.bell.wait_timeout(r, Duration::from_millis(100)).unwrap_or_else(|e| e.into_inner()).0;
        }
        drop(r);
        // A second completion of the same read would be late.
        std::thread::sleep(Duration::from_millis(20));
        self.results.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
}

/// The bytes that the suite expects of a source.
pub fn bytes(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8 ^ (i >> 12) as u8).collect()
}

/// Reads ranges, each scattered over buffers of the given lengths. Returns the results and the bytes.
fn read(source: &dyn Source, ranges: &[(u64, Vec<usize>)]) -> Vec<(Result<(), PageErrorKind>, Vec<u8>)> {
    let log = Arc::new(Log::default());
    let done: Arc<dyn Completion> = log.clone();
    let mut memory: Vec<Vec<Vec<u8>>> =
        ranges.iter().map(|(_, lens)| lens.iter().map(|n| vec![0xAA; *n]).collect()).collect();
    let batch = ranges.iter().zip(&mut memory).enumerate().map(|(i, ((offset, _), m))| Read {
        token: 1000 + i as u64,
        offset: *offset,
        buffers: m.iter_mut().map(|b| Buffer { ptr: b.as_mut_ptr(), len: b.len() }).collect(),
        class: ReadClass::Demand,
    });
    source.submit(batch.collect(), &done);
    let mut results = log.wait(ranges.len());
    let answer = (0..ranges.len()).map(|i| {
        let mut r = results.remove(&(1000 + i as u64)).unwrap_or_default();
        assert_eq!(r.len(), 1, "{}: read {i} was completed {} times", source.describe(), r.len());
        (r.remove(0), memory[i].concat())
    });
    let answer = answer.collect();
    assert!(results.is_empty(), "completions of reads that were never submitted");
    answer
}

/// Runs the suite. `make` gives a source with exactly these bytes.
///
/// # Panics
/// When the source does not conform.
pub fn check(make: impl Fn(Vec<u8>) -> Arc<dyn Source>) {
    let truth = bytes(300_001);
    let source = make(truth.clone());
    assert!(!source.describe().is_empty());
    assert_eq!(source.size(), Ok(truth.len() as u64));
    assert_eq!(source.size(), Ok(truth.len() as u64), "size changes nothing");

    // One batch: the ends, odd places, one byte, scattered, overlapping.
    let ranges: Vec<(u64, Vec<usize>)> = vec![
        (0, vec![1]),
        (0, vec![4096]),
        (300_000, vec![1]),
        (1, vec![1, 2, 3, 5000, 1]),
        (299_000, vec![500, 501]),
        (4095, vec![2]),
        (100_000, vec![65_536]),
        (100_001, vec![7; 200]),
        (0, vec![100_000, 100_000, 100_001]),
    ];
    for (i, (result, got)) in read(source.as_ref(), &ranges).into_iter().enumerate() {
        assert_eq!(result, Ok(()), "range {i}");
        let at = ranges[i].0 as usize;
        assert!(got == truth[at..at + got.len()], "range {i}: wrong bytes");
    }

    // Many batches from several threads.
    std::thread::scope(|s| {
        for t in 0..3u64 {
            let (source, truth) = (&source, &truth);
            s.spawn(move || {
                for round in 0..5u64 {
                    let ranges: Vec<_> = (0..20u64)
                        .map(|i| ((t * 7919 + round * 104_729 + i * 15_485) % 290_000, vec![100, 900]))
                        .collect();
                    for ((at, _), (result, got)) in ranges.iter().zip(read(source.as_ref(), &ranges)) {
                        assert_eq!(result, Ok(()));
                        assert!(got == truth[*at as usize..*at as usize + 1000]);
                    }
                }
            });
        }
    });

    // Beyond the end: short, never invented bytes, and the rest of the batch succeeds.
    let over = read(source.as_ref(), &[(299_000, vec![1000, 2]), (300_001, vec![1]), (1 << 40, vec![9]), (5, vec![6])]);
    for (i, (offset, end)) in [(299_000, 300_002), (300_001, 300_002), (1 << 40, (1 << 40) + 9)].into_iter().enumerate()
    {
        match &over[i].0 {
            Err(PageErrorKind::Short { offset: o, end: e, have }) => {
                assert_eq!((*o, *e), (offset, end), "read {i}");
                assert!(*have < end, "read {i}: {have}");
            }
            other => panic!("{}: read {i} over the end gave {other:?}", source.describe()),
        }
    }
    // Bytes before the end have arrived: a page read as whole blocks may end there.
    assert!(over[0].1[..1001] == truth[299_000..]);
    assert_eq!(over[3].0, Ok(()));
    assert!(over[3].1 == truth[5..11]);

    // Pieces with holes between them.
    let lens = [10usize, 5000, 20, 40_000, 7];
    let mut room: Vec<Vec<u8>> = lens.iter().map(|n| vec![0xAA; *n]).collect();
    let holes = |n: usize| n % 2 == 1;
    let buffers = room.iter_mut().enumerate().map(|(n, b)| {
        if holes(n) {
            Buffer::hole(b.len())
        } else {
            Buffer { ptr: b.as_mut_ptr(), len: b.len() }
        }
    });
    let read_with_holes = Read { token: 1, offset: 100_003, buffers: buffers.collect(), class: ReadClass::Demand };
    let log = Arc::new(Log::default());
    source.submit(vec![read_with_holes], &(log.clone() as Arc<dyn Completion>));
    assert_eq!(log.wait(1).remove(&1), Some(vec![Ok(())]));
    let mut at = 100_003;
    for (n, got) in room.iter().enumerate() {
        assert!(holes(n) || *got == truth[at..at + got.len()], "piece {n}");
        at += got.len();
    }

    // An empty source.
    let empty = make(Vec::new());
    assert_eq!(empty.size(), Ok(0));
    assert!(matches!(read(empty.as_ref(), &[(0, vec![1])])[0].0, Err(PageErrorKind::Short { .. })));
    let none: Arc<dyn Completion> = Arc::new(Log::default());
    source.submit(Vec::new(), &none);
}
