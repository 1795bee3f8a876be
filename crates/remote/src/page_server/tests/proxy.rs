//! A proxy that disturbs what passes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// A disturbance of one direction of a connection: the bytes, and the place in the stream of their first.
pub type Disturb = Arc<dyn Fn(&mut [u8], usize) + Send + Sync>;

/// See the module.
pub struct Proxy {
    pub address: SocketAddr,
    pub connections: Arc<AtomicUsize>,
    /// Whether bytes are held back.
    pub held: Arc<AtomicBool>,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
}

fn pass(mut from: TcpStream, mut to: TcpStream, disturb: Disturb, held: Arc<AtomicBool>) {
    let mut bytes = vec![0; 64 << 10];
    let mut at = 0;
    while let Ok(n) = from.read(&mut bytes) {
        while held.load(SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        if n == 0 {
            break;
        }
        disturb(&mut bytes[..n], at);
        at += n;
        if to.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

impl Proxy {
    /// `up` and `down` disturb what goes to the server and what comes from it, by the number of the connection.
    pub fn new(server: SocketAddr, disturb: impl Fn(usize) -> (Disturb, Disturb) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, held) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let sockets = Arc::new(Mutex::new(Vec::new()));
        let (count, hold, known) = (connections.clone(), held.clone(), sockets.clone());
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else { continue };
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let (up, down) = disturb(count.fetch_add(1, SeqCst));
                known.lock().unwrap().push(client.try_clone().unwrap());
                let ends = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (one, two) = (hold.clone(), hold.clone());
                std::thread::spawn(move || pass(ends.0, ends.1, up, one));
                std::thread::spawn(move || pass(server, client, down, two));
            }
        });
        Self { address, connections, held, sockets }
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        for socket in self.sockets.lock().unwrap().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// Changes nothing.
pub fn calm() -> Disturb {
    Arc::new(|_, _| {})
}

/// Flips one bit of the stream.
pub fn flip(bit: usize) -> Disturb {
    Arc::new(move |bytes, at| {
        if let Some(byte) = (bit / 8).checked_sub(at).and_then(|at| bytes.get_mut(at)) {
            *byte ^= 1 << (bit % 8);
        }
    })
}
