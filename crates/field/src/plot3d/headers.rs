//! The flow headers of q files, and remarks on oddities in them.
//!
//! Each zone has its own header with Mach number, angle of attack, Reynolds number and time, though all zones are of
//! one flow. Remarks report zones whose headers differ, with the value in use. They also report a flow whose numbers
//! contradict its header, such as velocities divided by U_inf. Runs show the remarks about quantities that they use
//! ([`crate::usage`]).

use super::flowsample::{Flow, Sample};
use super::parts::{OpenedFile, Parts};
use super::settings::VelocityScale;
use super::sniff::file_name;
use crate::catalog::{FlowHeader, OF_ENERGY, OF_FREE_STREAM, OF_TIME};
use crate::error::FieldError;
use crate::file::FileBytes;

/// Different values shown in a remark, and zones shown of each.
const SHOWN: usize = 3;
/// Sampled files of a series.
const FILES: usize = 5;
/// If half of the pressure coefficients are beyond this, the header is not of this flow.
const ABSURD: f64 = 10.0;

/// Header numbers by step and zone.
pub(super) fn flow_headers(parts: &Parts) -> Result<Vec<Vec<FlowHeader>>, FieldError> {
    let reference = &parts.settings.reference;
    let mut steps = Vec::with_capacity(parts.q.len());
    for file in &parts.q {
        let path = &file.part.path;
        let source = FileBytes::open(path).map_err(|e| FieldError::io(path, e))?;
        let mut zones = Vec::with_capacity(file.part.reading.zones.len());
        for n in 0..file.part.reading.zones.len() {
            let mut header = file.part.reading.header(&source, n).map_err(|e| FieldError::io(path, e))?;
            header.gamma = reference.gamma.unwrap_or(header.gamma);
            header.mach = reference.mach.unwrap_or(header.mach);
            zones.push(header);
        }
        steps.push(zones);
    }
    if steps.len() == 1 && parts.steps > 1 {
        steps = vec![steps.remove(0); parts.steps];
    }
    Ok(steps)
}

/// The divisor of the q files' velocities, in a_inf.
pub(super) fn velocity(parts: &Parts, headers: &[Vec<FlowHeader>]) -> Result<f64, String> {
    let reference = &parts.settings.reference;
    if reference.velocity != Some(VelocityScale::FreeStream) || parts.q.is_empty() {
        return Ok(1.0);
    }
    let mut machs = headers.iter().flatten().map(|h| h.mach);
    let first = machs.next().unwrap_or(f64::NAN);
    let how = "'velocity' is freestream, which is the Mach number times the speed of sound";
    if let Some(other) = machs.find(|m| *m != first && !(m.is_nan() && first.is_nan())) {
        return Err(format!(
            "{how}; but the q headers have several ({} and {}): say with 'mach' which it is",
            short(first),
            short(other)
        ));
    }
    if !(first > 0.0 && first.is_finite()) {
        return Err(format!("{how}; but that of the q header is {}: say with 'mach' what it is", short(first)));
    }
    Ok(first)
}

/// A number of single precision in its shortest decimal form.
fn short(x: f64) -> String {
    let single = x as f32;
    if f64::from(single) == x {
        format!("{single}")
    } else {
        format!("{x}")
    }
}

/// One number of a header.
type HeaderNumber = fn(&FlowHeader) -> f64;

/// Remarks on the headers of the steps, zone by zone.
pub(super) fn remarks(
    parts: &Parts,
    headers: &[Vec<FlowHeader>],
    physical: bool,
    velocity: f64,
) -> Result<Vec<String>, FieldError> {
    let mut said = Vec::new();
    if parts.q.is_empty() {
        return Ok(said);
    }
    let from_headers = physical && parts.dt.is_none() && parts.times.is_none();
    let all_the_same = "in NAME.p3d.json gives all zones the same";
    let numbers: [(&str, HeaderNumber, Option<String>); 5] = [
        (
            "Mach numbers",
            |h| h.mach,
            Some(format!("{OF_FREE_STREAM} takes each zone's own; \"reference\": {{\"mach\": ...}} {all_the_same}.")),
        ),
        (
            "ratios of specific heats",
            |h| h.gamma,
            Some(format!("{OF_ENERGY} takes each zone's own; \"reference\": {{\"gamma\": ...}} {all_the_same}.")),
        ),
        ("times", |h| h.time, from_headers.then(|| format!("{OF_TIME} the first zone; --dt says others."))),
        ("angles of attack", |h| h.alpha, Some("Nothing is made of them.".to_owned())),
        ("Reynolds numbers", |h| h.reynolds, Some("Nothing is made of them.".to_owned())),
    ];
    for (what, number, used) in numbers {
        if let (Some(unlike), Some(used)) = (unlike(parts, headers, number), used) {
            said.push(format!("The q headers give zones unlike {what}: {unlike}. {used}"));
        }
    }
    said.extend(samples(parts, headers, velocity)?);
    Ok(said)
}

