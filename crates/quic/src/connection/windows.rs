//! The windows of a connection, which grow with its progress and out of a pool (`crate::windows`).

use super::{Connection, in_varint};
use crate::Direction;

impl Connection {
    /// Takes note of how many bytes the caller keeps in all of what it has read, for instance of messages
    /// that are not complete. False if they are too many: a server's connection may keep 8 KiB, and more as
    /// far as [`Limits::max_held_bytes`](crate::Limits::max_held_bytes) has room for it.
    pub fn keep(&mut self, bytes: u64) -> bool {
        let windows = self.windows.as_mut();
        windows.is_none_or(|windows| windows.keep(bytes))
    }

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

    /// Makes the windows small again once nothing can be in them.
    pub(crate) fn narrow_if_idle(&mut self) {
        let Some(windows) = &mut self.windows else {
            return;
        };
        if windows.are_fresh() {
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
        if let Some((send, receive)) = windows.on_idle() {
            self.engine.set_send_window(send);
            self.engine.set_receive_window(in_varint(receive));
        }
    }
}
