//! The table against a model that keeps the owner and mode of every byte.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Who {
    client: u8,
    process: u8,
}

impl Owner for Who {
    type Client = u8;
    fn client(&self) -> u8 {
        self.client
    }
}

type Table = LockTable<u8, Who>;

const ROOMY: Bounds = Bounds {
    locks: 10_000,
    per_file: 10_000,
    per_client: 10_000,
    waiters: 10_000,
    waiters_per_file: 10_000,
    waiters_per_client: 10_000,
};

fn who(client: u8, process: u8) -> Rc<Who> {
    Rc::new(Who { client, process })
}

fn lock(owner: &Rc<Who>, offset: u64, len: u64, mode: Mode) -> Lock<Who> {
    Lock { owner: owner.clone(), range: Range::new(offset, len).unwrap(), mode, instance: 1 }
}

/// What is held on file 0, sorted: first, last, mode, owner.
fn held(table: &Table) -> Vec<(u64, u64, Mode, Who)> {
    let mut all: Vec<_> =
        table.held(&0).iter().map(|l| (l.range.first(), l.range.last(), l.mode, *l.owner)).collect();
    all.sort_by_key(|(first, _, _, owner)| (*first, *owner));
    all
}

use Mode::{Exclusive, Shared};

/// N-18: changes of mode are done, ranges split and merge, a retransmission changes nothing.
#[test]
fn locks_are_upgraded_downgraded_split_and_merged() {
    let mut table = Table::new(ROOMY);
    let (a, b) = (who(1, 1), who(2, 1));
    table.lock(&0, lock(&a, 0, 100, Shared)).unwrap();
    table.lock(&0, lock(&a, 0, 100, Exclusive)).unwrap();
    assert_eq!(held(&table), [(0, 99, Exclusive, *a)]);
    assert!(
        table.test(&0, &b, Range::new(50, 1).unwrap(), Shared).is_some(),
        "the upgrade counts for others"
    );

    table.lock(&0, lock(&a, 50, 10, Shared)).unwrap();
    assert_eq!(held(&table), [(0, 49, Exclusive, *a), (50, 59, Shared, *a), (60, 99, Exclusive, *a)]);
    assert!(
        table.test(&0, &b, Range::new(50, 10).unwrap(), Shared).is_none(),
        "the downgrade counts for others"
    );
    table.lock(&0, lock(&a, 50, 10, Shared)).unwrap();
    assert_eq!(table.held_count(), 3, "a retransmission is the same lock");

    table.lock(&0, lock(&a, 50, 10, Exclusive)).unwrap();
    assert_eq!(held(&table), [(0, 99, Exclusive, *a)]);
    assert_eq!(table.unlock(&0, &a, Range::new(40, 20).unwrap()), Ok(true));
    assert_eq!(held(&table), [(0, 39, Exclusive, *a), (60, 99, Exclusive, *a)]);
    assert_eq!(table.unlock(&0, &a, Range::new(40, 20).unwrap()), Ok(false));
}

/// N-18: an upgrade that another owner's lock forbids is refused and leaves the old lock.
#[test]
fn an_upgrade_against_another_reader_is_refused() {
    let mut table = Table::new(ROOMY);
    let (a, b) = (who(1, 1), who(1, 2));
    table.lock(&0, lock(&a, 0, 100, Shared)).unwrap();
    table.lock(&0, lock(&b, 90, 100, Shared)).unwrap();
    assert_eq!(table.lock(&0, lock(&a, 0, 100, Exclusive)), Err(Refused::Conflict));
    assert_eq!(held(&table), [(0, 99, Shared, *a), (90, 189, Shared, *b)]);
    table.lock(&0, lock(&a, 0, 90, Exclusive)).unwrap();
}

