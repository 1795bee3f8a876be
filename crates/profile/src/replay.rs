//! A log's pages against other limits, policies and page sizes; what that says for advice.

use super::model::{self, Recording, RunFacts};
use super::Events;
use field::error::FieldError;
use pager::policy::PolicyKind;
use pager::replay::{Choice, Mirror, Stack, Survey};
use pager::Event;
use serde_json::{json, Value};
use std::path::Path;

type ReplayProgress<'a> = dyn FnMut(&str, f64, f64) -> bool + 'a;

/// What is replayed.
#[derive(Clone, Debug, Default)]
pub struct ReplaySpec {
    /// Memory limits in bytes; none: shares of what the run touched, from all of it to 1/32.
    pub limits: Vec<u64>,
    /// Policies by name; none: all of them, the executor's knowledge with the run's own, and the optimum.
    pub policies: Vec<String>,
    /// How many pages along each axis become one.
    pub coarser: Vec<u64>,
    /// Seconds that a read takes.
    pub latencies_s: Vec<f64>,
    /// Numbers of readers and of workers.
    pub readers: Vec<usize>,
    /// See `readers`.
    pub workers: Vec<usize>,
}

/// Pools beside one another, each with the limit that leaves it its room, and with what decides in it.
struct Stacks(Vec<(u64, Choice, Stack)>);

impl Stacks {
    /// One for each choice and each room, which is said with its limit; none for the optimum where the log is too long for it.
    fn new(choices: &[Choice], rooms: &[(u64, u64)], survey: &Survey) -> Self {
        let each = choices.iter().flat_map(|choice| rooms.iter().map(move |(room, limit)| (*choice, *room, *limit)));
        Self(each.filter_map(|(c, room, limit)| Some((limit, c, Stack::new(c, room, survey)?))).collect())
    }

    /// One for each limit, of which `other` is taken for other things, as the run itself goes about it.
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

/// What a log's head says of its run.
struct RunHeader {
    policy: PolicyKind,
    limit: u64,
    readers: usize,
}

fn own(events: &Events) -> Result<RunHeader, FieldError> {
    let mut own = RunHeader { policy: PolicyKind::default(), limit: 0, readers: 0 };
    // The note is the first event; some hundred more are looked at for the sake of logs that were put together by others.
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

/// Runs the pages of a log again. The answer has the run's own counts beside those of its mirror, the curves of all choices over all
/// limits, page sizes, and the times that the model gives for other latencies, readers and workers. All of it but the mirror is an
/// estimate in a fixed order.
///
/// # Errors
/// [`FieldError`] when the log cannot be read or has no pages in it; [`FieldError::Usage`] for a policy that there is not.
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
    // What the limit left for frames beside everything else.
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
        // Of a run that never dropped a page it is not known how much room there was: an eighth is left for what is not frames.
        spec.limits.iter().map(|l| (if tight { l.saturating_sub(other) } else { l - l / 8 }, *l)).collect()
    };
    let mut stacks = Stacks::new(&choices, &rooms, &survey);
    // What was read again under the run's own limit and would be under others, as the run itself went about it.
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
    let modelled = recording.predict(recording.means());
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

/// `again`: pages read again by limit, first of all under the run's own.
fn times(of: &Recording, spec: &ReplaySpec, again: &[(u64, f64)], modelled: f64) -> Vec<Value> {
    if of.is_empty() {
        return Vec::new();
    }
    let was = of.means();
    let mean_s = of.read_mean_s();
    let mut rows = Vec::new();
    let mut add = |what: &str, to: Value, means: model::ModelMeans| {
        let predicted = of.scaled(means, modelled);
        rows.push(json!({"of": what, "to": to, "predicted_s": predicted}));
    };
    for latency in &spec.latencies_s {
        if mean_s > 0.0 {
            add("latency_s", json!(latency), model::ModelMeans { latency: latency / mean_s, ..was });
        }
    }
    if let Some(((_, now), others)) = again.split_first() {
        for (limit, then) in others {
            // What more misses would cost the model does not say: it knows of no reads but those that there were.
            if then <= now {
                add("memory_limit", json!(limit), model::ModelMeans { again: then / now.max(1.0), ..was });
            }
        }
    }
    for readers in &spec.readers {
        add("readers", json!(readers), model::ModelMeans { readers: (*readers).max(1), ..was });
    }
    for workers in &spec.workers {
        add("workers", json!(workers), model::ModelMeans { workers: (*workers).max(1), ..was });
    }
    rows
}

/// Advice for a report: what the model makes of a log that a survey and a recording have heard, with what other limits would have meant.
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
