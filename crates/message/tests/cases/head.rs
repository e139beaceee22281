//! Heads as the table of cases has them, and as HTTP/1.1, HTTP/2 and HTTP/3 write them.

type Bytes = Vec<u8>;

/// A head that no protocol has written yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Abstract {
    pub(crate) method: Bytes,
    pub(crate) scheme: Option<Bytes>,
    pub(crate) authority: Option<Bytes>,
    pub(crate) path: Option<Bytes>,
    pub(crate) fields: Vec<(Bytes, Bytes)>,
}

/// The lines of `cases.txt`: heads, and the verdicts behind them.
pub(crate) fn table() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("../cases.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split_once(" | ").unwrap())
}

impl Abstract {
    /// The field lines of HTTP/2 and HTTP/3.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let start = [
            (&b":method"[..], Some(&self.method)),
            (b":scheme", self.scheme.as_ref()),
            (b":authority", self.authority.as_ref()),
            (b":path", self.path.as_ref()),
        ];
        let fields = self.fields.iter();
        let fields = fields.map(|(name, value)| (&name[..], &value[..]));
        let start = start.into_iter();
        start
            .filter_map(|(name, value)| Some((name, &(*value?)[..])))
            .chain(fields)
    }

    /// The bytes of HTTP/1.1, if it has a target.
    pub(crate) fn raw(&self) -> Option<Bytes> {
        let target = self.path.as_ref().or(self.authority.as_ref())?;
        let mut raw = [&self.method[..], b" ", target, b" HTTP/1.1\r\n"].concat();
        let host = self
            .authority
            .iter()
            .map(|it| (b"Host".to_vec(), it.clone()));
        for (name, value) in host.chain(self.fields.iter().cloned()) {
            raw.extend([&name[..], b": ", &value, b"\r\n"].concat());
        }
        raw.extend(b"\r\n");
        Some(raw)
    }
}

/// The head of a line.
pub(crate) fn parse(head: &str) -> Abstract {
    let mut parts = head.split(" ;");
    let words: Vec<_> = parts.next().unwrap().split(' ').collect();
    let [method, rest @ ..] = &words[..] else {
        panic!("{head}")
    };
    let [scheme, authority, path] = [0, 1, 2].map(|at| (rest[at] != "-").then(|| bytes(rest[at])));
    let field = |text: &str| {
        let text = text.trim();
        let colon = text[1..].find(':').unwrap() + 1;
        (bytes(&text[..colon]), bytes(text[colon + 1..].trim_start()))
    };
    Abstract {
        method: bytes(method),
        scheme,
        authority,
        path,
        fields: parts.map(field).collect(),
    }
}

fn bytes(text: &str) -> Bytes {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend(&part.as_bytes()[2..]);
    }
    bytes
}
