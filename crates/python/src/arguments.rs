//! From JSON and keyword arguments to what the core takes.

use crate::series::over_time;
use ::output::{FixedBudget, MemoryAccount};
use ::profile::RunLog;
use ::runtime::ledger_share::LedgerShare;
use ::runtime::session::{ProgressWatch, Resources, Session, Settled, SourceSpec};
use ::trace::seeds::{Dimension, PointList, SeedContext, SeedError, Seeds};
use ::trace::{PathSpec, ReadAhead, Releases, TraceSpec};
use field::error::FieldError;
use kernels::rk::Method;
use kernels::streamline::{Direction, Integrator, Options, TerminalSpeed};
use pager::{Pager, PolicyKind};
use serde_json::{json, Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) fn usage(message: impl Into<String>) -> FieldError {
    FieldError::Usage(message.into())
}

/// A JSON object whose keys are all read: one that nobody asks for is an error.
pub struct Object {
    map: Map<String, Value>,
    what: &'static str,
}

impl Object {
    /// Parses text.
    pub fn parse(text: &str, what: &'static str) -> Result<Self, FieldError> {
        match serde_json::from_str(text) {
            Ok(Value::Object(map)) => Ok(Self { map, what }),
            Ok(_) => Err(usage(format!("{what}: not a JSON object"))),
            Err(e) => Err(usage(format!("{what}: {e}"))),
        }
    }
    /// Wraps a value.
    pub fn of(value: Value, what: &'static str) -> Result<Self, FieldError> {
        match value {
            Value::Object(map) => Ok(Self { map, what }),
            _ => Err(usage(format!("{what}: not a JSON object"))),
        }
    }
    /// Takes a key; null is as good as absent.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.map.remove(key).filter(|v| !v.is_null())
    }
    fn wrong(&self, key: &str, form: &str) -> FieldError {
        usage(format!("{}: '{key}' must be {form}", self.what))
    }
    /// Whether a key says anything.
    pub fn has(&self, key: &str) -> bool {
        self.map.get(key).is_some_and(|v| !v.is_null())
    }
    /// Takes a number.
    pub fn number(&mut self, key: &str) -> Result<Option<f64>, FieldError> {
        match self.take(key) {
            None => Ok(None),
            Some(v) => v.as_f64().map(Some).ok_or_else(|| self.wrong(key, "a number")),
        }
    }
    /// Takes a number that must be positive.
    pub fn positive(&mut self, key: &str) -> Result<Option<f64>, FieldError> {
        match self.number(key)? {
            Some(v) if !(v > 0.0) => Err(self.wrong(key, "a positive number")),
            v => Ok(v),
        }
    }
    /// Takes a whole number.
    pub fn whole(&mut self, key: &str) -> Result<Option<u64>, FieldError> {
        match self.take(key) {
            None => Ok(None),
            Some(v) => v.as_u64().map(Some).ok_or_else(|| self.wrong(key, "a whole number, 0 or more")),
        }
    }
    /// Takes a truth value.
    pub fn truth(&mut self, key: &str) -> Result<bool, FieldError> {
        match self.take(key) {
            None => Ok(false),
            Some(v) => v.as_bool().ok_or_else(|| self.wrong(key, "true or false")),
        }
    }
    /// Takes text.
    pub fn text(&mut self, key: &str) -> Result<Option<String>, FieldError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(_) => Err(self.wrong(key, "text")),
        }
    }
    /// Takes a list of texts.
    pub fn texts(&mut self, key: &str) -> Result<Vec<String>, FieldError> {
        let Some(v) = self.take(key) else { return Ok(Vec::new()) };
        let list = v.as_array().ok_or_else(|| self.wrong(key, "a list of texts"))?;
        list.iter().map(|s| s.as_str().map(str::to_owned).ok_or_else(|| self.wrong(key, "a list of texts"))).collect()
    }
    /// Takes a list of numbers.
    pub fn numbers<T>(
        &mut self,
        key: &str,
        form: &str,
        number: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>, FieldError> {
        let Some(v) = self.take(key) else { return Ok(None) };
        let list = v.as_array().and_then(|v| v.iter().map(number).collect::<Option<Vec<T>>>());
        list.map(Some).ok_or_else(|| self.wrong(key, form))
    }
    /// Ends the reading.
    pub fn done(self) -> Result<(), FieldError> {
        match self.map.iter().find(|(_, v)| !v.is_null()) {
            None => Ok(()),
            Some((k, _)) => Err(usage(format!("{}: there is no option '{k}'", self.what))),
        }
    }
}

