//! The fields of a TCP header that differ within a large segment (RFC 9293 §3.1).

/// Offset at which the sequence number stands: four bytes.
pub(super) const SEQUENCE: usize = 4;
/// Offset at which the flags stand: one byte.
pub(super) const FLAGS: usize = 13;

/// No more data from the sender.
pub(super) const FIN: u8 = 0x01;
/// The application may have it at once.
pub(super) const PSH: u8 = 0x08;
/// The acknowledgement number counts.
pub(super) const ACK: u8 = 0x10;
/// The congestion window was reduced (RFC 3168 §6.1.2).
pub(super) const CWR: u8 = 0x80;
