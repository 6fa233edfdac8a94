//! MOUNT (RFC 1813 s5).

use headgate::config::{ClientMatch, Network, Rule};
use headgate::engine::testing::block_on_cores;
use headgate_proto::mount::{Exports, MntRes, MountList, Mountstat3, Path, Procedure};
use headgate_proto::rpc::{AuthFlavor, AuthStat, Credential, OpaqueAuth, RejectStat};

use super::support::*;

async fn mnt(rig: &Rig, from: &str, path: &str) -> Result<Vec<u8>, Mountstat3> {
    let answer = rig.call(&tcp(from), MOUNT, Procedure::Mnt as u32, &Path { path: path.as_bytes() }).await;
    match answer.results::<MntRes<'_>>() {
        MntRes::Ok(ok) => {
            assert_eq!(ok.auth_flavors.as_slice(), [AuthFlavor::SYS.0]);
            Ok(ok.fhandle.as_bytes().to_vec())
        }
        MntRes::Fail(status) => Err(status),
    }
}

fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("sub/deep")).unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    std::os::unix::fs::symlink("/etc", dir.path().join("link")).unwrap();
    dir
}

#[test]
fn exports_and_directories_below_them_can_be_mounted() {
    block_on_cores(2, || async {
        let (data, state) = (tree(), tempfile::tempdir().unwrap());
        let rig = Rig::simple(data.path(), state.path());
        let from = "10.0.0.1:700";
        let root = mnt(&rig, from, "/data").await.unwrap();
        assert_eq!(mnt(&rig, from, "/data/").await.unwrap(), root);
        assert_eq!(mnt(&rig, from, "/data/./").await.unwrap(), root);
        let deep = mnt(&rig, from, "/data/sub//deep").await.unwrap();
        assert_ne!(deep, root);
        assert!(KEY.open(&deep).is_ok());
        let long = format!("/data/{}", "x".repeat(256));
        let longest = format!("/{}", "x".repeat(1024));
        for (path, status) in [
            ("/data/none", Mountstat3::NoEnt),
            ("/data/file", Mountstat3::NotDir),
            ("/data/file/x", Mountstat3::NotDir),
            ("/data/link", Mountstat3::NotDir),
            ("/data/link/ssh", Mountstat3::NotDir),
            ("/data/sub/..", Mountstat3::Inval),
            ("/data/../etc", Mountstat3::Inval),
            ("/data/a\0b", Mountstat3::Inval),
            ("/other", Mountstat3::NoEnt),
            ("/database", Mountstat3::NoEnt),
            ("data", Mountstat3::NoEnt),
            ("", Mountstat3::NoEnt),
            (&long, Mountstat3::NameTooLong),
            (&longest, Mountstat3::NameTooLong),
        ] {
            assert_eq!(mnt(&rig, from, path).await, Err(status), "{path:?}");
        }
    });
}

