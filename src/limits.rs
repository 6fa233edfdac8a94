//! Every bound of the program, in one place, related by assertions that the compiler checks.
//!
//! Two kinds live here. A plain constant is a fact of a protocol or of the design and cannot be configured. A
//! [`Bound`] is a setting of the section `limits` (or `cores`) of the configuration: its smallest, default and
//! largest value; `config/` refuses anything else and quotes these numbers when it does.
//!
//! Sizes are in bytes (`_BYTES`), times are [`Duration`]s, everything else is a count. A new limit comes with
//! its reason, and with an assertion below if it depends on another one.

use std::time::Duration;

/// The range of a setting: what the configuration may choose, and what holds when it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound<T> {
    /// The smallest value that is accepted.
    pub min: T,
    /// The value when the configuration is silent.
    pub default: T,
    /// The largest value that is accepted.
    pub max: T,
}

/// A bound of bytes or of a count; the compiler refuses one that is out of order.
const fn bound(min: u64, default: u64, max: u64) -> Bound<u64> {
    assert!(min <= default && default <= max, "a bound is ordered: min <= default <= max");
    Bound { min, default, max }
}

/// A bound of a time in milliseconds.
const fn bound_ms(min: u64, default: u64, max: u64) -> Bound<Duration> {
    assert!(min <= default && default <= max, "a bound is ordered: min <= default <= max");
    Bound {
        min: Duration::from_millis(min),
        default: Duration::from_millis(default),
        max: Duration::from_millis(max),
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

// ---------------------------------------------------------------------------------------------------------
// Names, handles and credentials
// ---------------------------------------------------------------------------------------------------------

/// The longest path component: Linux's `NAME_MAX`. RFC 1813 s2.2 leaves names unbounded; a longer one is
/// `NFS3ERR_NAMETOOLONG` in one layer beneath all protocols.
pub const NAME_BYTES: usize = 255;

/// The longest symbolic link target and path: Linux's `PATH_MAX`, which counts the final NUL.
pub const PATH_BYTES: usize = 4096;

/// The longest path in a MOUNT call (`MNTPATHLEN`, RFC 1813 s5.1.2).
pub const MOUNT_PATH_BYTES: usize = 1024;

/// The longest export name: it has to fit a MOUNT call.
pub const EXPORT_NAME_BYTES: usize = MOUNT_PATH_BYTES;

/// An NFSv3 file handle (`NFS3_FHSIZE`, RFC 1813 s2.4).
pub const HANDLE_BYTES: usize = 64;

/// What `session::handle` puts before the store's own handle: a format version and the export's id.
pub const HANDLE_HEADER_BYTES: usize = 8;

/// The keyed MAC (SipHash-2-4, 128 bits) that closes a file handle: guessing one takes 2^127 tries on average.
pub const HANDLE_MAC_BYTES: usize = 16;

/// What is left for the store: the kernel's handle with its type. Enough for ext4 (8), xfs (16), btrfs (20), and tmpfs
/// (12); a file system with longer ones gets the documented fallback.
pub const STORE_HANDLE_BYTES: usize = HANDLE_BYTES - HANDLE_HEADER_BYTES - HANDLE_MAC_BYTES;

/// The longest body of an RPC credential or verifier (RFC 5531 s8.2).
pub const AUTH_BODY_BYTES: usize = 400;

/// Supplementary groups of an AUTH_SYS credential (RFC 5531 appendix A).
pub const AUTH_SYS_GIDS: usize = 16;

/// The longest machine name of an AUTH_SYS credential (RFC 5531 appendix A).
pub const AUTH_SYS_MACHINE_BYTES: usize = 255;

/// The user and group that nobody owns: what squashed and unauthenticated callers become unless the export says otherwise.
pub const ANONYMOUS_ID: u32 = 65534;

// ---------------------------------------------------------------------------------------------------------
// Transfers and records
// ---------------------------------------------------------------------------------------------------------

/// The largest offset that a file can have on Linux (`loff_t`).
pub const MAX_OFFSET: u64 = i64::MAX as u64;

/// The largest READ that is answered in full (`rtmax`, RFC 1813 s3.3.19); a larger one is answered short. 1 MiB is what the Linux
/// client asks for at most.
pub const READ_BYTES: Bound<u64> = bound(4 * KIB, MIB, MIB);

/// The largest WRITE that is taken in full (`wtmax`, RFC 1813 s3.3.19).
pub const WRITE_BYTES: Bound<u64> = bound(4 * KIB, MIB, MIB);

/// The READDIR size that is advertised as best (`dtpref`, RFC 1813 s3.3.19).
pub const DIRECTORY_BYTES: Bound<u64> = bound(4 * KIB, 64 * KIB, MIB);

/// The largest READDIR or READDIRPLUS answer; a client that asks for more gets a page of this size. One slab buffer holds it.
pub const READDIR_REPLY_BYTES: usize = 64 << 10;

/// What a WRITE record needs besides its data: the RPC header with the longest credential and verifier, the handle and the arguments,
/// rounded up.
pub const RECORD_HEADROOM_BYTES: usize = 4 << 10;

/// The largest RPC record (RFC 5531 s11) that is accepted, over all its fragments; a longer one closes the connection. It must hold the
/// largest WRITE with [`RECORD_HEADROOM_BYTES`].
pub const RECORD_BYTES: Bound<u64> =
    bound(16 * KIB, WRITE_BYTES.default + RECORD_HEADROOM_BYTES as u64, WRITE_BYTES.max + 64 * KIB);

/// The largest call of the programs that carry no file data (portmap, MOUNT, NLM, NSM), over TCP and UDP.
pub const SMALL_CALL_BYTES: usize = 8 << 10;

/// The largest UDP datagram that is sent: what every network carries in fragments at worst.
pub const DATAGRAM_BYTES: usize = 8 << 10;

/// The room for everything of a reply but its opaque data: the RPC header and the longest fixed results (RENAME's four sets of
/// attributes, LOOKUP's handle with two). READDIR answers use [`READDIR_REPLY_BYTES`].
pub const REPLY_HEAD_BYTES: usize = 1 << 10;

/// Segments of one request's or reply's payload (`memory::Payload`).
pub const PAYLOAD_SEGMENTS: usize = 8;

// ---------------------------------------------------------------------------------------------------------
// Connections
// ---------------------------------------------------------------------------------------------------------

/// Connections of one core. A connection that rests costs about [`CONNECTION_TABLE_BYTES`].
pub const CONNECTIONS_PER_CORE: Bound<u64> = bound(16, 16_384, 262_144);

/// Connections of one client address over all cores: one client cannot take every place. Linux opens up to 16 (`nconnect`) per mount.
pub const CONNECTIONS_PER_CLIENT: Bound<u64> = bound(1, 1024, 65_536);

/// Calls of one connection that are being answered; the socket is not read while it has so many. Linux clients keep up to 128
/// slots per connection busy by default.
pub const REQUESTS_PER_CONNECTION: Bound<u64> = bound(1, 128, 1024);

/// Calls of one core that are being answered: the number of request workers that the core prepares at start.
pub const REQUESTS_PER_CORE: Bound<u64> = bound(16, 512, 8192);

/// The part of its core's slab that one connection may hold before its socket is no longer read: one in so many of each class, but at
/// least one buffer. A client that never reads its replies cannot starve the others.
pub const CONNECTION_SLAB_SHARE: usize = 4;

/// Closed connections of one client address that are remembered, so that it finds its core again.
pub const CLOSED_PLACES_PER_CLIENT: usize = 64;

/// What a core receives into, unless its slab has no such class: the next larger one then.
pub const RECEIVE_BYTES: usize = 64 << 10;

/// The part of that class that is lent to the kernel for receiving: one in so many. The others take the places of those that calls hold.
pub const RECEIVE_SHARE: usize = 4;

/// The most of a half received record that is copied into a smaller buffer when receive buffers run short.
pub const COMPACT_BYTES: usize = 4 << 10;

/// The buffer into which the rest of a record in too many pieces is gathered.
pub const GATHER_BYTES: usize = 64 << 10;

/// How long an address that is in use is tried again before it is refused.
pub const BIND_PATIENCE: Duration = Duration::from_secs(2);

/// Connections that the kernel completes before they are accepted (`listen(2)`).
pub const ACCEPT_BACKLOG: u32 = 1024;

/// Listening addresses in one configuration.
pub const LISTEN_ADDRESSES: usize = 64;

// ---------------------------------------------------------------------------------------------------------
// Times
// ---------------------------------------------------------------------------------------------------------

/// How long a record may take from its first byte to its last: ends clients that send a byte a minute.
pub const RECORD_TIMEOUT: Bound<Duration> = bound_ms(1000, 30_000, 600_000);

/// How long a reply may wait for a client that does not read it.
pub const SEND_TIMEOUT: Bound<Duration> = bound_ms(1000, 60_000, 600_000);

/// How long a connection may rest between calls before it is closed. Clients reconnect when they need to.
pub const IDLE_TIMEOUT: Bound<Duration> = bound_ms(10_000, 3_600_000, 86_400_000);

/// How long a stop waits for requests that are being answered.
pub const DRAIN_TIMEOUT: Bound<Duration> = bound_ms(0, 10_000, 300_000);

/// How long an idle core spins before it sleeps. Longer: lower latency; shorter: less CPU. The default covers a few times what a
/// wake costs (about 26 us).
pub const SPIN: Bound<Duration> =
    Bound { min: Duration::ZERO, default: Duration::from_micros(100), max: Duration::from_secs(1) };

/// How long after a restart only reclaims of NLM locks are answered (`NLM4_DENIED_GRACE_PERIOD`); knfsd's default too.
pub const GRACE: Bound<Duration> = bound_ms(0, 90_000, 600_000);

// ---------------------------------------------------------------------------------------------------------
// The duplicate request cache
// ---------------------------------------------------------------------------------------------------------

/// Remembered replies of non-idempotent calls per core. At 1000 such calls a second they cover four seconds, more than the
/// first retransmission after a lost connection takes.
pub const DRC_ENTRIES: Bound<u64> = bound(64, 4096, 1 << 20);

/// The longest reply that is remembered: all replies of non-idempotent NFSv3 calls are shorter (RENAME 264, CREATE 308 bytes).
pub const DRC_REPLY_BYTES: usize = 512;

/// What identifies a call beside its xid: so many leading bytes of its arguments enter the digest.
pub const DRC_DIGEST_BYTES: usize = 256;

/// Calls that are younger than this are spared while remembered WRITEs can give way instead: a client with the usual time-out of
/// 60 seconds has repeated its call by then. The kernel's server keeps its entries as long.
pub const DRC_FLOOR: Duration = Duration::from_secs(120);

/// An older answer is not given any more: by then the xid may have come round.
pub const DRC_AGE: Duration = Duration::from_secs(600);

// ---------------------------------------------------------------------------------------------------------
// Cores, slab and store
// ---------------------------------------------------------------------------------------------------------

/// Cores of one process. Return rings exist per pair of cores, so their number grows with the square.
pub const CORES: usize = 256;

/// CPUs that `cores: auto` takes at most: more would fight with the applications of a machine that nobody has planned. An appliance
/// names its CPUs.
pub const AUTO_CORES: usize = 4;

/// Buffer sizes of the slab, powers of two. Below 512 bytes bookkeeping outweighs the buffer; above 16 MiB no protocol transfers.
pub const SLAB_CLASS_BYTES: Bound<u64> = bound(512, 4 * KIB, 16 * MIB);

/// Buffers of one slab class.
pub const SLAB_CLASS_COUNT: Bound<u64> = bound(1, 1024, 1 << 20);

/// Size classes of a slab.
pub const SLAB_CLASSES: usize = 16;

/// All buffers of one core together. The kernel registers one region of at most 1 GiB (`IORING_REGISTER_BUFFERS`).
pub const SLAB_BYTES: Bound<u64> = bound(MIB, 92 * MIB, GIB);

/// The slab's classes when the configuration is silent: buffer capacity in bytes, and how many. 92 MiB per core.
///
/// 1 KiB holds request headers and replies, 4 KiB small data and file attributes' worth of reply, 64 KiB is what receives read
/// into and READDIR answers with, 1 MiB carries the largest READ and WRITE; the classes between keep middle sizes from taking those.
pub const SLAB_DEFAULT: [(u64, u64); 6] =
    [(KIB, 4096), (4 * KIB, 2048), (16 * KIB, 512), (64 * KIB, 256), (256 * KIB, 64), (MIB, 40)];

/// Submission queue entries of a core's ring.
pub const RING_ENTRIES: u32 = 1024;

/// io-wq threads of a core's ring, for file work that the kernel cannot do without blocking (bounded, unbounded).
pub const RING_WORKERS: [u32; 2] = [8, 16];

/// Operations in flight for which a core's ring makes slots at start; more are made when they are needed.
pub const RING_OPERATIONS: usize = 4096;

/// Fixed-file slots of a core's ring: connections and open files; what does not fit uses plain descriptors.
pub const FIXED_FILES: u32 = 32_768;

/// Credentials that a core keeps registered with its ring (io_uring personalities), least recently used first out.
pub const PERSONALITIES_PER_CORE: usize = 256;

/// Open files that a core keeps per export, least recently used first out.
pub const OPEN_FILES_PER_CORE: usize = 4096;

/// Objects (nodes) that a core keeps with a path descriptor, least recently used first out.
pub const NODES_PER_CORE: usize = 8192;

/// Helper threads per core for what io_uring cannot do.
pub const BLOCKING_THREADS: Bound<u64> = bound(1, 4, 64);

/// Directories per core and export whose entries are kept in hash order, where the file system's positions cannot be cookies
/// (`store/posix/window.rs`): up to 65536 entries each.
pub const LISTING_WINDOWS_PER_CORE: usize = 4;

/// Objects of which a core remembers where it saw them, where handles are found by search (`store/posix/search.rs`): about 100 bytes each.
pub const SEARCH_INDEX_ENTRIES: usize = 262_144;

/// Objects that one search for a handle looks at: a second or two of a helper thread.
pub const SEARCH_OBJECTS: usize = 1_000_000;

/// The longest value of an extended attribute: Linux's `XATTR_SIZE_MAX`.
pub const XATTR_VALUE_BYTES: usize = 64 << 10;

/// The longest list of names of extended attributes: Linux's `XATTR_LIST_MAX`.
pub const XATTR_LIST_BYTES: usize = 64 << 10;

/// Bytes of names that one READDIR reads from the kernel at a time.
pub const READDIR_BUDGET_BYTES: usize = READDIR_REPLY_BYTES;

// ---------------------------------------------------------------------------------------------------------
// Byte-range locks (NLM) and host status (NSM)
// ---------------------------------------------------------------------------------------------------------

/// Byte-range locks of the whole gateway.
pub const LOCKS: usize = 65_536;

/// Byte-range locks on one file.
pub const LOCKS_PER_FILE: usize = 4096;

/// Byte-range locks of one client host.
pub const LOCKS_PER_CLIENT: usize = 16_384;

/// Share reservations of one core.
pub const SHARES_PER_CORE: usize = 4096;

/// Bytes of the names that clients give to the locks of one core. An ordinary one has less than 100 bytes, the
/// longest 2048 ([`LOCK_OBJECT_BYTES`]): the bound is for those who choose long ones.
pub const LOCK_NAME_BYTES: usize = 16 << 20;

/// Blocked lock requests of the whole gateway; more are denied (`NLM4_DENIED_NOLOCKS`).
pub const LOCK_WAITERS: usize = 4096;

/// Blocked lock requests of one client host.
pub const LOCK_WAITERS_PER_CLIENT: usize = 1024;

/// Blocked lock requests on one file: each unlock looks at all of them, and at the file's locks for each.
pub const LOCK_WAITERS_PER_FILE: usize = 256;

/// Client hosts that hold or have held locks.
pub const LOCK_CLIENTS: usize = 4096;

/// The longest lock owner, cookie and host name in NLM (`LM_MAXSTRLEN` and `MAXNETOBJ_SZ`: X/Open C702 NLM).
pub const LOCK_OBJECT_BYTES: usize = 1024;

/// The longest host name in NSM (`SM_MAXSTRLEN`: X/Open C702 NSM).
pub const HOST_NAME_BYTES: usize = 1024;

/// Calls of one core to its clients' lock managers and status monitors that are under way.
pub const OUTGOING_CALLS: usize = 64;

/// How often a granted callback is repeated before the lock is given to the next.
pub const GRANTED_RETRIES: u32 = 4;

// ---------------------------------------------------------------------------------------------------------
// Port mapper, MOUNT
// ---------------------------------------------------------------------------------------------------------

/// Registrations that the embedded port mapper holds.
pub const PORTMAP_ENTRIES: usize = 256;

/// Mounts that MOUNT's DUMP remembers (RFC 1813 s5.2.2); the list is for people, so the oldest entry goes first.
pub const MOUNT_ENTRIES: usize = 4096;

/// The longest list (of exports, of mounts) in a datagram to another machine. Its sender may be forged, so that an answer must not be much
/// longer than a call.
pub const DATAGRAM_LIST_BYTES: usize = 256;

/// Exports of one configuration.
pub const EXPORTS: usize = 1024;

/// Client rules of one export.
pub const RULES_PER_EXPORT: usize = 256;

// ---------------------------------------------------------------------------------------------------------
// Administration
// ---------------------------------------------------------------------------------------------------------

/// The largest request on the control socket.
pub const CONTROL_REQUEST_BYTES: usize = 64 << 10;

/// The largest answer on the control socket: all connections of a full gateway as JSON.
pub const CONTROL_REPLY_BYTES: usize = 256 << 20;

/// Clients of the control socket and of the metrics address that are served at once.
pub const ADMIN_CONNECTIONS: usize = 16;

/// How long an administration client may take to send its request or to take its answer.
pub const ADMIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest HTTP request of a metrics scrape.
pub const METRICS_REQUEST_BYTES: usize = 8 << 10;

/// The longest Unix socket path (`sun_path` without its NUL).
pub const SOCKET_PATH_BYTES: usize = 107;

/// The largest configuration file.
pub const CONFIG_BYTES: u64 = MIB;

// ---------------------------------------------------------------------------------------------------------
// Resident memory beside the slab, measured; `Config::memory_plan` sums it up
// ---------------------------------------------------------------------------------------------------------

/// What the process holds beside its cores: program, libraries, main thread, logger. Measured with one and with two idle cores of the
/// release build (106.1 and 206.1 MiB resident with the default slab). Reserved huge pages are not part of what Linux calls resident.
pub const BASE_BYTES: u64 = 6 * MIB;

/// What a core holds besides its slab and its tables: stacks, ring, executor, histograms.
pub const CORE_BYTES: u64 = 3 * MIB + MIB / 2;

/// The slab's bookkeeping per buffer: header, free-list entry and return-ring share.
pub const SLAB_BUFFER_TABLE_BYTES: u64 = 48;

/// A remembered reply of the duplicate request cache, with its key.
pub const DRC_ENTRY_TABLE_BYTES: u64 = DRC_REPLY_BYTES as u64 + 64;

/// A request worker that rests: its future and its place in the executor.
pub const REQUEST_TABLE_BYTES: u64 = 5 * KIB;

/// A connection that rests.
pub const CONNECTION_TABLE_BYTES: u64 = 2 * KIB;

// ---------------------------------------------------------------------------------------------------------
// How they relate
// ---------------------------------------------------------------------------------------------------------

const _: () = assert!(STORE_HANDLE_BYTES >= 32, "a file handle keeps room for the kernel's");
const _: () = assert!(HANDLE_HEADER_BYTES + STORE_HANDLE_BYTES + HANDLE_MAC_BYTES == HANDLE_BYTES);
const _: () = assert!(
    AUTH_BODY_BYTES == headgate_proto::rpc::MAX_AUTH_BYTES as usize
        && HANDLE_BYTES == headgate_proto::nfs3::MAX_FH_BYTES
        && MOUNT_PATH_BYTES == headgate_proto::mount::MAX_PATH,
    "the wire formats know the same bounds"
);
const _: () = assert!(NAME_BYTES < PATH_BYTES && MOUNT_PATH_BYTES <= PATH_BYTES);
const _: () = assert!(AUTH_SYS_GIDS * 4 + AUTH_SYS_MACHINE_BYTES + 1 + 5 * 4 <= AUTH_BODY_BYTES);

const _: () = assert!(
    RECORD_HEADROOM_BYTES >= 2 * (AUTH_BODY_BYTES + 8) + HANDLE_BYTES + 128,
    "the headroom of a record holds what surrounds the data of a WRITE"
);
const _: () = assert!(RECORD_BYTES.default >= WRITE_BYTES.default + RECORD_HEADROOM_BYTES as u64);
const _: () = assert!(RECORD_BYTES.max >= WRITE_BYTES.max + RECORD_HEADROOM_BYTES as u64);
const _: () = assert!(RECORD_BYTES.min >= WRITE_BYTES.min + RECORD_HEADROOM_BYTES as u64);
const _: () = assert!(SMALL_CALL_BYTES as u64 <= RECORD_BYTES.min);
const _: () = assert!(
    SMALL_CALL_BYTES >= 2 * (AUTH_BODY_BYTES + 8) + HANDLE_BYTES + 3 * LOCK_OBJECT_BYTES + 128,
    "a small call holds the longest NLM LOCK"
);
const _: () = assert!(DRC_REPLY_BYTES <= REPLY_HEAD_BYTES);
const _: () = assert!(DRC_FLOOR.as_millis() < DRC_AGE.as_millis());
const _: () = assert!(DIRECTORY_BYTES.max <= READ_BYTES.max);
const _: () =
    assert!(READDIR_REPLY_BYTES as u64 >= DIRECTORY_BYTES.default, "the advertised size is answered in full");
const _: () = assert!(
    READDIR_REPLY_BYTES >= PATH_BYTES + REPLY_HEAD_BYTES
        && READDIR_REPLY_BYTES >= NAME_BYTES + HANDLE_BYTES + 256,
    "a page holds the longest entry"
);

const _: () = assert!(REQUESTS_PER_CONNECTION.default <= REQUESTS_PER_CORE.default);
const _: () = assert!(CONNECTIONS_PER_CLIENT.default <= CONNECTIONS_PER_CORE.default);
const _: () = assert!(CONNECTION_SLAB_SHARE >= 2, "one connection never takes the whole slab");
const _: () =
    assert!(LOCK_WAITERS_PER_FILE <= LOCK_WAITERS_PER_CLIENT && LOCK_WAITERS_PER_CLIENT <= LOCK_WAITERS);
const _: () = assert!(LOCKS_PER_FILE <= LOCKS && LOCKS_PER_CLIENT <= LOCKS && LOCK_WAITERS <= LOCKS);
const _: () = assert!(AUTO_CORES <= CORES);
const _: () = assert!(FIXED_FILES as u64 >= CONNECTIONS_PER_CORE.default + OPEN_FILES_PER_CORE as u64);

const _: () = assert!(slab_default_bytes() == SLAB_BYTES.default, "the default slab is what its bound says");
const _: () =
    assert!(slab_default_is_ordered(), "default classes are rising powers of two within their bounds");
const _: () = assert!(SLAB_DEFAULT.len() <= SLAB_CLASSES);
const _: () = assert!(
    SLAB_DEFAULT[SLAB_DEFAULT.len() - 1].0 >= READ_BYTES.max
        && SLAB_DEFAULT[SLAB_DEFAULT.len() - 1].0 >= WRITE_BYTES.max,
    "one buffer holds the largest transfer"
);
const _: () =
    assert!(SLAB_DEFAULT[0].0 >= REPLY_HEAD_BYTES as u64 && SLAB_DEFAULT[0].1 >= REQUESTS_PER_CORE.default);

const fn slab_default_bytes() -> u64 {
    let (mut sum, mut i) = (0, 0);
    while i < SLAB_DEFAULT.len() {
        sum += SLAB_DEFAULT[i].0 * SLAB_DEFAULT[i].1;
        i += 1;
    }
    sum
}

const fn slab_default_is_ordered() -> bool {
    let mut i = 0;
    while i < SLAB_DEFAULT.len() {
        let (bytes, count) = SLAB_DEFAULT[i];
        if !bytes.is_power_of_two() || bytes < SLAB_CLASS_BYTES.min || bytes > SLAB_CLASS_BYTES.max {
            return false;
        }
        if count < SLAB_CLASS_COUNT.min || count > SLAB_CLASS_COUNT.max {
            return false;
        }
        if i > 0 && SLAB_DEFAULT[i - 1].0 >= bytes {
            return false;
        }
        i += 1;
    }
    true
}