#[test]
fn those_who_wait_are_served_in_order_and_must_accept() {
    let mut table = Table::new(ROOMY);
    let (a, b, c, d) = (who(1, 1), who(2, 1), who(3, 1), who(4, 1));
    table.lock(&0, lock(&a, 0, 0, Exclusive)).unwrap();
    let of_b = table.wait(&0, lock(&b, 0, 10, Exclusive)).unwrap();
    let of_c = table.wait(&0, lock(&c, 5, 10, Shared)).unwrap();
    let of_d = table.wait(&0, lock(&d, 50, 10, Shared)).unwrap();
    assert_eq!(table.wait(&0, lock(&c, 5, 10, Shared)), Ok(of_c), "asking again does not wait twice");
    assert!(table.offer_next(&0).is_empty());

    table.unlock(&0, &a, Range::ALL).unwrap();
    let offers: Vec<_> = table.offer_next(&0).iter().map(|o| o.ticket).collect();
    assert_eq!(offers, [of_b, of_d], "c waits behind b, with whom it conflicts");
    assert_eq!(table.lock(&0, lock(&a, 0, 1, Shared)), Err(Refused::Conflict), "an offer keeps others away");
    assert_eq!(table.held_count(), 0);

    assert!(table.accept(&0, of_d));
    assert!(!table.accept(&0, of_d));
    assert!(table.refuse(&0, of_b));
    let offers: Vec<_> = table.offer_next(&0).iter().map(|o| o.ticket).collect();
    assert_eq!(offers, [of_c], "what b did not take goes to c");
    // c asks again before the offer reaches it: that takes the offer.
    table.lock(&0, lock(&c, 5, 10, Shared)).unwrap();
    assert!(!table.is_offered(&0, of_c) && !table.accept(&0, of_c) && !table.refuse(&0, of_c));
    assert_eq!(held(&table), [(5, 14, Shared, *c), (50, 59, Shared, *d)]);
}

#[test]
fn an_offer_ends_by_cancel_or_unlock() {
    let mut table = Table::new(ROOMY);
    let (a, b) = (who(1, 1), who(2, 1));
    for by_unlock in [false, true] {
        table.lock(&0, lock(&a, 0, 10, Exclusive)).unwrap();
        let ticket = table.wait(&0, lock(&b, 0, 10, Shared)).unwrap();
        table.unlock(&0, &a, Range::ALL).unwrap();
        assert_eq!(table.offer_next(&0).len(), 1);
        assert!(!table.cancel(&0, &b, Range::new(0, 9).unwrap(), Shared), "another range");
        assert!(!table.cancel(&0, &b, Range::new(0, 10).unwrap(), Exclusive), "another mode");
        if by_unlock {
            assert_eq!(table.unlock(&0, &b, Range::new(3, 1).unwrap()), Ok(true));
        } else {
            assert!(table.cancel(&0, &b, Range::new(0, 10).unwrap(), Shared));
        }
        assert!(!table.accept(&0, ticket));
        assert_eq!((table.held_count(), table.files.len()), (0, 0));
    }
}

#[test]
fn a_wait_is_cancelled_by_its_owner_only() {
    let mut table = Table::new(ROOMY);
    let (a, b) = (who(1, 1), who(2, 1));
    table.lock(&0, lock(&a, 0, 10, Exclusive)).unwrap();
    table.wait(&0, lock(&b, 0, 10, Shared)).unwrap();
    assert!(!table.cancel(&0, &a, Range::new(0, 10).unwrap(), Shared));
    assert!(table.cancel(&0, &b, Range::new(0, 10).unwrap(), Shared));
    assert_eq!(table.waiting_count(), 0);
}

/// An owner who waits to upgrade keeps what it has while the offer is on its way.
#[test]
fn an_upgrade_may_wait() {
    let mut table = Table::new(ROOMY);
    let (a, b) = (who(1, 1), who(2, 1));
    table.lock(&0, lock(&a, 0, 10, Shared)).unwrap();
    table.lock(&0, lock(&b, 0, 10, Shared)).unwrap();
    let ticket = table.wait(&0, lock(&a, 0, 10, Exclusive)).unwrap();
    table.unlock(&0, &b, Range::ALL).unwrap();
    assert_eq!(table.offer_next(&0).len(), 1);
    assert_eq!(held(&table), [(0, 9, Shared, *a)]);
    assert!(table.refuse(&0, ticket));
    assert_eq!(held(&table), [(0, 9, Shared, *a)], "a refused upgrade leaves the old lock");
}

