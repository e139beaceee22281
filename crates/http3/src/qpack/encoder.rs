//! Field sections out (RFC 9204 section 4.5), this side's encoder stream, and the peer's decoder
//! stream.
//!
//! The policy is simple and safe. A field is inserted when it comes for the second time, if what must
//! be evicted for it is acknowledged and not referred to; it is referred to once its insertion is
//! acknowledged, so that no section ever waits; and an entry that is still in use when it comes near
//! to eviction is duplicated.

use std::collections::VecDeque;

use altway_fields::indexing::hash;
use altway_fields::{integer, string};

use super::dynamic_table::{DynamicTable, entry_size};
use super::instructions::{DecoderInstruction, Malformed, Partial};
use super::static_table::{Match, find};
use super::{FIELD_OVERHEAD, max_entries};
use crate::Code;
use crate::failure::Violation;

/// Largest dynamic table used, bytes, whatever the peer offers: its offer must not decide what memory
/// a connection costs.
const MAX_CAPACITY: u64 = 4096;

/// Sections whose acknowledgement is awaited. A peer that acknowledges none makes this side do
/// without the dynamic table.
const MAX_OUTSTANDING: usize = 1024;

/// Bytes that may wait for the encoder stream. A peer that gives it no credit gets no insertions.
const MAX_WAITING: usize = 4096;

/// Fields remembered for being seen once are those last seen of each of so many sets, by their hash. With
/// one to a set, two that are in every request would push each other out for ever.
const SEEN_SETS: usize = 16;
const SEEN_OF_A_SET: usize = 4;

/// Indexing of a field: how often it may be put into the peer's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Indexing {
    /// The field tends to come again.
    Repeating,
    /// The field tends to come once.
    Unique,
    /// No intermediary may put it into a compression table (the N bit, section 7.1.3).
    Never,
}

/// Encodes the field sections of one connection.
#[derive(Debug)]
pub(crate) struct Encoder {
    table: DynamicTable<Tag>,
    /// The peer's SETTINGS_QPACK_MAX_TABLE_CAPACITY, by which insert counts wrap.
    peer_capacity: u64,
    /// Section 2.1.4, "Known Received Count".
    known: u64,
    /// References of sections that the peer has not acknowledged, with the stream, oldest first: peers
    /// acknowledge nearly in order, so that the one they mean is near the front.
    outstanding: VecDeque<(u64, References)>,
    seen: [[u16; SEEN_OF_A_SET]; SEEN_SETS],
    partial: Partial,
    /// Instructions for the encoder stream.
    instructions: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Tag {
    /// Hash of name and value.
    hash: u64,
    /// Outstanding sections whose oldest reference this is.
    holds: u32,
}

/// Entries of the dynamic table that a section refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct References {
    /// Absolute index.
    oldest: u64,
    /// "Required Insert Count": one more than the newest.
    required: u64,
}

/// A field section in the making; [`Encoder::finish`] makes bytes of it.
#[derive(Debug)]
pub(crate) struct Section {
    lines: Vec<u8>,
    size: u64,
    base: u64,
    /// The encoder's Known Received Count when it was begun.
    known: u64,
    references: Option<References>,
}

impl Section {
    /// Returns the section's size as RFC 9114 section 4.2.2 counts.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The oldest entry that it refers to.
    fn oldest(&self) -> u64 {
        self.references.map_or(u64::MAX, |it| it.oldest)
    }

    fn refer(&mut self, index: u64) {
        let before = self.references.unwrap_or(References {
            oldest: index,
            required: 0,
        });
        self.references = Some(References {
            oldest: before.oldest.min(index),
            required: before.required.max(index + 1),
        });
        integer::encode(self.base - 1 - index, 6, 0x80, &mut self.lines);
    }
}

impl Encoder {
    /// An encoder that uses no dynamic table before the peer allows one.
    pub(crate) fn new() -> Self {
        Self {
            table: DynamicTable::new(),
            peer_capacity: 0,
            known: 0,
            outstanding: VecDeque::new(),
            seen: [[0; SEEN_OF_A_SET]; SEEN_SETS],
            partial: Partial::default(),
            instructions: Vec::new(),
        }
    }

    /// The peer's SETTINGS_QPACK_MAX_TABLE_CAPACITY, bytes. To be told once.
    pub(crate) fn set_peer_capacity(&mut self, capacity: u64) {
        self.peer_capacity = capacity;
        let capacity = capacity.min(MAX_CAPACITY);
        if max_entries(capacity) > 0 {
            self.table
                .set_capacity(usize::try_from(capacity).expect("at most MAX_CAPACITY"));
            integer::encode(capacity, 5, 0x20, &mut self.instructions);
        }
    }

