//! The DNS on a host's HTTP/3: its records of type HTTPS (RFC 9460), asked of the system's resolver.
//!
//! One question in one datagram (RFC 1035 section 4.2.1). What comes back is not trusted: every length is checked, and
//! an answer that can't be read is an error, never a record.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// The type of HTTPS records (RFC 9460 section 14.1) and the class of the Internet.
const HTTPS: u16 = 65;
const IN: u16 = 1;

/// Keys of a record's parameters (RFC 9460 section 14.3.2).
const ALPN: u16 = 1;

/// The length of a message's header (RFC 1035 section 4.1.1).
const HEADER: usize = 12;

/// Bytes of an answer that are taken: what EDNS offers (RFC 6891 section 6.2.3), without fragments on any path.
const ANSWER: u16 = 1_232;

/// Records that are read of one answer.
const MAX_RECORDS: u16 = 64;

/// Resolvers that are asked, and how long each may take.
const MAX_RESOLVERS: usize = 3;
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);

/// The port of the DNS.
const PORT: u16 = 53;

/// An HTTPS record as far as it decides a browser's protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpsRecord {
    /// 0 is an alias of another name (RFC 9460 section 2.4.2).
    pub(crate) priority: u16,
    /// Names of protocols (RFC 7301), such as `h3`.
    pub(crate) alpn: Vec<String>,
}

/// Reasons why nothing is known of a host's records.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookUpError {
    /// The resolver can't be asked, or did not answer.
    #[error("{resolver} does not answer")]
    Silent {
        /// The server that was asked last.
        resolver: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The resolver answers that it can't tell.
    #[error("{resolver} answers with the error {code}")]
    Refused {
        /// Resolver that answered.
        resolver: SocketAddr,
        /// The response's RCODE (RFC 1035 section 4.1.1).
        code: u8,
    },
    /// A response that can't be read.
    #[error("the answer of {0} can't be read")]
    Unreadable(SocketAddr),
}

/// The HTTPS records of `host`, a name in ASCII; empty where there is none, or no such host. Asked of the first of
/// the system's resolvers that answers, or of `resolver`.
///
/// # Errors
/// None of them tells.
pub(crate) fn look_up(
    host: &str,
    resolver: Option<SocketAddr>,
) -> Result<Vec<HttpsRecord>, LookUpError> {
    let resolvers = match resolver {
        Some(one) => vec![one],
        None => resolvers(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default()),
    };
    let mut failed = None;
    for resolver in resolvers {
        match ask(host, resolver) {
            Ok(records) => return Ok(records),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.expect("there is one resolver at least"))
}

/// The resolvers of a resolv.conf(5); the one of this host where it names none.
fn resolvers(text: &str) -> Vec<SocketAddr> {
    let named = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = (words.next() == Some("nameserver")).then(|| words.next())??;
        // An address with a zone can't be had from its text alone.
        address.parse::<IpAddr>().ok()
    });
    let mut found: Vec<SocketAddr> = named
        .take(MAX_RESOLVERS)
        .map(|address| (address, PORT).into())
        .collect();
    if found.is_empty() {
        found.push((Ipv4Addr::LOCALHOST, PORT).into());
    }
    found
}

fn ask(host: &str, resolver: SocketAddr) -> Result<Vec<HttpsRecord>, LookUpError> {
    let id = RandomState::new().hash_one(host) as u16;
    let question = question(host, id).ok_or(LookUpError::Unreadable(resolver))?;
    let answer =
        exchange(&question, resolver).map_err(|source| LookUpError::Silent { resolver, source })?;
    match read(&answer, &question) {
        Some(Answer::Records(records)) => Ok(records),
        Some(Answer::Error(code)) => Err(LookUpError::Refused { resolver, code }),
        None => Err(LookUpError::Unreadable(resolver)),
    }
}

/// Sends a question and waits for a datagram with its number.
fn exchange(question: &[u8], resolver: SocketAddr) -> io::Result<Vec<u8>> {
    let any: IpAddr = match resolver {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    // From here on the kernel drops what others send.
    socket.connect(resolver)?;
    socket.send(question)?;
    let deadline = Instant::now() + QUERY_TIMEOUT;
    let mut buffer = [0; ANSWER as usize];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let length = match socket.recv(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        };
        if buffer[..length].get(..2) == question.get(..2) {
            return Ok(buffer[..length].to_vec());
        }
    }
}

