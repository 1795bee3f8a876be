//! Options of replays, parsed from JSON.

use crate::replay::ReplaySpec;
use field::error::FieldError;
use field::options::Object;
use serde_json::Value;

impl ReplaySpec {
    /// Options: `limits`, `policies`, `coarser`, `latencies_s`, `readers`, `workers`; lists.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for a list of another type, and for an unknown option.
    pub fn parse(options: &str) -> Result<Self, FieldError> {
        let mut o = Object::parse(options, "replay options")?;
        let spec = Self {
            limits: wholes(&mut o, "limits")?,
            policies: o.texts("policies")?,
            coarser: wholes(&mut o, "coarser")?,
            latencies_s: numbers(&mut o, "latencies_s")?,
            readers: wholes(&mut o, "readers")?.into_iter().map(|n| n as usize).collect(),
            workers: wholes(&mut o, "workers")?.into_iter().map(|n| n as usize).collect(),
        };
        o.done()?;
        Ok(spec)
    }
}

fn list<T>(o: &mut Object, key: &str, of: impl Fn(&Value) -> Option<T>) -> Result<Vec<T>, FieldError> {
    let wrong = || FieldError::Usage(format!("replay options: {key} must be a list of numbers, each at least 0"));
    match o.take(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(|v| of(v).ok_or_else(wrong)).collect(),
        Some(_) => Err(wrong()),
    }
}

fn wholes(o: &mut Object, key: &str) -> Result<Vec<u64>, FieldError> {
    list(o, key, Value::as_u64)
}

fn numbers(o: &mut Object, key: &str) -> Result<Vec<f64>, FieldError> {
    list(o, key, |v| v.as_f64().filter(|n| *n >= 0.0))
}
