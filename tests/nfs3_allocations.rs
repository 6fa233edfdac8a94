//! READ and WRITE take nothing from the heap from the record to the reply, and their futures have the size that is planned for.

mod counting;
#[path = "nfs3/support.rs"]
mod support;

use std::future::Future;

use headgate::memory::Slab;
use headgate::protocol::Served;
use headgate_proto::nfs3::{self, Procedure};
use support::*;

/// Serves a record with this xid and gives what was taken from the heap meanwhile.
async fn counted(rig: &Rig, record: &mut [u8], xid: u32, cuts: &[usize]) -> u64 {
    record[..4].copy_from_slice(&xid.to_be_bytes());
    let mut call = std::pin::pin!(rig.service.serve(&rig.conn, payload(record, cuts)));
    // Counted while the call is polled: between polls the thread's executor re-arms its timer, which allocates by the
    // millisecond and not by the call.
    let mut taken = 0;
    let served = std::future::poll_fn(|context| {
        let before = counting::taken();
        let polled = call.as_mut().poll(context);
        taken += counting::taken() - before;
        polled
    })
    .await;
    let Served::Reply(reply) = served else { panic!("no reply") };
    let status = &reply.head[reply.head.len().min(28)..][..4];
    assert_eq!(status, [0; 4], "an error");
    taken
}

async fn steady(rig: Rig, file: &[u8]) {
    let root = rig.roots[0].clone();
    let file = match rig.create(&root, file, 0o644).await {
        Ok(file) => file,
        Err(_) => rig.lookup(&root, file).await.expect("found"),
    };
    let data = [7; 4096];
    let stable = nfs3::write::StableHow::Unstable;
    let mut write = rig.record(Procedure::Write, &Write { file: &file, offset: 8192, data: &data, stable });
    let mut read =
        rig.record(Procedure::Read, &nfs3::read::Args { file: fh(&file), offset: 8192, count: 4096 });
    let mut getattr = rig.record(Procedure::Getattr, &nfs3::getattr::Args { object: fh(&file) });
    // More rounds than the duplicate request cache has entries: evictions are counted too.
    let (mut reads, mut writes, mut getattrs) = (0, 0, 0);
    for round in 0..2000 {
        // The header in one piece, and across a border.
        let cuts: &[usize] = if round % 2 == 0 { &[] } else { &[90, 700] };
        let wrote = counted(&rig, &mut write, 3 * round, cuts).await;
        let read = counted(&rig, &mut read, 3 * round + 1, cuts).await;
        let looked = counted(&rig, &mut getattr, 3 * round + 2, cuts).await;
        // The first rounds fill caches and pools.
        if round >= 1000 {
            (writes, reads, getattrs) = (writes + wrote, reads + read, getattrs + looked);
        }
    }
    assert_eq!((writes, reads, getattrs), (0, 0, 0), "allocations of 1000 writes, reads and getattrs");
}

#[test]
fn reads_and_writes_take_nothing_from_the_heap() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    on_core(move || async move {
        steady(Rig::posix(&path), b"file").await;
        steady(Rig::null(), b"f0").await;
        // What is out by now belongs to the engine and to caches.
        let out = Slab::current().counters().in_use();
        steady(Rig::posix(&path), b"file").await;
        assert!(Slab::current().counters().in_use() <= out, "buffers were kept");
    });
}

#[test]
fn a_call_in_service_is_as_large_as_planned() {
    on_core(|| async {
        let rig = Rig::null();
        let record = rig.record(Procedure::Null, &());
        let call = rig.service.serve(&rig.conn, payload(&record, &[]));
        let size = size_of_val(&call);
        println!("a call in service takes {size} bytes");
        // The worker around it needs some more.
        assert!(size as u64 + 512 <= headgate::limits::REQUEST_TABLE_BYTES, "{size} bytes");
        drop(call);
    });
}
