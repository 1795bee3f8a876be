//! The clocks of a server's connections, in one thread that sleeps while nothing is asked.

use super::hub::Hub;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Time between two looks.
const TICK: Duration = Duration::from_millis(100);
/// The same while requests wait for room in a socket.
const STUCK_TICK: Duration = Duration::from_millis(5);
/// Time without anything asked after which it sleeps.
const IDLE: Duration = Duration::from_secs(2);
/// Most time that it sleeps at once: whatever is asked rings.
const ASLEEP: Duration = Duration::from_secs(60);
const STACK_BYTES: usize = 256 << 10;

/// Starts the thread. Whether it runs: without it nothing is late or retried, until the next submission tries again.
pub(super) fn start(hub: &Arc<Hub>) -> bool {
    let hub = hub.clone();
    let builder = std::thread::Builder::new().name("farfield-keeper".into()).stack_size(STACK_BYTES);
    builder.spawn(move || run(&hub)).is_ok()
}

fn run(hub: &Arc<Hub>) {
    let mut busy = Instant::now();
    let mut tick = TICK;
    loop {
        let mut state = hub.state();
        if state.closed {
            return;
        }
        let now = Instant::now();
        if hub.traffic.is_busy() || hub.queued() > 0 {
            busy = now;
        }
        if now.saturating_duration_since(busy) > IDLE {
            hub.asleep.store(true, Relaxed);
            // What was submitted before this line is seen here; what comes after it rings.
            if !hub.traffic.is_busy() && hub.queued() == 0 {
                state = hub.bell.wait_timeout(state, ASLEEP).unwrap_or_else(PoisonError::into_inner).0;
            }
            hub.asleep.store(false, Relaxed);
        } else {
            let pause = state.next_try.map(|next| next.saturating_duration_since(now));
            let wait = pause.filter(|pause| !pause.is_zero()).map_or(tick, |pause| pause.min(tick));
            state = hub.bell.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        let links = state.links.clone();
        drop(state);
        tick = TICK;
        for link in links {
            if link.push_stuck() {
                tick = STUCK_TICK;
            }
            look(hub, &link);
        }
        hub.expire(Instant::now());
        hub.pump();
    }
}

/// Closes a connection that is silent for too long.
fn look(hub: &Hub, link: &super::link::ServerLink) {
    if !link.up.load(Relaxed) && !link.answered.load(Relaxed) || link.owed.load(Relaxed) == 0 {
        return;
    }
    let silent = link.silent();
    let least = hub.options.silence.min(hub.options.stall);
    if silent < least / 2 {
        return;
    }
    // A server that is alive answers this before anything else.
    link.ping();
    let (oldest, demand) = link.oldest();
    let silence = hub.options.silence.max(hub.traffic.slowest() * 10).min(hub.options.stall);
    let most = if demand { silence } else { hub.options.stall };
    if silent >= most {
        link.end(&format!("nothing came for {:.1} s", silent.as_secs_f64()));
    } else if oldest.is_some_and(|oldest| oldest.elapsed() > hub.options.network_timeout) {
        link.end("a read was not answered within the network timeout");
    }
}
