//! Requests against a real directory, with what shouldn't be reachable beside and inside of it.

use super::represent::content_type;
use super::*;
use futures_util::FutureExt;
use http::header::{
    CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, LAST_MODIFIED, LOCATION,
};
use http_body_util::BodyExt;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::time::Duration;

struct Site {
    dir: tempfile::TempDir,
    files: Files,
}

/// An answer, read to its end.
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: HeaderName) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

impl Site {
    /// `site/` is served; `secret` lies beside it.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let site = dir.path().join("site");
        for folder in ["sub", "empty", "sp ace", ".well-known"] {
            fs::create_dir_all(site.join(folder)).unwrap();
        }
        for (name, text) in [
            ("../secret", "secret"),
            ("index.html", "<p>home"),
            ("sub/index.html", "<p>sub"),
            ("digits", "0123456789"),
            ("a.txt", "text"),
            ("sp ace/ä.css", "css"),
            ("nothing.bin", ""),
            (".hidden", "hidden"),
            (".well-known/contact", "contact"),
            ("sub/.hidden", "hidden"),
            ("%41", "percent"),
        ] {
            fs::write(site.join(name), text).unwrap();
        }
        symlink("../secret", site.join("out")).unwrap();
        symlink(dir.path().join("secret"), site.join("out-absolute")).unwrap();
        symlink("..", site.join("up")).unwrap();
        symlink("a.txt", site.join("inside")).unwrap();
        symlink("loop", site.join("loop")).unwrap();
        let fifo = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, site.join("fifo"), kind, fifo, 0).unwrap();
        UnixListener::bind(site.join("socket")).unwrap();
        let files = Files::open(&site).unwrap();
        Self { dir, files }
    }

    fn send(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let later = SystemTime::now() + Duration::from_secs(10);
        let reply = self.files.respond(&request.body(()).unwrap(), later);
        let response = match reply {
            Reply::Now(response) => response,
            Reply::Later(response) => {
                let runtime = tokio::runtime::Builder::new_current_thread().build();
                runtime.unwrap().block_on(response)
            }
        };
        let (head, body) = response.into_parts();
        let body = body.collect().now_or_never().expect("files don't wait");
        let bytes = body.unwrap().to_bytes().to_vec();
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: bytes,
        }
    }

    fn get(&self, target: &str) -> Answer {
        self.send("GET", target, &[])
    }

    fn validators(&self, target: &str) -> (String, String) {
        let answer = self.send("HEAD", target, &[]);
        (
            answer.header(ETAG).into(),
            answer.header(LAST_MODIFIED).into(),
        )
    }
}

#[test]
fn each_path_gets_its_status_and_body() {
    let site = Site::new();
    for (target, status, body) in [
        ("/", 200, "<p>home"),
        ("/index.html", 200, "<p>home"),
        ("/?query=..%2F", 200, "<p>home"),
        ("/sub/", 200, "<p>sub"),
        ("//sub//index.html", 200, "<p>sub"),
        ("/sp%20ace/%C3%A4.css", 200, "css"),
        ("/inside", 200, "text"),
        ("/.well-known/contact", 200, "contact"),
        ("/%2541", 200, "percent"),
        ("/nothing.bin", 200, ""),
        ("http://altway.test/a.txt", 200, "text"),
    ] {
        let answer = site.get(target);
        assert_eq!(
            (answer.status, answer.body.as_slice()),
            (status, body.as_bytes()),
            "{target}"
        );
    }
    for (target, status) in [
        ("/none", 404),
        ("/empty/", 404),
        ("/a.txt/", 404),
        ("/a.txt/b", 404),
        ("/index.html/../a.txt", 400),
        ("/%zz", 400),
        ("/%", 400),
    ] {
        assert_eq!(site.get(target).status, status, "{target}");
    }
    let long = format!("/{}", "x".repeat(5000));
    assert_eq!(site.get(&long).status, 404);
}

