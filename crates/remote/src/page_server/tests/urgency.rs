//! Promoted and withdrawn reads, and what a client tells of its reads.

use super::super::client::{ClientOptions, Credentials};
use super::super::server::{Server, ServerOptions};
use super::proxy::{calm, Disturb, Proxy};
use super::support::*;
use pager::place::Place;
use pager::source::{Buffer, Completion, Read, ReadClass, ReadNote, ReadStep};
use pager::PageErrorKind;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PAGE: usize = 32 << 10;

/// Results and notes.
#[derive(Default)]
struct Noted {
    log: Log,
    notes: Mutex<Vec<(u64, ReadStep)>>,
}

impl Completion for Noted {
    fn complete(&self, token: u64, result: ReadResult) {
        self.log.complete(token, result);
    }
    fn note(&self, token: u64, note: ReadNote<'_>) {
        self.notes.lock().unwrap().push((token, note.step));
    }
}

impl Noted {
    fn count(&self, of: impl Fn(&ReadStep) -> bool) -> usize {
        self.notes.lock().unwrap().iter().filter(|(_, step)| of(step)).count()
    }
}

/// Reads of pages into memory of their own, by number.
fn reads(memory: &mut [Vec<u8>], class: ReadClass) -> Vec<Read> {
    let read = |(n, page): (usize, &mut Vec<u8>)| Read {
        token: n as u64,
        offset: (n * PAGE) as u64,
        buffers: vec![Buffer { ptr: page.as_mut_ptr(), len: PAGE }],
        class,
    };
    memory.iter_mut().enumerate().map(read).collect()
}

#[test]
fn withdrawn_reads_end_at_once_and_their_memory_is_not_written() {
    let folder = folder();
    let truth = bytes(1, 40 * PAGE);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    // A page takes 16 ms.
    let server = Server::start(ServerOptions { rate: Some(2 << 20), ..options(&folder.0) }).unwrap();
    let (place, file) = (place(&server), file("a"));
    let done = Arc::new(Noted::default());
    let mut memory = vec![vec![0xAA; PAGE]; 40];
    let completion: Arc<dyn Completion> = done.clone();
    place.submit(&file, reads(&mut memory, ReadClass::Prefetch), &completion);
    done.log.wait(3);
    let others: Arc<dyn Completion> = Arc::new(Log::default());
    let all: Vec<u64> = (0..40).collect();
    place.withdraw(&all, &others);
    assert!(done.log.count() < 30, "reads of another receiver stay");
    let began = Instant::now();
    place.withdraw(&all[..39], &completion);
    let results = done.log.wait(40);
    assert!(began.elapsed() < Duration::from_millis(400), "{:?}", began.elapsed());
    let mut tokens: Vec<u64> = results.iter().map(|(token, _)| *token).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, all, "each ends once");
    let withdrawn = results.iter().filter(|(_, result)| *result == Err(PageErrorKind::Withdrawn)).count();
    assert!(withdrawn > 10, "{withdrawn}");
    assert!(done.count(|step| *step == ReadStep::Withdrawn) <= withdrawn);
    // What was on its way passes; it belongs to nobody.
    let last = read(&place, &file, 5, 1000).unwrap();
    assert_eq!(last, truth[5..1005]);
    for (token, result) in results {
        let at = token as usize * PAGE;
        match result {
            Ok(()) => assert!(memory[token as usize] == truth[at..at + PAGE]),
            Err(kind) => {
                assert_eq!(kind, PageErrorKind::Withdrawn);
                assert!(memory[token as usize].iter().all(|byte| *byte == 0xAA), "page {token} was written to");
            }
        }
    }
    until("nothing is under way", Duration::from_secs(2), || place.room() >= 8);
}

