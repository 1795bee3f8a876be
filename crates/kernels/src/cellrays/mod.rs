//! Rays through the cells of curvilinear zones.
//!
//! # Theory
//! A ray gathers the light of a field from front to back. A piece of length `l` with value `v` adds
//! `colour(v) (1 - (1 - opacity(v))^(l / unit))` times the transmission of the pieces in front. The light at a point is
//! that of the usable cell that a seed there starts in. Of the lowest (k, j, i) cells of all zones that hold the point,
//! it is the one of least volume. So overlapping zones are seen the same from all sides, and as `probe` reports them.
//!
//! Steps follow the cells. The longest is [`CellRaySetting::longest`]. If the cell at a sample is shorter along the
//! ray, the step is halved until [`CellRaySetting::samples`] fit, at most [`CellRaySetting::halvings`] times, and
//! repeated. Behind it steps grow as they reach even places. Steps are at multiples of their own length from the ray's
//! beginning, so samples depend on the ray alone. The places where a ray enters or leaves all zones are found by
//! bisection, so the picture does not depend on samples near faces.
//!
//! Several fields are sampled at the same places. At each the light of all is added in the order in which they were
//! named. The largest value along a ray is that of its samples; the mean is weighted by the lengths of their steps.
//! Lighting uses gradients from a field of their own. That field is continuous across cells, and the gradient within a
//! cell is not.
//!
//! # Practice
//! A sample is located by walking from the ray's last cell in the zone ([`field::locator::ZoneLocator::find_near`]).
//! For a ray in no cell of a zone, the boxes of its blocks give the next possible place (`block_search.rs`). A
//! [`CellTile`] is a task: rays that lack pages stay, and the others continue. All state kept between two steps belongs
//! to one ray, so its pixel depends on no other ray.

mod appearance;
mod block_search;
mod ray;
mod scene;
#[cfg(test)]
mod tests;
mod tile;

pub use appearance::CellAppearance;
pub use scene::{CellRaySetting, CellScene};
pub use tile::{CellTile, Counts};
