//! A payload is the bytes of its segments, however it is cut.

use headgate::memory::{self, ClassConfig, HugePages, Payload, Slab, SlabConfig, SlabMesh};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_payload_is_its_bytes(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8),
        cuts in prop::collection::vec(0..300_usize, 0..6),
    ) {
        Slab::uninstall();
        let endpoint = SlabMesh::new(1).remove(0);
        let slab = memory::install(endpoint.core(), &SlabConfig {
            classes: vec![ClassConfig { capacity_bytes: 256, count: 8 }],
            huge_pages: HugePages::Never,
            numa_node: None,
            poison_freed: true,
        }, endpoint).expect("memory for a test");
        let mut payload = Payload::new();
        for part in &parts {
            let mut buf = slab.alloc(part.len()).expect("a buffer for each part");
            buf.extend_from_slice(part).expect("room for what was asked for");
            payload.push(buf.freeze()).expect("a place for each part");
        }
        let mut bytes = parts.concat();
        for (i, cut) in cuts.into_iter().enumerate() {
            let cut = cut.min(bytes.len());
            match i % 3 {
                0 => {
                    let rest = bytes.split_off(cut);
                    let front = payload.split_front(cut);
                    prop_assert_eq!(front.iter().collect::<Vec<_>>().concat(), bytes);
                    prop_assert_eq!(front.total_len(), cut);
                    bytes = rest;
                }
                1 => {
                    bytes.truncate(cut);
                    payload.truncate(cut);
                }
                _ => {
                    let mut scratch = vec![0; cut];
                    prop_assert!(payload.head(&mut scratch).starts_with(&bytes[..cut]));
                }
            }
            prop_assert_eq!(payload.iter().collect::<Vec<_>>().concat(), &bytes[..]);
            prop_assert_eq!(payload.total_len(), bytes.len());
        }
        drop(payload);
        prop_assert_eq!(slab.counters().in_use(), 0);
        Slab::uninstall();
    }
}
