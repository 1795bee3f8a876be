//! The network thread. All connections of the process live on it, so that their memory and their processor time are
//! those of one thread. It starts at the first use and never ends.

use std::future::Future;
use std::sync::mpsc::sync_channel;
use std::sync::OnceLock;
use tokio::runtime::{Builder, Handle};

/// The thread's stack. Tasks live on the heap; TLS handshakes are the deepest calls.
const STACK_BYTES: usize = 1 << 20;

/// Threads that wait for addresses of names.
const RESOLVERS: usize = 4;

static HANDLE: OnceLock<Option<Handle>> = OnceLock::new();

static ON_START: OnceLock<fn()> = OnceLock::new();

/// Sets what the network thread calls when it starts. Later calls change nothing.
pub fn on_start(call: fn()) {
    let _first = ON_START.set(call);
}

/// The runtime of the network thread; `None` if the system refuses a thread or an epoll.
pub fn handle() -> Option<&'static Handle> {
    HANDLE.get_or_init(start).as_ref()
}

fn start() -> Option<Handle> {
    // Fails only if the process has another provider already, which then serves.
    let _other = rustls::crypto::ring::default_provider().install_default();
    let runtime =
        Builder::new_current_thread().enable_io().enable_time().max_blocking_threads(RESOLVERS).build().ok()?;
    let handle = runtime.handle().clone();
    let thread = std::thread::Builder::new().name("farfield-net".into()).stack_size(STACK_BYTES);
    let run = move || {
        if let Some(call) = ON_START.get() {
            call();
        }
        runtime.block_on(std::future::pending::<()>());
    };
    thread.spawn(run).ok().map(|_| handle)
}

/// Starts a future on the network thread. Without one the future is dropped, and its `Drop` must answer.
pub fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    if let Some(handle) = handle() {
        handle.spawn(future);
    }
}

/// Runs a future on the network thread and waits for it. Never called on that thread. `None`: there is no such thread,
/// or the future panicked.
pub fn wait<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let (tell, told) = sync_channel(1);
    spawn(async move {
        // The receiver waits below.
        let _gone = tell.send(future.await);
    });
    told.recv().ok()
}
