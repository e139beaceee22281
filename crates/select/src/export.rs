//! The knowledge of each client as plain numbers, for an operator's own tools.

use crate::client_state::ClientState;
use crate::observation::Transport;
use crate::{ClientClass, ClientKey, Selector, UnixTime};

/// The knowledge of one address and class. Counts of packets and pages fade with time, so that they need not be
/// whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClientRecord {
    /// The keyed hash that stands for the address.
    pub key: ClientKey,
    /// The class.
    pub class: ClientClass,
    /// Measured rates over TCP and over QUIC, in bit/s.
    pub rates: [Option<f64>; 2],
    /// Lower bound of the path's rate, in bit/s; 0 if unknown.
    pub floor: f64,
    /// Round-trip times over TCP and over QUIC, in seconds.
    pub rtts: [Option<f64>; 2],
    /// Packets sent and lost.
    pub packets: (f64, f64),
    /// Pages over TCP and over QUIC, with the mean of ln of their time over what was predicted; 0 without a page.
    pub pages: [(f64, f64); 2],
    /// Offers of HTTP/3 after which a visit began, and visits that came over HTTP/3; both are halved above twelve.
    pub offers: (u8, u8),
    /// True if HTTP/3 was offered and never used.
    pub udp_blocked: bool,
    /// The client is in the hold-out of this week.
    pub held: bool,
    /// Beginning of the latest visit.
    pub last_visit: UnixTime,
}

impl Selector {
    /// Calls `record` with what is known of each client, as of `now`. A part of what is known is locked meanwhile.
    pub fn each_client(&self, now: UnixTime, mut record: impl FnMut(&ClientRecord)) {
        self.store.each_client(|address, class, mut known| {
            if known.is_forgotten(now) {
                return;
            }
            known.fade(now);
            let known = known.under(self.congestion);
            record(&ClientRecord::of(ClientKey::of(address), class, &known));
        });
    }
}

impl ClientRecord {
    fn of(key: ClientKey, class: ClientClass, known: &ClientState) -> Self {
        let both = [Transport::Tcp, Transport::Quic];
        Self {
            key,
            class,
            rates: both.map(|it| known.rate(it).map(|(ln, _)| ln.exp())),
            floor: known.floor(),
            rtts: both.map(|it| known.rtt(it)),
            packets: known.packets(),
            pages: both.map(|it| {
                let residuals = known.residuals(it);
                (residuals.pages, residuals.mean())
            }),
            offers: known.offers(),
            udp_blocked: known.is_udp_blocked(),
            held: known.is_held(),
            last_visit: known.last_visit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, Config, Host, ModelKind, Observation, Secret};
    use std::time::Duration;

    const NOW: UnixTime = UnixTime::from_secs(1_795_392_000);

    #[test]
    fn each_client_is_told_of_by_its_key_until_it_is_forgotten() {
        let secret = Secret::new([1; 16]);
        let selector = Selector::new(Config::new(secret, &ModelKind::Learned(None)));
        let class = "firefox-linux".parse().unwrap();
        let clients = ["192.0.2.1", "192.0.2.2"].map(|address| {
            let client = Client::new(&secret, address.parse().unwrap(), class);
            selector.connected(&client, &Host::new("a"), Transport::Quic, NOW);
            client
        });
        let seen = Observation {
            min_rtt: Some(Duration::from_millis(7)),
            packets_sent: 100,
            packets_lost: 2,
            ..Observation::new(Transport::Quic)
        };
        selector.observe(&clients[1], &Host::new("a"), &seen, NOW);
        let records = |now| {
            let mut records = Vec::new();
            selector.each_client(now, |it| records.push(*it));
            records
        };
        let found = records(NOW);
        assert_eq!(found.len(), 2);
        let of = |client: &Client| *found.iter().find(|it| it.key == client.key()).unwrap();
        let (idle, seen) = (of(&clients[0]), of(&clients[1]));
        assert_eq!((idle.rtts, idle.packets), ([None, None], (0.0, 0.0)));
        assert_eq!(idle.pages, [(0.0, 0.0); 2]);
        assert_eq!((seen.rtts[1], seen.packets), (Some(0.007), (100.0, 2.0)));
        assert_eq!((seen.last_visit, seen.offers), (NOW, (1, 1)));
        assert!(records(NOW + Duration::from_secs(31 * 86_400)).is_empty());
    }
}