/// The source part of `options`.
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

/// What files of settings define: `[[name, expression, file], ...]`.
fn settled(options: &mut Object) -> Result<Vec<Settled>, FieldError> {
    let Some(list) = options.take("settled") else { return Ok(Vec::new()) };
    let rows: Vec<[String; 3]> = serde_json::from_value(list).map_err(|e| usage(format!("settled: {e}")))?;
    Ok(rows.into_iter().map(|[name, expression, file]| Settled { name, expression, file }).collect())
}

/// The means of a run.
pub fn means(memory_limit: u64, workers: usize, readers: usize, replacement: &str) -> Result<Resources, FieldError> {
    let kind = PolicyKind::named(replacement).ok_or_else(|| {
        let names: Vec<_> = PolicyKind::ALL.iter().map(|kind| kind.name()).collect();
        usage(format!("no replacement policy '{replacement}'; there are: {}", names.join(", ")))
    })?;
    Ok(Resources { memory_limit, workers, readers, replacement: kind, observer: None })
}

/// For what data seeds are, and on whose account they are held.
pub struct Ground {
    planar: bool,
    /// None: of arms of experiments, which have their seeds before they open anything.
    pager: Option<Arc<Pager>>,
}

impl Ground {
    /// An open dataset, and the ledger of its session.
    pub fn of(session: &Session) -> Self {
        Self { planar: session.dataset().catalog.dimension == 2, pager: Some(session.pager.clone()) }
    }
    /// Any three-dimensional one.
    pub fn bare() -> Self {
        Self { planar: false, pager: None }
    }
    /// Whether the data lie in a plane.
    pub fn planar(&self) -> bool {
        self.planar
    }
    fn charge(&self) -> Box<dyn MemoryAccount> {
        match &self.pager {
            Some(p) => Box::new(LedgerShare::new(p.clone())),
            None => Box::new(FixedBudget::new(1 << 20)),
        }
    }
    fn error(&self, e: SeedError) -> FieldError {
        e.in_run(self.pager.as_deref())
    }
    /// Seeds from positions.
    pub fn list(&self, points: impl Iterator<Item = Result<[f64; 3], FieldError>>) -> Result<Seeds, FieldError> {
        let mut list = PointList::new(self.charge()).map_err(|e| self.error(e))?;
        for point in points {
            list.push(point?).map_err(|e| self.error(e))?;
        }
        Ok(Seeds::List(Arc::new(list)))
    }
    fn parse(&self, spec: &str, watch: &mut ProgressWatch<'_>) -> Result<Seeds, FieldError> {
        let dimension = if self.planar { Dimension::Two } else { Dimension::Three };
        Seeds::parse(spec, &mut SeedContext::new(dimension, self.charge(), watch)).map_err(|e| self.error(e))
    }
}

/// What is traced. `points` win over `options["seeds"]`.
pub fn trace(
    options: &str,
    points: Option<Seeds>,
    ground: &Ground,
    watch: &mut ProgressWatch<'_>,
) -> Result<TraceSpec, FieldError> {
    let mut o = Object::parse(options, "trace options")?;
    let spec = trace_object(&mut o, points, ground, watch)?;
    o.done()?;
    Ok(spec)
}

