//! The slab as its users see it: one or two cores, small classes, each promise of the API once.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use headgate::memory::{
    self, Backing, BufFull, BufSlice, ClassConfig, CoreId, HugePages, MeshEndpoint, POISON, Payload, Slab,
    SlabConfig, SlabMesh, TooLarge,
};

fn config(classes: &[(usize, usize)]) -> SlabConfig {
    SlabConfig {
        classes: classes
            .iter()
            .map(|&(capacity_bytes, count)| ClassConfig { capacity_bytes, count })
            .collect(),
        huge_pages: HugePages::Never,
        numa_node: None,
        poison_freed: true,
    }
}

fn install(endpoint: MeshEndpoint, classes: &[(usize, usize)]) -> Slab {
    memory::install(endpoint.core(), &config(classes), endpoint).expect("memory for a test")
}

/// The slab of a gateway with one core, on this test's thread.
fn single(classes: &[(usize, usize)]) -> Slab {
    install(SlabMesh::new(1).remove(0), classes)
}

fn filled(slab: &Slab, bytes: &[u8]) -> BufSlice {
    let mut buf = slab.alloc(bytes.len()).expect("a free buffer");
    buf.extend_from_slice(bytes).expect("room for what was asked for");
    buf.freeze()
}

#[test]
fn classes_are_chosen_by_length_and_overflow_upwards() {
    let slab = single(&[(1024, 2), (4096, 1), (65536, 1)]);
    assert_eq!(slab.classes().collect::<Vec<_>>(), [1024, 4096, 65536]);
    assert_eq!(slab.max_bytes(), 65536);
    assert!(slab.alloc(65537).is_none());
    assert!(slab.alloc(usize::MAX).is_none());

    let held: Vec<_> = [0, 1024, 1, 1025].map(|len| slab.alloc(len)).into_iter().flatten().collect();
    assert_eq!(held.iter().map(|buf| buf.capacity()).collect::<Vec<_>>(), [1024, 1024, 4096, 65536]);
    assert!(slab.alloc(1).is_none());

    let counters = slab.counters();
    assert_eq!(counters.too_large, 2);
    assert_eq!(counters.failed, 1);
    assert_eq!(counters.classes[0].empty_misses, 2);
    assert_eq!(counters.classes[1].empty_misses, 1);
    assert_eq!(counters.classes.iter().map(|class| class.allocs).collect::<Vec<_>>(), [2, 1, 1]);
    assert_eq!(counters.classes.iter().map(|class| class.allocs_for_smaller).collect::<Vec<_>>(), [0, 1, 1]);
    assert_eq!((counters.in_use(), counters.in_use_bytes()), (4, 2048 + 4096 + 65536));

    drop(held);
    let counters = slab.counters();
    assert_eq!((counters.in_use(), counters.frees_home), (0, 4));
    assert_eq!(counters.classes.iter().map(|class| class.high_water).collect::<Vec<_>>(), [2, 1, 1]);
}

#[test]
fn buffers_lie_in_the_region_aligned_and_apart() {
    let slab = single(&[(64, 5), (1024, 3), (4096, 3), (16384, 3)]);
    let (base, len) = slab.region();
    let mut held = Vec::new();
    for class in [64, 1024, 4096, 16384] {
        while let Some(buf) = slab.alloc(class).filter(|buf| buf.capacity() == class) {
            held.push(buf);
        }
    }
    let mut ranges: Vec<_> =
        held.iter().map(|buf| (buf.as_ptr() as usize, buf.as_ptr() as usize + buf.capacity())).collect();
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    assert!(ranges[0].0 >= base as usize && ranges[ranges.len() - 1].1 <= base as usize + len);
    assert!(held.iter().all(|buf| (buf.as_ptr() as usize).is_multiple_of(buf.capacity().min(4096))));
    assert_eq!(slab.backing(), Backing::Small);
    assert_eq!(held.iter().filter(|buf| buf.owner() == CoreId(0)).count(), held.len());
}

