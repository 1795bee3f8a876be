//! Sources and resources of a run, from JSON and keywords.

use crate::session::{Resources, SettingsField, Source, SourceSpec};
use field::error::FieldError;
use field::options::{usage, Object};
use field::volume::VolumeSpec;
use pager::PolicyKind;
use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;

/// A source in JSON: a flow, or a volume.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SourceDocument {
    /// The description of a volume. The files of a flow are absent then.
    volume: Option<Box<VolumeSpec>>,
    path: Option<String>,
    q: Option<Vec<String>>,
    function: Option<Vec<String>>,
    options: Option<serde_json::Map<String, Value>>,
}

impl SourceDocument {
    /// The source of a flow. `options_name` names the options in messages.
    ///
    /// # Errors
    /// [`FieldError::Usage`] of a document without a path, or of options that have another form.
    pub fn flow(self, options_name: &'static str) -> Result<SourceSpec, FieldError> {
        let path = self.path.ok_or_else(|| usage("a source is a 'path', or a 'volume'"))?;
        let mut options = Object::of(Value::Object(self.options.unwrap_or_default()), options_name)?;
        let spec = source(&path, self.q, self.function, &mut options)?;
        options.done()?;
        Ok(spec)
    }
}

/// The source of a document ([`SourceDocument`]), with the tables that a volume's reader counts. The description of a
/// volume of many files is long, so it is parsed in one pass.
///
/// # Errors
/// [`FieldError::Usage`] of text that has another form.
pub fn dataset_source(text: &str, tables: Vec<Vec<u8>>) -> Result<Source, FieldError> {
    let mut document: SourceDocument = serde_json::from_str(text).map_err(|e| usage(format!("source: {e}")))?;
    match document.volume.take() {
        Some(spec) => Ok(Source::Volume(spec, tables)),
        None => Ok(document.flow("options")?.into()),
    }
}

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
fn settled(options: &mut Object) -> Result<Vec<SettingsField>, FieldError> {
    let Some(list) = options.take("settled") else { return Ok(Vec::new()) };
    let rows: Vec<[String; 3]> = serde_json::from_value(list).map_err(|e| usage(format!("settled: {e}")))?;
    Ok(rows.into_iter().map(|[name, expression, file]| SettingsField { name, expression, file }).collect())
}

/// Takes the resources of a run: `memory_limit` in bytes, `workers` threads, `readers` reads in flight (0 or absent: a number that
/// suits the machine), and `replacement`, a policy's name (absent: clock).
///
/// # Errors
/// [`FieldError::Usage`] of one that has another form, or of a policy that is not there, with those that are.
pub fn resources(o: &mut Object) -> Result<Resources, FieldError> {
    let memory_limit = o.whole("memory_limit")?.ok_or_else(|| o.wrong("memory_limit", "a number of bytes"))?;
    let mut count = |key| Ok::<_, FieldError>(o.whole(key)?.unwrap_or(0) as usize);
    let (workers, readers) = (count("workers")?, count("readers")?);
    let replacement = match o.text("replacement")? {
        None => PolicyKind::Clock,
        Some(name) => PolicyKind::named(&name).ok_or_else(|| {
            let names: Vec<_> = PolicyKind::ALL.iter().map(|kind| kind.name()).collect();
            usage(format!("no replacement policy '{name}'; there are: {}", names.join(", ")))
        })?,
    };
    Ok(Resources { memory_limit, workers, readers, replacement, observer: None })
}
