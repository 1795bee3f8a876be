//! Sources and resources of a run, from JSON and keywords.

use crate::session::{Resources, Settled, SourceSpec};
use field::error::FieldError;
use field::options::{usage, Object};
use pager::PolicyKind;
use serde_json::Value;
use std::path::PathBuf;

/// The source in `options`: `plot3d`, `cache_dir`, `times`, `untimed`, `dt`, `grids`, `zone_order`, `define`,
/// `settled`, `read_s`.
///
/// # Errors
/// [`FieldError::Usage`] for an option of another form.
pub fn source(
    path: &str,
    q: Option<Vec<String>>,
    function: Option<Vec<String>>,
    options: &mut Object,
) -> Result<SourceSpec, FieldError> {
    let plot3d = match options.take("plot3d") {
        None => Default::default(),
        Some(v) => serde_json::from_value(v).map_err(|e| usage(e.to_string()))?,
    };
    let zones = match options.take("zones") {
        None => None,
        Some(v) => Some(serde_json::from_value(v).map_err(|e| usage(format!("zones: {e}")))?),
    };
    let paths = |v: Option<Vec<String>>| v.unwrap_or_default().into_iter().map(PathBuf::from).collect();
    let cache_dir = match options.text("cache_dir")? {
        Some(d) => PathBuf::from(d),
        None => std::env::temp_dir().join("farfield-cache"),
    };
    Ok(SourceSpec {
        path: PathBuf::from(path),
        zones,
        times: options.numbers("times", "a list of numbers", Value::as_f64)?.unwrap_or_default(),
        untimed: options.text("untimed")?.unwrap_or_default(),
        dt: options.number("dt")?,
        grids: paths(Some(options.texts("grids")?)),
        q: paths(q),
        function: paths(function),
        plot3d,
        cache_dir,
        zone_order: options.texts("zone_order")?,
        define: options.texts("define")?,
        settled: settled(options)?,
        read_s: match options.numbers("read_s", "two numbers", Value::as_f64)?.as_deref() {
            Some([wall, processor]) => [*wall, *processor],
            Some(_) => return Err(options.wrong("read_s", "two numbers")),
            None => [0.0; 2],
        },
    })
}

/// Definitions in files of settings: `[[name, expression, file], ...]`.
fn settled(options: &mut Object) -> Result<Vec<Settled>, FieldError> {
    let Some(list) = options.take("settled") else { return Ok(Vec::new()) };
    let rows: Vec<[String; 3]> = serde_json::from_value(list).map_err(|e| usage(format!("settled: {e}")))?;
    Ok(rows.into_iter().map(|[name, expression, file]| Settled { name, expression, file }).collect())
}

/// The resources of a run: bytes, threads, reads in flight (0: as many as suit the machine), and the replacement policy
/// by name.
///
/// # Errors
/// [`FieldError::Usage`] listing the policies.
pub fn resources(
    memory_limit: u64,
    workers: usize,
    readers: usize,
    replacement: &str,
) -> Result<Resources, FieldError> {
    let kind = PolicyKind::named(replacement).ok_or_else(|| {
        let names: Vec<_> = PolicyKind::ALL.iter().map(|kind| kind.name()).collect();
        usage(format!("no replacement policy '{replacement}'; there are: {}", names.join(", ")))
    })?;
    Ok(Resources { memory_limit, workers, readers, replacement: kind, observer: None })
}
