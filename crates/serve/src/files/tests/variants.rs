//! Compressed forms that lie beside their sources.

use super::{Answer, Site};
use crate::ContentCoding;
use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, LAST_MODIFIED, VARY,
};
use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

const SOURCE: u64 = 1_700_000_000;

impl Site {
    /// `seconds`: since 1970.
    fn write_at(&self, name: &str, content: &str, seconds: f64) {
        self.write(name, content);
        let path = self.dir.path().join("site").join(name);
        let file = fs::File::options().append(true).open(path).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds);
        file.set_modified(time).unwrap();
    }

    pub(super) fn accepting(&self, path: &str, coding: &str) -> Answer {
        self.send("GET", path, &[("accept-encoding", coding)])
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn site() -> Site {
    let site = Site::new().with(|options| options.precompressed = ContentCoding::ALL.into());
    let source = SOURCE as f64;
    site.write_at("app.js", "the source", source + 0.5);
    site.write_at("app.js.br", "brotli", source);
    site.write_at("app.js.zst", "zstandard", source + 9.0);
    site.write_at("app.js.gz", "gz", source + 0.5);
    site.write_at("old.js", "the source", source);
    site.write_at("old.js.gz", "older", source - 1.0);
    site
}

#[test]
fn of_forms_that_a_client_likes_equally_the_first_of_the_options_is_sent() {
    use ContentCoding::{Brotli, Gzip, Zstd};
    for (order, first) in [
        ([Zstd, Brotli, Gzip], "zstd"),
        ([Gzip, Zstd, Brotli], "gzip"),
    ] {
        let site = site().with(|options| options.precompressed = order.into());
        let answer = site.accepting("/app.js", "gzip, deflate, br, zstd");
        assert_eq!(answer.header(CONTENT_ENCODING), first);
    }
}

#[test]
fn the_form_is_the_one_that_the_client_likes_best() {
    let site = site();
    for (accepted, body, coding) in [
        ("gzip, deflate, br, zstd", "brotli", "br"),
        ("zstd, gzip", "zstandard", "zstd"),
        ("gzip", "gz", "gzip"),
        ("gzip, br;q=0.9", "gz", "gzip"),
        ("br;q=0", "the source", ""),
        ("identity", "the source", ""),
        ("deflate", "the source", ""),
    ] {
        let answer = site.accepting("/app.js", accepted);
        assert_eq!(
            (answer.status, &*answer.body),
            (200, body.as_bytes()),
            "{accepted}"
        );
        assert_eq!(answer.header(CONTENT_ENCODING), coding, "{accepted}");
        assert_eq!(answer.header(CONTENT_LENGTH), body.len().to_string());
        assert_eq!(
            answer.header(CONTENT_TYPE),
            "text/javascript; charset=utf-8"
        );
        assert_eq!(answer.header(VARY), "accept-encoding");
    }
    let plain = site.get("/app.js");
    assert_eq!(plain.body, b"the source");
    assert_eq!(plain.header(VARY), "accept-encoding");
}

#[test]
fn each_form_has_a_strong_etag_of_its_own() {
    let site = site();
    let accepted = ["", "br", "zstd", "gzip"];
    let answers = accepted.map(|coding| site.accepting("/app.js", coding));
    for (at, answer) in answers.iter().enumerate() {
        let etag = answer.header(ETAG);
        assert!(etag.starts_with('"') && etag.ends_with(&format!("{}\"", accepted[at])));
        for (other, coding) in accepted.iter().enumerate() {
            let fields = [("accept-encoding", *coding), ("if-none-match", etag)];
            let again = site.send("GET", "/app.js", &fields);
            let status = if at == other { 304 } else { 200 };
            assert_eq!(again.status, status, "{etag} {coding}");
            assert_eq!(again.header(VARY), "accept-encoding");
            if status == 304 {
                assert_eq!(again.header(CONTENT_ENCODING), "");
                assert_eq!(again.header(ETAG), etag);
            }
        }
    }
}

#[test]
fn a_range_is_one_of_the_form_that_its_client_has() {
    let site = site();
    let brotli = site.accepting("/app.js", "br");
    let (etag, date) = (brotli.header(ETAG), brotli.header(LAST_MODIFIED));
    let ask = |coding, if_range: &str| {
        let fields = [
            ("accept-encoding", coding),
            ("range", "bytes=1-2"),
            ("if-range", if_range),
        ];
        site.send("GET", "/app.js", &fields)
    };
    let part = ask("br", etag);
    assert_eq!((part.status, &*part.body), (206, &b"ro"[..]));
    assert_eq!(part.header(CONTENT_RANGE), "bytes 1-2/6");
    assert_eq!(part.header(CONTENT_ENCODING), "br");
    assert_eq!(part.header(VARY), "accept-encoding");
    let other = ask("gzip", etag);
    assert_eq!(
        (other.status, &*other.body),
        (200, &b"gz"[..]),
        "another form: whole"
    );
    let by_date = ask("br", date);
    assert_eq!(by_date.status, 200, "the date says nothing of the form");
    let fields = [("accept-encoding", "gzip"), ("range", "bytes=5-")];
    let behind = site.send("GET", "/app.js", &fields);
    assert_eq!(
        (behind.status, behind.header(CONTENT_RANGE)),
        (416, "bytes */2")
    );
    assert_eq!(behind.header(VARY), "accept-encoding");
    assert_eq!(behind.header(CONTENT_ENCODING), "");
    let fields = [("accept-encoding", "br"), ("if-match", "\"x\"")];
    let failed = site.send("GET", "/app.js", &fields);
    assert_eq!(
        (failed.status, failed.header(VARY)),
        (412, "accept-encoding")
    );
}

#[test]
fn several_ranges_of_a_compressed_form_are_answered_with_all_of_it() {
    let site = site();
    for name in ["long.js", "long.js.gz"] {
        site.write(name, &"x".repeat(1000));
    }
    let ranges = ("range", "bytes=0-1,900-901");
    let plain = site.send("GET", "/long.js", &[ranges]);
    assert!(
        plain
            .header(CONTENT_TYPE)
            .starts_with("multipart/byteranges")
    );
    assert_eq!(plain.header(VARY), "accept-encoding");
    let gzip = site.send("GET", "/long.js", &[ranges, ("accept-encoding", "gzip")]);
    assert_eq!((gzip.status, gzip.body.len()), (200, 1000));
    assert_eq!(gzip.header(CONTENT_ENCODING), "gzip");
}

#[test]
fn what_is_older_than_its_source_or_no_file_is_no_form_of_it() {
    let site = site();
    let old = site.accepting("/old.js", "gzip");
    assert_eq!((&*old.body, old.header(VARY)), (&b"the source"[..], ""));
    let folder = site.dir.path().join("site");
    fs::create_dir(folder.join("digits.gz")).unwrap();
    symlink("../secret", folder.join("digits.br")).unwrap();
    let digits = site.accepting("/digits", "gzip, br");
    assert_eq!(
        (&*digits.body, digits.header(VARY)),
        (&b"0123456789"[..], "")
    );
    site.write("lonely.js.br", "x");
    assert_eq!(site.accepting("/lonely.js", "br").status, 404);
    let itself = site.accepting("/lonely.js.br", "br");
    assert_eq!((itself.status, itself.header(CONTENT_ENCODING)), (200, ""));
}

#[test]
fn forms_are_not_looked_for_unless_they_are_to_be_sent() {
    let site = site().with(|options| options.precompressed = vec![ContentCoding::Gzip]);
    assert_eq!(site.accepting("/app.js", "br, gzip").body, b"gz");
    let site = site.with(|options| options.precompressed = Vec::new());
    let answer = site.accepting("/app.js", "br, gzip");
    assert_eq!(
        (&*answer.body, answer.header(VARY)),
        (&b"the source"[..], "")
    );
}
