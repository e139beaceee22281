//! The examples of RFC 9204 appendix B, read one after the other by one decoder.

use super::{Decoder, Error};

/// Table capacity of the examples, bytes.
const CAPACITY: usize = 220;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .bytes()
        .filter(|byte| *byte != b' ')
        .map(|byte| (byte as char).to_digit(16).unwrap() as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

#[track_caller]
fn assert_decodes(decoder: &mut Decoder, stream: u64, section: &str, expected: &[(&str, &str)]) {
    let mut fields = Vec::new();
    let decoded = decoder.decode(stream, &bytes(section), 1000, |name, value| {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        fields.push((text(name), text(value)));
        Ok::<(), ()>(())
    });
    assert_eq!(decoded.map(drop), Ok(()));
    let fields: Vec<_> = fields.iter().map(|(n, v)| (&n[..], &v[..])).collect();
    assert_eq!(fields, expected);
}

#[test]
fn the_examples_of_appendix_b_are_understood() {
    let mut decoder = Decoder::new(CAPACITY);
    let b1 = "0000 510b 2f69 6e64 6578 2e68 746d 6c";
    assert_decodes(&mut decoder, 0, b1, &[(":path", "/index.html")]);
    assert_eq!(*decoder.instructions(), [0_u8; 0]);

    // B.2: the section is there before the instructions.
    let b2 = "0381 10 11";
    let early = decoder.decode(4, &bytes(b2), 1000, |_, _| Ok::<(), ()>(()));
    assert_eq!(early, Err(Error::Blocked { required: 2 }));
    let instructions = "3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d \
                        c10c 2f73 616d 706c 652f 7061 7468";
    decoder.on_encoder_stream(&bytes(instructions)).unwrap();
    let fields = [(":authority", "www.example.com"), (":path", "/sample/path")];
    assert_decodes(&mut decoder, 4, b2, &fields);
    assert_eq!(std::mem::take(decoder.instructions()), bytes("02 84"));

    // B.3: a speculative insertion.
    let insertion = "4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565";
    decoder.on_encoder_stream(&bytes(insertion)).unwrap();
    assert_eq!(std::mem::take(decoder.instructions()), bytes("01"));

    // B.4: a duplicate, and a section that refers to it.
    decoder.on_encoder_stream(&bytes("02")).unwrap();
    let fields = [
        (":authority", "www.example.com"),
        (":path", "/"),
        ("custom-key", "custom-value"),
    ];
    assert_decodes(&mut decoder, 8, "0500 80 c1 81", &fields);
    decoder.instructions().clear();
    decoder.cancel(8);
    assert_eq!(std::mem::take(decoder.instructions()), bytes("48"));

    // B.5: an insertion that evicts the first entry.
    let insertion = "810d 6375 7374 6f6d 2d76 616c 7565 32";
    decoder.on_encoder_stream(&bytes(insertion)).unwrap();
    let fields = [("custom-key", "custom-value2"), (":path", "/sample/path")];
    assert_decodes(&mut decoder, 12, "0600 80 83", &fields);
    let evicted = decoder.decode(16, &bytes("0600 84"), 1000, |_, _| Ok::<(), ()>(()));
    assert_eq!(evicted, Err(Error::Decompression));
}
