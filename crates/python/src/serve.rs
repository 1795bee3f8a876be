//! The page server, and what a client knows of servers.

use field::error::FieldError;
use pager::PageErrorKind;
use pyo3::prelude::*;
use python_calls::to_python;
use remote::disk_cache::{self, DiskCache, DiskCacheOptions};
use remote::measure::{timed_reads, ReadLoad};
use remote::page_server::client::{set_credentials, Credentials, RemotePlace};
use remote::page_server::secure::{Certificate, Fingerprint, Token, TokenHash, Trust};
use remote::page_server::server::{OriginOptions, Server, ServerError, ServerOptions};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The options of a server, as Python gives them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServeDocument {
    names: Vec<(String, PathBuf)>,
    listen: String,
    /// Folder that keeps a certificate made here.
    state: Option<PathBuf>,
    /// Names of this machine in that certificate.
    hosts: Vec<String>,
    /// PEM files of a certificate and its key.
    certificate: Option<(PathBuf, PathBuf)>,
    /// Name and hash of each token.
    tokens: Vec<(String, String)>,
    /// Folder and most bytes of staged data, and the hashes of tokens that may stage.
    staging: Option<(PathBuf, u64)>,
    #[serde(default)]
    stagers: Vec<String>,
    rate: Option<u64>,
    rate_per_client: Option<u64>,
    memory_limit: usize,
    max_connections: usize,
    /// Bytes of memory for what comes from addresses, and whether local files are kept there, too.
    cache: u64,
    cache_local: bool,
    /// A folder for the same, and its most bytes.
    cache_disk: Option<(PathBuf, u64)>,
}

fn refused(py: Python<'_>, e: ServerError) -> PyErr {
    to_python(
        py,
        match e {
            ServerError::Insecure(m) | ServerError::Options(m) => FieldError::Usage(m),
            ServerError::Certificate(e) => FieldError::Usage(e.to_string()),
            ServerError::Io { what, error } => FieldError::io(what, error),
        },
    )
}

fn hashes(tokens: Vec<(String, String)>) -> Result<Vec<(String, TokenHash)>, FieldError> {
    let parse = |(name, text): (String, String)| match TokenHash::parse(&text) {
        Some(hash) => Ok((name, hash)),
        None => Err(FieldError::Usage(format!("the hash of the token '{name}' is not 64 hexadecimal digits"))),
    };
    tokens.into_iter().map(parse).collect()
}

fn stager_hashes(hashes: &[String]) -> Result<Vec<TokenHash>, FieldError> {
    let wrong = || FieldError::Usage("the hash of a token that may stage is not 64 hexadecimal digits".into());
    hashes.iter().map(|text| TokenHash::parse(text).ok_or_else(wrong)).collect()
}

/// A running page server.
#[pyclass(frozen, module = "farfield._native")]
pub struct PageServer {
    server: Server,
    fingerprint: Option<String>,
}

#[pymethods]
impl PageServer {
    #[new]
    fn new(py: Python<'_>, options: &str) -> PyResult<Self> {
        let wrong = |m: String| to_python(py, FieldError::Usage(m));
        let options: ServeDocument = serde_json::from_str(options).map_err(|e| wrong(format!("options: {e}")))?;
        let certificate = match (&options.certificate, &options.state) {
            (Some((chain, key)), _) => Some(Certificate::from_pem(chain, key)),
            (None, Some(folder)) => Some(Certificate::kept(folder, &options.hosts)),
            (None, None) => None,
        };
        let certificate = certificate.transpose().map_err(|e| wrong(e.to_string()))?;
        let fingerprint = certificate.as_ref().map(|c| c.fingerprint().to_string());
        let tokens = hashes(options.tokens).map_err(|e| to_python(py, e))?;
        let stagers = stager_hashes(&options.stagers).map_err(|e| to_python(py, e))?;
        let options = ServerOptions {
            names: options.names,
            listen: options.listen,
            certificate,
            tokens,
            staging: options.staging,
            stagers,
            rate: options.rate,
            rate_per_client: options.rate_per_client,
            memory_limit: options.memory_limit,
            max_connections: options.max_connections,
            origins: OriginOptions {
                cache: options.cache,
                cache_local: options.cache_local,
                cache_disk: options.cache_disk,
                ..OriginOptions::default()
            },
            ..ServerOptions::default()
        };
        let started = py.detach(|| Server::start(options));
        Ok(Self { server: started.map_err(|e| refused(py, e))?, fingerprint })
    }

    /// Address and port.
    #[getter]
    fn address(&self) -> String {
        self.server.address().to_string()
    }

    /// SHA-256 of the certificate; None without TLS.
    #[getter]
    fn fingerprint(&self) -> Option<String> {
        self.fingerprint.clone()
    }

    /// Clients, rates, memory, as JSON.
    fn status(&self) -> String {
        self.server.status().to_string()
    }

    /// The same for Prometheus.
    fn metrics(&self) -> String {
        self.server.prometheus()
    }

    /// What the disk cache before the origins has to say, once.
    fn take_notice(&self) -> Option<String> {
        self.server.take_notice()
    }

