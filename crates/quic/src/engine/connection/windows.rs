//! The windows of a connection, which grow with its progress and out of a pool (`crate::windows`).

use bytes::Bytes;

use super::{Connection, ENGINES_CODE, in_varint};
use crate::{Direction, QuicConnection};

impl Connection {
    pub(super) fn widen_sending(&mut self, bytes: usize) {
        if let Some(windows) = &mut self.windows {
            let congestion_window = self.engine.congestion_state().window();
            if let Some(size) = windows.on_write(bytes as u64, congestion_window) {
                self.engine.set_send_window(size);
            }
        }
    }

    pub(super) fn widen_receiving(&mut self, read: usize) {
        if let Some(windows) = &mut self.windows
            && let Some(size) = windows.on_read(read as u64)
        {
            self.engine.set_receive_window(in_varint(size));
        }
    }

    /// Takes note of a datagram of so many bytes that was taken in, of which `datagram` is an empty slice.
    pub(crate) fn pin(&mut self, datagram: Bytes, bytes: usize) {
        if self.windows.is_some() && !datagram.is_unique() {
            let frames = self.engine.stats().frame_rx.stream;
            let chunks = frames - std::mem::replace(&mut self.stream_frames, frames);
            self.pins.add(datagram, bytes, chunks);
        }
    }

    /// Counts what waits to be read. Whether the connection was closed, as there is no room for it in the pool.
    pub(crate) fn count_pins(&mut self) -> bool {
        let bytes = self.pins.bytes();
        let has_room = self.windows.as_mut().is_none_or(|it| it.pin(bytes));
        if has_room || self.is_closed() {
            return false;
        }
        tracing::debug!(bytes, "no room for what waits to be read");
        self.close(ENGINES_CODE, b"no room for pieces of streams");
        true
    }

    /// Makes the windows small again once nothing can be in them.
    pub(crate) fn shrink_if_idle(&mut self) {
        let Some(windows) = &mut self.windows else {
            return;
        };
        if windows.are_fresh() && self.pins.is_empty() {
            return;
        }
        let streams = self.engine.streams();
        let receiving = [Direction::Bidirectional, Direction::Unidirectional]
            .map(|direction| streams.remote_open_streams(direction.into()))
            .iter()
            .sum::<u64>();
        if streams.send_streams() as u64 + receiving > self.lasting as u64 {
            return;
        }
        self.pins.rest();
        if let Some((send, receive)) = windows.on_idle() {
            self.engine.set_send_window(send);
            self.engine.set_receive_window(in_varint(receive));
        }
    }
}
