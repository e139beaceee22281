//! QPACK as an implementation that is not ours speaks it: ls-qpack, by `vectors/ls_qpack.py`.

use super::{Decoder, Error};

type Field = (Vec<u8>, Vec<u8>);

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .map(|digit| digit.to_digit(16).unwrap() as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

fn decode(decoder: &mut Decoder, stream: u64, section: &[u8]) -> Result<Vec<Field>, Error<()>> {
    let mut fields = Vec::new();
    decoder.decode(stream, section, 1 << 20, |name, value| {
        fields.push((name.to_vec(), value.to_vec()));
        Ok(())
    })?;
    Ok(fields)
}

/// `late`: instructions come after the section that needs them.
fn replay(late: bool) -> (usize, usize) {
    let mut decoder = Decoder::new(0);
    let (mut held, mut decoded) = (Vec::new(), Vec::new().into_iter());
    let (mut sections, mut waited) = (0, 0);
    for line in include_str!("vectors/ls_qpack.txt").lines() {
        let (what, rest) = line.split_once(' ').unwrap();
        match what {
            "capacity" => decoder = Decoder::new(rest.parse().unwrap()),
            "instructions" if late => held = bytes(rest),
            "instructions" => drop(decoder.on_encoder_stream(&bytes(rest)).unwrap()),
            "section" => {
                assert_eq!(decoded.next(), None, "more fields than were sent");
                let (stream, section) = rest.split_once(' ').unwrap();
                let (stream, section) = (stream.parse().unwrap(), bytes(section));
                let early = decode(&mut decoder, stream, &section);
                waited += usize::from(matches!(early, Err(Error::Blocked { .. })));
                decoder
                    .on_encoder_stream(&std::mem::take(&mut held))
                    .unwrap();
                let fields = early.or_else(|_| decode(&mut decoder, stream, &section));
                decoded = fields.unwrap().into_iter();
                sections += 1;
            }
            "field" => {
                let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
                assert_eq!(decoded.next(), Some((bytes(name), bytes(value))));
            }
            other => panic!("unknown: {other}"),
        }
    }
    (sections, waited)
}

#[test]
fn we_read_what_they_write() {
    assert_eq!(replay(false), (160, 0));
}

#[test]
fn we_wait_for_what_they_have_sections_wait_for() {
    let (sections, waited) = replay(true);
    assert_eq!(sections, 160);
    assert!(waited > 10, "{waited} sections waited");
}
