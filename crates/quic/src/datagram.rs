//! UDP datagrams as they come in and go out.

use std::net::{IpAddr, SocketAddr};

/// The two ECN bits of an IP header (RFC 3168). `None` where they are 00 or not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// ECT(0), bits 10: what QUIC senders set.
    Ect0,
    /// ECT(1), bits 01.
    Ect1,
    /// Congestion experienced, bits 11.
    Ce,
}

impl Ecn {
    /// Reads the low two bits of the TOS or traffic-class byte.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits & 3 {
            0b10 => Some(Ecn::Ect0),
            0b01 => Some(Ecn::Ect1),
            0b11 => Some(Ecn::Ce),
            _ => None,
        }
    }

    /// The two bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Ecn::Ect0 => 0b10,
            Ecn::Ect1 => 0b01,
            Ecn::Ce => 0b11,
        }
    }
}

/// A UDP datagram that came in. The shell splits GRO batches.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The address that it came from.
    pub remote: SocketAddr,
    /// The address it was sent to, if the shell knows (IP_PKTINFO); answers leave from it.
    pub local_ip: Option<IpAddr>,
    /// ECN bits of the datagram.
    pub ecn: Option<Ecn>,
    /// The UDP payload, up to 65,527 bytes.
    pub payload: &'a [u8],
}

/// A batch of datagrams to send to one address, whose bytes `poll_transmit` put into its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The address that it goes to.
    pub destination: SocketAddr,
    /// The address to send from, if one was given with the datagrams of this connection.
    pub local_ip: Option<IpAddr>,
    /// ECN bits to set.
    pub ecn: Option<Ecn>,
    /// Set if the buffer holds several datagrams: each has this many bytes, the last may have
    /// fewer (UDP_SEGMENT).
    pub segment_size: Option<usize>,
    /// Number of bytes in the buffer.
    pub size: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ecn_bits_round_trip() {
        for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            assert_eq!(Ecn::from_bits(ecn.bits() | 0xa4), Some(ecn));
        }
        assert_eq!(Ecn::from_bits(0), None);
    }
}
