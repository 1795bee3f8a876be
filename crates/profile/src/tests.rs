//! Hand-made logs with known results.

use super::model::{ModelResources, Recording};
use super::{summarise, Events, Form, RunLog};
use pager::{ArrayId, Did, Event, EventLog, PageId, Priority, SourceId};
use std::path::PathBuf;

const PAGE: PageId = PageId::new(ArrayId(0), 0, 3);

/// One task on one thread: 1 ms of computing, a page that takes 5 ms, which the thread itself completes, and 1 ms more.
fn one_task() -> Vec<(u64, Event)> {
    let name = "zone1/xyz".into();
    let array = Event::Array { array: ArrayId(0), pages: 8, pages_i: 2, pages_j: 2, pages_k: 2, derived: false, name };
    let run = r#"{"run": {"workers": 1, "readers": 4, "cores": 2, "memory_limit": 1048576}}"#;
    let priority = Priority::Demand;
    let read = Event::ReadStart { read: 9, source: SourceId(0), offset: 0, bytes: 4096, segments: 1, depth: 1 };
    let reserve = Event::Reserve { page: PAGE, priority, bytes: 4096, frames: 4096, cached: 0, used: 8192 };
    vec![
        (0, Event::Note { json: run.into() }),
        (0, array),
        (1000, Event::Task { task: 0, did: Did::Wait, took_us: 1000, steps: 100, window: 0, token: 5 }),
        (1000, Event::Want { page: PAGE, token: 5, priority }),
        (1000, Event::Fault { page: PAGE }),
        (1000, reserve),
        (1000, read),
        (1000, Event::Compute { took_us: 1000, steps: 100 }),
        (1000, Event::Release { worker: 0 }),
        (6000, Event::ReadEnd { read: 9, ok: true }),
        (6000, Event::Wait { took_us: 5000 }),
        (6000, Event::Decode { page: PAGE, took_ns: 600 }),
        (6000, Event::Publish { page: PAGE, bytes: 4096, used: 8192 }),
        (6000, Event::Resume { token: 5 }),
        (7000, Event::Task { task: 0, did: Did::End, took_us: 1000, steps: 100, window: 0, token: 0 }),
        (7000, Event::Compute { took_us: 1000, steps: 100 }),
    ]
}

fn written(name: &str, events: &[(u64, Event)]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("farfield-made-{}-{name}.events", std::process::id()));
    let log = EventLog::create(&path).unwrap();
    events.iter().for_each(|(at, event)| log.add(*at, 1, event));
    log.add(0, 1, &Event::Thread { name: "farfield-0".into() });
    log.close().unwrap();
    path
}

#[test]
fn waiting_for_a_read_is_that_also_where_the_thread_completes_it_itself() {
    let path = written("waits", &one_task());
    let s = summarise(&path, &mut |_, _, _| true).unwrap();
    std::fs::remove_file(&path).unwrap();
    let (is, of) = (|v: &serde_json::Value| v.as_f64().unwrap(), &s["where"]);
    assert!((is(&of["wait_reads_s"]) - 0.005).abs() < 1e-4 && is(&of["wait_other_s"]) < 1e-4, "{of}");
    assert!((is(&of["compute_s"]) - 0.002).abs() < 1e-6 && is(&of["decode_s"]) < 1e-5, "{of}");
    assert_eq!((&s["latency"]["all"]["count"], &s["latency"]["all"]["max_us"]), (&1.into(), &5000.into()));
    assert_eq!(s["touched"]["grid"], serde_json::json!({"pages": 1, "total": 8, "bytes": 4096, "total_bytes": 32768}));
    // One task has no work for a second thread, and one read none for more readers.
    assert_eq!(s["advice"], serde_json::json!([]));
}

#[test]
fn a_log_whose_end_is_interrupted_is_of_the_form_that_its_name_says() {
    for (ending, form) in [("json", Form::Chrome), ("parquet", Form::Parquet)] {
        let path = std::env::temp_dir().join(format!("farfield-made-{}-cut.{ending}", std::process::id()));
        let log = RunLog::create(&path).unwrap();
        one_task().iter().for_each(|(at, event)| log.log.add(*at, 1, event));
        let ended = log.finish(&mut |_, _, _| false);
        assert!(matches!(ended, Err(field::error::FieldError::Interrupted)), "{ended:?}");
        let events = Events::open(&path).unwrap();
        let whole = events.each(&mut |_, _, _, _| true).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((events.form(), whole.whole), (form, true));
    }
}

