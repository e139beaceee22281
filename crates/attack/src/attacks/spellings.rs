//! Ways to spell one path: a cache that trusts the text of a request takes each for a file of its own.

/// A path of the file `name`, another for each `n`: the letters of the ones among the bits of `n` are
/// percent-encoded.
pub(super) fn spelled(name: &str, n: usize) -> String {
    let mut path = String::from("/");
    for (bit, byte) in name.bytes().enumerate() {
        let encoded = bit < 20 && n >> bit & 1 == 1;
        match encoded {
            true => path.push_str(&format!("%{byte:02x}")),
            false => path.push(byte.into()),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_spelling_is_another() {
        let all: std::collections::HashSet<_> = (0..2000)
            .map(|n| spelled("a-file-of-some-name", n))
            .collect();
        assert_eq!(all.len(), 2000);
        assert_eq!(spelled("ab", 2), "/a%62");
    }
}
