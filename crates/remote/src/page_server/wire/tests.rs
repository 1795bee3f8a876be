use super::*;
use proptest::prelude::*;
use std::time::Duration;

fn request() -> impl Strategy<Value = Request> {
    (
        (0..Op::ALL.len(), any::<bool>(), any::<u32>(), any::<u32>()),
        (0..=MOST_READ as u32, any::<u64>(), any::<u32>(), 0..=MOST_REQUEST_BODY as u32),
    )
        .prop_map(|((op, prefetch, seq, file), (len, offset, deadline_ms, body))| Request {
            op: Op::ALL[op],
            urgency: if prefetch { Urgency::Prefetch } else { Urgency::Demand },
            seq,
            file,
            len,
            offset,
            deadline_ms,
            body,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn requests_come_through(request in request()) {
        prop_assert_eq!(Request::parse(&request.bytes()), Ok(request));
    }

    #[test]
    fn replies_come_through(
        seq: u32, state in 0..State::ALL.len(), version: u64, micros in 0u32..1 << 27, seed: u32, body in prop::collection::vec(any::<u8>(), 0..100)
    ) {
        let mut reply = Reply::new(seq, State::ALL[state], body.len());
        reply.version = version;
        reply.queued = Duration::from_micros(micros.into());
        let head = reply.sealed(seed, [&body[..]]);
        let seen = Reply::parse(&head).unwrap();
        prop_assert_eq!((seen.seq, seen.state, seen.len, seen.version), (seq, State::ALL[state], body.len() as u32, version));
        prop_assert!(seen.queued <= reply.queued && reply.queued.as_micros() - seen.queued.as_micros() <= u128::from(micros / 2048));
        prop_assert_eq!(Reply::checksum(seed, &head, [&body[..]]), seen.crc);
    }

    /// Any one bit of request, reply head and body is covered.
    #[test]
    fn a_flipped_bit_is_seen(request in request(), body in prop::collection::vec(any::<u8>(), 1..200), bit: prop::sample::Index, which in 0..3) {
        let asked = request.bytes();
        let mut head = Reply::new(request.seq, State::Ok, body.len()).sealed(seed(&asked, &[]), [&body[..]]);
        let (mut asked, mut body) = (asked, body);
        let bytes: &mut [u8] = match which { 0 => &mut asked, 1 => &mut head, _ => &mut body };
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let seen = Reply::parse(&head);
        prop_assert!(seen.is_err() || Reply::checksum(seed(&asked, &[]), &head, [&body[..]]) != seen.unwrap().crc);
    }

    #[test]
    fn any_bytes_are_parsed_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Some(head) = bytes.first_chunk::<HEAD>() {
            if let Ok(request) = Request::parse(head) {
                prop_assert_eq!(&request.bytes(), head);
            }
            if let Ok(reply) = Reply::parse(head) {
                prop_assert!(reply.len as usize <= MOST_TOLD);
            }
        }
        let _ = (Hello::parse(&bytes), Credits::parse(&bytes), RemoteStat::parse(&bytes), ViaFound::split(&bytes));
        let _ = (read_names(&bytes, 10), read_ranges(&bytes, 10), read_entries(&bytes));
        let _ = (read_stage_begin(&bytes), read_stage_put(&bytes), read_stage_commit(&bytes));
        let _ = (StageProgress::parse(&bytes), StageRoom::parse(&bytes));
        let _ = (read_looks(&bytes, bytes.len()), read_looks(&bytes, 3));
        if let Ok(via) = Via::parse(&bytes) {
            let _ = via.extent(&bytes);
        }
    }

    #[test]
    fn bodies_come_through(
        token: Option<[u8; 32]>, names in prop::collection::vec("[a-zé/]{0,20}", 0..10), size: u64, modified_ns: i64, version: [u8; 16], ranges in prop::collection::vec((any::<u64>(), 0u32..1000), 0..10)
    ) {
        let hello = Hello { version: 1, token };
        prop_assert!(Hello::parse(&hello.bytes()) == Ok(hello));
        let mut out = Vec::new();
        write_names(&mut out, names.iter().map(String::as_str));
        prop_assert_eq!(read_names(&out, 10).unwrap(), names.clone());
        let file = StagedFile { name: names.join("/"), size, modified_ns };
        prop_assert_eq!(read_stage_begin(&write_stage_begin(&file, size % 2 == 0)), Ok((file.clone(), size % 2 == 0)));
        let sum = crc32c::crc32c(&version);
        let put = write_stage_put(&file, &version);
        prop_assert_eq!(read_stage_put(&put), Ok((file.clone(), sum, &version[..])));
        prop_assert_eq!(read_stage_commit(&write_stage_commit(&file, sum)), Ok((file, sum)));
        let progress = StageProgress { bytes: size, complete: size % 2 == 0 };
        prop_assert_eq!(StageProgress::parse(&progress.bytes()), Ok(progress));
        let room = StageRoom { limit: size, used: 1, free: 2 };
        prop_assert_eq!(StageRoom::parse(&room.bytes()), Ok(room));
        let stat = RemoteStat { kind: RemoteKind::File, size, modified_ns, version };
        prop_assert_eq!(RemoteStat::parse(&stat.bytes()), Ok(stat));
        let ranges: Vec<Range> = ranges.into_iter().map(|(offset, len)| Range { offset, len }).collect();
        let mut out = Vec::new();
        write_ranges(&mut out, ranges.iter().copied());
        prop_assert_eq!(read_ranges(&out, ranges.iter().map(|r| r.len).sum()).unwrap(), ranges);
    }
}

#[test]
fn names_in_folders_stay_in_them() {
    for name in ["..", ".", "", "a/b", "/etc"] {
        let mut out = Vec::new();
        write_entries(&mut out, [(RemoteKind::File, 1, name)]);
        assert!(read_entries(&out).is_err(), "{name}");
    }
}

#[test]
fn an_index_names_an_extent() {
    let via = Via { index_offset: 0, index_len: 48, slot: 16, base: 1000, from_end: false };
    assert_eq!(Via::parse(&via.bytes()), Ok(via));
    let mut index = vec![0xFF; 48];
    assert_eq!(via.extent(&index), Ok(None));
    index[16..24].copy_from_slice(&7u64.to_le_bytes());
    index[24..32].copy_from_slice(&9u64.to_le_bytes());
    assert_eq!(via.extent(&index), Ok(Some((1007, 9))));
    index[16..24].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
    assert!(via.extent(&index).is_err());
    assert!(Via::parse(&Via { slot: 40, ..via }.bytes()).is_err());
}

/// Random heads, some of them almost right.
#[test]
fn random_heads_are_refused_or_come_through() {
    let count = crate::page_server::tests::support::in_soak(1_000_000, 100_000_000);
    let mut random = 1u64;
    let (mut requests, mut replies) = (0, 0);
    for n in 0..count {
        let mut head = [0u8; HEAD];
        for word in head.as_chunks_mut::<8>().0 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            *word = random.to_le_bytes();
        }
        if n % 2 == 0 {
            // Small codes and lengths.
            head[0] %= 20;
            head[1] %= 3;
            (head[2], head[3], head[5], head[6], head[7]) = (0, 0, 0, 0, 0);
            (head[14], head[15], head[30], head[31]) = (0, 0, 0, 0);
            head[4] %= 23;
            head.copy_within(8..12, 12);
        }
        if let Ok(request) = Request::parse(&head) {
            assert_eq!(request.bytes(), head);
            assert!(request.len as usize <= MOST_READ && request.body as usize <= MOST_STAGE_BODY);
            assert!(request.op == Op::StagePut || request.body as usize <= MOST_REQUEST_BODY);
            requests += 1;
        }
        if let Ok(reply) = Reply::parse(&head) {
            assert!(reply.len as usize <= MOST_TOLD);
            replies += 1;
        }
    }
    assert!(requests > 0 && replies > 0, "{requests} {replies}");
}