#[test]
fn nothing_leads_out_of_the_directory() {
    let site = Site::new();
    for target in [
        "/../secret",
        "/%2e%2e/secret",
        "/%2E%2E%2Fsecret",
        "/..%2fsecret",
        "/..%5csecret",
        "/sub/../../secret",
        "/sub/%2e%2e/%2e%2e/secret",
        "/.%2e/secret",
        "/%252e%252e/secret",
        "/%2fetc/passwd",
        "//etc/passwd",
        "/out",
        "/out-absolute",
        "/up/secret",
        "/up/site/a.txt",
        "/sub/..%00/",
        "/a.txt%00",
        "/%00",
    ] {
        let answer = site.get(target);
        assert!(
            matches!(answer.status, 400 | 404),
            "{target}: {}",
            answer.status
        );
        assert!(
            !answer.body.windows(6).any(|bytes| bytes == b"secret"),
            "{target}"
        );
    }
}

#[test]
fn what_is_no_file_is_not_found_and_blocks_nobody() {
    let site = Site::new();
    for target in ["/fifo", "/socket", "/loop"] {
        assert_eq!(site.get(target).status, 404, "{target}");
    }
}

#[test]
fn a_directory_without_its_slash_redirects_to_it_on_this_host() {
    let site = Site::new();
    for (target, location) in [
        ("/sub", "/sub/"),
        ("/sub?a=b", "/sub/?a=b"),
        ("//sub", "/sub/"),
        ("/sp%20ace", "/sp%20ace/"),
        ("/sub?a\u{d9}=\u{20ac}", "/sub/?a%C3%99=%E2%82%AC"),
    ] {
        let answer = site.get(target);
        assert_eq!(
            (answer.status, answer.header(LOCATION)),
            (308, location),
            "{target}"
        );
    }
}

#[test]
fn content_types_follow_the_extension() {
    let site = Site::new();
    for (target, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/a.txt", "text/plain; charset=utf-8"),
        ("/sp%20ace/%C3%A4.css", "text/css; charset=utf-8"),
        ("/nothing.bin", "application/octet-stream"),
        ("/digits", "application/octet-stream"),
    ] {
        assert_eq!(site.get(target).header(CONTENT_TYPE), kind, "{target}");
    }
    assert_eq!(
        content_type(Path::new("a.js")),
        "text/javascript; charset=utf-8"
    );
    assert_eq!(content_type(Path::new("a.png")), "image/png");
}

#[test]
fn head_says_what_get_would_without_the_body() {
    let site = Site::new();
    for target in ["/digits", "/none", "/sub", "/%zz"] {
        let (head, get) = (site.send("HEAD", target, &[]), site.get(target));
        assert_eq!(
            (head.status, &head.headers),
            (get.status, &get.headers),
            "{target}"
        );
        assert!(head.body.is_empty(), "{target}");
    }
    assert_eq!(
        site.send("HEAD", "/digits", &[]).header(CONTENT_LENGTH),
        "10"
    );
}

#[test]
fn other_methods_are_refused_with_those_allowed() {
    let site = Site::new();
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"] {
        let answer = site.send(method, "/a.txt", &[]);
        assert_eq!(answer.status, 405, "{method}");
        assert_eq!(
            answer.header(header::ALLOW),
            "GET, HEAD, OPTIONS",
            "{method}"
        );
    }
    let options = site.send("OPTIONS", "*", &[]);
    assert_eq!((options.status, options.body.len()), (204, 0));
    assert_eq!(options.header(header::ALLOW), "GET, HEAD, OPTIONS");
}

