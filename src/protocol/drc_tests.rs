//! The cache alone, without a core: futures are polled by hand.

use super::*;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake};
use std::time::Duration;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the cache made an undisputed call wait"),
    }
}

fn key(xid: u32) -> Key {
    Key { client: IpAddr::from([10, 0, 0, 1]), xid, call: (100_003, 3, 12), digest: u64::from(xid) << 57 | 7 }
}

fn execute(drc: &Drc, key: Key, remember: Remember, now: Instant) -> Slot<'_> {
    match ready(drc.begin(key, remember, now)) {
        Begin::Execute(slot) => slot,
        Begin::Replay(_) => panic!("replayed a call that is new"),
        Begin::Unremembered => panic!("no entry for a call"),
    }
}

fn replay(drc: &Drc, key: Key, now: Instant) -> Option<Vec<u8>> {
    match ready(drc.begin(key, Remember::Keep, now)) {
        Begin::Replay(body) => Some(body.into()),
        _ => None,
    }
}

/// What is remembered, without leaving a trace.
fn peek(drc: &Drc, key: Key, now: Instant) -> Option<Box<[u8]>> {
    match ready(drc.claim(key, now)) {
        Claim::Known(results) => return Some(results),
        Claim::New => drc.settle(key, None, Remember::Keep, now),
        Claim::Full => {}
    }
    None
}

#[test]
fn an_answered_call_is_replayed_and_another_with_its_xid_is_not() {
    let (drc, now) = (Drc::new(8), Instant::now());
    execute(&drc, key(1), Remember::Keep, now).complete(b"done", now);
    assert_eq!(replay(&drc, key(1), now).as_deref(), Some(&b"done"[..]));
    for other in [
        Key { digest: 8, ..key(1) },
        Key { xid: 2, ..key(1) },
        Key { client: IpAddr::from([10, 0, 0, 2]), ..key(1) },
        Key { call: (100_003, 3, 13), ..key(1) },
    ] {
        assert!(replay(&drc, other, now).is_none(), "{other:?}");
    }
    assert_eq!(peek(&drc, key(1), now).as_deref(), Some(&b"done"[..]));
    assert!(peek(&drc, key(3), now).is_none());
}

#[test]
fn a_repetition_in_progress_waits_for_the_answer() {
    let (drc, now) = (Drc::new(8), Instant::now());
    let slot = execute(&drc, key(1), Remember::Keep, now);
    let woken = Arc::new(Count::default());
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    let mut repeated = pin!(drc.begin(key(1), Remember::Keep, now));
    let mut asked = pin!(drc.claim(key(1), now));
    assert!(repeated.as_mut().poll(&mut context).is_pending());
    assert!(repeated.as_mut().poll(&mut context).is_pending());
    assert!(asked.as_mut().poll(&mut context).is_pending());
    slot.complete(b"once", now);
    assert!(woken.0.load(Ordering::Relaxed) >= 1);
    match repeated.poll(&mut context) {
        Poll::Ready(Begin::Replay(body)) => assert_eq!(&body[..], b"once"),
        _ => panic!("the repetition was not answered from memory"),
    }
    match asked.poll(&mut context) {
        Poll::Ready(Claim::Known(body)) => assert_eq!(&body[..], b"once"),
        _ => panic!("the other core was not answered"),
    }
}

#[test]
fn an_abandoned_call_is_executed_by_its_repetition() {
    let (drc, now) = (Drc::new(8), Instant::now());
    let slot = execute(&drc, key(1), Remember::Keep, now);
    let mut context = Context::from_waker(Waker::noop());
    let mut repeated = pin!(drc.begin(key(1), Remember::Keep, now));
    assert!(repeated.as_mut().poll(&mut context).is_pending());
    drop(slot);
    match repeated.poll(&mut context) {
        Poll::Ready(Begin::Execute(slot)) => slot.complete(b"second", now),
        _ => panic!("nobody executes the call"),
    }
    assert_eq!(replay(&drc, key(1), now).as_deref(), Some(&b"second"[..]));
}

/// A claim of another core is in progress until it is settled, and settled once.
#[test]
fn claims_are_settled() {
    let (drc, now) = (Drc::new(8), Instant::now());
    assert_eq!(ready(drc.claim(key(1), now)), Claim::New);
    let mut context = Context::from_waker(Waker::noop());
    let mut repeated = pin!(drc.begin(key(1), Remember::Keep, now));
    assert!(repeated.as_mut().poll(&mut context).is_pending());
    drc.settle(key(1), Some(b"elsewhere"), Remember::Keep, now);
    assert!(
        matches!(repeated.poll(&mut context), Poll::Ready(Begin::Replay(body)) if &body[..] == b"elsewhere")
    );
    // Too late, and for nothing that is known.
    drc.settle(key(1), None, Remember::Keep, now);
    drc.settle(key(2), Some(b"unknown"), Remember::Keep, now);
    assert_eq!(peek(&drc, key(1), now).as_deref(), Some(&b"elsewhere"[..]));
    assert_eq!(peek(&drc, key(2), now), None);
    assert_eq!(drc.len(), 1);
}

#[test]
fn results_that_do_not_fit_are_forgotten_not_cut() {
    let (drc, now) = (Drc::new(8), Instant::now());
    let longest = vec![9; limits::DRC_REPLY_BYTES];
    execute(&drc, key(1), Remember::Keep, now).complete(&longest, now);
    execute(&drc, key(2), Remember::Keep, now).complete(&vec![9; longest.len() + 1], now);
    assert_eq!(replay(&drc, key(1), now), Some(longest));
    assert_eq!(replay(&drc, key(2), now), None);
}

