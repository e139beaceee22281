//! Policies of simulated servers: anything that answers a page with an `Alt-Svc` field, and learns from what
//! it sees of the page.

use crate::truth::Page;
use crate::visit::Visit;
use altway_message::AltSvc;
use std::net::IpAddr;
use std::time::Duration;

/// Seconds of a month, the life of a long offer.
pub const MONTH: f64 = 30.0 * 86_400.0;

/// The first request of a page, as the server sees it.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Seconds since the beginning.
    pub now: f64,
    /// The address that it comes from.
    pub address: IpAddr,
    /// User-Agent of the request; empty: none.
    pub user_agent: &'a str,
    /// True if it came over HTTP/3.
    pub over_h3: bool,
    /// True on a connection that was open already.
    pub warm: bool,
    /// Least RTT of the connection, seconds.
    pub rtt: f64,
    pub(crate) truth: Truth<'a>,
}

/// The truth, for the clairvoyant alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Truth<'a> {
    pub(crate) visit: &'a Visit,
}

/// A page that is complete, as the server sees it.
#[derive(Debug, Clone, Copy)]
pub struct ObservedPage<'a> {
    /// The request that it began with.
    pub ask: Ask<'a>,
    /// The document and objects.
    pub page: Page,
    /// True if the first request came in early data (RFC 8446 section 2.3).
    pub early: bool,
    /// True if all of it came over the protocol that it began with.
    pub pure: bool,
    /// The client opened a connection over HTTP/3 that was offered with this page.
    pub arrived: bool,
    /// A connection over HTTP/3 was offered with this page, to a client that had none.
    pub offered: bool,
    /// Seconds from the first request to the last acknowledgement.
    pub time: f64,
    /// Delivery rate, bit/s.
    pub rate: f64,
    /// The rate is the path's; else the application's.
    pub full: bool,
    /// Packets sent.
    pub sent: u64,
    /// Packets lost.
    pub lost: u64,
}

/// A server's way to choose.
pub trait Policy {
    /// The field of the page's responses.
    fn decide(&mut self, ask: &Ask<'_>) -> AltSvc;

    /// Learns from a page.
    fn observe(&mut self, _seen: &ObservedPage<'_>) {}
}

/// HTTP/2 for all: no offer, and `clear` to who has one.
#[derive(Debug, Clone, Copy, Default)]
pub struct AlwaysH2;

impl Policy for AlwaysH2 {
    fn decide(&mut self, ask: &Ask<'_>) -> AltSvc {
        if ask.over_h3 {
            AltSvc::Clear
        } else {
            AltSvc::Absent
        }
    }
}

/// HTTP/3 for all.
#[derive(Debug, Clone, Copy)]
pub struct AlwaysH3 {
    /// Life of the offers, seconds.
    pub max_age: f64,
}

impl Policy for AlwaysH3 {
    fn decide(&mut self, _ask: &Ask<'_>) -> AltSvc {
        offer(self.max_age)
    }
}

/// The better protocol of each visit's path, as it really is; offers live a month, and are taken back by one
/// that ends with the visit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clairvoyant;

impl Policy for Clairvoyant {
    fn decide(&mut self, ask: &Ask<'_>) -> AltSvc {
        let visit = ask.truth.visit;
        let lead = |(h2, h3): (f64, f64)| (h3 / h2).ln();
        let pages = visit.pages.iter().map(|load| lead((load.h2, load.h3)));
        let mean = pages.sum::<f64>() / visit.pages.len() as f64;
        if mean < 0.0 && !visit.blocked {
            offer(MONTH)
        } else if ask.over_h3 {
            offer(600.0)
        } else {
            AltSvc::Absent
        }
    }
}

/// An offer that lives so many seconds.
fn offer(max_age: f64) -> AltSvc {
    AltSvc::Offer {
        max_age: Duration::from_secs_f64(max_age),
        persist: false,
    }
}
