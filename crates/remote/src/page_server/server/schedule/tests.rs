use super::super::super::wire::{Op, Request};
use super::*;

fn job(seq: u32, len: u32, urgency: Urgency) -> QueuedRequest {
    let request = Request { len, urgency, ..Request::new(Op::Read, seq) };
    QueuedRequest { request, body: Box::default(), seed: 0, arrived: Instant::now() }
}

fn lines(n: u32) -> Arc<AtomicU32> {
    Arc::new(AtomicU32::new(n))
}

fn take(schedule: &mut Schedule) -> Option<(u64, QueuedRequest)> {
    match schedule.next(Instant::now(), u32::MAX) {
        NextRequest::Request(line, job) => Some((line, job)),
        _ => None,
    }
}

#[test]
fn clients_share_bytes_whatever_they_ask() {
    let mut schedule = Schedule::new(None, None);
    // Client 1 has five lines, client 2 long requests, client 3 short ones.
    for line in 10..15 {
        schedule.add(line, 1, &lines(5));
    }
    schedule.add(20, 2, &lines(1));
    schedule.add(30, 3, &lines(1));
    for seq in 0..2000 {
        schedule.push(10 + u64::from(seq) % 5, job(seq, 32 << 10, Urgency::Demand), false);
        schedule.push(20, job(seq, 1 << 20, Urgency::Demand), false);
        for _ in 0..5 {
            schedule.push(30, job(seq, 8 << 10, Urgency::Demand), false);
        }
    }
    let mut got = [0u64; 3];
    while got.iter().sum::<u64>() < 100 << 20 {
        let (line, job) = take(&mut schedule).unwrap();
        got[line as usize / 10 - 1] += u64::from(job.cost());
    }
    let fair = got.iter().sum::<u64>() / 3;
    assert!(got.iter().all(|bytes| bytes.abs_diff(fair) < 2 << 20), "{got:?}");
}

#[test]
fn a_client_with_lines_elsewhere_has_a_part_of_its_share() {
    let mut schedule = Schedule::new(None, None);
    schedule.add(10, 1, &lines(4));
    schedule.add(20, 2, &lines(1));
    for seq in 0..3000 {
        schedule.push(10, job(seq, 32 << 10, Urgency::Demand), false);
        schedule.push(20, job(seq, 32 << 10, Urgency::Demand), false);
    }
    let of_first = (0..1000).filter(|_| take(&mut schedule).unwrap().0 == 10).count();
    assert!((190..=210).contains(&of_first), "{of_first}");
}

#[test]
fn demands_go_first_and_prefetches_are_not_starved() {
    let mut schedule = Schedule::new(None, None);
    schedule.add(1, 1, &lines(1));
    for seq in 0..90 {
        schedule.push(1, job(seq, 100, Urgency::Prefetch), false);
    }
    for seq in 100..190 {
        schedule.push(1, job(seq, 100, Urgency::Demand), false);
    }
    let order: Vec<Urgency> = (0..90).map(|_| take(&mut schedule).unwrap().1.request.urgency).collect();
    assert_eq!(order[..8], [Urgency::Demand; 8]);
    assert_eq!(order.iter().filter(|urgency| **urgency == Urgency::Prefetch).count(), 10);
    // Promotion, withdrawal.
    assert!(schedule.promote(1, 80) && !schedule.promote(1, 1000) && !schedule.promote(7, 80));
    assert_eq!(schedule.withdraw(1, 81).unwrap().request.seq, 81);
    assert!(schedule.withdraw(1, 81).is_none());
    let rest: Vec<u32> = std::iter::from_fn(|| take(&mut schedule)).map(|(_, job)| job.request.seq).collect();
    assert!(rest.iter().position(|seq| *seq == 80).unwrap() < 15 && !rest.contains(&81), "{rest:?}");
    assert_eq!((rest.len(), schedule.waiting()), (89, 0));
}

#[test]
fn a_full_socket_has_no_turn() {
    let mut schedule = Schedule::new(None, None);
    schedule.add(1, 1, &lines(2));
    schedule.add(2, 1, &lines(2));
    for line in [1, 2] {
        (0..3).for_each(|seq| schedule.push(line, job(seq, 100, Urgency::Demand), false));
    }
    schedule.set_open(1, false);
    assert!((0..3).all(|_| take(&mut schedule).unwrap().0 == 2));
    assert!(take(&mut schedule).is_none() && schedule.waiting() == 3);
    schedule.set_open(1, true);
    assert_eq!(take(&mut schedule).unwrap().0, 1);
    // Memory for a part only.
    assert!(matches!(schedule.next(Instant::now(), 10), NextRequest::NoRoom));
    schedule.remove(1);
    assert!(take(&mut schedule).is_none() && schedule.waiting() == 0);
}

#[test]
fn rates_are_kept() {
    let mut schedule = Schedule::new(Some(10 << 20), Some(2 << 20));
    for client in 1..=2 {
        schedule.add(client, client, &lines(1));
        (0..5000).for_each(|seq| schedule.push(client, job(seq, 8 << 10, Urgency::Demand), false));
    }
    let begin = Instant::now();
    let (mut now, mut bytes) = (begin, 0);
    while now < begin + Duration::from_secs(5) {
        match schedule.next(now, u32::MAX) {
            NextRequest::Request(_, job) => bytes += u64::from(job.cost()),
            NextRequest::Wait(time) => now += time,
            NextRequest::Nothing | NextRequest::NoRoom => panic!("requests wait"),
        }
    }
    // Each of two clients has 2 MiB/s of the 10.
    assert!(bytes.abs_diff(20 << 20) < 1 << 20, "{bytes}");
}