#[test]
fn a_promoted_read_overtakes_prefetches() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(1, 40 * PAGE)).unwrap();
    let server = Server::start(ServerOptions { rate: Some(4 << 20), ..options(&folder.0) }).unwrap();
    let (place, file) = (place(&server), file("a"));
    let done = Arc::new(Noted::default());
    let mut memory = vec![vec![0; PAGE]; 40];
    let completion: Arc<dyn Completion> = done.clone();
    place.submit(&file, reads(&mut memory, ReadClass::Prefetch), &completion);
    done.log.wait(1);
    place.promote(&[38], &completion);
    let order: Vec<u64> = done.log.wait(40).into_iter().map(|(token, _)| token).collect();
    let at = order.iter().position(|token| *token == 38).unwrap();
    assert!(at < 12, "{order:?}");
}

#[test]
fn a_client_tells_of_its_reads() {
    let folder = folder();
    std::fs::write(folder.0.join("a"), bytes(1, 40 * PAGE)).unwrap();
    // A page takes 8 ms, so the last of ten wait longer.
    let server = Server::start(ServerOptions { rate: Some(4 << 20), ..options(&folder.0) }).unwrap();
    let (place, file) = (place(&server), file("a"));
    let done = Arc::new(Noted::default());
    let mut memory = vec![vec![0; PAGE]; 10];
    let completion: Arc<dyn Completion> = done.clone();
    place.submit(&file, reads(&mut memory, ReadClass::Demand), &completion);
    done.log.wait(10);
    assert_eq!(done.count(|step| matches!(step, ReadStep::Connected { took_us } if *took_us > 0)), 1);
    assert_eq!(done.count(|step| *step == ReadStep::Sent), 10);
    assert_eq!(done.count(|step| matches!(step, ReadStep::FirstByte { .. })), 10);
    let waited = |step: &ReadStep| matches!(step, ReadStep::FirstByte { queue_us, .. } if *queue_us > 20_000);
    assert!(done.count(waited) >= 3, "{:?}", done.notes.lock().unwrap());
    for token in 0..10 {
        let notes = done.notes.lock().unwrap();
        let steps: Vec<_> = notes.iter().filter(|(t, _)| *t == token).map(|(_, step)| *step).collect();
        let sent = steps.iter().position(|step| *step == ReadStep::Sent).unwrap();
        assert!(matches!(steps[sent + 1], ReadStep::FirstByte { .. }), "{steps:?}");
    }
}

#[test]
fn a_withdrawn_read_whose_reply_has_stopped_half_way_ends() {
    let folder = folder();
    let truth = bytes(1, 4 << 20);
    std::fs::write(folder.0.join("a"), &truth).unwrap();
    let server = serve(&folder.0);
    // The first connection stops for three seconds within the second reply.
    let stopping = |bytes: &mut [u8], at: usize| {
        if at + bytes.len() > 200_000 {
            std::thread::sleep(Duration::from_secs(3));
        }
    };
    let proxy =
        Proxy::new(server.address(), move |n| (calm(), if n == 0 { Arc::new(stopping) as Disturb } else { calm() }));
    let patient = ClientOptions { silence: Duration::from_secs(30), stall: Duration::from_secs(30), ..hasty() };
    let place = place_at(proxy.address, Credentials::default(), patient);
    let file = file("a");
    assert_eq!(read(&place, &file, 0, 10).unwrap(), truth[..10]);
    let done = Arc::new(Log::default());
    let completion: Arc<dyn Completion> = done.clone();
    let mut memory = vec![0u8; 1 << 20];
    let buffers = vec![Buffer { ptr: memory.as_mut_ptr(), len: memory.len() }];
    place.submit(&file, vec![Read { token: 5, offset: 0, buffers, class: ReadClass::Demand }], &completion);
    std::thread::sleep(Duration::from_millis(400));
    let began = Instant::now();
    while done.count() == 0 {
        assert!(began.elapsed() < Duration::from_secs(5), "it still waits for its reply");
        place.withdraw(&[5], &completion);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(done.wait(1)[0], (5, Err(PageErrorKind::Withdrawn)));
    assert_eq!(read(&place, &file, 7, 100).unwrap(), truth[7..107]);
}
