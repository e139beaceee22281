//! Fields between a client and the next server alone, which a proxy takes away before it passes a
//! message on (RFC 9110 section 7.6.1).

/// Fields of one hop, whatever Connection names: those of RFC 9110 section 7.6.1, and those of
/// authentication at a proxy (sections 11.7.1 and 11.7.2). Trailer is none of them: it says of the
/// message which trailers it ends with (section 6.6.2).
pub const FIELDS: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Fields that a message keeps even where Connection names them: without them it would be another
/// message. The client that names them means harm.
const KEPT: [&str; 5] = [
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "host",
];

/// Returns whether a proxy takes the field away. `connection`: the values of the message's Connection
/// fields. Upper and lower case are alike.
pub fn is_dropped<'a>(name: &[u8], connection: impl IntoIterator<Item = &'a [u8]>) -> bool {
    is(name, &FIELDS) || (!is(name, &KEPT) && connection.into_iter().any(|it| names(it, name)))
}

/// The members of a Connection field: tokens and whatever else stands between commas, without the
/// empty ones.
pub fn options(connection: &[u8]) -> impl Iterator<Item = &[u8]> {
    let members = connection.split(|byte| *byte == b',');
    members.map(<[u8]>::trim_ascii).filter(|it| !it.is_empty())
}

fn names(connection: &[u8], name: &[u8]) -> bool {
    options(connection).any(|option| option.eq_ignore_ascii_case(name))
}

fn is(name: &[u8], list: &[&str]) -> bool {
    list.iter()
        .any(|it| name.eq_ignore_ascii_case(it.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_fields_go_whatever_connection_says() {
        for name in FIELDS.iter().chain(&["Keep-Alive", "TE"]) {
            assert!(is_dropped(name.as_bytes(), []), "{name}");
        }
        assert!(!is_dropped(b"accept", []));
        assert!(!is_dropped(b"trailer", []));
    }

    #[test]
    fn connection_names_more_of_them_in_any_of_its_lines() {
        let lines = || [&b"close"[..], b" , X-One,\tx-two ,"];
        assert!(is_dropped(b"x-one", lines()));
        assert!(is_dropped(b"X-TWO", lines()));
        assert!(!is_dropped(b"x-three", lines()));
        assert!(!is_dropped(b"x", lines()));
    }

    #[test]
    fn connection_cannot_take_away_what_frames_and_routes_a_message() {
        for name in KEPT {
            assert!(!is_dropped(name.as_bytes(), [name.as_bytes()]), "{name}");
        }
    }
}
