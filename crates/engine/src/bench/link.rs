//! A line between a volume's files and the pager: so many bytes a second, one read behind the other.

use pager::source::{Completion, Read, Source};
use pager::PageErrorKind;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

struct Job {
    due: Instant,
    source: Arc<dyn Source>,
    read: Read,
    done: Arc<dyn Completion>,
}

struct Queue {
    /// In order of `due`.
    jobs: VecDeque<Job>,
    /// When all that was asked for will have gone over the line.
    free: Instant,
    closed: bool,
}

struct Shared {
    bytes_per_s: f64,
    queue: Mutex<Queue>,
    bell: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        super::device::before_all_that_compute();
        let mut queue = self.lock();
        loop {
            let now = Instant::now();
            match queue.jobs.front().map(|j| j.due) {
                None if queue.closed => return,
                None => queue = self.bell.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(due) if due <= now || queue.closed => {
                    if let Some(Job { source, read, done, .. }) = queue.jobs.pop_front() {
                        drop(queue);
                        source.submit(vec![read], &done);
                        queue = self.lock();
                    }
                }
                Some(due) => queue = self.bell.wait_timeout(queue, due - now).unwrap_or_else(PoisonError::into_inner).0,
            }
        }
    }
}

/// The line. Each read begins when its bytes would have arrived.
pub(super) struct Link {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Link {
    pub fn new(bytes_per_s: f64) -> std::io::Result<Self> {
        let queue = Mutex::new(Queue { jobs: VecDeque::new(), free: Instant::now(), closed: false });
        let shared = Arc::new(Shared { bytes_per_s, queue, bell: Condvar::new() });
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("farfield-link".into()).spawn(move || theirs.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// A source at the other end.
    pub fn source(&self, source: Arc<dyn Source>) -> Arc<dyn Source> {
        Arc::new(Beyond { shared: self.shared.clone(), source })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.bell.notify_all();
        if let Some(t) = self.thread.take() {
            // A panic there has been reported on its own.
            let _panicked = t.join();
        }
    }
}

struct Beyond {
    shared: Arc<Shared>,
    source: Arc<dyn Source>,
}

impl Source for Beyond {
    fn describe(&self) -> String {
        self.source.describe()
    }
    fn explain(&self, offset: u64, kind: PageErrorKind) -> (String, PageErrorKind) {
        self.source.explain(offset, kind)
    }
    fn size(&self) -> Result<u64, PageErrorKind> {
        self.source.size()
    }
    fn submit(&self, batch: Vec<Read>, done: &Arc<dyn Completion>) {
        let mut queue = self.shared.lock();
        for read in batch {
            let takes = Duration::from_secs_f64(read.len() as f64 / self.shared.bytes_per_s);
            let due = queue.free.max(Instant::now()) + takes;
            queue.free = due;
            queue.jobs.push_back(Job { due, source: self.source.clone(), read, done: done.clone() });
        }
        drop(queue);
        self.shared.bell.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::super::device::Blocking;
    use super::*;
    use pager::source::Buffer;
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
