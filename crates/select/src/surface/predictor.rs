//! The times of exchanges over one path: what depends on the path alone is worked out once.
//!
//! A decision weighs up to eight exchanges over the same path. Their logarithms and powers are nearly all those of
//! the path: the rate that its loss permits, and the rounds that slow start takes to fill it. The results are the
//! same to the last bit as those of the plain formulas in `reference`.

use super::{Congestion, Exchange, PathProperties, Surface, Times};
use std::cell::Cell;

/// Bytes of payload in a full packet.
pub(super) const SEGMENT: f64 = 1460.0;

/// Bytes of the initial congestion window.
pub(super) const INITIAL_WINDOW: f64 = 10.0 * SEGMENT;

/// Seconds; the least retransmission time-out of Linux.
pub(super) const MIN_RTO: f64 = 0.2;

impl Surface {
    /// Bit/s of the slowest and of the fastest path that are told apart.
    pub const RATES: (f64, f64) = (1e4, 1e11);
    /// Seconds of the shortest and of the longest round trip that are told apart.
    pub const RTTS: (f64, f64) = (1e-5, 10.0);
    /// The largest loss that is told apart from a larger one.
    pub const MAX_LOSS: f64 = 0.4;
}

/// Round trips that the pipe is not full for while the window doubles, each.
pub(super) const ROUND: f64 = 0.93;

/// Predicts the times of exchanges over one path by a surface.
pub(crate) struct Predictor<'a> {
    surface: &'a Surface,
    congestion2: Congestion,
    congestion3: Congestion,
    rtt: f64,
    loss: f64,
    /// Factor of what is sent because of what was lost.
    resent: f64,
    /// Exponent of the lead of HTTP/3, before how much loss slows.
    lead: f64,
    tcp: Pipe,
    /// The rate that loss permits, where anything takes loss for congestion.
    lossy: Option<Pipe>,
    quic: Pipe,
    /// Sizes of the latest exchange, and what they took.
    latest: Cell<Option<(Sizes, Transfers)>>,
}

/// The sizes of an exchange, which decide how long its bytes take, whatever connection they come on.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sizes {
    document: f64,
    objects: f64,
}

/// Seconds that the bytes of an exchange take at each rate.
#[derive(Debug, Clone, Copy)]
struct Transfers {
    tcp: Transfer,
    lossy: Option<Transfer>,
    quic: Transfer,
    /// Share of such exchanges that lose a packet.
    seen: f64,
}

/// Seconds of the document, and of the objects where there are any.
#[derive(Debug, Clone, Copy)]
struct Transfer {
    document: f64,
    objects: Option<f64>,
}

impl<'a> Predictor<'a> {
    /// Whatever the terms: what is out of range, or no number, counts as the nearest that is within.
    pub(crate) fn new(surface: &'a Surface, path_properties: &PathProperties) -> Self {
        let (rate2, rate3) = (
            within(path_properties.rate2, Surface::RATES),
            within(path_properties.rate3, Surface::RATES),
        );
        let rtt = within(path_properties.rtt, Surface::RTTS);
        let loss = within(path_properties.loss, (0.0, Surface::MAX_LOSS));
        let by_loss = [path_properties.congestion2, path_properties.congestion3]
            .contains(&Congestion::LossBased);
        let lossy = by_loss.then(|| {
            let limited = loss_limited(surface.loss.numerator, loss, rtt);
            Pipe::new(soft_min(rate2, limited, surface.loss.softness), rtt)
        });
        Self {
            surface,
            congestion2: path_properties.congestion2,
            congestion3: path_properties.congestion3,
            rtt,
            loss,
            resent: 1.0 / (1.0 - loss),
            lead: surface.lead.base + surface.lead.growth * loss.min(0.06),
            tcp: Pipe::new(rate2, rtt),
            lossy,
            quic: Pipe::new(rate3, rtt),
            latest: Cell::new(None),
        }
    }

