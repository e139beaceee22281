//! The surface over the host's mix, alone or with what is learnt of classes and clients.

use super::{ClientState, Context, Judgement, Model, OfferMode};
use crate::ClientClass;
use crate::decision::{Offer, Prediction, Reason};
use crate::limit::{limited_rate, separate};
use crate::loss;
use crate::observation::Transport;
use crate::residuals;
use crate::surface::{Congestion, Exchange, PathProperties, Predictor, Surface};

/// bit/s, seconds: a path of which nothing is known.
const RATE: f64 = 80e6;
const RTT: f64 = 0.03;

/// ln: deviation of a measured rate, and of a client's rate over QUIC from that of its class.
const RATE_NOISE: f64 = 0.2;
const CLIENT_NOISE: f64 = 0.45;

/// ln: deviation of the predicted difference under congestion control for which the surface does not vouch: the rms over 60
/// cells with TCP's BBR beside QUIC's CUBIC, nearly all of it from the 40 with loss.
const UNMEASURED_NOISE: f64 = 0.50;

/// Loss above which a rate may be what loss permits; below it HTTP/3 has next to no lead by it.
pub(crate) const LIMITING_LOSS: f64 = 0.005;

/// Least and largest share of what loss permits that transfers limited by it show: 0.3 to 0.7 in the median (1 MB, 20 to
/// 100 ms, 2 to 2.5 %), with time-outs of some and the luck of others. A higher rate is the path's, whatever is lost there.
const OF_PERMITTED: (f64, f64) = (1.0 / 3.0, 2.0);

/// ln: deviation of a rate that loss limits, times the square root of the packets that were lost meanwhile. Sessions over 20 lossy links with
/// delay have .29 to .56 with 17 of them, .11 to .31 with 35, and .05 to .14 with 170 and 350.
const LOSS_NOISE: f64 = 1.6;

/// TCP's rate over QUIC's above which UDP is throttled: of transfers that loss limits by chance, fewer than one pair in a hundred.
const THROTTLED: f64 = 4.0;

/// Gain below which HTTP/3 isn't worth its processor time, and what stays as it is on both sides of it.
const MARGIN: f64 = 0.03;
const HYSTERESIS: f64 = 0.01;

/// Busy share from which on processor time has a price, up to which it rises, and the price.
const BUSY: (f64, f64) = (0.70, 0.95);
const PRICE: f64 = 0.10;

/// HTTP/3 where a surface predicts that it is faster by more than a margin.
#[derive(Debug, Clone, PartialEq)]
pub struct SurfaceModel {
    surface: Surface,
    margin: f64,
    learns: bool,
}

impl SurfaceModel {
    /// A model of `surface` alone, which was `fitted` on the operator's own machine or elsewhere: then the surface may
    /// be off by some percent already, and a margin would add to it.
    #[must_use]
    pub fn surface(surface: Surface, fitted: bool) -> Self {
        let margin = if fitted { MARGIN } else { 0.0 };
        Self {
            surface,
            margin,
            learns: false,
        }
    }

    /// Makes a model of `surface` and what is learnt; margin 3 %.
    #[must_use]
    pub fn learned(surface: Surface) -> Self {
        Self {
            surface,
            margin: MARGIN,
            learns: true,
        }
    }

    /// Predicts what a client of `class` is offered that is on HTTP/2, over a path that is known: `rate` in bit/s, `rtt`
    /// in seconds, `loss` as a share of packets, `congestion` of TCP and of QUIC; and ln(T3 / T2) as it is predicted.
    /// Nothing is known of the client itself, and the server has time.
    ///
    /// ```
    /// use altway_select::model::SurfaceModel;
    /// use altway_select::{ClientClass, Congestion, Exchange, Offer, Surface};
    ///
    /// let model = SurfaceModel::learned(Surface::embedded().clone());
    /// let class: ClientClass = "altway-other".parse()?;
    /// // A megabyte on a new connection: HTTP/3 saves a round trip, which is much of it on a long path.
    /// let exchange = Exchange { document: 1e6, objects: 0.0, many: false, setup2: 2.0, setup3: 1.0 };
    /// let cubic = [Congestion::LossBased; 2];
    /// assert_eq!(model.choose(class, 5e6, 0.0004, 0.0, cubic, &exchange).0, Offer::Http2);
    /// assert_eq!(model.choose(class, 100e6, 0.2, 0.0, cubic, &exchange).0, Offer::Http3);
    /// # Ok::<(), altway_select::ParseClassError>(())
    /// ```
    #[must_use]
    pub fn choose(
        &self,
        class: ClientClass,
        rate: f64,
        rtt: f64,
        loss: f64,
        congestion: [Congestion; 2],
        exchange: &Exchange,
    ) -> (Offer, f64) {
        let path_properties = self
            .surface
            .path_properties(class, rate, rtt, loss, congestion);
        let difference = self.surface.times(&path_properties, exchange).difference();
        let http3 = difference < -self.margin - HYSTERESIS;
        (Offer::of(http3), difference)
    }