/// As [`trace`], from an object that may hold more.
pub fn trace_object(
    o: &mut Object,
    points: Option<Seeds>,
    ground: &Ground,
    watch: &mut ProgressWatch<'_>,
) -> Result<TraceSpec, FieldError> {
    let seeds = match (points, o.take("seeds")) {
        (Some(seeds), _) => seeds,
        (None, Some(Value::String(s))) => ground.parse(&s, watch)?,
        (None, Some(Value::Array(rows))) => ground.list(rows.iter().map(|v| position(v, ground.planar)))?,
        (None, _) => return Err(usage("no seeds: give a shape such as line:0,0,0:1,0,0:20, a file, or an array")),
    };
    let kind = o.text("kind")?;
    let steady = ["max_time", "initial_step", "max_step", "terminal_speed"];
    if let (Some(k @ ("pathline" | "streakline" | "timeline")), Some(key)) =
        (kind.as_deref(), steady.iter().find(|key| o.has(key)))
    {
        return Err(usage(format!("trace options: '{key}' is not for lines of kind {k}")));
    }
    let direction = match o.text("direction")?.as_deref() {
        None | Some("forward") => Direction::Forward,
        Some("backward") => Direction::Backward,
        Some("both") => Direction::Both,
        Some(d) => return Err(usage(format!("no direction '{d}'; there are: forward, backward, both"))),
    };
    let method = match o.text("integrator")?.as_deref() {
        None | Some("rk45") => Integrator::Rk45,
        Some("rk45-physical") => Integrator::Rk45Physical,
        Some("rk4") => Integrator::Fixed(Method::Rk4),
        Some("euler") => Integrator::Fixed(Method::Euler),
        Some(m) => return Err(usage(format!("no integrator '{m}'; there are: rk45, rk45-physical, rk4, euler"))),
    };
    let d = Options::default();
    let options = Options {
        method,
        direction,
        tolerance: o.positive("tolerance")?.unwrap_or(d.tolerance),
        max_length: o.positive("max_length")?.unwrap_or(f64::INFINITY),
        max_time: o.positive("max_time")?.unwrap_or(f64::INFINITY),
        max_steps: o.whole("max_steps")?.map_or(d.max_steps, |n| u32::try_from(n).unwrap_or(u32::MAX)),
        terminal_speed: o.number("terminal_speed")?.map_or(d.terminal_speed, TerminalSpeed::Absolute),
        initial_step: o.positive("initial_step")?,
        max_step: o.positive("max_step")?,
        step_cells: d.step_cells,
        stop: None,
    };
    let streak = match kind.as_deref() {
        Some("streakline") => Some(releases(o)?),
        _ => None,
    };
    let path = match kind.as_deref() {
        None | Some("streamline") => None,
        Some("pathline" | "streakline" | "timeline") => Some(PathSpec {
            from: o.number("t0")?,
            to: o.number("t1")?,
            time_step: o.positive("time_step")?,
            held: o.truth("hold_steps")?,
            streak,
            ahead: read_ahead(o)?,
            at_steps: points_at_steps(o)?,
            at_once: o.whole("at_once")?.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
            units: None,
            keeps_passed: false,
        }),
        Some(k) => {
            return Err(usage(format!("no lines of kind '{k}'; there are: streamline, pathline, streakline, timeline")))
        }
    };
    Ok(TraceSpec {
        seeds,
        field: o.text("field")?.unwrap_or_else(|| "velocity".into()),
        step: o.whole("step")?.unwrap_or(0) as usize,
        scalars: o.texts("scalars")?,
        options,
        stop: o.text("stop")?,
        path,
        over: over_time(o, kind.as_deref())?,
    })
}

/// Which points of a pathline are kept: `all`, or those at the times of the dataset, `steps`.
fn points_at_steps(o: &mut Object) -> Result<bool, FieldError> {
    match o.text("points")?.as_deref() {
        None | Some("all") => Ok(false),
        Some("steps") => Ok(true),
        Some(other) => Err(usage(format!("no points '{other}' of pathlines; say all or steps"))),
    }
}

