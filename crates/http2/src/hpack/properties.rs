//! Properties that hold for any fields, blocks, table sizes and bytes.

use altway_message::FieldKind;
use http::{HeaderName, HeaderValue};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Decoder, Encoder, FIELD_OVERHEAD, Visitor};
use crate::{FieldBlock, Indexing};

type Field = (Vec<u8>, Vec<u8>);

/// Collects fields and checks that each has the kind that it would have on its own.
#[derive(Default)]
struct Collected(Vec<Field>);

impl Visitor for Collected {
    fn field(&mut self, kind: FieldKind, name: &[u8], value: &[u8]) {
        assert_eq!(kind, FieldKind::of(name).with_value(value));
        self.0.push((name.to_vec(), value.to_vec()));
    }
}

#[derive(Clone, Debug)]
enum Part {
    Status(u16),
    Field(Field, Indexing),
    /// A block that was made in advance.
    Block(usize),
}

#[derive(Clone, Debug)]
struct Step {
    sizes: Vec<u32>,
    parts: Vec<Part>,
}

fn indexing() -> impl Strategy<Value = Indexing> {
    prop_oneof![
        3 => Just(Indexing::Incremental),
        1 => Just(Indexing::Without),
        1 => Just(Indexing::Never),
    ]
}

/// Few names and values, so that they come again; some of any bytes, some long.
fn field() -> impl Strategy<Value = Field> {
    let name = prop_oneof![
        "[a-c]{1,2}".prop_map(String::into_bytes),
        prop::sample::select(vec!["cookie", ":path", "content-length", "zz", ":status"])
            .prop_map(|name| name.as_bytes().to_vec()),
        vec(any::<u8>(), 0..5),
    ];
    let value = prop_oneof![
        4 => "[0-2]{0,2}".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..200),
        1 => (0..5000usize).prop_map(|len| vec![b'x'; len]),
    ];
    (name, value)
}

fn block() -> impl Strategy<Value = FieldBlock> {
    let field = (
        "[a-c]{1,2}|cookie|date",
        "[0-2]{0,2}|[x-z ]{60,90}",
        prop::bool::weighted(0.1),
    );
    (vec(field, 0..5), indexing()).prop_map(|(fields, indexing)| {
        let fields: Vec<(HeaderName, HeaderValue)> = fields
            .into_iter()
            .map(|(name, value, sensitive)| {
                let mut value = HeaderValue::from_str(&value).unwrap();
                value.set_sensitive(sensitive);
                (name.parse().unwrap(), value)
            })
            .collect();
        FieldBlock::new(fields.iter().map(|(name, value)| (name, value)), indexing)
    })
}

fn step() -> impl Strategy<Value = Step> {
    let part = prop_oneof![
        1 => (100..1000u16).prop_map(Part::Status),
        2 => (field(), indexing()).prop_map(|(field, indexing)| Part::Field(field, indexing)),
        4 => (0..12usize).prop_map(Part::Block),
    ];
    let size = prop_oneof![0..200u32, 0..5000u32, Just(4096)];
    let sizes = prop_oneof![4 => Just(Vec::new()), 1 => vec(size, 1..4)];
    (sizes, vec(part, 0..8)).prop_map(|(sizes, parts)| Step { sizes, parts })
}

/// Returns the fields of a block, by an encoder and a decoder of its own.
fn fields_of(block: &FieldBlock) -> Vec<Field> {
    let mut out = Vec::new();
    Encoder::new().block(block, &mut out);
    let mut collected = Collected::default();
    Decoder::new(4096).decode(&out, &mut collected).unwrap();
    collected.0
}

fn size_of(fields: &[Field]) -> usize {
    let sizes = fields
        .iter()
        .map(|field| field.0.len() + field.1.len() + FIELD_OVERHEAD);
    sizes.sum()
}

fn append(
    encoder: &mut Encoder,
    part: &Part,
    blocks: &[FieldBlock],
    out: &mut Vec<u8>,
) -> Vec<Field> {
    match part {
        Part::Status(status) => {
            encoder.status(*status, out);
            vec![(b":status".to_vec(), status.to_string().into_bytes())]
        }
        Part::Field(field, indexing) => {
            encoder.field(&field.0, &field.1, *indexing, out);
            vec![field.clone()]
        }
        Part::Block(number) => {
            let block = &blocks[number % blocks.len()];
            encoder.block(block, out);
            fields_of(block)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Evictions and size changes come between memoised blocks, so a stale memo would show as well.
    #[test]
    fn what_is_encoded_decodes_to_the_same_fields(
        blocks in vec(block(), 1..12), steps in vec(step(), 1..30),
    ) {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        for step in steps {
            for size in step.sizes {
                encoder.set_peer_table_size(size);
            }
            let (mut out, mut expected) = (Vec::new(), Vec::new());
            encoder.begin(&mut out);
            for part in step.parts {
                expected.extend(append(&mut encoder, &part, &blocks, &mut out));
            }
            let mut collected = Collected::default();
            prop_assert_eq!(decoder.decode(&out, &mut collected), Ok(()));
            prop_assert_eq!(collected.0, expected);
        }
    }

    #[test]
    fn a_block_says_its_list_size(block in block()) {
        prop_assert_eq!(block.list_size(), size_of(&fields_of(&block)));
    }

    #[test]
    fn random_bytes_never_panic(
        blocks in vec(vec(any::<u8>(), 0..100), 1..10), max_table_size in 0..10_000usize,
    ) {
        let mut decoder = Decoder::new(max_table_size);
        for block in blocks {
            if decoder.decode(&block, &mut Collected::default()).is_err() {
                break;
            }
        }
    }

    #[test]
    fn bytes_that_look_like_blocks_never_panic_and_keep_the_table_in_bounds(
        pieces in vec(prop_oneof![
            (0..64u8).prop_map(|index| vec![0x80 | index]),
            (0..64u8, any::<u8>()).prop_map(|(index, byte)| vec![0x40 | index, 1, byte]),
            (0..16u8, any::<u8>()).prop_map(|(index, byte)| vec![index, 0x81, byte]),
            (any::<u8>(), 0..100u8).prop_map(|(byte, len)| {
                [&[0x40, 1, byte, len][..], &vec![byte; usize::from(len)]].concat()
            }),
            (0..31u8).prop_map(|size| vec![0x20 | size]),
        ], 0..200),
    ) {
        let mut decoder = Decoder::new(512);
        for piece in pieces {
            let before = decoder.generation();
            let inserts_or_resizes = matches!(piece[0], 0x20..0x80);
            if decoder.decode(&piece, &mut Collected::default()).is_err() {
                break;
            }
            prop_assert_eq!(decoder.generation() != before, inserts_or_resizes);
        }
    }
}
