//! The head of a request: a view of it, and the rules that it has to keep.

use crate::field::{has_control, is_any_token};
use crate::target::{check_path, check_path_bytes};
use crate::{Authority, FieldChecks, Refusal, Scheme, Target};

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2.
    Http2,
    /// HTTP/3.
    Http3,
}

impl Version {
    /// Returns whether a message has a stream of its own, which an error can cost.
    #[must_use]
    pub fn is_multiplexed(self) -> bool {
        matches!(self, Self::Http2 | Self::Http3)
    }
}

/// The rules that hold for the connection of a request.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The scheme that the connection carries; `None`: any.
    pub scheme: Option<Scheme>,
    /// Extended CONNECT was announced (RFC 8441, RFC 9220).
    pub extended_connect: bool,
}

/// The parts of a request's head that say what it asks for, as they were received.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head<'a> {
    /// The method, or `:method`.
    pub method: Option<&'a [u8]>,
    /// The scheme of a target in absolute form, or `:scheme`.
    pub scheme: Option<&'a [u8]>,
    /// The authority of a target in absolute or authority form, or `:authority`.
    pub authority: Option<&'a [u8]>,
    /// The path and query, an asterisk, or `:path`.
    pub path: Option<&'a [u8]>,
    /// `:protocol`.
    pub protocol: Option<&'a [u8]>,
    /// The value of the Host field.
    pub host: Option<&'a [u8]>,
}

/// A request that keeps the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The target.
    pub target: Target<'a>,
    /// The framing: where the content ends.
    pub framing: Framing,
}

/// The end of a request's content (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// HTTP/1 without a field for it: there is no content.
    Empty,
    /// Content of so many bytes.
    Length(u64),
    /// The chunked coding of HTTP/1.1 tells.
    Chunked,
    /// The end of the stream tells.
    Stream,
}

impl Rules {
    /// The rules of a connection of HTTP/1.
    #[must_use]
    pub fn http1(scheme: Scheme) -> Self {
        Self {
            scheme: Some(scheme),
            extended_connect: false,
        }
    }

    /// Checks a request's head.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check<'a>(self, head: &Head<'a>, fields: &FieldChecks) -> Result<Request<'a>, Refusal> {
        if let Some(refusal) = fields.refusal() {
            return Err(refusal);
        }
        if fields.has_status() {
            return Err(Refusal::PseudoField);
        }
        let version = fields.version();
        let method = head.method.ok_or(Refusal::PseudoMissing)?;
        if !is_any_token(method) {
            return Err(Refusal::Method);
        }
        self.check_shape(method, head, version)?;
        let named = head.scheme.map(Scheme::parse).transpose();
        // A scheme of others may have an authority of another form; what is none at all comes first.
        let scheme = match named {
            Err(Refusal::SchemeUnknown) => None,
            named => named?.or(self.scheme),
        };
        let authority = authority(head, scheme)?;
        match head.path {
            Some(b"*") if method == b"OPTIONS" => {}
            // RFC 9110 section 4.2.3: an empty path is a slash. Only a target in absolute form can be without one.
            Some(query @ [b'?', ..]) if !version.is_multiplexed() => check_path_bytes(query)?,
            Some(path) => check_path(path)?,
            None => {}
        }
        if authority.is_none() && version != Version::Http10 {
            return Err(Refusal::AuthorityMissing);
        }
        self.check_answerable(head, fields, authority)?;
        Ok(Request {
            target: Target {
                scheme,
                authority,
                path: head.path,
            },
            framing: framing(version, fields),
        })
    }

    /// Checks a request's head over a protocol whose requests are streams. Returns what its application is to refuse it
    /// for, though it is well-formed.
    ///
    /// # Errors
    /// The first rule that it breaks, if that makes it malformed: an error of its stream.
    pub fn check_stream(
        self,
        head: &Head<'_>,
        fields: &FieldChecks,
    ) -> Result<Option<Refusal>, Refusal> {
        match self.check(head, fields) {
            Err(refusal) if refusal.is_malformed(fields.version()) => Err(refusal),
            checked => Ok(checked.err()),
        }
    }

    /// The parts that a method has (RFC 9112 section 3.2, RFC 9113 sections 8.3.1 and 8.5, RFC 8441
    /// section 4).
    fn check_shape(self, method: &[u8], head: &Head<'_>, version: Version) -> Result<(), Refusal> {
        let connect = method == b"CONNECT";
        if let Some(protocol) = head.protocol {
            let good = connect && self.extended_connect && is_any_token(protocol);
            good.then_some(()).ok_or(Refusal::Protocol)?;
        } else if connect {
            let alone = head.scheme.is_none() && head.path.is_none();
            alone.then_some(()).ok_or(Refusal::TargetForm)?;
            return head.authority.map(drop).ok_or(Refusal::PseudoMissing);
        }
        let complete = head.scheme.is_some() || !version.is_multiplexed();
        match complete && head.path.is_some() {
            true => Ok(()),
            false => Err(Refusal::PseudoMissing),
        }
    }

    /// Checks for requests that are well-formed, and yet nothing that this server answers.
    fn check_answerable(
        self,
        head: &Head<'_>,
        fields: &FieldChecks,
        authority: Option<Authority<'_>>,
    ) -> Result<(), Refusal> {
        if head.path.is_none() && authority.is_none_or(|it| it.port.is_none_or(|port| port == 0)) {
            return Err(Refusal::ConnectPort);
        }
        let is_framed = fields.content_length().is_some() || fields.is_chunked();
        if head.method == Some(b"CONNECT") && is_framed {
            return Err(Refusal::ConnectContent);
        }
        if fields.is_repeated() {
            return Err(Refusal::Repeated);
        }
        let scheme = head.scheme.map(Scheme::parse).transpose()?;
        let other = scheme.zip(self.scheme).is_some_and(|(a, b)| a != b);
        (!other).then_some(()).ok_or(Refusal::Misdirected)
    }
}