#[test]
fn a_buffer_grows_only_by_what_it_is_given() {
    let slab = single(&[(64, 1)]);
    let mut buf = slab.alloc(64).expect("a free buffer");
    assert!(buf.is_empty());
    assert_eq!(buf.extend_from_slice(&[1; 60]), Ok(()));
    assert_eq!(buf.extend_from_slice(&[2; 5]), Err(BufFull));
    assert_eq!(buf.len(), 60);
    assert_eq!(buf.write_at(58, &[3; 2]), Ok(()));
    assert_eq!(buf.write_at(59, &[3; 2]), Err(BufFull));
    assert_eq!(buf.write_at(usize::MAX, &[3; 2]), Err(BufFull));
    assert_eq!((buf[57], buf[58], buf[59]), (1, 3, 3));
    buf.truncate(2);
    assert_eq!(buf.resize_zeroed(65), Err(BufFull));
    assert_eq!(buf.resize_zeroed(4), Ok(()));
    assert_eq!(&buf[..], [1, 1, 0, 0]);
    let told = buf.encode_into(|spare| {
        assert_eq!(spare.len(), 60);
        spare[..3].copy_from_slice(&[7, 8, 9]);
        (3, "result")
    });
    assert_eq!((told, &buf[4..]), ("result", &[7, 8, 9][..]));
    buf.spare_ptr();
    // SAFETY: all of the capacity has been content since the buffer was allocated, or is poison.
    unsafe { buf.set_len(64) };
    assert_eq!(buf.spare(), 0);
}

#[test]
fn freed_bytes_are_overwritten() {
    let slab = single(&[(64, 1)]);
    drop(filled(&slab, &[0x42; 64]));
    let mut buf = slab.alloc(64).expect("it came home");
    buf.encode_into(|spare| {
        assert!(spare.iter().all(|byte| *byte == POISON));
        (0, ())
    });
    assert!(buf.is_empty());
}

#[test]
fn slices_share_a_buffer_and_the_last_frees_it() {
    let slab = single(&[(64, 1)]);
    let mut whole = filled(&slab, b"head|data|tail");
    let data = whole.slice(5..=8);
    let head = whole.split_to(5);
    whole.advance(5);
    assert_eq!((&head[..], &data[..], &whole[..]), (&b"head|"[..], &b"data"[..], &b"tail"[..]));
    let again = data.clone();
    assert_eq!((again.as_ptr(), again.len()), (data.as_ptr(), 4));
    drop((head, whole, data));
    assert_eq!(slab.counters().in_use(), 1);
    assert!(again.is_unique());
    let mut buf = again.try_into_buf().expect("the only slice");
    assert_eq!(&buf[..], b"head|data");
    buf.clear();
    let slice = buf.freeze();
    let copy = slice.clone();
    let slice = slice.try_into_buf().expect_err("there are two");
    drop((slice, copy));
    assert_eq!(slab.counters().in_use(), 0);
}

#[test]
#[should_panic(expected = "range end index 5 out of range")]
fn slicing_beyond_the_content_panics() {
    let slab = single(&[(64, 1)]);
    filled(&slab, b"four").slice(..5);
}

#[test]
fn a_payload_splits_anywhere() {
    let slab = single(&[(64, 16)]);
    let bytes = b"abcdefghij";
    for cut in 0..=bytes.len() {
        let mut payload = Payload::new();
        for part in [&bytes[..3], &[], &bytes[3..4], &bytes[4..]] {
            payload.push(filled(&slab, part)).expect("a place for a segment");
        }
        assert_eq!((payload.total_len(), payload.segments().len()), (10, 3));
        let front = payload.split_front(cut);
        assert_eq!((front.total_len(), payload.total_len()), (cut, 10 - cut));
        assert_eq!(
            front.iter().flatten().chain(payload.iter().flatten()).copied().collect::<Vec<_>>(),
            bytes
        );
        assert!(front.iter().chain(payload.iter()).all(|segment| !segment.is_empty()));
    }
    assert_eq!(slab.counters().in_use(), 0);
}

