//! The decision what becomes of a request that failed at a server, by what that server can have seen of it.
//!
//! The rule: a request is sent again only if it is certain that no server handles it twice, or if that does no harm
//! (RFC 9110 section 9.2.2). Certain it is where nothing of it was sent: the server could not be reached, the
//! connection was gone before its first byte, or the server itself says that it has not begun. A request that was sent
//! is repeated only if its method is idempotent, nothing of a response has arrived, and its content can be sent again.

use http::{Method, StatusCode};

/// The failure of a request at a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The connection failed: refused, unreachable, no handshake, or not in time.
    Connect,
    /// The connection ended, or broke the protocol.
    Connection,
    /// The server says that it has not begun to handle it (RFC 9113 section 8.7).
    Unprocessed,
    /// The time for a response's head was over.
    TimedOut,
    /// The bytes that were received are no response.
    Malformed,
    /// The server speaks another version of HTTP than it was asked in, so that it has not understood the request.
    OtherVersion,
}

/// The part of a request that a server can have seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// No byte was handed to the kernel.
    Nothing,
    /// Some of it, or all.
    Some,
}

/// The content of a request, seen from whoever would send it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The request has none.
    None,
    /// None of it was read from the client.
    Untouched,
    /// All that was read of it is still there.
    Kept,
    /// Some of it is gone.
    Taken,
}

/// A request that failed, as far as the decision goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed<'m> {
    /// The failure.
    pub failure: Failure,
    /// True if the connection had carried requests before. One that the server was about to close tells nothing of
    /// its health.
    pub is_reused: bool,
    /// The part that the server can have seen.
    pub sent: Sent,
    /// True if a byte of a response was received.
    pub has_begun: bool,
    /// The request's method.
    pub method: &'m Method,
    /// The content that is left for another attempt.
    pub content: Content,
    /// Attempts that may follow.
    pub attempts_left: u32,
    /// Times that it may be sent again beyond those where a server says that it has not begun.
    pub resends_left: u32,
}

/// Times that a request is sent again at most, beyond its attempts, where a server says that it has not begun: one that ends a
/// connection after so many requests (nginx: `keepalive_requests`) says so of all that are on their way to it, and one that takes
/// few requests at a time of those that come before its SETTINGS. Each costs a round trip.
pub(crate) const MAX_RESENDS: u32 = 5;

/// The verdict on a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Send it to another server; to the same one where there is no other.
    Elsewhere,
    /// Send it to the same server, over another connection; costs no attempt, as nothing is wrong with it.
    SameServer,
    /// The client is answered with this status.
    Answer(StatusCode),
}

/// Decides what becomes of a request that failed.
#[must_use]
pub fn decide(failed: Failed<'_>) -> Verdict {
    let was_seen = failed.sent == Sent::Some
        && !matches!(failed.failure, Failure::Connect | Failure::Unprocessed);
    let is_harmless = !was_seen || is_idempotent(failed.method);
    let can_repeat = failed.content != Content::Taken && !failed.has_begun;
    if !is_harmless || !can_repeat {
        return Verdict::Answer(status(failed.failure));
    }
    match failed.failure {
        // It will not be faster elsewhere, and the client has waited long enough.
        Failure::TimedOut | Failure::Malformed => Verdict::Answer(status(failed.failure)),
        Failure::Connection if failed.is_reused => Verdict::SameServer,
        Failure::Unprocessed if failed.attempts_left == 0 && failed.resends_left > 0 => {
            Verdict::SameServer
        }
        _ if failed.attempts_left == 0 => Verdict::Answer(status(failed.failure)),
        _ => Verdict::Elsewhere,
    }
}

/// Returns whether a failure tells anything of its server. That a server has closed a connection of its own accord does not, nor
/// that it takes no more requests over one; nor does a request that the server is not sent, for it is larger than that takes:
/// its client could send as many as it likes.
#[must_use]
pub fn tells_of_server(failed: Failed<'_>) -> bool {
    match failed.failure {
        Failure::Connection | Failure::Unprocessed => !failed.is_reused,
        Failure::Malformed => failed.sent == Sent::Some,
        Failure::Connect | Failure::TimedOut | Failure::OtherVersion => true,
    }
}

/// Returns whether to handle a request twice has the effect of handling it once (RFC 9110 section
/// 9.2.2).
#[must_use]
pub fn is_idempotent(method: &Method) -> bool {
    method.is_idempotent()
}

