//! A whole server, files and a service, with clients that send any bytes in clear text.
//!
//! An input is a list of operations of eight clients. Whatever they do, afterwards a bystander is answered,
//! the server holds no descriptor and no memory for those that have gone, and while they were there, no more
//! than its limits. No time-out of the server ends within a run: what it lets go of, it lets go of because
//! the clients have gone. TLS and HTTP/3 are left out.

mod client;
mod oracle;
mod site;

use std::sync::{LazyLock, Mutex, PoisonError};

use crate::input::Input;
use crate::sys::ignore_broken_pipes;
use client::Client;
use oracle::Oracle;
use site::Sites;

/// Operations of an input; what follows is ignored.
const MAX_OPERATIONS: usize = 64;

/// Connections that there may be at a time.
const CLIENTS: usize = 8;

/// The servers, the same for all inputs, and what they were like before the first.
static WORLD: LazyLock<Mutex<World>> = LazyLock::new(|| Mutex::new(World::new()));

struct World {
    sites: Sites,
    oracle: Oracle,
}

impl World {
    /// Servers that have done everything once, so that what they do once for all is not held against a
    /// client.
    fn new() -> Self {
        ignore_broken_pipes();
        let mut sites = Sites::start();
        for seed in crate::seeds::seeds("server") {
            play(&mut sites, &seed.input);
        }
        sites.settle();
        let oracle = Oracle::new();
        Self { sites, oracle }
    }
}

/// Operations: a byte that says what is done and by which client, and what that takes.
pub fn run(input: &[u8]) {
    let mut world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    let world = &mut *world;
    world.oracle.begin();
    play(&mut world.sites, input);
    world.sites.ask_all();
    world.oracle.check();
}

/// Plays the operations of an input, until all clients have gone.
fn play(sites: &mut Sites, input: &[u8]) {
    let mut input = Input(input);
    let mut clients: [Option<Client>; CLIENTS] = [const { None }; CLIENTS];
    for _ in 0..MAX_OPERATIONS {
        if input.is_empty() {
            break;
        }
        let (what, who) = (input.byte(), usize::from(input.byte()));
        let place = &mut clients[who % CLIENTS];
        let Some(client) = place else {
            *place = Some(Client::connect(sites.address(who / CLIENTS)));
            continue;
        };
        match what % 8 {
            0 => client.send(input.take(usize::from(what / 8))),
            1 => {
                let (len, times) = (input.byte(), input.byte());
                client.send_again(input.take(usize::from(len)), usize::from(times));
            }
            2 | 3 => client.say(input.byte(), input.byte()),
            4 => client.read(usize::from(input.byte())),
            5 => client.half_close(),
            6 => *place = None,
            _ => sites.ask(who / CLIENTS),
        }
    }
}
