//! Memory that a program in the kernel writes and we read, and the calls that put such a program (eBPF)
//! at a TUN interface.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// The commands of bpf(2) that are used here, and what they are told (linux/bpf.h).
const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_F_MMAPABLE: u32 = 1 << 10;
const BPF_PROG_TYPE_SOCKET_FILTER: u32 = 1;

/// The request of linux/if_tun.h that sets a filter.
const TUNSETFILTEREBPF: libc::Ioctl = libc::_IOR::<libc::c_int>(b'T' as u32, 225);

/// An instruction of eBPF as the kernel reads it: operation, registers, offset and operand (RFC 9669
/// section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    pub(crate) operation: u8,
    /// The two registers, as [`registers`] packs them.
    pub(crate) registers: u8,
    pub(crate) offset: i16,
    pub(crate) operand: i32,
}

/// Packs the two registers of an instruction, which are below 16.
pub(crate) const fn registers(destination: u8, source: u8) -> u8 {
    if cfg!(target_endian = "little") {
        destination | source << 4
    } else {
        destination << 4 | source
    }
}

/// Attributes that `BPF_MAP_CREATE` reads; the kernel takes the fields that are not named as zero.
#[repr(C)]
struct MapAttributes {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

/// Attributes that `BPF_PROG_LOAD` reads.
#[repr(C)]
struct ProgramAttributes {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
}

/// An array map of one value, which is some 64-bit words: programs write it, we see it as memory.
#[derive(Debug)]
pub(crate) struct SharedWords {
    map: OwnedFd,
    memory: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the memory is only read, atomically, and stays where it is until the owner is dropped.
unsafe impl Send for SharedWords {}

impl SharedWords {
    /// Makes them, all zero.
    ///
    /// # Errors
    /// The kernel refuses: it is older than Linux 5.5, or the program has no privilege over it.
    pub(crate) fn create(words: usize) -> io::Result<Self> {
        let bytes = words * size_of::<u64>();
        let attributes = MapAttributes {
            map_type: BPF_MAP_TYPE_ARRAY,
            key_size: size_of::<u32>() as u32,
            value_size: u32::try_from(bytes).map_err(io::Error::other)?,
            max_entries: 1,
            map_flags: BPF_F_MMAPABLE,
        };
        let map = bpf(BPF_MAP_CREATE, &attributes)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that is there.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { map, memory, words })
    }

    /// The word at `place`, read with this `order`.
    ///
    /// # Panics
    /// There are not so many.
    pub(crate) fn load(&self, place: usize, order: Ordering) -> u64 {
        assert!(place < self.words, "a place in the map");
        // SAFETY: the place lies within the mapping, whose pages are aligned for a word; the kernel
        // writes words whole.
        unsafe { self.memory.add(place).as_ref() }.load(order)
    }

    /// The map for programs.
    pub(crate) fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing in it is borrowed any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.words * size_of::<u64>()) };
    }
}

/// Has the kernel check and load a program that looks at packets (BPF_PROG_TYPE_SOCKET_FILTER).
///
/// # Errors
/// The kernel does not know what the program does, or does not let this process load one.
pub(crate) fn load_filter(program: &[Instruction]) -> io::Result<OwnedFd> {
    let license = c"MIT";
    let attributes = ProgramAttributes {
        prog_type: BPF_PROG_TYPE_SOCKET_FILTER,
        insn_cnt: u32::try_from(program.len()).map_err(io::Error::other)?,
        insns: program.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log_buf: 0,
    };
    bpf(BPF_PROG_LOAD, &attributes)
}

/// Makes a TUN interface run `program` for every packet that it is to send: its result is how many
/// bytes of the packet stay. It does so for as long as the interface is there.
///
/// # Errors
/// The kernel is older than Linux 4.16, or the file is no interface.
pub(crate) fn set_tun_filter(tun: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let program = program.as_raw_fd();
    // SAFETY: TUNSETFILTEREBPF reads one `int`, which outlives the call.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), TUNSETFILTEREBPF, &raw const program) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A command that makes something, and returns its descriptor.
fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: both commands only read, and no more than they are told: the attributes, and the program
    // and licence that these point to, which their callers hold.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<T>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let descriptor = i32::try_from(result).map_err(io::Error::other)?;
    // SAFETY: it was just made, close-on-exec, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