    fn margin(&self, load: f64) -> f64 {
        let busy = ((load - BUSY.0) / (BUSY.1 - BUSY.0)).clamp(0.0, 1.0);
        self.margin + PRICE * if busy.is_nan() { 0.0 } else { busy }
    }

    /// The prediction for a client. On a server with few visits nothing that was learnt counts but a client's own rates
    /// once both are measured: they need no prediction that might be wrong, and say at once that UDP is throttled.
    pub(crate) fn predict(&self, context: &Context<'_>) -> Prediction {
        let learns = self.learns && context.learning;
        let own_rates = learns || self.learns && has_both_rates(context);
        let limit = if learns {
            context.limit
        } else {
            crate::classes::prior(&self.surface, context.class).0
        };
        let path = path(context, &self.surface, limit, own_rates);
        let path_properties = path_properties(context, &path);
        let predictor = Predictor::new(&self.surface, &path_properties);
        let (ln2, ln3, slope) = context.mix.times(|exchange| predictor.times(exchange));
        let difference = ln3 - ln2;
        let effect = match context.known {
            Some(known) if learns => residuals::effect(
                known.residuals(Transport::Tcp),
                known.residuals(Transport::Quic),
            ),
            _ => 0.0,
        };
        let correction = if learns { context.correction } else { 0.0 };
        let is_measured = self.surface.is_measured(context.congestion);
        Prediction {
            h2: ln2.exp(),
            h3: ln3.exp(),
            difference: difference + effect + correction,
            deviation: deviation(path.deviation * slope, is_measured),
            effect,
            margin: self.margin(context.load),
            rates: [path.rate2, path.rate3],
            rtt: path_properties.rtt,
            loss: path_properties.loss,
            congestion: context.congestion,
            is_measured,
        }
    }
}

fn has_both_rates(context: &Context<'_>) -> bool {
    context.known.is_some_and(ClientState::has_both_rates)
}

/// Standard deviation of a difference, of which that of what is known of the client is `known`.
fn deviation(known: f64, is_measured: bool) -> f64 {
    if is_measured {
        known
    } else {
        known.hypot(UNMEASURED_NOISE)
    }
}

impl Model for SurfaceModel {
    fn judge(&self, context: &Context<'_>) -> Judgement {
        let prediction = self.predict(context);
        let Prediction {
            difference, margin, ..
        } = prediction;
        let least = if context.http3 {
            -margin + HYSTERESIS
        } else {
            -margin - HYSTERESIS
        };
        Judgement {
            http3: difference < least,
            reason: Reason::Predicted { difference, margin },
            prediction: Some(prediction),
            offer_mode: OfferMode::Long,
        }
    }

    fn learns(&self) -> bool {
        self.learns
    }
}

/// Rates of a client's path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path {
    pub(crate) rate2: f64,
    pub(crate) rate3: f64,
    /// ln: of `rate3`.
    deviation: f64,
}

/// Rates by what is known, for a class that takes `limit` over QUIC. The client's own rate over QUIC counts if
/// `own`.
pub(crate) fn path(context: &Context<'_>, surface: &Surface, limit: f64, own: bool) -> Path {
    let without_loss = WithoutLoss::new(context, surface);
    let measured = |transport| context.known?.rate(transport);
    let rate = |transport| {
        let (ln, count) = measured(transport)?;
        Some((without_loss.ln(transport, ln), count))
    };
    let variance = |transport| {
        let (ln, count) = measured(transport)?;
        Some(without_loss.deviation(transport, ln).powi(2) / count)
    };
    let over_quic = rate(Transport::Quic);
    let from_quic = || over_quic.map(|(ln, _)| separate(ln.exp(), limit));
    let nearby = || context.neighbours.and_then(|it| it.rate).map(f64::exp);
    let floor = || context.known.map_or(0.0, ClientState::floor);
    let rate2 = rate(Transport::Tcp)
        .map(|(ln, _)| ln.exp())
        .or_else(from_quic)
        .unwrap_or_else(|| nearby().unwrap_or(RATE).max(floor()));
    let joined = limited_rate(rate2, limit);
    let own = over_quic.zip(variance(Transport::Quic)).filter(|_| own);
    let Some(((ln, _), mut variance_of_lead)) = own else {
        return Path {
            rate2,
            rate3: joined,
            deviation: CLIENT_NOISE,
        };
    };
    // Without loss TCP's is what the other is held against. What loss leaves of a rate is chance, of one as of the other.
    if without_loss.is_lossy() {
        variance_of_lead += variance(Transport::Tcp).unwrap_or_default();
    }
    let weight = CLIENT_NOISE.powi(2) / (CLIENT_NOISE.powi(2) + variance_of_lead);
    let rate3 = joined * (weight * (ln - joined.ln())).exp();
    Path {
        rate2,
        rate3: rate3.min(rate2),
        deviation: (weight * variance_of_lead).sqrt(),
    }
}

