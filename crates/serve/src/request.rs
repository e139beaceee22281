//! One way for a request, whatever the protocol: who answers it, what the policy decides, what every
//! response has, and its line in the access log.

pub(crate) mod body;
mod contained;
pub(crate) mod handler;
pub(crate) mod log;
pub(crate) mod outgoing;
pub(crate) mod pending;
pub(crate) mod service;
pub(crate) mod upload;
