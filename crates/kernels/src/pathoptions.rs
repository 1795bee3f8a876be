//! Options of pathlines, and the ends of their steps.

use crate::rk::Method;
use crate::unsteady::Series;
use field::expression::Condition;
use std::sync::Arc;

/// Options of pathlines. Lengths and times are the dataset's.
#[derive(Clone, Debug)]
pub struct PathOptions {
    /// The method; by default Dormand and Prince's with step control.
    pub method: Method,
    /// Largest local error of a step, as a share of the step's length.
    pub tolerance: f64,
    /// Times of release and of the end. The end may be the earlier time.
    pub times: [f64; 2],
    /// Largest length of a line.
    pub max_length: f64,
    /// Most steps of a line.
    pub max_steps: u32,
    /// Longest step, time; the step of methods without step control. `None`: from the cell.
    pub time_step: Option<f64>,
    /// Step of the methods without step control if `time_step` is `None`, in cells.
    pub step_cells: f64,
    /// Whether the end of every step is kept. Otherwise points are kept at the begin, at the times of the series, and
    /// at the end.
    pub every_step: bool,
    /// Ends of steps beside the times of the series, in the order of the run.
    pub stops: Arc<[f64]>,
    /// Condition that ends a line, tested at the release and at the end of each step. Its sides are the last of the
    /// sampled components, behind those that the line keeps.
    pub stop: Option<Arc<Condition>>,
}

impl PathOptions {
    pub(crate) fn forward(&self) -> bool {
        self.times[1] >= self.times[0]
    }

    pub(crate) fn stop_after(&self, time: f64) -> Option<f64> {
        let forward = self.forward();
        let n = self.stops.partition_point(|s| if forward { *s <= time } else { *s >= time });
        self.stops.get(n).copied()
    }

    /// Whether a time is one of the stops.
    pub(crate) fn stops_at(&self, time: f64) -> bool {
        let forward = self.forward();
        let n = self.stops.partition_point(|s| if forward { *s < time } else { *s > time });
        self.stops.get(n) == Some(&time)
    }

    /// The next time at which particles of a group wait for each other.
    pub(crate) fn round_after<F>(&self, series: &Series<F>, time: f64) -> f64 {
        let edge = series.edge_after(time, self.times[1]);
        self.stop_after(time).filter(|s| (*s - time).abs() < (edge - time).abs()).unwrap_or(edge)
    }
}
