use std::fs;

use tempfile::TempDir;

use super::*;

/// A machine as a tree of files.
struct Tree(TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        for (path, content) in files {
            tree.put(path, content);
        }
        tree
    }

    fn put(&self, path: &str, content: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    }

    /// A machine of two nodes with two cores of two threads each: CPUs n and n+4 are siblings.
    fn two_nodes() -> Tree {
        let tree = Tree::new(&[
            ("sys/devices/system/cpu/online", "0-7"),
            ("sys/devices/system/node/online", "0-1"),
            ("sys/devices/system/node/node0/cpulist", "0-1,4-5"),
            ("sys/devices/system/node/node1/cpulist", "2-3,6-7"),
        ]);
        for id in 0..8 {
            let dir = format!("sys/devices/system/cpu/cpu{id}");
            let (core, package) = (id % 4, id % 4 / 2);
            tree.put(&format!("{dir}/topology/core_cpus_list"), &format!("{core},{}", core + 4));
            tree.put(&format!("{dir}/topology/physical_package_id"), &package.to_string());
            let levels =
                [("1", "Data"), ("1", "Instruction"), ("2", "Unified"), ("3", "Unified")].iter().enumerate();
            for (index, (level, kind)) in levels {
                let shared = match (*level, package) {
                    ("3", 0) => "0-1,4-5".to_owned(),
                    ("3", _) => "2-3,6-7".to_owned(),
                    _ => format!("{core},{}", core + 4),
                };
                tree.put(&format!("{dir}/cache/index{index}/level"), level);
                tree.put(&format!("{dir}/cache/index{index}/type"), kind);
                tree.put(&format!("{dir}/cache/index{index}/shared_cpu_list"), &shared);
            }
        }
        tree
    }

    fn read(&self, affinity: &str) -> Topology {
        Topology::read(self.0.path(), &affinity.parse().unwrap()).unwrap()
    }
}

#[test]
fn reads_nodes_threads_and_caches() {
    let topology = Tree::two_nodes().read("0-7");
    let cpu = topology.cpu(6).unwrap();
    assert_eq!((cpu.id, cpu.package, cpu.node), (6, 1, Some(1)));
    assert_eq!(cpu.siblings.to_string(), "2,6");
    assert_eq!(cpu.l2.to_string(), "2,6");
    assert_eq!(cpu.l3.to_string(), "2-3,6-7");
    assert_eq!(topology.nodes().to_string(), "0-1");
    assert_eq!(topology.online().to_string(), "0-7");
    assert_eq!(topology.cpu(8), None);
}

#[test]
fn a_bare_kernel_tells_little_and_nothing_is_guessed() {
    let topology = Tree::new(&[("sys/devices/system/cpu/online", "0,2")]).read("0-63");
    let cpu = topology.cpu(2).unwrap();
    assert_eq!(cpu.node, None);
    assert_eq!(cpu.siblings.to_string(), "2");
    assert!(cpu.l2.is_empty() && cpu.l3.is_empty());
    assert_eq!(topology.allowed().to_string(), "0,2");
    assert_eq!(topology.quota(), None);
}

#[test]
fn a_tree_without_cpus_is_an_error() {
    let tree = Tree::new(&[]);
    assert_eq!(
        Topology::read(tree.0.path(), &CpuSet::default()).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    let tree = Tree::new(&[("sys/devices/system/cpu/online", "zero")]);
    let error = Topology::read(tree.0.path(), &CpuSet::default()).unwrap_err();
    assert!(error.to_string().ends_with("cpu/online holds `zero`"), "{error}");
}

#[test]
fn choosing_prefers_the_home_node_and_first_threads() {
    let tree = Tree::two_nodes();
    let topology = tree.read("0-7");
    assert_eq!(topology.choose(1).to_string(), "0");
    assert_eq!(topology.choose(2).to_string(), "0-1");
    assert_eq!(topology.choose(4).to_string(), "0-1,4-5");
    assert_eq!(topology.choose(5).to_string(), "0-2,4-5");
    assert_eq!(topology.choose(64).to_string(), "0-7");
    // Where affinity leaves only a second thread, it is as good as a first one.
    assert_eq!(tree.read("2,5-7").choose(2).to_string(), "2,7");
    assert_eq!(tree.read("5-6").choose(64).to_string(), "5-6");
}

#[test]
fn choosing_heeds_the_control_groups_quota() {
    let tree = Tree::two_nodes();
    tree.put("proc/self/cgroup", "0::/pod/box");
    tree.put("sys/fs/cgroup/pod/box/cpu.max", "max 100000");
    assert_eq!(tree.read("0-7").quota(), None);
    tree.put("sys/fs/cgroup/pod/cpu.max", "150000 100000");
    let topology = tree.read("0-7");
    assert_eq!(topology.quota(), Some(1.5));
    assert_eq!(topology.choose(4).to_string(), "0-1");
}

#[test]
fn the_core_map_is_a_table() {
    let topology = Tree::two_nodes().read("0-7");
    assert_eq!(
        topology.core_map(&[0, 6]).to_string(),
        "core   cpu  node  siblings    l2          l3\n\
         \u{20}  0     0     0  0,4         0,4         0-1,4-5\n\
         \u{20}  1     6     1  2,6         2,6         2-3,6-7"
    );
}

#[test]
fn this_machine_has_a_cpu_for_us() {
    let topology = Topology::detect().unwrap();
    assert!(!topology.allowed().is_empty());
    assert!(!topology.choose(1).is_empty());
    let chosen = topology.choose(crate::limits::AUTO_CORES);
    assert!(chosen.iter().all(|id| topology.allowed().contains(id)));
}