/// What is read before particles ask for it: `along` (where they go), `none`, or a number of whole time steps.
fn read_ahead(o: &mut Object) -> Result<ReadAhead, FieldError> {
    Ok(match o.text("read_ahead")?.as_deref() {
        None | Some("along") => ReadAhead::Along,
        Some("none") => ReadAhead::None,
        Some(n) => match n.parse::<u32>() {
            Ok(steps) if steps > 0 => ReadAhead::Steps(steps),
            _ => return Err(usage(format!("no read-ahead '{n}'; say along, none, or a number of whole time steps"))),
        },
    })
}

/// When the particles of streaklines are let go: at each time step, unless one of three options says otherwise.
fn releases(o: &mut Object) -> Result<Releases, FieldError> {
    let every = o.number("release_every")?.map(Releases::Every);
    let steps = o.whole("release_steps")?.map(|n| Releases::Steps(usize::try_from(n).unwrap_or(usize::MAX)));
    let at = match o.take("release_times") {
        None => None,
        Some(v) => {
            let times = v.as_array().and_then(|v| v.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>());
            Some(Releases::At(times.ok_or_else(|| usage("release_times must be a list of numbers"))?))
        }
    };
    let mut said = [every, steps, at].into_iter().flatten();
    let first = said.next().unwrap_or(Releases::Steps(1));
    if said.next().is_some() {
        return Err(usage(
            "say in one way when particles are released: after so much time, so many steps, or at given times",
        ));
    }
    Ok(first)
}

fn position(v: &Value, planar: bool) -> Result<[f64; 3], FieldError> {
    let wrong =
        || usage(if planar { "seeds: each must be two or three numbers" } else { "seeds: each must be three numbers" });
    let row = v.as_array().filter(|r| r.len() == 3 || (planar && r.len() == 2)).ok_or_else(wrong)?;
    let mut p = [0.0; 3];
    for (p, v) in p.iter_mut().zip(row) {
        *p = v.as_f64().ok_or_else(wrong)?;
    }
    Ok(p)
}

/// The log of a run's events, where one is asked for. It is ended by [`Events::finish`], or when this is dropped: a thread of the
/// pager may live on for a moment longer and would take the log with it, unfinished, when the process ends.
pub struct Events(Option<RunLog>);

impl Events {
    /// Creates the file, notes what the run is begun with, and has the pager tell it of events.
    pub fn begin(path: Option<&str>, means: &mut Resources) -> Result<Self, FieldError> {
        let Some(path) = path else { return Ok(Self(None)) };
        let log = RunLog::create(Path::new(path))?;
        means.observer = Some(log.observer());
        log.note(&json!({"run": {
            "version": env!("CARGO_PKG_VERSION"), "command": std::env::args().collect::<Vec<_>>(),
            "memory_limit": means.memory_limit, "workers": means.threads(), "readers": means.reads_in_flight(),
            "replacement": means.replacement.name(), "cores": std::thread::available_parallelism().map_or(1, usize::from),
        }}));
        Ok(Self(Some(log)))
    }

    /// Adds what the run has come to so far, and writes what there is. Whether there is a log.
    pub fn flush(&self, stats: &Value) -> Result<bool, FieldError> {
        let Some(log) = &self.0 else { return Ok(false) };
        log.note(&json!({ "stats": stats }));
        log.flush()?;
        Ok(true)
    }

    /// Ends the log, with what the run came to.
    ///
    /// # Errors
    /// What kept it from being written whole: whoever asked for it must not take a part of it for all.
    pub fn finish(&self, stats: &Value, watch: &mut ProgressWatch<'_>) -> Result<(), FieldError> {
        let Some(log) = &self.0 else { return Ok(()) };
        log.note(&json!({ "stats": stats }));
        log.finish(watch)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // Only where a run failed or was not closed: its own error is the one that is told.
        if let Some(log) = &self.0 {
            let _ = log.finish(&mut |_, _, _| true);
        }
    }
}
