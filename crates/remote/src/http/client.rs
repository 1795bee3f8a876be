//! The HTTP client of a place: its connections, and the seam by which object_store sends its signed requests on them.

use super::fault::chain;
use crate::options::NetworkOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::ClientOptions;
use pager::error::PageErrorKind;
use reqwest::header::HeaderMap;
use reqwest::StatusCode;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::CertificateDer;
use rustls_platform_verifier::{BuilderVerifierExt, Verifier};
use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

/// Time after which an unused connection is closed. Servers close theirs after 5 to 75 seconds.
const IDLE: Duration = Duration::from_secs(20);
/// More redirects are a loop.
const MOST_REDIRECTS: usize = 10;

/// TLS for all places: reading the system's certificates takes some 20 ms. `SSL_CERT_FILE` and `SSL_CERT_DIR` take their
/// place.
fn tls() -> Result<rustls::ClientConfig, PageErrorKind> {
    static TLS: OnceLock<Result<rustls::ClientConfig, String>> = OnceLock::new();
    let made = TLS.get_or_init(|| {
        let verified = tls_builder().and_then(|versions| versions.with_platform_verifier());
        Ok(verified.map_err(|e| e.to_string())?.with_no_client_auth())
    });
    made.clone().map_err(no_tls)
}

/// The same for a place whose clients have certificates of authorities in a file (`AWS_CA_BUNDLE`), beside the system's.
fn tls_with(authorities: &OsStr) -> Result<rustls::ClientConfig, PageErrorKind> {
    let unread = |e: rustls::pki_types::pem::Error| no_tls(format!("{}: {e}", authorities.display()));
    let roots = CertificateDer::pem_file_iter(authorities).map_err(unread)?;
    let roots: Vec<CertificateDer<'static>> = roots.collect::<Result<_, _>>().map_err(unread)?;
    if roots.is_empty() {
        return Err(no_tls(format!("{}: it holds no certificate", authorities.display())));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new_with_extra_roots(roots, provider).map_err(|e| no_tls(e.to_string()))?;
    let versions = tls_builder().map_err(|e| no_tls(e.to_string()))?;
    Ok(versions.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

fn tls_builder() -> Result<rustls::ConfigBuilder<rustls::ClientConfig, rustls::WantsVerifier>, rustls::Error> {
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions()
}

fn no_tls(why: impl std::fmt::Display) -> PageErrorKind {
    PageErrorKind::Io(format!("TLS cannot be set up: {why}"))
}

fn new_client(options: &NetworkOptions, authorities: Option<&OsStr>) -> Result<reqwest::Client, PageErrorKind> {
    // A connection that was secure stays so. The request is not sent again without it.
    let redirects = reqwest::redirect::Policy::custom(|attempt| {
        let secure = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
        if attempt.previous().len() > MOST_REDIRECTS {
            attempt.error("it redirects in a loop")
        } else if secure && attempt.url().scheme() != "https" {
            attempt.error("it redirects to an address without TLS")
        } else {
            attempt.follow()
        }
    });
    let builder = reqwest::Client::builder()
        .user_agent(concat!("farfield/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(authorities.map_or_else(tls, tls_with)?)
        .http1_only()
        .referer(false)
        .redirect(redirects)
        .connect_timeout(options.connect)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(options.connections)
        .tcp_nodelay(true);
    builder.build().map_err(|e| PageErrorKind::Io(format!("no connections can be made: {}", chain(&e))))
}

/// The connections of a place.
pub(super) struct Connections {
    options: NetworkOptions,
    /// A file with certificates of authorities, beside the system's.
    authorities: Option<OsString>,
    now: RwLock<(u64, Option<reqwest::Client>)>,
}

impl Connections {
    pub(super) fn new(options: &NetworkOptions, authorities: Option<OsString>) -> Self {
        Self { options: options.clone(), authorities, now: RwLock::default() }
    }

    /// The client and its number.
    ///
    /// # Errors
    /// [`PageErrorKind::Io`] if TLS cannot be set up.
    pub(super) fn client(&self) -> Result<(u64, reqwest::Client), PageErrorKind> {
        if let (number, Some(client)) = &*self.now.read().unwrap_or_else(PoisonError::into_inner) {
            return Ok((*number, client.clone()));
        }
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        let client = match &now.1 {
            Some(client) => client.clone(),
            None => new_client(&self.options, self.authorities.as_deref())?,
        };
        now.1 = Some(client.clone());
        Ok((now.0, client))
    }

    /// Leaves the connections of a client behind. After a sleep of the computer or a change of its address all of them
    /// are silent, and each would cost a deadline.
    pub(super) fn leave(&self, number: u64) {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        if now.0 == number {
            *now = (number + 1, None);
        }
    }
}

/// What the head of a reply says beside a list, which object_store reads itself.
#[derive(Clone, Default)]
pub(super) struct HeadNote(Arc<OnceLock<(StatusCode, HeaderMap)>>);

impl HeadNote {
    /// Status and headers; `None` if there was no reply.
    pub(super) fn get(&self) -> Option<&(StatusCode, HeaderMap)> {
        self.0.get()
    }
}

/// Takes the reply of a request out of object_store, which signs it and knows its address. Replies are checked here, in
/// the same way for all places.
#[derive(Clone, Default)]
pub(super) struct Slot(Arc<Mutex<Option<Sent>>>);

/// The end of a request.
type Sent = Result<reqwest::Response, reqwest::Error>;

impl Slot {
    fn put(&self, sent: Sent) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sent);
    }

    /// The reply, once.
    pub(super) fn take(&self) -> Option<Sent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the reply is in its slot")]
struct InSlot;

/// Sends requests of object_store on the connections of a place.
#[derive(Clone)]
pub(super) struct Carrier(pub Arc<Connections>);

impl std::fmt::Debug for Carrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Carrier")
    }
}

impl HttpConnector for Carrier {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

impl Carrier {
    async fn carry(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (_, client) = self.0.client().map_err(|e| HttpError::new(HttpErrorKind::Unknown, e))?;
        let Some(slot) = request.extensions().get::<Slot>().cloned() else {
            let note = request.extensions().get::<HeadNote>().cloned();
            let reply = client.call(request).await?;
            if let Some(note) = note {
                note.0.get_or_init(|| (reply.status(), reply.headers().clone()));
            }
            return Ok(reply);
        };
        let url = request.uri().to_string().parse();
        let url = url.map_err(|e: url::ParseError| HttpError::new(HttpErrorKind::Unknown, e))?;
        let mut sent = reqwest::Request::new(request.method().clone(), url);
        *sent.headers_mut() = request.headers().clone();
        slot.put(client.execute(sent).await);
        Err(HttpError::new(HttpErrorKind::Unknown, InSlot))
    }
}

impl HttpService for Carrier {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(self.carry(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_come_from_a_file() {
        let file = std::env::temp_dir().join(format!("farfield-authorities-{}.pem", std::process::id()));
        let refused = |why: &str| {
            let Err(PageErrorKind::Io(message)) = tls_with(file.as_os_str()).map(drop) else { panic!("{why}") };
            assert!(message.contains("farfield-authorities") && message.contains("TLS"), "{message}");
        };
        refused("it is not there");
        std::fs::write(&file, "no certificate").unwrap();
        refused("it holds none");
        let made = rcgen::generate_simple_self_signed(vec!["host".into()]).unwrap();
        std::fs::write(&file, made.cert.pem()).unwrap();
        assert!(tls_with(file.as_os_str()).is_ok());
        std::fs::remove_file(file).unwrap();
    }
}
