//! Field compression: any bytes into the decoder, and any fields through the encoder and back.

use std::hash::{DefaultHasher, Hash, Hasher};

use altway_http2::fuzzing::{FieldDecoder, FieldEncoder, Undecodable};
use altway_http2::{FieldBlock, Indexing};
use http::{HeaderName, HeaderValue};

use crate::input::Input;

/// The first byte says which of the two.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    match input.byte() % 2 {
        0 => decode(input),
        _ => round_trip(input),
    }
}

/// Blocks of any bytes, one behind the other, with a table of any size.
fn decode(mut input: Input<'_>) {
    let mut decoder = FieldDecoder::new(usize::from(input.word()) % 10_000);
    while !input.is_empty() {
        let len = input.byte();
        if len == 0xff {
            decoder.settings_acknowledged();
            continue;
        }
        let block = input.take(len.into());
        let before = decoder.generation();
        let Ok(fields) = digest(&mut decoder, block) else {
            return;
        };
        // The engine doesn't decode again what it has just seen, so this must hold.
        if decoder.generation() == before {
            assert_eq!(digest(&mut decoder, block), Ok(fields), "the same again");
            assert_eq!(decoder.generation(), before, "again without a change");
        }
    }
}

/// Fields may be large, and many times the same: a number stands for them.
fn digest(decoder: &mut FieldDecoder, block: &[u8]) -> Result<(usize, u64), Undecodable> {
    let (mut count, mut hash) = (0, DefaultHasher::new());
    decoder.decode(block, |name, value| {
        count += 1;
        (name, value).hash(&mut hash);
    })?;
    Ok((count, hash.finish()))
}

type Field = (Vec<u8>, Vec<u8>);

/// The encoder and the decoder of one direction of a connection.
struct Ends {
    encoder: FieldEncoder,
    decoder: FieldDecoder,
    blocks: Vec<Block>,
    /// A field block has begun.
    begun: bool,
    encoded: Vec<u8>,
    expected: Vec<Field>,
}

/// A block made in advance, and what it says.
struct Block {
    block: FieldBlock,
    fields: Vec<Field>,
}

fn round_trip(mut input: Input<'_>) {
    let mut ends = Ends {
        encoder: FieldEncoder::new(),
        decoder: FieldDecoder::new(4096),
        blocks: (0..4).map(|_| block(&mut input)).collect(),
        begun: false,
        encoded: Vec::new(),
        expected: Vec::new(),
    };
    while !input.is_empty() {
        ends.step(&mut input);
    }
    ends.deliver();
}

impl Ends {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 8 {
            0 => self.deliver(),
            1 => {
                self.deliver();
                for _ in 0..=input.byte() % 3 {
                    self.encoder.set_peer_table_size(input.word().into());
                }
            }
            2 => self.status(100 + input.word() % 900),
            3 | 4 => self.block(input.byte().into()),
            5 => {
                let (name, value) = few(input);
                self.field(name.as_str().as_bytes(), value.as_bytes(), indexing(input));
            }
            _ => {
                let (name, value) = (input.byte() % 80, input.word() % 5000);
                let (name, value) = (input.take(name.into()), input.take(value.into()));
                self.field(name, value, indexing(input));
            }
        }
    }

    fn status(&mut self, status: u16) {
        self.begin();
        self.encoder.status(status, &mut self.encoded);
        let text = status.to_string().into_bytes();
        self.expected.push((b":status".to_vec(), text));
    }

    fn block(&mut self, which: usize) {
        self.begin();
        let block = &self.blocks[which % self.blocks.len()];
        self.encoder.block(&block.block, &mut self.encoded);
        self.expected.extend_from_slice(&block.fields);
    }

    fn field(&mut self, name: &[u8], value: &[u8], indexing: Indexing) {
        self.begin();
        self.encoder.field(name, value, indexing, &mut self.encoded);
        self.expected.push((name.to_vec(), value.to_vec()));
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.begun, true) {
            self.encoder.begin(&mut self.encoded);
        }
    }

    fn deliver(&mut self) {
        self.begin();
        self.begun = false;
        let mut decoded = Vec::new();
        let each = |name: &[u8], value: &[u8]| decoded.push((name.to_vec(), value.to_vec()));
        assert_eq!(self.decoder.decode(&self.encoded, each), Ok(()));
        assert_eq!(decoded, self.expected);
        self.expected.clear();
        self.encoded.clear();
    }
}

fn indexing(input: &mut Input<'_>) -> Indexing {
    input.choose(&[
        Indexing::Incremental,
        Indexing::Incremental,
        Indexing::Without,
        Indexing::Never,
    ])
}

/// Returns a field of few names and values, so that they come again.
fn few(input: &mut Input<'_>) -> (HeaderName, HeaderValue) {
    let name = input.choose(&["a", "b", "cookie", "server", "content-length", "accept"]);
    let [shape, len] = input.array().unwrap_or_default();
    let value = [b'0' + shape % 4].repeat((len % 100).into());
    let value = HeaderValue::from_bytes(&value).expect("digits");
    (HeaderName::from_static(name), value)
}

fn block(input: &mut Input<'_>) -> Block {
    let fields: Vec<_> = (0..input.byte() % 5).map(|_| few(input)).collect();
    let block = fields.iter().map(|(name, value)| (name, value));
    Block {
        block: FieldBlock::new(block, indexing(input)),
        fields: fields
            .into_iter()
            .map(|(name, value)| (name.as_str().into(), value.as_bytes().into()))
            .collect(),
    }
}
