//! Packet sockets: the ring into which the kernel writes what comes in (TPACKET_V2 of packet(7)).

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The unit in which the kernel allocates the ring: a multiple of every page size.
const BLOCK: usize = 64 << 10;

/// A packet socket on one interface, with the ring of what came in through it.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    socket: OwnedFd,
    ring: Ring,
}

/// A frame in the ring, with what the kernel says of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    /// Bytes of the frame, as many as fitted.
    pub(crate) bytes: &'a [u8],
    /// Length of the frame, in bytes.
    pub(crate) length: usize,
    /// Time at which the kernel got it: time since 1970.
    pub(crate) received: Duration,
    /// True if it was for this interface itself: for its own hardware address.
    pub(crate) is_for_us: bool,
    /// True if its checksum of the transport layer was left to hardware that is not there.
    pub(crate) lacks_checksum: bool,
    /// True if it had a VLAN tag, which `bytes` lack.
    pub(crate) is_tagged: bool,
}

impl PacketSocket {
    /// Opens a socket that receives into a ring of `frames` places of `frame_size` bytes, which must
    /// be a power of two and at most 64 KiB.
    pub(crate) fn receiver(interface: u32, frame_size: usize, frames: usize) -> io::Result<Self> {
        // Protocol 0 receives nothing until the socket is bound.
        let socket = open()?;
        set(
            &socket,
            libc::PACKET_VERSION,
            &libc::tpacket_versions::TPACKET_V2,
        )?;
        set(&socket, libc::PACKET_IGNORE_OUTGOING, &1_i32)?;
        let number = |count: usize| u32::try_from(count).map_err(io::Error::other);
        let request = libc::tpacket_req {
            tp_block_size: number(BLOCK)?,
            tp_block_nr: number(frames * frame_size / BLOCK)?,
            tp_frame_size: number(frame_size)?,
            tp_frame_nr: number(frames)?,
        };
        set(&socket, libc::PACKET_RX_RING, &request)?;
        let ring = Ring::map(&socket, frame_size, frames)?;
        bind(&socket, interface, libc::ETH_P_ALL)?;
        receive_all(&socket, interface)?;
        Ok(Self { socket, ring })
    }

    /// Hands the oldest frame in the ring to `take`, and its place back to the kernel; `None` when the
    /// ring is empty.
    pub(crate) fn next<T>(&mut self, take: impl FnOnce(Frame<'_>) -> T) -> Option<T> {
        self.ring.next(take)
    }

    /// Returns how many frames found the ring full since the last call.
    pub(crate) fn take_drops(&self) -> io::Result<u32> {
        let mut statistics = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: PACKET_STATISTICS writes one `tpacket_stats`, whose size it is told; both places
        // outlive the call.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        };
        done(result)?;
        Ok(statistics.tp_drops)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Opens a packet socket that sends through an interface, past its queueing discipline, and receives
/// nothing.
pub(crate) fn packet_sender(interface: u32) -> io::Result<OwnedFd> {
    let socket = open()?;
    set(&socket, libc::PACKET_QDISC_BYPASS, &1_i32)?;
    bind(&socket, interface, 0)?;
    Ok(socket)
}

/// The memory that the kernel shares with the socket.
#[derive(Debug)]
struct Ring {
    memory: NonNull<u8>,
    frame_size: usize,
    frames: usize,
    next: usize,
}

// SAFETY: the memory belongs to the ring alone, whichever thread has it.
unsafe impl Send for Ring {}

impl Ring {
    fn map(socket: &OwnedFd, frame_size: usize, frames: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that is there.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                frame_size * frames,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            memory,
            frame_size,
            frames,
            next: 0,
        })
    }

    fn next<T>(&mut self, take: impl FnOnce(Frame<'_>) -> T) -> Option<T> {
        // SAFETY: `next` is below `frames`, so the place lies within the mapping.
        let place = unsafe { self.memory.add(self.next * self.frame_size) };
        // SAFETY: each place begins with a `tpacket2_hdr`, whose first field is the status, a u32 at
        // an address aligned for it; kernel and program access it atomically.
        let status = unsafe { AtomicU32::from_ptr(place.cast().as_ptr()) };
        let seen = status.load(Ordering::Acquire);
        if seen & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: with that flag the kernel has left the place to the program, until the status is
        // set back below.
        let frame = unsafe { frame_at(place, self.frame_size, seen) };
        let taken = take(frame);
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.frames;
        Some(taken)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no frame is borrowed any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.frame_size * self.frames) };
    }
}

/// Returns the frame in a place of the ring.
///
/// # Safety
/// `place` is a place of `size` bytes that the kernel has filled and left to the program for as long
/// as the frame lives.
unsafe fn frame_at<'a>(place: NonNull<u8>, size: usize, status: u32) -> Frame<'a> {
    // SAFETY: as above; a place begins with the header, and is aligned for it.
    let header: libc::tpacket2_hdr = unsafe { place.cast().read() };
    // SAFETY: as above; a `sockaddr_ll` follows the header, at the next multiple of 16.
    let sender: libc::sockaddr_ll = unsafe {
        place
            .add(size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT))
            .cast()
            .read()
    };
    // The kernel writes nothing beyond the place; this holds whatever it says.
    let start = usize::from(header.tp_mac).min(size);
    let length = (header.tp_snaplen as usize).min(size - start);
    // SAFETY: as above, and the range was just cut to the place.
    let bytes = unsafe { std::slice::from_raw_parts(place.add(start).as_ptr(), length) };
    Frame {
        bytes,
        length: header.tp_len as usize,
        received: Duration::new(header.tp_sec.into(), header.tp_nsec.min(999_999_999)),
        is_for_us: sender.sll_pkttype == libc::PACKET_HOST,
        lacks_checksum: status & libc::TP_STATUS_CSUMNOTREADY != 0,
        is_tagged: status & libc::TP_STATUS_VLAN_VALID != 0,
    }
}

fn open() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: makes a new descriptor and touches nothing else.
    let socket = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    done(socket)?;
    // SAFETY: it was just made, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

fn bind(socket: &OwnedFd, interface: u32, protocol: libc::c_int) -> io::Result<()> {
    let protocol = u16::try_from(protocol).map_err(io::Error::other)?;
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: interface.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: bind reads one `sockaddr_ll`, whose size it is told.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    done(result)
}

/// Receives what is for other hardware addresses too, for as long as the socket is open.
fn receive_all(socket: &OwnedFd, interface: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: interface.cast_signed(),
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(socket, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Sets an option of the level SOL_PACKET, of which `value` is the structure that packet(7) names.
fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as it is told, which are those of `value`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    done(result)
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
