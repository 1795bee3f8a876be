//! Options of sockets.

use std::io::{self, IoSlice, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Bytes that wait in the kernel, where a demand cannot overtake them.
const NOT_SENT_LOW: libc::c_int = 128 << 10;
/// Time in which a peer must acknowledge what was sent.
const USER_TIMEOUT: Duration = Duration::from_secs(60);
/// The congestion control that keeps its rate under loss and delay.
const CONGESTION: &[u8] = b"bbr";

/// Writes without the signal that a closed socket would raise in programs that do not ignore it.
pub(super) struct Unsignalled<'a>(pub(super) &'a TcpStream);

impl Write for Unsignalled<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        // SAFETY: integers and pointers, for which zero is a value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        // A slice for writing has the form of the system's vector.
        message.msg_iov = parts.as_ptr().cast_mut().cast();
        message.msg_iovlen = parts.len() as _;
        // SAFETY: the socket is open, and the parts are valid for reading.
        let n = unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn set(socket: &TcpStream, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the socket is open, and the value is an integer of the given length.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Prepares an accepted socket.
///
/// # Errors
/// When it cannot be used at all. Options that this kernel does not have are left out.
pub(super) fn prepare(socket: &TcpStream, rate: Option<u64>) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_nodelay(true)?;
    // Each of these improves the service, and none is needed for it.
    let millis = USER_TIMEOUT.as_millis() as libc::c_int;
    let _kept = set(socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1);
    let _kept = set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, NOT_SENT_LOW);
    let _kept = set(socket, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, millis);
    let (fd, name) = (socket.as_raw_fd(), CONGESTION.as_ptr().cast());
    // SAFETY: the socket is open, and the name has the given length.
    unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name, CONGESTION.len() as libc::socklen_t) };
    if let Some(rate) = rate {
        let len = size_of::<u64>() as libc::socklen_t;
        // SAFETY: the socket is open, and the value is an integer of the given length.
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, (&raw const rate).cast(), len) };
    }
    Ok(())
}

/// The congestion control in use.
pub(super) fn congestion(socket: &TcpStream) -> String {
    let mut name = [0u8; 16];
    let mut len = name.len() as libc::socklen_t;
    let fd = socket.as_raw_fd();
    // SAFETY: the socket is open, and the buffer has the given length.
    let got =
        unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_mut_ptr().cast(), &mut len) };
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    if got == 0 {
        String::from_utf8_lossy(&name[..end]).into_owned()
    } else {
        "unknown".to_owned()
    }
}
