//! A bounded map that forgets what was used longest ago.
//!
//! A hit moves the entry to the front without touching the heap; all slots are made at the first insertions and reused.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

const NONE: u32 = u32::MAX;

struct Slot<K, V> {
    /// `None` in a free slot.
    entry: Option<(K, V)>,
    newer: u32,
    older: u32,
}

/// A map of at most `capacity` entries, ordered by use.
pub(super) struct Lru<K, V> {
    places: HashMap<K, u32>,
    slots: Vec<Slot<K, V>>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    capacity: usize,
}

impl<K: Clone + Eq + Hash, V> Lru<K, V> {
    /// A map for `capacity` entries, at least one.
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, NONE as usize - 1);
        Lru {
            places: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            capacity,
        }
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The value of `key`, which becomes the newest.
    pub(super) fn get<Q>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let place = *self.places.get(key)?;
        if self.newest != place {
            self.unlink(place);
            self.link_newest(place);
        }
        self.slots[place as usize].entry.as_ref().map(|(_, value)| value)
    }

    /// The value of `key`, whose age does not change.
    pub(super) fn peek<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let place = *self.places.get(key)?;
        self.slots[place as usize].entry.as_ref().map(|(_, value)| value)
    }

    /// Puts `value` under `key` as the newest. Gives back what had to leave: the former value of the key, or the oldest entry. The
    /// caller drops it after releasing its borrow of the map.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(&place) = self.places.get(&key) {
            self.unlink(place);
            self.link_newest(place);
            let old = self.slots[place as usize].entry.replace((key, value));
            return old.map(|(_, value)| value);
        }
        let evicted = if self.places.len() >= self.capacity { self.pop_oldest() } else { None };
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.slots.push(Slot { entry: None, newer: NONE, older: NONE });
                (self.slots.len() - 1) as u32
            }
        };
        self.slots[place as usize].entry = Some((key.clone(), value));
        self.places.insert(key, place);
        self.link_newest(place);
        evicted
    }

    /// Takes out the value of `key`.
    pub(super) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let place = self.places.remove(key)?;
        self.unlink(place);
        self.free.push(place);
        self.slots[place as usize].entry.take().map(|(_, value)| value)
    }

    /// Takes out the oldest value if `old_enough` says so.
    pub(super) fn pop_oldest_if(&mut self, old_enough: impl FnOnce(&V) -> bool) -> Option<V> {
        let (_, value) = self.slots.get(self.oldest as usize)?.entry.as_ref()?;
        if old_enough(value) { self.pop_oldest() } else { None }
    }

    /// The keys for whose values `which` holds; costs a look at every entry.
    pub(super) fn keys_where(&self, mut which: impl FnMut(&K, &V) -> bool) -> Vec<K> {
        let entries = self.slots.iter().filter_map(|slot| slot.entry.as_ref());
        entries.filter(|(key, value)| which(key, value)).map(|(key, _)| key.clone()).collect()
    }

    fn pop_oldest(&mut self) -> Option<V> {
        let place = self.oldest;
        let (key, value) = self.slots.get_mut(place as usize)?.entry.take()?;
        self.places.remove(&key);
        self.unlink(place);
        self.free.push(place);
        Some(value)
    }

    fn unlink(&mut self, place: u32) {
        let Slot { newer, older, .. } = self.slots[place as usize];
        match newer {
            NONE => self.newest = older,
            _ => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            _ => self.slots[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, place: u32) {
        let former = std::mem::replace(&mut self.newest, place);
        let slot = &mut self.slots[place as usize];
        slot.newer = NONE;
        slot.older = former;
        match former {
            NONE => self.oldest = place,
            _ => self.slots[former as usize].newer = place,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_oldest_leaves_first() {
        let mut lru = Lru::new(2);
        assert_eq!(lru.insert(1, "a"), None);
        assert_eq!(lru.insert(2, "b"), None);
        assert_eq!(lru.get(&1), Some(&"a"));
        assert_eq!(lru.insert(3, "c"), Some("b"));
        assert_eq!(lru.get(&2), None);
        assert_eq!(lru.insert(1, "d"), Some("a"));
        assert_eq!(lru.pop_oldest_if(|_| false), None);
        assert_eq!(lru.pop_oldest_if(|value| *value == "c"), Some("c"));
        assert_eq!(lru.len(), 1);
    }

    proptest! {
        /// Against a plain list ordered by use.
        #[test]
        fn behaves_as_a_list_ordered_by_use(capacity in 1usize..6, steps in prop::collection::vec((0u8..4, 0u8..8, 0u32..1000), 0..200)) {
            let mut lru = Lru::new(capacity);
            let mut list: Vec<(u8, u32)> = Vec::new();
            for (what, key, value) in steps {
                let at = list.iter().position(|&(k, _)| k == key);
                match what {
                    0 => {
                        let expected = match at {
                            Some(at) => Some(list.remove(at).1),
                            None if list.len() == capacity => Some(list.remove(0).1),
                            None => None,
                        };
                        list.push((key, value));
                        prop_assert_eq!(lru.insert(key, value), expected);
                    }
                    1 => {
                        let expected = at.map(|at| {
                            let entry = list.remove(at);
                            list.push(entry);
                            entry.1
                        });
                        prop_assert_eq!(lru.get(&key).copied(), expected);
                    }
                    2 => prop_assert_eq!(lru.remove(&key), at.map(|at| list.remove(at).1)),
                    _ => prop_assert_eq!(lru.peek(&key).copied(), at.map(|at| list[at].1)),
                }
                prop_assert_eq!(lru.len(), list.len());
                prop_assert!(lru.slots.len() <= capacity);
            }
        }
    }
}