/// Rates as they would be without loss: a sender that takes loss for congestion gets what loss permits, however fast the
/// path. Taken for the path's rate, that would leave nothing for loss to slow, and HTTP/3 without its lead.
struct WithoutLoss<'a> {
    surface: &'a Surface,
    congestion: [Congestion; 2],
    by_loss: ByLoss,
    /// ln: deviation of a measured rate.
    noise: f64,
}

/// Effect of a path's loss on the rates of senders that take it for congestion, in bit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ByLoss {
    /// Next to nothing: there is next to none, nothing has been measured, or TCP is so much faster that UDP is throttled.
    Nothing,
    /// They may be what loss permits, the least of which is `permitted`. The `highest` of them shows the most of the path.
    Limits { permitted: f64, highest: f64 },
    /// The `highest` is more than loss permits in any case: it is the path's. A lower one may have been chance.
    Exceeds { highest: f64 },
}

impl<'a> WithoutLoss<'a> {
    fn new(context: &Context<'_>, surface: &'a Surface) -> Self {
        let is_slowed = |transport| context.congestion[transport as usize] == Congestion::LossBased;
        let rates = [Transport::Tcp, Transport::Quic].map(|transport| {
            let rate = context.rate(transport);
            rate.filter(|_| is_slowed(transport))
        });
        let highest = rates.into_iter().flatten().reduce(f64::max);
        let is_throttled = matches!(rates, [Some(tcp), Some(quic)] if tcp > THROTTLED * quic);
        let loss = loss(context);
        let by_loss = match highest.filter(|_| loss > LIMITING_LOSS && !is_throttled) {
            None => ByLoss::Nothing,
            Some(highest) => {
                let permitted = surface.rate_by_loss(loss, context.rtt().unwrap_or(RTT));
                let (least, largest) = OF_PERMITTED;
                if highest < largest * permitted {
                    let permitted = least * permitted;
                    ByLoss::Limits { permitted, highest }
                } else {
                    ByLoss::Exceeds { highest }
                }
            }
        };
        Self {
            surface,
            congestion: context.congestion,
            by_loss,
            noise: match by_loss {
                ByLoss::Nothing => RATE_NOISE,
                ByLoss::Limits { .. } | ByLoss::Exceeds { .. } => {
                    RATE_NOISE.hypot(LOSS_NOISE / lost_in_each(context).sqrt())
                }
            },
        }
    }

    fn is_lossy(&self) -> bool {
        self.by_loss != ByLoss::Nothing
    }

    /// ln of the rate of a path over which `transport` got a rate whose ln is `measured`.
    fn ln(&self, transport: Transport, measured: f64) -> f64 {
        if self.congestion[transport as usize] != Congestion::LossBased {
            return measured;
        }
        // Of TCP's rate no more is asked than that of the path; QUIC's may be lower than that.
        let of_path = |highest: f64| match transport {
            Transport::Tcp => measured.max(highest.ln()),
            Transport::Quic => measured,
        };
        match self.by_loss {
            ByLoss::Nothing => measured,
            ByLoss::Exceeds { highest } => of_path(highest),
            ByLoss::Limits { permitted, highest } => {
                let rate = of_path(highest).exp();
                self.surface.rate_without_loss(rate, permitted).ln()
            }
        }
    }

    /// Deviation of that ln: near what loss permits, little more of a rate is much more of the path's.
    fn deviation(&self, transport: Transport, measured: f64) -> f64 {
        if self.congestion[transport as usize] != Congestion::LossBased {
            return RATE_NOISE;
        }
        let half = self.noise / 2.0;
        let spread = self.ln(transport, measured + half) - self.ln(transport, measured - half);
        spread.max(RATE_NOISE)
    }
}

/// Packets that were lost for each rate that was measured, one at least.
fn lost_in_each(context: &Context<'_>) -> f64 {
    let count = |transport| Some(context.known?.rate(transport)?.1);
    let counts = [Transport::Tcp, Transport::Quic].map(|it| count(it).unwrap_or_default());
    let (_, lost) = context.packets();
    (lost / counts.iter().sum::<f64>().max(1.0)).max(1.0)
}

/// Share of the packets that the path loses.
fn loss(context: &Context<'_>) -> f64 {
    let (sent, lost) = context.packets();
    loss::estimate(sent, lost, context.neighbours.map(|it| it.loss))
}

/// Properties of the surface for a path.
pub(crate) fn path_properties(context: &Context<'_>, path: &Path) -> PathProperties {
    PathProperties {
        rate2: path.rate2,
        rate3: path.rate3,
        rtt: context.rtt().unwrap_or(RTT),
        loss: loss(context),
        congestion2: context.congestion[0],
        congestion3: context.congestion[1],
    }
}

#[cfg(test)]
mod tests;
