//! The server from the outside, over loopback, with clients of every protocol.
#![allow(
    clippy::unwrap_used,
    reason = "clippy's exemption of tests leaves out their helpers"
)]

mod access_log;
mod autobahn;
mod beacon;
mod certificates;
mod challenges;
mod chromium;
mod client_certificates;
pub(crate) mod common;
mod connect;
mod containment;
mod content_limits;
mod dying_upstreams;
mod early;
mod early_answers;
mod embed;
mod ends;
mod every_protocol;
mod examples;
mod faults;
mod file_options;
mod files;
mod framing;
mod gate;
mod gone;
mod handlers;
mod key_log;
mod listeners;
mod metrics;
mod migration;
mod multipart;
mod one_way;
mod origins;
mod page_times;
mod protocols;
mod proxied;
mod proxied_http3;
mod proxied_shares;
mod proxies;
mod quic;
mod rates;
mod requests;
mod restarts;
mod same;
mod selection;
mod shares;
mod sites;
mod slow;
mod takeover;
mod turns;
mod uploads;
mod websockets;
