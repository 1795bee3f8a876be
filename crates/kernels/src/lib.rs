//! Tracers: restartable steps over pages.
//!
//! No kernel here contains a thread, a lock, a clock or a read: absence comes back as a value, and the step runs again.

pub mod cellstep;
pub mod cellsteps;
pub mod draw;
pub mod flow;
pub mod line;
pub mod particle;
pub mod pathline;
mod pathoptions;
pub mod rk;
pub mod saved;
pub mod streakline;
pub mod streamline;
pub mod timeline;
pub mod unsteady;
