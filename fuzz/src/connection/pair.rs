//! A client and a server, and the bytes on the way between them.

use std::time::{Duration, Instant};

use altway_http2::{CloseReason, Code, Config, Event, Timeouts, Turn};

use super::Operation;
use super::application::Application;
use crate::end::End;
use crate::speech::Role;
use crate::wire::{self, Scanner, frame, setting};

/// Rounds of everything being sent and received within which everything ends.
const LAST_ROUNDS: usize = 10_000;

/// A client and a server.
pub(crate) struct Pair {
    client: Side,
    server: Side,
    now: Instant,
    /// A frame was injected: what follows from it is nobody's fault.
    injected: bool,
}

struct Side {
    end: End,
    application: Application,
    /// Bytes that it sent and the other one has not got.
    wire: Vec<u8>,
    /// SETTINGS that it acknowledged. The other one said one; what more there is was injected, and
    /// its acknowledgement would be an offence.
    acknowledged: usize,
}

impl Pair {
    pub(crate) fn new(client: Config, server: Config) -> Self {
        let now = Instant::now();
        Self {
            client: Side::new(Role::Client, client, now),
            server: Side::new(Role::Server, server, now),
            now,
            injected: false,
        }
    }

    pub(crate) fn act(&mut self, operation: Operation) {
        match operation {
            Operation::Request { shape, fields } => {
                let before = self.client.application.exchanges.len();
                self.turn(Role::Client, |app, turn| app.request(turn, shape, fields));
                if self.client.application.exchanges.len() > before {
                    self.client.check_limit();
                }
            }
            Operation::Respond { nth, shape, fields } => {
                self.nth(Role::Server, nth, |app, turn, id| {
                    app.respond(turn, id, shape, fields);
                });
            }
            Operation::Inform { nth, status } => {
                self.nth(Role::Server, nth, |app, turn, id| {
                    app.inform(turn, id, status);
                });
            }
            Operation::Offer { by, nth, len, last } => {
                self.nth(by, nth, |app, turn, id| {
                    app.offer(turn, id, len.into(), last);
                });
            }
            Operation::Trailers { by, nth } => self.nth(by, nth, Application::trailers),
            Operation::Reset { by, nth, code } => {
                self.nth(by, nth, |app, turn, id| app.reset(turn, id, code));
            }
            Operation::Release { by, nth, len } => {
                self.turn(by, |app, turn| app.release(turn, nth, len.into()));
            }
            Operation::Pump { by, frames } => {
                self.turn(by, |app, turn| app.pump(turn, frames.into()));
            }
            Operation::Pass { to, len } => self.pass(to, len.into()),
            Operation::Wait { millis } => self.wait(Duration::from_millis(millis.into())),
            Operation::Prioritise { stream, value } => {
                self.client.add(&priority(stream, value));
            }
            Operation::Inject {
                by,
                stream,
                what,
                value,
            } => self.inject(by, &injection(stream.into(), what, value)),
            Operation::Shutdown { by } => self.turn(by, |_, turn| turn.shutdown()),
            Operation::Close { by, code } => {
                self.turn(by, |_, turn| turn.close(Code::new(code.into())));
            }
            Operation::AltSvc { len } => self.turn(Role::Server, |_, turn| {
                let value = "x".repeat(len.into());
                let sent = turn.send_alt_svc("https://a.example", &value);
                sent.expect("a good one");
            }),
        }
    }

    /// Sends what both sides have to send, then shuts both down.
    pub(crate) fn finish(mut self) {
        self.exchange_all();
        // Only now are requests ended that outlive their responses.
        self.wait(Timeouts::default().linger);
        self.exchange_all();
        let closed = self.client.end.closed.is_some() || self.server.end.closed.is_some();
        if !closed && !self.injected {
            for side in [&self.client, &self.server] {
                let open = side.end.connection.open_streams();
                assert_eq!(open, 0, "left open: {:?}", side.application);
            }
        }
        for role in [Role::Client, Role::Server] {
            self.turn(role, |app, turn| {
                app.give_up(turn);
                turn.shutdown();
            });
        }
        self.pass(Role::Client, 0);
        self.pass(Role::Server, 0);
        self.client.end.wind_down(self.now);
        self.server.end.wind_down(self.now);
    }

