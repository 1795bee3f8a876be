//! Making a connection: name, TCP, TLS, HELLO.

use super::super::wire::{seed, Credits, Hello, Op, Reply, Request, State, ALPN, DEFAULT_PORT, VERSION};
use super::address::{ServerAddress, PLAIN_SCHEME, SCHEME};
use super::credentials::Credentials;
use super::link::{error_of, ServerLink};
use super::options::ClientOptions;
use super::receive::{LinkError, Receiver};
use super::stream::Stream;
use pager::PageErrorKind;
use rustls::pki_types::ServerName;
use rustls::ClientConnection;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Instant;

/// The first bytes of an alert of TLS, which a server with TLS sends to a client without.
const ALERT: [u8; 2] = [0x15, 3];

/// Connects, and returns what the server grants.
pub(super) fn connect(
    link: &ServerLink,
    address: &ServerAddress,
    credentials: &Credentials,
    options: &ClientOptions,
) -> Result<(Arc<Stream>, Credits), LinkError> {
    let socket = reach(address, options)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(options.connect))?;
    socket.set_write_timeout(Some(options.connect))?;
    let trust = match (&credentials.trust, address.is_here()) {
        _ if address.plain => None,
        (None, true) => None,
        (trust, _) => Some(trust.clone().unwrap_or_default()),
    };
    let server = address.to_string();
    let unauthorized = |message: String| PageErrorKind::Unauthorized { server: server.clone(), message };
    let tls = match &trust {
        None => None,
        Some(trust) => {
            let config = trust.client_config().map_err(|e| LinkError::Refused(unauthorized(e)))?;
            let name = ServerName::try_from(address.host.clone());
            let name = name.map_err(|_| LinkError::Lost(format!("{:?} is no host name", address.host)))?;
            let tls = ClientConnection::new(config, name).map_err(|e| LinkError::Lost(e.to_string()))?;
            Some(agree(tls, &socket, &server)?)
        }
    };
    let with_tls = tls.is_some();
    let stream = Arc::new(Stream::new(socket, tls));
    link.set_stream(&stream);
    let body = Hello { version: VERSION, token: credentials.token.as_ref().map(|token| *token.bytes()) }.bytes();
    let mut request = Request::new(Op::Hello, 1);
    request.body = body.len() as u32;
    let head = request.bytes();
    let mut out = [&head[..], &body].concat();
    let begin = seed(&head, &body);
    stream.send(&mut out)?;
    let mut receiver = Receiver::new(&stream, link, &server);
    let head = receiver.head();
    let head = head.map_err(|error| if with_tls { error } else { without_tls(error, address) })?;
    if head[..2] == ALERT && !with_tls {
        return Err(without_tls(LinkError::Fault("it answered by TLS".into()), address));
    }
    let reply = Reply::parse(&head)?;
    let body = receiver.body(&head, &reply, begin)?;
    match reply.state {
        State::Ok => {}
        State::Unauthorized | State::BadRequest => {
            return Err(LinkError::Refused(error_of(reply.state, &server, &body)));
        }
        state => return Err(LinkError::Lost(format!("it answered {state:?}"))),
    }
    let credits = Credits::parse(&body)?;
    stream.set_patience(None)?;
    Ok((stream, credits))
}

/// A connection without TLS that failed before HELLO was answered: the server may want TLS. Its alert is shorter than a
/// head.
fn without_tls(error: LinkError, address: &ServerAddress) -> LinkError {
    match error {
        LinkError::Lost(text) | LinkError::Fault(text) => LinkError::Lost(format!(
            "{text}; if it serves by TLS, set FARFIELD_SERVER_PIN and use {SCHEME}://{address}, else see whether \
             its limit of connections is reached"
        )),
        other => other,
    }
}

/// Connects to the first address that answers.
fn reach(address: &ServerAddress, options: &ClientOptions) -> Result<TcpStream, LinkError> {
    let found = (address.host.as_str(), address.port).to_socket_addrs();
    let found = found.map_err(|e| LinkError::Lost(format!("the name {} is not found: {e}", address.host)))?;
    let end = Instant::now() + options.connect;
    let mut last = LinkError::Lost(format!("the name {} has no address", address.host));
    for to in found {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&to, left) {
            Ok(socket) => return Ok(socket),
            Err(e) => {
                let what = match e.kind() {
                    std::io::ErrorKind::ConnectionRefused => {
                        let port = if address.port == DEFAULT_PORT { ", the default one" } else { "" };
                        format!("nothing listens on port {}{port}; is `farfield serve` running there?", address.port)
                    }
                    _ => e.to_string(),
                };
                last = if e.kind() == std::io::ErrorKind::TimedOut {
                    LinkError::Slow(what)
                } else {
                    LinkError::Lost(what)
                };
            }
        }
    }
    Err(last)
}

/// Agrees on TLS.
fn agree(mut tls: ClientConnection, mut socket: &TcpStream, server: &str) -> Result<ClientConnection, LinkError> {
    while tls.is_handshaking() {
        let Err(e) = tls.complete_io(&mut socket) else { continue };
        let server = || server.to_owned();
        let refused = match e.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
            None => return Err(e.into()),
            Some(rustls::Error::InvalidCertificate(why)) => {
                let message =
                    format!("its certificate is not believed: {why}; set FARFIELD_SERVER_PIN to its fingerprint");
                PageErrorKind::Unauthorized { server: server(), message }
            }
            Some(rustls::Error::General(message)) => {
                PageErrorKind::Unauthorized { server: server(), message: message.clone() }
            }
            Some(rustls::Error::InvalidMessage(_)) => {
                let message = format!("it does not speak TLS; a server on this machine is read by {PLAIN_SCHEME}://");
                PageErrorKind::Protocol { server: server(), message }
            }
            Some(other) => PageErrorKind::Protocol { server: server(), message: other.to_string() },
        };
        return Err(LinkError::Refused(refused));
    }
    if tls.alpn_protocol() != Some(ALPN) {
        let message = "it speaks TLS, and not farfield's protocol".to_owned();
        return Err(LinkError::Refused(PageErrorKind::Protocol { server: server.to_owned(), message }));
    }
    Ok(tls)
}
