//! Heads of HTTP/1 requests, and the files behind them.
//!
//! Whatever is asked for, the answer is one of those that files have, it holds nothing from outside the
//! folder, and its fields say of its content what is true.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::LazyLock;

use altway_serve::{Body, ContentCoding, Files, FilesOptions};
use futures_util::FutureExt;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderName, LOCATION};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use tower_service::Service;

/// The fields of one request that hyper takes by default.
const MAX_FIELDS: usize = 100;

/// Lies beside the folder; nothing in the folder holds it.
const SECRET: &str = "SECRET";

/// The files of the folder.
const FILES: [(&str, &str); 9] = [
    ("index.html", "<p>home"),
    ("sub/index.html", "<p>below"),
    ("digits", "0123456789"),
    ("sp ace/a.css", "css {}"),
    ("nothing.bin", ""),
    ("%41", "percent"),
    ("page.html", "<p>page"),
    ("page.html.gz", "<p>as if compressed"),
    ("long", LONG),
];

/// Long enough for ranges that are not joined.
const LONG: &str = concat!(
    "one line of a text that is long enough for ranges which lie apart from each other\n",
    "another line of a text that is long enough for ranges which lie apart from each other\n",
    "the last line of a text that is long enough for ranges which lie apart from each other\n",
);

struct Site {
    _dir: tempfile::TempDir,
    /// Files as served by default, and with options.
    files: [Files; 2],
}

static SITE: LazyLock<Site> = LazyLock::new(|| Site::new().expect("a folder can be made"));

impl Site {
    fn new() -> std::io::Result<Self> {
        let dir = tempfile::tempdir()?;
        let site = dir.path().join("site");
        for folder in ["sub", "sp ace", "empty"] {
            fs::create_dir_all(site.join(folder))?;
        }
        fs::write(dir.path().join("secret"), SECRET)?;
        for (name, text) in FILES {
            fs::write(site.join(name), text)?;
        }
        for (target, link) in [("../secret", "out"), ("..", "up"), ("digits", "inside")] {
            symlink(target, site.join(link))?;
        }
        symlink(dir.path().join("secret"), site.join("absolute"))?;
        let plain = Files::open(&site).map_err(std::io::Error::other)?;
        let mut options = FilesOptions::default();
        options.fallback = Some("index.html".into());
        options.clean_urls = true;
        options.precompressed = ContentCoding::ALL.into();
        let other = Files::open_with(&site, options).map_err(std::io::Error::other)?;
        Ok(Self {
            _dir: dir,
            files: [plain, other],
        })
    }
}

/// The head of a request, as it comes over the wire.
pub fn run(input: &[u8]) {
    let Some(request) = parse(input) else {
        return;
    };
    let method = request.method().clone();
    for files in &SITE.files {
        let answer = files.clone().call(request.clone()).now_or_never();
        let Ok(response) = answer.expect("files don't wait");
        check(&method, response);
    }
}

fn parse(input: &[u8]) -> Option<Request<()>> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    head.parse(input).ok()?.is_complete().then_some(())?;
    let mut request = Request::builder().method(head.method?).uri(head.path?);
    for field in head.headers {
        request = request.header(field.name, field.value);
    }
    request.body(()).ok()
}

fn check(method: &Method, response: Response<Body>) {
    let (head, body) = response.into_parts();
    let body = body.collect().now_or_never().expect("files don't wait");
    let body = body.expect("no file changes").to_bytes();
    let field = |name: HeaderName| head.headers.get(name).map(|it| it.to_str().expect("ASCII"));
    let text = std::str::from_utf8(&body).expect("all files are text");
    assert!(!text.contains(SECRET), "out of the folder");
    let length = field(CONTENT_LENGTH).map(|it| it.parse().expect("a number"));
    match *method {
        Method::HEAD => assert!(body.is_empty(), "HEAD has no content"),
        _ => assert_eq!(length.unwrap_or(0), body.len(), "{}", head.status),
    }
    let range = field(CONTENT_RANGE);
    match head.status {
        StatusCode::OK => assert!(range.is_none() && is_file(text, method)),
        StatusCode::PARTIAL_CONTENT => match range {
            Some(range) => part(range, text),
            None => parts(field(CONTENT_TYPE).expect("RFC 9110 section 14.6"), text),
        },
        StatusCode::RANGE_NOT_SATISFIABLE => {
            assert!(range.is_some_and(|it| it.starts_with("bytes */")));
        }
        StatusCode::PERMANENT_REDIRECT => {
            let location = field(LOCATION).expect("a redirect has a target");
            // A name in the folder of the path that was asked for, wherever that is.
            let path = location
                .split('?')
                .next()
                .and_then(|it| it.strip_prefix("./"));
            let name = path.map(|it| it.strip_suffix('/').unwrap_or(it));
            assert!(name.is_some_and(|name| !name.contains('/')), "{location}");
        }
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => assert!(body.is_empty()),
        StatusCode::BAD_REQUEST
        | StatusCode::NOT_FOUND
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::PRECONDITION_FAILED => {}
        status => panic!("{status}"),
    }
}

fn is_file(text: &str, method: &Method) -> bool {
    *method == Method::HEAD || FILES.iter().any(|(_, content)| *content == text)
}

/// Checks that each of several parts is one of a file.
fn parts(kind: &str, text: &str) {
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=");
    let line = format!("\r\n--{}", boundary.expect("RFC 9110 section 14.6"));
    let text = format!("\r\n{text}");
    let mut pieces: Vec<_> = text.split(line.as_str()).collect();
    assert_eq!((pieces.remove(0), pieces.pop()), ("", Some("--\r\n")));
    assert!(pieces.len() > 1, "one is no list");
    for piece in pieces {
        let (head, content) = piece.split_once("\r\n\r\n").expect("a head");
        let (_, range) = head
            .split_once("Content-Range: ")
            .expect("RFC 9110 section 14.6");
        part(range, content);
    }
}

/// The bytes that Content-Range names are those of a file of that size.
fn part(range: &str, text: &str) {
    let span = range.strip_prefix("bytes ").expect("RFC 9110 section 14.4");
    let (span, size) = span.split_once('/').expect("a size");
    let (first, last) = span.split_once('-').expect("two places");
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let (first, last, size) = (number(first), number(last), number(size));
    let is_part = |content: &str| content.len() == size && content.get(first..=last) == Some(text);
    assert!(
        FILES.iter().any(|(_, content)| is_part(content)),
        "{range}: {text}"
    );
}
