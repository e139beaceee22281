//! Streams' names: what a stream ID says about its stream.

use std::fmt;

/// A side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The one that opened the connection.
    Client,
    /// The one that accepted it.
    Server,
}

/// The sides that can send on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Both sides can send.
    Bidirectional,
    /// The side that opened it can send.
    Unidirectional,
}

/// A stream of one connection (RFC 9000 section 2.1), 0 … 2^62 − 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(crate) u64);

impl StreamId {
    /// The `index`-th stream, from 0 on, of those that `opener` opens in a direction. An index above
    /// 2^60 − 1 becomes that: QUIC has no more.
    #[must_use]
    pub const fn new(opener: Role, direction: Direction, index: u64) -> Self {
        const MAX_INDEX: u64 = (1 << 60) - 1;
        let index = if index > MAX_INDEX { MAX_INDEX } else { index };
        let kind = match (opener, direction) {
            (Role::Client, Direction::Bidirectional) => 0,
            (Role::Server, Direction::Bidirectional) => 1,
            (Role::Client, Direction::Unidirectional) => 2,
            (Role::Server, Direction::Unidirectional) => 3,
        };
        Self(index << 2 | kind)
    }

    /// The number on the wire.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns its number among its opener's streams of this direction, from 0 on.
    #[must_use]
    pub const fn index(self) -> u64 {
        self.0 >> 2
    }

    /// Returns the side that opened it.
    #[must_use]
    pub const fn opener(self) -> Role {
        match self.0 & 1 {
            0 => Role::Client,
            _ => Role::Server,
        }
    }

    /// Returns the sides that can send on it.
    #[must_use]
    pub const fn direction(self) -> Direction {
        match self.0 & 2 {
            0 => Direction::Bidirectional,
            _ => Direction::Unidirectional,
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_low_bits_tell_opener_and_direction() {
        for (id, opener, direction) in [
            (0, Role::Client, Direction::Bidirectional),
            (5, Role::Server, Direction::Bidirectional),
            (10, Role::Client, Direction::Unidirectional),
            (15, Role::Server, Direction::Unidirectional),
        ] {
            let stream = StreamId::new(opener, direction, id / 4);
            assert_eq!(stream.get(), id);
            assert_eq!(
                (stream.opener(), stream.direction(), stream.index()),
                (opener, direction, id / 4)
            );
        }
    }

    #[test]
    fn an_index_beyond_what_quic_has_is_the_last() {
        let last = StreamId::new(Role::Server, Direction::Unidirectional, u64::MAX);
        assert_eq!(last.get(), (1 << 62) - 1);
    }
}
