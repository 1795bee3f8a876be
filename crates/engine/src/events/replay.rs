//! A log's pages against other limits, policies and page sizes; what that says for advice.

use super::model::{self, Known, Recording};
use super::Events;
use field::error::FieldError;
use pager::policy::PolicyKind;
use pager::replay::{Choice, Mirror, Replayed, Stack, Survey};
use pager::Event;
use serde_json::{json, Value};
use std::path::Path;

type Watch<'a> = dyn FnMut(&str, f64, f64) -> bool + 'a;

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

fn counts(c: Replayed) -> Value {
    json!({"uses": c.uses, "misses": c.faults, "again": c.again, "evictions": c.evictions, "bytes": c.bytes})
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
struct Own {
    policy: PolicyKind,
    limit: u64,
    readers: usize,
}

fn own(events: &Events) -> Result<Own, FieldError> {
    let mut own = Own { policy: PolicyKind::default(), limit: 0, readers: 0 };
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
pub fn replay(path: &Path, spec: &ReplaySpec, watch: &mut Watch<'_>) -> Result<Value, FieldError> {
    let events = Events::open(path)?;
    let own = own(&events)?;
    let choices = choices(spec, own.policy)?;
    let (mut survey, mut recording, mut mirror) =
        (Survey::new(1), Recording::default(), Mirror::new(own.policy, own.readers));
    events.each_watched("reading", watch, &mut |at, thread, event| {
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
    let mut curves = Vec::new();
    let mut stacks: Vec<(u64, Option<Stack>, Choice)> = Vec::new();
    for choice in &choices {
        for (room, limit) in &rooms {
            stacks.push((*limit, Stack::new(*choice, *room, &survey), *choice));
        }
    }
    // What was read again under the run's own limit and would be under others, as the run itself went about it.
    let mut timed: Vec<(u64, Option<Stack>)> = Vec::new();
    if !spec.limits.is_empty() && survey.evictions > 0 {
        let limits = [limit].into_iter().chain(spec.limits.iter().copied());
        let aware = Choice::Aware(own.policy);
        timed.extend(limits.map(|l| (l, Stack::new(aware, l.saturating_sub(other), &survey))));
    }
    events.each_watched("replaying", watch, &mut |_, _, event| {
        stacks.iter_mut().filter_map(|s| s.1.as_mut()).for_each(|s| s.event(event, &survey));
        timed.iter_mut().filter_map(|s| s.1.as_mut()).for_each(|s| s.event(event, &survey));
    })?;
    for (limit, stack, choice) in &stacks {
        let mut row = stack.as_ref().map_or(Value::Null, |s| counts(s.counts()));
        if let Some(row) = row.as_object_mut() {
            row.insert("policy".into(), json!(choice.name()));
            row.insert("limit_bytes".into(), json!(limit));
            row.insert("frame_bytes".into(), json!(stack.as_ref().map(Stack::room)));
            curves.push(json!(row));
        }
    }
    let mut sizes = Vec::new();
    for coarser in &spec.coarser {
        sizes.push(coarse(&events, *coarser, own.policy, &rooms, watch)?);
    }
    let modelled = recording.predict(recording.means());
    let again: Vec<(u64, f64)> =
        timed.iter().filter_map(|(l, s)| Some((*l, s.as_ref()?.counts().again as f64))).collect();
    let times = times(&recording, spec, &again, modelled);
    let c = mirror.counts();
    Ok(json!({
        "file": path, "policy": own.policy.name(), "limit_bytes": limit, "uses": survey.uses,
        "touched": survey.touched(), "touched_bytes": survey.touched_bytes,
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
    watch: &mut Watch<'_>,
) -> Result<Value, FieldError> {
    let mut survey = Survey::new(coarser);
    events.each_watched("reading", watch, &mut |_, _, event| survey.event(event))?;
    survey.end();
    let mut stacks: Vec<(u64, Option<Stack>)> =
        rooms.iter().map(|(room, limit)| (*limit, Stack::new(Choice::Policy(policy), *room, &survey))).collect();
    events.each_watched("replaying", watch, &mut |_, _, event| {
        stacks.iter_mut().filter_map(|s| s.1.as_mut()).for_each(|s| s.event(event, &survey));
    })?;
    let rows = stacks.iter().filter_map(|(limit, stack)| {
        let mut row = counts(stack.as_ref()?.counts());
        let object = row.as_object_mut()?;
        object.insert("limit_bytes".into(), json!(limit));
        object.insert("frame_bytes".into(), json!(stack.as_ref()?.room()));
        Some(row)
    });
    Ok(
        json!({"coarser": coarser, "touched": survey.touched(), "touched_bytes": survey.touched_bytes, "rows": rows.collect::<Vec<_>>()}),
    )
}

/// `again`: pages read again by limit, first of all under the run's own.
fn times(of: &Recording, spec: &ReplaySpec, again: &[(u64, f64)], modelled: f64) -> Vec<Value> {
    if of.is_empty() {
        return Vec::new();
    }
    let was = of.means();
    let mean_s = of.read_mean_s();
    let mut rows = Vec::new();
    let mut add = |what: &str, to: Value, means: model::Means| {
        let predicted = of.scaled(means, modelled);
        rows.push(json!({"of": what, "to": to, "predicted_s": predicted}));
    };
    for latency in &spec.latencies_s {
        if mean_s > 0.0 {
            add("latency_s", json!(latency), model::Means { latency: latency / mean_s, ..was });
        }
    }
    if let Some(((_, now), others)) = again.split_first() {
        for (limit, then) in others {
            // What more misses would cost the model does not say: it knows of no reads but those that there were.
            if then <= now {
                add("memory_limit", json!(limit), model::Means { again: then / now.max(1.0), ..was });
            }
        }
    }
    for readers in &spec.readers {
        add("readers", json!(readers), model::Means { readers: (*readers).max(1), ..was });
    }
    for workers in &spec.workers {
        add("workers", json!(workers), model::Means { workers: (*workers).max(1), ..was });
    }
    rows
}

/// Advice for a report: what the model makes of a log that a survey and a recording have heard, with what other limits would have meant.
pub(super) fn advise(
    events: &Events,
    (mut survey, mut recording): (Survey, Recording),
    cores: usize,
    deepest: usize,
    watch: &mut Watch<'_>,
) -> Result<(Vec<Value>, Value), FieldError> {
    let own = own(events)?;
    survey.end();
    recording.end();
    let limit = survey.limit.unwrap_or(own.limit);
    let mut again = Vec::new();
    if survey.evictions > 0 {
        let other = limit.saturating_sub(survey.frames_peak);
        let mut stacks: Vec<(u64, Option<Stack>)> = [0, 1, 2, 3, 4]
            .iter()
            .map(|n| limit.saturating_mul(1 << n))
            .chain([survey.touched_bytes.saturating_add(survey.touched_bytes / 8).saturating_add(other)])
            .map(|l| (l, Stack::new(Choice::Aware(own.policy), l.saturating_sub(other), &survey)))
            .collect();
        events.each_watched("modelling", watch, &mut |_, _, event| {
            stacks.iter_mut().filter_map(|s| s.1.as_mut()).for_each(|s| s.event(event, &survey));
        })?;
        let was = stacks[0].1.as_ref().map_or(0, |s| s.counts().again).max(1) as f64;
        let enough = stacks[stacks.len() - 1].0;
        again = stacks[1..]
            .iter()
            .filter(|(l, _)| *l > limit && *l <= enough)
            .filter_map(|(l, s)| Some((*l, (s.as_ref()?.counts().again as f64 / was).min(1.0))))
            .collect();
        again.sort_unstable_by_key(|(l, _)| *l);
    }
    let known = Known { limit, cores, deepest, again };
    Ok(model::advice(&recording, &known))
}
