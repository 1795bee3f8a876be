//! Tracers, surfaces, slices and rays: restartable steps over pages.
//!
//! No kernel here contains a thread, a lock, a clock or a read: absence comes back as a value, and the step runs again.

pub mod cellrays;
pub mod cellstep;
pub mod cellsteps;
pub mod cores;
pub mod draw;
pub mod flow;
pub mod line;
pub mod particle;
pub mod pathline;
mod pathoptions;
pub mod rays;
mod reason;
pub mod rk;
pub mod saved;
pub mod slice;
pub mod streakline;
pub mod streamline;
pub mod surface;
pub mod timeline;
pub mod unsteady;