/// The authority of a request, with which its Host agrees.
fn authority<'a>(
    head: &Head<'a>,
    scheme: Option<Scheme>,
) -> Result<Option<Authority<'a>>, Refusal> {
    let [authority, host] = [head.authority, head.host].map(|text| text.map(Authority::parse));
    let (authority, host) = (authority.transpose()?, host.transpose()?);
    match (authority, host) {
        (Some(authority), Some(host)) if !authority.is_same(&host, scheme) => {
            Err(Refusal::HostDiffers)
        }
        _ => Ok(authority.or(host)),
    }
}

fn framing(version: Version, fields: &FieldChecks) -> Framing {
    match fields.content_length() {
        Some(length) => Framing::Length(length),
        None if fields.is_chunked() => Framing::Chunked,
        None if version.is_multiplexed() => Framing::Stream,
        None => Framing::Empty,
    }
}

impl<'a> Head<'a> {
    /// The view of an HTTP/1 request with that target (RFC 9112 section 3.2).
    ///
    /// # Errors
    /// The target has none of the four forms.
    pub fn http1(
        method: &'a [u8],
        target: &'a [u8],
        host: Option<&'a [u8]>,
    ) -> Result<Self, Refusal> {
        let head = Self {
            method: Some(method),
            host,
            ..Self::default()
        };
        if has_control(target) {
            return Err(Refusal::PathByte);
        }
        if target.first() == Some(&b'/') || target == b"*" {
            return Ok(Self {
                path: Some(target),
                ..head
            });
        }
        if method == b"CONNECT" {
            return Ok(Self {
                authority: Some(target),
                ..head
            });
        }
        let colon = target.windows(3).position(|part| part == b"://");
        let colon = colon.ok_or(Refusal::TargetForm)?;
        let (scheme, rest) = (&target[..colon], &target[colon + 3..]);
        let end = rest.iter().position(|byte| b"/?#".contains(byte));
        let (authority, path) = rest.split_at(end.unwrap_or(rest.len()));
        // RFC 9110 section 4.2.3: an empty path is a slash; in OPTIONS it is an asterisk (RFC 9112 section
        // 3.2.4), and yet a slash to many, the http crate among them.
        let path = match path {
            [] if method == b"OPTIONS" => return Err(Refusal::TargetForm),
            [] => b"/",
            [b'#', ..] => return Err(Refusal::Fragment),
            path => path,
        };
        Ok(Self {
            scheme: Some(scheme),
            authority: Some(authority),
            path: Some(path),
            ..head
        })
    }
}
