//! One ray through the zones, front to back.

use super::appearance::{AppearanceStates, RayShare, ShownLight};
use super::block_search::{enter, Stack};
use super::scene::{CellScene, Ray};
use crate::rays::opaque_at;
use field::locator::{CellPoint, ZoneLocator};
use field::nodes::{Miss, Nodes};

/// A zone that a ray may meet.
#[derive(Copy, Clone, Debug)]
pub(super) struct Visit {
    zone: u32,
    /// The ray is in none of its cells from the last search to here.
    next: f64,
    /// Length of the ray in the box of the block there.
    block: f64,
    /// The ray's last cell in it.
    hint: Option<CellPoint>,
}

/// A piece of a ray with an unknown end, which the next sample gives. Its light is in the ray's [`RayShare`].
#[derive(Copy, Clone, Debug)]
struct RayPiece {
    from: f64,
    to: f64,
    /// Place of its sample.
    at: f64,
    spot: CellPoint,
}

/// The progress of a ray.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    /// Begin of the next step, in shortest steps.
    begins: i64,
    /// Halvings of that step.
    halved: u8,
    pub done: bool,
    /// An unreadable page was left out.
    pub gap: bool,
    /// Its visits among those of the tile; `None` before its start.
    visits: Option<[u32; 2]>,
    /// The last place known to be in no zone, if all that follows is known.
    outside: Option<f64>,
    piece: Option<RayPiece>,
    light: [f32; 3],
    /// Share of the light behind that is transmitted.
    through: f32,
}

/// Arguments of a step beside the ray.
pub(super) struct Stepping<'a, N> {
    pub scene: &'a CellScene,
    pub space: &'a mut ZoneLocator<N>,
    pub stack: &'a mut Stack,
    pub samples: &'a mut u64,
    /// The light of each appearance at the last sample.
    pub seen: &'a mut Vec<ShownLight>,
}

/// The result of a sample.
enum RaySample {
    /// Values; the cell's length along the ray, and its place.
    Values(f64, CellPoint),
    /// In no cell; the length of the cells there that might have held it.
    Outside(f64),
    /// An unreadable page.
    Lost,
}

/// Cells along an edge of a block that has a box.
const OF_BLOCK: f64 = field::boxes::BLOCK as f64;
/// Halvings by which a face is found.
const BISECTIONS: usize = 6;

impl Lane {
    pub fn new(ray: &Ray) -> Self {
        Self {
            begins: 0,
            halved: 0,
            done: !(ray.low < ray.high),
            gap: false,
            visits: None,
            outside: None,
            piece: None,
            light: [0.0; 3],
            through: 1.0,
        }
    }

    /// Linear light, premultiplied, and opacity of a finished ray.
    pub fn colour(&self, scene: &CellScene, owned: &AppearanceStates, ray: usize) -> [f32; 4] {
        let (mut light, mut through) = (self.light, self.through);
        owned.project(&scene.looks, ray, &mut light, &mut through);
        let [r, g, b] = light;
        [r, g, b, 1.0 - through]
    }

    /// Begin of the next step; `None` before it is known.
    pub fn place(&self, scene: &CellScene) -> Option<f64> {
        self.visits.map(|_| self.begins as f64 * scene.shortest)
    }

    /// Finds the zones that a ray may meet.
    ///
    /// # Errors
    /// [`Miss::Absent`]: the state is unchanged.
    pub fn begin<N: Nodes>(&mut self, ray: &Ray, visits: &mut Vec<Visit>, s: &mut Stepping<'_, N>) -> Result<(), Miss> {
        if self.visits.is_some() {
            return Ok(());
        }
        let (first, mut absent, mut gap) = (visits.len(), false, false);
        for &zone in &s.scene.setting.zones {
            match enter(&mut s.space.nodes, zone as usize, ray, ray.low, s.stack) {
                Ok(Some([next, block])) => visits.push(Visit { zone, next, block, hint: None }),
                Ok(None) => {}
                Err(Miss::Absent) => absent = true,
                Err(Miss::Failed) => gap = true,
            }
        }
        if absent {
            visits.truncate(first);
            return Err(Miss::Absent);
        }
        self.gap |= gap;
        self.visits = Some([first as u32, visits.len() as u32]);
        let next = visits[first..].iter().map(|v| v.next).fold(f64::INFINITY, f64::min);
        if next < ray.high {
            self.begins = whole(next, s.scene);
            self.outside = (next > ray.low).then_some(next);
        } else {
            self.done = true;
        }
        Ok(())
    }

