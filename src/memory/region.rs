//! The memory under a slab: one mapping per core, in huge pages where there are any, on the core's NUMA node, and
//! resident from the start.

use std::io::{self, BufRead};
use std::ptr::{self, NonNull};

use super::{Backing, HugePages};

/// The huge page that both kinds use here. Other sizes exist (1 GiB, arm64's 16 KiB base pages); the kernel's default for
/// `MAP_HUGETLB` is what administrators reserve.
const HUGE_BYTES: usize = 2 << 20;
/// What `mmap` hands out at least.
const PAGE_BYTES: usize = 4096;

/// An anonymous mapping, unmapped on drop.
pub(super) struct Region {
    base: NonNull<u8>,
    len_bytes: usize,
    map: (*mut libc::c_void, usize),
    backing: Backing,
    numa_node: Option<u32>,
    huge_bytes: Option<usize>,
}

// SAFETY: a mapping belongs to the process; who may touch which part is settled by the slab.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps and prefaults `len_bytes`, rounded up to whole pages. The memory is zero.
    ///
    /// # Errors
    /// What `mmap` or `madvise` say, most likely `ENOMEM`; with [`HugePages::Require`] also when the system has too few
    /// huge pages reserved.
    pub(super) fn map(len_bytes: usize, huge: HugePages, node: Option<u32>) -> io::Result<Self> {
        match huge {
            HugePages::Require => Self::map_hugetlb(len_bytes, node),
            HugePages::Try if len_bytes < HUGE_BYTES => Self::map_small(len_bytes, false, node),
            HugePages::Try => Self::map_hugetlb(len_bytes, node)
                .or_else(|_| Self::map_small(len_bytes.next_multiple_of(HUGE_BYTES), true, node)),
            HugePages::Never => Self::map_small(len_bytes, false, node),
        }
    }

    /// Reserved huge pages (`vm.nr_hugepages`). With too few of them `mmap` fails; with too few on the wanted node
    /// prefaulting does.
    fn map_hugetlb(len_bytes: usize, node: Option<u32>) -> io::Result<Self> {
        let len_bytes = len_bytes.next_multiple_of(HUGE_BYTES);
        let map = anonymous(len_bytes, libc::MAP_HUGETLB)?;
        Self::finish((map, len_bytes), 0, len_bytes, Backing::HugeTlb, node)
    }

    /// Ordinary pages; with `transparent` the kernel is asked to use huge ones.
    fn map_small(len_bytes: usize, transparent: bool, node: Option<u32>) -> io::Result<Self> {
        let len_bytes = len_bytes.next_multiple_of(PAGE_BYTES);
        // Transparent huge pages need an aligned start, which older kernels do not give by themselves. What lies before and
        // behind is never touched, so it costs address space only.
        let slack = if transparent { HUGE_BYTES } else { 0 };
        let map = anonymous(len_bytes + slack, 0)?;
        let skip = if transparent { (map as usize).next_multiple_of(HUGE_BYTES) - map as usize } else { 0 };
        let backing = if transparent { Backing::Transparent } else { Backing::Small };
        Self::finish((map, len_bytes + slack), skip, len_bytes, backing, node)
    }

    fn finish(
        map: (*mut libc::c_void, usize),
        skip: usize,
        len_bytes: usize,
        backing: Backing,
        node: Option<u32>,
    ) -> io::Result<Self> {
        // SAFETY: `skip` lies inside the mapping, whose address is not null.
        let base = unsafe { NonNull::new_unchecked(map.0.cast::<u8>().add(skip)) };
        // From here on, an error unmaps by drop.
        let mut region = Self { base, len_bytes, map, backing, numa_node: None, huge_bytes: None };
        match backing {
            Backing::HugeTlb => {}
            Backing::Transparent => {
                // A kernel without transparent huge pages refuses: then the pages are small, and it is said.
                if region.advise(libc::MADV_HUGEPAGE).is_err() {
                    region.backing = Backing::Small;
                }
            }
            Backing::Small => {
                let _ = region.advise(libc::MADV_NOHUGEPAGE);
            }
        }
        // Clients' data does not belong in a core dump.
        let _ = region.advise(libc::MADV_DONTDUMP);
        region.numa_node = node.filter(|&node| region.prefer_node(node).is_ok());
        region.prefault()?;
        region.huge_bytes = match region.backing {
            Backing::HugeTlb => Some(len_bytes),
            Backing::Transparent => transparent_bytes(base.as_ptr() as usize, len_bytes),
            Backing::Small => Some(0),
        };
        Ok(region)
    }

    fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: the range is this mapping's own; none of the advices used here changes its content.
        match unsafe { libc::madvise(self.base.as_ptr().cast(), self.len_bytes, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Asks for the pages of one NUMA node. Preferred, not bound: on a full node, far memory is better than the out-of-memory
    /// killer.
    fn prefer_node(&self, node: u32) -> io::Result<()> {
        const BITS: usize = libc::c_ulong::BITS as usize;
        let mut mask: [libc::c_ulong; 1024 / BITS] = [0; 1024 / BITS];
        let word = mask
            .get_mut(node as usize / BITS)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no such NUMA node"))?;
        *word = 1 << (node as usize % BITS);
        // SAFETY: the range is this mapping's own, and the mask is as long as is said (the kernel wants one bit more).
        let result = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.base.as_ptr(),
                self.len_bytes,
                libc::MPOL_PREFERRED as libc::c_ulong,
                mask.as_ptr(),
                1024 + 1 as libc::c_ulong,
                0 as libc::c_ulong,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Makes every page resident now, so that the process is as large as it was configured and no request pays a fault.
    fn prefault(&self) -> io::Result<()> {
        match self.advise(libc::MADV_POPULATE_WRITE) {
            // Before Linux 5.14.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                for offset in (0..self.len_bytes).step_by(PAGE_BYTES) {
                    // SAFETY: inside the mapping, which nobody else knows yet. Volatile, so that the write is not optimised away.
                    unsafe { ptr::write_volatile(self.base.as_ptr().add(offset), 0) };
                }
                Ok(())
            }
            other => other,
        }
    }

    /// Where the region begins: page aligned.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its length, in whole pages.
    pub(super) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// The pages that were had.
    pub(super) fn backing(&self) -> Backing {
        self.backing
    }

    /// How much of it lies in huge pages, when the kernel says.
    pub(super) fn huge_bytes(&self) -> Option<usize> {
        self.huge_bytes
    }

    /// The NUMA node, when the kernel accepted the wish for it.
    pub(super) fn numa_node(&self) -> Option<u32> {
        self.numa_node
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own. The slab keeps its region while any buffer of it lives.
        unsafe { libc::munmap(self.map.0, self.map.1) };
    }
}

