//! Clients on the server's own machine: what is known of the way to them before anything is sent.
//!
//! Loopback carries datagrams of 64 KB, and its costs are by the datagram. To search for that size step
//! by step, as on a network, would take a dozen probes of 50 KB on average. So a connection begins with
//! what everything carries, and its first probe is for all of it. The engine counts such a probe as
//! under way and lets even a small packet out only where a whole one has room: the first congestion
//! window holds both.

use std::net::SocketAddr;
use std::sync::Arc;

use quinn_proto::{MtuDiscoveryConfig, TransportConfig};

use crate::Transport;
use crate::engine::meter::MeteredControllerFactory;
use crate::engine::transport::MIN_MTU;
use crate::initial_window::InitialWindow;

/// Packets in the first congestion window. RFC 9002 section 7.2 has ten, of 14,720 bytes at most, for
/// queues on the way; here is none but the client's socket, which holds three of 64 KB by default
/// (`net.core.rmem_default`) while it reads another.
const WINDOW: u64 = 4;

/// Returns true if a peer is on this machine. No network carries such addresses (RFC 1122 section
/// 3.2.1.3, RFC 4291 section 2.5.3), so that nobody elsewhere has them.
pub(crate) fn is_local_peer(peer: SocketAddr) -> bool {
    peer.ip().to_canonical().is_loopback()
}

/// Makes a transport that of connections to peers on this machine, with packets of up to so many bytes.
pub(crate) fn adapt(to: &mut TransportConfig, from: &Transport, most: u16) {
    let mut discovery = MtuDiscoveryConfig::default();
    // The engine halves the range until a step is smaller than this, and then tries what is left: here
    // all of it at once; if that fails, the middle.
    let at_once = (most - MIN_MTU) / 2 + 1;
    discovery.upper_bound(most).minimum_change(at_once);
    let window = InitialWindow {
        packets: from.initial_window,
        at_least: WINDOW * u64::from(most),
    };
    to.mtu_discovery_config(Some(discovery))
        .congestion_controller_factory(Arc::new(MeteredControllerFactory::of(
            from.congestion,
            window,
        )));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_known_in_every_form() {
        for (peer, near) in [
            ("127.0.0.1:1", true),
            ("127.255.0.9:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("126.0.0.1:1", false),
            ("10.0.0.1:1", false),
            ("[::]:1", false),
            ("[::2]:1", false),
        ] {
            assert_eq!(is_local_peer(peer.parse().unwrap()), near, "{peer}");
        }
    }
}
