//! A line between a volume's files and the pager: a fixed number of bytes a second, one read after the other.

use super::later::{Act, Clockwork, Later};
use pager::source::{Completion, Read, ReadForm, Source};
use pager::PageErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The line. Each read begins at the time when its bytes would have arrived.
pub(super) struct Link {
    line: Arc<Line>,
    _clockwork: Clockwork,
}

struct Line {
    bytes_per_s: f64,
    /// Time when all requested bytes will have passed.
    free: Mutex<Instant>,
    later: Later,
}

impl Link {
    pub fn new(bytes_per_s: f64) -> std::io::Result<Self> {
        let clockwork = Clockwork::new("farfield-link")?;
        let line = Arc::new(Line { bytes_per_s, free: Mutex::new(Instant::now()), later: clockwork.later() });
        Ok(Self { line, _clockwork: clockwork })
    }

    /// A source at the other end.
    pub fn source(&self, source: Arc<dyn Source>) -> Arc<dyn Source> {
        Arc::new(Beyond { line: self.line.clone(), source })
    }
}

struct Beyond {
    line: Arc<Line>,
    source: Arc<dyn Source>,
}

impl Source for Beyond {
    fn describe(&self) -> String {
        self.source.describe()
    }
    fn explain(&self, offset: u64, kind: PageErrorKind) -> (String, PageErrorKind) {
        self.source.explain(offset, kind)
    }
    fn form(&self) -> ReadForm {
        self.source.form()
    }
    fn size(&self) -> Result<u64, PageErrorKind> {
        self.source.size()
    }
    fn submit(&self, batch: Vec<Read>, done: &Arc<dyn Completion>) {
        let line = &self.line;
        line.later.put(|| {
            let mut free = line.free.lock().unwrap_or_else(PoisonError::into_inner);
            batch.into_iter().map(move |read| {
                let takes = Duration::from_secs_f64(read.len() as f64 / line.bytes_per_s);
                *free = (*free).max(Instant::now()) + takes;
                let (source, done) = (self.source.clone(), done.clone());
                (*free, Box::new(move || source.submit(vec![read], &done)) as Act)
            })
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::device::Blocking;
    use super::*;
    use pager::source::{Buffer, ReadClass};
    use std::sync::mpsc::{channel, Sender};

    struct Told(Mutex<Sender<u64>>);

    impl Completion for Told {
        fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
            result.unwrap();
            self.0.lock().unwrap().send(token).unwrap();
        }
    }

    #[test]
    fn bytes_come_one_behind_the_other_as_fast_as_the_line_is() {
        let path = std::env::temp_dir().join(format!("farfield-link-{}", std::process::id()));
        std::fs::write(&path, (0..=255).cycle().take(60_000).collect::<Vec<u8>>()).unwrap();
        let link = Link::new(1e6).unwrap();
        let source = link.source(Arc::new(Blocking::new(&path)));
        let mut room = vec![[0u8; 20_000]; 3];
        let reads = room.iter_mut().zip(0..).map(|(room, n)| Read {
            offset: n * 20_000,
            buffers: vec![Buffer { ptr: room.as_mut_ptr(), len: room.len() }],
            token: n,
            class: ReadClass::Demand,
        });
        let (told, all) = channel();
        let (done, began): (Arc<dyn Completion>, _) = (Arc::new(Told(Mutex::new(told))), Instant::now());
        source.submit(reads.collect(), &done);
        for n in 0..3 {
            assert_eq!(all.recv().unwrap(), n);
            assert!(began.elapsed() >= Duration::from_millis(20 * (n + 1)));
        }
        std::fs::remove_file(&path).unwrap();
        assert!(room[2][7] == (40_007 % 256) as u8);
    }
}