    /// Predicts how long an exchange takes.
    pub(crate) fn times(&self, exchange: &Exchange) -> Times {
        let exchange = exchange.bounded();
        let transfers = self.transfers(&exchange);
        let clean = self.whole(exchange.setup2, transfers.tcp);
        let clean3 = self.whole(exchange.setup3, transfers.quic) + self.opening(&exchange);
        let by_rate = (clean * self.resent, clean3 * self.resent);
        let by_loss = transfers.lossy.map(|lossy| {
            let slow = self.whole(exchange.setup2, lossy);
            let seen = transfers.seen;
            let disturbed = (clean * (1.0 - seen) + slow * seen).max(clean);
            (disturbed, disturbed / clean)
        });
        let h2 = match (self.congestion2, by_loss) {
            (Congestion::LossBased, Some((disturbed, _))) => disturbed,
            _ => by_rate.0,
        };
        let h3 = match (self.congestion3, by_loss) {
            (Congestion::LossBased, Some((_, slowdown))) => {
                clean3 * slowdown * (-self.lead(slowdown, exchange.many)).exp()
            }
            _ => by_rate.1,
        };
        let waiting = (exchange.document + exchange.objects) * 8.0 / self.quic.rate / clean3;
        Times { h2, h3, waiting }
    }

    /// Exponent of the lead that HTTP/3 has where loss slows.
    fn lead(&self, slowdown: f64, many: bool) -> f64 {
        let lead = &self.surface.lead;
        let many = if many { lead.objects } else { 0.0 };
        self.lead * (1.0 - (-lead.pace * slowdown.ln()).exp()) * (1.0 + many)
    }

    /// Seconds that HTTP/3 takes for its handshake or request, beyond HTTP/2.
    fn opening(&self, exchange: &Exchange) -> f64 {
        let quic = &self.surface.quic;
        if exchange.setup2 > 0.0 || exchange.setup3 > 0.0 {
            quic.handshake_bytes * 8.0 / self.tcp.rate + quic.handshake_seconds
        } else {
            quic.request_seconds
        }
    }

    /// Exchanges on new and on open connections follow each other with the same sizes.
    fn transfers(&self, exchange: &Exchange) -> Transfers {
        let sizes = Sizes {
            document: exchange.document,
            objects: exchange.objects,
        };
        if let Some((_, transfers)) = self.latest.get().filter(|(latest, _)| *latest == sizes) {
            return transfers;
        }
        let packets = (sizes.document + sizes.objects) / SEGMENT;
        let rounds = rounds(sizes.document, INITIAL_WINDOW);
        let transfers = Transfers {
            tcp: self.tcp.transfer(&sizes, rounds),
            lossy: self.lossy.as_ref().map(|it| it.transfer(&sizes, rounds)),
            quic: self.quic.transfer(&sizes, rounds),
            seen: 1.0 - (-packets * self.loss).exp(),
        };
        self.latest.set(Some((sizes, transfers)));
        transfers
    }

    /// Seconds with `setup` round trips before the first request.
    fn whole(&self, setup: f64, transfer: Transfer) -> f64 {
        let first = 0.001 + (setup + 1.0) * self.rtt + transfer.document;
        match transfer.objects {
            Some(objects) => first + self.rtt + objects,
            None => first,
        }
    }
}

/// A path at one rate, with the slow starts from two windows.
struct Pipe {
    rate: f64,
    rtt: f64,
    /// The slow start from the initial window.
    initial: Ramp,
    /// The slow start from another one: documents of most pages have the same size.
    latest: Cell<Ramp>,
}

/// The rounds of a slow start from `window` until it fills the path.
#[derive(Debug, Clone, Copy)]
struct Ramp {
    window: f64,
    rounds: f64,
    /// Bytes that it has sent then.
    grown: f64,
}

impl Ramp {
    fn new(window: f64, rate: f64, rtt: f64) -> Self {
        let rounds = (rate * rtt / 8.0 / window).max(1.0).log2();
        Self {
            window,
            rounds,
            grown: window * (rounds.exp2() - 1.0),
        }
    }
}

impl Pipe {
    fn new(rate: f64, rtt: f64) -> Self {
        let initial = Ramp::new(INITIAL_WINDOW, rate, rtt);
        Self {
            rate,
            rtt,
            initial,
            latest: Cell::new(initial),
        }
    }

