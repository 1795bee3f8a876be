//! Runs many restartable tasks on a few threads: a step that finds pages absent parks its task under them, and the thread goes on with
//! another.
//!
//! # Theory
//! A task has a number, and its answer depends on nothing but this. So it may be dropped at any time and begun again later. It lives so:
//!
//! 1. *Admitted*: a thread makes its state ([`Work::admit`]), which is charged. How many are active follows from what fits
//!    ([`RunLoad::active`], [`Budgeted::resized`]).
//! 2. *Stepped*: a thread has one task in each of its [`LANES`](field::locator::LANES), and steps them together ([`Work::steps`]). The
//!    same instructions serve them all, and one's cache lines travel while another computes.
//! 3. *Parked*: a step that found pages absent has changed nothing. The task waits under a token, without pins, and its pages are asked
//!    for. A wake makes it ready.
//! 4. *Ready*: it waits for a thread. Of a run through time those of the earliest [window](Windowed::window) go first.
//! 5. *Packed*: in another window it waits for its turn, in a record of a few bytes where its kind allows ([`Windowed::put_away`]).
//! 6. *Finished*: its result is handed over ([`Work::finish`]), and its memory is free.
//! 7. *Dropped*: its state finds no memory, or a lower limit has no room for it. It begins again when fewer are active.
//!
//! Nothing starves:
//! 1. One task at a time is the *elder*: its step was restarted three times for pages that had gone again. These are held until the step
//!    succeeds, out of a reserve that is checked before the run.
//! 2. When nothing moves (no task is ready, no page is on its way, memory is full), tasks are dropped, at last all of them. The run ends
//!    with what it needs when a single task, begun again with all the memory to itself, does not move either.
//!
//! # Practice
//! [`run`] takes any [`Work`] that says whether it is [`Windowed`] and [`Budgeted`]; both traits may be left empty. The files, from the
//! inside out:
//!
//! - `scheduler`: which task is next, which wait, how many may be under way. No lock, thread or clock.
//! - `body`: what is kept of a task; `records`: the bytes of packed ones.
//! - `shared`: the scheduler and the records under the run's one lock, and counts.
//! - `thread`: the loop of a thread; `memory`: how it gets memory for its tasks; `packing`: how it packs them; `thread_cache`: what it
//!   keeps for the next; `read_ahead`: what it asks for ahead of its use; `task_events`: what it tells observers.
//! - `run`: starts the threads, and waits for the last.

mod body;
mod memory;
mod packing;
mod read_ahead;
mod records;
mod run;
mod scheduler;
mod shared;
mod task_events;
mod thread;
mod thread_cache;
mod work;

pub use read_ahead::Nobody;
pub use records::OF_RECORD;
pub use run::run;
pub use work::{Budgeted, Outcome, RunLoad, RunStats, Windowed, Work};
