//! The Huffman code of RFC 7541 appendix B.
//!
//! The code is canonical: codes of the same length are consecutive, in the order of their symbols.
//! So the 257 lengths determine it, and both tables below are built from them on first use.

use std::sync::LazyLock;

/// Code length of each byte, and of the end-of-string symbol at 256.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const END_OF_STRING: usize = 256;

/// Length of `input` once encoded, bytes.
pub(crate) fn encoded_len(input: &[u8]) -> usize {
    let bits: usize = input
        .iter()
        .map(|byte| usize::from(LENGTHS[usize::from(*byte)]))
        .sum();
    bits.div_ceil(8)
}

/// Appends the encoding of `input`, padded with ones.
pub(crate) fn encode(input: &[u8], out: &mut Vec<u8>) {
    // The longest code has 30 bits and up to 7 bits wait, so 64 bits are always enough.
    let (mut pending, mut bits) = (0u64, 0u32);
    for byte in input {
        let symbol = usize::from(*byte);
        let len = u32::from(LENGTHS[symbol]);
        pending = pending << len | u64::from(CODES[symbol]);
        bits += len;
        while bits >= 8 {
            bits -= 8;
            out.push((pending >> bits).to_le_bytes()[0]);
        }
    }
    if bits > 0 {
        let padded = pending << (8 - bits) | (0xff >> bits);
        out.push(padded.to_le_bytes()[0]);
    }
}

/// Appends the decoding of `input` unless that exceeds `limit` bytes. `None`: it does, or the input
/// holds the end-of-string symbol, or its padding is not up to 7 ones (RFC 7541 section 5.2).
pub(crate) fn decode(input: &[u8], limit: usize, out: &mut Vec<u8>) -> Option<()> {
    let end = out.len().saturating_add(limit);
    let (mut state, mut may_end) = (0, true);
    for byte in input {
        for nibble in [byte >> 4, byte & 0x0f] {
            let step = &MACHINE[state][usize::from(nibble)];
            if let Some(symbol) = step.emits {
                if out.len() == end {
                    return None;
                }
                out.push(symbol);
            }
            state = usize::from(step.next?);
            may_end = step.may_end;
        }
    }
    may_end.then_some(())
}

static CODES: LazyLock<[u32; 257]> = LazyLock::new(|| {
    let mut symbols: Vec<usize> = (0..LENGTHS.len()).collect();
    symbols.sort_by_key(|symbol| LENGTHS[*symbol]);
    let mut codes = [0; 257];
    let (mut code, mut len) = (0u32, LENGTHS[symbols[0]]);
    for symbol in symbols {
        code <<= LENGTHS[symbol] - len;
        len = LENGTHS[symbol];
        codes[symbol] = code;
        code = code.wrapping_add(1);
    }
    codes
});

/// What four bits do in one state. A state is an inner node of the code's tree; 0 is the root.
#[derive(Clone, Copy, Default)]
struct Step {
    /// The state after it; `None`: the end-of-string symbol was met.
    next: Option<u8>,
    /// At most one symbol ends within four bits, as the shortest code has five.
    emits: Option<u8>,
    /// Whether what is left over is valid padding.
    may_end: bool,
}

/// The tree has 257 leaves, hence 256 inner nodes.
static MACHINE: LazyLock<Vec<[Step; 16]>> = LazyLock::new(|| {
    let tree = build_tree();
    let padding = padding_nodes(&tree);
    (0..tree.len())
        .map(|start| {
            std::array::from_fn(|nibble| {
                let mut step = walk(&tree, start, nibble);
                step.may_end = step
                    .next
                    .is_some_and(|next| padding.contains(&usize::from(next)));
                step
            })
        })
        .collect()
});

#[derive(Clone, Copy)]
enum Branch {
    Node(usize),
    Leaf(usize),
}

