//! The examples of RFC 7541 appendix C, in both directions where an encoder's choices are ours.

use super::{Decoder, Encoder, Visitor};
use crate::Indexing;
use altway_message::FieldKind;

/// Name and value of each field, in order.
type Fields = [(&'static str, &'static str)];

#[derive(Default)]
struct Collected(Vec<(String, String)>);

impl Visitor for Collected {
    fn field(&mut self, _: FieldKind, name: &[u8], value: &[u8]) {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        self.0.push((text(name), text(value)));
    }
}

#[track_caller]
fn assert_decodes(decoder: &mut Decoder, block: &str, fields: &Fields) {
    let mut collected = Collected::default();
    decoder.decode(&bytes(block), &mut collected).unwrap();
    let expected: Vec<_> = fields
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    assert_eq!(collected.0, expected);
}

#[track_caller]
fn assert_encodes(encoder: &mut Encoder, fields: &Fields, indexing: Indexing, block: &str) {
    let mut out = Vec::new();
    encoder.begin(&mut out);
    for (name, value) in fields {
        encoder.field(name.as_bytes(), value.as_bytes(), indexing, &mut out);
    }
    assert_eq!(out, bytes(block), "{out:02x?}");
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits: Vec<u8> = hexadecimal.bytes().filter(|byte| *byte != b' ').collect();
    let pairs = digits
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).unwrap());
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect()
}

/// The dynamic table, newest entry first, as a block that asks for each entry sees it.
#[track_caller]
fn assert_table(decoder: &mut Decoder, entries: &Fields) {
    let indices: Vec<u8> = (62..)
        .take(entries.len())
        .map(|index| 0x80 | index)
        .collect();
    let block: String = indices.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_decodes(decoder, &block, entries);
    let beyond = [0x80 | (62 + entries.len()).to_le_bytes()[0]];
    assert!(decoder.decode(&beyond, &mut Collected::default()).is_err());
}

#[test]
fn c_2_1_literal_field_with_indexing() {
    let block = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
    let fields = [("custom-key", "custom-header")];
    let mut decoder = Decoder::new(4096);
    assert_decodes(&mut decoder, block, &fields);
    assert_table(&mut decoder, &fields);
}

#[test]
fn c_2_2_literal_field_without_indexing() {
    let mut decoder = Decoder::new(4096);
    let block = "040c 2f73 616d 706c 652f 7061 7468";
    assert_decodes(&mut decoder, block, &[(":path", "/sample/path")]);
    assert_table(&mut decoder, &[]);
}

#[test]
fn c_2_3_literal_field_never_indexed() {
    let mut decoder = Decoder::new(4096);
    let block = "1008 7061 7373 776f 7264 0673 6563 7265 74";
    assert_decodes(&mut decoder, block, &[("password", "secret")]);
    assert_table(&mut decoder, &[]);
}

#[test]
fn c_2_4_indexed_field() {
    let fields = [(":method", "GET")];
    assert_decodes(&mut Decoder::new(4096), "82", &fields);
    for indexing in [Indexing::Incremental, Indexing::Without] {
        assert_encodes(&mut Encoder::new(), &fields, indexing, "82");
    }
}

const REQUESTS: [&Fields; 3] = [
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
        ("cache-control", "no-cache"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ],
];

const REQUEST_TABLE: [(&str, &str); 3] = [
    ("custom-key", "custom-value"),
    ("cache-control", "no-cache"),
    (":authority", "www.example.com"),
];

#[test]
fn c_3_requests_without_huffman_code() {
    let mut decoder = Decoder::new(4096);
    for (block, fields) in [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ]
    .into_iter()
    .zip(REQUESTS)
    {
        assert_decodes(&mut decoder, block, fields);
    }
    assert_table(&mut decoder, &REQUEST_TABLE);
}

#[test]
fn c_4_requests_with_huffman_code() {
    let (mut decoder, mut encoder) = (Decoder::new(4096), Encoder::new());
    for (block, fields) in [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a849e95ba97d7f 8925 a849 e95b b8e8 b4bf",
    ]
    .into_iter()
    .zip(REQUESTS)
    {
        assert_decodes(&mut decoder, block, fields);
        assert_encodes(&mut encoder, fields, Indexing::Incremental, block);
    }
    assert_table(&mut decoder, &REQUEST_TABLE);
}

const COOKIE: &str = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";

const RESPONSES: [&Fields; 3] = [
    &[
        (":status", "302"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    &[
        (":status", "307"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    &[
        (":status", "200"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
        ("location", "https://www.example.com"),
        ("content-encoding", "gzip"),
        ("set-cookie", COOKIE),
    ],
];

const RESPONSE_TABLES: [&Fields; 3] = [
    &[
        ("location", "https://www.example.com"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("cache-control", "private"),
        (":status", "302"),
    ],
    &[
        (":status", "307"),
        ("location", "https://www.example.com"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("cache-control", "private"),
    ],
    &[
        ("set-cookie", COOKIE),
        ("content-encoding", "gzip"),
        ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
    ],
];

/// "The dynamic table size update" to 256 bytes, which the examples of C.5 and C.6 presume.
const TO_256: &str = "3fe101";

#[test]
fn c_5_responses_without_huffman_code_and_with_evictions() {
    let mut decoder = Decoder::new(4096);
    assert_decodes(&mut decoder, TO_256, &[]);
    let blocks = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a \
         3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 \
         677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 \
         553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
    ];
    for ((block, fields), table) in blocks.into_iter().zip(RESPONSES).zip(RESPONSE_TABLES) {
        assert_decodes(&mut decoder, block, fields);
        assert_table(&mut decoder, table);
    }
}

const CODED_RESPONSES: [&str; 3] = [
    "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d \
     29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
    "4883 640e ffc1 c0bf",
    "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d \
     d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 \
     3d50 07",
];

/// Returns our encodings of them: of equally long forms our encoder takes the one without Huffman
/// code ("307"), as C.5.2 does.
fn our_coded_responses() -> [&'static str; 3] {
    let [first, _, third] = CODED_RESPONSES;
    [first, "4803 3330 37c1 c0bf", third]
}

#[test]
fn c_6_responses_with_huffman_code_and_evictions() {
    let (mut decoder, mut encoder) = (Decoder::new(4096), Encoder::new());
    encoder.set_peer_table_size(256);
    assert_decodes(&mut decoder, TO_256, &[]);
    assert_encodes(&mut encoder, &[], Indexing::Incremental, TO_256);
    for (at, fields) in RESPONSES.into_iter().enumerate() {
        assert_decodes(&mut decoder, CODED_RESPONSES[at], fields);
        assert_table(&mut decoder, RESPONSE_TABLES[at]);
        let block = our_coded_responses()[at];
        assert_encodes(&mut encoder, fields, Indexing::Incremental, block);
    }
}

#[test]
fn c_6_by_status_and_by_block() {
    let mut encoder = Encoder::new();
    encoder.set_peer_table_size(256);
    encoder.begin(&mut Vec::new());
    let responses = [302, 307, 200].into_iter().zip(RESPONSES);
    for ((status, fields), block) in responses.zip(our_coded_responses()) {
        let regular: Vec<_> = fields[1..]
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect();
        let fields = regular.iter().map(|(name, value)| (name, value));
        let made = crate::FieldBlock::new(fields, Indexing::Incremental);
        let mut out = Vec::new();
        encoder.begin(&mut out);
        encoder.status(status, &mut out);
        encoder.block(&made, &mut out);
        assert_eq!(out, bytes(block), "{out:02x?}");
    }
}