/// A question for the HTTPS records of `host`, with room for a long answer; `None` of what is no name.
fn question(host: &str, id: u16) -> Option<Vec<u8>> {
    const RECURSION_DESIRED: u16 = 0x0100;
    const OPT: u16 = 41;
    let mut message = Vec::new();
    for number in [id, RECURSION_DESIRED, 1, 0, 0, 1] {
        message.extend_from_slice(&number.to_be_bytes());
    }
    for label in host.trim_end_matches('.').split('.') {
        let length = u8::try_from(label.len())
            .ok()
            .filter(|it| (1..=63).contains(it))?;
        message.push(length);
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    for number in [HTTPS, IN] {
        message.extend_from_slice(&number.to_be_bytes());
    }
    // The root's name, OPT, the size, and neither flags nor options.
    message.push(0);
    for number in [OPT, ANSWER, 0, 0, 0] {
        message.extend_from_slice(&number.to_be_bytes());
    }
    Some(message)
}

/// The content of an answer.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Records(Vec<HttpsRecord>),
    /// An RCODE that is neither success nor "no such name".
    Error(u8),
}

/// Reads an answer to `question`. One that was cut off is read as far as it goes.
fn read(answer: &[u8], question: &[u8]) -> Option<Answer> {
    const NO_SUCH_NAME: u8 = 3;
    let mut reader = Reader {
        bytes: answer,
        at: 0,
    };
    let (id, flags) = (reader.u16()?, reader.u16()?);
    let is_answer = flags & 0x8000 != 0;
    if !is_answer || id.to_be_bytes() != *question.first_chunk::<2>()? {
        return None;
    }
    let (questions, answers) = (reader.u16()?, reader.u16()?);
    reader.at = HEADER;
    match (flags & 0x000f) as u8 {
        0 => {}
        NO_SUCH_NAME => return Some(Answer::Records(Vec::new())),
        code => return Some(Answer::Error(code)),
    }
    if questions != 1 {
        return None;
    }
    reader.name()?;
    if (reader.u16()?, reader.u16()?) != (HTTPS, IN) {
        return None;
    }
    let mut records = Vec::new();
    for _ in 0..answers.min(MAX_RECORDS) {
        reader.name()?;
        let (kind, class) = (reader.u16()?, reader.u16()?);
        reader.take(4)?;
        let length = reader.u16()?;
        let content = reader.take(length.into())?;
        if (kind, class) == (HTTPS, IN) {
            records.push(record(content)?);
        }
    }
    Some(Answer::Records(records))
}

/// A record's content (RFC 9460 section 2.2). Its target is never compressed.
fn record(content: &[u8]) -> Option<HttpsRecord> {
    let mut reader = Reader {
        bytes: content,
        at: 0,
    };
    let priority = reader.u16()?;
    reader.name()?;
    let mut alpn = Vec::new();
    while reader.at < content.len() {
        let (key, length) = (reader.u16()?, reader.u16()?);
        let value = reader.take(length.into())?;
        if key == ALPN {
            let mut names = Reader {
                bytes: value,
                at: 0,
            };
            while names.at < value.len() {
                let length = names.u8()?;
                let name = names.take(length.into())?;
                alpn.push(name.escape_ascii().to_string());
            }
        }
    }
    Some(HttpsRecord { priority, alpn })
}

