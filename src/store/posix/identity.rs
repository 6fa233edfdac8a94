//! Acting as the caller: the kernel judges each operation for the user, group and groups of its credential.
//!
//! A thread takes an identity on by its file-system user and group id, its groups and its effective capabilities,
//! all of which the kernel keeps per thread. The raw system calls are used because the C library's `setgroups`
//! would change every thread of the process. io_uring operations carry the identity as a *personality*, made once
//! while the core's thread had it on.
//!
//! A caller that is not the superuser loses every effective capability, also `CAP_SYS_RESOURCE`, which would let
//! it into reserved blocks and past its quota. A process without `CAP_SETUID` and `CAP_SETGID` cannot take on
//! anything: there everything is done as the user that runs it.

use std::cell::OnceCell;
use std::sync::OnceLock;

use super::sys::last_error;
use crate::store::{Caller, Error, Result};

const CAP_DAC_OVERRIDE: u32 = 1;
const CAP_DAC_READ_SEARCH: u32 = 2;
const CAP_SETGID: u32 = 6;
const CAP_SETUID: u32 = 7;

/// The three capability sets of a thread (`capget(2)`, version 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Capabilities {
    effective: u64,
    permitted: u64,
    inheritable: u64,
}

#[repr(C)]
struct CapHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const CAP_VERSION_3: u32 = 0x2008_0522;

impl Capabilities {
    fn of_thread() -> Result<Capabilities> {
        let mut header = CapHeader { version: CAP_VERSION_3, pid: 0 };
        let mut data = [CapData::default(); 2];
        // SAFETY: version 3 reads the header and fills two `CapData`, which both live through the call.
        if unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) } < 0 {
            return Err(last_error());
        }
        let join = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        Ok(Capabilities {
            effective: join(data[0].effective, data[1].effective),
            permitted: join(data[0].permitted, data[1].permitted),
            inheritable: join(data[0].inheritable, data[1].inheritable),
        })
    }

    fn apply(self) -> Result<()> {
        let mut header = CapHeader { version: CAP_VERSION_3, pid: 0 };
        let part = |shift: u32| CapData {
            effective: (self.effective >> shift) as u32,
            permitted: (self.permitted >> shift) as u32,
            inheritable: (self.inheritable >> shift) as u32,
        };
        let data = [part(0), part(32)];
        // SAFETY: version 3 reads the header and two `CapData`, which both live through the call.
        if unsafe { libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()) } < 0 {
            return Err(last_error());
        }
        Ok(())
    }

    fn has(self, capability: u32) -> bool {
        self.effective >> capability & 1 == 1
    }
}

/// What this process may do; the same for all its threads, since none gives capabilities away for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Powers {
    /// Threads can take on callers' identities.
    pub(super) switch: bool,
    /// Permission bits do not stop the process itself (the override for a file's owner needs it).
    pub(super) override_modes: bool,
    /// Handles can be opened.
    pub(super) open_handles: bool,
}

/// What this process may do, asked once.
pub(super) fn powers() -> Powers {
    static POWERS: OnceLock<Powers> = OnceLock::new();
    *POWERS.get_or_init(|| match Capabilities::of_thread() {
        Ok(caps) => Powers {
            switch: caps.has(CAP_SETUID) && caps.has(CAP_SETGID),
            override_modes: caps.has(CAP_DAC_OVERRIDE),
            open_handles: caps.has(CAP_DAC_READ_SEARCH),
        },
        Err(_) => Powers { switch: false, override_modes: false, open_handles: false },
    })
}

/// A thread's own identity, to which it returns.
struct Own {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    capabilities: Capabilities,
}

thread_local! {
    static OWN: OnceCell<Own> = const { OnceCell::new() };
}

fn set_fsuid(uid: u32) -> u32 {
    // SAFETY: takes a number, gives the former one, and touches no memory.
    unsafe { libc::syscall(libc::SYS_setfsuid, uid) as u32 }
}

fn set_fsgid(gid: u32) -> u32 {
    // SAFETY: takes a number, gives the former one, and touches no memory.
    unsafe { libc::syscall(libc::SYS_setfsgid, gid) as u32 }
}

