//! Runs many restartable tasks on a few threads. A step that finds pages absent parks its task, and the thread
//! continues with another.
//!
//! # Theory
//! A task has a number, and its result depends on nothing else. So it may be dropped at any time and begin again later.
//! Its states:
//!
//! 1. *Admitted*: a thread makes its state ([`Work::admit`]), which is charged. Memory bounds the number of active
//!    tasks ([`RunLoad::active`], [`Budgeted::resized`]).
//! 2. *Stepped*: a thread has one task in each of its [`LANES`](field::locator::LANES), and steps them together
//!    ([`Work::steps`]). They share instructions, and cache lines of one arrive while another computes.
//! 3. *Parked*: a step that found pages absent has changed nothing. The task waits under a token, without pins, and its
//!    pages are requested. A wake makes it ready.
//! 4. *Ready*: it waits for a thread. In a run through time, tasks of the earliest [window](Windowed::window) go first.
//! 5. *Packed*: in another window it waits for its turn, in a record of a few bytes if its kind allows
//!    ([`Windowed::put_away`]).
//! 6. *Finished*: its result is handed over ([`Work::finish`]), and its memory is free.
//! 7. *Dropped*: its state finds no memory, or a lower limit has no room for it. It begins again when fewer are active.
//!
//! Every task ends:
//!
//! 1. One task at a time is the *elder*: its step was restarted three times for pages that had been evicted again. Its
//!    pages are held until the step succeeds, from a reserve that is checked before the run.
//! 2. When nothing moves (no task is ready, no page is on its way, memory is full), tasks are dropped, in the end all.
//!    If a single task, begun again with all the memory, does not move either, the run ends with the memory that it
//!    needs.
//!
//! # Practice
//! [`run()`] takes any [`Work`] that implements [`Windowed`] and [`Budgeted`]. Both implementations may be empty. The
//! modules, innermost first:
//!
//! | module | work |
//! |---|---|
//! | `scheduler` | which task is next, which wait, how many are active; no lock, thread or clock |
//! | `body`, `records` | the executor's part of a task; the bytes of packed tasks |
//! | `shared` | the scheduler and the records under the run's one lock, and counts |
//! | `thread` | the loop of a thread |
//! | `memory`, `packing` | memory for a thread's tasks; how it packs them |
//! | `thread_cache` | records and charges that it keeps for its next tasks |
//! | `read_ahead`, `task_events` | its prefetches; its events for observers |
//! | `run` | starts the threads, and waits for the last |

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
