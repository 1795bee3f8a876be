//! How pathlines are made, and where their steps end.

use crate::rk::Method;
use crate::unsteady::Series;
use field::expression::Condition;
use std::sync::Arc;

/// How pathlines are made. Lengths and times are the dataset's.
#[derive(Clone, Debug)]
pub struct PathOptions {
    /// The method; Dormand and Prince's with step control.
    pub method: Method,
    /// Largest local error of a step, as a share of the step's length.
    pub tolerance: f64,
    /// When particles are let go, and until when they are followed: before that, where it is the earlier time.
    pub times: [f64; 2],
    /// Length at which one ends.
    pub max_length: f64,
    /// Steps at which one ends.
    pub max_steps: u32,
    /// Longest step, time; the step of methods without step control. `None`: from the cell.
    pub time_step: Option<f64>,
    /// Step of the methods without step control where `time_step` says nothing, in cells.
    pub step_cells: f64,
    /// Keep the end of every step; else only where a particle is at the times of the series, at its beginning and its end.
    pub every_step: bool,
    /// Where steps end beside the times of the series, in the order of the run.
    pub stops: Arc<[f64]>,
    /// What ends a line where it holds, at the release or at the end of a step, whether that is kept or not. Its sides are the last
    /// of what is sampled, behind what the line keeps.
    pub stop: Option<Arc<Condition>>,
}

impl PathOptions {
    pub(crate) fn forward(&self) -> bool {
        self.times[1] >= self.times[0]
    }

    /// The first of the stops after a time.
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

    /// Where particles that go together are to wait for each other next.
    pub(crate) fn round_after<F>(&self, series: &Series<F>, time: f64) -> f64 {
        let edge = series.edge_after(time, self.times[1]);
        self.stop_after(time).filter(|s| (*s - time).abs() < (edge - time).abs()).unwrap_or(edge)
    }
}
