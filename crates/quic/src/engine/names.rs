//! The names of streams and sides, as quinn-proto has them and as the face does.

use quinn_proto::{Dir, Side, VarInt};

use crate::{Direction, Role, StreamId};

impl StreamId {
    pub(super) fn to_engine(self) -> quinn_proto::StreamId {
        VarInt::from_u64(self.0)
            .expect("new() and quinn-proto keep IDs under 2^62")
            .into()
    }
}

impl From<quinn_proto::StreamId> for StreamId {
    fn from(id: quinn_proto::StreamId) -> Self {
        Self(id.into())
    }
}

impl From<Dir> for Direction {
    fn from(dir: Dir) -> Self {
        match dir {
            Dir::Bi => Direction::Bidirectional,
            Dir::Uni => Direction::Unidirectional,
        }
    }
}

impl From<Direction> for Dir {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Bidirectional => Dir::Bi,
            Direction::Unidirectional => Dir::Uni,
        }
    }
}

impl From<Side> for Role {
    fn from(side: Side) -> Self {
        match side {
            Side::Client => Role::Client,
            Side::Server => Role::Server,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_stream_of_all_has_a_name_on_both_sides() {
        let last = StreamId::new(Role::Server, Direction::Unidirectional, u64::MAX);
        assert_eq!(StreamId::from(last.to_engine()), last);
    }
}
