//! What is fuzzed, and what must hold: plain functions of the input, called by the fuzzer's programs in `bin/` and by
//! the replay of the corpus in `proto/tests/fuzz_replay.rs`.

pub mod common;
pub mod mount;
pub mod nfs3_args;
pub mod nfs3_results;
pub mod nlm;
pub mod nsm;
pub mod portmap;
pub mod record_reader;
pub mod rpc_call;
pub mod rpc_reply;

/// A target: its name, which is also that of its corpus folder, and the function that checks an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("mount", mount::run),
    ("nfs3_args", nfs3_args::run),
    ("nfs3_results", nfs3_results::run),
    ("nlm", nlm::run),
    ("nsm", nsm::run),
    ("portmap", portmap::run),
    ("record_reader", record_reader::run),
    ("rpc_call", rpc_call::run),
    ("rpc_reply", rpc_reply::run),
];
