//! Steps of a streamline in physical space: methods for comparison, and cells with a collapsed map.

use super::walls::facing;
use super::{distance, growth, Integrator, Options, Streamline, StreamlineState, SHRINK_MIN};
use crate::flow::{DomainFlow, Flow, ParticlePosition};
use crate::line::Reason;
use crate::rk::{Method, StepOutcome, Stepper};
use field::domain::Locator;
use field::nodes::Miss;
use field::shape::DomainCell;
use field::simd::V4;

/// Smallest step in physical space, in cells. A step that ends outside is halved down to it, and then the line ends.
pub(crate) const SMALLEST: f64 = 1e-3;
/// Step in physical space through cells with a collapsed map, in cells.
const COLLAPSED_STEP: f64 = 0.25;

impl<C: DomainCell> Streamline<C> {
    /// Continues in physical space: fractions are useless where a cell's map has collapsed.
    #[cold]
    pub(super) fn go_physical<L: Locator<Cell = C>>(
        &mut self,
        flow: &mut DomainFlow<L>,
        options: &Options,
        place: ParticlePosition<C>,
    ) -> Result<(), Miss> {
        let v = flow.space.cell(place.spot.cell)?.vector.at(place.spot.rst);
        if !v.is_finite_xyz() {
            return self.end_half(flow, options, Reason::Hole);
        }
        self.carried = None;
        self.h = f64::INFINITY;
        self.state = StreamlineState::Physical(Box::new(Stepper::new(v.xyz(), place)), place);
        Ok(())
    }

    pub(super) fn physical_step<L: Locator<Cell = C>>(
        &mut self,
        flow: &mut DomainFlow<L>,
        options: &Options,
    ) -> Result<(), Miss> {
        let StreamlineState::Physical(stepper, at) = &mut self.state else { return Ok(()) };
        let place = *at;
        let (x0, sign) = (self.x, self.sign);
        let settled = flow.settle(&place, |_| Ok(V4::from_xyz(x0)))?.unwrap_or(place);
        let v = flow.space.cell(settled.spot.cell)?.vector.at(settled.spot.rst);
        if !v.is_finite_xyz() {
            return self.end_half(flow, options, Reason::Hole);
        }
        if settled.spot != place.spot {
            **stepper = Stepper::new(v.xyz(), settled);
        }
        // Kept like the finished stages: a restarted step does not settle again.
        *at = settled;
        let cell_time = flow.length_scale(&settled)? / v.length3();
        let method = if let Integrator::Fixed(m) = options.method { m } else { Method::Rk45 };
        let time_left = options.max_time - self.line.half_time();
        let cells = if options.method == Integrator::Rk45 { COLLAPSED_STEP } else { options.step_cells };
        let mut h = self.h.min(cells * cell_time).min(time_left);
        if matches!(options.method, Integrator::Rk45Physical) {
            h = self.h.min(cell_time).min(time_left);
        }
        if let Some(longest) = options.max_step {
            let t = longest / v.length3();
            h = if matches!(options.method, Integrator::Fixed(_)) { self.h.min(t).min(time_left) } else { h.min(t) };
        }
        let tried = stepper.go(flow, method, (x0, 0.0), sign * h)?;
        let step = match tried {
            StepOutcome::Done(step) => step,
            StepOutcome::Outside(exit) => {
                if h > SMALLEST * cell_time {
                    stepper.restart();
                    self.h = 0.5 * h;
                    return Ok(());
                }
                let wall = match facing(flow, &settled, v, sign)? {
                    Some(face) => flow.space.is_wall(face)?,
                    None => false,
                };
                let reason = exit.reason(wall);
                return self.end_half(flow, options, reason);
            }
        };
        let chord = distance(step.x, x0);
        let ratio = step.error / (options.tolerance * chord);
        if method == Method::Rk45 && ratio > 1.0 && h > 1e-6 * cell_time {
            stepper.restart();
            self.h = h * growth(ratio * ratio).max(SHRINK_MIN);
            return Ok(());
        }
        let length_left = options.max_length - self.line.half_length();
        if chord > length_left * (1.0 + 1e-9) && length_left > 0.0 && h > 1e-9 * cell_time {
            // Shorten until the chord is the remaining length: the chord is nearly proportional to the step.
            stepper.restart();
            self.h = h * (length_left / chord).min(1.0 - 1e-9);
            return Ok(());
        }
        let (v1, end) = step.end;
        let ended = if chord >= length_left * (1.0 - 1e-9) {
            Some(Reason::Length)
        } else if h >= time_left {
            Some(Reason::Time)
        } else if self.line.half_steps() + 1 >= options.max_steps {
            Some(Reason::Steps)
        } else {
            None
        };
        if let (Some(_), Some((seed, _))) = (ended, self.origin) {
            flow.space.cell(seed.spot.cell)?;
        }
        self.record(flow, options, &end.spot, step.x, h)?;
        self.line.advance(chord);
        self.x = step.x;
        self.stood = 0;
        self.h = match options.method {
            Integrator::Fixed(_) => f64::INFINITY,
            _ => h * growth(ratio * ratio),
        };
        if let Some(reason) = ended {
            return self.end_half(flow, options, reason);
        }
        let speed = V4::from_xyz(v1).length3();
        self.fastest = self.fastest.max(speed);
        self.state = if options.terminal_speed.rests(speed, self.fastest) {
            StreamlineState::Rest(end, None)
        } else {
            Self::running(options, end, V4::from_xyz(v1))
        };
        if matches!(self.state, StreamlineState::Run(_)) {
            self.h = f64::INFINITY;
        }
        Ok(())
    }
}