fn status(failure: Failure) -> StatusCode {
    match failure {
        Failure::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: Verdict = Verdict::Answer(StatusCode::BAD_GATEWAY);
    const LATE: Verdict = Verdict::Answer(StatusCode::GATEWAY_TIMEOUT);

    /// Cases, one a line: failure, connection, sent, response, method, content, attempts left,
    /// resends left, verdict.
    const CASES: &str = "
        connect     new     nothing  none   GET     none       1  0  elsewhere
        connect     new     nothing  none   POST    none       1  0  elsewhere
        connect     new     nothing  none   POST    untouched  1  0  elsewhere
        connect     new     nothing  none   POST    kept       1  0  elsewhere
        connect     new     nothing  none   POST    taken      1  0  502
        connect     new     nothing  none   GET     none       0  0  502
        connection  reused  some     none   GET     none       1  0  same
        connection  reused  some     none   GET     none       0  0  same
        connection  reused  some     none   HEAD    none       0  0  same
        connection  reused  some     none   PUT     kept       0  0  same
        connection  reused  some     none   PUT     untouched  0  0  same
        connection  reused  some     none   PUT     taken      1  0  502
        connection  reused  some     none   DELETE  none       0  0  same
        connection  reused  some     none   POST    none       1  0  502
        connection  reused  some     none   POST    kept       1  0  502
        connection  reused  some     none   PATCH   kept       1  0  502
        connection  reused  nothing  none   POST    none       0  0  same
        connection  reused  nothing  none   POST    kept       0  0  same
        connection  reused  nothing  none   POST    untouched  0  0  same
        connection  reused  nothing  none   POST    taken      1  0  502
        connection  reused  some     begun  GET     none       1  0  502
        connection  new     some     none   GET     none       1  0  elsewhere
        connection  new     some     none   GET     none       0  0  502
        connection  new     some     none   GET     none       0  1  502
        connection  new     some     none   PUT     kept       1  0  elsewhere
        connection  new     some     none   PUT     taken      1  0  502
        connection  new     some     none   POST    none       1  0  502
        connection  new     some     none   POST    kept       1  0  502
        connection  new     nothing  none   POST    kept       1  0  elsewhere
        connection  new     some     begun  GET     none       1  0  502
        unprocessed new     some     none   POST    kept       1  0  elsewhere
        unprocessed new     some     none   POST    taken      1  0  502
        unprocessed reused  some     none   POST    none       1  0  elsewhere
        unprocessed reused  some     none   POST    none       0  0  502
        unprocessed reused  some     none   POST    none       0  1  same
        unprocessed new     some     none   POST    kept       0  1  same
        unprocessed new     some     none   POST    taken      0  1  502
        unprocessed reused  some     none   POST    none       1  1  elsewhere
        late        new     some     none   GET     none       1  0  504
        late        reused  some     none   POST    kept       1  0  504
        late        reused  nothing  none   GET     none       1  0  504
        malformed   new     some     begun  GET     none       1  0  502
        malformed   new     some     none   GET     none       1  0  502
        version     new     some     begun  GET     none       1  0  502
        version     new     some     none   GET     none       1  0  elsewhere
        version     new     some     none   POST    none       1  0  502
    ";

    #[test]
    fn every_case_of_the_table() {
        let mut cases = 0;
        for line in CASES.lines().filter(|line| !line.trim().is_empty()) {
            let words: Vec<_> = line.split_whitespace().collect();
            let [
                failure,
                connection,
                sent,
                response,
                method,
                content,
                left,
                resends,
                verdict,
            ] = words[..]
            else {
                panic!("{line}");
            };
            let method: Method = method.parse().unwrap();
            let failed = Failed {
                failure: match failure {
                    "connect" => Failure::Connect,
                    "connection" => Failure::Connection,
                    "unprocessed" => Failure::Unprocessed,
                    "late" => Failure::TimedOut,
                    "malformed" => Failure::Malformed,
                    "version" => Failure::OtherVersion,
                    other => panic!("{other}"),
                },
                is_reused: connection == "reused",
                sent: if sent == "some" {
                    Sent::Some
                } else {
                    Sent::Nothing
                },
                has_begun: response == "begun",
                method: &method,
                content: match content {
                    "none" => Content::None,
                    "untouched" => Content::Untouched,
                    "kept" => Content::Kept,
                    "taken" => Content::Taken,
                    other => panic!("{other}"),
                },
                attempts_left: left.parse().unwrap(),
                resends_left: resends.parse().unwrap(),
            };
            let expected = match verdict {
                "elsewhere" => Verdict::Elsewhere,
                "same" => Verdict::SameServer,
                "502" => BAD,
                "504" => LATE,
                other => panic!("{other}"),
            };
            assert_eq!(decide(failed), expected, "{line}");
            cases += 1;
        }
        assert_eq!(cases, 46);
    }

    #[test]
    fn what_a_client_or_an_idle_connection_is_the_cause_of_tells_nothing_of_a_server() {
        use Failure::{Connect, Connection, Malformed, TimedOut, Unprocessed};
        for (failure, is_reused, sent, tells) in [
            (Connect, false, Sent::Nothing, true),
            (Connection, true, Sent::Some, false),
            (Connection, false, Sent::Some, true),
            (Unprocessed, true, Sent::Some, false),
            (Unprocessed, false, Sent::Some, true),
            (TimedOut, false, Sent::Some, true),
            (Malformed, false, Sent::Some, true),
            (Malformed, true, Sent::Nothing, false),
        ] {
            let failed = Failed {
                failure,
                is_reused,
                sent,
                has_begun: false,
                method: &Method::GET,
                content: Content::None,
                attempts_left: 0,
                resends_left: 0,
            };
            assert_eq!(tells_of_server(failed), tells, "{failed:?}");
        }
    }

    #[test]
    fn no_request_that_is_not_idempotent_and_was_sent_goes_twice() {
        use Content::{Kept, None, Taken, Untouched};
        use Failure::{Connection, Malformed, TimedOut};
        for failure in [Connection, TimedOut, Malformed] {
            for content in [None, Kept, Taken, Untouched] {
                for (is_reused, attempts_left) in [(false, 9), (true, 9), (true, 0)] {
                    for method in [Method::POST, Method::PATCH, Method::CONNECT] {
                        let verdict = decide(Failed {
                            failure,
                            is_reused,
                            sent: Sent::Some,
                            has_begun: false,
                            method: &method,
                            content,
                            attempts_left,
                            resends_left: 9,
                        });
                        assert!(
                            matches!(verdict, Verdict::Answer(_)),
                            "{method} {failure:?}"
                        );
                    }
                }
            }
        }
    }
}