    /// Begins a section.
    pub(crate) fn section(&self) -> Section {
        Section {
            lines: Vec::with_capacity(256),
            size: 0,
            base: self.table.insert_count(),
            known: self.known,
            references: None,
        }
    }

    /// Appends a field to a section.
    pub(crate) fn field(
        &mut self,
        section: &mut Section,
        name: &[u8],
        value: &[u8],
        indexing: Indexing,
    ) {
        section.size += (name.len() + value.len()) as u64 + FIELD_OVERHEAD;
        let found = find(name, value);
        if let Some(Match::Field(index)) = found {
            return integer::encode(index, 6, 0xc0, &mut section.lines);
        }
        if indexing == Indexing::Repeating
            && let Some(index) = self.index(section, name, value, found)
        {
            return section.refer(index);
        }
        let never = indexing == Indexing::Never;
        let lines = &mut section.lines;
        match found {
            Some(Match::Field(index) | Match::Name(index)) => {
                integer::encode(index, 4, if never { 0x70 } else { 0x50 }, lines);
            }
            None => string::encode(name, 3, if never { 0x30 } else { 0x20 }, lines),
        }
        string::encode(value, 7, 0, lines);
    }

    /// The section as it is sent on a stream.
    pub(crate) fn finish(&mut self, section: &Section, stream: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(section.lines.len() + 4);
        match section.references {
            None => out.extend_from_slice(&[0, 0]),
            Some(references) => {
                let full_range = 2 * max_entries(self.peer_capacity);
                integer::encode(references.required % full_range + 1, 8, 0, &mut out);
                integer::encode(section.base - references.required, 7, 0, &mut out);
                self.hold(stream, references);
            }
        }
        out.extend_from_slice(&section.lines);
        out
    }

    /// Returns true if a section that was finished before can be sent as it was once more, and would not
    /// come out shorter now. If so it counts as finished for this stream.
    pub(crate) fn finish_again(&mut self, section: &Section, stream: u64) -> bool {
        let unchanged = (section.base, section.known) == (self.table.insert_count(), self.known);
        match section.references {
            _ if !unchanged => false,
            None => true,
            Some(references) => {
                let may = self.may_refer();
                if may {
                    self.hold(stream, references);
                }
                may
            }
        }
    }

    /// Takes a piece of the peer's decoder stream. How many instructions that were.
    pub(crate) fn on_decoder_stream(&mut self, piece: &[u8]) -> Result<u32, Violation> {
        let mut partial = std::mem::take(&mut self.partial);
        let fed = partial.feed(piece, |input| {
            let instruction = DecoderInstruction::take(input)?;
            instruction.map_or(Ok(false), |it| self.apply_instruction(it).map(|()| true))
        });
        self.partial = partial;
        fed.map_err(|Malformed| {
            let reason = "wrong instruction on the decoder stream";
            Violation::new(Code::QPACK_DECODER_STREAM_ERROR, reason)
        })
    }

    /// Returns the instructions to be sent on the encoder stream; to be emptied by the caller.
    pub(crate) fn instructions(&mut self) -> &mut Vec<u8> {
        &mut self.instructions
    }

    /// Sections whose acknowledgement is awaited.
    #[cfg(test)]
    pub(super) fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Insertions that the peer is not known to know of.
    #[cfg(test)]
    pub(super) fn unknown(&self) -> u64 {
        self.table.insert_count() - self.known
    }

    fn apply_instruction(&mut self, instruction: DecoderInstruction) -> Result<(), Malformed> {
        match instruction {
            // Section 4.4.1: an acknowledgement of a stream "on which every encoded field section
            // with a non-zero Required Insert Count has already been acknowledged" is an error.
            DecoderInstruction::Acknowledge(stream) => {
                let mut held = self.outstanding.iter();
                let at = held.position(|(of, _)| *of == stream).ok_or(Malformed)?;
                let (_, references) = self.outstanding.remove(at).expect("found above");
                self.known = self.known.max(references.required);
                self.release(references);
            }
            DecoderInstruction::Cancel(stream) => {
                let mut at = 0;
                while let Some((of, references)) = self.outstanding.get(at).copied() {
                    if of == stream {
                        self.outstanding.remove(at);
                        self.release(references);
                    } else {
                        at += 1;
                    }
                }
            }
            // Section 4.4.3: an increment of 0, "or that increases the Known Received Count beyond
            // what the encoder has sent", is an error.
            DecoderInstruction::Increment(count) => {
                let known = self.known.checked_add(count).ok_or(Malformed)?;
                if count == 0 || known > self.table.insert_count() {
                    return Err(Malformed);
                }
                self.known = known;
            }
        }
        Ok(())
    }

