//! Start and end of a server.

use super::super::secure::{Certificate, CertificateError, TokenHash};
use super::clients::Clients;
use super::counts::Counts;
use super::event_loop::{EventLoop, GRANT};
use super::files::FileTable;
use super::mailbox::{Mailbox, Post};
use super::memory_cache::MemoryWatch;
use super::names::Names;
use super::origin::{OriginOptions, Origins};
use super::readers::Readers;
use super::shared::{Patience, ServerShared};
use super::staging::StagingArea;
use super::status;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Threads that wait for disks.
const READERS: usize = 16;
/// Event loops: each serves some 3 GB/s, or 1 GB/s by TLS.
const MOST_LOOPS: usize = 4;
/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 1024;

/// Options of a server.
#[derive(Debug)]
pub struct ServerOptions {
    /// Names, and the folders, files or addresses that they stand for.
    pub names: Vec<(String, PathBuf)>,
    /// Address and port; port 0: a free one.
    pub listen: String,
    /// The certificate. Without one there is no TLS, and only this machine is served.
    pub certificate: Option<Certificate>,
    /// Names and hashes of the tokens that are taken. Beyond this machine there must be some.
    pub tokens: Vec<(String, TokenHash)>,
    /// Folder and most bytes of data that clients stage. Without it no client changes what is served.
    pub staging: Option<(PathBuf, u64)>,
    /// The tokens that may stage. Without any tokens, whoever comes may.
    pub stagers: Vec<TokenHash>,
    /// Most bytes a second, of all clients together.
    pub rate: Option<u64>,
    /// Most bytes a second of a client.
    pub rate_per_client: Option<u64>,
    /// Most bytes of buffers.
    pub memory_limit: usize,
    /// Most connections.
    pub max_connections: usize,
    /// Most connections of an address.
    pub max_connections_per_address: usize,
    /// Times after which connections are closed.
    pub patience: Patience,
    /// How what is read from addresses is kept.
    pub origins: OriginOptions,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            listen: format!("127.0.0.1:{}", super::super::wire::DEFAULT_PORT),
            certificate: None,
            tokens: Vec::new(),
            staging: None,
            stagers: Vec::new(),
            rate: None,
            rate_per_client: None,
            memory_limit: 256 << 20,
            max_connections: 1024,
            max_connections_per_address: 64,
            patience: Patience::default(),
            origins: OriginOptions::default(),
        }
    }
}

/// The reason why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The options would serve anyone.
    #[error("{0}")]
    Insecure(String),
    /// There is nothing to serve, or the memory is too small.
    #[error("{0}")]
    Options(String),
    /// The certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The system refuses.
    #[error("{what}: {error}")]
    Io {
        /// The step.
        what: String,
        /// The system's error.
        error: io::Error,
    },
}

/// A running server. Dropping it stops it.
pub struct Server {
    shared: Arc<ServerShared>,
    address: SocketAddr,
    threads: Mutex<Vec<JoinHandle<()>>>,
    watch: Mutex<Option<MemoryWatch>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Server").field(&self.address).finish()
    }
}

fn step<T>(what: impl Into<String>, result: io::Result<T>) -> Result<T, ServerError> {
    result.map_err(|error| ServerError::Io { what: what.into(), error })
}

