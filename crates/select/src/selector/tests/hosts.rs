//! Hosts of one server that differ.

use super::*;

/// A host whose visitors load `bytes` in so many responses.
fn loading(host: Host, bytes: u64, responses: u32) -> Host {
    let mut mix = host.mix.lock().unwrap();
    for _ in 0..300 {
        mix.add(bytes, responses, true);
    }
    drop(mix);
    host
}

/// Offers that a site and a host of downloads make a client in turns, an hour apart.
fn told(site: Host, downloads: Host) -> [Offer; 6] {
    let selector = selector("learned");
    let (site, downloads) = (loading(site, 30_000, 10), loading(downloads, 90_000_000, 1));
    let client = client("chromium-linux", 1);
    for (transport, mbit) in [(Transport::Tcp, 900), (Transport::Quic, 400)] {
        selector.observe(&client, &site, &seen(transport, 20, mbit), NOW);
    }
    std::array::from_fn(|turn| {
        let now = NOW + Duration::from_secs(3_600 * turn as u64);
        let (host, transport) = match turn % 2 {
            0 => (&site, Transport::Quic),
            _ => (&downloads, Transport::Tcp),
        };
        selector.connected(&client, host, transport, now);
        selector.decide(&client, host, &over(transport, now)).offer
    })
}

#[test]
fn a_host_of_downloads_does_not_take_back_what_a_site_offers() {
    let site = Host::new("www.example.org");
    let downloads = Host::new("downloads.example.org").avoiding(site.taken_slot());
    let [h2, h3] = [Offer::Http2, Offer::Http3];
    assert_eq!(told(site, downloads), [h3, h2, h3, h2, h3, h2]);
    // In one slot they would.
    let told = told(Host::new("example.org"), Host::new("example.org"));
    assert_eq!(told[4], h2);
}

#[test]
fn monitors_of_a_host_of_downloads_do_not_make_a_site_of_it() {
    let (selector, host) = (selector("learned"), host());
    let load = |class, bytes| {
        let mut seen = page(Transport::Tcp, 1.0);
        seen.page.as_mut().unwrap().first = DataSize::from_bytes(bytes);
        seen.page.as_mut().unwrap().rest = DataSize::ZERO;
        selector.observe(&client(class, 9), &host, &seen, NOW);
    };
    for _ in 0..250 {
        load("chromium-linux", 90_000_000);
    }
    for _ in 0..10_000 {
        load("other-other", 600);
    }
    let client = fast(&selector, "chromium-linux");
    let decision = selector.preview(&client, &host, &over(Transport::Tcp, NOW));
    assert!(decision.prediction.unwrap().h2 > 0.5, "{decision:?}");
}

#[test]
fn hosts_have_slots_of_their_own_as_long_as_there_are_any() {
    let mut taken = 0;
    for _ in 0..8 {
        let host = Host::new("example.org").avoiding(taken);
        assert_eq!(taken & host.taken_slot(), 0);
        taken |= host.taken_slot();
    }
    let ninth = Host::new("example.org").avoiding(taken);
    assert_eq!(ninth.taken_slot(), Host::new("example.org").taken_slot());
}
