//! Content-Disposition of a form's part: the names of its field and of its file.
//!
//! RFC 7578 section 4.2 with the forms that clients use: parameters as tokens or quoted strings
//! (RFC 9110 section 5.6.6), `filename*` of RFC 8187 (formerly RFC 5987), which RFC 7578 advises against and some send,
//! and the three escapes of the WHATWG's HTML standard.

use percent_encoding::percent_decode;

/// The most parameters that are read; further ones are refused.
const MAX_PARAMETERS: usize = 16;

/// The disposition of a part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Disposition {
    /// Name of the field; empty where there is none.
    pub(crate) name: String,
    /// Name of the file as the client calls it; `None`: the part is no file.
    pub(crate) file_name: Option<String>,
}

/// A value that says nothing, or two things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadDisposition {
    #[error("Content-Disposition of a part is not form-data")]
    Type,
    #[error("Content-Disposition of a part can't be read")]
    Syntax,
    #[error("Content-Disposition of a part gives a parameter twice")]
    Twice,
}

impl Disposition {
    /// Reads the value of a part's Content-Disposition.
    ///
    /// # Errors
    /// The value is not form-data, breaks the syntax, or gives a parameter twice.
    pub(crate) fn parse(value: &[u8]) -> Result<Self, BadDisposition> {
        let mut cursor = Cursor(value);
        if !cursor.token().eq_ignore_ascii_case(b"form-data") {
            return Err(BadDisposition::Type);
        }
        let mut parameters: Vec<Parameter> = Vec::new();
        while let Some((name, value)) = cursor.parameter()? {
            if parameters.iter().any(|(other, _)| *other == name) {
                return Err(BadDisposition::Twice);
            }
            if parameters.len() == MAX_PARAMETERS {
                return Err(BadDisposition::Syntax);
            }
            parameters.push((name, value));
        }
        let of = |wanted: &[u8]| {
            let mut all = parameters.iter();
            all.find(|(name, _)| name == wanted).map(|it| &*it.1)
        };
        let plain = of(b"filename").map(|it| text(&without_escapes(it)));
        let file_name = match of(b"filename*") {
            // In a charset that is not known, the plain form is what counts (RFC 6266 section 4.3).
            Some(extended) => {
                let extended = of_extended(extended).or(plain);
                Some(extended.ok_or(BadDisposition::Syntax)?)
            }
            None => plain,
        };
        Ok(Self {
            name: of(b"name").map_or_else(String::new, |it| text(&without_escapes(it))),
            file_name,
        })
    }
}

/// A parameter's name in lower case, and its value.
type Parameter = (Vec<u8>, Vec<u8>);

/// The text that is not read yet.
struct Cursor<'v>(&'v [u8]);

impl Cursor<'_> {
    /// The next parameter; `None` at the end.
    fn parameter(&mut self) -> Result<Option<Parameter>, BadDisposition> {
        // Empty parameters are skipped, as a last `;` makes one.
        loop {
            self.spaces();
            match self.0.split_first() {
                None => return Ok(None),
                Some((b';', rest)) => self.0 = rest,
                Some(_) => return Err(BadDisposition::Syntax),
            }
            self.spaces();
            if !matches!(self.0.first(), None | Some(b';')) {
                break;
            }
        }
        let name = self.token().to_ascii_lowercase();
        self.spaces();
        let Some((b'=', rest)) = self.0.split_first() else {
            return Err(BadDisposition::Syntax);
        };
        self.0 = rest;
        self.spaces();
        if name.is_empty() {
            return Err(BadDisposition::Syntax);
        }
        let value = match self.0.split_first() {
            Some((b'"', rest)) => {
                self.0 = rest;
                self.quoted()?
            }
            _ => self.plain().to_vec(),
        };
        Ok(Some((name, value)))
    }

    fn spaces(&mut self) {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
        let end = self.0.iter().position(|byte| !is_space(byte));
        self.0 = &self.0[end.unwrap_or(self.0.len())..];
    }

    /// Bytes up to the first that no token has (RFC 9110 section 5.6.2).
    fn token(&mut self) -> &[u8] {
        let is_token =
            |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
        self.until(|byte| !is_token(byte))
    }

    /// A value without quotes: more than a token, as some clients send names of files so.
    fn plain(&mut self) -> &[u8] {
        self.until(|byte| matches!(byte, b';' | b' ' | b'\t' | b'"'))
    }

    fn until(&mut self, is_end: impl Fn(&u8) -> bool) -> &[u8] {
        let end = self.0.iter().position(is_end).unwrap_or(self.0.len());
        let (before, rest) = self.0.split_at(end);
        self.0 = rest;
        before
    }

    /// A value up to its closing quote. A backslash escapes a quote and itself alone: paths of Windows are sent without
    /// escapes.
    fn quoted(&mut self) -> Result<Vec<u8>, BadDisposition> {
        let mut value = Vec::new();
        loop {
            match self.0 {
                [b'\\', escaped @ (b'"' | b'\\'), rest @ ..] => {
                    value.push(*escaped);
                    self.0 = rest;
                }
                [b'"', rest @ ..] => {
                    self.0 = rest;
                    return Ok(value);
                }
                [byte, rest @ ..] => {
                    value.push(*byte);
                    self.0 = rest;
                }
                [] => return Err(BadDisposition::Syntax),
            }
        }
    }
}

/// Decodes what browsers escape in names, which is a quote, CR and LF and nothing else: `%20` is three characters.
fn without_escapes(value: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((first, after)) = rest.split_first() {
        let (byte, after) = match rest {
            [b'%', b'2', b'2', after @ ..] => (b'"', after),
            [b'%', b'0', b'A' | b'a', after @ ..] => (b'\n', after),
            [b'%', b'0', b'D' | b'd', after @ ..] => (b'\r', after),
            _ => (*first, after),
        };
        plain.push(byte);
        rest = after;
    }
    plain
}

