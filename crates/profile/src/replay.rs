//! A log's pages against other limits, policies and page sizes, and the advice from that.

use super::model::{self, Recording, RunFacts};
use super::Events;
use field::error::FieldError;
use pager::policy::PolicyKind;
use pager::replay::{Choice, Mirror, Stack, Survey};
use pager::Event;
use serde_json::{json, Value};
use std::path::Path;

type ReplayProgress<'a> = dyn FnMut(&str, f64, f64) -> bool + 'a;

/// The settings of a replay.
#[derive(Clone, Debug, Default)]
pub struct ReplaySpec {
    /// Memory limits in bytes. Empty: shares of the touched bytes, from all to 1/32.
    pub limits: Vec<u64>,
    /// Policies by name. Empty: all of them, the run's own with the executor's knowledge, and the optimum.
    pub policies: Vec<String>,
    /// Pages along each axis that become one.
    pub coarser: Vec<u64>,
    /// Seconds that a read takes.
    pub latencies_s: Vec<f64>,
    /// Numbers of readers and of workers.
    pub readers: Vec<usize>,
    /// See `readers`.
    pub workers: Vec<usize>,
}

/// Several pools, each with the limit that leaves its room, and with its choice of victims.
struct Stacks(Vec<(u64, Choice, Stack)>);

impl Stacks {
    /// One for each choice and each room, which has its limit beside it. The optimum is omitted if the log is too long
    /// for it.
    fn new(choices: &[Choice], rooms: &[(u64, u64)], survey: &Survey) -> Self {
        let each = choices.iter().flat_map(|choice| rooms.iter().map(move |(room, limit)| (*choice, *room, *limit)));
        Self(each.filter_map(|(c, room, limit)| Some((limit, c, Stack::new(c, room, survey)?))).collect())
    }

    /// One for each limit, as the run itself works. `other` bytes of each are used for other purposes than frames.
    fn as_the_run(policy: PolicyKind, limits: impl Iterator<Item = u64>, other: u64, survey: &Survey) -> Self {
        let rooms: Vec<(u64, u64)> = limits.map(|l| (l.saturating_sub(other), l)).collect();
        Self::new(&[Choice::Aware(policy)], &rooms, survey)
    }

    fn event(&mut self, event: &Event, survey: &Survey) {
        self.0.iter_mut().for_each(|(.., stack)| stack.event(event, survey));
    }

    /// Pages read again, by limit.
    fn again(&self) -> Vec<(u64, f64)> {
        self.0.iter().map(|(limit, _, stack)| (*limit, stack.counts().again as f64)).collect()
    }

    fn rows(&self) -> Vec<Value> {
        let row = |(limit, choice, stack): &(u64, Choice, Stack)| {
            let c = stack.counts();
            json!({
                "policy": choice.name(), "limit_bytes": limit, "frame_bytes": stack.room(),
                "uses": c.uses, "misses": c.faults, "again": c.again, "evictions": c.evictions, "bytes": c.bytes,
            })
        };
        self.0.iter().map(row).collect()
    }
}

fn choices(spec: &ReplaySpec, own: PolicyKind) -> Result<Vec<Choice>, FieldError> {
    if spec.policies.is_empty() {
        let mut all: Vec<Choice> = PolicyKind::ALL.iter().map(|k| Choice::Policy(*k)).collect();
        all.extend([Choice::Aware(own), Choice::Waiting(own), Choice::Optimal]);
        return Ok(all);
    }
    let named = |name: &String| {
        let (policy, choice): (&str, fn(PolicyKind) -> Choice) =
            match (name.strip_suffix("+executor"), name.strip_suffix("+waiting")) {
                (Some(policy), _) => (policy.trim(), Choice::Aware),
                (_, Some(policy)) => (policy.trim(), Choice::Waiting),
                _ => (name, Choice::Policy),
            };
        if name == "optimum" {
            return Ok(Choice::Optimal);
        }
        let kind = PolicyKind::named(policy).ok_or_else(|| {
            let known: Vec<&str> = PolicyKind::ALL.iter().map(|k| k.name()).collect();
            FieldError::Usage(format!(
                "no replacement policy '{name}'; there are: {}, each with '+executor' or '+waiting' behind it, and optimum",
                known.join(", ")
            ))
        })?;
        Ok(choice(kind))
    };
    spec.policies.iter().map(named).collect()
}