    /// Advances a ray to `until`, or to an absent page.
    ///
    /// # Errors
    /// [`Miss::Absent`]: the ray stays in place.
    pub fn go<N: Nodes>(
        &mut self,
        ray: &Ray,
        visits: &mut [Visit],
        own: &mut RayShare<'_>,
        until: f64,
        s: &mut Stepping<'_, N>,
    ) -> Result<(), Miss> {
        let Some([first, end]) = self.visits else { return Ok(()) };
        let visits = &mut visits[first as usize..end as usize];
        while !self.done {
            let length = 1i64 << (s.scene.setting.halvings - self.halved);
            let begins = self.begins as f64 * s.scene.shortest;
            if begins >= until {
                return Ok(());
            }
            let (low, high) = ((begins).max(ray.low), ((self.begins + length) as f64 * s.scene.shortest).min(ray.high));
            if low >= ray.high {
                self.end(s.scene, own);
                self.done = true;
                return Ok(());
            }
            if self.piece.is_none() {
                let next = visits.iter().map(|v| v.next).fold(f64::INFINITY, f64::min);
                if next >= ray.high {
                    self.done = true;
                    return Ok(());
                }
                if next > high {
                    self.begins = whole(next, s.scene).max(self.begins + length);
                    self.outside = Some(next);
                    self.grow(0, s.scene);
                    continue;
                }
            }
            let at = 0.5 * (low + high);
            let mut gap = false;
            match sample(ray, visits, [low, at, high], &mut gap, s)? {
                RaySample::Values(cell, spot) => {
                    let wanted = s.scene.halvings(cell);
                    if wanted > self.halved {
                        self.halved = wanted;
                        continue;
                    }
                    let from = match (&self.piece, self.outside) {
                        (None, Some(outside)) => face(ray, &spot, [at, outside], &mut gap, s)?,
                        _ => low,
                    };
                    *s.samples += 1;
                    self.end(s.scene, own);
                    if self.done {
                        return Ok(());
                    }
                    self.piece = Some(RayPiece { from, to: high, at, spot });
                    own.see(s.seen);
                    self.outside = None;
                    self.step(length, wanted, s.scene);
                }
                RaySample::Outside(cell) => {
                    let wanted = s.scene.halvings(cell);
                    if wanted > self.halved {
                        self.halved = wanted;
                        continue;
                    }
                    if let Some(piece) = self.piece {
                        let to = face(ray, &piece.spot, [piece.at, at], &mut gap, s)?;
                        self.piece = Some(RayPiece { to, ..piece });
                        self.end(s.scene, own);
                    }
                    self.outside = Some(at);
                    self.step(length, wanted, s.scene);
                }
                RaySample::Lost => {
                    self.end(s.scene, own);
                    self.outside = None;
                    self.step(length, self.halved, s.scene);
                }
            }
            self.gap |= gap;
        }
        Ok(())
    }

    /// Advances behind a step. Steps grow where cells are longer.
    fn step(&mut self, length: i64, wanted: u8, scene: &CellScene) {
        self.begins += length;
        self.grow(wanted, scene);
    }

    /// Lengthens steps as far as they are at multiples of their length.
    fn grow(&mut self, wanted: u8, scene: &CellScene) {
        while self.halved > wanted && self.begins & ((2i64 << (scene.setting.halvings - self.halved)) - 1) == 0 {
            self.halved -= 1;
        }
    }

    /// Adds the light of a piece whose end is known.
    fn end(&mut self, scene: &CellScene, own: &mut RayShare<'_>) {
        let Some(piece) = self.piece.take() else { return };
        own.pass(&scene.looks, [piece.from, piece.to], &mut self.light, &mut self.through);
        let [r, g, b] = self.light;
        self.done |= !scene.projects && opaque_at([r, g, b], self.through);
    }
}

