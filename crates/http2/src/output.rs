//! Bytes to send: what the engine wrote, with bodies of the application spliced in by reference.

use std::io::IoSlice;

use bytes::Bytes;

/// Bodies up to so many bytes are copied into the buffer: below it a copy costs less than another
/// slice in the system call.
const COPY_MAX: usize = 4096;

/// Bytes that one or several turns have to send, in order. One `Output` serves all connections of a
/// worker: it is lent to a [`Turn`](crate::Turn), sent, and cleared.
///
/// The engine appends without looking at its size; the caller bounds it by not asking for more
/// (neither [`Turn::receive`](crate::Turn::receive) nor
/// [`Turn::next_sendable`](crate::Turn::next_sendable)) while [`len`](Output::len) is large.
#[derive(Debug, Default)]
pub struct Output {
    buffer: Vec<u8>,
    /// Offsets in `buffer` at which bodies are spliced in, and the bodies.
    segments: Vec<(usize, Bytes)>,
    segment_bytes: usize,
    /// Bytes that were sent already, from the front.
    sent: usize,
}

impl Output {
    /// An empty one that has not allocated anything.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            buffer: Vec::new(),
            segments: Vec::new(),
            segment_bytes: 0,
            sent: 0,
        }
    }

    /// Bytes that are still to be sent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len() + self.segment_bytes - self.sent
    }

    /// Returns true if there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets everything, and keeps the buffer's memory.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.segments.clear();
        self.segment_bytes = 0;
        self.sent = 0;
    }

    /// The first `n` bytes were sent. What is sent whole is released when all is sent.
    ///
    /// # Panics
    /// `n` is above [`len`](Output::len).
    pub fn advance(&mut self, n: usize) {
        assert!(n <= self.len(), "sent more than there was");
        self.sent += n;
        if self.is_empty() {
            self.clear();
        }
    }

    /// All bytes that are still to be sent, as slices, none of them empty.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut skip = self.sent;
        self.parts().filter_map(move |part| {
            let skipped = skip.min(part.len());
            skip -= skipped;
            Some(&part[skipped..]).filter(|rest| !rest.is_empty())
        })
    }

    /// Replaces the content of `slices` by up to `max` slices to send.
    pub fn fill<'a>(&'a self, slices: &mut Vec<IoSlice<'a>>, max: usize) {
        slices.clear();
        slices.extend(self.slices().take(max).map(IoSlice::new));
    }

    /// The bytes as one slice, if no body is spliced in: then a plain `send` does.
    #[must_use]
    pub fn as_slice(&self) -> Option<&[u8]> {
        self.segments.is_empty().then(|| &self.buffer[self.sent..])
    }

    /// The buffer, to append to.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Appends a body: by copy if it is small, else by reference.
    pub(crate) fn body(&mut self, body: &Bytes, len: usize) {
        if len <= COPY_MAX {
            self.buffer.extend_from_slice(&body[..len]);
        } else {
            self.segments.push((self.buffer.len(), body.slice(..len)));
            self.segment_bytes += len;
        }
    }

    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        let spliced = self.segments.iter().flat_map(move |(at, body)| {
            let before = &self.buffer[from..*at];
            from = *at;
            [before, &body[..]]
        });
        let tail = self.segments.last().map_or(0, |(at, _)| *at);
        spliced.chain(std::iter::once(&self.buffer[tail..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Output, Vec<u8>) {
        let mut output = Output::new();
        let large = Bytes::from(vec![7; COPY_MAX + 1]);
        output.buffer().extend_from_slice(b"head");
        output.body(&large, COPY_MAX + 1);
        output.body(&Bytes::from_static(b"small body"), 5);
        let whole = [b"head", &large[..], b"small"].concat();
        (output, whole)
    }

    fn bytes(output: &Output) -> Vec<u8> {
        output.slices().flatten().copied().collect()
    }

    #[test]
    fn bodies_stand_where_they_were_put() {
        let (output, whole) = sample();
        assert_eq!(output.len(), whole.len());
        assert_eq!(bytes(&output), whole);
        assert_eq!(output.as_slice(), None);
        let mut slices = Vec::new();
        output.fill(&mut slices, 2);
        assert_eq!(slices.len(), 2);
    }

    #[test]
    fn what_was_sent_is_gone_wherever_the_sending_stopped() {
        let (_, whole) = sample();
        for n in [0, 1, 4, 5, COPY_MAX + 4, COPY_MAX + 5, whole.len() - 1] {
            let (mut output, whole) = sample();
            output.advance(n);
            assert_eq!(bytes(&output), whole[n..], "{n}");
            output.advance(whole.len() - n);
            assert!(output.is_empty());
            assert_eq!(output.as_slice(), Some(&[][..]));
        }
    }
}