/// The head of a log: facts of its run.
struct RunHeader {
    policy: PolicyKind,
    limit: u64,
    readers: usize,
}

fn own(events: &Events) -> Result<RunHeader, FieldError> {
    let mut own = RunHeader { policy: PolicyKind::default(), limit: 0, readers: 0 };
    // The note is the first event. Some hundred more are searched for logs that others have joined.
    let mut seen = 0;
    events.each(&mut |_, _, event, _| {
        seen += 1;
        if let Event::Note { json } = event {
            if let Ok(note) = serde_json::from_str::<Value>(json) {
                let run = &note["run"];
                own.policy = run["replacement"].as_str().and_then(PolicyKind::named).unwrap_or(own.policy);
                own.limit = run["memory_limit"].as_u64().unwrap_or(own.limit);
                own.readers = run["readers"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(own.readers);
            }
        }
        seen < 256
    })?;
    Ok(own)
}

/// Replays the pages of a log. The result has the run's own counts beside those of its mirror, the curves of all
/// choices over all limits, and page sizes. It also has the model's times for other latencies, readers and workers. All
/// results except the mirror are estimates in a fixed order.
///
/// # Errors
/// [`FieldError`] when the log cannot be read or has no pages. [`FieldError::Usage`] for an unknown policy.
pub fn replay(path: &Path, spec: &ReplaySpec, watch: &mut ReplayProgress<'_>) -> Result<Value, FieldError> {
    let events = Events::open(path)?;
    let own = own(&events)?;
    let choices = choices(spec, own.policy)?;
    let (mut survey, mut recording, mut mirror) =
        (Survey::new(1), Recording::default(), Mirror::new(own.policy, own.readers));
    let ended = events.each_watched("reading", watch, &mut |at, thread, event| {
        survey.event(event);
        recording.event(at, thread, event);
        mirror.event(event);
    })?;
    survey.end();
    recording.end();
    if survey.uses == 0 {
        return Err(FieldError::format(path, "no page was used in this run: there is nothing to replay"));
    }
    let limit = survey.limit.unwrap_or(own.limit);
    // The part of the limit that was not used for frames.
    let other = limit.saturating_sub(survey.frames_peak);
    let rooms: Vec<(u64, u64)> = if spec.limits.is_empty() {
        let share = |n: u32| (survey.touched_bytes >> n) + (1 << 16);
        let mut rooms: Vec<(u64, u64)> = (0..=5).map(|n| (share(n), share(n) + other.min(share(n)))).collect();
        if survey.evictions > 0 {
            rooms.push((survey.frames_peak, limit));
            rooms.sort_unstable();
        }
        rooms
    } else {
        let tight = survey.evictions > 0;
        // A run without evictions does not show its room: an eighth is reserved for other purposes than frames.
        spec.limits.iter().map(|l| (if tight { l.saturating_sub(other) } else { l - l / 8 }, *l)).collect()
    };
    let mut stacks = Stacks::new(&choices, &rooms, &survey);
    // Repeated reads under the run's own limit and under others, as the run itself works.
    let timed = !spec.limits.is_empty() && survey.evictions > 0;
    let limits = [limit].into_iter().chain(spec.limits.iter().copied()).filter(|_| timed);
    let mut timed = Stacks::as_the_run(own.policy, limits, other, &survey);
    events.each_watched("replaying", watch, &mut |_, _, event| {
        stacks.event(event, &survey);
        timed.event(event, &survey);
    })?;
    let curves = stacks.rows();
    let mut sizes = Vec::new();
    for coarser in &spec.coarser {
        sizes.push(coarse(&events, *coarser, own.policy, &rooms, watch)?);
    }
    let modelled = recording.predict(recording.resources());
    let times = times(&recording, spec, &timed.again(), modelled);
    let c = mirror.counts();
    Ok(json!({
        "file": path, "policy": own.policy.name(), "limit_bytes": limit, "uses": survey.uses,
        "touched": survey.touched(), "touched_bytes": survey.touched_bytes,
        "whole": ended.whole, "damaged": ended.damaged, "lost_bytes": ended.lost_bytes,
        "run": {"faults": survey.faults, "evictions": survey.evictions, "published": survey.published},
        "mirror": {"faults": c.faults, "evictions": c.evictions, "again": c.again},
        "optimum": !choices.contains(&Choice::Optimal) || curves.iter().any(|c| c["policy"] == "optimum"),
        "curves": curves, "page_sizes": sizes, "times": times,
        "model": {"measured_s": recording.measured_s(), "predicted_s": modelled, "covers": recording.covers()},
        "estimate": "fixed order: uses in the order of the recorded run",
    }))
}

fn coarse(
    events: &Events,
    coarser: u64,
    policy: PolicyKind,
    rooms: &[(u64, u64)],
    watch: &mut ReplayProgress<'_>,
) -> Result<Value, FieldError> {
    let mut survey = Survey::new(coarser);
    events.each_watched("reading", watch, &mut |_, _, event| survey.event(event))?;
    survey.end();
    let mut stacks = Stacks::new(&[Choice::Policy(policy)], rooms, &survey);
    events.each_watched("replaying", watch, &mut |_, _, event| stacks.event(event, &survey))?;
    let (touched, bytes) = (survey.touched(), survey.touched_bytes);
    Ok(json!({"coarser": coarser, "touched": touched, "touched_bytes": bytes, "rows": stacks.rows()}))
}

/// `again`: repeated reads by limit, the first under the run's own.
fn times(of: &Recording, spec: &ReplaySpec, again: &[(u64, f64)], modelled: f64) -> Vec<Value> {
    if of.is_empty() {
        return Vec::new();
    }
    let was = of.resources();
    let mean_s = of.read_mean_s();
    let mut rows = Vec::new();
    let mut add = |what: &str, to: Value, resources: model::ModelResources| {
        let predicted = of.scaled(resources, modelled);
        rows.push(json!({"of": what, "to": to, "predicted_s": predicted}));
    };
    for latency in &spec.latencies_s {
        if mean_s > 0.0 {
            add("latency_s", json!(latency), model::ModelResources { latency: latency / mean_s, ..was });
        }
    }
    if let Some(((_, now), others)) = again.split_first() {
        for (limit, then) in others {
            // The model cannot predict more misses: it knows the recorded reads only.
            if then <= now {
                add("memory_limit", json!(limit), model::ModelResources { again: then / now.max(1.0), ..was });
            }
        }
    }
    for readers in &spec.readers {
        add("readers", json!(readers), model::ModelResources { readers: (*readers).max(1), ..was });
    }
    for workers in &spec.workers {
        add("workers", json!(workers), model::ModelResources { workers: (*workers).max(1), ..was });
    }
    rows
}

/// Advice for a report: the model's results for a log after its survey and recording, with other limits.
pub(super) fn advise(
    events: &Events,
    (mut survey, mut recording): (Survey, Recording),
    cores: usize,
    deepest: usize,
    watch: &mut ReplayProgress<'_>,
) -> Result<(Vec<Value>, Value), FieldError> {
    let own = own(events)?;
    survey.end();
    recording.end();
    let limit = survey.limit.unwrap_or(own.limit);
    let mut again = Vec::new();
    if survey.evictions > 0 {
        let other = limit.saturating_sub(survey.frames_peak);
        let enough = survey.touched_bytes.saturating_add(survey.touched_bytes / 8).saturating_add(other);
        let limits = (0..=4).map(|n| limit.saturating_mul(1 << n)).chain([enough]);
        let mut stacks = Stacks::as_the_run(own.policy, limits, other, &survey);
        events.each_watched("modelling", watch, &mut |_, _, event| stacks.event(event, &survey))?;
        again = stacks.again();
        let was = again[0].1.max(1.0);
        again.retain(|(l, _)| *l > limit && *l <= enough);
        again.iter_mut().for_each(|(_, again)| *again = (*again / was).min(1.0));
        again.sort_unstable_by_key(|(l, _)| *l);
    }
    let known = RunFacts { limit, cores, deepest, again };
    Ok(model::advice(&recording, &known))
}