    /// Seconds of the bytes over the path without loss; `rounds` of the document from the initial window.
    fn transfer(&self, sizes: &Sizes, first: f64) -> Transfer {
        let document = sizes.document;
        let objects = (sizes.objects > 0.0).then(|| {
            let grown = (INITIAL_WINDOW + document).min(self.rate * self.rtt / 8.0 + SEGMENT);
            let window = grown.max(INITIAL_WINDOW);
            self.slow_start(sizes.objects, window, rounds(sizes.objects, window))
        });
        Transfer {
            document: self.slow_start(document, INITIAL_WINDOW, first),
            objects,
        }
    }

    /// Seconds from the first byte to the last, with a window that doubles each round trip until it fills the
    /// path: `doubling` times, if the path were endless.
    ///
    /// A faster path never takes longer: what the doubling rounds would cost more than the faster rate saves,
    /// just before the window fills the path, is left out.
    fn slow_start(&self, size: f64, window: f64, doubling: f64) -> f64 {
        let (rate, rtt) = (self.rate, self.rtt);
        let small = rtt * doubling.max(0.0) + size.min(window) * 8.0 / rate;
        let time = if size + window < rate * rtt / 8.0 {
            small
        } else {
            // From this rate on the time would grow with the rate.
            let best = 8.0 * (size + window) * std::f64::consts::LN_2 / (ROUND * rtt);
            let slower = rate.min(best.max(8.0 * window / rtt));
            let ramp = self.ramp(window, slower);
            let large = ramp.rounds * rtt * ROUND + (size - ramp.grown) * 8.0 / slower;
            if ramp.rounds > 0.0 {
                large.max(small)
            } else {
                large
            }
        };
        time.max(size * 8.0 / rate)
    }

    fn ramp(&self, window: f64, rate: f64) -> Ramp {
        if rate < self.rate {
            return Ramp::new(window, rate, self.rtt);
        }
        if self.initial.window == window {
            return self.initial;
        }
        let latest = self.latest.get();
        if latest.window == window {
            return latest;
        }
        let ramp = Ramp::new(window, rate, self.rtt);
        self.latest.set(ramp);
        ramp
    }
}

/// Rounds after the first in which a window that doubles sends `size` bytes: log2(size / window + 1) rounded
/// up, less one. What is above a power of two by less than rounding makes of it counts as the power.
fn rounds(size: f64, window: f64) -> f64 {
    /// The part of the mantissa that is looked at: what differs below it may be rounding.
    const CLOSE: u64 = 1 << 28;
    let windows = size / window + 1.0;
    let mantissa = windows.to_bits() & ((1 << 52) - 1);
    if mantissa < CLOSE {
        return (windows.log2() - 1e-9).ceil() - 1.0;
    }
    // At least 1, and no power of two: the exponent is the logarithm rounded down.
    let exponent = (windows.to_bits() >> 52) as u32;
    f64::from(exponent) - 1023.0
}

/// Bit/s that a sender gets which takes loss for congestion, in the form of Padhye et al., "Modeling TCP
/// Throughput" (SIGCOMM 1998).
pub(super) fn loss_limited(numerator: f64, loss: f64, rtt: f64) -> f64 {
    let loss = loss.max(1e-7);
    let rtt = rtt + 0.0004;
    let recovered = rtt * (2.0 * loss / 3.0).sqrt() / numerator;
    let timed_out = (2.0 * rtt).max(MIN_RTO)
        * (3.0 * (3.0 * loss / 8.0).sqrt()).min(1.0)
        * loss
        * (1.0 + 32.0 * loss * loss);
    SEGMENT * 8.0 / (recovered + timed_out)
}

/// The smaller of both, a little less where they are close.
pub(super) fn soft_min(a: f64, b: f64, exponent: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    low * (1.0 + (low / high).powf(exponent)).powf(-1.0 / exponent)
}

impl Exchange {
    fn bounded(&self) -> Self {
        Self {
            document: within(self.document, (1.0, 1e13)),
            objects: within(self.objects, (0.0, 1e13)),
            many: self.many,
            setup2: within(self.setup2, (0.0, 10.0)),
            setup3: within(self.setup3, (0.0, 10.0)),
        }
    }
}

/// The nearest value in the range; what is no number is the least.
fn within(value: f64, (low, high): (f64, f64)) -> f64 {
    if value.is_nan() {
        low
    } else {
        value.clamp(low, high)
    }
}
