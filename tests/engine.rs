//! The engine on real cores: tasks, timers, messages, helper threads, the ring, sleeping and stopping.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use headgate::engine::{self, CoreId, Engine, blocking, ring, sync, testing};
use headgate::memory::Slab;
use io_uring::{opcode, types};

#[test]
fn tasks_run_and_yield() {
    let order = testing::block_on_core(|| async {
        let order = Rc::new(std::cell::RefCell::new(Vec::new()));
        for name in ["a", "b"] {
            let order = order.clone();
            engine::spawn(async move {
                for _ in 0..2 {
                    order.borrow_mut().push(name);
                    engine::yield_now().await;
                }
            });
        }
        engine::sleep(Duration::from_millis(5)).await;
        order.take()
    });
    assert_eq!(order, ["a", "b", "a", "b"]);
}

#[test]
fn a_panic_ends_its_task_alone() {
    let panics = testing::block_on_core(|| async {
        let alive = Rc::new(Cell::new(0));
        let other = alive.clone();
        engine::spawn(async { panic!("expected by the test") });
        engine::spawn(async move {
            engine::sleep(Duration::from_millis(2)).await;
            other.set(1);
        });
        engine::sleep(Duration::from_millis(10)).await;
        assert_eq!(alive.get(), 1, "the core lives on");
        engine::counters().panics
    });
    assert_eq!(panics, 1);
}

#[test]
fn timers_fire_in_order_and_timeouts_cancel() {
    testing::block_on_core(|| async {
        let begin = Instant::now();
        let late = engine::timeout(Duration::from_millis(20), engine::sleep(Duration::from_secs(3600))).await;
        assert_eq!(late, Err(engine::Elapsed));
        assert!(begin.elapsed() >= Duration::from_millis(20));
        let early = engine::timeout(Duration::from_secs(3600), engine::sleep(Duration::from_millis(1))).await;
        assert_eq!(early, Ok(()));
    });
}

#[test]
fn cores_ask_each_other_and_wake_from_sleep() {
    let (ids, sleeps) = testing::block_on_cores(3, || async {
        let mut ids = Vec::new();
        for round in 0..50u16 {
            if round % 10 == 0 {
                // Long enough for every core to fall asleep.
                engine::sleep(Duration::from_millis(3)).await;
            }
            ids.push(engine::ask(CoreId(round % 3), || async { engine::core_id().0 }).await);
        }
        (ids, engine::ask(CoreId(1), || async { engine::counters().sleeps }).await)
    });
    assert!(ids.iter().enumerate().all(|(round, &id)| id == round as u16 % 3));
    assert!(sleeps > 0, "an idle core sleeps");
}

