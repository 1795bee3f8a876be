//! What every run stands on: an open dataset with its pager, memory for what is computed, and the executor of restartable tasks.
//!
//! # Theory
//! A step of a task finds its pages present or says which are absent; it changes nothing where one is. So any thread may take any task up
//! again once its pages have come, and computing goes on while pages are read ([`executor`]). A limit binds all that a run holds: pages,
//! states of tasks, results that wait. What a step may need at most is known before it ([`limits`]).
//!
//! # Practice
//! [`session::Session`] opens a flow or a volume; [`session::Session::stats`] says what runs took. [`executor::run`] takes any [`executor::Work`].

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