/// In every form: the checksum separates a changed log from a truncated one, which a killed run leaves.
#[test]
fn a_log_with_a_flipped_bit_is_said_to_be_damaged() {
    for ending in ["events", "json", "parquet"] {
        let path = std::env::temp_dir().join(format!("farfield-flipped-{}.{ending}", std::process::id()));
        let log = RunLog::create(&path).unwrap();
        one_task().iter().for_each(|(at, event)| log.log.add(*at, 1, event));
        log.finish(&mut |_, _, _| true).unwrap();
        let read = || Events::open(&path).and_then(|events| events.each(&mut |_, _, _, _| true));
        let ended = read().unwrap();
        assert_eq!((ended.whole, ended.damaged), (true, false), "{ending}");
        let bytes = std::fs::read(&path).unwrap();
        // A digit of a time: only a checksum detects it.
        let at = match ending {
            "json" => bytes.windows(6).rposition(|w| w.starts_with(b"\"at\":")).unwrap() + 5,
            "parquet" => 40,
            _ => bytes.len() - 6,
        };
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        std::fs::write(&path, &changed).unwrap();
        match read() {
            Ok(ended) => assert_eq!((ended.whole, ended.damaged), (false, true), "{ending}"),
            Err(e) => assert!(ending == "parquet", "{e}"),
        }
        if ending == "events" {
            std::fs::write(&path, &bytes[..bytes.len() - 6]).unwrap();
            let ended = read().unwrap();
            assert_eq!((ended.whole, ended.damaged), (false, false), "cut off");
        }
        std::fs::remove_file(&path).unwrap();
    }
}

/// Each part on a thread of its own, as each run has.
fn recorded(parts: &[&[(u64, Event)]]) -> Recording {
    let mut recording = Recording::default();
    for (thread, events) in (1..).zip(parts) {
        events.iter().for_each(|(at, event)| recording.event(*at, thread, event));
    }
    recording.end();
    recording
}

#[test]
fn a_task_waits_for_its_first_page_in_the_model_as_in_the_run() {
    let recording = recorded(&[&one_task()]);
    let was = recording.resources();
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.02;
    assert!(near(recording.predict(was), 0.007), "{}", recording.predict(was));
    assert!(near(recording.predict(ModelResources { latency: 0.2, ..was }), 0.003));
    assert!(near(recording.predict(ModelResources { readers: 64, ..was }), 0.007));
}

#[test]
fn runs_one_after_the_other_are_not_one_and_what_lies_between_is_not_work() {
    let later = one_task().into_iter().skip(2).map(|(at, event)| (at + 1_000_000, event));
    let recording = recorded(&[&one_task(), &later.collect::<Vec<_>>()]);
    let was = recording.resources();
    assert!((recording.predict(was) - recording.measured_s()).abs() < 0.002, "{}", recording.predict(was));
    // Reads in no time save the waits of both runs, and nothing of the second between them.
    let saved =
        recording.measured_s() - recording.scaled(ModelResources { latency: 1e-6, ..was }, recording.predict(was));
    assert!((saved - 0.010).abs() < 0.001, "{saved}");
}

#[test]
fn hostile_numbers_are_left_out_and_size_nothing() {
    let mut events = one_task();
    let name = "zone1/q".into();
    let (pages, derived) = (1 << 43, false);
    events.push((8000, Event::Array { array: ArrayId(1), pages, pages_i: 4, pages_j: 0, pages_k: 9, derived, name }));
    events.push((8000, Event::Fault { page: PageId::new(ArrayId(1), 0, (1 << 43) - 1) }));
    events.push((8000, Event::Compute { took_us: u64::MAX, steps: 1 }));
    events.push((8000, Event::Wait { took_us: u64::MAX - 1 }));
    let path = written("hostile", &events);
    let s = summarise(&path, &mut |_, _, _| true).unwrap();
    assert_eq!(s["unknown"], 2);
    assert_eq!(s["kinds"]["fault"], 2);
    let seen = Events::open(&path).unwrap().each(&mut |_, _, _, _| true).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(seen.events as usize, events.len() - 1);
}
