//! Cores that really run at once: buffers go round between them as fast as they can, and every one comes home.

use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use headgate::memory::{self, Buf, ClassConfig, HugePages, SlabConfig, SlabMesh};

const CORES: usize = 4;
const ROUNDS: u32 = 20_000;
const BUFFERS: usize = 500;

/// A pattern that tells whose buffer it is and which use.
fn stamp(core: usize, round: u32) -> [u8; 8] {
    let mut stamp = [core as u8; 8];
    stamp[..4].copy_from_slice(&round.to_le_bytes());
    stamp
}

#[test]
fn buffers_go_round_and_come_home() {
    let config = SlabConfig {
        classes: vec![
            ClassConfig { capacity_bytes: 64, count: BUFFERS },
            ClassConfig { capacity_bytes: 4096, count: 10 },
        ],
        huge_pages: HugePages::Never,
        numa_node: None,
        poison_freed: false,
    };
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..CORES).map(|_| mpsc::channel::<(Buf, [u8; 8])>()).unzip();
    let all_sent = Arc::new(Barrier::new(CORES));
    let all_freed = Arc::new(Barrier::new(CORES));
    let threads: Vec<_> = SlabMesh::new(CORES)
        .into_iter()
        .zip(receivers)
        .enumerate()
        .map(|(core, (endpoint, inbox))| {
            let (senders, config) = (senders.clone(), config.clone());
            let (all_sent, all_freed) = (all_sent.clone(), all_freed.clone());
            thread::spawn(move || {
                let slab = memory::install(endpoint.core(), &config, endpoint).expect("memory for a test");
                let drop_checked =
                    |(buf, stamp): (Buf, [u8; 8])| assert_eq!(buf[..], stamp, "not what was sent");
                let mut sent = 0;
                for round in 0..ROUNDS {
                    // Sometimes many at a time, so that batches of all sizes occur.
                    for i in 0..=(round % 7) {
                        let Some(mut buf) = slab.alloc(8) else { break };
                        buf.extend_from_slice(&stamp(core, round)).expect("room");
                        let to = (core + 1 + (round + i) as usize % (CORES - 1)) % CORES;
                        senders[to].send((buf, stamp(core, round))).expect("the others listen");
                        sent += 1;
                    }
                    inbox.try_iter().take(8).for_each(drop_checked);
                    if round % 3 == 0 {
                        slab.end_of_turn();
                    }
                    slab.collect_returns();
                }
                all_sent.wait();
                inbox.try_iter().for_each(drop_checked);
                slab.end_of_turn();
                all_freed.wait();
                slab.collect_returns();
                (sent, slab.counters())
            })
        })
        .collect();
    let results: Vec<(u64, _)> =
        threads.into_iter().map(|thread| thread.join().expect("a core ends in peace")).collect();
    let mut away = 0;
    for (sent, counters) in &results {
        assert!(*sent > 0);
        assert_eq!((counters.in_use(), counters.pending_away, counters.stray), (0, 0, 0));
        assert_eq!(counters.returned, *sent, "each buffer that was sent came home once");
        assert_eq!(counters.frees_unbatched, 0);
        away += counters.frees_away;
    }
    assert_eq!(away, results.iter().map(|(sent, _)| sent).sum::<u64>());
}
