//! The specification of a trace, from JSON.

use crate::seeds::{Dimension, PointList, SeedContext, SeedError, Seeds};
use crate::time_options::over_time;
use crate::{PathSpec, ReadAhead, Releases, TraceSpec};
use field::error::FieldError;
use field::options::{usage, Object};
use kernels::rk::Method;
use kernels::streamline::{Direction, Integrator, Options, TerminalSpeed};
use output::{FixedBudget, MemoryAccount};
use pager::Pager;
use runtime::ledger_share::LedgerShare;
use runtime::session::{ProgressWatch, Session};
use serde_json::Value;
use std::sync::Arc;

/// The data that seeds are for, and the ledger that holds them.
pub struct Ground {
    planar: bool,
    /// `None`: seeds are read before a dataset is open.
    pager: Option<Arc<Pager>>,
}

impl Ground {
    /// An open dataset, and its session's ledger.
    pub fn of(session: &Session) -> Self {
        Self { planar: session.dataset().catalog.dimension == 2, pager: Some(session.pager.clone()) }
    }
    /// Any three-dimensional dataset that is not open yet. Seeds may take a megabyte.
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
    ///
    /// # Errors
    /// [`FieldError`] of a position; too many for the ledger.
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

/// Parses a trace. `points` take precedence over `options["seeds"]`.
///
/// # Errors
/// [`FieldError`] for an invalid or unknown option, and for seeds that cannot be read.
pub fn parse(
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

/// As [`parse`], from an object that may have more options.
///
/// # Errors
/// As [`parse`], except for unknown options.
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

/// Points of a pathline to keep: `all`, or those at the times of the dataset, `steps`.
fn points_at_steps(o: &mut Object) -> Result<bool, FieldError> {
    match o.text("points")?.as_deref() {
        None | Some("all") => Ok(false),
        Some("steps") => Ok(true),
        Some(other) => Err(usage(format!("no points '{other}' of pathlines; say all or steps"))),
    }
}

/// Pages to prefetch: `along` (the way of particles) or `none`.
fn read_ahead(o: &mut Object) -> Result<ReadAhead, FieldError> {
    Ok(match o.text("read_ahead")?.as_deref() {
        None | Some("along") => ReadAhead::Along,
        Some("none") => ReadAhead::None,
        Some(other) => return Err(usage(format!("no read-ahead '{other}'; say along or none"))),
    })
}

/// Times of release of streaklines: each time step, unless one of three options sets others.
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
