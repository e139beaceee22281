//! One way for files with every option on: forms of a file, listings, fallback, clean URLs, error pages, fields,
//! several ranges have the same answers over every protocol, from the cache or not.

use super::one_way::{Answer, By, CHANGED, Case, TIMES, case, check_one_way, with};
use crate::common::h3::H3;
use crate::common::{Running, get, h1, h2, soon};
use altway_serve::{ContentCoding, Files, FilesOptions, HeaderRule, Site};
use bytes::Bytes;
use http::Method;
use http_body_util::{BodyExt, Empty};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Two pages of text, so that there is something to compress.
fn text() -> String {
    (0..4000).map(|at| format!("line {at}\n")).collect()
}

/// Text whose compressed forms are too large to be sent at once.
fn large_text() -> String {
    let mut state: u64 = 1;
    let mut letter = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'a' + (state >> 60) as u8)
    };
    (0..200_000).map(|_| letter()).collect()
}

fn make(folder: &Path) {
    let changed = UNIX_EPOCH + Duration::from_secs(CHANGED);
    let write = |name: &str, content: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let file = fs::File::options().append(true).open(&path).unwrap();
        file.set_modified(changed).unwrap();
    };
    write("index.html", "<p>home");
    write("about.html", "<p>about");
    write("sub/home.htm", "<p>sub");
    write("sub/page.html", "<p>page");
    write("errors/404.html", "<p>not here");
    write("errors/405.html", "<p>not so");
    write("app.js", "let app;");
    write("app.js.br", "app as br");
    write("app.js.zst", "app as zstd");
    write("app.js.gz", "app as gzip");
    write("assets/large.css", &text());
    write("assets/large.css.gz", &text().repeat(2));
    write("text.txt", &text());
    write("large.txt", &large_text());
    write("short.txt", "short");
    write("keep.xml", &text());
    write("picture.png", &text());
    write("bare/\u{e4} <b>&.txt", "x");
    write("bare/.hidden", "secret");
    write("bare/inner/x", "x");
    write(".hidden", "secret");
    std::os::unix::fs::symlink("../../..", folder.join("bare/out")).unwrap();
    std::os::unix::fs::symlink("../app.js", folder.join("bare/inside")).unwrap();
    // Listings tell when folders were changed.
    for name in ["bare/inner", "bare", "sub", "errors", "assets"] {
        let folder = fs::File::open(folder.join(name)).unwrap();
        folder.set_modified(changed).unwrap();
    }
}

fn options() -> FilesOptions {
    let mut options = FilesOptions::default();
    options.index = vec!["index.html".into(), "home.htm".into()];
    options.fallback = Some("/index.html".into());
    options.clean_urls = true;
    options.listing = true;
    options.compress = vec![ContentCoding::Brotli, ContentCoding::Gzip];
    options.precompressed = ContentCoding::ALL.into();
    options.error_pages = vec![
        (404, "errors/404.html".into()),
        (405, "errors/405.html".into()),
        (400, "errors/none.html".into()),
    ];
    options.headers = vec![
        HeaderRule::always("x-content-type-options", "nosniff").unwrap(),
        HeaderRule::cache_control("*.html", "no-cache").unwrap(),
        HeaderRule::cache_control("/assets/*", "max-age=31536000, immutable").unwrap(),
        HeaderRule::cache_control("/keep.xml", "no-transform").unwrap(),
        HeaderRule::new("*.txt", "content-type", "text/x-own").unwrap(),
        HeaderRule::new("*.js", "vary", "origin").unwrap(),
        HeaderRule::new("/short.txt", "server", "own").unwrap(),
    ];
    options
}

const PATHS: [&str; 29] = [
    "/",
    "/index.html",
    "/index.html?q",
    "/about",
    "/about?q=1",
    "/about.html",
    "/about.html?q=1",
    "/about/",
    "/sub",
    "/sub?q",
    "/sub/",
    "/sub/page",
    "/sub/home.htm",
    "/app.js",
    "/app.js.br",
    "/assets/large.css",
    "/text.txt",
    "/large.txt",
    "/short.txt",
    "/keep.xml",
    "/picture.png",
    "/bare/",
    "//bare//",
    "/bare/inside",
    "/bare/out/",
    "/.hidden",
    "/deep/link",
    "/assets/none.css",
    "/%zz",
];

const CODINGS: [&str; 9] = [
    "gzip, deflate, br, zstd",
    "gzip",
    "zstd",
    "br;q=0.1, gzip;q=0.2",
    "identity;q=0, br",
    "*;q=0.5, br;q=0",
    "*;q=0",
    "X-Gzip;q=1.0",
    "gzip;q=2, br;x",
];

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for path in PATHS {
        for method in [Method::GET, Method::HEAD] {
            cases.push(case(method, path));
        }
        cases.push(with(path, &[("accept-encoding", CODINGS[0])]));
    }
    for path in ["/app.js", "/text.txt", "/assets/large.css", "/bare/"] {
        cases.extend(CODINGS.map(|coding| with(path, &[("accept-encoding", coding)])));
        let two = [("accept-encoding", "gzip"), ("accept-encoding", "br")];
        cases.push(with(path, &two));
        for range in [
            "bytes=0-3",
            "bytes=0-3,-2",
            "bytes=999999-",
            "bytes=0-1,0-1",
        ] {
            cases.push(with(path, &[("range", range)]));
            cases.push(with(
                path,
                &[("range", range), ("accept-encoding", "br, gzip")],
            ));
        }
        for condition in ["if-none-match", "if-match"] {
            for value in ["*", "\"x\""] {
                cases.push(with(path, &[(condition, value), ("accept-encoding", "br")]));
            }
        }
        let date = "Tue, 14 Nov 2023 22:13:20 GMT";
        cases.push(with(
            path,
            &[("if-modified-since", date), ("accept-encoding", "br")],
        ));
        cases.push(with(path, &[("if-range", date), ("range", "bytes=0-0")]));
    }
    for accept in [
        "application/json",
        "text/html",
        "*/*",
        "application/json;q=0.1, text/html",
    ] {
        for path in ["/bare/", "/bare/inner/", "/sub/", "/none/"] {
            cases.push(with(path, &[("accept", accept)]));
        }
    }
    for mode in ["navigate", "no-cors", "cors"] {
        for path in ["/deep/link", "/assets/none.css", "/app.js", "/.hidden"] {
            cases.push(with(path, &[("sec-fetch-mode", mode)]));
        }
    }
    for method in ["POST", "PUT", "OPTIONS", "DELETE"] {
        for path in ["/", "/bare/", "/none"] {
            cases.push(case(method.parse().unwrap(), path));
        }
    }
    cases
}

