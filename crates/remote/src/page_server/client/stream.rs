//! The bytes of a connection, with or without TLS. One thread receives and waits; any thread sends and never waits.

use rustls::ClientConnection;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes received at once under TLS.
const SEALED: usize = 64 << 10;

/// See the module.
pub(super) struct Stream {
    socket: TcpStream,
    tls: Option<Mutex<ClientConnection>>,
}

/// What came under TLS and is not opened yet. It belongs to the thread that receives.
#[derive(Default)]
pub(super) struct Sealed {
    bytes: Vec<u8>,
    at: usize,
    end: usize,
}

/// Where received bytes go.
pub(super) type IoParts = Vec<libc::iovec>;

/// Sends without waiting.
struct Unwaiting<'a>(&'a TcpStream);

impl Write for Unwaiting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the socket is open, and the bytes are valid for reading.
        let n = unsafe { libc::send(self.0.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream {
    pub(super) fn new(socket: TcpStream, tls: Option<ClientConnection>) -> Self {
        let tls = tls.map(|mut tls| {
            tls.set_buffer_limit(None);
            Mutex::new(tls)
        });
        Self { socket, tls }
    }

    /// Sends what the socket takes of `out`. Whether all went.
    pub(super) fn send(&self, out: &mut Vec<u8>) -> io::Result<bool> {
        let Some(tls) = &self.tls else {
            while !out.is_empty() {
                match Unwaiting(&self.socket).write(out) {
                    Ok(n) => drop(out.drain(..n)),
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
            return Ok(true);
        };
        let mut tls = lock(tls);
        tls.writer().write_all(out)?;
        out.clear();
        self.send_sealed(&mut tls)
    }

    fn send_sealed(&self, tls: &mut ClientConnection) -> io::Result<bool> {
        while tls.wants_write() {
            match tls.write_tls(&mut Unwaiting(&self.socket)) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Puts what is there into the parts. Returns its number of bytes, which is not 0.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there and `waits` is false; those of the socket and of TLS.
    pub(super) fn receive(&self, sealed: &mut Sealed, parts: &mut IoParts, waits: bool) -> io::Result<usize> {
        let flags = if waits { 0 } else { libc::MSG_DONTWAIT };
        let Some(tls) = &self.tls else {
            return loop {
                // SAFETY: integers and pointers, for which zero is a value.
                let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
                (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), parts.len() as _);
                // SAFETY: the parts are valid for writing, and belong to this thread until it returns.
                let n = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &mut message, flags) };
                match usize::try_from(n) {
                    Ok(0) => break Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(n) => break Ok(n),
                    Err(_) => match io::Error::last_os_error() {
                        e if e.kind() == io::ErrorKind::Interrupted => {}
                        e => break Err(e),
                    },
                }
            };
        };
        loop {
            let n = self.open(&mut lock(tls), sealed, parts)?;
            if n > 0 {
                return Ok(n);
            }
            sealed.bytes.resize(SEALED, 0);
            let (to, len) = (sealed.bytes.as_mut_ptr().cast(), sealed.bytes.len());
            // SAFETY: the buffer has the given length, and belongs to this thread.
            let n = unsafe { libc::recv(self.socket.as_raw_fd(), to, len, flags) };
            (sealed.at, sealed.end) = match usize::try_from(n) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => (0, n),
                Err(_) => match io::Error::last_os_error() {
                    e if e.kind() == io::ErrorKind::Interrupted => (0, 0),
                    e => return Err(e),
                },
            };
        }
    }

    /// Opens what came, into the parts.
    fn open(&self, tls: &mut ClientConnection, sealed: &mut Sealed, parts: &IoParts) -> io::Result<usize> {
        let mut total = 0;
        let (mut part, mut at) = (0, 0);
        while let Some(to) = parts.get(part) {
            if at == to.iov_len {
                (part, at) = (part + 1, 0);
                continue;
            }
            // SAFETY: the part is valid for writing, and belongs to this thread until it returns.
            let free = unsafe { std::slice::from_raw_parts_mut(to.iov_base.cast::<u8>().add(at), to.iov_len - at) };
            match tls.reader().read(free) {
                Ok(0) => return if total > 0 { Ok(total) } else { Err(io::ErrorKind::UnexpectedEof.into()) },
                Ok(n) => (total, at) = (total + n, at + n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if sealed.at == sealed.end {
                        break;
                    }
                    let mut rest = &sealed.bytes[sealed.at..sealed.end];
                    tls.read_tls(&mut rest)?;
                    sealed.at = sealed.end - rest.len();
                    let opened = tls.process_new_packets();
                    // An alert, or the answer to new keys.
                    if tls.wants_write() {
                        self.send_sealed(tls)?;
                    }
                    opened.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(total)
    }

    /// The shortest round trip that the system has seen on this connection.
    pub(super) fn shortest_trip(&self) -> Option<std::time::Duration> {
        /// Where `tcpi_min_rtt` stands in the kernel's `tcp_info`.
        const AT: usize = 148;
        let mut info = [0u8; AT + 4];
        let mut len = info.len() as libc::socklen_t;
        let (fd, to) = (self.socket.as_raw_fd(), info.as_mut_ptr().cast());
        // SAFETY: the socket is open, and the buffer has the given length.
        let got = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, to, &mut len) };
        let micros = info.last_chunk::<4>().map_or(0, |word| u32::from_ne_bytes(*word));
        // The kernel says all ones as long as it has seen none.
        let known = got == 0 && len as usize == info.len() && micros > 0 && micros < u32::MAX;
        known.then(|| std::time::Duration::from_micros(micros.into()))
    }

    /// Ends both directions. The thread that receives returns.
    pub(super) fn shut(&self) {
        let _ended = self.socket.shutdown(std::net::Shutdown::Both);
    }

    /// Sets the most time that receiving waits.
    pub(super) fn set_patience(&self, time: Option<std::time::Duration>) -> io::Result<()> {
        self.socket.set_read_timeout(time)
    }
}

fn lock(tls: &Mutex<ClientConnection>) -> MutexGuard<'_, ClientConnection> {
    tls.lock().unwrap_or_else(PoisonError::into_inner)
}
