//! Reasons to refuse a message, each with the status that answers it.

use crate::Version;

/// The reason why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// RFC 9110 section 9.1: "method = token".
    #[error("the method is no token")]
    Method,
    /// RFC 9112 section 3: "request-line = method SP request-target SP HTTP-version".
    #[error("the request line is not three words with one space between")]
    RequestLine,
    /// RFC 9110 section 15.6.6. Here are HTTP/1.0 and HTTP/1.1.
    #[error("the version is neither HTTP/1.0 nor HTTP/1.1")]
    HttpVersion,
    /// RFC 9112 section 2.2: a recipient "MAY recognize a single LF as a line terminator"; others
    /// then see another end of the head.
    #[error("a line does not end with CR LF")]
    LineEnd,
    /// RFC 9112 section 5: "field-line = field-name ":" OWS field-value OWS".
    #[error("a field line has no colon behind its name")]
    FieldLine,
    /// RFC 9112 section 5.2: a server "MUST either reject the message by sending a 400 (Bad
    /// Request)" or replace the fold.
    #[error("a field line is folded")]
    Fold,
    /// The head has more fields than [`MAX_FIELDS`](crate::MAX_FIELDS), or it, or a trailer section, is longer than what is
    /// kept of one that arrives in parts.
    #[error("the head is too large")]
    TooLarge,
    /// RFC 9112 section 7.1. Its sizes, extensions and line ends are taken as the grammar has them.
    #[error("a chunk is none")]
    Chunk,
    /// The parser behind the gate has found a message where the gate has found none.
    #[error("where the message ends is not certain")]
    Framing,

    /// RFC 9110 section 5.1: "field-name = token".
    #[error("a field name is no token")]
    FieldName,
    /// RFC 9113 section 8.2: "Field names MUST be converted to lowercase"; RFC 9114 section 4.2.
    #[error("a field name has upper case")]
    UpperCase,
    /// RFC 9110 section 5.5: no CR, LF or NUL, and other control bytes "are also invalid".
    #[error("a field value has a control byte")]
    FieldValue,
    /// RFC 9113 section 8.2.1: no value starts or ends with a space or tab.
    #[error("a field value has space around it")]
    Padded,
    /// RFC 9110 section 5.3: what is no list stands in one line alone.
    #[error("a field is repeated that stands alone")]
    Repeated,
    /// RFC 9110 section 6.5.1: fields of framing, routing, authentication, conditions, and content are
    /// no trailers.
    #[error("a field stands in the trailers that may not")]
    Trailer,

    /// RFC 9113 section 8.3, RFC 9114 section 4.3: undefined pseudo-fields are malformed, as are those
    /// of responses in requests and the other way round, and any in trailers.
    #[error("a pseudo-field stands where it may not")]
    PseudoField,
    /// RFC 9113 section 8.3: not "more than once".
    #[error("a pseudo-field is repeated")]
    PseudoRepeated,
    /// RFC 9113 section 8.3: pseudo-fields stand "before all regular field lines".
    #[error("a pseudo-field stands behind other fields")]
    PseudoLate,
    /// RFC 9113 section 8.3.1: one `:method`, `:scheme` and `:path`, except in CONNECT.
    #[error("a pseudo-field is missing")]
    PseudoMissing,
    /// RFC 9113 section 8.2.2, RFC 9114 section 4.2.
    #[error("a field of HTTP/1.1 connections stands in the message")]
    ConnectionSpecific,
    /// RFC 9113 section 8.2.2: TE "MUST NOT contain any value other than "trailers"".
    #[error("te has another value than trailers")]
    Te,
    /// RFC 8441 section 4, RFC 9220 section 3: `:protocol` stands in CONNECT where it was announced,
    /// and names a token.
    #[error("extended CONNECT is not spoken here, or names no protocol")]
    Protocol,
    /// RFC 9113 section 8.3.2: a response has one `:status`; section 8.6: it is not 101.
    #[error("the status is none")]
    Status,

    /// RFC 9110 section 7.1: a target URI has its fragment excluded.
    #[error("the target has a fragment")]
    Fragment,
    /// RFC 3986 section 3.3 and 3.4: no spaces, control bytes, bytes above ASCII; no backslash in a
    /// path, which some take for a slash.
    #[error("the target has a byte that no path has")]
    PathByte,
    /// RFC 9112 section 3.2: a target is a path, a URI, an asterisk (OPTIONS) or an authority (CONNECT).
    #[error("the target has no form that the method allows")]
    TargetForm,
    /// RFC 3986 section 3.1: "scheme = ALPHA *( ALPHA / DIGIT / "+" / "-" / "." )".
    #[error("the scheme is none")]
    SchemeSyntax,
    /// This server answers for `http` and `https`.
    #[error("the scheme is neither http nor https")]
    SchemeUnknown,
    /// RFC 9110 section 7.4: a request for an "https" resource must come over a secured connection;
    /// section 15.5.20: 421 says that the other connection may do.
    #[error("the scheme is not the connection's")]
    Misdirected,
    /// RFC 9110 section 4.2.4: "an "@" sign in the authority" is for deceiving.
    #[error("the authority has user information")]
    UserInformation,
    /// RFC 9110 section 7.2: "Host = uri-host [ ":" port ]"; section 4.2.1: never empty.
    #[error("the authority is no host with an optional port")]
    Authority,
    /// RFC 9112 section 3.2, RFC 9114 section 4.3.1: a request has an authority; over HTTP/1.1 in Host, whatever its target
    /// names.
    #[error("the request has no authority")]
    AuthorityMissing,
    /// RFC 9113 section 8.3.1, RFC 9114 section 4.3.1, and RFC 9112 section 3.2.2 for a target in
    /// absolute form, whose client sends the same in Host.
    #[error("host differs from the authority")]
    HostDiffers,
    /// RFC 9112 section 3.2: no "more than one Host header field line".
    #[error("host is repeated")]
    HostRepeated,
    /// RFC 9110 section 9.3.6: "A server MUST reject a CONNECT request that targets an empty or
    /// invalid port number".
    #[error("CONNECT names no port")]
    ConnectPort,
    /// RFC 9110 section 9.3.6: "A CONNECT request message does not have content". What follows its head is the
    /// tunnel's to some, and content to those who go by Content-Length or Transfer-Encoding.
    #[error("CONNECT has no content")]
    ConnectContent,

    /// RFC 9110 section 8.6: "Content-Length = 1*DIGIT".
    #[error("content-length is no number")]
    ContentLength,
    /// RFC 9110 section 8.6: a recipient of repeated values "MUST either reject the message as invalid
    /// or replace" them, even equal ones.
    #[error("content-length is repeated")]
    ContentLengthRepeated,
    /// RFC 9112 section 6.1: Content-Length beside Transfer-Encoding "ought to be handled as an error".
    #[error("content-length stands beside transfer-encoding")]
    BothLengths,
    /// RFC 9112 section 6.1 and 6.3: `chunked` is the last coding and stands once.
    #[error("transfer-encoding does not end with one chunked")]
    TransferEncoding,
    /// RFC 9112 section 6.1: a coding that the server "does not understand" is answered with 501.
    #[error("the transfer coding is not known")]
    TransferCoding,
    /// RFC 9112 section 6.1: Transfer-Encoding in HTTP/1.0 is "faulty", "even if a Content-Length is
    /// present".
    #[error("transfer-encoding stands in HTTP/1.0")]
    TransferEncodingEarly,
}

impl Refusal {
    /// The status that answers it: 400, 421, 431, 501 or 505.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Refusal::Misdirected => 421,
            Refusal::TooLarge => 431,
            Refusal::TransferCoding => 501,
            Refusal::HttpVersion => 505,
            _ => 400,
        }
    }

    /// Returns whether the message is malformed: HTTP/2 resets its stream with PROTOCOL_ERROR (RFC 9113
    /// section 8.1.1), HTTP/3 with H3_MESSAGE_ERROR (RFC 9114 section 4.1.2). Else a status answers it.
    /// In HTTP/1 a status answers everything.
    #[must_use]
    pub fn is_malformed(self, version: Version) -> bool {
        match self {
            Refusal::SchemeUnknown
            | Refusal::Misdirected
            | Refusal::Repeated
            | Refusal::ConnectPort
            | Refusal::ConnectContent
            | Refusal::TooLarge => false,
            // RFC 9114 section 4.3.1 demands one; RFC 9113 does not.
            Refusal::AuthorityMissing => version == Version::Http3,
            _ => version.is_multiplexed(),
        }
    }
}
