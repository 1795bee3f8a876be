//! Reads of a source, waited for.

use pager::place::{self, PlaceFile};
use pager::source::{Buffer, Completion, Read, ReadClass, Source};
use pager::PageErrorKind;
use remote::NetworkOptions;
use std::path::Path;
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

/// Registers the places, with deadlines that a test can wait for.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let ms = Duration::from_millis;
        remote::set_options(NetworkOptions {
            connect: ms(400),
            first_byte: ms(300),
            stall: ms(300),
            network_timeout: ms(1500),
            backoff: ms(10),
            longest_backoff: ms(100),
            connections: 64,
        });
        remote::register();
    });
}

pub fn source(url: &str) -> Arc<PlaceFile> {
    let path = Path::new(url);
    Arc::new(PlaceFile::new(place::of(path).unwrap().unwrap(), path))
}

struct FinishedReads(Mutex<Sender<(u64, Result<(), PageErrorKind>)>>);

impl Completion for FinishedReads {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        let _gone = self.0.lock().unwrap().send((token, result));
    }
}

/// The results and the bytes of reads that are started together.
pub fn read(
    source: &dyn Source,
    ranges: &[(u64, usize)],
    class: ReadClass,
) -> Vec<(Result<(), PageErrorKind>, Vec<u8>)> {
    let mut memory: Vec<Vec<u8>> = ranges.iter().map(|(_, len)| vec![0xAA; *len]).collect();
    let (tell, told) = channel();
    let done: Arc<dyn Completion> = Arc::new(FinishedReads(Mutex::new(tell)));
    let batch = ranges.iter().zip(&mut memory).enumerate().map(|(n, ((offset, len), bytes))| Read {
        token: n as u64,
        offset: *offset,
        buffers: vec![Buffer { ptr: bytes.as_mut_ptr(), len: *len }],
        class,
    });
    source.submit(batch.collect(), &done);
    let mut results = vec![None; ranges.len()];
    for _ in ranges {
        let (token, result) = told.recv_timeout(Duration::from_secs(20)).expect("a completion");
        assert!(results[token as usize].replace(result).is_none(), "a second completion");
    }
    assert!(told.try_recv().is_err(), "a second completion");
    results.into_iter().map(Option::unwrap).zip(memory).collect()
}