/// Zones grouped by the value in their headers, in words, if the values differ.
fn unlike(parts: &Parts, headers: &[Vec<FlowHeader>], number: HeaderNumber) -> Option<String> {
    let same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan();
    let differs = |zones: &&Vec<FlowHeader>| zones.iter().any(|h| !same(number(h), number(&zones[0])));
    let steps = headers.iter().filter(differs).count();
    let zones = headers.iter().find(differs)?;
    let mut groups: Vec<(f64, Vec<usize>)> = Vec::new();
    for (zone, h) in zones.iter().enumerate() {
        match groups.iter_mut().find(|g| same(g.0, number(h))) {
            Some(g) => g.1.push(zone),
            None => groups.push((number(h), vec![zone])),
        }
    }
    let name = |zone: usize| match parts.settings.zone_names.get(zone) {
        Some(name) => crate::unique_names::plain(name),
        None => format!("zone{}", zone + 1),
    };
    let some = |g: &(f64, Vec<usize>)| {
        let names: Vec<String> = g.1.iter().take(SHOWN).map(|z| name(*z)).collect();
        format!("{} ({}{})", short(g.0), names.join(", "), more(g.1.len().saturating_sub(SHOWN)))
    };
    let shown: Vec<String> = groups.iter().take(SHOWN).map(some).collect();
    let within = match headers.len() {
        1 => String::new(),
        n => format!(", in {steps} of {n} steps"),
    };
    Some(format!("{}{}{within}", shown.join(", "), more(groups.len().saturating_sub(SHOWN))))
}

fn more(n: usize) -> String {
    if n == 0 {
        String::new()
    } else {
        format!(" and {n} more")
    }
}

/// Remarks on values of the flow.
fn samples(parts: &Parts, headers: &[Vec<FlowHeader>], velocity: f64) -> Result<Vec<String>, FieldError> {
    let n = parts.q.len();
    let mut looked_at: Vec<usize> = (0..n.min(FILES)).map(|f| f * (n - 1) / (n.min(FILES) - 1).max(1)).collect();
    looked_at.dedup();
    // Each sentence once, with all its files.
    let mut odd: Vec<(String, Vec<&OpenedFile>)> = Vec::new();
    for &step in &looked_at {
        let (file, zones) = (&parts.q[step], &headers[step]);
        let path = &file.part.path;
        let source = FileBytes::open(path).map_err(|e| FieldError::io(path, e))?;
        let sample = Sample::of(&source, &file.part.reading, velocity).map_err(|e| FieldError::io(path, e))?;
        for text in sentences(&sample, zones, parts) {
            match odd.iter_mut().find(|o| o.0 == text) {
                Some(o) => o.1.push(file),
                None => odd.push((text, vec![file])),
            }
        }
    }
    let named = |files: &[&OpenedFile]| match files {
        [one] => file_name(&one.given),
        [first, ..] => {
            format!("{} (in {} of {} files that were looked at)", file_name(&first.given), files.len(), looked_at.len())
        }
        [] => String::new(),
    };
    Ok(odd.iter().map(|(text, files)| format!("{}: {text}", named(files))).collect())
}

fn sentences(sample: &Sample, zones: &[FlowHeader], parts: &Parts) -> Vec<String> {
    let mut said = Vec::new();
    if sample.flows.is_empty() {
        return said;
    }
    if sample.flows.iter().all(|(_, f)| f.energy == 0.0) {
        return vec![format!("energy is zero wherever it was looked at. {OF_ENERGY} makes no sense.")];
    }
    let pressure = |(zone, f): &(usize, Flow)| f.pressure(zones[*zone].gamma);
    let negative = sample.flows.iter().filter(|s| !(pressure(s) > 0.0)).count();
    if 2 * negative > sample.flows.len() {
        said.push(format!(
            "energy is less than density V^2 / 2 at most of the places looked at. {OF_ENERGY} is negative there, or no number."
        ));
        return said;
    }
    let mach = |zone: usize| zones[zone].mach;
    if let Some((zone, _)) = sample.flows.iter().find(|(zone, _)| !(mach(*zone) > 0.0)) {
        said.push(format!(
            "the Mach number of the header is {}. {OF_FREE_STREAM} is infinite or no number; \"reference\": {{\"mach\": ...}} in \
             NAME.p3d.json says another.",
            short(mach(*zone))
        ));
        return said;
    }
    let typical = |by: &dyn Fn(usize) -> f64| {
        let mut all: Vec<f64> = sample
            .flows
            .iter()
            .map(|(zone, f)| f.times(by(*zone)).pressure_coefficient(zones[*zone].gamma, mach(*zone)).abs())
            .collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let found = typical(&|_| 1.0);
    if found > ABSURD {
        let scaled = typical(&mach);
        let told = parts.settings.reference.velocity.is_some();
        let hint = if scaled < ABSURD && !told {
            format!(
                " (as if velocities were divided by U_inf and not by a_inf: \"velocity\": \"freestream\" there makes it {scaled:.3})"
            )
        } else {
            String::new()
        };
        said.push(format!(
            "half of the pressure coefficients looked at are beyond {found:.3}, with the Mach number {} of the header. {OF_FREE_STREAM} \
             makes no sense then; \"reference\" in NAME.p3d.json says what the numbers are divided by{hint}.",
            short(mach(sample.flows[0].0))
        ));
    }
    said
}
