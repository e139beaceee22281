//! QPACK between two ends whose streams arrive in any order, as late as they like.

use std::collections::VecDeque;

use altway_fields::{integer, string};
use proptest::collection::vec;
use proptest::prelude::*;

use super::encoder::Indexing;
use super::{Decoder, Encoder, Error};

type Field = (Vec<u8>, Vec<u8>);

/// Few names and values, so that they come again, and some so long that they evict what is there.
fn field() -> impl Strategy<Value = Field> {
    let name = prop_oneof![
        3 => "[a-c]{1,2}|x-[a-z]{1,8}",
        2 => ":path|:status|:method|accept|set-cookie",
    ];
    let value = prop_oneof![
        4 => "[0-2]{0,2}|GET|200|404|/".prop_map(String::into_bytes),
        2 => vec(any::<u8>(), 0..80),
        1 => (0..900usize).prop_map(|len| vec![b'x'; len]),
    ];
    (name.prop_map(String::into_bytes), value)
}

/// A step; numbers choose among what there is.
#[derive(Clone, Debug)]
enum Step {
    Send(Vec<Field>),
    /// Bytes of the encoder stream arrive.
    Instructions(usize),
    /// Bytes of the decoder stream arrive.
    Acknowledgements(usize),
    /// A section arrives.
    Section(usize),
    /// A section's stream is given up.
    Cancel(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => vec(field(), 0..6).prop_map(Step::Send),
        3 => (1..200usize).prop_map(Step::Instructions),
        3 => (1..9usize).prop_map(Step::Acknowledgements),
        4 => any::<usize>().prop_map(Step::Section),
        1 => any::<usize>().prop_map(Step::Cancel),
    ]
}

fn decode(decoder: &mut Decoder, stream: u64, section: &[u8]) -> Result<Vec<Field>, Error<()>> {
    let mut fields = Vec::new();
    decoder.decode(stream, section, 1 << 20, |name, value| {
        fields.push((name.to_vec(), value.to_vec()));
        Ok(())
    })?;
    Ok(fields)
}

fn front(stream: &mut VecDeque<u8>, len: usize) -> Vec<u8> {
    stream.drain(..len.min(stream.len())).collect()
}

/// An encoder and a decoder, and the bytes on their way between them.
struct Ends {
    encoder: Encoder,
    decoder: Decoder,
    to_decoder: VecDeque<u8>,
    to_encoder: VecDeque<u8>,
    /// Stream, section and what it says.
    sections: Vec<(u64, Vec<u8>, Vec<Field>)>,
    next: u64,
}

impl Ends {
    fn new(capacity: usize) -> Self {
        let mut encoder = Encoder::new();
        encoder.set_peer_capacity(capacity as u64);
        Self {
            encoder,
            decoder: Decoder::new(capacity),
            to_decoder: VecDeque::new(),
            to_encoder: VecDeque::new(),
            sections: Vec::new(),
            next: 0,
        }
    }

    fn act(&mut self, step: Step) {
        match step {
            Step::Send(fields) => self.send(fields),
            Step::Instructions(len) => {
                let piece = front(&mut self.to_decoder, len);
                self.decoder.on_encoder_stream(&piece).unwrap();
            }
            Step::Acknowledgements(len) => {
                let piece = front(&mut self.to_encoder, len);
                self.encoder.on_decoder_stream(&piece).unwrap();
            }
            Step::Section(which) if !self.sections.is_empty() => {
                let (stream, section, fields) =
                    self.sections.swap_remove(which % self.sections.len());
                // The encoder never makes a section wait, so none may be blocked.
                assert_eq!(decode(&mut self.decoder, stream, &section), Ok(fields));
            }
            Step::Cancel(which) if !self.sections.is_empty() => {
                let (stream, ..) = self.sections.swap_remove(which % self.sections.len());
                self.decoder.cancel(stream);
            }
            Step::Section(_) | Step::Cancel(_) => {}
        }
        self.to_decoder
            .extend(self.encoder.instructions().drain(..));
        self.to_encoder
            .extend(self.decoder.instructions().drain(..));
    }

    fn send(&mut self, fields: Vec<Field>) {
        let mut section = self.encoder.section();
        for (name, value) in &fields {
            let encoder = &mut self.encoder;
            encoder.field(&mut section, name, value, Indexing::Repeating);
        }
        let size: usize = fields.iter().map(|(n, v)| n.len() + v.len() + 32).sum();
        assert_eq!(section.size(), size as u64);
        let bytes = self.encoder.finish(&section, self.next);
        self.sections.push((self.next, bytes, fields));
        self.next += 4;
    }
}

/// An encoder of the other kind: inserts every field at once and refers to it right away.
fn bold_section(inserted: &mut u64, capacity: usize, fields: &[Field]) -> (Vec<u8>, Vec<u8>) {
    let (mut instructions, mut lines) = (Vec::new(), Vec::new());
    for (index, (name, value)) in fields.iter().enumerate() {
        string::encode(name, 5, 0x40, &mut instructions);
        string::encode(value, 7, 0, &mut instructions);
        integer::encode(index as u64, 4, 0x10, &mut lines);
    }
    let required = *inserted + fields.len() as u64;
    let full_range = 2 * (capacity as u64 / 32);
    let mut section = Vec::new();
    integer::encode(required % full_range + 1, 8, 0, &mut section);
    integer::encode(fields.len() as u64 - 1, 7, 0x80, &mut section);
    section.extend(lines);
    *inserted = required;
    (instructions, section)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_arrives_when_fields_come_out_as_they_went_in(
        capacity in prop_oneof![Just(0usize), 0..400usize, Just(4096usize)],
        steps in vec(step(), 1..200),
    ) {
        let mut ends = Ends::new(capacity);
        for step in steps {
            ends.act(step);
        }
        // In the end everything arrives, and nothing is left outstanding.
        ends.act(Step::Instructions(usize::MAX));
        while !ends.sections.is_empty() {
            ends.act(Step::Section(0));
        }
        ends.act(Step::Acknowledgements(usize::MAX));
        prop_assert_eq!(ends.encoder.outstanding(), 0);
        prop_assert_eq!(ends.encoder.unknown(), 0);
    }

    #[test]
    fn a_blocked_section_decodes_as_soon_as_its_last_entry_is_there(
        sections in vec(vec(field(), 1..4), 1..20), cut in 1..50usize,
    ) {
        // Large enough that nothing is evicted before it is read.
        let capacity = 1 << 16;
        let mut decoder = Decoder::new(capacity);
        let mut inserted = 0;
        let mut setting = Vec::new();
        integer::encode(capacity as u64, 5, 0x20, &mut setting);
        decoder.on_encoder_stream(&setting).unwrap();
        for (index, fields) in sections.into_iter().enumerate() {
            let stream = 4 * index as u64;
            let (instructions, section) = bold_section(&mut inserted, capacity, &fields);
            let required = inserted;
            for piece in instructions.chunks(cut) {
                let blocked = decode(&mut decoder, stream, &section);
                prop_assert_eq!(blocked, Err(Error::Blocked { required }));
                decoder.on_encoder_stream(piece).unwrap();
            }
            prop_assert_eq!(decode(&mut decoder, stream, &section), Ok(fields));
        }
    }

    #[test]
    fn random_acknowledgements_never_panic(bytes: Vec<u8>, fields in vec(vec(field(), 0..4), 0..9)) {
        let mut ends = Ends::new(300);
        for fields in fields {
            ends.send(fields.clone());
            ends.send(fields);
        }
        let _ = ends.encoder.on_decoder_stream(&bytes);
        ends.send(vec![]);
    }
}
