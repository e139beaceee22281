//! Compressed forms that are made when they are asked for.

use super::{Answer, Site};
use crate::{ContentCoding, HeaderRule};
use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, LAST_MODIFIED, VARY,
};
use std::io::Read;

fn text(lines: usize) -> String {
    (0..lines)
        .map(|at| format!("line {at} of a text\n"))
        .collect()
}

fn site() -> Site {
    let site = Site::new()
        .with(|options| options.compress = vec![ContentCoding::Brotli, ContentCoding::Gzip]);
    site.write("page.html", &text(1000));
    site.write("small.txt", &"x".repeat(255));
    site.write("picture.png", &text(1000));
    site
}

fn unpack(answer: &Answer) -> String {
    let mut plain = String::new();
    match answer.header(CONTENT_ENCODING) {
        "br" => {
            let mut bytes = Vec::new();
            brotli::BrotliDecompress(&mut &answer.body[..], &mut bytes).unwrap();
            plain = String::from_utf8(bytes).unwrap();
        }
        "zstd" => {
            let bytes = zstd::decode_all(&answer.body[..]).unwrap();
            plain = String::from_utf8(bytes).unwrap();
        }
        "gzip" => {
            let mut decoder = flate2::read::GzDecoder::new(&answer.body[..]);
            decoder.read_to_string(&mut plain).unwrap();
        }
        _ => plain.push_str(std::str::from_utf8(&answer.body).unwrap()),
    }
    plain
}

#[test]
fn text_is_compressed_as_its_client_takes_it() {
    let site = site();
    for (accepted, coding) in [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip", "gzip"),
        ("zstd, gzip;q=0.1", "gzip"),
        ("zstd", ""),
        ("identity", ""),
    ] {
        for time in ["first", "kept"] {
            let answer = site.accepting("/page.html", accepted);
            assert_eq!(answer.status, 200);
            assert_eq!(answer.header(CONTENT_ENCODING), coding, "{accepted} {time}");
            assert_eq!(answer.header(VARY), "accept-encoding");
            assert_eq!(answer.header(CONTENT_TYPE), "text/html; charset=utf-8");
            assert_eq!(answer.header(CONTENT_LENGTH), answer.body.len().to_string());
            let ranges = if coding.is_empty() { "bytes" } else { "none" };
            assert_eq!(answer.header(ACCEPT_RANGES), ranges);
            assert_eq!(unpack(&answer), text(1000));
            let head = site.send("HEAD", "/page.html", &[("accept-encoding", accepted)]);
            assert_eq!(head.headers, answer.headers);
        }
    }
}

#[test]
fn text_is_compressed_by_zstd_where_that_is_chosen() {
    let site = Site::new().with(|options| options.compress = ContentCoding::ALL.to_vec());
    let long = text(100_000);
    site.write("long.txt", &long);
    for (accepted, coding) in [
        ("zstd", "zstd"),
        ("zstd, gzip;q=0.1", "zstd"),
        ("gzip, br, zstd", "br"),
    ] {
        let answer = site.accepting("/long.txt", accepted);
        assert_eq!(answer.header(CONTENT_ENCODING), coding, "{accepted}");
        assert_eq!(answer.header(VARY), "accept-encoding");
        let tag = format!("-{coding}\"");
        assert!(answer.header(ETAG).ends_with(&tag), "{accepted}");
        assert!(answer.body.len() * 3 < long.len(), "{}", answer.body.len());
        assert_eq!(unpack(&answer), long);
    }
    // Of the frame's head: a window of 8 MB at most, which is what clients have to bear.
    let frame = site.accepting("/long.txt", "zstd").body;
    assert_eq!(frame[..4], [0x28, 0xb5, 0x2f, 0xfd]);
    let is_single_segment = frame[4] & 0x20 != 0;
    assert!(is_single_segment || 10 + (frame[5] >> 3) <= 23);
}