impl Server {
    /// Starts.
    ///
    /// # Errors
    /// [`ServerError::Insecure`] if others could read without TLS and a token; else what a name, the address or the
    /// certificate lacks.
    pub fn start(options: ServerOptions) -> Result<Self, ServerError> {
        if options.names.is_empty() && options.staging.is_none() {
            return Err(ServerError::Options("there is nothing to serve: no name was given".into()));
        }
        let least = super::super::wire::MOST_READ;
        if options.memory_limit < least {
            return Err(ServerError::Options(format!("the memory limit is below the longest reply, {least} bytes")));
        }
        let address = step(&options.listen, options.listen.to_socket_addrs())?.next();
        let address = address.ok_or_else(|| ServerError::Options(format!("{} is no address", options.listen)))?;
        if !address.ip().is_loopback() {
            let lacks = match (&options.certificate, options.tokens.is_empty()) {
                (None, _) => Some("TLS, which needs a certificate"),
                (_, true) => Some("a token"),
                _ => None,
            };
            if let Some(lacks) = lacks {
                return Err(ServerError::Insecure(format!(
                    "{address} can be reached from other machines, so it needs {lacks}; or listen on 127.0.0.1"
                )));
            }
        }
        let tls = options.certificate.as_ref().map(Certificate::server_config).transpose()?;
        let (origins, local) = step("cannot serve", Origins::open(&options.names, &options.origins))?;
        let mut names = step("cannot serve", Names::open(&local))?;
        let staging = options.staging.as_ref().map(|(folder, limit)| {
            let taken = options.names.iter().map(|(name, _)| name.clone()).collect();
            StagingArea::open(folder, *limit, taken).map(Arc::new)
        });
        let staging = step("cannot keep staged data", staging.transpose())?;
        if let Some(staging) = &staging {
            names = names.with_staged(step("cannot serve staged data", staging.folder())?);
        }
        let watch = step("no thread", MemoryWatch::start(origins.cache().clone(), options.origins.host))?;
        let listener = step(format!("cannot listen on {address}"), listen(address))?;
        let address = step("the listening socket has no address", listener.local_addr())?;
        // A rate is shared fairly where one schedule sees all clients, and it is below what one loop can serve.
        let limited = options.rate.is_some() || options.rate_per_client.is_some();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let loops = if limited { 1 } else { cores.clamp(1, MOST_LOOPS) };
        let loops = loops.min(options.memory_limit / least).max(1);
        let mailboxes = step("no event descriptor", (0..loops).map(|_| Mailbox::new()).collect())?;
        let clients = Clients::new(options.tokens, options.max_connections, options.max_connections_per_address);
        clients.set_stagers(options.stagers);
        let shared = Arc::new(ServerShared {
            files: FileTable::new(names, origins),
            served: options.names.iter().map(|(name, _)| name.clone()).collect(),
            staging,
            clients,
            counts: Counts::new(),
            readers: Readers::new(READERS),
            tls,
            mailboxes,
            grants: (0..loops).map(|_| AtomicU32::new(GRANT.requests)).collect(),
            stopping: AtomicBool::new(false),
            patience: options.patience,
            memory_limit: options.memory_limit,
            rate: options.rate,
            rate_per_client: options.rate_per_client,
        });
        let mut listener = Some(listener);
        let server =
            Self { shared: shared.clone(), address, threads: Mutex::default(), watch: Mutex::new(Some(watch)) };
        for number in 0..loops {
            let event_loop = step("no event loop", EventLoop::new(shared.clone(), number, listener.take()))?;
            let thread = std::thread::Builder::new().name(format!("farfield-serve-{number}"));
            let thread = step("no thread", thread.spawn(move || event_loop.run()))?;
            server.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Clients, rates, hits, memory.
    pub fn status(&self) -> serde_json::Value {
        status::status(&self.shared)
    }

    /// The same for Prometheus.
    pub fn prometheus(&self) -> String {
        status::prometheus(&self.shared)
    }

    /// Flips a bit of each block of the memory cache. Returns how many there are.
    #[cfg(test)]
    pub(in super::super) fn damage_cache(&self) -> u64 {
        self.shared.files.origins().cache().damage()
    }

    /// What the disk cache before the origins has to say, once.
    pub fn take_notice(&self) -> Option<String> {
        self.shared.files.origins().take_notice()
    }

    /// Replaces the tokens. Clients whose token is gone are cut at their next request.
    pub fn set_tokens(&self, tokens: Vec<(String, TokenHash)>) {
        self.shared.clients.set_tokens(tokens);
    }

    /// Replaces the tokens that may stage, at once.
    pub fn set_stagers(&self, stagers: Vec<TokenHash>) {
        self.shared.clients.set_stagers(stagers);
    }

    /// Stops: no new connections or requests; replies under way are finished within [`Patience::ending`].
    pub fn stop(&self) {
        if !self.shared.stopping.swap(true, Relaxed) {
            self.shared.mailboxes.iter().for_each(|mailbox| mailbox.post(Post::Stop));
        }
        self.wait();
    }

    /// Waits for its end, which another thread's [`Self::stop`] brings.
    pub fn wait(&self) {
        // Who waits second waits for the first.
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // A panic there was reported already.
            let _panicked = thread.join();
        }
        if self.shared.stopping.load(Relaxed) {
            self.shared.readers.close();
            drop(self.watch.lock().unwrap_or_else(PoisonError::into_inner).take());
            self.shared.files.origins().end();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A server that restarts finds its port.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
