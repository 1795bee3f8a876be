//! State kept from one picture of a volume to the next: the bricks of each thread, and the direction of tiles.

use kernels::rays::{self, Context, Rooms, Scene};
use pager::{Charge, ChargeKind, Pager};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Divisor: the share of the limit for block maps and bricks of all threads. [`MOST`] bounds one thread.
const SHARE: u64 = 32;
const MOST: u64 = 64 << 20;
/// Divisor: the share of the limit left by a picture, if each thread needs it for some bricks. A 32nd of 65 MiB held
/// none, and pictures took half as long again.
const SHARE_OF_LITTLE: u64 = 8;
/// A thread with room for so many bricks always has bricks. The number needed by a tile is an estimate.
const MOST_NEEDED: usize = 128;
/// Below this limit a thread has bricks only if those of a whole tile fit. Few bricks slow some volumes and speed up
/// others:
///
/// | picture | bricks a thread | time |
/// |---|---|---|
/// | 1024^3 bytes, 800 x 450, two threads, within 32 MiB | 0 | 4.0 s |
/// | | 20 | 6.4 s |
/// | a view of a body whose rays end early, in 68 MB | 0 | 0.7 to 0.9 s |
/// | | 40 | 0.3 to 0.6 s |
const LITTLE: u64 = 48 << 20;
/// Bytes of a thread without bricks.
const WITHOUT: u64 = 512 << 10;

/// Divisor: the share of the limit for bricks kept for several pictures, if pages leave so much.
const SHARE_FOR_MORE: u64 = 4;
/// Divisor: several pictures share bricks only if the ledger's use is at most this share at first.
const ROOMY: u64 = 2;

/// State shared by successive pictures of a volume, charged to their pager's ledger.
#[derive(Default)]
pub struct SharedBricks {
    idle: Mutex<Option<ThreadCaches>>,
    /// Rounds through the tiles.
    rounds: AtomicU64,
}

impl std::fmt::Debug for SharedBricks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedBricks").finish_non_exhaustive()
    }
}

/// The caches of all threads of one picture.
pub(super) struct ThreadCaches {
    rooms: Rooms,
    threads: Vec<Mutex<Option<rays::BrickCache>>>,
    /// The pager's evictions when these were made or grew.
    evictions: u64,
    bytes: u64,
    _charge: Charge,
}

/// The threads of a picture and the room of each.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct CastThreads {
    pub(super) threads: usize,
    rooms: Rooms,
}

impl CastThreads {
    /// At most `workers` threads beside a picture of `picture` bytes. Each has room for a few bricks, so there are
    /// fewer threads in little memory. Without bricks eight threads cast 256^3 bytes at 800 x 450 within 24 MiB in 52
    /// s; one with bricks takes 0.7 s.
    pub(super) fn of(limit: u64, picture: u64, scene: &Scene, workers: usize) -> Self {
        let room = (limit - limit / 16).saturating_sub(picture) / SHARE_OF_LITTLE;
        let needs = |bricks| scene.room_for(bricks).map_or(WITHOUT, |n| n as u64);
        let threads = (workers as u64).min((room / needs(0)).max(1));
        let usual = limit / SHARE / threads;
        // Equal for all views of a volume, so that the next view finds the bricks: 2 MiB for values of one byte.
        let some = 2 * needs(0);
        let each = usual.max((room / threads).min(some));
        let needed = needs(scene.bricks_of_a_tile().min(MOST_NEEDED));
        let bricks = each >= if limit < LITTLE { needed } else { needs(0) };
        let bytes = if bricks { each } else { usual }.min(MOST);
        let rooms = Rooms { bytes: bytes as usize, for_more: false, bricks };
        Self { threads: threads as usize, rooms }
    }
}

impl ThreadCaches {
    /// The caches of `few` threads. The error is the number of missing bytes.
    pub(super) fn new(pager: &Pager, scene: &Scene, few: CastThreads) -> Result<Self, u64> {
        let with = |rooms| Self::with(pager, scene, rooms, (0..few.threads).map(|_| Mutex::default()).collect());
        // Another use may hold the memory that a picture leaves.
        with(few.rooms).or_else(|_| with(Rooms { bytes: few.rooms.bytes / 8, bricks: false, ..few.rooms }))
    }

