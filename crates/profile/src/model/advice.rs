//! The savings of other settings, by the model.

use super::{ModelResources, Recording};
use serde_json::{json, Value};

/// Least saving worth reporting.
const LEAST_SHARE: f64 = 0.02;

/// Facts of the run beside its turns.
pub struct RunFacts {
    /// Memory limit in bytes.
    pub limit: u64,
    /// Threads that the machine runs at a time.
    pub cores: usize,
    /// Reads in flight, most at a time.
    pub deepest: usize,
    /// Pages read again at other limits: limit in bytes, share of those in the run.
    pub again: Vec<(u64, f64)>,
}

fn bytes(n: u64) -> String {
    let mib = n.div_ceil(1 << 20);
    if mib >= 10 << 10 {
        format!("{}GiB", mib.div_ceil(1 << 10))
    } else {
        format!("{mib}MiB")
    }
}

/// Advice, best first, and the model's result for the run's own settings.
pub fn advice(of: &Recording, known: &RunFacts) -> (Vec<Value>, Value) {
    if of.is_empty() {
        return (Vec::new(), Value::Null);
    }
    let was = of.resources();
    let (measured, modelled) = (of.measured_s(), of.predict(was));
    let mut found: Vec<(f64, Value)> = Vec::new();
    let mut offer = |resources: ModelResources, change: String, what: &str, from: Value, to: Value, why: String| {
        let predicted = of.scaled(resources, modelled);
        let saving = measured - predicted;
        found.push((
            saving,
            json!({
                "change": change, "of": what, "from": from, "to": to, "predicted_s": predicted, "saving_s": saving,
                "saving_share": saving / measured.max(1e-9), "why": why,
            }),
        ));
    };
    // More reads can be in flight only if the run reached its own bound.
    if known.deepest >= was.readers {
        for factor in [2, 4, 16, 64] {
            let readers = was.readers * factor;
            if readers <= 1024 {
                let why = format!("as many reads were in flight as may be ({})", was.readers);
                let resources = ModelResources { readers, ..was };
                offer(resources, format!("--readers {readers}"), "readers", json!(was.readers), json!(readers), why);
            }
        }
    }
    for workers in [2, 4, 8, 16, 32, 64] {
        if workers > was.workers && workers <= known.cores {
            let why = format!("{} of {} cores computed", was.workers, known.cores);
            let resources = ModelResources { workers, ..was };
            offer(resources, format!("--workers {workers}"), "workers", json!(was.workers), json!(workers), why);
        }
    }
    for (limit, again) in &known.again {
        let why = "pages that were dropped had to be read again".to_owned();
        let resources = ModelResources { again: *again, ..was };
        let change = format!("--memory-limit {}", bytes(*limit));
        offer(resources, change, "memory", json!(known.limit), json!(limit), why);
    }
    found.retain(|(saving, _)| *saving >= LEAST_SHARE * measured);
    // Of two changes of one setting with about the same saving only the smaller is reported.
    let mut kept: Vec<(f64, Value)> = Vec::new();
    for (saving, row) in found {
        let same = kept.iter().position(|(_, k)| k["of"] == row["of"]);
        match same {
            Some(n) if saving > kept[n].0 * 1.1 + 0.005 * measured => kept[n] = (saving, row),
            Some(_) => {}
            None => kept.push((saving, row)),
        }
    }
    kept.sort_by(|a, b| b.0.total_cmp(&a.0));
    let model = json!({"predicted_s": modelled, "measured_s": measured, "covers": of.covers()});
    (kept.into_iter().map(|(_, row)| row).collect(), model)
}
