//! Field compression of HTTP/3: any bytes into the decoder, and any fields through the encoder and
//! back, over streams that are as late as they like; and frames, cut anywhere.

use std::collections::VecDeque;

use altway_http3::fuzzing::{Field, FieldDecoder, FieldEncoder, Undecoded, frames};

use crate::input::Input;

/// The first byte says which.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    match input.byte() % 4 {
        0 => decode(input),
        1 => round_trip(input),
        mode => cut_frames(mode == 2, input),
    }
}

/// Instructions and sections of any bytes. A decoder that gets its instructions byte by byte must do
/// the same as one that gets them whole.
fn decode(mut input: Input<'_>) {
    let capacity = usize::from(input.word()) % 5000;
    let mut decoder = FieldDecoder::new(capacity);
    let mut cut = FieldDecoder::new(capacity);
    while !input.is_empty() {
        let (what, len) = (input.byte(), input.byte());
        let bytes = input.take(len.into());
        if what % 2 == 0 {
            let whole = decoder.on_encoder_stream(bytes);
            let pieces = bytes.chunks(1).try_for_each(|it| cut.on_encoder_stream(it));
            assert_eq!(whole, pieces, "it matters where instructions are cut");
            if whole.is_err() {
                return;
            }
            assert_eq!(decoder.insert_count(), cut.insert_count());
            decoder.instructions();
            cut.instructions();
        } else {
            let stream = u64::from(what) * 2;
            let one = decoder.decode(stream, bytes);
            assert_eq!(one, cut.decode(stream, bytes));
            assert_eq!(decoder.instructions(), cut.instructions());
            if one.is_err() {
                decoder.cancel(stream);
                cut.cancel(stream);
            }
        }
    }
}

/// The encoder and the decoder of one direction, and the bytes on their way between them.
struct Ends {
    encoder: FieldEncoder,
    decoder: FieldDecoder,
    to_decoder: VecDeque<u8>,
    to_encoder: VecDeque<u8>,
    sections: Vec<(u64, Vec<u8>, Vec<Field>)>,
    next: u64,
}

fn round_trip(mut input: Input<'_>) {
    let capacity = input.word() % 5000;
    let mut ends = Ends {
        encoder: FieldEncoder::new(capacity.into()),
        decoder: FieldDecoder::new(capacity.into()),
        to_decoder: VecDeque::new(),
        to_encoder: VecDeque::new(),
        sections: Vec::new(),
        next: 0,
    };
    while !input.is_empty() {
        ends.step(&mut input);
        ends.to_decoder.extend(ends.encoder.instructions());
        ends.to_encoder.extend(ends.decoder.instructions());
    }
    while !ends.sections.is_empty() {
        ends.deliver(0);
    }
}

impl Ends {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 6 {
            0 | 1 => self.send(input),
            2 => {
                let piece = front(&mut self.to_decoder, input.byte());
                let taken = self.decoder.on_encoder_stream(&piece);
                assert_eq!(taken, Ok(()), "what our encoder says is understood");
            }
            3 => {
                let piece = front(&mut self.to_encoder, input.byte());
                let taken = self.encoder.on_decoder_stream(&piece);
                assert_eq!(taken, Ok(()), "what our decoder says is understood");
            }
            4 if !self.sections.is_empty() => {
                let which = usize::from(input.byte()) % self.sections.len();
                self.deliver(which);
            }
            5 if !self.sections.is_empty() => {
                let which = usize::from(input.byte()) % self.sections.len();
                let (stream, ..) = self.sections.swap_remove(which);
                self.decoder.cancel(stream);
            }
            _ => {}
        }
    }

    fn send(&mut self, input: &mut Input<'_>) {
        let fields: Vec<Field> = (0..input.byte() % 5).map(|_| field(input)).collect();
        let section = self.encoder.section(self.next, &fields);
        self.sections.push((self.next, section, fields));
        self.next += 4;
    }

    fn deliver(&mut self, which: usize) {
        let (stream, section, fields) = self.sections.swap_remove(which);
        let decoded = self.decoder.decode(stream, &section);
        assert_ne!(decoded, Err(Undecoded::Blocked), "our encoder blocks none");
        assert_eq!(decoded, Ok(fields));
    }
}

/// A field that the input chooses: one of a few, so that they come again, or any.
fn field(input: &mut Input<'_>) -> Field {
    let kind = input.byte();
    if kind < 200 {
        let name = input.choose(&["a", "x-custom", ":path", "accept"]);
        return (name.into(), vec![b'0' + kind % 8; usize::from(kind % 50)]);
    }
    let (name, value) = (input.byte() % 40, input.word() % 5000);
    (
        input.take(name.into()).to_vec(),
        input.take(value.into()).to_vec(),
    )
}

fn front(stream: &mut VecDeque<u8>, len: u8) -> Vec<u8> {
    stream.drain(..usize::from(len).min(stream.len())).collect()
}

/// The frames of a stream are the same wherever it is cut.
fn cut_frames(control: bool, mut input: Input<'_>) {
    let limit = u64::from(input.byte());
    let cuts = usize::from(input.byte()) + 1;
    let whole = frames(control, limit, std::iter::once(input.0));
    let cut = frames(control, limit, input.0.chunks(cuts));
    assert_eq!(whole, cut, "it matters where a stream is cut");
}