    fn with(
        pager: &Pager,
        scene: &Scene,
        rooms: Rooms,
        threads: Vec<Mutex<Option<rays::BrickCache>>>,
    ) -> Result<Self, u64> {
        let bytes = Self::bytes(scene, rooms, threads.len());
        let charge = pager.charge(ChargeKind::Tables, bytes).map_err(|_| bytes)?;
        Ok(Self { rooms, threads, evictions: pager.evictions(), bytes, _charge: charge })
    }

    fn bytes(scene: &Scene, rooms: Rooms, workers: usize) -> u64 {
        (scene.context_bytes(rooms) * workers) as u64
    }

    /// A thread's context. When it is dropped, its reusable part returns to this cache.
    pub(super) fn context<'a>(&'a self, thread: usize, scene: &'a Arc<Scene>, worker: pager::Worker) -> Lent<'a> {
        let home = &self.threads[thread % self.threads.len()];
        let kept = home.lock().unwrap_or_else(PoisonError::into_inner).take();
        Lent { context: Some(scene.context(worker, self.rooms, kept)), scene, home }
    }

    /// Whether the bricks serve a scene that is seen from another place.
    fn is_seen_again(&self, scene: &Scene) -> bool {
        let of = |home: &Mutex<Option<rays::BrickCache>>| {
            let kept = home.lock().unwrap_or_else(PoisonError::into_inner);
            kept.as_ref().is_some_and(|kept| kept.serves(scene) && kept.is_elsewhere(scene))
        };
        self.threads.iter().any(of)
    }
}

/// A thread's context for one picture.
pub(super) struct Lent<'a> {
    context: Option<Context>,
    scene: &'a Arc<Scene>,
    home: &'a Mutex<Option<rays::BrickCache>>,
}

impl Lent<'_> {
    pub(super) fn context(&mut self) -> &mut Context {
        // Only `drop` takes the context out.
        self.context.as_mut().unwrap_or_else(|| unreachable!("a context that is gone"))
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let kept = self.context.take().and_then(|context| context.keep(self.scene));
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }
}

impl SharedBricks {
    /// The caches of a picture, with bricks kept for it. The error is the number of missing bytes.
    pub(super) fn take(&self, pager: &Pager, scene: &Scene, few: CastThreads) -> Result<ThreadCaches, u64> {
        let workers = few.threads;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(own) = idle.filter(|own| own.threads.len() == workers) else {
            return ThreadCaches::new(pager, scene, few);
        };
        let limit = pager.ledger().limit();
        let squeezed = pager.evictions() > own.evictions;
        let roomy = own.rooms.for_more || own.is_seen_again(scene) && pager.ledger().used() <= limit / ROOMY;
        let rooms = if roomy && !squeezed {
            Rooms { bytes: (limit / SHARE_FOR_MORE / workers as u64) as usize, for_more: true, bricks: true }
        } else {
            few.rooms
        };
        if own.rooms == rooms && own.bytes == ThreadCaches::bytes(scene, rooms, workers) {
            return Ok(own);
        }
        // Bricks stay only if their room grows. Otherwise the new charge might not cover them.
        let grows = rooms.for_more && !own.rooms.for_more;
        let ThreadCaches { mut threads, _charge: charge, .. } = own;
        if !grows {
            threads.iter_mut().for_each(|home| *home = Mutex::default());
        }
        drop(charge);
        ThreadCaches::with(pager, scene, rooms, threads).or_else(|_| ThreadCaches::new(pager, scene, few))
    }

    /// Keeps the caches for the next picture.
    pub(super) fn put(&self, own: ThreadCaches) {
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
    }

    /// Drops idle caches that are too large under a limit, which may be lower than before.
    pub(super) fn heed(&self, limit: u64) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.as_ref().is_some_and(|own| own.bytes > limit / SHARE_FOR_MORE) {
            *idle = None;
        }
    }

    /// Whether tiles go backwards in this round; rounds alternate, forwards first. If not all pages fit, the last ones
    /// used are still resident.
    pub(super) fn is_backwards(&self) -> bool {
        self.rounds.fetch_add(1, Relaxed) % 2 == 1
    }
}