/// Reads `UTF-8'en'%C3%A9` (RFC 8187 section 3.2); `None`: the charset is not known or the value is none.
fn of_extended(value: &[u8]) -> Option<String> {
    let mut parts = value.splitn(3, |byte| *byte == b'\'');
    let (charset, _language, escaped) = (parts.next()?, parts.next()?, parts.next()?);
    let bytes: Vec<u8> = percent_decode(escaped).collect();
    if charset.eq_ignore_ascii_case(b"UTF-8") {
        return String::from_utf8(bytes).ok();
    }
    let is_latin = charset.eq_ignore_ascii_case(b"ISO-8859-1");
    is_latin.then(|| latin(&bytes))
}

/// UTF-8 (RFC 7578 section 5.1), or what clients of former times send.
fn text(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| latin(bytes), str::to_owned)
}

/// ISO-8859-1.
fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(value: impl AsRef<[u8]>, name: &str, file_name: Option<&str>) {
        let value = value.as_ref();
        let parsed = Disposition::parse(value);
        let expected = Disposition {
            name: name.into(),
            file_name: file_name.map(str::to_owned),
        };
        assert_eq!(parsed, Ok(expected), "{}", String::from_utf8_lossy(value));
    }

    #[test]
    fn the_forms_that_clients_use_are_read() {
        check("form-data; name=\"a\"", "a", None);
        check("Form-Data;name=a;FileName=b.txt", "a", Some("b.txt"));
        check(
            "form-data; name = \"a\" ; filename = \"b c.txt\" ;",
            "a",
            Some("b c.txt"),
        );
        check(
            "form-data; filename=\"a;b=c.txt\"; name=\";\"",
            ";",
            Some("a;b=c.txt"),
        );
        check("form-data; name=\"a\"; filename=\"\"", "a", Some(""));
        check("form-data", "", None);
        // Browsers and curl since 7.81, curl before.
        check(
            "form-data; name=a; filename=\"a%22b%0D%0a%20%25.txt\"",
            "a",
            Some("a\"b\r\n%20%25.txt"),
        );
        check(
            r#"form-data; name=a; filename="a\"b\\c.txt""#,
            "a",
            Some("a\"b\\c.txt"),
        );
        check(
            r#"form-data; name=a; filename="C:\dir\file.txt""#,
            "a",
            Some("C:\\dir\\file.txt"),
        );
        check(
            "form-data; name=a; filename=\"été.txt\"",
            "a",
            Some("été.txt"),
        );
        check(
            b"form-data; name=a; filename=\"\xe9t\xe9.txt\"",
            "a",
            Some("été.txt"),
        );
    }

    #[test]
    fn the_extended_form_counts_before_the_plain_one() {
        let both = "form-data; name=a; filename=\"x.txt\"; filename*=UTF-8''%e2%82%ac%20rates.txt";
        check(both, "a", Some("€ rates.txt"));
        check(
            "form-data; filename*=utf-8'en'a%2Fb; name=a",
            "a",
            Some("a/b"),
        );
        check(
            "form-data; name=a; filename*=iso-8859-1''%A3.txt",
            "a",
            Some("£.txt"),
        );
        check(
            "form-data; name=a; filename*=KOI8-R''%A3.txt; filename=x",
            "a",
            Some("x"),
        );
        check(
            "form-data; name=a; filename*=UTF-8''%FF; filename=x",
            "a",
            Some("x"),
        );
        let alone = Disposition::parse(b"form-data; name=a; filename*=KOI8-R''%A3.txt");
        assert_eq!(alone, Err(BadDisposition::Syntax));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        use BadDisposition::{Syntax, Twice, Type};
        for (value, expected) in [
            ("", Type),
            ("attachment; filename=a", Type),
            ("form-data name=a", Syntax),
            ("form-data; name", Syntax),
            ("form-data; =a", Syntax),
            ("form-data; name=\"a", Syntax),
            ("form-data; name=\"a\"b", Syntax),
            ("form-data; name=\"a\" b; filename=c", Syntax),
            ("form-data; name=a; filename=a; filename=b", Twice),
            ("form-data; name=a; NAME=b", Twice),
            ("form-data; filename*=UTF-8'a", Syntax),
        ] {
            assert_eq!(
                Disposition::parse(value.as_bytes()),
                Err(expected),
                "{value}"
            );
        }
        let many: String = (0..17).map(|at| format!("; p{at}=x")).collect();
        let many = Disposition::parse(format!("form-data{many}").as_bytes());
        assert_eq!(many, Err(Syntax));
    }

    proptest! {
        #[test]
        fn no_bytes_make_reading_panic(value in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Disposition::parse(&value);
            let _ = Disposition::parse(&[b"form-data; ", &*value].concat());
        }

        #[test]
        fn a_name_is_read_as_it_was_written(name in "[^%\r\n]{0,40}", field in "[a-z]{1,8}") {
            let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
            let value = format!("form-data; name={field}; filename=\"{quoted}\"");
            check(value, &field, Some(&name));
            // As browsers do; a backslash before a quote can't be told from an escape by them.
            if !name.contains('\\') {
                let quoted = name.replace('"', "%22");
                check(format!("form-data; filename=\"{quoted}\"; name=\"{field}\""), &field, Some(&name));
            }
            let escaped = percent_encoding::utf8_percent_encode(&name, percent_encoding::NON_ALPHANUMERIC);
            check(format!("form-data; filename*=UTF-8''{escaped}; name=\"{field}\""), &field, Some(&name));
        }
    }
}