/// CB-043: the rules are asked at the mount as at every call.
#[test]
fn rules_decide_who_mounts() {
    block_on_cores(1, || async {
        let (data, state) = (tree(), tempfile::tempdir().unwrap());
        let network = Network::new("10.0.0.0".parse().unwrap(), 8).unwrap();
        let rule = Rule { clients: ClientMatch::Network(network), secure_ports: true, ..everybody() };
        let rig = Rig::start(vec![exported("/data", 1, data.path(), vec![rule])], state.path(), 1, GRACE);
        assert!(mnt(&rig, "10.1.2.3:1023", "/data").await.is_ok());
        assert!(mnt(&rig, "[::ffff:10.1.2.3]:1023", "/data").await.is_ok());
        assert_eq!(mnt(&rig, "10.1.2.3:1024", "/data").await, Err(Mountstat3::Acces));
        assert_eq!(mnt(&rig, "11.1.2.3:1023", "/data").await, Err(Mountstat3::Acces));
        assert_eq!(mnt(&rig, "[fd00::1]:1023", "/data").await, Err(Mountstat3::Acces));
        let path = Path { path: b"/data" };
        let none = rig.record(MOUNT, 1, Credential::None, &path);
        let answer = rig.send(&tcp("10.0.0.1:700"), &none).await.unwrap();
        assert!(matches!(answer.results::<MntRes<'_>>(), MntRes::Ok(_)), "AUTH_NONE mounts as anonymous");
        for flavor in [AuthFlavor::RPCSEC_GSS, AuthFlavor(99), AuthFlavor(300_000)] {
            let other = Credential::Other(OpaqueAuth { flavor, body: b"" });
            let answer = rig.send(&tcp("10.0.0.1:700"), &rig.record(MOUNT, 1, other, &path)).await.unwrap();
            assert_eq!(answer.rejected(), RejectStat::AuthError(AuthStat::BadCred));
        }
    });
}

/// Below the export the caller's own rights decide.
#[test]
fn a_directory_that_the_caller_cannot_reach_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    block_on_cores(1, || async {
        use std::os::unix::fs::PermissionsExt;
        let (data, state) = (tree(), tempfile::tempdir().unwrap());
        std::fs::set_permissions(data.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::set_permissions(data.path().join("sub"), std::fs::Permissions::from_mode(0o700)).unwrap();
        let rig = Rig::simple(data.path(), state.path());
        let record = rig.record(MOUNT, 1, user(1000), &Path { path: b"/data/sub/deep" });
        let answer = rig.send(&tcp("10.0.0.1:700"), &record).await.unwrap();
        assert_eq!(answer.results::<MntRes<'_>>(), MntRes::Fail(Mountstat3::Acces));
        assert!(mnt(&rig, "10.0.0.1:700", "/data/sub/deep").await.is_ok());
    });
}

async fn dump(rig: &Rig) -> Vec<(String, String)> {
    let answer = rig.call(&tcp("10.0.0.9:700"), MOUNT, Procedure::Dump as u32, &()).await;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    answer.results::<MountList<'_>>().iter().map(|m| (text(m.hostname), text(m.directory))).collect()
}

#[test]
fn the_list_of_mounts_follows_mnt_and_umnt() {
    block_on_cores(2, || async {
        let (data, state) = (tree(), tempfile::tempdir().unwrap());
        let rig = Rig::simple(data.path(), state.path());
        for from in ["10.0.0.1:700", "10.0.0.2:700", "10.0.0.1:701"] {
            for path in ["/data", "/data/sub"] {
                mnt(&rig, from, path).await.unwrap();
            }
        }
        let entry = |host: &str, path: &str| (host.to_string(), path.to_string());
        let mut all = dump(&rig).await;
        all.sort();
        let (one, two) = ("10.0.0.1", "10.0.0.2");
        assert_eq!(
            all,
            [entry(one, "/data"), entry(one, "/data/sub"), entry(two, "/data"), entry(two, "/data/sub")]
        );
        let umnt = Procedure::Umnt as u32;
        assert!(rig.call(&tcp("10.0.0.1:9"), MOUNT, umnt, &Path { path: b"/data" }).await.body().is_empty());
        assert!(rig.call(&tcp("10.0.0.1:9"), MOUNT, umnt, &Path { path: b"/none" }).await.body().is_empty());
        assert_eq!(dump(&rig).await.len(), 3);
        rig.call(&tcp("10.0.0.2:9"), MOUNT, Procedure::Umntall as u32, &()).await;
        assert_eq!(dump(&rig).await, [entry(one, "/data/sub")]);
    });
}

#[test]
fn the_list_of_mounts_is_bounded_and_fits_a_reply() {
    block_on_cores(1, || async {
        let (data, state) = (tree(), tempfile::tempdir().unwrap());
        let rig = Rig::simple(data.path(), state.path());
        for n in 0..headgate::limits::MOUNT_ENTRIES + 10 {
            let from = format!("10.0.{}.{}:700", n / 256, n % 256);
            mnt(&rig, &from, "/data").await.unwrap();
        }
        let all = dump(&rig).await;
        assert!(all.len() > 1000 && all.len() <= headgate::limits::MOUNT_ENTRIES, "{}", all.len());
        let answer = rig.call(&udp("10.0.0.9:700"), MOUNT, Procedure::Dump as u32, &()).await;
        assert!(answer.0.len() <= 24 + headgate::limits::DATAGRAM_LIST_BYTES, "a datagram is not amplified");
        let local = rig.call(&udp("127.0.0.1:700"), MOUNT, Procedure::Dump as u32, &()).await;
        assert!(local.0.len() > 4096 && local.0.len() <= headgate::limits::DATAGRAM_BYTES);
    });
}

#[test]
fn exports_are_listed_with_their_clients() {
    block_on_cores(1, || async {
        let (data, other, state) = (tree(), tree(), tempfile::tempdir().unwrap());
        let network = Network::new("10.0.0.0".parse().unwrap(), 8).unwrap();
        let single = Network::new("fd00::1".parse().unwrap(), 128).unwrap();
        let of = |network| Rule { clients: ClientMatch::Network(network), ..everybody() };
        let exports = vec![
            exported("/data", 1, data.path(), vec![of(network), of(single)]),
            exported("/pub", 2, other.path(), vec![everybody()]),
        ];
        let rig = Rig::start(exports, state.path(), 1, GRACE);
        let answer = rig.call(&tcp("10.0.0.1:700"), MOUNT, Procedure::Export as u32, &()).await;
        let listed: Vec<(String, Vec<String>)> = answer
            .results::<Exports<'_>>()
            .iter()
            .map(|export| {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                (text(export.dir), export.groups.iter().map(|group| text(group.name)).collect())
            })
            .collect();
        let groups = vec!["10.0.0.0/8".to_string(), "fd00::1".to_string()];
        assert_eq!(listed, [("/data".to_string(), groups), ("/pub".to_string(), vec![])]);
    });
}