/// What the kernel made huge of the mapping that holds `start` (proc_pid_smaps(5)), at most `len_bytes`: it may have joined neighbours.
fn transparent_bytes(start: usize, len_bytes: usize) -> Option<usize> {
    let smaps = io::BufReader::new(std::fs::File::open("/proc/self/smaps").ok()?);
    let mut inside = false;
    for line in smaps.lines().map_while(io::Result::ok) {
        let mut words = line.split_ascii_whitespace();
        let first = words.next()?;
        let bound = |text: &str| usize::from_str_radix(text, 16).ok();
        if let Some((Some(from), Some(to))) = first.split_once('-').map(|(from, to)| (bound(from), bound(to)))
        {
            inside = (from..to).contains(&start);
        } else if inside && first == "AnonHugePages:" {
            let kib: usize = words.next()?.parse().ok()?;
            return Some((kib << 10).min(len_bytes));
        }
    }
    None
}

fn anonymous(len_bytes: usize, flags: libc::c_int) -> io::Result<*mut libc::c_void> {
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that exists.
    let map = unsafe {
        libc::mmap(
            ptr::null_mut(),
            len_bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
            -1,
            0,
        )
    };
    if map == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(map) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_aligned_and_writable() {
        for (huge, len_bytes) in
            [(HugePages::Never, 5000), (HugePages::Try, 5000), (HugePages::Try, (4 << 20) + 1)]
        {
            let region = Region::map(len_bytes, huge, Some(0)).expect("memory for a test");
            assert!(region.len_bytes() >= len_bytes);
            assert_eq!(region.base().as_ptr() as usize % PAGE_BYTES, 0);
            assert!(region.huge_bytes().is_some_and(|huge| huge <= region.len_bytes()));
            if region.backing() != Backing::Small {
                assert_eq!(region.base().as_ptr() as usize % HUGE_BYTES, 0);
                assert_eq!(region.len_bytes() % HUGE_BYTES, 0);
            }
            // SAFETY: the region is this test's own.
            let bytes = unsafe { std::slice::from_raw_parts_mut(region.base().as_ptr(), region.len_bytes()) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes[len_bytes - 1] = 1;
        }
    }

    #[test]
    fn a_node_that_does_not_exist_is_not_claimed() {
        let region = Region::map(PAGE_BYTES, HugePages::Never, Some(4000)).expect("memory for a test");
        assert_eq!(region.numa_node(), None);
    }

    #[test]
    fn the_mapping_is_resident() {
        let region = Region::map(8 << 20, HugePages::Try, None).expect("memory for a test");
        let mut pages = vec![0_u8; region.len_bytes() / PAGE_BYTES];
        // SAFETY: the vector has a byte for each page of the range.
        let result =
            unsafe { libc::mincore(region.base().as_ptr().cast(), region.len_bytes(), pages.as_mut_ptr()) };
        assert_eq!(result, 0);
        assert!(pages.iter().all(|page| page & 1 == 1));
    }
}