    /// Returns the absolute index of a field in the dynamic table, if that may be referred to. Inserts it
    /// for later if it is worth that.
    fn index(
        &mut self,
        section: &Section,
        name: &[u8],
        value: &[u8],
        found: Option<Match>,
    ) -> Option<u64> {
        if self.table.capacity() == 0 {
            return None;
        }
        let hash = hash(name, value);
        let Some((newest, usable)) = self.find(hash, name, value) else {
            if self.seen_before(hash) {
                self.insert(section, name, value, hash, found);
            }
            return None;
        };
        let usable = usable?;
        if newest == usable && self.is_draining(usable) {
            self.duplicate(section, usable, hash);
        }
        self.may_refer().then_some(usable)
    }

    /// The newest entry that holds the field, and the newest one of which the peer is known to know.
    fn find(&self, hash: u64, name: &[u8], value: &[u8]) -> Option<(u64, Option<u64>)> {
        let mut matches = self
            .table
            .find(move |tag| tag.hash == hash)
            .filter(|index| self.table.get(*index) == Some((name, value)));
        let newest = matches.next()?;
        let usable = std::iter::once(newest)
            .chain(matches)
            .find(|index| *index < self.known);
        Some((newest, usable))
    }

    /// Returns true if a field with this hash was seen before; it is from now on.
    fn seen_before(&mut self, hash: u64) -> bool {
        let set = usize::try_from(hash % SEEN_SETS as u64).expect("below SEEN_SETS");
        let set = &mut self.seen[set];
        // What is taken for another is inserted once in vain.
        let [a, b, ..] = hash.to_be_bytes();
        let short = u16::from_be_bytes([a, b]);
        let place = set.iter().position(|seen| *seen == short);
        // The one that was seen longest ago makes room.
        set[..=place.unwrap_or(SEEN_OF_A_SET - 1)].rotate_right(1);
        set[0] = short;
        place.is_some()
    }

    fn insert(
        &mut self,
        section: &Section,
        name: &[u8],
        value: &[u8],
        hash: u64,
        found: Option<Match>,
    ) {
        let size = entry_size(name, value);
        // A larger entry would cost the table nearly all that it holds.
        if size > self.table.capacity() / 4 * 3 || !self.has_room(section.oldest(), size) {
            return;
        }
        match found {
            Some(Match::Field(index) | Match::Name(index)) => {
                integer::encode(index, 6, 0xc0, &mut self.instructions);
            }
            None => string::encode(name, 5, 0x40, &mut self.instructions),
        }
        string::encode(value, 7, 0, &mut self.instructions);
        let inserted = self.table.insert(name, value, Tag { hash, holds: 0 });
        debug_assert!(inserted, "room was made");
    }

    /// Section 2.1.1.1: duplicating what is about to be evicted keeps it at hand.
    fn duplicate(&mut self, section: &Section, index: u64, hash: u64) {
        let Some((name, value)) = self.table.get(index) else {
            return;
        };
        // The entry itself is about to be in use by this section.
        if !self.has_room(section.oldest().min(index), entry_size(name, value)) {
            return;
        }
        let (name, value) = (name.to_vec(), value.to_vec());
        let relative = self.table.insert_count() - 1 - index;
        integer::encode(relative, 5, 0x00, &mut self.instructions);
        let inserted = self.table.insert(&name, &value, Tag { hash, holds: 0 });
        debug_assert!(inserted, "room was made");
    }

    /// Returns true if an entry of this size can be inserted: the encoder stream keeps up, and what must
    /// go is known to the peer and referred to neither by outstanding sections nor, from `in_use` on, by
    /// the one in the making (section 2.1.1).
    fn has_room(&self, in_use: u64, size: usize) -> bool {
        self.instructions.len() + size <= MAX_WAITING
            && self.table.has_room(size, |index, tag| {
                index < self.known && index < in_use && tag.holds == 0
            })
    }

    /// Returns true if an entry is in the oldest quarter of the table.
    fn is_draining(&self, index: u64) -> bool {
        let draining = self.table.capacity() as u64 / 4 * 3;
        self.table.age(index).is_some_and(|age| age > draining)
    }

