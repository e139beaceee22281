//! A client and a server joined, who do whatever a list of operations says.
//!
//! As long as nobody puts words into their mouths (`Inject`), both keep the protocol: then neither
//! may accuse the other, every body that ends must be the one that was sent, and when both have
//! said all, nothing is left open. With injected frames less can be asked: no panic, nothing said
//! that may not be said, no window overrun, and an end.

mod application;
mod operation;
mod pair;

use crate::config;
use crate::input::Input;
use pair::Pair;

pub(crate) use operation::Operation;

/// An input is two configurations, the client's first, and then operations of four bytes each.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let [client, server] = [(); 2].map(|()| config::read(&mut input));
    let mut pair = Pair::new(client, server);
    while let Some(bytes) = input.array() {
        pair.act(Operation::from(bytes));
    }
    pair.finish();
}
