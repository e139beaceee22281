//! HPACK spoken with an implementation that is not ours (`httlib-hpack`), in both directions.
//!
//! That implementation is more lenient than RFC 7541 (it takes size updates anywhere), so what must
//! be refused is left to our own tests.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Decoder, Encoder, Visitor};
use crate::Indexing;
use altway_message::FieldKind;

type Field = (Vec<u8>, Vec<u8>);

/// The table size set before it, if any, and its fields.
type Block = (Option<u32>, Vec<(Field, Indexing)>);

#[derive(Default)]
struct Collected(Vec<Field>);

impl Visitor for Collected {
    fn field(&mut self, _: FieldKind, name: &[u8], value: &[u8]) {
        self.0.push((name.to_vec(), value.to_vec()));
    }
}

/// A field and how it goes out. Few names and values, so that they come again, and some so long
/// that they evict what is there.
fn field() -> impl Strategy<Value = (Field, Indexing)> {
    let name = prop_oneof![
        3 => "[a-c]{1,2}|x-[a-z]{1,8}",
        2 => ":path|:status|:method|accept|content-length|set-cookie|www-authenticate",
    ];
    let value = prop_oneof![
        4 => "[0-2]{0,2}|GET|200|404|/".prop_map(String::into_bytes),
        2 => vec(any::<u8>(), 0..80),
        1 => (0..1500usize).prop_map(|len| vec![b'x'; len]),
    ];
    let indexing = prop_oneof![
        4 => Just(Indexing::Incremental),
        1 => Just(Indexing::Without),
        1 => Just(Indexing::Never),
    ];
    ((name.prop_map(String::into_bytes), value), indexing)
}

fn blocks() -> impl Strategy<Value = Vec<Block>> {
    let size = prop_oneof![Just(0), 0..300u32, 0..=4096u32];
    vec(
        (prop::option::weighted(0.2, size), vec(field(), 0..8)),
        1..40,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn they_read_what_we_write(blocks in blocks()) {
        let (mut encoder, mut decoder) = (Encoder::new(), httlib_hpack::Decoder::default());
        for (size, fields) in blocks {
            if let Some(size) = size {
                encoder.set_peer_table_size(size);
            }
            let mut out = Vec::new();
            encoder.begin(&mut out);
            for ((name, value), indexing) in &fields {
                encoder.field(name, value, *indexing, &mut out);
            }
            let mut read = Vec::new();
            decoder.decode(&mut out, &mut read).unwrap();
            prop_assert_eq!(fields.len(), read.len());
            for ((field, indexing), (name, value, flags)) in fields.into_iter().zip(&read) {
                prop_assert_eq!(field, (name.clone(), value.clone()));
                let never = flags & httlib_hpack::Decoder::NEVER_INDEXED != 0;
                prop_assert_eq!(never, indexing == Indexing::Never);
            }
        }
    }

    #[test]
    fn we_read_what_they_write(blocks in blocks(), huffman: bool) {
        let (mut encoder, mut decoder) = (httlib_hpack::Encoder::default(), Decoder::new(4096));
        for (size, fields) in blocks {
            let mut out = Vec::new();
            if let Some(size) = size {
                encoder.update_max_dynamic_size(size, &mut out).unwrap();
            }
            for ((name, value), indexing) in &fields {
                let field = (name.clone(), value.clone(), flags(*indexing, huffman));
                encoder.encode(field, &mut out).unwrap();
            }
            let mut collected = Collected::default();
            prop_assert_eq!(decoder.decode(&out, &mut collected), Ok(()));
            let sent: Vec<Field> = fields.into_iter().map(|(field, _)| field).collect();
            prop_assert_eq!(collected.0, sent);
        }
    }
}

fn flags(indexing: Indexing, huffman: bool) -> u8 {
    use httlib_hpack::Encoder as Theirs;
    let coding = if huffman {
        Theirs::HUFFMAN_NAME | Theirs::HUFFMAN_VALUE
    } else {
        0
    };
    let indexing = match indexing {
        Indexing::Incremental => Theirs::WITH_INDEXING | Theirs::BEST_FORMAT,
        Indexing::Without => 0,
        Indexing::Never => Theirs::NEVER_INDEXED,
    };
    coding | indexing
}