    fn hold(&mut self, stream: u64, references: References) {
        if let Some(tag) = self.table.tag_mut(references.oldest) {
            tag.holds += 1;
        }
        self.outstanding.push_back((stream, references));
    }

    fn may_refer(&self) -> bool {
        self.outstanding.len() < MAX_OUTSTANDING
    }

    fn release(&mut self, references: References) {
        if let Some(tag) = self.table.tag_mut(references.oldest) {
            tag.holds -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes one field on a stream; what was said on the encoder stream, and the section.
    fn send(encoder: &mut Encoder, stream: u64, name: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
        let mut section = encoder.section();
        let (name, value) = (name.as_bytes(), value.as_bytes());
        encoder.field(&mut section, name, value, Indexing::Repeating);
        let section = encoder.finish(&section, stream);
        (std::mem::take(encoder.instructions()), section)
    }

    fn encoder(capacity: u64) -> Encoder {
        let mut encoder = Encoder::new();
        encoder.set_peer_capacity(capacity);
        encoder.instructions().clear();
        encoder
    }

    fn literal(name: &str, value: &str, indexing: Indexing) -> Vec<u8> {
        let mut encoder = Encoder::new();
        let mut section = encoder.section();
        encoder.field(&mut section, name.as_bytes(), value.as_bytes(), indexing);
        assert_eq!(section.size(), (name.len() + value.len() + 32) as u64);
        encoder.finish(&section, 0)[2..].to_vec()
    }

    #[test]
    fn literals_take_the_shortest_form() {
        let welcome = |name, value| literal(name, value, Indexing::Repeating);
        assert_eq!(welcome(":method", "GET"), [0xc0 | 17]);
        assert_eq!(welcome("x-frame-options", "sameorigin"), [0xff, 98 - 63]);
        assert_eq!(welcome(":status", "302"), [0xff, 66 - 63]);
        assert_eq!(welcome("etag", "\x01"), [0x57, 1, 1]);
        assert_eq!(welcome(":path", "no-cache")[..2], [0x51, 0x80 | 6]);
        assert_eq!(welcome("~", ""), [0x21, b'~', 0]);
    }

    #[test]
    fn a_sensitive_field_carries_the_never_index_bit_and_is_not_inserted() {
        assert_eq!(literal("authorization", "x", Indexing::Never)[0], 0x7f);
        assert_eq!(literal("~", "", Indexing::Never)[0], 0x31);
        let mut encoder = encoder(4096);
        for _ in 0..3 {
            let mut section = encoder.section();
            encoder.field(&mut section, b"~", b"1", Indexing::Never);
            encoder.field(&mut section, b"~", b"1", Indexing::Unique);
        }
        assert_eq!(*encoder.instructions(), [0_u8; 0]);
    }

    #[test]
    fn a_field_is_inserted_the_second_time_and_an_index_once_that_is_known() {
        let mut encoder = encoder(4096);
        let literal = [0, 0, 0x21, b'~', 1, b'1'].to_vec();
        let insertion = [0x41, b'~', 1, b'1'].to_vec();
        assert_eq!(send(&mut encoder, 0, "~", "1"), (vec![], literal.clone()));
        assert_eq!(
            send(&mut encoder, 4, "~", "1"),
            (insertion, literal.clone())
        );
        assert_eq!(send(&mut encoder, 8, "~", "1"), (vec![], literal));
        encoder.on_decoder_stream(&[0x01]).unwrap();
        let section = [0x02, 0x00, 0x80].to_vec();
        assert_eq!(send(&mut encoder, 12, "~", "1"), (vec![], section));
    }

    #[test]
    fn fields_that_come_with_every_request_are_inserted_whatever_their_hashes() {
        let mut encoder = encoder(4096);
        let is_alike = |value: &String| hash(b"~", value.as_bytes()).is_multiple_of(64);
        let values = (0..1_000).map(|number: u32| number.to_string());
        let alike: Vec<_> = values.filter(is_alike).take(4).collect();
        let mut insertions = |value: &String| !send(&mut encoder, 0, "~", value).0.is_empty();
        assert!(!alike.iter().any(&mut insertions));
        assert!(alike.iter().all(&mut insertions));
    }

    #[test]
    fn what_the_peer_cannot_know_or_was_not_sent_is_a_decoder_stream_error() {
        let code = Code::QPACK_DECODER_STREAM_ERROR;
        let fails = |encoder: &mut Encoder, wrong: &[u8]| {
            assert_eq!(encoder.on_decoder_stream(wrong).unwrap_err().code, code);
        };
        fails(&mut encoder(4096), &[0x00]);
        fails(&mut encoder(4096), &[0x01]);
        fails(&mut encoder(4096), &[0x84]);
        fails(&mut encoder(4096), &[0xff; 11]);
        let mut encoder = encoder(4096);
        encoder.on_decoder_stream(&[0x44, 0x7f, 0x80]).unwrap();
        encoder.on_decoder_stream(&[0x01]).unwrap();
        known(&mut encoder, "1");
        send(&mut encoder, 4, "~", "1");
        encoder.on_decoder_stream(&[0x84]).unwrap();
        fails(&mut encoder, &[0x84]);
    }

    /// Makes the encoder insert a field, and acknowledges it.
    fn known(encoder: &mut Encoder, value: &str) {
        send(encoder, 0, "~", value);
        assert_ne!(send(encoder, 0, "~", value).0, [0_u8; 0]);
        encoder.on_decoder_stream(&[0x01]).unwrap();
    }

    #[test]
    fn what_is_referred_to_is_not_evicted_until_that_is_over() {
        for over in [[0x84], [0x44]] {
            let mut encoder = encoder(3 * 34);
            known(&mut encoder, "1");
            known(&mut encoder, "2");
            known(&mut encoder, "3");
            let (_, section) = send(&mut encoder, 4, "~", "1");
            assert_eq!(section, [0x02, 0x02, 0x82]);
            send(&mut encoder, 8, "~", "4");
            assert_eq!(send(&mut encoder, 8, "~", "4").0, [0_u8; 0], "no room");
            encoder.on_decoder_stream(&over).unwrap();
            assert_ne!(send(&mut encoder, 8, "~", "4").0, [0_u8; 0]);
        }
    }

    #[test]
    fn what_the_peer_is_not_known_to_know_is_not_evicted() {
        let mut encoder = encoder(34);
        send(&mut encoder, 0, "~", "1");
        assert_eq!(
            send(&mut encoder, 0, "~", "1").0,
            [0_u8; 0],
            "most of the table"
        );
        let mut encoder = self::encoder(2 * 34);
        for value in ["1", "2", "3"] {
            send(&mut encoder, 0, "~", value);
        }
        assert_ne!(send(&mut encoder, 0, "~", "1").0, [0_u8; 0]);
        assert_ne!(send(&mut encoder, 0, "~", "2").0, [0_u8; 0]);
        assert_eq!(send(&mut encoder, 0, "~", "3").0, [0_u8; 0]);
        encoder.on_decoder_stream(&[0x01]).unwrap();
        assert_ne!(send(&mut encoder, 0, "~", "3").0, [0_u8; 0]);
    }

    #[test]
    fn an_entry_in_use_is_duplicated_before_it_is_evicted() {
        let mut encoder = encoder(8 * 34);
        for value in ["1", "2", "3", "4", "5", "6", "7"] {
            known(&mut encoder, value);
        }
        let (instructions, section) = send(&mut encoder, 4, "~", "1");
        assert_eq!(instructions, [0x06]);
        assert_eq!(section, [0x02, 0x06, 0x86]);
        assert_eq!(
            send(&mut encoder, 8, "~", "1").0,
            [0_u8; 0],
            "one is enough"
        );
        encoder.on_decoder_stream(&[0x01]).unwrap();
        let (_, section) = send(&mut encoder, 12, "~", "1");
        assert_eq!(section, [0x09, 0x00, 0x80]);
    }

    #[test]
    fn a_peer_that_acknowledges_nothing_gets_literals_in_the_end() {
        let mut encoder = encoder(4096);
        known(&mut encoder, "1");
        for stream in 0..MAX_OUTSTANDING as u64 {
            assert_eq!(send(&mut encoder, stream, "~", "1").1[0], 0x02);
        }
        assert_eq!(send(&mut encoder, 1 << 20, "~", "1").1[0], 0x00);
    }

    #[test]
    fn a_peer_without_credit_for_the_encoder_stream_gets_no_insertions() {
        let mut encoder = encoder(1 << 20);
        assert_eq!(encoder.table.capacity(), 4096);
        for round in 0..200 {
            for _ in 0..2 {
                let mut section = encoder.section();
                let value = format!("{round}{}", "x".repeat(500));
                encoder.field(&mut section, b"~", value.as_bytes(), Indexing::Repeating);
                encoder.finish(&section, 0);
            }
        }
        assert!(encoder.instructions().len() <= MAX_WAITING);
    }
}
