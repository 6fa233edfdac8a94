//! What a restart of the gateway means for locks (CB-082), and what the status monitor answers.

use std::time::Duration;

use headgate::engine;
use headgate::engine::testing::block_on_cores;
use headgate_proto::nlm::{Procedure, Res, Stats};
use headgate_proto::nsm::{self, MonId, MyId, Name, SmName, SmStat, SmStatRes};

use super::machine::{Heard, Machine};
use super::support::*;

/// CB-082: during the grace period only reclaims, and only of those who held locks; a second crash within it changes nothing.
#[test]
fn after_a_restart_only_its_clients_reclaim() {
    let (data, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(data.path().join("a"), "data").unwrap();
    let (data_path, state_path) = (data.path().to_owned(), state.path().to_owned());
    block_on_cores(2, move || async move {
        let rig = Rig::simple(&data_path, &state_path);
        let file = rig.handle("a").await;
        let fresh = rig.lock(&tcp("10.0.0.1:700"), &Wanted::of(&file, "a").reclaim()).await;
        assert_eq!(fresh, Stats::DeniedGracePeriod, "there is nothing to reclaim");
        assert_eq!(rig.lock(&tcp("10.0.0.1:700"), &Wanted::of(&file, "a")).await, Stats::Granted);
        let listed = std::fs::read_to_string(state_path.join("monitor.json")).unwrap();
        assert!(listed.contains("10.0.0.1"), "on storage before the lock is acknowledged: {listed}");
    });
    for crash in 0..2 {
        let (data_path, state_path) = (data.path().to_owned(), state.path().to_owned());
        block_on_cores(2, move || async move {
            let rig = Rig::simple(&data_path, &state_path);
            let (a, b, c) = (tcp("10.0.0.1:700"), tcp("10.0.0.2:700"), tcp("10.0.0.3:700"));
            let file = rig.handle("a").await;
            let (mine, other) = (Wanted::of(&file, "a"), Wanted::of(&file, "b"));
            assert_eq!(rig.lock(&b, &other).await, Stats::DeniedGracePeriod);
            assert_eq!(rig.lock(&a, &mine).await, Stats::DeniedGracePeriod);
            let tested = rig.test(&b, &other).await;
            assert_eq!(
                tested.results::<headgate_proto::nlm::TestRes<'_>>().reply.stats(),
                Stats::DeniedGracePeriod
            );
            assert_eq!(rig.unlock(&b, &other).await, Stats::DeniedGracePeriod);
            assert_eq!(
                rig.lock(&c, &Wanted::of(&file, "c").reclaim()).await,
                Stats::Denied,
                "c held nothing"
            );
            if crash == 1 {
                assert_eq!(rig.lock(&a, &mine.reclaim()).await, Stats::Granted);
                assert_eq!(rig.lock(&a, &mine.reclaim()).await, Stats::Granted, "asked again");
            }
        });
    }
}

/// The end of the grace period, and the notices of a restart: from the address that the client knows, by address and by name.
#[test]
fn clients_are_told_of_a_restart_and_grace_ends() {
    let (data, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(data.path().join("a"), "data").unwrap();
    let machine = Machine::start(72, 0);
    let (address, port) = (machine.address, machine.port);
    let (data_path, state_path) = (data.path().to_owned(), state.path().to_owned());
    block_on_cores(2, move || async move {
        let exports = vec![exported("/data", 1, &data_path, vec![everybody()])];
        let rig = Rig::start(exports, &state_path, port, GRACE);
        let file = rig.handle("a").await;
        assert_eq!(rig.lock(&tcp_from(address), &Wanted::of(&file, "a")).await, Stats::Granted);
    });
    let (data_path, state_path) = (data.path().to_owned(), state.path().to_owned());
    block_on_cores(2, move || async move {
        let exports = vec![exported("/data", 1, &data_path, vec![everybody()])];
        let rig = Rig::start(exports, &state_path, port, Duration::from_millis(300));
        assert_eq!(machine.next().await, Heard::Notice { name: "127.0.0.1".into(), state: 3 });
        assert!(matches!(machine.next().await, Heard::Notice { state: 3, .. }));
        let file = rig.handle("a").await;
        let b = tcp("10.0.0.2:700");
        while rig.lock(&b, &Wanted::of(&file, "b")).await == Stats::DeniedGracePeriod {
            engine::sleep(Duration::from_millis(20)).await;
        }
        let late = rig.lock(&tcp_from(address), &Wanted::of(&file, "a").reclaim()).await;
        assert_eq!(late, Stats::DeniedGracePeriod, "too late to reclaim");
        assert_eq!(rig.lock(&tcp_from(address), &Wanted::of(&file, "a")).await, Stats::Denied, "b has it");
        // A client that came back for nothing is forgotten once grace is over; b is listed.
        let listed = || std::fs::read_to_string(state_path.join("monitor.json")).unwrap();
        while listed().contains(&format!("\"{address}\"")) && !listed().contains("10.0.0.2") {
            engine::sleep(Duration::from_millis(20)).await;
        }
        assert!(listed().contains("10.0.0.2"));
    });
}

/// Locks must not be acknowledged when the list of clients cannot be kept.
#[test]
fn without_storage_there_are_no_locks() {
    let (data, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(data.path().join("a"), "data").unwrap();
    block_on_cores(2, move || async move {
        let dir = state.path().join("state");
        std::fs::create_dir(&dir).unwrap();
        let rig = Rig::simple(data.path(), &dir);
        let file = rig.handle("a").await;
        let a = tcp("10.0.0.1:700");
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(rig.lock(&a, &Wanted::of(&file, "a")).await, Stats::DeniedNolocks);
        std::fs::create_dir(&dir).unwrap();
        assert_eq!(
            rig.lock(&a, &Wanted::of(&file, "a")).await,
            Stats::Granted,
            "as soon as there is storage"
        );
        let locked = rig.nlm(&a, Procedure::Lock, &Wanted::of(&file, "a").lock_args()).await;
        assert_eq!(locked.results::<Res<'_>>().stat, Stats::Granted);
    });
}

/// The monitor watches for its own lock manager only, and says so.
#[test]
fn the_status_monitor_answers_what_it_is_asked() {
    let (data, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    block_on_cores(1, move || async move {
        let rig = Rig::simple(data.path(), state.path());
        let conn = udp("10.0.0.1:700");
        let name = Name::new(b"host").unwrap();
        let my_id = MyId { my_name: name, my_prog: 1, my_vers: 1, my_proc: 1 };
        let mon_id = MonId { mon_name: name, my_id };
        let mon = nsm::Mon { mon_id, private: [0; 16] };
        let unwatched = SmStatRes { res: nsm::Res::Fail, state: 1 };
        assert_eq!(
            rig.call(&conn, NSM, 1, &SmName { mon_name: name }).await.results::<SmStatRes>(),
            unwatched
        );
        assert_eq!(rig.call(&conn, NSM, 2, &mon).await.results::<SmStatRes>(), unwatched);
        assert_eq!(rig.call(&conn, NSM, 3, &mon_id).await.results::<SmStat>(), SmStat { state: 1 });
        assert_eq!(rig.call(&conn, NSM, 4, &my_id).await.results::<SmStat>(), SmStat { state: 1 });
        assert!(rig.call(&conn, NSM, 5, &()).await.body().is_empty());
        assert!(rig.call(&conn, NSM, 0, &()).await.body().is_empty());
    });
}

/// The list of clients with locks is bounded; those that have none any more make room.
#[test]
fn a_full_list_of_clients_is_cleared_of_those_without_locks() {
    let (data, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["a", "b", "c"] {
        std::fs::write(data.path().join(name), "data").unwrap();
    }
    block_on_cores(2, move || async move {
        let rig = std::rc::Rc::new(Rig::simple(data.path(), state.path()));
        let mut files = Vec::new();
        for name in ["a", "b", "c"] {
            files.push(rig.handle(name).await);
        }
        let most = headgate::limits::LOCK_CLIENTS;
        let from = |n: usize| format!("10.1.{}.{}:700", n / 256, n % 256);
        let done = std::rc::Rc::new(std::cell::Cell::new(0));
        for n in 0..most {
            let (rig, counted, file, from) = (rig.clone(), done.clone(), files[n % 3].clone(), from(n));
            engine::spawn(async move {
                let granted = rig.lock(&tcp(&from), &Wanted::of(&file, "x").shared()).await;
                assert_eq!(granted, Stats::Granted);
                counted.set(counted.get() + 1);
            });
            // As many at once as a core serves.
            while n + 1 - done.get() >= 32 {
                engine::sleep(Duration::from_millis(1)).await;
            }
        }
        while done.get() < most {
            engine::sleep(Duration::from_millis(1)).await;
        }
        let one_more = Wanted::of(&files[0], "x").shared();
        assert_eq!(rig.lock(&tcp("10.9.9.9:700"), &one_more).await, Stats::DeniedNolocks, "all have locks");
        assert_eq!(rig.lock(&tcp(&from(7)), &one_more).await, Stats::Granted, "who is listed may go on");
        for n in [0, 3] {
            assert_eq!(rig.unlock(&tcp(&from(n)), &one_more).await, Stats::Granted);
        }
        engine::sleep(Duration::from_millis(200)).await;
        for host in ["10.9.9.8:700", "10.9.9.9:700"] {
            assert_eq!(rig.lock(&tcp(host), &one_more).await, Stats::Granted, "two have made room");
        }
        assert_eq!(rig.lock(&tcp("10.9.9.7:700"), &one_more).await, Stats::DeniedNolocks);
        let listed = std::fs::read_to_string(state.path().join("monitor.json")).unwrap();
        assert!(listed.contains("10.9.9.9") && !listed.contains("\"10.1.0.3\""));
    });
}
