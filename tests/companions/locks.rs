//! The lock manager: grants, conflicts, waiting, cancelling, and who may free what.

use headgate::engine::testing::block_on_cores;
use headgate::protocol::ConnInfo;
use headgate_proto::nlm::{
    CallerName, CancelArgs, Netobj, Notify, NotifyName, Procedure, Res, Share, ShareAccess, ShareArgs,
    ShareMode, ShareRes, Stats, TestArgs, TestReply, TestRes, UnlockArgs,
};
use headgate_proto::nsm::{Name, StatChge};
use headgate_proto::rpc::{AuthStat, Credential, OpaqueAuth, RejectStat};

use super::machine::{Heard, Machine, Mood};
use super::support::*;

/// Runs a test on cores 0 to 2 with files `a`, `b` and `c`.
fn on_cores<Fut: Future<Output = ()> + 'static>(test: impl FnOnce(Files) -> Fut + Send + 'static) {
    block_on_cores(3, move || async move {
        let files = Files { data: tempfile::tempdir().unwrap(), state: tempfile::tempdir().unwrap() };
        for name in ["a", "b", "c"] {
            std::fs::write(files.data.path().join(name), "data").unwrap();
        }
        test(files).await;
    });
}

struct Files {
    data: tempfile::TempDir,
    state: tempfile::TempDir,
}

impl Files {
    fn rig(&self) -> Rig {
        Rig::simple(self.data.path(), self.state.path())
    }

    fn rig_with(&self, portmap_port: u16) -> Rig {
        let exports = vec![exported("/data", 1, self.data.path(), vec![everybody()])];
        Rig::start(exports, self.state.path(), portmap_port, GRACE)
    }
}

/// Who holds what conflicts: exclusive, offset, length; nothing if the range is free.
fn holder(answer: &Answer) -> Option<(bool, u64, u64)> {
    match answer.results::<TestRes<'_>>().reply {
        TestReply::Denied(holder) => Some((holder.exclusive, holder.l_offset, holder.l_len)),
        TestReply::Other(_) => {
            assert_eq!(answer.results::<TestRes<'_>>().reply.stats(), Stats::Granted);
            None
        }
    }
}

async fn cancel(rig: &Rig, conn: &ConnInfo, wanted: Wanted<'_>) -> Stats {
    let args = CancelArgs { cookie: cookie(), block: true, exclusive: true, alock: wanted.alock() };
    rig.nlm(conn, Procedure::Cancel, &args).await.results::<Res<'_>>().stat
}

/// N-18: both directions of a change of mode, a sub-range, a retransmission, the middle.
#[test]
fn a_held_lock_is_upgraded_and_downgraded() {
    on_cores(|files| async move {
        let rig = files.rig();
        let (a, b) = (tcp("10.0.0.1:700"), tcp("10.0.0.2:700"));
        let file = rig.handle("a").await;
        let (mine, other) = (Wanted::of(&file, "a"), Wanted::of(&file, "b"));

        assert_eq!(rig.lock(&a, &mine.range(0, 101).shared()).await, Stats::Granted);
        assert_eq!(holder(&rig.test(&b, &other.range(0, 101).shared()).await), None);
        assert_eq!(rig.lock(&a, &mine.range(0, 101)).await, Stats::Granted);
        assert_eq!(holder(&rig.test(&b, &other.range(0, 101).shared()).await), Some((true, 0, 101)));
        assert_eq!(rig.lock(&a, &mine.range(50, 11).shared()).await, Stats::Granted);
        assert_eq!(holder(&rig.test(&b, &other.range(50, 11).shared()).await), None);
        assert_eq!(holder(&rig.test(&b, &other.range(50, 11)).await), Some((false, 50, 11)));
        assert_eq!(rig.lock(&a, &mine.range(50, 11).shared()).await, Stats::Granted);
        assert_eq!(rig.lock(&a, &mine.range(0, 101).shared()).await, Stats::Granted);
        assert_eq!(holder(&rig.test(&b, &other.range(0, 101).shared()).await), None);

        assert_eq!(rig.lock(&b, &other.range(90, 1).shared()).await, Stats::Granted);
        assert_eq!(rig.lock(&a, &mine.range(0, 101)).await, Stats::Denied, "b reads");
        assert_eq!(rig.unlock(&a, &mine.range(40, 10)).await, Stats::Granted);
        assert_eq!(holder(&rig.test(&b, &other.range(40, 10)).await), None);
        assert_eq!(holder(&rig.test(&b, &other.range(39, 1)).await), Some((false, 0, 40)));
        assert_eq!(holder(&rig.test(&b, &other.range(50, 1)).await), Some((false, 50, 51)));
    });
}

