//! Heads and contents of HTTP/1 as others read them.

/// Fields of the longest input, and more than that.
const MAX_FIELDS: usize = 1024;

/// A head as a parser has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reading<'a> {
    pub(super) method: &'a [u8],
    pub(super) target: &'a [u8],
    /// 0 or 1, behind "HTTP/1.".
    pub(super) version: u8,
    pub(super) fields: Vec<(&'a [u8], &'a [u8])>,
    /// Bytes from the first line to the empty one behind the fields, and of empty lines before.
    pub(super) len: usize,
}

impl<'a> Reading<'a> {
    /// Reads by hand: lines end with CR LF, words with a space, a name with a colon.
    pub(super) fn by_hand(bytes: &'a [u8]) -> Option<Self> {
        let mut at = 0;
        while bytes[at..].starts_with(b"\r\n") {
            at += 2;
        }
        let mut next = || {
            let line = line(&bytes[at..])?;
            at += line.len() + 2;
            Some(line)
        };
        let mut words = next()?.splitn(3, |byte| *byte == b' ');
        let (method, target) = (words.next()?, words.next()?);
        let version = words.next()?.strip_prefix(b"HTTP/1.")?;
        let version = match version {
            b"0" => 0,
            b"1" => 1,
            _ => return None,
        };
        let mut fields = Vec::new();
        loop {
            let line = next()?;
            if line.is_empty() {
                break;
            }
            let mut parts = line.splitn(2, |byte| *byte == b':');
            let (name, value) = (parts.next()?, parts.next()?);
            fields.push((name, without_space(value)));
        }
        Some(Self {
            method,
            target,
            version,
            fields,
            len: at,
        })
    }

    /// Reads by httparse.
    pub(super) fn by_httparse(bytes: &'a [u8]) -> Option<Self> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut head = httparse::Request::new(&mut fields);
        let httparse::Status::Complete(len) = head.parse(bytes).ok()? else {
            return None;
        };
        let field = |field: &httparse::Header<'a>| (field.name.as_bytes(), field.value);
        Some(Self {
            method: head.method?.as_bytes(),
            target: head.path?.as_bytes(),
            version: head.version?,
            fields: head.headers.iter().map(field).collect(),
            len,
        })
    }

    /// The values of a field, by its name in lower case.
    pub(super) fn values(&self, name: &str) -> Vec<&'a [u8]> {
        let is = |of: &&(&[u8], &[u8])| of.0.eq_ignore_ascii_case(name.as_bytes());
        self.fields.iter().filter(is).map(|of| of.1).collect()
    }
}

/// Bytes of a chunked content at the front, with the trailers and the empty line behind them; none if
/// they have no end.
pub(super) fn chunked(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = line(&bytes[at..])?;
        at += line.len() + 2;
        let size = line.split(|byte| *byte == b';').next()?;
        let size = u64::from_str_radix(std::str::from_utf8(size).ok()?, 16).ok()?;
        if size == 0 {
            break;
        }
        let end = at.checked_add(usize::try_from(size).ok()?)?;
        at = bytes.get(end..)?.starts_with(b"\r\n").then_some(end + 2)?;
    }
    loop {
        let line = line(&bytes[at..])?;
        at += line.len() + 2;
        if line.is_empty() {
            return Some(at);
        }
    }
}

/// The bytes before the next CR LF.
fn line(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some(&bytes[..end])
}

fn without_space(value: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let from = value.iter().position(|byte| !is_space(byte));
    let to = value.iter().rposition(|byte| !is_space(byte));
    from.zip(to).map_or(&[], |(from, to)| &value[from..=to])
}
