//! Tests of frames: cut anywhere, in an order that is none, too large.

use proptest::prelude::*;

use super::*;

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_header(kind, payload.len() as u64, &mut out);
    out.extend_from_slice(payload);
    out
}

/// Decodes `input` cut into pieces of `piece` bytes; joins DATA pieces.
fn decode_in_pieces(
    decoder: &mut Decoder,
    input: &[u8],
    piece: usize,
) -> Result<Vec<Frame>, Violation> {
    let mut frames = Vec::new();
    for part in input.chunks(piece) {
        let mut part = Bytes::copy_from_slice(part);
        while let Some(frame) = decoder.decode(&mut part)? {
            if matches!(frame, Frame::Headers(_)) {
                decoder.head_done();
            }
            match (frames.last_mut(), frame) {
                (Some(Frame::Data(whole)), Frame::Data(piece)) => {
                    *whole = [&whole[..], &piece[..]].concat().into();
                }
                (_, frame) => frames.push(frame),
            }
        }
    }
    Ok(frames)
}

fn request_error(input: &[u8]) -> Code {
    decode_in_pieces(&mut Decoder::request(100), input, 3)
        .unwrap_err()
        .code
}

fn control_error(input: &[u8]) -> Code {
    decode_in_pieces(&mut Decoder::control(100), input, 3)
        .unwrap_err()
        .code
}

#[test]
fn a_message_cut_anywhere_decodes_to_the_same_frames() {
    let input = [
        frame(0x21, b"grease"),
        frame(kind::HEADERS, b"head"),
        frame(kind::DATA, b""),
        frame(kind::DATA, b"body"),
        frame(0x4000, &[7; 200]),
        frame(kind::DATA, b"more"),
    ]
    .concat();
    let expected = [
        Frame::Ignored(1),
        Frame::Headers(Bytes::from_static(b"head")),
        Frame::Ignored(1),
        Frame::Data(Bytes::from_static(b"body")),
        Frame::Ignored(1),
        Frame::Data(Bytes::from_static(b"more")),
    ];
    for piece in 1..=input.len() {
        let mut decoder = Decoder::request(100);
        assert_eq!(
            decode_in_pieces(&mut decoder, &input, piece).unwrap(),
            expected
        );
        assert!(decoder.finish().is_ok());
    }
}

#[test]
fn a_stream_may_end_only_between_frames() {
    let input = frame(kind::HEADERS, b"head");
    for cut in 1..input.len() {
        let mut decoder = Decoder::request(100);
        decode_in_pieces(&mut decoder, &input[..cut], 64).unwrap();
        assert_eq!(decoder.finish().unwrap_err().code, Code::H3_FRAME_ERROR);
    }
}

#[test]
fn headers_beyond_the_limit_are_announced_and_skipped() {
    let input = [frame(kind::HEADERS, &[0; 101]), frame(kind::HEADERS, b"x")].concat();
    let frames = decode_in_pieces(&mut Decoder::request(100), &input, 7).unwrap();
    let next = Frame::Headers(Bytes::from_static(b"x"));
    assert_eq!(frames, [Frame::OversizedHeaders, next]);
}

#[test]
fn frames_out_of_order_on_a_request_stream_are_unexpected() {
    let head = frame(kind::HEADERS, b"h");
    let trailers = [head.clone(), head.clone()].concat();
    for input in [
        frame(kind::DATA, b"x"),
        frame(kind::DATA, b""),
        frame(kind::SETTINGS, b""),
        frame(kind::GOAWAY, &[0]),
        frame(kind::MAX_PUSH_ID, &[0]),
        frame(kind::CANCEL_PUSH, &[0]),
        frame(kind::PRIORITY_UPDATE, &[0]),
        frame(kind::PRIORITY_UPDATE_PUSH, &[0]),
        frame(0x02, b""),
        frame(0x06, b""),
        frame(0x08, b""),
        frame(0x09, b""),
        [trailers.clone(), frame(kind::DATA, b"x")].concat(),
        [trailers, head].concat(),
    ] {
        assert_eq!(
            request_error(&input),
            Code::H3_FRAME_UNEXPECTED,
            "{input:?}"
        );
    }
}

