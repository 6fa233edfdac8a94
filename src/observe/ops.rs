//! The operations that are counted and timed, declared once.
//!
//! An operation is a procedure of an RPC program. The table below is the only place that names them: the
//! enum, the look-up by wire numbers, and the labels of metrics and tables come from it.

/// What the table says about one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpInfo {
    /// The program's label: `nfs3`, `mount`, ..
    pub program: &'static str,
    /// The operation's label within its program: `read`, `getattr`, ..
    pub name: &'static str,
    /// The ONC RPC program number; 0 for [`Op::Unknown`].
    pub program_number: u32,
    /// The ONC RPC procedure number; 0 for [`Op::Unknown`].
    pub procedure: u32,
}

macro_rules! operations {
    ($( $label:literal $number:literal { $( $procedure:literal $variant:ident $name:literal, )* } )*) => {
        /// One operation: a procedure of one of the programs that the gateway answers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Op {
            $($(
                #[doc = concat!("`", $label, "` procedure ", $procedure, ": `", $name, "`")]
                $variant,
            )*)*
            /// A call that names no operation of this table; refused, but counted.
            Unknown,
        }

        impl Op {
            /// Every operation, in the order of the enum.
            pub const ALL: &'static [Op] = &[$($(Op::$variant,)*)* Op::Unknown];
            /// How many operations there are.
            pub const COUNT: usize = Op::ALL.len();

            const INFO: [OpInfo; Op::COUNT] = [
                $($(OpInfo { program: $label, name: $name, program_number: $number, procedure: $procedure },)*)*
                OpInfo { program: "other", name: "unknown", program_number: 0, procedure: 0 },
            ];

            /// The operation that an RPC call header names; [`Op::Unknown`] for anything that is not in the table
            /// (RFC 5531 s9: program and procedure numbers).
            ///
            /// The version is not looked at: the versions of one program that are served here number alike.
            pub fn from_rpc(program: u32, procedure: u32) -> Op {
                match (program, procedure) {
                    $($(($number, $procedure) => Op::$variant,)*)*
                    _ => Op::Unknown,
                }
            }
        }
    };
}

operations! {
    // RFC 1813 s3.3
    "nfs3" 100003 {
        0 Nfs3Null "null",
        1 Nfs3Getattr "getattr",
        2 Nfs3Setattr "setattr",
        3 Nfs3Lookup "lookup",
        4 Nfs3Access "access",
        5 Nfs3Readlink "readlink",
        6 Nfs3Read "read",
        7 Nfs3Write "write",
        8 Nfs3Create "create",
        9 Nfs3Mkdir "mkdir",
        10 Nfs3Symlink "symlink",
        11 Nfs3Mknod "mknod",
        12 Nfs3Remove "remove",
        13 Nfs3Rmdir "rmdir",
        14 Nfs3Rename "rename",
        15 Nfs3Link "link",
        16 Nfs3Readdir "readdir",
        17 Nfs3Readdirplus "readdirplus",
        18 Nfs3Fsstat "fsstat",
        19 Nfs3Fsinfo "fsinfo",
        20 Nfs3Pathconf "pathconf",
        21 Nfs3Commit "commit",
    }
    // RFC 1813 s5.2
    "mount" 100005 {
        0 MountNull "null",
        1 MountMnt "mnt",
        2 MountDump "dump",
        3 MountUmnt "umnt",
        4 MountUmntall "umntall",
        5 MountExport "export",
    }
    // X/Open XNFS (C702) s14; the numbers of NLM version 4 are in RFC 1813 s6
    "nlm" 100021 {
        0 NlmNull "null",
        1 NlmTest "test",
        2 NlmLock "lock",
        3 NlmCancel "cancel",
        4 NlmUnlock "unlock",
        5 NlmGranted "granted",
        6 NlmTestMsg "test_msg",
        7 NlmLockMsg "lock_msg",
        8 NlmCancelMsg "cancel_msg",
        9 NlmUnlockMsg "unlock_msg",
        10 NlmGrantedMsg "granted_msg",
        11 NlmTestRes "test_res",
        12 NlmLockRes "lock_res",
        13 NlmCancelRes "cancel_res",
        14 NlmUnlockRes "unlock_res",
        15 NlmGrantedRes "granted_res",
        16 NlmSmNotify "sm_notify",
        20 NlmShare "share",
        21 NlmUnshare "unshare",
        22 NlmNmLock "nm_lock",
        23 NlmFreeAll "free_all",
    }
    // RFC 1833 s3.2 (version 2) and s2.2 (versions 3 and 4); the labels are those of version 2 where it has the number
    "portmap" 100000 {
        0 PortmapNull "null",
        1 PortmapSet "set",
        2 PortmapUnset "unset",
        3 PortmapGetport "getport",
        4 PortmapDump "dump",
        5 PortmapCallit "callit",
        6 PortmapGettime "gettime",
        7 PortmapUaddr2taddr "uaddr2taddr",
        8 PortmapTaddr2uaddr "taddr2uaddr",
        9 PortmapGetversaddr "getversaddr",
        10 PortmapIndirect "indirect",
        11 PortmapGetaddrlist "getaddrlist",
        12 PortmapGetstat "getstat",
    }
    // X/Open XNFS (C702) s11
    "nsm" 100024 {
        0 NsmNull "null",
        1 NsmStat "stat",
        2 NsmMon "mon",
        3 NsmUnmon "unmon",
        4 NsmUnmonAll "unmon_all",
        5 NsmSimuCrash "simu_crash",
        6 NsmNotify "notify",
    }
}

const _: () = assert!(Op::COUNT <= u8::MAX as usize);

impl Op {
    /// The row of the table that declares this operation.
    pub fn info(self) -> &'static OpInfo {
        &Self::INFO[self as usize]
    }

    /// The position in [`Op::ALL`], `0..Op::COUNT`.
    pub fn index(self) -> usize {
        self as usize
    }
}

impl std::fmt::Display for Op {
    /// Writes `program_name`, such as `nfs3_read`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}_{}", self.info().program, self.info().name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_consistent_with_the_enum() {
        for (index, op) in Op::ALL.iter().enumerate() {
            assert_eq!(op.index(), index);
            let info = op.info();
            if *op != Op::Unknown {
                assert_eq!(Op::from_rpc(info.program_number, info.procedure), *op);
            }
        }
    }

    #[test]
    fn unknown_numbers_are_counted_as_unknown() {
        for (program, procedure) in [(100003, 22), (100227, 1), (0, 0), (u32::MAX, u32::MAX), (100021, 17)] {
            assert_eq!(Op::from_rpc(program, procedure), Op::Unknown);
        }
    }

    #[test]
    fn labels_are_unique_and_plain() {
        let mut seen = std::collections::HashSet::new();
        for op in Op::ALL {
            let label = op.to_string();
            assert!(
                label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{label}"
            );
            assert!(seen.insert(label));
        }
    }
}
