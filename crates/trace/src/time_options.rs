//! Options of traces over several times.

use crate::{Curves, OutputTimes, OverTime, Refine, TimelineSpec};
use field::error::FieldError;
use field::options::{usage, Object};
use serde_json::Value;
use std::path::PathBuf;

/// The options over several times for a kind of line.
pub fn over_time(o: &mut Object, kind: Option<&str>) -> Result<OverTime, FieldError> {
    let timeline = match kind {
        Some("timeline") => Some(timeline(o)?),
        _ => None,
    };
    Ok(OverTime {
        steps: o.numbers("steps", "a list of whole numbers", |v| v.as_u64().and_then(|n| usize::try_from(n).ok()))?,
        outputs: outputs(o)?,
        trail: o.number("trail")?.unwrap_or(0.0),
        timeline,
        save_state: o.text("save_state")?.map(PathBuf::from),
        resume: o.text("resume")?.map(PathBuf::from),
    })
}

fn outputs(o: &mut Object) -> Result<Option<OutputTimes>, FieldError> {
    let every = o.number("output_every")?.map(OutputTimes::Every);
    let at = o.numbers("output_times", "a list of numbers", Value::as_f64)?.map(OutputTimes::At);
    let steps = o.truth("output_steps")?.then_some(OutputTimes::Steps);
    let mut said = [every, at, steps].into_iter().flatten();
    let first = said.next();
    if said.next().is_some() {
        return Err(usage("say in one way when lines are wanted: whenever so much time has passed, at given times, or at the time steps"));
    }
    Ok(first)
}

fn timeline(o: &mut Object) -> Result<TimelineSpec, FieldError> {
    let d = TimelineSpec::default();
    let length = o.positive("refine_length")?.map(Refine::Length);
    let refine = match (length, o.number("refine")?) {
        (Some(_), Some(_)) => {
            return Err(usage(
                "say in one way how far apart neighbours may get: so far, or so many times as at the release",
            ))
        }
        (Some(length), None) => length,
        (None, None) => d.refine,
        (None, Some(0.0)) => Refine::Never,
        (None, Some(times)) if times >= 1.0 => Refine::Times(times),
        (None, Some(times)) => {
            return Err(usage(format!(
                "refine is {times}; neighbours may get 1 time as far apart as at the release, or more; 0: however far"
            )))
        }
    };
    Ok(TimelineSpec {
        refine,
        max_points: o.whole("max_points")?.map_or(d.max_points, |n| usize::try_from(n).unwrap_or(usize::MAX)),
        curves: match (o.whole("curve_points")?, o.numbers("curves", "a list of whole numbers", Value::as_u64)?) {
            (None, None) => d.curves,
            (Some(n), None) => Curves::Of(n),
            (None, Some(offsets)) => Curves::At(offsets),
            (Some(_), Some(_)) => {
                return Err(usage("say in one way which seeds make a curve: each so many, or where curves begin"))
            }
        },
    })
}
