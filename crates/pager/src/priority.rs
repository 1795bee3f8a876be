//! The parts of a request: its urgency, the answer, and the call when it is settled.

/// The urgency of a request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Priority {
    /// A task waits.
    Demand,
    /// It will be used soon. Read only when no demand waits, and only into unused memory. Without such memory it is
    /// dropped, and the wake is called.
    Prefetch,
}

/// The answer to a request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Requested {
    /// Every page is resident or failed now. No wake comes.
    Ready,
    /// The wake is called once, when every page is settled.
    Pending,
}

/// The call when a request is settled. It comes without any lock of the pager, from the thread that settled the last
/// page. That is a call of [`Pager::work`](crate::Pager::work). For a failed page it may also be a reader's thread, or
/// [`Pager::request`](crate::Pager::request) itself.
pub trait Wake: Send + Sync {
    /// `token` is the request's.
    fn wake(&self, token: u64);
}
