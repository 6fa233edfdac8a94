#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| headgate_proto_fuzz::mount::run(data));