fn field<'a>(answer: &'a Answer, name: &str) -> &'a str {
    let mut fields = answer.fields.iter();
    fields.find(|it| it.0 == name).map_or("", |it| &it.1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_option_of_files_has_the_same_effect_everywhere() {
    let cases = cases();
    assert!(cases.len() >= 150, "{}", cases.len());
    let answers = check_one_way(&cases, |by, folder| {
        make(folder);
        match by {
            By::Files => Site::files_with(folder, options()),
            By::Service => Site::service(Files::open_with(folder, options()).unwrap()),
        }
    })
    .await;
    for status in [200, 206, 304, 308, 400, 404, 405, 412, 416] {
        let is_seen = answers.iter().any(|answer| answer.status == status);
        assert!(is_seen, "{status} is among them");
    }
    for coding in ["br", "zstd", "gzip"] {
        let is_seen = answers
            .iter()
            .any(|answer| field(answer, "content-encoding") == coding);
        assert!(is_seen, "{coding} is among them");
    }
    let is_large = |answer: &Answer| answer.body.len() > 64 << 10;
    let mut made = answers.iter().filter(|answer| is_large(answer));
    assert!(made.any(|answer| field(answer, "accept-ranges") == "none"));
    for (at, answer) in answers.iter().enumerate() {
        let case = &cases[at / TIMES];
        assert_eq!(
            field(answer, "x-content-type-options"),
            "nosniff",
            "{case:?}"
        );
        let has_forms = ["/app.js", "/text.txt", "/assets/large.css"].contains(&&*case.target);
        if has_forms && [Method::GET, Method::HEAD].contains(&case.method) {
            let mut vary = answer.fields.iter().filter(|it| it.0 == "vary");
            assert!(vary.any(|it| it.1 == "accept-encoding"), "{case:?}");
        }
        let body = String::from_utf8_lossy(&answer.body);
        assert!(!body.contains("secret"), "{case:?}");
    }
}

/// Returns the contents of `/a` and, as a part, of `/b` over each protocol.
async fn contents(server: &Running) -> Vec<Bytes> {
    let mut found = Vec::new();
    let mut over_1 = h1::<Empty<_>>(server.connect_tls(&[b"http/1.1"]).await).await;
    let mut over_2 = h2::<Empty<_>>(server.connect_tls(&[b"h2"]).await).await;
    for path in ["/a", "/b"] {
        let mut request = get(path);
        if path == "/b" {
            let range = "bytes=0-".parse().unwrap();
            request.headers_mut().insert("range", range);
        }
        // hyper's client has read a response before it takes the next request.
        soon(over_1.ready()).await.unwrap();
        let response = soon(over_1.send_request(request.clone())).await.unwrap();
        found.push(
            soon(response.into_body().collect())
                .await
                .unwrap()
                .to_bytes(),
        );
        let response = soon(over_2.send_request(request)).await.unwrap();
        found.push(
            soon(response.into_body().collect())
                .await
                .unwrap()
                .to_bytes(),
        );
    }
    let mut over_3 = H3::connect(server);
    let request = get("/a").map(|_: Empty<Bytes>| Bytes::new());
    found.push(over_3.ask(request).2.into());
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_a_deployment_switches_is_seen_within_a_second() {
    let releases = tempfile::tempdir().unwrap();
    let current = releases.path().join("current");
    for release in ["1", "2"] {
        fs::create_dir(releases.path().join(release)).unwrap();
        for name in ["a", "b"] {
            fs::write(releases.path().join(release).join(name), release).unwrap();
        }
    }
    std::os::unix::fs::symlink("1", &current).unwrap();
    let server = Running::tls(|options| {
        options.site = Site::files(&current);
        options.threads = std::num::NonZeroUsize::MIN;
    });
    assert!(contents(&server).await.iter().all(|content| content == "1"));
    std::os::unix::fs::symlink("2", releases.path().join("next")).unwrap();
    fs::rename(releases.path().join("next"), &current).unwrap();
    let switched = Instant::now();
    let mut is_seen = false;
    // The test's own clients take time as well.
    while switched.elapsed() < Duration::from_millis(1500) {
        for content in contents(&server).await {
            assert!(
                content == "2" || !is_seen,
                "the former folder after the new one"
            );
            is_seen |= content == "2";
        }
    }
    assert!(is_seen);
    assert!(contents(&server).await.iter().all(|content| content == "2"));
    fs::remove_dir_all(releases.path().join("1")).unwrap();
    assert!(contents(&server).await.iter().all(|content| content == "2"));
}
