//! The gate: the rules of a request's head and of message framing, once for HTTP/1.1, HTTP/2 and
//! HTTP/3 (RFC 9110, RFC 9112, RFC 9113 section 8, RFC 9114 section 4).
//!
//! What two parsers could read differently is refused, and nothing is repaired: a proxy behind this
//! gate and the servers behind that proxy see the same message, or none. A [`Refusal`] says why, which
//! status answers it, and whether the message is malformed, which over HTTP/2 and HTTP/3 costs its
//! stream.
//!
//! The engines of HTTP/2 and HTTP/3 have a [`FieldKind`] for each field of a section, count them in
//! [`FieldChecks`] and [`PseudoFields`], and end with [`Rules::check_stream`]. For HTTP/1.1 a [`Scanner`] reads a connection's bytes
//! beside whoever answers the requests. No good head costs an allocation, but one that arrives in
//! parts does: its beginning is kept.
//!
//! Clients have [`AltSvc`] and [`AltSvcEntry`]: what a response says of HTTP/3, and for how long; and [`InterimResponses`], which
//! bounds what may precede a response.
//!
//! ```
//! use altway_message::{Rules, Scheme, http1};
//!
//! let rules = Rules::http1(Scheme::Https);
//! let head = b"GET /a?b HTTP/1.1\r\nHost: altway.example\r\n\r\n";
//! let request = http1::check(head, rules)?;
//! assert_eq!(request.target.path, Some(&b"/a?b"[..]));
//!
//! let head = b"GET /a#b HTTP/1.1\r\nHost: altway.example\r\n\r\n";
//! let refusal = http1::check(head, rules).unwrap_err();
//! assert_eq!(refusal.to_string(), "the target has a fragment");
//! assert_eq!(refusal.status(), 400);
//! # Ok::<(), altway_message::Refusal>(())
//! ```
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod alt_svc;
mod checks;
mod field;
pub mod hop_by_hop;
pub mod http1;
mod interim;
mod pseudo;
mod refusal;
mod request;
mod scanner;
mod target;

pub use alt_svc::{AltSvc, AltSvcEntry};
pub use checks::{
    AgreedLength, FieldChecks, check_response, check_trailers, content_length, response_length,
};
pub use field::FieldKind;
pub use interim::{InterimResponses, TooManyInterimResponses};
pub use pseudo::{Cookies, PseudoFields};
pub use refusal::Refusal;
pub use request::{Framing, Head, Request, Rules, Version};
pub use scanner::{MAX_FIELDS, Scanner};
pub use target::{Authority, Scheme, Target};
