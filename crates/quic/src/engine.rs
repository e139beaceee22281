//! QUIC by quinn-proto. No other part of the crate names a type of it, so that another one can stand here.

mod bbr;
mod connection;
mod crypto;
mod cubic;
mod endpoint;
mod logging;
mod loopback;
mod meter;
mod names;
mod paths;
mod pins;
mod servers;
mod settings;
mod slot;
mod tokens;
mod transport;

pub use connection::Connection;
pub use endpoint::Endpoint;
pub(crate) use tokens::UsedTokens;