#[test]
fn the_oldest_goes_first_and_entries_in_progress_stay() {
    let (drc, now) = (Drc::new(3), Instant::now());
    let busy = execute(&drc, key(0), Remember::Keep, now);
    for xid in 1..=4 {
        execute(&drc, key(xid), Remember::Keep, now).complete(&xid.to_be_bytes(), now);
    }
    assert_eq!(drc.len(), 3);
    for (xid, kept) in [(3, true), (4, true), (1, false)] {
        assert_eq!(peek(&drc, key(xid), now).is_some(), kept, "{xid}");
    }
    busy.complete(b"late", now);
    assert_eq!(peek(&drc, key(0), now).as_deref(), Some(&b"late"[..]));
}

#[test]
fn when_all_are_in_progress_the_call_is_served_unremembered() {
    let (drc, now) = (Drc::new(2), Instant::now());
    let slots = [1, 2].map(|xid| execute(&drc, key(xid), Remember::Keep, now));
    assert!(matches!(ready(drc.begin(key(3), Remember::Keep, now)), Begin::Unremembered));
    drop(slots);
    assert!(drc.is_empty());
    drop(execute(&drc, key(3), Remember::Keep, now));
}

#[test]
fn a_stream_of_writes_spares_young_renames() {
    let (drc, now) = (Drc::new(64), Instant::now());
    execute(&drc, key(0), Remember::Keep, now).complete(b"rename", now);
    for xid in 1..10_000 {
        execute(&drc, key(xid), Remember::Bulk, now).complete(b"write", now);
    }
    assert_eq!(replay(&drc, key(0), now).as_deref(), Some(&b"rename"[..]));
    // Old enough, it goes before the writes.
    let later = now + limits::DRC_FLOOR;
    for xid in 10_000..10_064 {
        execute(&drc, key(xid), Remember::Bulk, later).complete(b"write", later);
    }
    assert!(peek(&drc, key(0), later).is_none());
}

#[test]
fn answers_age() {
    let (drc, now) = (Drc::new(8), Instant::now());
    execute(&drc, key(1), Remember::Keep, now).complete(b"old", now);
    let just = now + limits::DRC_AGE - Duration::from_nanos(1);
    assert!(peek(&drc, key(1), just).is_some());
    assert!(peek(&drc, key(1), now + limits::DRC_AGE).is_none());
    assert!(replay(&drc, key(1), now + limits::DRC_AGE).is_none());
}

#[test]
fn the_table_survives_a_random_walk() {
    // A small generator of its own, so that a failure repeats.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let (drc, start) = (Drc::new(16), Instant::now());
    let mut open: Vec<(u32, Slot<'_>)> = Vec::new();
    for step in 0..50_000u64 {
        let now = start + Duration::from_millis(step * 20);
        if random(3) < 2 {
            let xid = random(40) as u32;
            if open.iter().any(|(other, _)| *other == xid) {
                continue;
            }
            let remember = if random(2) == 0 { Remember::Bulk } else { Remember::Keep };
            match ready(drc.begin(key(xid), remember, now)) {
                Begin::Execute(slot) => open.push((xid, slot)),
                Begin::Replay(body) => assert_eq!(&body[..], xid.to_be_bytes()),
                Begin::Unremembered => assert_eq!(open.len(), 16),
            }
        } else if !open.is_empty() {
            let (xid, slot) = open.swap_remove(random(open.len() as u64) as usize);
            if random(4) > 0 {
                slot.complete(&xid.to_be_bytes(), now);
            }
        }
        assert!(drc.len() <= 16 && drc.len() >= open.len());
    }
    drop(open);
    let table = drc.table.borrow();
    assert_eq!(table.bulk.len + table.keep.len, table.index.len());
}

#[test]
fn keys_tell_calls_apart_wherever_segments_are_cut() {
    let digester = Digester::random();
    let client = IpAddr::from([10, 0, 0, 1]);
    let args: Vec<u8> = (0..600).map(|n| n as u8).collect();
    let of = |client, xid, procedure, identity, parts: &[&[u8]]| {
        let len = parts.iter().map(|part| part.len()).sum();
        digester.key(client, xid, (100_003, 3, procedure), identity, len, parts.iter().copied())
    };
    let whole = of(client, 1, 7, 5, &[&args]);
    for cut in [0, 1, 100, 255, 256, 257, 599] {
        let (a, b) = args.split_at(cut);
        assert_eq!(of(client, 1, 7, 5, &[a, b]), whole, "{cut}");
    }
    let mut changed = args.clone();
    changed[limits::DRC_DIGEST_BYTES - 1] ^= 1;
    for other in [
        of(IpAddr::from([10, 0, 0, 2]), 1, 7, 5, &[&args]),
        of(client, 2, 7, 5, &[&args]),
        of(client, 1, 8, 5, &[&args]),
        of(client, 1, 7, 6, &[&args]),
        of(client, 1, 7, 5, &[&args[..599]]),
        of(client, 1, 7, 5, &[&changed]),
    ] {
        assert_ne!(other.digest, whole.digest, "the digest covers everything: it is the hash of the table");
    }
}