#[test]
fn a_payload_shows_its_head_in_one_piece() {
    let slab = single(&[(64, 16)]);
    let mut payload = Payload::from(filled(&slab, b"abc"));
    payload.push(filled(&slab, b"defg")).expect("a place for a segment");
    assert_eq!(payload.first(), b"abc");
    assert_eq!(payload.head(&mut [0; 2]), b"abc");
    assert_eq!(payload.head(&mut [0; 5]), b"abcde");
    assert_eq!(payload.head(&mut [0; 50]), b"abcdefg");
    assert_eq!(Payload::from(filled(&slab, b"abc")).head(&mut [0; 50]), b"abc");
    assert_eq!(Payload::new().head(&mut [0; 50]), b"");
    payload.advance(2);
    payload.truncate(3);
    assert_eq!(payload.iter().collect::<Vec<_>>(), [&b"c"[..], b"de"]);
    let mut into = [0; 2];
    assert_eq!((payload.copy_to_slice(&mut into), into), (2, *b"cd"));
    for _ in payload.segments().len()..headgate::limits::PAYLOAD_SEGMENTS {
        payload.push(filled(&slab, b"x")).expect("a place for a segment");
    }
    assert!(payload.is_full());
    assert_eq!(&payload.push(filled(&slab, b"y")).expect_err("no place is left")[..], b"y");
    assert_eq!(payload.into_iter().map(|segment| segment.len()).sum::<usize>(), 3 + 6);
    assert_eq!(slab.counters().in_use(), 0);
}

#[test]
fn bad_configurations_are_refused() {
    for classes in [
        &[][..],
        &[(100, 1)],
        &[(32, 1)],
        &[(64, 0)],
        &[(64, 1), (64, 2)],
        &[(1 << 31, 1)],
        &[(1 << 30, 1 << 26)],
        &[(64, usize::MAX)],
    ] {
        let endpoint = SlabMesh::new(1).remove(0);
        assert!(memory::install(CoreId(0), &config(classes), endpoint).is_err(), "{classes:?}");
    }
    let endpoint = SlabMesh::new(2).remove(1);
    assert!(memory::install(CoreId(0), &config(&[(64, 1)]), endpoint).is_err());
    assert!(Slab::try_current().is_none());
    let _slab = single(&[(64, 1)]);
    let second = SlabMesh::new(1).remove(0);
    assert!(memory::install(CoreId(0), &config(&[(64, 1)]), second).is_err());
}

/// Two cores that do in turn what the test says; the first one owns the buffers.
#[test]
fn away_frees_go_home_in_batches() {
    let mut mesh = SlabMesh::new(2);
    let (far, near) = (mesh.remove(1), mesh.remove(0));
    let slab = install(near, &[(64, 200)]);
    let bufs: Vec<_> = (0..130).map(|_| slab.alloc(1).expect("a free buffer")).collect();
    let far = thread::spawn(move || {
        let slab = install(far, &[(64, 1)]);
        drop(bufs);
        let counters = slab.counters();
        assert_eq!((counters.frees_away, counters.batches_sent, counters.pending_away), (130, 2, 2));
        slab.end_of_turn();
        slab.end_of_turn();
        let counters = slab.counters();
        assert_eq!((counters.batches_sent, counters.pending_away, counters.frees_unbatched), (3, 0, 0));
        assert_eq!(counters.batch_sizes, [0, 1, 0, 0, 0, 0, 2]);
        assert_eq!((counters.in_use(), counters.frees_home), (0, 0));
    });
    far.join().expect("the far core's assertions hold");
    assert_eq!(slab.counters().in_use(), 130);
    assert!(slab.returns_waiting());
    assert_eq!(slab.collect_returns(), 130);
    assert!(!slab.returns_waiting());
    assert_eq!(slab.collect_returns(), 0);
    let counters = slab.counters();
    assert_eq!((counters.in_use(), counters.returned, counters.frees_home, counters.stray), (0, 130, 0, 0));
}

#[test]
fn a_thread_without_a_slab_returns_buffers_too() {
    let slab = single(&[(64, 4)]);
    let bufs: Vec<_> = (0..3).map(|_| slab.alloc(1).expect("a free buffer")).collect();
    thread::spawn(move || drop(bufs)).join().expect("dropping does not panic");
    assert!(slab.returns_waiting());
    assert_eq!(slab.collect_returns(), 3);
    let counters = slab.counters();
    assert_eq!((counters.stray, counters.returned, counters.in_use()), (3, 0, 0));
}