#[test]
fn conditions_are_evaluated_in_the_order_of_the_rfc() {
    let site = Site::new();
    let (etag, date) = site.validators("/digits");
    let (etag, date) = (etag.as_str(), date.as_str());
    let weak = format!("W/{etag}");
    let list = format!("\"x\", {etag}");
    let (weak, list) = (weak.as_str(), list.as_str());
    let (old, new) = (
        "Sat, 01 Jan 2000 00:00:00 GMT",
        "Fri, 01 Jan 2100 00:00:00 GMT",
    );
    let check = |headers: &[(&str, &str)], status: u16| {
        let answer = site.send("GET", "/digits", headers);
        assert_eq!(answer.status, status, "{headers:?}");
        assert_eq!(answer.header(ETAG), etag, "{headers:?}");
        let has_body = status == 200 || status == 412;
        assert_eq!(!answer.body.is_empty(), has_body, "{headers:?}");
    };
    check(&[("if-match", etag)], 200);
    check(&[("if-match", "*")], 200);
    check(&[("if-match", list)], 200);
    check(&[("if-match", weak)], 412);
    check(&[("if-match", "\"x\"")], 412);
    check(&[("if-match", "garbage")], 412);
    check(&[("if-unmodified-since", old)], 412);
    check(&[("if-unmodified-since", date)], 200);
    check(&[("if-unmodified-since", "garbage")], 200);
    check(&[("if-none-match", etag)], 304);
    check(&[("if-none-match", weak)], 304);
    check(&[("if-none-match", list)], 304);
    check(&[("if-none-match", "\"x\""), ("if-none-match", etag)], 304);
    check(&[("if-none-match", "*")], 304);
    check(&[("if-none-match", "\"x\"")], 200);
    check(&[("if-modified-since", date)], 304);
    check(&[("if-modified-since", new)], 304);
    check(&[("if-modified-since", old)], 200);
    check(&[("if-modified-since", "garbage")], 200);
    // Precedence: If-Match over If-Unmodified-Since, If-None-Match over If-Modified-Since, and the
    // first pair over the second.
    check(&[("if-match", etag), ("if-unmodified-since", old)], 200);
    check(
        &[("if-none-match", "\"x\""), ("if-modified-since", date)],
        200,
    );
    check(&[("if-match", "\"x\""), ("if-none-match", etag)], 412);
    check(&[("if-match", etag), ("if-none-match", etag)], 304);
    check(&[("if-none-match", etag), ("range", "bytes=0-1")], 304);
}

#[test]
fn a_single_range_is_a_part_and_everything_else_the_whole() {
    let site = Site::new();
    let check = |range: &str, status: u16, body: &str, content_range: &str| {
        let answer = site.send("GET", "/digits", &[("range", range)]);
        assert_eq!(answer.status, status, "{range}");
        assert_eq!(answer.header(CONTENT_RANGE), content_range, "{range}");
        if status != 416 {
            assert_eq!(answer.body, body.as_bytes(), "{range}");
            assert_eq!(
                answer.header(CONTENT_LENGTH),
                body.len().to_string(),
                "{range}"
            );
        }
    };
    check("bytes=2-4", 206, "234", "bytes 2-4/10");
    check("bytes=8-", 206, "89", "bytes 8-9/10");
    check("bytes=-3", 206, "789", "bytes 7-9/10");
    check("bytes=0-99", 206, "0123456789", "bytes 0-9/10");
    check("bytes=10-", 416, "", "bytes */10");
    check("bytes=-0", 416, "", "bytes */10");
    check("bytes=4-2", 200, "0123456789", "");
    check("bytes=0-1,3-4", 206, "01234", "bytes 0-4/10");
    check("bytes=0-1,4-3", 200, "0123456789", "");
    check("lines=0-1", 200, "0123456789", "");
    let head = site.send("HEAD", "/digits", &[("range", "bytes=2-4")]);
    assert_eq!((head.status, head.header(CONTENT_LENGTH)), (200, "10"));
    let empty = site.send("GET", "/nothing.bin", &[("range", "bytes=0-")]);
    assert_eq!(empty.status, 200);
}

#[test]
fn if_range_needs_a_strong_match() {
    let site = Site::new();
    let (etag, date) = site.validators("/digits");
    let weak = format!("W/{etag}");
    for (value, status) in [
        (etag.as_str(), 206),
        (weak.as_str(), 200),
        ("\"x\"", 200),
        (date.as_str(), 206),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 200),
        ("garbage", 200),
    ] {
        let headers = [("range", "bytes=0-1"), ("if-range", value)];
        assert_eq!(
            site.send("GET", "/digits", &headers).status,
            status,
            "{value}"
        );
    }
    let headers = [("range", "bytes=99-"), ("if-range", "\"x\"")];
    assert_eq!(
        site.send("GET", "/digits", &headers).status,
        200,
        "no 416 either"
    );
}