#[test]
fn each_form_has_its_own_tag_and_conditions_need_no_form() {
    let site = site();
    let plain = site.get("/page.html");
    let (etag, date) = (plain.header(ETAG), plain.header(LAST_MODIFIED));
    let brotli = format!("{}-br\"", etag.strip_suffix('"').unwrap());
    let ask = |name, value: &str| {
        site.send(
            "GET",
            "/page.html",
            &[("accept-encoding", "br"), (name, value)],
        )
    };
    for (name, value, status) in [
        ("if-none-match", &*brotli, 304),
        ("if-modified-since", date, 304),
        ("if-match", etag, 412),
        ("if-none-match", etag, 200),
        ("if-match", &brotli, 200),
    ] {
        let answer = ask(name, value);
        assert_eq!(answer.status, status, "{name} {value}");
        assert_eq!(
            (answer.header(ETAG), answer.header(VARY)),
            (&*brotli, "accept-encoding")
        );
        let coding = if status == 200 { "br" } else { "" };
        assert_eq!(answer.header(CONTENT_ENCODING), coding);
    }
    site.write("page.html", &text(500));
    let changed = site.accepting("/page.html", "br");
    assert_eq!(unpack(&changed), text(500));
    assert_ne!(changed.header(ETAG), brotli);
}

#[test]
fn what_gains_nothing_and_parts_are_sent_as_they_are() {
    let site = site();
    for path in ["/small.txt", "/picture.png", "/none", "/digits"] {
        let answer = site.accepting(path, "br, gzip");
        assert_eq!(
            (answer.header(CONTENT_ENCODING), answer.header(VARY)),
            ("", ""),
            "{path}"
        );
    }
    let (etag, _) = site.validators("/page.html");
    let brotli = site.accepting("/page.html", "br").header(ETAG).to_owned();
    for (if_range, status) in [("", 206), (&*etag, 206), (&*brotli, 200)] {
        let mut fields = vec![("accept-encoding", "br"), ("range", "bytes=0-3")];
        if !if_range.is_empty() {
            fields.push(("if-range", if_range));
        }
        let part = site.send("GET", "/page.html", &fields);
        assert_eq!(
            (part.status, part.header(ETAG)),
            (status, &*etag),
            "{if_range}"
        );
        assert_eq!(
            (part.header(CONTENT_ENCODING), part.header(VARY)),
            ("", "accept-encoding")
        );
        assert!(part.body.starts_with(b"line"));
    }
}

#[test]
fn what_must_not_be_transformed_is_not() {
    let site = site().with(|options| {
        options.compress = vec![ContentCoding::Brotli, ContentCoding::Gzip];
        options.headers =
            vec![HeaderRule::cache_control("*.html", "max-age=9, No-Transform").unwrap()];
    });
    let answer = site.accepting("/page.html", "br");
    assert_eq!(
        (answer.header(CONTENT_ENCODING), answer.header(VARY)),
        ("", "")
    );
    site.write("page.css", &text(100));
    assert_eq!(
        site.accepting("/page.css", "br").header(CONTENT_ENCODING),
        "br"
    );
}

#[test]
fn a_form_that_lies_beside_the_file_is_sent_before_one_is_made() {
    let site = site().with(|options| {
        options.compress = vec![ContentCoding::Brotli, ContentCoding::Gzip];
        options.precompressed = vec![ContentCoding::Gzip];
    });
    site.write("page.html.gz", "made ahead");
    let answer = site.accepting("/page.html", "gzip, br");
    assert_eq!(
        (answer.header(CONTENT_ENCODING), &*answer.body),
        ("gzip", &b"made ahead"[..])
    );
    assert_eq!(answer.header(ACCEPT_RANGES), "bytes");
    let answer = site.accepting("/page.html", "br, gzip;q=0.5");
    assert_eq!(
        (answer.header(CONTENT_ENCODING), unpack(&answer)),
        ("br", text(1000))
    );
}