/// N-18: only the identical call is answered from memory; a late repetition of a LOCK does not lock again.
#[test]
fn a_repeated_call_is_executed_once() {
    on_cores(|files| async move {
        let rig = files.rig();
        let (a, b) = (tcp("10.0.0.1:700"), tcp("10.0.0.2:700"));
        let file = rig.handle("a").await;
        let mine = Wanted::of(&file, "a");
        let record = rig.record(NLM, Procedure::Lock as u32, root(), &mine.lock_args());
        let first = rig.send(&a, &record).await.unwrap();
        assert_eq!(first.results::<Res<'_>>().stat, Stats::Granted);
        assert_eq!(rig.unlock(&a, &mine).await, Stats::Granted);
        assert_eq!(rig.send(&a, &record).await.unwrap().0, first.0);
        assert_eq!(holder(&rig.test(&b, &Wanted::of(&file, "b")).await), None);
    });
}

#[test]
fn ranges_reach_to_the_end_and_not_beyond_64_bits() {
    on_cores(|files| async move {
        let rig = files.rig();
        let (a, b) = (tcp("10.0.0.1:700"), tcp("10.0.0.2:700"));
        let file = rig.handle("a").await;
        let (mine, other) = (Wanted::of(&file, "a"), Wanted::of(&file, "b"));
        assert_eq!(rig.lock(&a, &mine.range(u64::MAX, 2)).await, Stats::Fbig);
        assert_eq!(rig.lock(&a, &mine.range(5 << 30, 0)).await, Stats::Granted);
        assert_eq!(holder(&rig.test(&b, &other.range(u64::MAX, 1)).await), Some((true, 5 << 30, 0)));
        assert_eq!(holder(&rig.test(&b, &other.range(0, 5 << 30)).await), None);
    });
}

#[test]
fn a_blocked_lock_is_granted_by_a_call_back() {
    on_cores(|files| async move {
        let machine = Machine::start(22, 0);
        let rig = files.rig_with(machine.port);
        let (a, b) = (tcp("127.0.0.21:700"), tcp_from(machine.address));
        for name in ["a", "b", "c"] {
            let file = rig.handle(name).await;
            let (holder, waiter) = (Wanted::of(&file, "a"), Wanted::of(&file, "b").range(10, 5).blocking());
            assert_eq!(rig.lock(&a, &holder).await, Stats::Granted);
            assert_eq!(rig.lock(&b, &waiter).await, Stats::Blocked);
            assert_eq!(rig.lock(&b, &waiter).await, Stats::Blocked, "asking again waits on");
            assert_eq!(machine.next_within(std::time::Duration::from_millis(50)).await, None);
            assert_eq!(rig.unlock(&a, &holder).await, Stats::Granted);
            let expected = Heard::Granted {
                exclusive: true,
                svid: 7,
                oh: b"owner".to_vec(),
                fh: file.to_vec(),
                offset: 10,
                len: 5,
            };
            assert_eq!(machine.next().await, expected);
            assert_eq!(rig.lock(&b, &waiter).await, Stats::Granted, "asked once more, it is held");
            assert_eq!(rig.lock(&a, &holder).await, Stats::Denied);
            assert_eq!(rig.unlock(&b, &waiter).await, Stats::Granted);
            assert_eq!(rig.lock(&a, &holder).await, Stats::Granted);
        }
    });
}

#[test]
fn a_client_that_denies_loses_its_turn_to_the_next() {
    on_cores(|files| async move {
        let second = Machine::start(32, 0);
        let third = Machine::start(33, second.port);
        second.set_mood(Mood::Answers(Stats::Denied));
        let rig = files.rig_with(second.port);
        let (a, b, c) = (tcp("127.0.0.31:700"), tcp_from(second.address), tcp_from(third.address));
        let file = rig.handle("a").await;
        assert_eq!(rig.lock(&a, &Wanted::of(&file, "a")).await, Stats::Granted);
        assert_eq!(rig.lock(&b, &Wanted::of(&file, "b").blocking()).await, Stats::Blocked);
        assert_eq!(rig.lock(&c, &Wanted::of(&file, "c").blocking()).await, Stats::Blocked);
        assert_eq!(rig.unlock(&a, &Wanted::of(&file, "a")).await, Stats::Granted);
        assert!(matches!(second.next().await, Heard::Granted { .. }));
        assert!(matches!(third.next().await, Heard::Granted { .. }));
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while rig.lock(&c, &Wanted::of(&file, "c")).await != Stats::Granted {
            assert!(std::time::Instant::now() < until);
        }
        assert_eq!(rig.lock(&b, &Wanted::of(&file, "b")).await, Stats::Denied);
    });
}

#[test]
fn a_client_that_never_answers_loses_its_turn() {
    on_cores(|files| async move {
        let silent = Machine::start(42, 0);
        let other = Machine::start(43, silent.port);
        silent.set_mood(Mood::Silent);
        let rig = files.rig_with(silent.port);
        let (a, b, c) = (tcp("127.0.0.41:700"), tcp_from(silent.address), tcp_from(other.address));
        let file = rig.handle("a").await;
        assert_eq!(rig.lock(&a, &Wanted::of(&file, "a")).await, Stats::Granted);
        assert_eq!(rig.lock(&b, &Wanted::of(&file, "b").blocking()).await, Stats::Blocked);
        assert_eq!(rig.unlock(&a, &Wanted::of(&file, "a")).await, Stats::Granted);
        assert!(matches!(silent.next().await, Heard::Granted { .. }));
        assert_eq!(rig.lock(&c, &Wanted::of(&file, "c")).await, Stats::Denied, "the offer stands");
        assert_eq!(rig.lock(&c, &Wanted::of(&file, "c").blocking()).await, Stats::Blocked);
        // The waiting client goes away: its request is cancelled, and the next is served although the offer's call is still out.
        assert_eq!(cancel(&rig, &b, Wanted::of(&file, "b")).await, Stats::Granted);
        assert!(matches!(other.next().await, Heard::Granted { .. }));
    });
}

#[test]
fn a_cancelled_request_is_not_granted() {
    on_cores(|files| async move {
        let machine = Machine::start(52, 0);
        let rig = files.rig_with(machine.port);
        let (a, b) = (tcp("127.0.0.51:700"), tcp_from(machine.address));
        let file = rig.handle("a").await;
        let waiter = Wanted::of(&file, "b").range(3, 4).blocking();
        assert_eq!(rig.lock(&a, &Wanted::of(&file, "a")).await, Stats::Granted);
        assert_eq!(rig.lock(&b, &waiter).await, Stats::Blocked);
        assert_eq!(cancel(&rig, &a, waiter).await, Stats::Denied, "another's request");
        assert_eq!(cancel(&rig, &b, waiter.range(3, 5)).await, Stats::Denied, "another range");
        assert_eq!(cancel(&rig, &b, waiter).await, Stats::Granted);
        assert_eq!(cancel(&rig, &b, waiter).await, Stats::Denied);
        assert_eq!(rig.unlock(&a, &Wanted::of(&file, "a")).await, Stats::Granted);
        assert_eq!(machine.next_within(std::time::Duration::from_millis(100)).await, None);
    });
}

/// The asynchronous forms: the results come in a call of the gateway's.
#[test]
fn messages_are_answered_by_calls() {
    on_cores(|files| async move {
        let machine = Machine::start(62, 0);
        let rig = files.rig_with(machine.port);
        let file = rig.handle("a").await;
        let wanted = Wanted::of(&file, "a");
        for conn in [udp(&machine.at(700)), tcp(&machine.at(700))] {
            let alock = wanted.alock();
            let test = TestArgs { cookie: cookie(), exclusive: true, alock };
            let unlock = UnlockArgs { cookie: cookie(), alock };
            let cancel = CancelArgs { cookie: cookie(), block: true, exclusive: true, alock };
            assert!(rig.nlm(&conn, Procedure::TestMsg, &test).await.body().is_empty());
            assert_eq!(machine.next().await, Heard::Results { procedure: 11, stat: 0 });
            assert!(rig.nlm(&conn, Procedure::LockMsg, &wanted.lock_args()).await.body().is_empty());
            assert_eq!(machine.next().await, Heard::Results { procedure: 12, stat: 0 });
            rig.nlm(&conn, Procedure::CancelMsg, &cancel).await;
            assert_eq!(machine.next().await, Heard::Results { procedure: 13, stat: Stats::Denied as u32 });
            rig.nlm(&conn, Procedure::UnlockMsg, &unlock).await;
            assert_eq!(machine.next().await, Heard::Results { procedure: 14, stat: 0 });
        }
    });
}

/// N-13: notices and FREE_ALL of another address, and old ones of the client's own, free nothing.
#[test]
fn only_the_client_itself_frees_its_locks() {
    on_cores(|files| async move {
        let rig = files.rig();
        let (a, own, thief) = (tcp("10.0.0.1:700"), udp("10.0.0.1:900"), udp("10.0.0.9:700"));
        let mut handles = Vec::new();
        for name in ["a", "b", "c"] {
            handles.push(rig.handle(name).await);
        }
        for file in &handles {
            assert_eq!(rig.lock(&a, &Wanted::of(file, "a")).await, Stats::Granted);
        }
        let notice = |conn, state| {
            let rig = &rig;
            async move {
                let change = StatChge { mon_name: Name::new(b"a").unwrap(), state };
                assert!(rig.call(conn, NSM, 6, &change).await.body().is_empty());
                let notify = Notify { name: NotifyName::new(b"a").unwrap(), state };
                assert!(rig.nlm(conn, Procedure::FreeAll, &notify).await.body().is_empty());
            }
        };
        let held = || {
            let (rig, handles) = (&rig, &handles);
            async move {
                let mut held = 0;
                for file in handles {
                    let test = rig.test(&tcp("10.0.0.7:700"), &Wanted::of(file, "other")).await;
                    held += usize::from(holder(&test).is_some());
                }
                held
            }
        };
        for state in [1, 2, 3, 5, i32::MAX] {
            notice(&thief, state).await;
        }
        assert_eq!(held().await, 3);
        for state in [1, 2, 3] {
            notice(&own, state).await;
        }
        assert_eq!(held().await, 3, "the locks were taken with state 3");
        // An UNLOCK in A's name from another address.
        assert_eq!(rig.unlock(&tcp("10.0.0.9:700"), &Wanted::of(&handles[0], "a")).await, Stats::Granted);
        assert_eq!(held().await, 3);
        // What the new instance locks is not touched by its own late notice, nor by its repetition.
        let next = Wanted { state: 5, ..Wanted::of(&handles[0], "a") };
        assert_eq!(rig.lock(&a, &next).await, Stats::Granted);
        notice(&own, 5).await;
        assert_eq!(held().await, 1);
        notice(&own, 5).await;
        assert_eq!(held().await, 1);
    });
}

/// NM_LOCK and SHARE are for clients without a monitor: FREE_ALL frees them, whatever the state number.
#[test]
fn free_all_frees_what_nobody_monitors() {
    on_cores(|files| async move {
        let rig = files.rig();
        let (a, b) = (tcp("10.0.0.1:700"), tcp("10.0.0.2:700"));
        let file = rig.handle("a").await;
        let mine = Wanted { state: 0, ..Wanted::of(&file, "a") };
        let locked = rig.nlm(&a, Procedure::NmLock, &mine.lock_args()).await;
        assert_eq!(locked.results::<Res<'_>>().stat, Stats::Granted);
        let share = |oh: &'static str, mode, access| ShareArgs {
            cookie: cookie(),
            share: Share {
                caller_name: CallerName::new(b"x").unwrap(),
                fh: Netobj::new(&file).unwrap(),
                oh: Netobj::new(oh.as_bytes()).unwrap(),
                mode,
                access,
            },
            reclaim: false,
        };
        let take = |conn, args| {
            let rig = &rig;
            async move { rig.nlm(conn, Procedure::Share, &args).await.results::<ShareRes<'_>>().stat }
        };
        let deny_write = share("1", ShareMode::DenyWrite, ShareAccess::Read);
        let write = share("2", ShareMode::DenyNone, ShareAccess::Write);
        assert_eq!(take(&a, deny_write).await, Stats::Granted);
        assert_eq!(take(&b, write).await, Stats::Denied);
        let notify = Notify { name: NotifyName::new(b"a").unwrap(), state: 0 };
        rig.nlm(&b, Procedure::FreeAll, &notify).await;
        assert_eq!(take(&b, write).await, Stats::Denied, "b freed its own only");
        rig.nlm(&a, Procedure::FreeAll, &notify).await;
        assert_eq!(take(&b, write).await, Stats::Granted);
        assert_eq!(rig.lock(&b, &Wanted::of(&file, "b")).await, Stats::Granted);
        let given_back = rig.nlm(&b, Procedure::Unshare, &write).await;
        assert_eq!(given_back.results::<ShareRes<'_>>().stat, Stats::Granted);
        assert_eq!(take(&a, deny_write).await, Stats::Granted);
    });
}

/// Handles: forged, of another kind of object, of a file that is gone. The locks of a file that is gone can still be given back.
#[test]
fn only_files_that_are_there_can_be_locked() {
    on_cores(|files| async move {
        let rig = files.rig();
        let (a, b) = (tcp("10.0.0.1:700"), tcp("10.0.0.2:700"));
        std::fs::create_dir(files.data.path().join("dir")).unwrap();
        let (file, dir) = (rig.handle("a").await, rig.handle("dir").await);
        let mut forged = file.clone();
        forged[10] ^= 1;
        assert_eq!(rig.lock(&a, &Wanted::of(&forged, "a")).await, Stats::StaleFh);
        assert_eq!(rig.unlock(&a, &Wanted::of(&forged, "a")).await, Stats::StaleFh);
        assert_eq!(rig.lock(&a, &Wanted::of(&dir, "a")).await, Stats::Failed);
        assert_eq!(rig.lock(&a, &Wanted::of(&file, "a")).await, Stats::Granted);
        std::fs::remove_file(files.data.path().join("a")).unwrap();
        assert_eq!(rig.unlock(&a, &Wanted::of(&file, "a")).await, Stats::Granted);
        assert_eq!(rig.lock(&b, &Wanted::of(&file, "b")).await, Stats::StaleFh);
    });
}

/// CB-043, CB-044: rules and identities hold for locks as for everything else.
#[test]
fn export_rules_and_permissions_hold_for_locks() {
    use headgate::config::{ClientMatch, ExportAccess, Network, Rule};
    on_cores(|files| async move {
        let net = |text: &str| ClientMatch::Network(Network::new(text.parse().unwrap(), 24).unwrap());
        let read_only = Rule { access: ExportAccess::ReadOnly, clients: net("10.0.1.0"), ..everybody() };
        let writable = Rule { clients: net("10.0.0.0"), ..everybody() };
        let exports = vec![exported("/data", 1, files.data.path(), vec![read_only, writable])];
        let rig = Rig::start(exports, files.state.path(), 1, GRACE);
        let file = rig.handle("a").await;
        let mine = Wanted::of(&file, "a");
        assert_eq!(rig.lock(&tcp("10.0.9.1:700"), &mine).await, Stats::Failed, "no rule for this address");
        assert_eq!(rig.lock(&tcp("10.0.1.1:700"), &mine).await, Stats::Rofs);
        assert_eq!(rig.lock(&tcp("10.0.1.1:700"), &mine.shared()).await, Stats::Granted);
        assert_eq!(rig.unlock(&tcp("10.0.1.1:700"), &mine).await, Stats::Granted);
        let flavor = headgate_proto::rpc::AuthFlavor::RPCSEC_GSS;
        let gss = Credential::Other(OpaqueAuth { flavor, body: &[0; 8] });
        let record = rig.record(NLM, Procedure::Lock as u32, gss, &mine.lock_args());
        let refused = rig.send(&tcp("10.0.0.1:700"), &record).await.unwrap();
        assert_eq!(refused.rejected(), RejectStat::AuthError(AuthStat::BadCred));

        if rustix::process::geteuid().is_root() {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::Permissions::from_mode;
            std::fs::set_permissions(files.data.path(), mode(0o755)).unwrap();
            std::fs::set_permissions(files.data.path().join("a"), mode(0o600)).unwrap();
            let as_user = |uid| rig.record(NLM, Procedure::Lock as u32, user(uid), &mine.lock_args());
            let denied = rig.send(&tcp("10.0.0.1:700"), &as_user(1000)).await.unwrap();
            assert_eq!(denied.results::<Res<'_>>().stat, Stats::Failed);
            std::os::unix::fs::chown(files.data.path().join("a"), Some(1000), None).unwrap();
            let owner = rig.send(&tcp("10.0.0.1:700"), &as_user(1000)).await.unwrap();
            assert_eq!(owner.results::<Res<'_>>().stat, Stats::Granted);
        }
    });
}

#[test]
fn what_only_servers_or_lock_clients_are_asked_is_answered_sanely() {
    on_cores(|files| async move {
        let rig = files.rig();
        let a = tcp("10.0.0.1:700");
        let file = rig.handle("a").await;
        let granted = TestArgs { cookie: cookie(), exclusive: true, alock: Wanted::of(&file, "a").alock() };
        let answer = rig.nlm(&a, Procedure::Granted, &granted).await;
        assert_eq!(answer.results::<Res<'_>>().stat, Stats::Denied, "the gateway waits for no lock");
        let res = Res { cookie: cookie(), stat: Stats::Granted };
        assert!(rig.nlm(&a, Procedure::GrantedRes, &res).await.body().is_empty());
        assert!(rig.nlm(&a, Procedure::Null, &()).await.body().is_empty());
    });
}
