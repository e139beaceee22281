//! Tests with both ends joined by hand, in pieces of any size.

use super::*;
use proptest::prelude::*;

const fn transfer(up: u64, down: u64, together: bool) -> Command {
    Command::Transfer(Transfer {
        up,
        down,
        together,
        verify: true,
    })
}

/// Carries bytes to and fro until neither end has anything to say; `piece` at most at once.
fn converse(client: &mut Exchange, server: &mut Responder, piece: usize) -> Result<(), Fault> {
    loop {
        let (ask, answer) = (carry(client, server, piece)?, carry(server, client, piece)?);
        if server.take_action() == Some(ServerAction::Report) {
            server.report(b"a report");
        } else if !ask && !answer {
            return Ok(());
        }
    }
}

fn carry(
    from: &mut impl ProtocolEnd,
    to: &mut impl ProtocolEnd,
    piece: usize,
) -> Result<bool, Fault> {
    let mut bytes = from.next();
    bytes.truncate(piece);
    to.handle_input(&bytes)?;
    from.sent(bytes.len());
    Ok(!bytes.is_empty())
}

#[test]
fn commands_follow_each_other_on_one_connection() {
    let payload = Payload::new();
    let mut server = Responder::new(&payload);
    let commands = [
        Command::Hello,
        transfer(300_000, 0, true),
        transfer(0, 300_000, true),
        transfer(10, 300_000, false),
        transfer(0, 0, true),
        Command::Report,
    ];
    for command in commands {
        let mut client = Exchange::new(command, &payload);
        converse(&mut client, &mut server, 100_000).unwrap();
        assert!(client.is_done() && server.is_idle(), "{command:?}");
        if let Command::Transfer(transfer) = command {
            assert_eq!(client.moved(), (transfer.up, transfer.down));
        }
        if command == Command::Report {
            assert_eq!(client.into_report(), b"a report");
        }
    }
    assert_eq!(server.moved(), (600_000, 300_010));
}

#[test]
fn counting_begins_with_the_first_transfer_only() {
    let payload = Payload::new();
    let mut server = Responder::new(&payload);
    server.handle_input(&Command::Hello.encode()).unwrap();
    assert_eq!(server.take_action(), None);
    server.sent(RECEIPT_BYTES);
    let mut begins = Vec::new();
    for _ in 0..2 {
        server.handle_input(&transfer(0, 0, true).encode()).unwrap();
        begins.push(server.take_action());
        server.sent(RECEIPT_BYTES);
    }
    assert_eq!(begins, [Some(ServerAction::Begin), None]);
}

#[test]
fn a_response_waits_for_its_request_unless_they_go_together() {
    let payload = Payload::new();
    for together in [false, true] {
        let mut server = Responder::new(&payload);
        server
            .handle_input(&transfer(1, 10, together).encode())
            .unwrap();
        assert_eq!(server.next().is_empty(), !together);
        server.handle_input(&payload.at(0, 1)).unwrap();
        assert_eq!(server.next().len(), 10);
    }
}

#[test]
fn a_changed_byte_is_reported_by_whoever_takes_it() {
    let payload = Payload::new();
    let mut wrong = payload.at(0, 9).to_vec();
    wrong[7] ^= 1;
    let mut client = Exchange::new(transfer(0, 9, true), &payload);
    assert_eq!(client.handle_input(&wrong), Err(Fault::WrongByte { at: 7 }));
    let mut server = Responder::new(&payload);
    server.handle_input(&transfer(9, 0, true).encode()).unwrap();
    assert_eq!(server.handle_input(&wrong), Err(Fault::WrongByte { at: 7 }));
}

#[test]
fn a_server_that_takes_too_little_or_answers_too_early_is_found_out() {
    let payload = Payload::new();
    let receipt = Receipt { value: 5 };
    let mut client = Exchange::new(transfer(6, 0, true), &payload);
    client.sent(COMMAND_BYTES);
    client.sent(6);
    let fault = Fault::WrongCount { sent: 6, taken: 5 };
    assert_eq!(client.handle_input(&receipt.encode()), Err(fault));
    let mut client = Exchange::new(transfer(5, 0, true), &payload);
    let fault = Fault::WrongCount { sent: 0, taken: 5 };
    assert_eq!(client.handle_input(&receipt.encode()), Err(fault));
}

#[test]
fn strangers_are_recognised() {
    let payload = Payload::new();
    let mut client = Exchange::new(Command::Hello, &payload);
    let fault = client.handle_input(b"HTTP/1.1 400 Bad Request\r\n");
    assert_eq!(fault, Err(Fault::Foreign));
    let mut server = Responder::new(&payload);
    let fault = server.handle_input(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(fault, Err(Fault::Foreign));
}

#[test]
fn a_report_without_end_is_not_believed() {
    let mut client = Exchange::new(Command::Report, &Payload::new());
    let receipt = Receipt {
        value: MAX_REPORT_BYTES + 1,
    };
    assert_eq!(client.handle_input(&receipt.encode()), Err(Fault::Foreign));
}

#[test]
fn a_client_that_does_not_wait_for_its_receipt_is_refused() {
    let mut server = Responder::new(&Payload::new());
    let twice = [Command::Hello.encode(), Command::Hello.encode()].concat();
    assert_eq!(server.handle_input(&twice), Err(Fault::Foreign));
}

proptest! {
    #[test]
    fn every_size_arrives_in_every_piece(
        up in 0..100_000_u64, down in 0..100_000_u64, together: bool, piece in 1..5_000_usize,
    ) {
        let payload = Payload::new();
        let mut server = Responder::new(&payload);
        let mut client = Exchange::new(transfer(up, down, together), &payload);
        prop_assert_eq!(converse(&mut client, &mut server, piece), Ok(()));
        prop_assert!(client.is_done() && server.is_idle());
        prop_assert_eq!((client.moved(), server.moved()), ((up, down), (down, up)));
    }

    #[test]
    fn no_bytes_make_either_end_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let payload = Payload::new();
        let _ = Responder::new(&payload).handle_input(&bytes);
        let _ = Exchange::new(transfer(3, 7, true), &payload).handle_input(&bytes);
    }
}
