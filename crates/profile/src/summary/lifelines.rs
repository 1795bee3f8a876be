//! Lifelines in the manner of NetLogger: the places of tasks and threads, in a part of the run that a page can show.

use super::dist::seconds;
use super::scan::Scan;
use pager::{Did, Event};
use serde_json::{json, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Approximate number of events in the shown part: more are indistinguishable.
const SHOWN: u64 = 6000;
/// Most tasks shown, and spans of each.
const TASKS: usize = 24;
const SPANS: usize = 4000;
/// Most pictures listed.
const FRAMES: usize = 10_000;

#[derive(Default)]
struct Lifeline {
    spans: Vec<(u64, u64, Arc<str>)>,
}

impl Lifeline {
    fn add(&mut self, from: u64, to: u64, what: Arc<str>) {
        if self.spans.len() < SPANS && to > from {
            self.spans.push((from, to, what));
        }
    }
}

pub(super) struct Lifelines {
    from: u64,
    to: u64,
    tasks: BTreeMap<u64, Lifeline>,
    /// The state of tasks without a thread, and its begin.
    pending: HashMap<u64, (u64, &'static str)>,
    threads: BTreeMap<u32, Lifeline>,
    names: BTreeMap<u32, Arc<str>>,
    /// Reads in flight: slot, begin, bytes.
    reads: HashMap<u64, (usize, u64, u64)>,
    slots: Vec<bool>,
    readers: Vec<(usize, u64, u64, u64)>,
    drawn: HashMap<u64, u64>,
    frames: Vec<(u64, u64, u64)>,
}

impl Lifelines {
    pub(super) fn new(scan: &Scan) -> Self {
        let (from, to) = scan.middle(SHOWN);
        Self {
            from,
            to,
            tasks: BTreeMap::new(),
            pending: HashMap::new(),
            threads: BTreeMap::new(),
            names: scan.threads.iter().map(|(n, t)| (*n, t.name.clone())).collect(),
            reads: HashMap::new(),
            slots: Vec::new(),
            readers: Vec::new(),
            drawn: HashMap::new(),
            frames: Vec::new(),
        }
    }

    pub(super) fn event(&mut self, at: u64, thread: u32, event: &Event) {
        match event {
            Event::ReadStart { read, bytes, .. } => {
                let slot = self.slots.iter().position(|busy| !busy).unwrap_or_else(|| {
                    self.slots.push(false);
                    self.slots.len() - 1
                });
                self.slots[slot] = true;
                self.reads.insert(*read, (slot, at, *bytes));
            }
            Event::ReadEnd { read, .. } => {
                if let Some((slot, since, bytes)) = self.reads.remove(read) {
                    self.slots[slot] = false;
                    if at >= self.from && since <= self.to && self.readers.len() < SPANS {
                        self.readers.push((slot, since, at, bytes));
                    }
                }
            }
            Event::FrameStart { frame } => drop(self.drawn.insert(*frame, at)),
            Event::FrameEnd { frame } => {
                if let (Some(since), true) = (self.drawn.remove(frame), self.frames.len() < FRAMES) {
                    self.frames.push((*frame, since, at));
                }
            }
            Event::Task { task, did, took_us, .. } => self.task(at, *task, *did, *took_us),
            Event::Compute { took_us, .. } => self.span(at, thread, *took_us, "compute".into()),
            Event::Wait { took_us } => self.span(at, thread, *took_us, "wait".into()),
            Event::Span { took_us, name } => self.span(at, thread, *took_us, name.clone()),
            Event::Decode { took_ns, .. } => self.span(at, thread, took_ns.div_ceil(1000), "decode".into()),
            Event::Derive { took_ns, .. } => self.span(at, thread, took_ns.div_ceil(1000), "derive".into()),
            _ => {}
        }
    }

    fn span(&mut self, at: u64, thread: u32, took_us: u64, what: Arc<str>) {
        let since = at.saturating_sub(took_us);
        if at >= self.from && since <= self.to {
            self.threads.entry(thread).or_default().add(since.max(self.from), at.min(self.to), what);
        }
    }

    fn task(&mut self, at: u64, task: u64, did: Did, took_us: u64) {
        let since = at.saturating_sub(took_us);
        let before = self.pending.remove(&task);
        match did {
            Did::Wait => drop(self.pending.insert(task, (at, "wait"))),
            Did::Turn => drop(self.pending.insert(task, (at, "turn"))),
            Did::End => {}
        }
        if at < self.from || since > self.to || !self.shows(task, since) {
            return;
        }
        let (from, to) = (self.from, self.to);
        let line = self.tasks.entry(task).or_default();
        if let Some((until, what)) = before {
            line.add(until.max(from), since.min(to), what.into());
        }
        line.add(since.max(from), at.min(to), "run".into());
    }

    /// Whether a task is among those shown. Their begins are spread over the shown part, since the first tasks may end
    /// soon.
    fn shows(&self, task: u64, since: u64) -> bool {
        let gone = since.saturating_sub(self.from) as f64 / (self.to - self.from).max(1) as f64;
        let by_now = 1 + (gone * (TASKS - 1) as f64) as usize;
        self.tasks.contains_key(&task) || self.tasks.len() < by_now.min(TASKS)
    }

    /// After the last event: the states of shown tasks beyond the shown part.
    pub(super) fn end(&mut self) {
        for (task, line) in &mut self.tasks {
            if let Some((until, what)) = self.pending.get(task) {
                line.add((*until).max(self.from), self.to, (*what).into());
            }
        }
    }

    pub(super) fn frames(&self) -> Value {
        self.frames.iter().map(|(frame, from, to)| json!([frame, seconds(*from), seconds(*to)])).collect()
    }

    pub(super) fn json(&self) -> Value {
        let spans = |line: &Lifeline| -> Value {
            line.spans.iter().map(|(from, to, what)| json!([seconds(*from), seconds(*to), &**what])).collect()
        };
        let tasks = self
            .tasks
            .iter()
            .map(|(task, line)| json!({"task": task, "name": format!("task {task}"), "spans": spans(line)}));
        let name = |thread: &u32| self.names.get(thread).map_or("unnamed", |n| n).to_owned();
        let threads = self.threads.iter().map(|(n, line)| json!({"name": name(n), "spans": spans(line)}));
        let readers =
            self.readers.iter().map(|(slot, from, to, bytes)| json!([slot, seconds(*from), seconds(*to), bytes]));
        let within = |f: &&(u64, u64, u64)| f.2 >= self.from && f.1 <= self.to;
        let frames = self.frames.iter().filter(within).map(|(f, from, to)| json!([f, seconds(*from), seconds(*to)]));
        json!({
            "window": [seconds(self.from), seconds(self.to)], "tasks": tasks.collect::<Vec<_>>(),
            "readers": readers.collect::<Vec<_>>(), "threads": threads.collect::<Vec<_>>(), "frames": frames.collect::<Vec<_>>(),
        })
    }
}
