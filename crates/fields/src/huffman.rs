//! The Huffman code of RFC 7541 appendix B, which RFC 9204 section 4.1.2 takes over.
//!
//! The code is canonical: codes of the same length are consecutive, in the order of their symbols.
//! So their lengths determine it, and the compiler makes the tables below from them.
//!
//! A decoder looks the next 8 bits up, which settles the 74 most frequent bytes at once; for longer
//! codes it searches the few lengths there are. It keeps the bits *inverted*: then the zeros that
//! shifting leaves behind the last bit stand for the ones that RFC 7541 pads with, and the end needs
//! no code of its own.

/// Reason for which a string could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The string holds the end-of-string symbol, or its padding is not up to 7 ones (RFC 7541
    /// section 5.2).
    #[error("the string is no Huffman code of RFC 7541")]
    Malformed,
    /// The string is longer than the limit.
    #[error("the decoded string exceeds the limit of {limit} bytes")]
    TooLong {
        /// The limit given, bytes.
        limit: usize,
    },
}

/// Length of `input` once encoded, bytes.
pub fn encoded_len(input: &[u8]) -> usize {
    let bits: usize = input
        .iter()
        .map(|byte| usize::from(LENGTHS[usize::from(*byte)]))
        .sum();
    bits.div_ceil(8)
}

/// Appends the encoding of `input`, padded with ones to a whole byte.
pub fn encode(input: &[u8], out: &mut Vec<u8>) {
    // The longest code has 30 bits and up to 31 bits wait, so 64 bits are always enough.
    let (mut pending, mut bits) = (0u64, 0u32);
    for byte in input {
        let symbol = usize::from(*byte);
        let len = u32::from(LENGTHS[symbol]);
        pending = pending << len | u64::from(CODES[symbol]);
        bits += len;
        if bits >= 32 {
            bits -= 32;
            let [.., a, b, c, d] = (pending >> bits).to_be_bytes();
            out.extend_from_slice(&[a, b, c, d]);
        }
    }
    let padded = pending << (32 - bits) | u64::from(u32::MAX >> bits);
    let [_, _, _, _, last @ ..] = padded.to_be_bytes();
    out.extend_from_slice(&last[..bits.div_ceil(8) as usize]);
}

/// Appends the decoding of `input` unless that exceeds `limit` bytes.
///
/// A byte of input gives at most 8/5 bytes of output. After an error `out` is as it was.
///
/// # Errors
/// As [`Error`] says.
pub fn decode(input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    let most = input.len().saturating_mul(8) / MIN_LENGTH;
    out.resize(start + most.min(limit), 0);
    let decoded = decode_into(input, &mut out[start..]);
    out.truncate(start + decoded.unwrap_or(0));
    match decoded {
        Ok(_) => Ok(()),
        Err(Stop::Malformed) => Err(Error::Malformed),
        Err(Stop::Full) => Err(Error::TooLong { limit }),
    }
}

#[derive(Clone, Copy)]
enum Stop {
    Malformed,
    Full,
}

/// The number of bytes written to `out`.
fn decode_into(input: &[u8], out: &mut [u8]) -> Result<usize, Stop> {
    let mut bits = Bits {
        inverted: 0,
        available: 0,
        rest: input,
    };
    let mut written = 0;
    loop {
        bits.refill();
        let next = bits.peek();
        let len = u32::from(next.len);
        if len > bits.available {
            return bits.is_padding().then_some(written).ok_or(Stop::Malformed);
        }
        *out.get_mut(written).ok_or(Stop::Full)? = next.symbol;
        written += 1;
        bits.skip(len);
    }
}

/// The bits not decoded yet.
struct Bits<'a> {
    /// The next bits, inverted, from the highest down; zeros behind them.
    inverted: u64,
    /// Number of these bits.
    available: u32,
    rest: &'a [u8],
}

impl Bits<'_> {
    /// Makes at least 32 bits available while there are so many: more than the longest code.
    #[inline]
    fn refill(&mut self) {
        if self.available >= 32 {
            return;
        }
        if let Some((chunk, rest)) = self.rest.split_first_chunk() {
            self.inverted |= u64::from(!u32::from_be_bytes(*chunk)) << (32 - self.available);
            self.available += 32;
            self.rest = rest;
        } else {
            self.refill_from_last_bytes();
        }
    }

    fn refill_from_last_bytes(&mut self) {
        for byte in std::mem::take(&mut self.rest) {
            self.inverted |= u64::from(!byte) << (56 - self.available);
            self.available += 8;
        }
    }

    /// The next symbol with the length of its code, which may be longer than what is available.
    #[inline]
    fn peek(&self) -> Symbol {
        let short = SHORT[(self.inverted >> 56) as usize];
        if short.len > 0 {
            return short;
        }
        long_symbol(!self.inverted)
    }

    #[inline]
    fn skip(&mut self, len: u32) {
        self.inverted <<= len;
        self.available -= len;
    }

    /// RFC 7541 section 5.2: "A padding strictly longer than 7 bits MUST be treated as a decoding
    /// error. A padding not corresponding to the most significant bits of the code for the EOS
    /// symbol MUST be treated as a decoding error."
    fn is_padding(&self) -> bool {
        self.available < 8 && self.inverted == 0
    }
}

