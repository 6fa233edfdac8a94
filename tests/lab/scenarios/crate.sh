# limit: 180
# A small crate is built on the mount, by the host's toolchain.
mnt rw /mnt/a || bad "mount"
export PATH=/rust/bin:$PATH HOME=/tmp CARGO_HOME=/tmp/cargo CARGO_INCREMENTAL=1
rm -rf /mnt/a/crate; mkdir -p /mnt/a/crate/src; cd /mnt/a/crate || bad "cd"
printf '[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n' >Cargo.toml
printf 'mod part;\nfn main() { println!("{}", part::sum(&[1, 2, 3])); }\n' >src/main.rs
printf 'pub fn sum(v: &[u64]) -> u64 { v.iter().sum() }\n#[test]\nfn adds() { assert_eq!(sum(&[2, 3]), 5); }\n' >src/part.rs
check "cargo build" t 90 cargo build --offline -q
gives "the program runs from the mount" 6 t 20 ./target/debug/small
sleep 1.1; printf 'pub fn sum(v: &[u64]) -> u64 { v.iter().sum::<u64>() + 1 }\n#[test]\nfn adds() { assert_eq!(sum(&[2, 3]), 6); }\n' >src/part.rs
check "built again after a change, and tested" t 120 cargo test --offline -q
gives "the new program" 7 bash -c 'timeout $((60*SLOW)) cargo run --offline -q'
cd /; t 30 rm -rf /mnt/a/crate