    /// Replaces the tokens: names and hashes, and the hashes of those that may stage.
    fn set_tokens(&self, py: Python<'_>, tokens: Vec<(String, String)>, stagers: Vec<String>) -> PyResult<()> {
        let stagers = stager_hashes(&stagers).map_err(|e| to_python(py, e))?;
        self.server.set_tokens(hashes(tokens).map_err(|e| to_python(py, e))?);
        self.server.set_stagers(stagers);
        Ok(())
    }

    /// Stops; replies under way are finished.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.server.stop());
    }
}

/// A new token: its digits, and the hash that a server keeps.
#[pyfunction]
pub fn new_token(py: Python<'_>) -> PyResult<(String, String)> {
    let token = Token::fresh().map_err(|m| to_python(py, FieldError::System(m)))?;
    Ok((token.secret(), token.hash().digits()))
}

/// Sets the token for a server (`host:port`), and the fingerprint of its certificate.
#[pyfunction]
#[pyo3(signature = (server, token, pin))]
pub fn set_server_credentials(py: Python<'_>, server: &str, token: Option<&str>, pin: Option<&str>) -> PyResult<()> {
    // The texts stay out of messages.
    let wrong = |what: &str| {
        let message = format!("the {what} for {server} is not 64 hexadecimal digits");
        to_python(py, FieldError::Usage(message))
    };
    let token = token.map(|text| Token::parse(text).ok_or_else(|| wrong("token"))).transpose()?;
    let pin = pin.map(|text| Fingerprint::parse(text).ok_or_else(|| wrong("fingerprint"))).transpose()?;
    set_credentials(server, Credentials { token, trust: pin.map(Trust::Pinned) });
    Ok(())
}

/// Puts a disk cache before all servers that are used from now on; without bytes there is none.
#[pyfunction]
pub fn set_disk_cache(py: Python<'_>, folder: &str, bytes: u64, offline: bool) {
    py.detach(|| {
        if let Some(before) = remote::disk_cache() {
            // What it has not written yet is there for the next one.
            before.flush(Duration::from_secs(1));
            remote::set_disk_cache(None, false);
        }
        let cache = DiskCache::open(Path::new(folder), DiskCacheOptions { bytes, ..DiskCacheOptions::default() });
        remote::set_disk_cache((bytes > 0 || offline).then_some(cache), offline);
    });
}

/// Writes what the disk cache has not written yet, for at most a second.
#[pyfunction]
pub fn flush_disk_cache(py: Python<'_>) {
    py.detach(|| {
        if let Some(cache) = remote::disk_cache() {
            cache.flush(Duration::from_secs(1));
        }
    });
}

/// What the disk cache has to say, once.
#[pyfunction]
pub fn disk_cache_notice() -> Option<String> {
    remote::disk_cache().and_then(|cache| cache.take_notice())
}

/// Bytes and records of a disk cache.
#[pyfunction]
pub fn disk_cache_info(py: Python<'_>, folder: &str) -> PyResult<(u64, u64)> {
    let found = py.detach(|| disk_cache::info(Path::new(folder)));
    let found = found.map_err(|e| to_python(py, FieldError::io(folder, e)))?;
    Ok((found.bytes, found.records))
}

/// Clears a disk cache. Returns the bytes that were freed.
#[pyfunction]
pub fn disk_cache_clear(py: Python<'_>, folder: &str) -> PyResult<u64> {
    let cleared = py.detach(|| disk_cache::clear(Path::new(folder)));
    cleared.map(|found| found.bytes).map_err(|e| to_python(py, FieldError::io(folder, e)))
}

/// Sets the folder at a server for which `ssh://` and what follows stands.
#[pyfunction]
pub fn set_alias(py: Python<'_>, name: &str, target: &str) -> PyResult<()> {
    let failed = |kind: PageErrorKind| to_python(py, FieldError::io(name, kind.into_io()));
    remote::alias::set_alias(name, target).map_err(failed)
}

/// The counts of a page server, as JSON.
#[pyfunction]
pub fn server_status(py: Python<'_>, url: &str) -> PyResult<String> {
    let failed = |kind: PageErrorKind| to_python(py, FieldError::io(url, kind.into_io()));
    let status = py.detach(|| RemotePlace::of(url)?.stats());
    status.map(|status| status.to_string()).map_err(failed)
}

/// Durations of reads of a remote file in seconds, the duration of all, and bytes.
#[pyfunction]
pub fn time_reads(
    py: Python<'_>,
    path: &str,
    bytes: usize,
    count: usize,
    depth: usize,
    most_s: f64,
) -> PyResult<(Vec<f64>, f64, u64)> {
    let load = ReadLoad { bytes, count, depth, most: Duration::try_from_secs_f64(most_s).unwrap_or(Duration::MAX) };
    match py.detach(|| timed_reads(Path::new(path), load)) {
        Ok(timed) => Ok((timed.seconds, timed.wall_s, timed.bytes)),
        Err(kind) => Err(to_python(py, FieldError::io(path, kind.into_io()))),
    }
}
