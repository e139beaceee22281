//! Every line of this crate that the compiler can't check, each behind a safe function.
//!
//! Safe functions of the standard library, `rustix` and `nix` are used from there; these are the
//! calls that they don't have.
#![allow(
    unsafe_code,
    reason = "the system calls below have no safe wrapper in the libraries we use"
)]

mod bpf;
mod child;
mod ethtool;
mod packet;
mod realtime;
mod tun;

pub(crate) use bpf::{Instruction, SharedWords, load_filter, registers, set_tun_filter};
pub(crate) use child::{join_before_exec, try_in_child, try_out_priority};
pub(crate) use ethtool::{Offload, offload, set_offload};
pub(crate) use packet::{Frame, PacketSocket, packet_sender};
pub(crate) use realtime::{request_idle_class, request_realtime};
pub(crate) use tun::{TunOffloads, make_tun, set_tun_offloads};

/// A request about the interface of that name, with all else zero.
fn interface_request(name: &str) -> std::io::Result<libc::ifreq> {
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_data: std::ptr::null_mut(),
        },
    };
    // The last byte stays zero: it ends the name.
    let room = &mut request.ifr_name[..libc::IFNAMSIZ - 1];
    if name.len() > room.len() {
        return Err(std::io::ErrorKind::InvalidFilename.into());
    }
    for (to, from) in room.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed() as libc::c_char;
    }
    Ok(request)
}