    /// Sends and receives until nothing moves.
    fn exchange_all(&mut self) {
        let mut rounds = 0;
        while self.round() {
            rounds += 1;
            assert!(rounds < LAST_ROUNDS, "they never end");
        }
    }

    /// Carries what there is both ways, once. Returns true if anything moved.
    fn round(&mut self) -> bool {
        self.turn(Role::Client, Application::conclude);
        self.turn(Role::Server, Application::conclude);
        let moved = !self.client.wire.is_empty() || !self.server.wire.is_empty();
        self.pass(Role::Client, 0);
        self.pass(Role::Server, 0);
        moved
    }

    fn side(&mut self, role: Role) -> &mut Side {
        match role {
            Role::Client => &mut self.client,
            Role::Server => &mut self.server,
        }
    }

    /// An end's application takes a turn.
    fn turn(&mut self, role: Role, act: impl FnOnce(&mut Application, &mut Turn<'_>)) {
        let now = self.now;
        let side = self.side(role);
        if side.end.closed.is_none() {
            act(&mut side.application, &mut side.end.turn(now));
            self.receive(role, &[]);
        }
    }

    /// The same, with one of its exchanges, if there is any.
    fn nth(&mut self, role: Role, nth: u8, act: impl FnOnce(&mut Application, &mut Turn<'_>, u32)) {
        if let Some(id) = self.side(role).application.nth(nth) {
            self.turn(role, |app, turn| act(app, turn, id));
        }
    }

    fn pass(&mut self, to: Role, len: usize) {
        let from = match to {
            Role::Client => &mut self.server,
            Role::Server => &mut self.client,
        };
        let len = if len == 0 { usize::MAX } else { len };
        let rest = from.wire.split_off(len.min(from.wire.len()));
        let bytes = std::mem::replace(&mut from.wire, rest);
        self.receive(to, &bytes);
    }

    /// An end takes in bytes; events may be due without any.
    fn receive(&mut self, role: Role, bytes: &[u8]) {
        let (now, injected) = (self.now, self.injected);
        let side = self.side(role);
        let mut complete = Vec::new();
        let application = &mut side.application;
        side.end.receive(now, bytes, |event| {
            assert!(injected || !accuses(event), "accused: {event:?}");
            complete.extend(application.event(event));
            None
        });
        side.speak();
        let must_close = std::mem::take(&mut side.application.must_close);
        for stream in complete {
            self.compare(role, stream);
        }
        if must_close {
            self.turn(role, |_, turn| turn.close(Code::NO_ERROR));
        }
    }

    /// A message is complete at `role`: it must be complete at the other end.
    fn compare(&mut self, role: Role, stream: u32) {
        let (to, from) = match role {
            Role::Client => (&self.client, &self.server),
            Role::Server => (&self.server, &self.client),
        };
        let received = &to.application.exchanges[&stream];
        let sent = &from.application.exchanges[&stream];
        assert!(sent.sent_all, "stream {stream} ended by itself");
        assert_eq!(received.received, sent.sent, "stream {stream}");
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        for role in [Role::Client, Role::Server] {
            let end = &mut self.side(role).end;
            // Nothing of it is to be seen.
            end.turn(now).rest();
            if end.connection.poll_timeout().is_some_and(|due| due <= now) {
                end.turn(now).handle_timeout();
                let next = end.connection.poll_timeout();
                assert!(
                    next.is_none_or(|next| next > now),
                    "the same time-out again"
                );
                self.receive(role, &[]);
            }
        }
    }

    fn inject(&mut self, by: Role, bytes: &[u8]) {
        let injected = self.side(by).add(bytes);
        self.injected |= injected;
    }
}

impl Side {
    fn new(role: Role, config: Config, now: Instant) -> Self {
        Self {
            end: End::new(role, config, now),
            application: Application::new(role),
            wire: Vec::new(),
            acknowledged: 0,
        }
    }

    /// Puts what the engine said on the wire, and looks at where it stands.
    fn speak(&mut self) {
        let said = self.end.said();
        let settings_acknowledged =
            |frame: &wire::Frame<'_>| frame.kind == wire::SETTINGS && frame.has(wire::ACK);
        let frames = said.strip_prefix(wire::PREFACE).unwrap_or(&said);
        self.wire
            .extend_from_slice(&said[..said.len() - frames.len()]);
        Scanner::default().feed(frames, |frame| {
            if settings_acknowledged(&frame) {
                self.acknowledged += 1;
            }
            if !settings_acknowledged(&frame) || self.acknowledged == 1 {
                self.wire.extend(frame.to_bytes());
            }
        });
        if self.end.closed.is_some() {
            self.application.closed();
        }
        self.end.check(self.application.held());
    }

    /// Puts a frame on the wire, once the engine has said its preface. Whether it did.
    fn add(&mut self, frame: &[u8]) -> bool {
        let greeted = self.end.speech.has_greeted();
        if greeted {
            self.wire.extend_from_slice(frame);
        }
        greeted
    }

    /// A client opens no more streams than it was allowed.
    fn check_limit(&self) {
        let open = self.end.connection.open_streams();
        assert!(self.end.speech.may_open(open), "{open} streams");
    }
}

/// Returns true if an engine says by this that its peer broke the protocol.
fn accuses(event: &Event<'_>) -> bool {
    let code = match event {
        Event::StreamReset { code, .. } => *code,
        Event::Closed {
            reason: CloseReason::Local { code, reason },
        } if !["by the application", "no preface in time"].contains(reason) => *code,
        _ => return false,
    };
    ![
        Code::NO_ERROR,
        Code::CANCEL,
        Code::INTERNAL_ERROR,
        Code::REFUSED_STREAM,
        Code::ENHANCE_YOUR_CALM,
        Code::SETTINGS_TIMEOUT,
    ]
    .contains(&code)
}

/// Returns a frame that a client may send at any time.
fn priority(stream: u8, value: u8) -> Vec<u8> {
    let id = u32::from(stream) * 2 + 1;
    if value >= 0x80 {
        return frame(wire::PRIORITY, 0, id, &[0, 0, 0, 0, value]);
    }
    let incremental = if value & 8 == 0 { "" } else { ", i" };
    let text = format!("u={}{incremental}", value % 8);
    let payload = [&id.to_be_bytes()[..], text.as_bytes()].concat();
    frame(wire::PRIORITY_UPDATE, 0, 0, &payload)
}

/// A frame that nobody meant.
fn injection(stream: u32, what: u8, value: u8) -> Vec<u8> {
    let shifted = 1u32.checked_shl(u32::from(value) % 40).unwrap_or(0);
    let number = shifted.wrapping_add(u32::from(value) / 40).to_be_bytes();
    match what % 9 {
        0..=2 => {
            let id = u16::from(what / 9 % 10);
            let number = u32::from_be_bytes(number);
            frame(wire::SETTINGS, 0, 0, &setting(id, number))
        }
        3 => frame(wire::PING, value & 1, 0, &[value; 8]),
        4 => frame(wire::WINDOW_UPDATE, 0, 0, &number),
        5 => frame(wire::WINDOW_UPDATE, 0, stream, &number),
        6 => frame(wire::RST_STREAM, 0, stream, &number),
        7 => frame(wire::GOAWAY, 0, 0, &[number, [0; 4]].concat()),
        _ => {
            // Neither DATA nor HEADERS, which would be taken for what an application sent.
            let kinds = [
                5,
                wire::CONTINUATION,
                wire::ALTSVC,
                wire::PRIORITY_UPDATE,
                0xbb,
            ];
            frame(
                kinds[usize::from(value) % kinds.len()],
                what,
                stream,
                &number,
            )
        }
    }
}
