//! Several ranges in one request.

use super::{Answer, Reply, Site};
use crate::HeaderRule;
use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG};

const SIZE: usize = 100_000;

fn content() -> String {
    (0..SIZE)
        .map(|at| char::from(b'a' + (at % 23) as u8))
        .collect()
}

/// The parts of a content: fields and bytes.
fn parts(answer: &Answer) -> Vec<(String, Vec<u8>)> {
    let kind = answer.header(CONTENT_TYPE);
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .expect(kind);
    let body = String::from_utf8(answer.body.clone()).unwrap();
    let body = format!("\r\n{body}");
    let line = format!("\r\n--{boundary}");
    let mut pieces = body.split(&line);
    assert_eq!(pieces.next(), Some(""), "no preamble");
    let mut pieces: Vec<_> = pieces.collect();
    assert_eq!(pieces.pop(), Some("--\r\n"), "and no epilogue");
    let parts = pieces.into_iter().map(|piece| {
        let (head, bytes) = piece
            .strip_prefix("\r\n")
            .unwrap()
            .split_once("\r\n\r\n")
            .unwrap();
        (head.to_owned(), bytes.as_bytes().to_vec())
    });
    parts.collect()
}

#[test]
fn several_ranges_are_parts_of_one_content() {
    let site = Site::new().with(|options| {
        options.headers = vec![HeaderRule::new("*.dat", "content-type", "text/x").unwrap()];
    });
    let content = content();
    site.write("a.dat", &content);
    let spans = [(60_000, 99_999), (0, 0), (500, 50_000)];
    let list: Vec<_> = spans
        .iter()
        .map(|(first, last)| format!("{first}-{last}"))
        .collect();
    let range = format!("bytes={}", list.join(", "));
    let answer = site.send("GET", "/a.dat", &[("range", &range)]);
    assert_eq!(answer.status, 206);
    assert_eq!(answer.header(CONTENT_LENGTH), answer.body.len().to_string());
    assert_eq!(answer.header(CONTENT_RANGE), "");
    assert_eq!(answer.header(ACCEPT_RANGES), "bytes");
    let parts = parts(&answer);
    assert_eq!(parts.len(), spans.len());
    for ((head, bytes), (first, last)) in parts.iter().zip(spans) {
        let expected =
            format!("Content-Type: text/x\r\nContent-Range: bytes {first}-{last}/{SIZE}");
        assert_eq!(*head, expected);
        assert!(bytes == &content.as_bytes()[first..=last], "{first}-{last}");
    }
    let again = site.send("GET", "/a.dat", &[("range", &range)]);
    assert!(again.body == answer.body, "the same each time");
    let fields = [("range", range.as_str()), ("if-range", answer.header(ETAG))];
    assert_eq!(site.send("GET", "/a.dat", &fields).body, answer.body);
    let fields = [("range", range.as_str()), ("if-range", "\"x\"")];
    let whole = site.send("GET", "/a.dat", &fields);
    assert_eq!((whole.status, whole.body.len()), (200, SIZE));
    let head = site.send("HEAD", "/a.dat", &[("range", &range)]);
    assert_eq!((head.status, head.header(CONTENT_LENGTH)), (200, "100000"));
}

#[test]
fn many_ranges_cost_no_more_than_the_whole() {
    let site = Site::new();
    site.write("a.dat", &content());
    let many: Vec<_> = (0..1000).map(|at| format!("{at}-{at}")).collect();
    let range = format!("bytes={}", many.join(","));
    let answer = site.send("GET", "/a.dat", &[("range", &range)]);
    assert_eq!((answer.status, answer.body.len()), (200, SIZE));
    let overlapping = format!("bytes={}", ["0-"; 16].join(","));
    let answer = site.send("GET", "/a.dat", &[("range", &overlapping)]);
    assert_eq!(
        (answer.status, answer.header(CONTENT_RANGE)),
        (206, "bytes 0-99999/100000")
    );
    assert_eq!(answer.body.len(), SIZE);
}

#[test]
fn a_file_that_changes_between_two_parts_is_cut_off() {
    use http_body_util::BodyExt;
    let site = Site::new();
    site.write("a.dat", &content());
    let request = http::Request::get("/a.dat").header("range", "bytes=0-9,90000-90009");
    let now = std::time::SystemTime::now();
    let reply = site.files.respond(&request.body(()).unwrap(), now);
    let Reply::Now(response) = reply else {
        panic!("files that are there are not waited for");
    };
    let mut body = response.into_body();
    let frame = |body: &mut crate::Body| {
        use futures_util::FutureExt;
        body.frame().now_or_never().unwrap().unwrap()
    };
    assert!(frame(&mut body).is_ok(), "the first head");
    assert!(frame(&mut body).is_ok(), "the first part");
    site.write("a.dat", "short");
    assert!(frame(&mut body).is_ok(), "the second head");
    assert!(frame(&mut body).is_err());
}
