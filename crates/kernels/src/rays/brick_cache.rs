//! Bricks that outlive a picture, for the next picture of the same volume and appearance.
//!
//! In a picture of 1024^3 voxels in memory, bricks and their inspection take a third of all time. The next picture,
//! from a nearby place, needs nearly the same bricks.

use super::bricks::Bricks;
use super::pages::{Context, Rooms};
use super::scene::Scene;
use super::source::RaySource;
use std::sync::Arc;

/// The part of a thread's context that the next one reuses.
pub struct BrickCache {
    /// The scene of the bricks.
    of: Arc<Scene>,
    bricks: Bricks,
}

impl BrickCache {
    /// Whether these bricks equal those of a scene.
    pub fn serves(&self, scene: &Scene) -> bool {
        match (&self.of.sources[..], &scene.sources[..]) {
            ([a], [b]) => a.has_bricks_of(b),
            _ => false,
        }
    }

    /// Whether a scene has another view than that of these bricks.
    pub fn is_elsewhere(&self, scene: &Scene) -> bool {
        self.of.setting.camera != scene.setting.camera
    }

    /// The bricks in the form that a context of this scene needs.
    pub(super) fn bricks(self, scene: &Scene, rooms: Rooms) -> Bricks {
        let serves = self.serves(scene);
        let Self { mut bricks, .. } = self;
        let room = rooms.of_bricks(&scene.sources);
        if !bricks.fits(room) {
            if !serves || !bricks.grow(room) {
                return Bricks::new(room);
            }
        } else if !serves {
            bricks.forget();
        }
        bricks
    }
}

impl RaySource {
    /// Whether both have the same bricks, visible in the same places.
    fn has_bricks_of(&self, o: &Self) -> bool {
        let same_numbers = self.array.id == o.array.id
            && (self.array.steady || self.step == o.step)
            && (self.component, self.cells) == (o.component, o.cells);
        let shows_alike = match (&self.next_seen, &o.next_seen) {
            (Some(a), Some(b)) => a == b,
            _ => self.table.shows_as(&o.table),
        };
        same_numbers && (self.skip, self.projection) == (o.skip, o.projection) && shows_alike
    }
}

impl Context {
    /// The reusable part for the next context of a scene; `None` without bricks.
    pub fn keep(self, scene: &Arc<Scene>) -> Option<BrickCache> {
        let bricks = self.into_bricks();
        bricks.any().then(|| BrickCache { of: scene.clone(), bricks })
    }
}

#[cfg(test)]
mod tests {
    use super::super::brick_shape::EDGE;
    use super::super::bricks::{BrickState, Bricks, Room};

    const ROOM: Room = Room { element: 1, bytes: 2 << 20, cells: [1023; 3], all: false };

    /// Bricks along the first axis that are known to be invisible.
    fn known(bricks: &mut Bricks) -> Vec<i32> {
        let is_known = |bricks: &mut Bricks, i| bricks.dark([i, 1, 2], [i, 1, 2], |_, _| BrickState::Here);
        (0..32).filter(|i| is_known(bricks, *i)).collect()
    }

    #[test]
    fn what_is_known_stays_known_as_bricks_become_more_until_it_is_forgotten() {
        let mut bricks = Bricks::new(ROOM);
        let edge = EDGE as i32;
        for i in [3, 4, 30] {
            let low = [i, 1, 2].map(|b| b * edge);
            bricks.nothing([i, 1, 2], low, low.map(|v| v + edge));
        }
        let more = Room { bytes: 200 << 20, all: true, ..ROOM };
        assert!(bricks.fits(ROOM) && !bricks.fits(more));
        assert!(!bricks.grow(Room { element: 2, ..more }) && !bricks.grow(Room { cells: [40; 3], ..more }));
        assert!(bricks.grow(more) && bricks.fits(more));
        assert!(!bricks.grow(ROOM), "they never become fewer");
        assert_eq!(known(&mut bricks), [3, 4, 30]);
        bricks.forget();
        assert!(known(&mut bricks).is_empty());
    }
}
