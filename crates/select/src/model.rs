//! Models: from what is known of a client to the protocol that it shall use.
//!
//! A model is a pure function of a [`Context`]. What it has no say in (hold-out, blocked UDP, flapping, how the
//! answer is put into `Alt-Svc`) is left to [`Selector`](crate::Selector).

use crate::client_state::ClientState;
use crate::decision::{Prediction, Reason};
use crate::mix::Mix;
use crate::observation::Transport;
use crate::surface::Congestion;
use crate::{ClientClass, Neighbours};
use std::fmt;
use std::sync::Arc;

mod fixed;
mod kind;
mod learned;
mod study;
mod threshold;

pub use fixed::Fixed;
pub use kind::{ModelKind, ParseModelError};
pub use learned::SurfaceModel;
pub(crate) use learned::{LIMITING_LOSS, path, path_properties};
pub use study::Study;
pub use threshold::Threshold;

/// A way to choose the protocol of a client.
pub trait Model: fmt::Debug + Send + Sync {
    /// The protocol that suits a client.
    fn judge(&self, context: &Context<'_>) -> Judgement;

    /// Clients are observed for this model, and some are held out.
    fn learns(&self) -> bool {
        false
    }
}

/// A model that is shared.
impl<M: Model + ?Sized> Model for Arc<M> {
    fn judge(&self, context: &Context<'_>) -> Judgement {
        (**self).judge(context)
    }

    fn learns(&self) -> bool {
        (**self).learns()
    }
}

/// The knowledge on which a decision is made.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The client's class.
    pub class: ClientClass,
    /// bit/s that the class takes over QUIC, as learnt.
    pub limit: f64,
    /// ln of the factor by which the class is slower over HTTP/3 than predicted, from the hold-out.
    pub correction: f64,
    /// The mix of what the host's visitors load.
    pub(crate) mix: &'a Mix,
    /// Busy share of the worker's processor time, 0 to 1.
    pub load: f64,
    /// The client is on HTTP/3, or was told to use it.
    pub http3: bool,
    /// Congestion control over TCP and over QUIC.
    pub congestion: [Congestion; 2],
    /// True once there have been enough visits to use what was learnt.
    pub learning: bool,
    pub(crate) rtt: Option<f64>,
    pub(crate) known: Option<&'a ClientState>,
    pub(crate) neighbours: Option<Neighbours>,
}

impl Context<'_> {
    /// Seconds of a round trip: of this connection, of others from this address, of its network.
    #[must_use]
    pub fn rtt(&self) -> Option<f64> {
        let own = |transport| self.known.and_then(|known| known.rtt(transport));
        let both = [own(Transport::Tcp), own(Transport::Quic)];
        let known = both.into_iter().flatten().reduce(f64::min);
        self.rtt
            .or(known)
            .or_else(|| self.neighbours.map(|it| it.rtt))
    }

    /// Packets sent to the client and lost on the way, older ones less.
    #[must_use]
    pub fn packets(&self) -> (f64, f64) {
        self.known.map_or((0.0, 0.0), ClientState::packets)
    }

    /// bit/s over `transport`, from large responses to this client.
    #[must_use]
    pub fn rate(&self, transport: Transport) -> Option<f64> {
        self.known?.rate(transport).map(|(ln, _)| ln.exp())
    }
}

/// The judgement of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// True if HTTP/3 suits the client.
    pub http3: bool,
    /// Reason for the judgement.
    pub reason: Reason,
    /// Predicted times, if the model predicts.
    pub prediction: Option<Prediction>,
    /// The manner in which it is put into `Alt-Svc`.
    pub offer_mode: OfferMode,
}

/// The manner in which a judgement is put into `Alt-Svc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferMode {
    /// Offers live long and are taken back by the next answer; changes are damped.
    Long,
    /// Offers live for about a session, and are not taken back.
    Session,
    /// Offers for everybody and at once, whatever that costs.
    Forced,
}
