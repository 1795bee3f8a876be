//! Rays through the cells of curvilinear zones.
//!
//! # Theory
//! A ray gathers the light of a field from front to back: along a piece of length `l` with value `v` it adds
//! `colour(v) (1 - (1 - opacity(v))^(l / unit))` times what comes through what is before it. The light at a point is that of the usable
//! cell that a seed there starts in: the lowest (k, j, i) cell of each zone that holds it, and of these the one of least volume, so that
//! what is seen of overlapping zones is the same from all sides and is what `probe` says.
//!
//! Steps follow the cells. The longest is [`CellRaySetting::longest`]; where the cell that holds a sample is shorter along the ray, the step is
//! halved until [`CellRaySetting::samples`] of them fit, at most [`CellRaySetting::halvings`] times, and begun again; behind it steps grow as they come
//! to even places. Steps stand at multiples of their own length from where the ray begins, so that samples depend on the ray alone. Where a ray enters or
//! leaves all zones the place is found by bisection: what is seen of a zone does not depend on how samples fall on its faces.
//!
//! Several fields are sampled at the same places: at each the light of all is added in the order in which they were named. The largest
//! value along a ray is that of its samples, the mean is weighted by the lengths of their steps. Light on gradients takes these from a
//! field of their own, which is continuous across cells where the gradient within a cell is not.
//!
//! # Practice
//! A sample is located by walking from the ray's last cell in the zone ([`field::locator::Space::find_near`]). Where a ray is in no cell of a
//! zone, the boxes of its blocks say where it may be next (`block_search.rs`). A [`CellTile`] is a task: rays that lack pages stay where they
//! are, the others go on. Whatever is kept of a ray between two steps belongs to the ray: what it sees depends on no other.

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
