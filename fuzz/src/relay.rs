//! Datagrams that pass between two processes of a takeover, and the messages that carry them.
//!
//! A client's datagram that comes to the successor is kept there, goes to another of its workers or to
//! the process before, unchanged and to one of them at most, unless it may begin a connection: then the
//! former process gets a copy. What the way between the two carries may be anything; a worker gets it
//! as the message says, or nobody does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use altway_serve::fuzzing::{Relay, Relayed, relayed};

use crate::input::Input;

const WORKERS: usize = 3;

/// A mode, and then either messages or datagrams: a length in two bytes before each.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let mut relay = Relay::new(WORKERS);
    let is_message = input.byte().is_multiple_of(2);
    while !input.is_empty() {
        if is_message {
            // The byte is read even where it is the last, so that every input has an end.
            let len = usize::from(u16::from_le_bytes([input.byte(), input.byte()]));
            carry(&mut relay, input.take(len));
        } else {
            arrive(&mut relay, &mut input);
        }
    }
}

/// A message comes over the way.
fn carry(relay: &mut Relay, message: &[u8]) {
    let Some(datagram) = relayed(message) else {
        return;
    };
    assert_eq!(relayed(&datagram.message()), Some(datagram.clone()));
    deliver(relay, &datagram);
}

/// A datagram comes to the former process: at most one worker gets it.
fn deliver(relay: &mut Relay, datagram: &Relayed) {
    let arrived = relay.deliver(datagram);
    assert!(arrived.len() <= 1, "a copy for {} workers", arrived.len());
    assert!(arrived.iter().all(|(_, it)| it == datagram));
}

/// A datagram comes to one of the successor's workers.
fn arrive(relay: &mut Relay, input: &mut Input<'_>) {
    let worker = usize::from(input.byte()) % WORKERS;
    let datagram = datagram(input);
    let (kept, passed) = relay.arrive(worker, &datagram);
    let exchanged = relay.exchanged();
    assert!(passed.len() + exchanged.len() <= 1, "passed on twice");
    assert!(kept || passed.len() + exchanged.len() == 1, "lost");
    assert!(!kept || exchanged.is_empty(), "kept, and passed on");
    for (other, it) in exchanged {
        assert!(other != worker && it == datagram, "to {other}");
    }
    for it in passed {
        assert_eq!(it, datagram);
        deliver(relay, &it);
    }
}

fn datagram(input: &mut Input<'_>) -> Relayed {
    let (port, ecn) = (input.word(), input.byte() % 4);
    let (remote, local_ip): (SocketAddr, IpAddr) = match input.byte() % 2 {
        0 => (
            ([192, 0, 2, input.byte()], port).into(),
            Ipv4Addr::LOCALHOST.into(),
        ),
        _ => (
            SocketAddrV6::new(Ipv6Addr::LOCALHOST, port, 0, input.byte().into()).into(),
            Ipv6Addr::LOCALHOST.into(),
        ),
    };
    let len = usize::from(input.word());
    Relayed {
        remote,
        local_ip: input.byte().is_multiple_of(2).then_some(local_ip),
        ecn,
        payload: input.take(len).to_vec(),
    }
}
