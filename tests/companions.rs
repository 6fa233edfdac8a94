//! The programs beside NFS (MOUNT, the port mapper, the lock manager and the status monitor) through `Service::serve`, with machines that
//! answer the gateway's own calls.

#[path = "companions/locks.rs"]
mod locks;
#[path = "companions/machine.rs"]
mod machine;
#[path = "companions/malformed.rs"]
mod malformed;
#[path = "companions/mount.rs"]
mod mount;
#[path = "companions/portmap.rs"]
mod portmap;
#[path = "companions/recovery.rs"]
mod recovery;
#[path = "companions/register.rs"]
mod register;
#[path = "companions/support.rs"]
mod support;
#[path = "companions/wire.rs"]
mod wire;