#[test]
fn a_clients_old_instance_is_released_and_its_new_one_is_not() {
    let mut table = Table::new(ROOMY);
    let (a, b, other) = (who(1, 1), who(1, 2), who(2, 1));
    table.lock(&0, Lock { instance: 3, ..lock(&a, 0, 10, Exclusive) }).unwrap();
    table.lock(&0, Lock { instance: 5, ..lock(&a, 10, 10, Exclusive) }).unwrap();
    table.lock(&1, Lock { instance: 3, ..lock(&b, 0, 10, Exclusive) }).unwrap();
    table.lock(&2, lock(&other, 0, 10, Exclusive)).unwrap();
    table.wait(&2, Lock { instance: 3, ..lock(&b, 0, 10, Exclusive) }).unwrap();
    let waiting = table.wait(&0, lock(&other, 0, 5, Shared)).unwrap();

    let mut touched = table.release_client(1, |lock| lock.instance < 5);
    touched.sort();
    assert_eq!(touched, [0, 1, 2]);
    assert_eq!(held(&table), [(10, 19, Exclusive, *a)], "what the new instance took stays");
    assert_eq!(table.offer_next(&0).first().map(|offer| offer.ticket), Some(waiting));
    assert!(table.offer_next(&2).is_empty());
    assert_eq!((table.held_count(), table.waiting_count()), (2, 0));
    assert_eq!(table.clients(), [1, 2].into());
    assert!(table.release_client(1, |_| true).contains(&0));
    assert_eq!(table.clients(), [2].into());
    assert!(table.release_client(1, |_| true).is_empty());
}

#[test]
fn every_bound_holds_and_a_refusal_changes_nothing() {
    let bounds = Bounds { locks: 4, per_file: 3, per_client: 3, waiters: 2, ..ROOMY };
    let mut table = Table::new(bounds);
    let (a, b) = (who(1, 1), who(2, 1));
    for i in 0..3 {
        table.lock(&0, lock(&a, i * 10, 5, Shared)).unwrap();
    }
    assert_eq!(table.lock(&0, lock(&b, 0, 1, Shared)), Err(Refused::Full), "per file");
    assert_eq!(table.lock(&1, lock(&a, 0, 1, Shared)), Err(Refused::Full), "per client");
    table.lock(&1, lock(&b, 0, 9, Shared)).unwrap();
    assert_eq!(table.lock(&1, lock(&b, 20, 1, Shared)), Err(Refused::Full), "in all");
    assert_eq!(table.unlock(&1, &b, Range::new(3, 3).unwrap()), Err(Refused::Full), "a split is one more");
    assert_eq!(table.held(&1).len(), 1);
    assert_eq!(table.held(&2).len(), 0);
    table.lock(&1, lock(&b, 0, 5, Shared)).unwrap();
    assert_eq!(table.unlock(&0, &a, Range::ALL), Ok(true));

    table.lock(&0, lock(&a, 0, 1, Exclusive)).unwrap();
    for i in 0..2 {
        table.wait(&0, lock(&who(3, i), 0, 1, Shared)).unwrap();
    }
    assert_eq!(table.wait(&0, lock(&who(3, 9), 0, 1, Shared)), Err(Refused::Full));
    assert_eq!(table.wait(&2, lock(&who(3, 9), 0, 1, Shared)), Err(Refused::Full));
    assert!(!table.files.contains_key(&2), "a refused request leaves nothing behind");
}