/// Bytes, and how far they are read.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|one| one[0])
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|two| u16::from_be_bytes([two[0], two[1]]))
    }

    /// Goes past a name: labels, and a zero or a pointer at their end (RFC 1035 section 4.1.4). Where the pointer
    /// leads does not matter here.
    fn name(&mut self) -> Option<()> {
        loop {
            match self.u8()? {
                0 => return Some(()),
                length @ 1..=63 => {
                    self.take(length.into())?;
                }
                0xc0.. => return self.take(1).map(|_| ()),
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: u16 = 0x1234;

    /// An answer with these contents of HTTPS records, after a CNAME.
    fn answer(code: u16, contents: &[&[u8]]) -> Vec<u8> {
        let asked = question("www.example.org.", ID).unwrap();
        let count = contents.len() as u16 + 1;
        let mut message = Vec::new();
        for number in [ID, 0x8180 | code, 1, count, 0, 0] {
            message.extend_from_slice(&number.to_be_bytes());
        }
        message.extend_from_slice(&asked[HEADER..asked.len() - 11]);
        let mut add = |kind: u16, content: &[u8]| {
            message.extend_from_slice(&[0xc0, 12]);
            message.extend_from_slice(&kind.to_be_bytes());
            message.extend_from_slice(&[0, 1, 0, 0, 1, 44]);
            message.extend_from_slice(&(content.len() as u16).to_be_bytes());
            message.extend_from_slice(content);
        };
        add(5, &[1, b'a', 0xc0, 16]);
        for content in contents {
            add(HTTPS, content);
        }
        message
    }

    fn read_here(answer: &[u8]) -> Option<Answer> {
        read(answer, &question("www.example.org", ID).unwrap())
    }

    /// `1 . alpn="h3,h2" port=8443`.
    const WITH_H3: &[u8] = &[
        0, 1, 0, 0, 1, 0, 6, 2, b'h', b'3', 2, b'h', b'2', 0, 3, 0, 2, 0x20, 0xfb,
    ];

    #[test]
    fn a_question_is_a_name_its_type_and_room_for_the_answer() {
        let asked = question("a.bc.", 0x0102).unwrap();
        let expected: &[u8] = &[
            1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, b'a', 2, b'b', b'c', 0, 0, 65, 0, 1, 0, 0, 41,
            4, 0xd0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(asked, expected);
        assert_eq!(question("a..b", 1), None);
    }

    #[test]
    fn records_say_their_protocols() {
        let Some(Answer::Records(records)) = read_here(&answer(0, &[WITH_H3, &[0, 0, 0]])) else {
            panic!("an answer");
        };
        let alpn = vec!["h3".to_owned(), "h2".into()];
        assert_eq!(records[0], HttpsRecord { priority: 1, alpn });
        assert_eq!(
            records[1],
            HttpsRecord {
                priority: 0,
                alpn: vec![]
            }
        );
        assert_eq!(read_here(&answer(0, &[])), Some(Answer::Records(vec![])));
    }

    #[test]
    fn no_such_name_is_no_record_and_a_failure_is_none_of_both() {
        assert_eq!(read_here(&answer(3, &[])), Some(Answer::Records(vec![])));
        assert_eq!(read_here(&answer(2, &[])), Some(Answer::Error(2)));
    }

    #[test]
    fn what_is_cut_off_anywhere_is_not_read() {
        let whole = answer(0, &[WITH_H3]);
        for length in 0..whole.len() {
            assert_eq!(read_here(&whole[..length]), None, "{length}");
        }
        let mut strange = whole;
        strange[0] ^= 1;
        assert_eq!(read_here(&strange), None, "of another question");
        for long in [
            &[0, 1, 0, 0, 1, 0, 3, 9, b'h', b'3'][..],
            &[0, 1, 0, 0, 1, 0, 9, 1],
            &[0],
        ] {
            assert_eq!(read_here(&answer(0, &[long])), None, "{long:?}");
        }
    }

    #[test]
    fn resolvers_are_those_of_the_file_or_this_host() {
        let text = "# comment\nsearch a.test\nnameserver 192.0.2.1\nnameserver  ::1\nnameserver fe80::1%eth0\n";
        let found: Vec<_> = resolvers(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.0.2.1:53", "[::1]:53"]);
        assert_eq!(resolvers("")[0].to_string(), "127.0.0.1:53");
        assert_eq!(
            resolvers(&"nameserver 192.0.2.1\n".repeat(9)).len(),
            MAX_RESOLVERS
        );
    }

    #[test]
    fn a_resolver_is_asked_over_udp() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = server.local_addr().unwrap();
        let answering = std::thread::spawn(move || {
            let mut buffer = [0; 512];
            let (_, client) = server.recv_from(&mut buffer).unwrap();
            let mut reply = answer(0, &[WITH_H3]);
            // One with another number is not taken for it.
            reply[..2].copy_from_slice(&[!buffer[0], buffer[1]]);
            server.send_to(&reply, client).unwrap();
            reply[..2].copy_from_slice(&buffer[..2]);
            server.send_to(&reply, client).unwrap();
        });
        let records = look_up("www.example.org", Some(address)).unwrap();
        answering.join().unwrap();
        assert_eq!(records[0].alpn, ["h3", "h2"]);
    }
}