/// The symbol at the highest of `bits` when its code is longer than 8 bits.
#[cold]
fn long_symbol(bits: u64) -> Symbol {
    for range in &LONG {
        if bits >> 32 < range.end {
            let nth = (bits >> (64 - range.len)) - range.first_code;
            return Symbol {
                symbol: ORDERED[range.first_place + nth as usize],
                len: range.len,
            };
        }
    }
    END_OF_STRING
}

/// A byte and the length of its code, bits; 0: the code is longer than the table's index.
#[derive(Clone, Copy)]
struct Symbol {
    symbol: u8,
    len: u8,
}

/// The symbol that "MUST be treated as a decoding error" (RFC 7541 section 5.2): no input has so
/// many bits available, so the decoder stops, at what is no padding.
const END_OF_STRING: Symbol = Symbol {
    symbol: 0,
    len: u8::MAX,
};

/// The length of each byte's code, bits. Beside them, the end-of-string symbol has the last code of
/// the longest length.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

const MIN_LENGTH: usize = 5;
const MAX_LENGTH: usize = 30;

/// Number of symbols with a code of each length.
const COUNTS: [usize; MAX_LENGTH + 1] = {
    let mut counts = [0; MAX_LENGTH + 1];
    let mut symbol = 0;
    while symbol < LENGTHS.len() {
        counts[LENGTHS[symbol] as usize] += 1;
        symbol += 1;
    }
    counts
};

/// The codes of one length.
#[derive(Clone, Copy)]
struct Range {
    len: u8,
    first_code: u64,
    /// Place of the first code's symbol in [`ORDERED`].
    first_place: usize,
    /// The 32 bits that the first longer code begins with.
    end: u64,
}

/// The codes of each length.
const RANGES: [Range; MAX_LENGTH + 1] = {
    let (mut code, mut place, mut len) = (0u64, 0, 0);
    let empty = Range {
        len: 0,
        first_code: 0,
        first_place: 0,
        end: 0,
    };
    let mut ranges = [empty; MAX_LENGTH + 1];
    while len <= MAX_LENGTH {
        let end = code + COUNTS[len] as u64;
        ranges[len] = Range {
            len: len as u8,
            first_code: code,
            first_place: place,
            end: end << (32 - len),
        };
        place += COUNTS[len];
        code = end << 1;
        len += 1;
    }
    ranges
};

/// The codes longer than the index of [`SHORT`]. A length without codes ends where the one before
/// does, so the search passes it.
static LONG: [Range; MAX_LENGTH - 8] = {
    let mut long = [RANGES[MAX_LENGTH]; MAX_LENGTH - 8];
    let mut at = 0;
    while at < long.len() {
        long[at] = RANGES[9 + at];
        at += 1;
    }
    long
};

/// The bytes in the order of their codes.
static ORDERED: [u8; 256] = {
    let mut ordered = [0; 256];
    let mut symbol = 0;
    while symbol < ordered.len() {
        ordered[place(symbol)] = symbol as u8;
        symbol += 1;
    }
    ordered
};

/// The code of each byte, in the low bits.
static CODES: [u32; 256] = {
    let mut codes = [0; 256];
    let mut symbol = 0;
    while symbol < codes.len() {
        let range = RANGES[LENGTHS[symbol] as usize];
        codes[symbol] = (range.first_code as u32) + (place(symbol) - range.first_place) as u32;
        symbol += 1;
    }
    codes
};

/// The symbol by the next 8 bits, inverted.
static SHORT: [Symbol; 256] = {
    let mut short = [Symbol { symbol: 0, len: 0 }; 256];
    let mut symbol = 0;
    while symbol < CODES.len() {
        let len = LENGTHS[symbol];
        if len <= 8 {
            let first = (CODES[symbol] as usize) << (8 - len);
            let mut at = first;
            while at < first + (1 << (8 - len)) {
                short[0xff ^ at] = Symbol {
                    symbol: symbol as u8,
                    len,
                };
                at += 1;
            }
        }
        symbol += 1;
    }
    short
};