#[test]
fn waiting_requests_are_bounded_by_file_and_client() {
    let bounds = Bounds { waiters_per_file: 2, waiters_per_client: 3, ..ROOMY };
    let mut table = Table::new(bounds);
    for file in 0..4 {
        table.lock(&file, lock(&who(9, 9), 0, 0, Exclusive)).unwrap();
    }
    let mut wait = |file, client, process| table.wait(&file, lock(&who(client, process), 0, 1, Shared));
    assert!(wait(0, 1, 1).is_ok() && wait(0, 1, 2).is_ok());
    assert_eq!(wait(0, 2, 1), Err(Refused::Full), "per file");
    assert!(wait(1, 1, 1).is_ok());
    assert_eq!(wait(1, 1, 2), Err(Refused::Full), "per client");
    assert!(wait(1, 2, 1).is_ok());
    table.unlock(&0, &who(9, 9), Range::ALL).unwrap();
    assert_eq!(table.offer_next(&0).len(), 2);
    assert!(table.wait(&2, lock(&who(1, 1), 0, 1, Shared)).is_ok(), "an offer waits no more");
    table.release_client(1, |_| true);
    assert_eq!(table.waiters, [(2, 1)].into());
}

#[test]
fn a_file_has_the_same_core_everywhere_and_files_spread() {
    let mut counts = [0; 4];
    for file in 0..400u32 {
        let core = owner_core(&file, 4);
        assert_eq!(core, owner_core(&file, 4));
        counts[usize::from(core.0)] += 1;
    }
    assert!(counts.iter().all(|count| *count > 40), "{counts:?}");
    assert_eq!(owner_core(&7, 1), CoreId(0));
}

/// The model: who has which byte how. Bytes 0 to 15 stand for 1 to 16, byte 16 for everything up to the last four of 64 bits, which
/// the others stand for.
const BYTES: u8 = 21;
const GAP: u8 = 16;

#[derive(Default)]
struct Model {
    bytes: BTreeMap<(u8, Who), Mode>,
}

impl Model {
    fn conflicts(&self, owner: Who, bytes: &[u8], mode: Mode) -> bool {
        self.bytes
            .iter()
            .any(|((byte, other), held)| *other != owner && bytes.contains(byte) && held.conflicts(mode))
    }
}

#[derive(Clone, Debug)]
enum Step {
    Lock(Who, u8, u8, Mode),
    Unlock(Who, u8, u8),
    Release(u8),
}

/// The bytes of the model from `first` to `last`, and the range that they stand for.
fn bytes_and_range(first: u8, last: u8) -> (Vec<u8>, Range) {
    let near_end = |byte: u8| u64::MAX - u64::from(BYTES - 1 - byte);
    let from = |byte: u8| if byte <= GAP { 1 + u64::from(byte) } else { near_end(byte) };
    let to = |byte: u8| if byte < GAP { from(byte) } else { near_end(byte) };
    let (first, last) = (first.min(last), first.max(last));
    let len = if last == BYTES - 1 { 0 } else { to(last) - from(first) + 1 };
    ((first..=last).collect(), Range::new(from(first), len).unwrap())
}