fn build_tree() -> Vec<[Branch; 2]> {
    const UNSET: Branch = Branch::Leaf(END_OF_STRING);
    let mut tree = vec![[UNSET; 2]];
    for (symbol, code) in CODES.iter().enumerate() {
        let mut node = 0;
        for bit in (1..LENGTHS[symbol]).rev() {
            let side = (code >> bit & 1) as usize;
            node = match tree[node][side] {
                Branch::Node(next) => next,
                Branch::Leaf(_) => {
                    tree.push([UNSET; 2]);
                    let next = tree.len() - 1;
                    tree[node][side] = Branch::Node(next);
                    next
                }
            };
        }
        tree[node][(code & 1) as usize] = Branch::Leaf(symbol);
    }
    tree
}

/// Nodes reached from the root by 0 … 7 ones: "padding strictly longer than 7 bits MUST be treated
/// as a decoding error. A padding not corresponding to the most significant bits of the code for
/// the EOS symbol MUST be treated as a decoding error."
fn padding_nodes(tree: &[[Branch; 2]]) -> Vec<usize> {
    let mut nodes = vec![0];
    while nodes.len() < 8 {
        match tree[nodes[nodes.len() - 1]][1] {
            Branch::Node(next) => nodes.push(next),
            Branch::Leaf(_) => break,
        }
    }
    nodes
}

fn walk(tree: &[[Branch; 2]], start: usize, nibble: usize) -> Step {
    let mut step = Step::default();
    let mut node = start;
    for bit in (0..4).rev() {
        node = match tree[node][nibble >> bit & 1] {
            Branch::Node(next) => next,
            Branch::Leaf(symbol) => match u8::try_from(symbol) {
                Ok(symbol) => {
                    step.emits = Some(symbol);
                    0
                }
                Err(_) => return step,
            },
        };
    }
    step.next = Some(u8::try_from(node).expect("257 leaves make 256 inner nodes"));
    step
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
        assert_eq!(decode(encoded, 1000, &mut out), Some(()));
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
    fn the_code_is_complete_and_has_the_lengths_of_the_rfc() {
        let used: u64 = LENGTHS.iter().map(|len| 1u64 << (30 - len)).sum();
        assert_eq!(used, 1 << 30);
        assert_eq!(MACHINE.len(), 256);
        assert_eq!(CODES[usize::from(b'0')], 0x0);
        assert_eq!(CODES[usize::from(b'\\')], 0x7fff0);
        assert_eq!(CODES[10], 0x3fff_fffc);
        assert_eq!(CODES[249], 0x0fff_fffe);
        assert_eq!(CODES[END_OF_STRING], 0x3fff_ffff);
    }

    #[test]
    fn wrong_padding_and_the_end_of_string_symbol_are_refused() {
        let mut out = Vec::new();
        // "0" is 00000; its padding must be 111.
        assert_eq!(decode(&[0b0000_0111], 10, &mut out), Some(()));
        assert_eq!(decode(&[0b0000_0110], 10, &mut out), None);
        assert_eq!(decode(&[0b0000_0111, 0xff], 10, &mut out), None);
        assert_eq!(decode(&[0xff, 0xff, 0xff, 0xff], 10, &mut out), None);
    }

    #[test]
    fn output_stops_at_the_limit() {
        let mut out = Vec::new();
        assert_eq!(decode(&[0, 0, 0, 0, 0], 7, &mut out), None);
        assert_eq!(out.len(), 7);
    }

    proptest! {
        #[test]
        fn any_bytes_round_trip(input: Vec<u8>) {
            let mut encoded = Vec::new();
            encode(&input, &mut encoded);
            prop_assert_eq!(encoded.len(), encoded_len(&input));
            let mut decoded = Vec::new();
            prop_assert_eq!(decode(&encoded, input.len(), &mut decoded), Some(()));
            prop_assert_eq!(decoded, input);
        }

        #[test]
        fn random_input_never_panics(input: Vec<u8>) {
            let mut out = Vec::new();
            if decode(&input, 10_000, &mut out).is_some() {
                // One valid decoding has one encoding, as the code is prefix-free and complete.
                let mut encoded = Vec::new();
                encode(&out, &mut encoded);
                prop_assert_eq!(encoded, input);
            }
        }
    }
}