/// The beginning of the longest step that contains a place, in shortest steps.
fn whole(t: f64, scene: &CellScene) -> i64 {
    // Doubles hold integers exactly up to 2^53, and the shortest steps are fewer.
    let step = (t / scene.setting.longest).floor().clamp(-4e9, 4e9) as i64;
    step << scene.setting.halvings
}

/// Samples the middle of a step from `low` to `high`.
fn sample<N: Nodes>(
    ray: &Ray,
    visits: &mut [Visit],
    [low, at, high]: [f64; 3],
    gap: &mut bool,
    s: &mut Stepping<'_, N>,
) -> Result<RaySample, Miss> {
    let p = ray.at(at);
    let (mut absent, mut lost, mut cells) = (false, false, f64::INFINITY);
    let mut best: Option<(CellPoint, Option<f64>)> = None;
    for v in visits.iter_mut().filter(|v| v.next <= at) {
        let found = match &v.hint {
            Some(hint) => s.space.find_near(hint, p),
            None => s.space.find(v.zone as usize, p),
        };
        match found {
            Ok(Some(spot)) => {
                v.hint = Some(spot);
                best = Some(match best {
                    None => (spot, None),
                    // Of cells of several zones the smallest; of equal ones the first.
                    Some((other, known)) => {
                        let before = match known {
                            Some(known) => known,
                            None => s.space.volume(other.cell)?,
                        };
                        let own = s.space.volume(spot.cell)?;
                        if own < before {
                            (spot, Some(own))
                        } else {
                            (other, Some(before))
                        }
                    }
                });
            }
            Ok(None) => {
                v.hint = None;
                // A step inside the box of a block may reach its cells.
                if low > v.next + v.block {
                    match enter(&mut s.space.nodes, v.zone as usize, ray, low, s.stack) {
                        Ok(Some([next, block])) => (v.next, v.block) = (next, block),
                        Ok(None) => v.next = f64::INFINITY,
                        Err(Miss::Absent) => absent = true,
                        Err(Miss::Failed) => (v.next, lost) = (f64::INFINITY, true),
                    }
                }
                if v.next <= at {
                    cells = cells.min(v.block / OF_BLOCK);
                }
            }
            Err(Miss::Absent) => absent = true,
            Err(Miss::Failed) => (v.hint, lost) = (None, true),
        }
    }
    // Zones that begin within the step, behind its middle.
    for v in visits.iter().filter(|v| v.next > at && v.next <= high) {
        cells = cells.min(v.block / OF_BLOCK);
    }
    if absent {
        return Err(Miss::Absent);
    }
    *gap |= lost;
    let Some((spot, _)) = best else { return Ok(if lost { RaySample::Lost } else { RaySample::Outside(cells) }) };
    let loaded = match s.space.cell(spot.cell) {
        Ok(loaded) => loaded,
        Err(Miss::Absent) => return Err(Miss::Absent),
        Err(Miss::Failed) => {
            *gap = true;
            return Ok(RaySample::Lost);
        }
    };
    s.seen.clear();
    s.seen.extend(s.scene.looks.iter().map(|look| look.at(&loaded.sampled, &spot, ray)));
    // A collapsed map, as at a polar axis, gives no lengths.
    let along = loaded.map().computational(spot.rst, ray.d).map(|f| f.iter().fold(0.0f64, |m, c| m.max(c.abs())));
    let cell = along.filter(|c| *c > 0.0).map_or(f64::INFINITY, |c| 1.0 / c);
    Ok(RaySample::Values(cell, spot))
}

/// Where a ray crosses the faces of the zone of `spot`, between a place inside and one outside.
fn face<N: Nodes>(
    ray: &Ray,
    spot: &CellPoint,
    [mut inside, mut outside]: [f64; 2],
    gap: &mut bool,
    s: &mut Stepping<'_, N>,
) -> Result<f64, Miss> {
    let mut spot = *spot;
    for _ in 0..BISECTIONS {
        let middle = 0.5 * (inside + outside);
        match s.space.find_near(&spot, ray.at(middle)) {
            Ok(Some(found)) => (spot, inside) = (found, middle),
            Ok(None) => outside = middle,
            Err(Miss::Absent) => return Err(Miss::Absent),
            Err(Miss::Failed) => {
                *gap = true;
                break;
            }
        }
    }
    Ok(0.5 * (inside + outside))
}
