//! Bricks that outlive a picture: the next one in which the same shows of a volume finds them made.
//!
//! Of a picture of 1024^3 voxels in memory, making bricks and looking at what shows in them took a third of all time, and the next picture,
//! from a place near by, needs nearly the same.

use super::bricks::Bricks;
use super::pages::{Context, Rooms};
use super::scene::{Scene, Source};
use std::sync::Arc;

/// What a thread's context leaves to the next one.
pub struct Kept {
    /// That of which the bricks are.
    of: Arc<Scene>,
    bricks: Bricks,
}

impl Kept {
    /// Whether these bricks are what a scene's would be.
    pub fn serves(&self, scene: &Scene) -> bool {
        match (&self.of.sources[..], &scene.sources[..]) {
            ([a], [b]) => a.has_bricks_of(b),
            _ => false,
        }
    }

    /// Whether a scene is seen from elsewhere than the one of which these are.
    pub fn is_elsewhere(&self, scene: &Scene) -> bool {
        self.of.setting.camera != scene.setting.camera
    }

    /// The bricks as a context of this scene has them.
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

impl Source {
    /// Whether the bricks of both are the same, and show in the same places.
    fn has_bricks_of(&self, o: &Self) -> bool {
        let same_numbers = self.array.id == o.array.id
            && (self.array.steady || self.step == o.step)
            && (self.component, self.cells) == (o.component, o.cells);
        let shows_alike = match (&self.next_seen, &o.next_seen) {
            (Some(a), Some(b)) => a == b,
            _ => self.table.shows_as(&o.table),
        };
        same_numbers && self.skip == o.skip && shows_alike
    }
}

impl Context {
    /// What the next context of a scene can use; nothing where there are no bricks.
    pub fn keep(self, scene: &Arc<Scene>) -> Option<Kept> {
        let bricks = self.into_bricks();
        bricks.any().then(|| Kept { of: scene.clone(), bricks })
    }
}
