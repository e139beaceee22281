//! Connections in the order in which they began to wait: doubly linked lists within one vector, so that
//! a connection leaves the middle of a list, or goes to its end, in constant time and without
//! allocation.

use super::Transport;

/// The list that a connection is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    IdleTcp,
    IdleQuic,
    Handshakes,
}

const LISTS: usize = 3;

/// No neighbour.
const NONE: u32 = u32::MAX;

/// Values of which each is in one list at most.
pub(super) struct Order<T> {
    nodes: Vec<Node<T>>,
    /// Indices of nodes without a value.
    free: Vec<u32>,
    ends: [Ends; LISTS],
}

struct Node<T> {
    value: Option<T>,
    list: Option<List>,
    before: u32,
    after: u32,
}

#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

impl List {
    pub(super) fn idle(transport: Transport) -> Self {
        match transport {
            Transport::Tcp => Self::IdleTcp,
            Transport::Quic => Self::IdleQuic,
        }
    }
}

impl<T> Default for Order<T> {
    fn default() -> Self {
        let ends = Ends {
            first: NONE,
            last: NONE,
        };
        Self {
            nodes: Vec::new(),
            free: Vec::new(),
            ends: [ends; LISTS],
        }
    }
}

impl<T: Clone> Order<T> {
    /// Keeps a value, in no list; gives its place.
    pub(super) fn insert(&mut self, value: T) -> usize {
        let node = Node {
            value: Some(value),
            list: None,
            before: NONE,
            after: NONE,
        };
        if let Some(place) = self.free.pop() {
            self.nodes[place as usize] = node;
            return place as usize;
        }
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Forgets a value.
    pub(super) fn remove(&mut self, place: usize) {
        self.unlink(place);
        self.nodes[place].value = None;
        self.free.push(index(place));
    }

    /// Puts a value at the end of a list, or into none.
    pub(super) fn move_to(&mut self, place: usize, list: Option<List>) {
        self.unlink(place);
        let Some(list) = list else {
            return;
        };
        let last = std::mem::replace(&mut self.ends[list as usize].last, index(place));
        match self.nodes.get_mut(last as usize) {
            Some(last) => last.after = index(place),
            None => self.ends[list as usize].first = index(place),
        }
        let node = &mut self.nodes[place];
        (node.list, node.before, node.after) = (Some(list), last, NONE);
    }

    /// The value that has been in a list for longest.
    pub(super) fn front(&self, list: List) -> Option<&T> {
        let first = self.nodes.get(self.ends[list as usize].first as usize)?;
        first.value.as_ref()
    }

    /// The same, which is in no list from now on.
    pub(super) fn pop_front(&mut self, list: List) -> Option<T> {
        let value = self.front(list)?.clone();
        self.unlink(self.ends[list as usize].first as usize);
        Some(value)
    }

    fn unlink(&mut self, place: usize) {
        let node = &mut self.nodes[place];
        let (before, after) = (node.before, node.after);
        let Some(list) = node.list.take() else {
            return;
        };
        match self.nodes.get_mut(before as usize) {
            Some(node) => node.after = after,
            None => self.ends[list as usize].first = after,
        }
        match self.nodes.get_mut(after as usize) {
            Some(node) => node.before = before,
            None => self.ends[list as usize].last = before,
        }
    }
}

fn index(place: usize) -> u32 {
    u32::try_from(place).expect("there are fewer connections than that")
}
