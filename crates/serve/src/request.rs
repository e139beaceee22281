//! The way of a request, the same for every protocol: who answers it, what the policy decides, what every
//! response has, and its line in the access log. A [`content`], which can be replaced, answers requests.
//!
//! [`requests`] tells the story: limits, then the [`check`] of the head, then a [`prepared`] answer or the
//! [`service`], then the [`fields`] that every response has and the [`log`]'s line. The steps from there to the
//! response's last byte are those of [`exchanges`], over what each protocol has for a [`carrier`]. What takes more
//! than a moment waits in [`pending`]; a request's body comes by [`upload`], a response's leaves by
//! [`outgoing`]. What is over is timed at the [end of its turn](turn_end). A request for a WebSocket is offered an [`upgrade`] to a [`tunnel`]. The memory of what is over goes
//! to the next one by [`spares`]. How long a request's content may be: [`content_limit`]. Where a
//! service's response ends: [`framing`]. Which responses are no part of what a client loads: [`trickle`].

pub(crate) mod beacon;
pub(crate) mod body;
pub(crate) mod carrier;
pub(crate) mod check;
pub(crate) mod content;
mod content_limit;
pub(crate) mod exchanges;
pub(crate) mod fields;
mod framing;
pub(crate) mod handler;
pub(crate) mod identify;
mod known_host;
pub(crate) mod listener_policy;
pub(crate) mod log;
mod now;
mod offers;
pub(crate) mod outgoing;
pub(crate) mod panic_guard;
pub(crate) mod pending;
pub(crate) mod prepared;
pub(crate) mod record;
pub(crate) mod redirect;
pub(crate) mod rejected_head;
pub(crate) mod requests;
pub(crate) mod service;
pub(crate) mod spares;
pub(crate) mod trickle;
pub(crate) mod tunnel;
pub(crate) mod turn_end;
pub(crate) mod upgrade;
pub(crate) mod upload;