fn step() -> impl Strategy<Value = Step> {
    let owner = (0u8..2, 0u8..2).prop_map(|(client, process)| Who { client, process });
    let mode = prop_oneof![Just(Shared), Just(Exclusive)];
    prop_oneof![
        6 => (owner.clone(), 0..BYTES, 0..BYTES, mode).prop_map(|(o, a, b, m)| Step::Lock(o, a, b, m)),
        3 => (owner, 0..BYTES, 0..BYTES).prop_map(|(o, a, b)| Step::Unlock(o, a, b)),
        1 => (0u8..2).prop_map(Step::Release),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_table_agrees_with_a_model_of_every_byte(steps in prop::collection::vec(step(), 1..60)) {
        let mut table = Table::new(ROOMY);
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Lock(owner, a, b, mode) => {
                    let (bytes, range) = bytes_and_range(a, b);
                    let expected = model.conflicts(owner, &bytes, mode);
                    prop_assert_eq!(table.test(&0, &owner, range, mode).is_some(), expected);
                    let request = Lock { owner: Rc::new(owner), range, mode, instance: 1 };
                    prop_assert_eq!(table.lock(&0, request).is_err(), expected);
                    if !expected {
                        model.bytes.extend(bytes.iter().map(|byte| ((*byte, owner), mode)));
                    }
                }
                Step::Unlock(owner, a, b) => {
                    let (bytes, range) = bytes_and_range(a, b);
                    let had = bytes.iter().any(|byte| model.bytes.contains_key(&(*byte, owner)));
                    prop_assert_eq!(table.unlock(&0, &Rc::new(owner), range), Ok(had));
                    model.bytes.retain(|(byte, other), _| *other != owner || !bytes.contains(byte));
                }
                Step::Release(client) => {
                    table.release_client(client, |_| true);
                    model.bytes.retain(|(_, owner), _| owner.client != client);
                }
            }
            check(&table, &model)?;
        }
    }

    /// Waiting requests, offers, and what becomes of them: no two conflicting locks are ever held or offered, and nobody who could be
    /// served is left waiting.
    #[test]
    fn waiting_never_breaks_exclusion_nor_forgets_anybody(
        steps in prop::collection::vec((step(), any::<bool>(), any::<bool>()), 1..60)
    ) {
        let mut table = Table::new(ROOMY);
        let mut offers: Vec<Ticket> = Vec::new();
        for (step, take, accept) in steps {
            match step {
                Step::Lock(owner, a, b, mode) => {
                    let range = bytes_and_range(a, b).1;
                    let request = Lock { owner: Rc::new(owner), range, mode, instance: 1 };
                    if table.lock(&0, request.clone()).is_err() {
                        table.wait(&0, request).unwrap();
                    }
                }
                Step::Unlock(owner, a, b) => {
                    table.unlock(&0, &Rc::new(owner), bytes_and_range(a, b).1).unwrap();
                }
                Step::Release(client) => {
                    table.release_client(client, |_| true);
                }
            }
            if take && !offers.is_empty() {
                let ticket = offers.remove(0);
                let stood = table.is_offered(&0, ticket);
                let done = if accept { table.accept(&0, ticket) } else { table.refuse(&0, ticket) };
                prop_assert_eq!(stood, done);
            }
            offers.extend(table.offer_next(&0).iter().map(|offer| offer.ticket));
            let Some(file) = table.files.get(&0) else { continue };
            let all: Vec<_> = file.held.iter().chain(file.offered.iter().map(|(_, lock)| lock)).collect();
            for one in &all {
                prop_assert!(!all.iter().any(|o| o.conflicts(&one.owner, one.range, one.mode)));
            }
            prop_assert_eq!(file.next(), None);
            prop_assert_eq!(table.waiting_count(), file.waiting.len());
            prop_assert_eq!(table.waiters.values().sum::<usize>(), file.waiting.len());
        }
    }
}

fn check(table: &Table, model: &Model) -> Result<(), TestCaseError> {
    for byte in 0..BYTES {
        let range = bytes_and_range(byte, byte).1;
        for client in 0..2 {
            for process in 0..2 {
                let owner = Who { client, process };
                let mut covering = table
                    .held(&0)
                    .iter()
                    .filter(|l| *l.owner == owner && l.range.overlaps(range))
                    .map(|l| l.mode);
                prop_assert_eq!(covering.next(), model.bytes.get(&(byte, owner)).copied());
                prop_assert_eq!(covering.next(), None, "an owner's locks do not overlap");
            }
        }
    }
    // Merged as far as possible: no two locks of one owner and mode touch.
    let held = table.held(&0);
    for (index, one) in held.iter().enumerate() {
        for other in &held[index + 1..] {
            let same = one.owner == other.owner && one.mode == other.mode;
            prop_assert!(!(same && one.range.touches(other.range)), "unmerged: {:?} {:?}", one, other);
        }
    }
    prop_assert_eq!(table.held_count(), held.len());
    prop_assert_eq!(table.files.is_empty(), held.is_empty());
    Ok(())
}
