//! Parameters of one direction of a link.

use crate::{Discipline, Jitter, LossModel, Queue, Rate, Reordering, UdpTreatment};
use altway_units::Ratio;
use std::time::Duration;

/// The parameters of one direction.
///
/// The default is a link that changes nothing: no rate limit, no delay, no loss. The fields stand in
/// the order in which they treat a packet (see the [crate head](crate)), but for the rate and the
/// queue in front of it and the treatment of UDP, which comes first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// Rate at which packets are serialised, in IP bits per second.
    pub rate: Rate,
    /// The one-way delay that follows serialisation. A round trip over two such directions takes
    /// twice that.
    pub delay: Duration,
    /// Amount by which the delay of single packets strays from [`delay`](Self::delay).
    pub jitter: Jitter,
    /// Model of the packets that are lost.
    pub loss: LossModel,
    /// The probability that a packet comes twice.
    pub duplication: Ratio,
    /// Model of the packets that overtake others, or are overtaken.
    pub reordering: Reordering,
    /// The probability that a bit of a packet is flipped; see [`BitFlip`](crate::BitFlip).
    pub corruption: Ratio,
    /// Amount that may wait for the rate; without effect when there is no rate.
    pub queue: Queue,
    /// Rule by which packets of the queue are dropped; without effect when there is no rate.
    pub discipline: Discipline,
    /// Treatment of UDP packets before all else.
    pub udp: UdpTreatment,
}