#[test]
fn a_buffer_outlives_its_slab() {
    let buf = thread::spawn(|| {
        let slab = single(&[(64, 4)]);
        let mut buf = slab.alloc(1).expect("a free buffer");
        buf.extend_from_slice(b"still here").expect("room");
        buf
    })
    .join()
    .expect("the core ends in peace");
    assert_eq!(&buf[..], b"still here");
    drop(buf);
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn waiters_are_served_in_order_and_only_then_woken() {
    let slab = single(&[(64, 1), (256, 1)]);
    let wakes: [Arc<Wakes>; 3] = Default::default();
    let wakers = wakes.clone().map(Waker::from);
    let woken = || wakes.iter().map(|wakes| wakes.0.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let [mut first, mut second, mut third] = wakers.each_ref().map(Context::from_waker);

    let mut large = pin!(slab.alloc_wait(257));
    assert!(matches!(large.as_mut().poll(&mut first), Poll::Ready(Err(TooLarge))));

    let (small_buf, large_buf) = (slab.alloc(64).expect("free"), slab.alloc(256).expect("free"));
    let mut wants_large = pin!(slab.alloc_wait(256));
    let mut wants_small = pin!(slab.alloc_wait(1));
    let mut wants_more = pin!(slab.alloc_wait(1));
    assert!(wants_large.as_mut().poll(&mut first).is_pending());
    assert!(wants_small.as_mut().poll(&mut second).is_pending());
    assert!(wants_more.as_mut().poll(&mut third).is_pending());
    assert_eq!((slab.counters().waiters, slab.counters().waits), (3, 3));

    // A small buffer does not suit the first, and nobody else may take it.
    drop(small_buf);
    assert_eq!(woken(), [0, 1, 0]);
    assert!(slab.alloc(1).is_none());
    let Poll::Ready(Ok(small_buf)) = wants_small.as_mut().poll(&mut second) else { panic!("it was granted") };
    // A large one suits both that are left; the first came first.
    drop(large_buf);
    assert_eq!(woken(), [1, 1, 0]);
    let Poll::Ready(Ok(large_buf)) = wants_large.as_mut().poll(&mut first) else { panic!("it was granted") };
    // A larger class serves who waits for a smaller one.
    drop(large_buf);
    assert_eq!(woken(), [1, 1, 1]);
    let Poll::Ready(Ok(buf)) = wants_more.as_mut().poll(&mut third) else { panic!("it was granted") };
    assert_eq!(buf.capacity(), 256);
    drop((buf, small_buf));
    assert_eq!((slab.counters().waiters, slab.counters().in_use()), (0, 0));
}

#[test]
fn a_dropped_waiter_passes_its_buffer_on() {
    let slab = single(&[(64, 1)]);
    let wakes: [Arc<Wakes>; 2] = Default::default();
    let wakers = wakes.clone().map(Waker::from);
    let held = slab.alloc(1).expect("free");
    let mut leaves = Box::pin(slab.alloc_wait(1));
    let mut middle = Box::pin(slab.alloc_wait(1));
    let mut stays = Box::pin(slab.alloc_wait(1));
    assert!(leaves.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
    assert!(middle.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
    assert!(stays.as_mut().poll(&mut Context::from_waker(&wakers[1])).is_pending());
    drop(held);
    assert_eq!(wakes[0].0.load(Ordering::Relaxed), 1);
    drop(middle);
    assert_eq!(wakes[1].0.load(Ordering::Relaxed), 0);
    drop(leaves);
    assert_eq!(wakes[1].0.load(Ordering::Relaxed), 1);
    drop(stays);
    assert_eq!(slab.counters().in_use(), 0);
    assert_eq!(slab.counters().waiters, 0);
}

#[test]
fn returns_serve_waiters_and_call_the_hook() {
    static CALLED: AtomicUsize = AtomicUsize::new(0);
    memory::set_wake_hook(|core| {
        // Other tests of this process use core 0 and 1 only.
        if core == CoreId(2) {
            CALLED.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut mesh = SlabMesh::new(3);
    let (near, far) = (mesh.remove(2), mesh.remove(0));
    let slab = install(near, &[(64, 1)]);
    let (send, receive) = mpsc::channel();
    let far = thread::spawn(move || {
        let slab = install(far, &[(64, 1)]);
        drop(receive.recv().expect("a buffer"));
        slab.end_of_turn();
    });
    send.send(slab.alloc(1).expect("free")).expect("the far core listens");
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut wait = pin!(slab.alloc_wait(1));
    // It may have come home already, but nobody has collected it.
    assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    far.join().expect("the far core ends in peace");
    assert_eq!((CALLED.load(Ordering::Relaxed), wakes.0.load(Ordering::Relaxed)), (1, 0));
    assert_eq!(slab.collect_returns(), 1);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert!(matches!(wait.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(Ok(_))));
}
