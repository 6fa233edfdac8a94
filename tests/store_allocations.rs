//! READ and WRITE take nothing from the heap once they run: counted by the allocator itself.
#![allow(missing_docs, reason = "tests")]

mod counting;
mod store;

use headgate::store::null::{Null, Settings as NullSettings};
use headgate::store::posix::Settings;
use headgate::store::{Access, AnyStore, CreateMode, Stability, Store};
use store::*;

async fn steady(store: AnyStore, file: &str) -> (u64, u64) {
    let me = caller(1000, 1000, &[1001, 1002]);
    let root = store.root();
    let created =
        store.create(&me, &root, &name(file), CreateMode::Unchecked, &mode(0o644)).await.expect("is there");
    let handle = store.handle(&created.node);
    let block = [0x77; 4096];
    let mut counted = (0, 0);
    for round in 0..200u64 {
        let before = counting::taken();
        // As a protocol does it: from the handle to the answer.
        let node = store.resolve(&handle).await.expect("resolves");
        let open = store.open(&me, &node, Access::Write).await.expect("opens");
        for segments in [&[&block[..]][..], &[&block[..100], &block[..1000], &block]] {
            let data = payload(segments);
            store.write(&open, round * 4096, data, Stability::Unstable).await.expect("writes");
        }
        let wrote = counting::taken();
        let node = store.resolve(&handle).await.expect("resolves");
        let open = store.open(&me, &node, Access::Read).await.expect("opens");
        let (_, moved) = store.read(&open, round * 4096, 4096, space(4096)).await;
        moved.expect("reads");
        // The first rounds fill caches and pools.
        if round >= 20 {
            counted = (counted.0 + wrote - before, counted.1 + counting::taken() - wrote);
        }
    }
    counted
}

#[test]
fn nothing_is_taken_from_the_heap_in_steady_state() {
    for place in places() {
        let settings = Settings::new(place.path(), FS_ID);
        let counted = with_store(&settings, |store| steady(store.into(), "file"));
        assert_eq!(counted, (0, 0), "by writes and reads of {settings:?}");
    }
    let null = || steady(Null::new(NullSettings::new(FS_ID)).into(), "f0");
    assert_eq!(headgate::engine::testing::block_on_core(null), (0, 0));
}
