//! What a request says and gets: how urgent it is, the answer, and the call when it is settled.

/// The urgency of a request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Someone waits.
    Demand,
    /// It will be used soon. Read only when nobody waits for anything, and only into memory that nobody uses; dropped
    /// (and the wake called) when there is none.
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

/// The call when a request is settled. It comes without any lock of the pager, from whichever thread settled the last page:
/// from [`Pager::work`](crate::Pager::work), or, if a page failed, also from a reader's thread, or within [`Pager::request`](crate::Pager::request) itself.
pub trait Wake: Send + Sync {
    /// `token` is the request's.
    fn wake(&self, token: u64);
}
