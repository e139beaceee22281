//! The gate: what `altway-message` accepts, beside other readings of the same bytes.
//!
//! A raw head of HTTP/1 that is accepted is the same message to a reading by hand, to httparse and to the
//! types of the http crate. A connection of HTTP/1 has its messages where an account of its own has them,
//! however the bytes arrive. A list of fields is accepted over HTTP/2 and HTTP/3 only where an
//! `http::Request` holds it.

mod connection;
mod head;
mod reading;
mod section;

use altway_message::{Rules, Scheme};

use crate::input::Input;

/// Runs one input. Two bits of its first byte say what follows: a head, the bytes of a connection, a
/// list of requests, or a list of fields. The next two bits are the rules.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let mode = input.byte();
    let rules = Rules {
        scheme: Some(match mode & 4 {
            0 => Scheme::Https,
            _ => Scheme::Http,
        }),
        extended_connect: mode & 8 != 0,
    };
    match mode % 4 {
        0 => head::run(input.0, rules),
        1 => connection::any(input, rules),
        2 => connection::good(input, rules),
        _ => section::run(input, rules),
    }
}
