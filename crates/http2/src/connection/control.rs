//! Control frames in (RFC 9113 section 6): everything but DATA, HEADERS and CONTINUATION.

use bytes::Bytes;

use super::{EARLY_PRIORITIES, Turn};
use crate::config::Role;
use crate::event::{Event, StreamId};
use crate::fault::Fault;
use crate::frame::{self, FrameHeader, flag, kind};
use crate::{Code, Priority};

/// A window would exceed its end: "the sender MUST NOT allow a flow-control window to exceed this
/// maximum" (section 6.9.1).
const WINDOW_OVERFLOW: Fault = Fault::Connection(Code::FLOW_CONTROL_ERROR, "window above 2^31-1");

impl Turn<'_> {
    pub(super) fn control(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Fault> {
        self.spend()?;
        match header.kind {
            kind::WINDOW_UPDATE => self.window_update_received(header.stream, payload),
            kind::SETTINGS => self.settings(header, payload),
            kind::PING => self.ping(header, payload),
            kind::RST_STREAM => self.reset_received(header.stream, payload),
            kind::PRIORITY => self.priority(header.stream, payload),
            kind::PRIORITY_UPDATE => self.priority_update(header.stream, payload),
            kind::GOAWAY => self.goaway_received(header.stream, payload),
            kind::ALTSVC => {
                self.alt_svc_received(header.stream, payload);
                Ok(())
            }
            kind::PUSH_PROMISE => Err(Fault::protocol("push was not allowed")),
            // Section 4.1: "Implementations MUST ignore and discard frames of unknown types."
            _ => Ok(()),
        }
    }

    /// Counts a frame that leads nowhere.
    pub(super) fn spend(&mut self) -> Result<(), Fault> {
        let spent = self.connection.control.spend(1, self.now);
        spent.map_err(|_| Fault::Connection(Code::ENHANCE_YOUR_CALM, "flood of control frames"))
    }

    fn settings(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Fault> {
        if header.stream != 0 {
            return Err(Fault::protocol("SETTINGS on a stream"));
        }
        if header.has(flag::ACK) {
            let [] = frame::exactly(payload)?;
            return self.settings_acknowledged();
        }
        let connection = &mut *self.connection;
        connection.reading.received_preface = true;
        connection.clock.preface = None;
        let before = connection.peer;
        connection.peer.update(payload, connection.role)?;
        let peer = connection.peer;
        // RFC 7541 section 4.2: the smallest size in between must be signalled, too.
        for size in [peer.smallest_table_size, peer.header_table_size] {
            connection.encoder.set_peer_table_size(size);
        }
        self.put(kind::SETTINGS, flag::ACK, 0, &[]);
        let by = i64::from(peer.initial_window) - i64::from(before.initial_window);
        if by != 0 {
            self.adjust_send_windows(by)?;
        }
        self.report_free_stream();
        Ok(())
    }

    /// Section 6.9.2: "When the value of SETTINGS_INITIAL_WINDOW_SIZE changes, a receiver MUST
    /// adjust the size of all stream flow-control windows that it maintains by the difference".
    fn adjust_send_windows(&mut self, by: i64) -> Result<(), Fault> {
        let connection = &mut *self.connection;
        for stream in connection.streams.iter_mut() {
            let adjusted = stream.send_window.adjust(by);
            adjusted.map_err(|_| WINDOW_OVERFLOW)?;
            stream.queue_in(&mut connection.scheduler);
        }
        Ok(())
    }

    fn settings_acknowledged(&mut self) -> Result<(), Fault> {
        let connection = &mut *self.connection;
        if !connection.clock.settings_acknowledged(self.now) {
            return Err(Fault::protocol("acknowledges SETTINGS that were not sent"));
        }
        connection.decoder.on_settings_acknowledged();
        let size = connection.config.stream_window;
        let by = i64::from(size) - i64::from(connection.acknowledged_window);
        connection.acknowledged_window = size;
        for stream in connection.streams.iter_mut() {
            stream.receive_window.adjust(by);
        }
        Ok(())
    }

    fn ping(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Fault> {
        if header.stream != 0 {
            return Err(Fault::protocol("PING on a stream"));
        }
        let opaque: [u8; 8] = frame::exactly(payload)?;
        if header.has(flag::ACK) {
            self.ping_acknowledged(opaque);
        } else {
            self.put(kind::PING, flag::ACK, 0, &opaque);
        }
        Ok(())
    }

    fn reset_received(&mut self, id: u32, payload: &[u8]) -> Result<(), Fault> {
        if self.is_idle(id) {
            return Err(Fault::protocol("RST_STREAM on an idle stream"));
        }
        let code = Code::new(frame::be32(frame::exactly(payload)?));
        let stream = self.connection.streams.get_mut(id);
        // A client may stop an upload with each response that is complete.
        let is_answered = stream.is_some_and(|stream| stream.answered.is_some());
        if !self.lose(id, code) || is_answered {
            return Ok(());
        }
        if self.connection.role == Role::Client {
            // A server may stop an upload with each answer; what it resets it did not cost us.
            return Ok(());
        }
        let spent = self.connection.resets.spend(1, self.now);
        spent.map_err(|_| Fault::Connection(Code::ENHANCE_YOUR_CALM, "too many streams reset"))
    }

    fn window_update_received(&mut self, id: u32, payload: &[u8]) -> Result<(), Fault> {
        let increment = frame::be31(frame::exactly(payload)?);
        let connection = &mut *self.connection;
        if id == 0 {
            if increment == 0 {
                return Err(Fault::protocol("window update of zero"));
            }
            let grown = connection.send_window.adjust(i64::from(increment));
            return grown.map_err(|_| WINDOW_OVERFLOW);
        }
        let Some(stream) = connection.streams.get_mut(id) else {
            return if self.is_idle(id) {
                Err(Fault::protocol("WINDOW_UPDATE on an idle stream"))
            } else {
                Ok(())
            };
        };
        if increment == 0 {
            return Err(Fault::Stream(id, Code::PROTOCOL_ERROR));
        }
        let grown = stream.send_window.adjust(i64::from(increment));
        grown.map_err(|_| Fault::Stream(id, Code::FLOW_CONTROL_ERROR))?;
        stream.queue_in(&mut connection.scheduler);
        Ok(())
    }

    /// RFC 9218 section 7.1.
    fn priority_update(&mut self, on: u32, payload: &[u8]) -> Result<(), Fault> {
        if self.connection.role == Role::Client {
            return Err(Fault::protocol("PRIORITY_UPDATE from a server"));
        }
        let cut = Fault::Connection(Code::FRAME_SIZE_ERROR, "cut PRIORITY_UPDATE");
        let (id, value) = payload.split_first_chunk().ok_or(cut)?;
        let id = frame::be31(*id);
        if on != 0 || id.is_multiple_of(2) {
            return Err(Fault::protocol("PRIORITY_UPDATE of no request stream"));
        }
        let priority = Priority::parse(value);
        let connection = &mut *self.connection;
        if id > connection.last_stream {
            if connection.early_priorities.len() == EARLY_PRIORITIES {
                connection.early_priorities.pop_front();
            }
            connection.early_priorities.push_back((id, priority));
        } else if let Some(stream) = connection.streams.get_mut(id) {
            let before = std::mem::replace(&mut stream.priority, priority);
            if stream.queued {
                connection.scheduler.remove(id, before);
                connection.scheduler.push(id, priority);
            }
        }
        Ok(())
    }

    fn goaway_received(&mut self, on: u32, payload: &[u8]) -> Result<(), Fault> {
        let cut = Fault::Connection(Code::FRAME_SIZE_ERROR, "cut GOAWAY");
        let (last, rest) = payload.split_first_chunk().ok_or(cut)?;
        let (code, _debug_data) = rest.split_first_chunk().ok_or(cut)?;
        if on != 0 {
            return Err(Fault::protocol("GOAWAY on a stream"));
        }
        let (last, code) = (frame::be31(*last), Code::new(frame::be32(*code)));
        let connection = &mut *self.connection;
        if !std::mem::replace(&mut connection.state.peer_going_away, true) {
            connection.events.push_back(Event::GoAway { code });
        }
        if connection.role == Role::Client {
            self.give_up_after(last);
        }
        self.end_if_finished();
        Ok(())
    }

    /// Section 6.8: streams above the last one will not be processed.
    fn give_up_after(&mut self, last: u32) {
        for id in self.connection.streams.ids(|stream| stream.id > last) {
            self.lose(id, Code::REFUSED_STREAM);
        }
    }

    /// RFC 7838 section 4; what is wrong with one is ignored, as the RFC demands.
    fn alt_svc_received(&mut self, id: u32, payload: &[u8]) {
        if self.connection.role == Role::Server {
            return;
        }
        let Some((len, rest)) = payload.split_first_chunk() else {
            return;
        };
        let len = usize::from(u16::from_be_bytes(*len));
        let Some((origin, value)) = rest.split_at_checked(len) else {
            return;
        };
        // "An ALTSVC frame on stream 0 with empty (length 0) "Origin" information is invalid and
        // MUST be ignored. An ALTSVC frame on a stream other than stream 0 containing non-empty
        // "Origin" information is invalid and MUST be ignored."
        if (id == 0) == origin.is_empty() {
            return;
        }
        self.connection.events.push_back(Event::AltSvc {
            origin: (id == 0).then(|| Bytes::copy_from_slice(origin)),
            stream: (id != 0).then_some(StreamId(id)),
            value: Bytes::copy_from_slice(value),
        });
    }

    /// Deprecated (section 5.3.2): only its form is checked.
    fn priority(&mut self, id: u32, payload: &[u8]) -> Result<(), Fault> {
        if id == 0 {
            return Err(Fault::protocol("PRIORITY of no stream"));
        }
        let code = match *payload {
            // RFC 7540 section 5.3.1: "A stream cannot depend on itself."
            [d3, d2, d1, d0, _weight] if frame::be31([d3, d2, d1, d0]) == id => {
                Code::PROTOCOL_ERROR
            }
            [_, _, _, _, _weight] => return Ok(()),
            _ => Code::FRAME_SIZE_ERROR,
        };
        // A stream error; but a stream that is idle can't be reset (section 6.4), nor one that is
        // closed (section 5.1), and any stream error may be one of the connection (section 5.4.2).
        if self.connection.streams.get_mut(id).is_some() {
            Err(Fault::Stream(id, code))
        } else {
            Err(Fault::Connection(code, "bad PRIORITY"))
        }
    }
}