#[test]
fn helpers_run_jobs_and_keep_the_order_of_a_key() {
    testing::block_on_cores(2, || async {
        assert_eq!(blocking::run(|| 6 * 7).await, 42);
        let log = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let done = Rc::new(Cell::new(0));
        for number in 0..20 {
            let (log, done) = (log.clone(), done.clone());
            engine::spawn(async move {
                blocking::run_keyed(7, move || {
                    std::thread::sleep(Duration::from_micros(200));
                    log.lock().expect("no job panics").push(number);
                })
                .await;
                done.set(done.get() + 1);
            });
        }
        while done.get() < 20 {
            engine::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(*log.lock().expect("no job panics"), (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn a_helper_that_panics_reaches_the_asker_and_serves_on() {
    testing::block_on_core(|| async {
        let outcome = Rc::new(Cell::new("pending"));
        let seen = outcome.clone();
        engine::spawn(async move {
            struct Ended(Rc<Cell<&'static str>>);
            impl Drop for Ended {
                fn drop(&mut self) {
                    self.0.set(if std::thread::panicking() { "panicked" } else { "returned" });
                }
            }
            let _ended = Ended(seen);
            blocking::run(|| panic!("expected by the test")).await;
        });
        // Printing a backtrace may take a while.
        for _ in 0..2000 {
            if outcome.get() != "pending" {
                break;
            }
            engine::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(outcome.get(), "panicked");
        assert_eq!(blocking::run(|| 1).await, 1);
    });
}

#[test]
fn a_dropped_operation_gives_its_buffer_back() {
    testing::block_on_core(|| async {
        // The first turns lend receive buffers to the kernel.
        engine::sleep(Duration::from_millis(1)).await;
        let slab = Slab::current();
        let before = slab.counters().in_use();
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        let mut buffer = slab.alloc(4096).expect("a fresh slab");
        let entry =
            opcode::Read::new(types::Fd(std::os::fd::AsRawFd::as_raw_fd(&reader)), buffer.as_mut_ptr(), 4096)
                .build();
        // SAFETY: the entry points into the buffer, which is kept.
        let operation = unsafe { ring::submit(entry, ring::Keep::Buf(buffer)) };
        let outcome = engine::timeout(Duration::from_millis(10), operation).await;
        assert!(outcome.is_err(), "nothing is ever written to the pipe");
        assert_eq!(
            slab.counters().in_use(),
            before + 1,
            "the kernel has it until the cancellation completes"
        );
        engine::sleep(Duration::from_millis(20)).await;
        assert_eq!(slab.counters().in_use(), before);
    });
}

#[test]
fn notify_is_kept_for_the_next_wait() {
    testing::block_on_core(|| async {
        let notify = Rc::new(sync::Notify::new());
        notify.notify();
        notify.wait().await;
        let other = notify.clone();
        engine::spawn(async move {
            engine::sleep(Duration::from_millis(1)).await;
            other.notify();
        });
        assert_eq!(engine::timeout(Duration::from_secs(10), notify.wait()).await, Ok(()));
    });
}

#[test]
fn a_foreign_thread_may_wake_a_task() {
    testing::block_on_core(|| async {
        let mut spawned = false;
        std::future::poll_fn(move |context| {
            if std::mem::replace(&mut spawned, true) {
                return std::task::Poll::Ready(());
            }
            let waker = context.waker().clone();
            std::thread::spawn(move || waker.wake());
            std::task::Poll::Pending
        })
        .await;
        assert!(engine::on_core());
    });
}

#[test]
fn an_idle_engine_uses_next_to_no_cpu() {
    let mut config = testing::config(2);
    config.idle.spin = Duration::from_micros(50);
    let engine = Engine::start(&config, |_| async {}).expect("a small engine starts");
    std::thread::sleep(Duration::from_millis(50));
    let (handle, longest) = (engine.handle(), Duration::from_secs(10));
    let before = handle.ask_all(longest, || async { engine::counters() });
    std::thread::sleep(Duration::from_millis(500));
    let after = handle.ask_all(longest, || async { engine::counters() });
    assert_eq!((before.len(), after.len()), (2, 2));
    for (before, after) in before.iter().zip(&after) {
        // A turn's worth of work for each question, and a wake or two of the clock: no loop of turns.
        assert!(after.turns - before.turns < 2000, "{} turns in half a second", after.turns - before.turns);
        assert!(after.sleeps > before.sleeps);
    }
}

#[test]
fn an_engine_stops_with_tasks_and_operations_under_way() {
    let engine = Engine::start(&testing::config(2), |_| async {
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        let mut buffer = Slab::current().alloc(4096).expect("a fresh slab");
        let fd = types::Fd(std::os::fd::AsRawFd::as_raw_fd(&reader));
        let entry = opcode::Read::new(fd, buffer.as_mut_ptr(), 4096).build();
        // SAFETY: the entry points into the buffer, which is kept.
        let done = unsafe { ring::submit(entry, ring::Keep::Buf(buffer)) }.await;
        panic!("nothing is ever written, but the read ended with {}", done.result);
    })
    .expect("a small engine starts");
    std::thread::sleep(Duration::from_millis(20));
    engine.stop();
}
