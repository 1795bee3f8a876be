//! The base of every run: an open dataset with its pager, memory for computed data, and the executor of restartable
//! tasks.
//!
//! # Theory
//! A step of a task finds its pages resident, or returns the absent ones and changes nothing. So any thread can
//! continue any task after its pages have arrived, and other tasks compute meanwhile ([`executor`]). One limit binds
//! all memory of a run: pages, states of tasks, and results that wait. The largest need of a step is known before the
//! step ([`limits`]).
//!
//! # Practice
//! [`session::Session`] opens a flow or a volume, and [`session::Session::stats`] gives the numbers of a run.
//! [`executor::run`] runs any [`executor::Work`]. Single-threaded work that waits for pages, as probes do, uses
//! [`blocking`].

#[cfg(target_os = "linux")]
pub mod allocator;
pub mod blocking;
pub mod derived;
pub mod events;
pub mod executor;
mod flow_source;
pub mod gridface;
pub mod gridkind;
pub mod info;
pub mod last_use;
pub mod ledger_share;
pub mod limits;
pub mod next_window;
pub mod options;
pub mod process;
pub mod selected_fields;
pub mod session;
pub mod stats;
pub mod survey;
pub mod validate;
pub mod values;
pub mod volume;
pub mod walls;
pub mod whole_dataset;