#[test]
fn a_date_is_no_strong_validator_within_its_second() {
    let site = Site::new();
    let opened = site
        .files
        .served()
        .root
        .open_file(Path::new("digits"))
        .unwrap();
    let validators = |now| Validators::of(opened.traits(), now);
    let modified = validators(SystemTime::now()).modified;
    assert!(!validators(modified + Duration::from_millis(999)).is_date_strong());
    assert!(validators(modified + Duration::from_secs(1)).is_date_strong());
}

#[test]
fn a_file_from_the_future_is_not_said_to_be_newer_than_its_response() {
    let site = Site::new();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let modified = |time| {
        let file = fs::File::options()
            .write(true)
            .open(site.dir.path().join("site/digits"));
        file.unwrap().set_modified(time).unwrap();
        let opened = site
            .files
            .served()
            .root
            .open_file(Path::new("digits"))
            .unwrap();
        Validators::of(opened.traits(), now).modified
    };
    assert_eq!(modified(now + Duration::from_secs(1)), now);
    let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    assert_eq!(modified(before), SystemTime::UNIX_EPOCH);
}

#[test]
fn the_directory_s_own_404_page_is_used_when_there_is_one() {
    let site = Site::new();
    assert!(
        String::from_utf8(site.get("/none").body)
            .unwrap()
            .contains("404 Not Found")
    );
    fs::write(site.dir.path().join("site/404.html"), "own").unwrap();
    let answer = site.get("/none");
    assert_eq!(
        (answer.status, answer.body.as_slice()),
        (404, b"own".as_slice())
    );
    assert_eq!(
        site.send("GET", "/none", &[("range", "bytes=0-0")]).status,
        404
    );
}

#[test]
fn a_changed_file_has_another_etag() {
    let site = Site::new();
    let (before, _) = site.validators("/a.txt");
    fs::write(site.dir.path().join("site/a.txt"), "longer text").unwrap();
    assert_ne!(site.validators("/a.txt").0, before);
}

#[test]
fn a_root_that_the_user_cannot_enter_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let site = dir.path().join("site");
    fs::create_dir(&site).unwrap();
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(dir.path(), 0o755);
    set_mode(&site, 0o600);
    let as_user = move || {
        if rustix::process::geteuid().is_root() {
            let nobody = rustix::fs::Uid::from_raw(65_534);
            // Of this thread alone.
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        Files::open(&site).unwrap_err().to_string()
    };
    let said = std::thread::spawn(as_user).join().unwrap();
    assert!(said.starts_with("cannot open the directory"), "{said}");
}

#[test]
fn a_root_that_is_missing_or_a_file_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let missing = Files::open(dir.path().join("none")).unwrap_err();
    assert!(
        missing.to_string().starts_with("cannot open the directory"),
        "{missing}"
    );
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let file = Files::open(&file).unwrap_err();
    assert!(file.to_string().ends_with("is not a directory"), "{file}");
}

#[test]
fn hidden_files_are_as_if_missing_unless_they_are_asked_to_be_served() {
    let site = Site::new();
    for path in ["/.hidden", "/%2ehidden", "/sub/.hidden", "/.none"] {
        assert_eq!(site.get(path).status, 404, "{path}");
        assert_eq!(site.get(path).body, site.get("/none").body, "{path}");
    }
    let mut cache = FileCache::new(1 << 20, 10);
    let now = Instant::now();
    assert!(cache.find_any(&site.files, b"/a.txt", now).is_some());
    assert!(cache.find_any(&site.files, b"/%2ehidden", now).is_none());
    let site = Site {
        files: site.files.with_hidden(),
        ..site
    };
    for path in ["/.hidden", "/%2ehidden", "/sub/.hidden"] {
        assert_eq!(site.get(path).body, b"hidden", "{path}");
    }
    assert_eq!(site.get("/.none").status, 404);
    assert!(cache.find_any(&site.files, b"/.hidden", now).is_some());
}

mod compress;
mod listing;
mod options;
mod ranges;
mod variants;
