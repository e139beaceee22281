//! Pseudo-fields (RFC 9113 section 8.3, RFC 9114 section 4.3): of a head that was received, and of a request to be sent.

use crate::{FieldKind, Head};

/// The values of a head's pseudo-fields, in the form in which an engine keeps them.
#[derive(Clone, Copy, Debug, Default)]
pub struct PseudoFields<T> {
    /// `:method`.
    pub method: Option<T>,
    /// `:scheme`.
    pub scheme: Option<T>,
    /// `:authority`.
    pub authority: Option<T>,
    /// `:path`.
    pub path: Option<T>,
    /// `:protocol` (RFC 8441).
    pub protocol: Option<T>,
    /// `:status`.
    pub status: Option<T>,
}

impl<T> PseudoFields<T> {
    /// The place of the value of a kind; `None`: it is no pseudo-field.
    pub fn place(&mut self, kind: FieldKind) -> Option<&mut Option<T>> {
        Some(match kind {
            FieldKind::Method => &mut self.method,
            FieldKind::Scheme => &mut self.scheme,
            FieldKind::Authority => &mut self.authority,
            FieldKind::Path => &mut self.path,
            FieldKind::Protocol => &mut self.protocol,
            FieldKind::Status => &mut self.status,
            _ => return None,
        })
    }

    /// The head of a request. `bytes` reads a value; `host`: that of the Host field.
    pub fn request<'a>(
        &'a self,
        bytes: impl Fn(&'a T) -> &'a [u8],
        host: Option<&'a [u8]>,
    ) -> Head<'a> {
        let text = |value: &'a Option<T>| value.as_ref().map(&bytes);
        Head {
            method: text(&self.method),
            scheme: text(&self.scheme),
            authority: text(&self.authority),
            path: text(&self.path),
            protocol: text(&self.protocol),
            host,
        }
    }
}

impl<'a> PseudoFields<&'a str> {
    /// Names and values of the fields of a request with these parts, in the order in which they are sent. Userinfo of the
    /// authority is left out, and so are scheme and path of a plain CONNECT (RFC 9113 section 8.5, RFC 9114 section 4.4). A
    /// path that is missing is a slash.
    ///
    /// # Errors
    /// The part that is missing or one too many, for people.
    pub fn to_send(
        &self,
    ) -> Result<impl Iterator<Item = (&'static str, &'a str)> + Clone + use<'a>, &'static str> {
        let is_connect = self.method == Some("CONNECT");
        if self.protocol.is_some() && !is_connect {
            return Err("a protocol is asked for by CONNECT alone");
        }
        let authority = self.authority.ok_or("uri without authority")?;
        let authority = authority.rsplit('@').next();
        let is_plain_connect = is_connect && self.protocol.is_none();
        let scheme = self.scheme.filter(|_| !is_plain_connect);
        if scheme.is_none() && !is_plain_connect {
            return Err("uri without scheme");
        }
        let path = self.path.or(Some("/")).filter(|_| !is_plain_connect);
        let fields = [
            (":method", self.method),
            (":protocol", self.protocol),
            (":scheme", scheme),
            (":authority", authority),
            (":path", path),
        ];
        let present = |(name, value): (_, Option<_>)| Some((name, value?));
        Ok(fields.into_iter().filter_map(present))
    }
}

/// The value of a message's Cookie field, which may come in several: an engine "MUST" join them by "; " before they are
/// passed on (RFC 9113 section 8.2.3, RFC 9114 section 4.2.1). Empty ones add nothing: "; " stands between two cookies
/// (RFC 6265 section 4.2.1).
#[derive(Debug, Default)]
pub struct Cookies(Option<Vec<u8>>);

impl Cookies {
    /// Appends the value of a further field.
    pub fn push(&mut self, value: &[u8]) {
        let cookies = self.0.get_or_insert_default();
        if !cookies.is_empty() && !value.is_empty() {
            cookies.extend_from_slice(b"; ");
        }
        cookies.extend_from_slice(value);
    }

    /// Takes the joined value; `None` without a field.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crumbs_are_joined_and_empty_ones_add_nothing() {
        for (crumbs, expected) in [
            (&[][..], None),
            (&[""], Some("")),
            (&["", ""], Some("")),
            (&["a=1", "b=2"], Some("a=1; b=2")),
            (&["", "a=1", "", "b=2", ""], Some("a=1; b=2")),
        ] {
            let mut cookies = Cookies::default();
            for crumb in crumbs {
                cookies.push(crumb.as_bytes());
            }
            let joined = cookies.take();
            assert_eq!(joined.as_deref(), expected.map(str::as_bytes), "{crumbs:?}");
        }
    }
}
