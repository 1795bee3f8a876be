//! What is kept from one picture of a volume to the next: the bricks of each thread, and which way tiles went.

use kernels::rays::{self, Context, Rooms, Scene};
use pager::{Charge, ChargeKind, Pager};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Maps of blocks and bricks take up to this share of the limit, all threads together, and at most so much a thread.
const SHARE: u64 = 32;
const MOST: u64 = 64 << 20;
/// But up to this share of what a picture leaves of it, if each thread needs that for some bricks: with a thirty-second of 65 MiB there were
/// none, and pictures took half as long again.
const SHARE_OF_LITTLE: u64 = 8;
/// Nobody is refused bricks who has room for so many, whatever a tile may need: what is said of that is a guess.
const MOST_NEEDED: usize = 128;
/// Below this limit there are bricks only if there are as many as a tile may need: 1024^3 bytes at 800 x 450, two threads of 20 bricks each
/// in the place of none, took 6.4 s in the place of 4.0 within 32 MiB. Above it, rays that end early gain by few, too: a body in 68 MB
/// 0.7 to 0.9 s a view without, and 0.3 to 0.6 with 40.
const LITTLE: u64 = 48 << 20;
/// What a thread has where there are no bricks.
const WITHOUT: u64 = 512 << 10;

/// With this share of the limit bricks are kept for more pictures than one, where pages leave so much.
const SHARE_FOR_MORE: u64 = 4;
/// And only where pages take less than this share when they begin to be.
const ROOMY: u64 = 2;

/// Pictures of a volume may be cast one after the other; what they keep for each other is charged to the ledger of their pager.
#[derive(Default)]
pub struct KeptBricks {
    idle: Mutex<Option<ThreadCaches>>,
    /// Times that tiles were gone through.
    rounds: AtomicU64,
}

impl std::fmt::Debug for KeptBricks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptBricks").finish_non_exhaustive()
    }
}

/// What the threads of one picture have for themselves.
pub(super) struct ThreadCaches {
    rooms: Rooms,
    threads: Vec<Mutex<Option<rays::BrickCache>>>,
    /// Of the pager, when these were made or grew.
    evictions: u64,
    bytes: u64,
    _charge: Charge,
}

/// By how many threads a picture is cast, and what each has.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct CastThreads {
    pub(super) threads: usize,
    rooms: Rooms,
}

impl CastThreads {
    /// Of so many that there are, for a picture that takes so many bytes itself. Each has room for a few bricks at least, so that where memory is
    /// little there are fewer: without bricks eight threads cast 256^3 bytes at 800 x 450 within 24 MiB in 52 s, where one with bricks
    /// takes 0.7.
    pub(super) fn of(limit: u64, picture: u64, scene: &Scene, workers: usize) -> Self {
        let room = (limit - limit / 16).saturating_sub(picture) / SHARE_OF_LITTLE;
        let needs = |bricks| scene.room_for(bricks).map_or(WITHOUT, |n| n as u64);
        let threads = (workers as u64).min((room / needs(0)).max(1));
        let usual = limit / SHARE / threads;
        // The same for all views of a volume, so that bricks of one are kept for the next: 2 MiB of one of bytes.
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
    /// For a picture by so many threads; the bytes that there is no room for.
    pub(super) fn new(pager: &Pager, scene: &Scene, few: CastThreads) -> Result<Self, u64> {
        let with = |rooms| Self::with(pager, scene, rooms, (0..few.threads).map(|_| Mutex::default()).collect());
        // What a picture leaves may be held for something else.
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

    /// A thread's context. When it is dropped, what can be of use to the next is here again.
    pub(super) fn context<'a>(&'a self, thread: usize, scene: &'a Arc<Scene>, worker: pager::Worker) -> Lent<'a> {
        let home = &self.threads[thread % self.threads.len()];
        let kept = home.lock().unwrap_or_else(PoisonError::into_inner).take();
        Lent { context: Some(scene.context(worker, self.rooms, kept)), scene, home }
    }

    /// Whether bricks are there that a scene has, seen from elsewhere.
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
        // It is taken when this is dropped, and not before.
        self.context.as_mut().unwrap_or_else(|| unreachable!("a context that is gone"))
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let kept = self.context.take().and_then(|context| context.keep(self.scene));
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }
}

impl KeptBricks {
    /// What the threads of a picture have, with what was kept for it; the bytes that there is no room for.
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
        // Only what becomes more is taken over: of all else the bytes are not charged any more.
        let grows = rooms.for_more && !own.rooms.for_more;
        let ThreadCaches { mut threads, _charge: charge, .. } = own;
        if !grows {
            threads.iter_mut().for_each(|home| *home = Mutex::default());
        }
        drop(charge);
        ThreadCaches::with(pager, scene, rooms, threads).or_else(|_| ThreadCaches::new(pager, scene, few))
    }

    /// Takes back what the next picture may use.
    pub(super) fn put(&self, own: ThreadCaches) {
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
    }

    /// Gives back what is kept where it is too much under a limit, which may have been lowered since.
    pub(super) fn heed(&self, limit: u64) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.as_ref().is_some_and(|own| own.bytes > limit / SHARE_FOR_MORE) {
            *idle = None;
        }
    }

    /// Which way tiles are gone through now, forwards first: where pages do not all fit, those that were come to last are still here.
    pub(super) fn is_backwards(&self) -> bool {
        self.rounds.fetch_add(1, Relaxed) % 2 == 1
    }
}