/// Returns the number of symbols with a code before this one's.
const fn place(symbol: usize) -> usize {
    let len = LENGTHS[symbol];
    let mut place = RANGES[len as usize].first_place;
    let mut other = 0;
    while other < symbol {
        if LENGTHS[other] == len {
            place += 1;
        }
        other += 1;
    }
    place
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, encoded: &[u8]) {
        let mut out = Vec::new();
        encode(text.as_bytes(), &mut out);
        assert_eq!(out, encoded);
        assert_eq!(encoded_len(text.as_bytes()), encoded.len());
        let mut out = Vec::new();
        assert_eq!(decode(encoded, 1000, &mut out), Ok(()));
        assert_eq!(out, text.as_bytes());
    }

    #[test]
    fn agrees_with_the_examples_of_rfc_7541_appendix_c_4_and_c_6() {
        check(
            "www.example.com",
            &[
                0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
            ],
        );
        check("no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]);
        check(
            "custom-key",
            &[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f],
        );
        check(
            "custom-value",
            &[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf],
        );
        check("302", &[0x64, 0x02]);
        check("private", &[0xae, 0xc3, 0x77, 0x1a, 0x4b]);
        check("307", &[0x64, 0x0e, 0xff]);
        check("gzip", &[0x9b, 0xd9, 0xab]);
    }

    #[test]
    fn the_code_is_complete_and_has_the_codes_of_the_rfc() {
        let used: u64 = LENGTHS.iter().map(|len| 1u64 << (30 - len)).sum();
        assert_eq!(used + 1, 1 << 30, "all but the end-of-string symbol's");
        for (byte, code, len) in [
            (b'0', 0x0, 5),
            (b' ', 0x14, 6),
            (b'X', 0xfc, 8),
            (b'!', 0x3f8, 10),
            (b'\\', 0x7fff0, 19),
            (0, 0x1ff8, 13),
            (249, 0x0fff_fffe, 28),
            (10, 0x3fff_fffc, 30),
            (22, 0x3fff_fffe, 30),
        ] {
            let symbol = usize::from(byte);
            assert_eq!((CODES[symbol], LENGTHS[symbol]), (code, len), "{byte}");
        }
    }

    #[test]
    fn every_byte_decodes_from_its_code_at_every_offset() {
        for byte in 0..=255 {
            for before in 0..8 {
                let input = [&vec![b'0'; before][..], &[byte, b'x', byte]].concat();
                let mut encoded = Vec::new();
                encode(&input, &mut encoded);
                let mut out = Vec::new();
                assert_eq!(decode(&encoded, input.len(), &mut out), Ok(()));
                assert_eq!(out, input);
            }
        }
    }

    #[test]
    fn wrong_padding_and_the_end_of_string_symbol_are_refused() {
        // "0" is 00000; its padding must be 111.
        assert_eq!(decode(&[0b0000_0111], 10, &mut Vec::new()), Ok(()));
        for malformed in [
            &[0b0000_0110][..],
            &[0b0000_0111, 0xff],
            &[0xff],
            &[0xff; 3],
            &[0xff; 4],
            &[0xff; 5],
            &[0xff; 40],
        ] {
            let mut out = b"before".to_vec();
            let error = decode(malformed, 100, &mut out);
            assert_eq!(error, Err(Error::Malformed), "{malformed:?}");
            assert_eq!(out, b"before");
        }
    }

    #[test]
    fn output_keeps_to_the_limit() {
        let mut out = b"before".to_vec();
        let too_long = Err(Error::TooLong { limit: 7 });
        assert_eq!(decode(&[0, 0, 0, 0, 0], 7, &mut out), too_long);
        assert_eq!(out, b"before");
        assert_eq!(decode(&[0, 0, 0, 0, 0], 8, &mut out), Ok(()));
        assert_eq!(out, b"before00000000");
    }

    #[test]
    fn nothing_is_nothing() {
        let mut out = Vec::new();
        encode(&[], &mut out);
        assert_eq!((encoded_len(&[]), out.len()), (0, 0));
        assert_eq!(decode(&[], 0, &mut out), Ok(()));
        assert!(out.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_round_trip(input: Vec<u8>) {
            let mut encoded = Vec::new();
            encode(&input, &mut encoded);
            prop_assert_eq!(encoded.len(), encoded_len(&input));
            let mut decoded = Vec::new();
            prop_assert_eq!(decode(&encoded, input.len(), &mut decoded), Ok(()));
            prop_assert_eq!(decoded, input);
        }

        #[test]
        fn random_input_never_panics(input: Vec<u8>) {
            let mut out = Vec::new();
            if decode(&input, 10_000, &mut out).is_ok() {
                // One valid decoding has one encoding, as the code is prefix-free and complete.
                let mut encoded = Vec::new();
                encode(&out, &mut encoded);
                prop_assert_eq!(encoded, input);
            }
        }
    }
}
