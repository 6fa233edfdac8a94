//! The slab is as large as it was configured. Alone in its process, so that nothing else becomes resident meanwhile.

use headgate::memory::{self, CoreId, SlabConfig, SlabMesh};

#[test]
fn the_default_slab_is_as_large_as_it_says() {
    let before = resident_bytes();
    let config = SlabConfig::default();
    let mesh = SlabMesh::new(4);
    let endpoint = mesh.into_iter().next().expect("four places");
    let slab = memory::install(CoreId(0), &config, endpoint).expect("memory for a test");
    let grown = resident_bytes() - before;
    let planned = config.len_bytes() + config.table_bytes(4);
    assert_eq!(slab.region().1, config.len_bytes());
    assert!(grown.abs_diff(planned) * 100 < planned, "{grown} bytes became resident, not {planned}");
    assert!(config.table_bytes(4) < config.len_bytes() / 100);
}

/// What is resident of this process (proc_pid_statm(5)).
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("proc is mounted");
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}