#[test]
fn the_control_stream_begins_with_settings_and_has_them_once() {
    let settings = frame(kind::SETTINGS, b"");
    assert_eq!(
        control_error(&frame(kind::GOAWAY, &[0])),
        Code::H3_MISSING_SETTINGS
    );
    assert_eq!(control_error(&frame(0x21, b"")), Code::H3_MISSING_SETTINGS);
    assert_eq!(
        control_error(&frame(kind::DATA, b"x")),
        Code::H3_MISSING_SETTINGS
    );
    for second in [
        settings.clone(),
        frame(kind::DATA, b"x"),
        frame(kind::HEADERS, b"x"),
        frame(kind::PUSH_PROMISE, b"x"),
    ] {
        let input = [settings.clone(), second].concat();
        assert_eq!(control_error(&input), Code::H3_FRAME_UNEXPECTED);
    }
}

#[test]
fn an_id_frame_holds_exactly_one_id() {
    let settings = frame(kind::SETTINGS, b"");
    for payload in [&[][..], &[0x40], &[0, 0], &[0; 9]] {
        let input = [settings.clone(), frame(kind::GOAWAY, payload)].concat();
        assert_eq!(control_error(&input), Code::H3_FRAME_ERROR, "{payload:?}");
    }
    let input = [settings, frame(kind::GOAWAY, &[0x40, 0x04])].concat();
    let frames = decode_in_pieces(&mut Decoder::control(100), &input, 1).unwrap();
    assert_eq!(frames, [Frame::Settings(Bytes::new()), Frame::GoAway(4)]);
}

#[test]
fn a_priority_update_has_an_id_and_a_value() {
    let settings = frame(kind::SETTINGS, b"");
    let update = frame(kind::PRIORITY_UPDATE, b"\x04u=1, i");
    let push = frame(kind::PRIORITY_UPDATE_PUSH, &[4]);
    let input = [settings.clone(), update, push].concat();
    let frames = decode_in_pieces(&mut Decoder::control(100), &input, 1).unwrap();
    let value = Bytes::from_static(b"u=1, i");
    let expected = [
        Frame::Settings(Bytes::new()),
        Frame::PriorityUpdate(4, value),
        Frame::PushPriorityUpdate,
    ];
    assert_eq!(frames, expected);
    for (payload, code) in [
        (&[][..], Code::H3_FRAME_ERROR),
        (&[0x40], Code::H3_FRAME_ERROR),
        (&[0; 1025], Code::H3_EXCESSIVE_LOAD),
    ] {
        let input = [settings.clone(), frame(kind::PRIORITY_UPDATE, payload)].concat();
        assert_eq!(control_error(&input), code);
    }
}

#[test]
fn what_leads_nowhere_costs_by_its_length() {
    for (len, tokens) in [
        (0, 1),
        ((16 << 10) - 1, 1),
        (16 << 10, 2),
        (varint::MAX, u32::MAX),
    ] {
        let mut header = Vec::new();
        encode_header(0x21, len, &mut header);
        let frame = Decoder::request(100).decode(&mut header.into()).unwrap();
        assert_eq!(frame, Some(Frame::Ignored(tokens)));
    }
}

#[test]
fn settings_beyond_the_limit_are_excessive() {
    assert_eq!(
        control_error(&frame(kind::SETTINGS, &[0; 101])),
        Code::H3_EXCESSIVE_LOAD
    );
}

proptest! {
    #[test]
    fn random_bytes_never_panic_and_keep_to_the_limit(
        input: Vec<u8>, piece in 1..40usize, control: bool,
    ) {
        let limit = 20;
        let mut decoder =
            if control { Decoder::control(limit) } else { Decoder::request(limit) };
        if let Ok(frames) = decode_in_pieces(&mut decoder, &input, piece) {
            for frame in frames {
                if let Frame::Headers(payload) | Frame::Settings(payload) = frame {
                    prop_assert!(payload.len() as u64 <= limit);
                }
            }
        }
        if let State::Payload { bytes, .. } = &decoder.state {
            prop_assert!(bytes.len() as u64 <= limit);
        }
    }
}