fn set_groups(groups: &[u32]) -> Result<()> {
    // SAFETY: the kernel reads `groups.len()` ids from the slice, which lives through the call.
    match unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

impl Own {
    fn of_thread() -> Result<Own> {
        let mut groups = vec![0u32; 65_536];
        // SAFETY: the kernel writes at most `groups.len()` ids to the vector, which lives through the call.
        let count = unsafe { libc::syscall(libc::SYS_getgroups, groups.len(), groups.as_mut_ptr()) };
        groups.truncate(usize::try_from(count).map_err(|_| last_error())?);
        groups.shrink_to_fit();
        // An impossible id changes nothing and gives the present one.
        let (uid, gid) = (set_fsuid(u32::MAX), set_fsgid(u32::MAX));
        Ok(Own { uid, gid, groups, capabilities: Capabilities::of_thread()? })
    }

    /// Takes the caller's identity on. After an error the thread has part of it on: [`Own::return_to`] follows in every case.
    fn leave_for(&self, caller: &Caller) -> Result<()> {
        set_groups(&caller.groups)?;
        set_fsgid(caller.gid);
        set_fsuid(caller.uid);
        // Neither call reports a failure: ask.
        if set_fsuid(u32::MAX) != caller.uid || set_fsgid(u32::MAX) != caller.gid {
            return Err(Error::PERM);
        }
        let effective = if caller.uid == 0 { self.capabilities.permitted } else { 0 };
        Capabilities { effective, ..self.capabilities }.apply()
    }

    fn return_to(&self) {
        // Raising what is permitted needs no capability; the calls that follow need those for user and group ids.
        let raised = Capabilities { effective: self.capabilities.permitted, ..self.capabilities }.apply();
        let groups = set_groups(&self.groups);
        set_fsgid(self.gid);
        set_fsuid(self.uid);
        let is_back = set_fsuid(u32::MAX) == self.uid && set_fsgid(u32::MAX) == self.gid;
        let lowered = self.capabilities.apply();
        if raised.is_err() || groups.is_err() || !is_back || lowered.is_err() {
            // A thread that acts as a caller it does not serve is worse than no gateway.
            std::process::abort();
        }
    }
}

/// Runs `job` with the caller's identity on this thread, which has its own again afterwards, also when the job panics. The job does not run
/// when the identity cannot be taken on. Without the powers for it the job runs as the process.
pub(super) fn run_as<T>(caller: &Caller, job: impl FnOnce() -> Result<T>) -> Result<T> {
    struct Back<'a>(&'a Own);
    impl Drop for Back<'_> {
        fn drop(&mut self) {
            self.0.return_to();
        }
    }
    if !powers().switch {
        return job();
    }
    if caller.uid == u32::MAX || caller.gid == u32::MAX {
        return Err(Error::PERM);
    }
    OWN.with(|own| {
        let own = match own.get() {
            Some(own) => own,
            None => {
                let _ = own.set(Own::of_thread()?);
                own.get().ok_or(Error::PERM)?
            }
        };
        // The process's own user is spared the change, unless the process has capabilities that the user has not.
        let is_own = own.uid == caller.uid && own.gid == caller.gid && own.groups == caller.groups[..];
        if is_own && (caller.uid == 0 || own.capabilities.effective == 0) {
            return job();
        }
        let _back = Back(own);
        own.leave_for(caller)?;
        job()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(uid: u32, gid: u32, groups: &[u32]) -> Caller {
        Caller { uid, gid, groups: groups.iter().copied().collect() }
    }

    fn seen() -> (u32, u32, Capabilities) {
        (set_fsuid(u32::MAX), set_fsgid(u32::MAX), Capabilities::of_thread().expect("capabilities"))
    }

    #[test]
    fn an_identity_is_on_for_the_job_only() {
        let before = seen();
        let during = run_as(&caller(4001, 4002, &[4003]), || Ok(seen())).expect("runs");
        assert_eq!(seen(), before);
        if powers().switch {
            assert_eq!((during.0, during.1, during.2.effective), (4001, 4002, 0));
            assert_eq!(during.2.permitted, before.2.permitted);
        } else {
            assert_eq!(during, before);
        }
    }

    #[test]
    fn a_panicking_job_leaves_no_identity_behind() {
        let before = seen();
        let result = std::panic::catch_unwind(|| {
            run_as(&caller(4001, 4002, &[]), || -> Result<()> { panic!("as told") })
        });
        assert!(result.is_err());
        assert_eq!(seen(), before);
    }

    #[test]
    fn other_threads_keep_theirs() {
        let before = seen();
        let other = run_as(&caller(4001, 4002, &[4003]), || {
            Ok(std::thread::scope(|scope| {
                // A new thread inherits; one that was there before does not change: ask the kernel about the main thread.
                let status = scope.spawn(|| {
                    std::fs::read_to_string(format!("/proc/{0}/task/{0}/status", std::process::id()))
                });
                status.join().expect("no panic").expect("readable")
            }))
        })
        .expect("runs");
        let uids = other.lines().find(|line| line.starts_with("Uid:")).expect("has a Uid line");
        assert!(uids.ends_with(&format!("\t{}", before.0)), "{uids}");
    }

    /// A service's own user that was given capabilities: its clients with the same id have none.
    #[test]
    fn a_caller_with_the_processs_id_has_not_its_capabilities() {
        if !powers().switch {
            return;
        }
        let during = std::thread::spawn(|| {
            set_groups(&[]).expect("groups");
            set_fsgid(4002);
            set_fsuid(4001);
            let own = Capabilities::of_thread().expect("capabilities");
            Capabilities { effective: own.permitted, ..own }.apply().expect("raised");
            let during = run_as(&caller(4001, 4002, &[]), || Ok(seen())).expect("runs");
            assert_eq!(seen(), (4001, 4002, Capabilities { effective: own.permitted, ..own }), "and back");
            during
        });
        let (uid, gid, capabilities) = during.join().expect("no panic");
        assert_eq!((uid, gid, capabilities.effective), (4001, 4002, 0));
    }

    #[test]
    fn the_id_that_means_none_is_refused() {
        if powers().switch {
            assert_eq!(run_as(&caller(u32::MAX, 1, &[]), || Ok(())), Err(Error::PERM));
            assert_eq!(run_as(&caller(1, u32::MAX, &[]), || Ok(())), Err(Error::PERM));
        }
    }
}
