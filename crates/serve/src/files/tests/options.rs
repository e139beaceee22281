//! Effects of the options of files: index, fallback, clean URLs, error pages, fields.

use super::Site;
use crate::{Error, Files, FilesOptions, HeaderRule};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, LOCATION, VARY};
use std::fs;

impl Site {
    pub(super) fn with(self, change: impl FnOnce(&mut FilesOptions)) -> Self {
        let mut options = FilesOptions::default();
        change(&mut options);
        let files = Files::open_with(self.dir.path().join("site"), options).unwrap();
        Self { files, ..self }
    }

    pub(super) fn write(&self, name: &str, content: &str) {
        fs::write(self.dir.path().join("site").join(name), content).unwrap();
    }
}

#[test]
fn the_first_index_that_is_there_answers_for_its_folder() {
    let site = Site::new().with(|options| {
        options.index = vec!["none.html".into(), "digits".into(), "index.html".into()];
    });
    assert_eq!(site.get("/").body, b"0123456789");
    assert_eq!(site.get("/sub/").body, b"<p>sub");
    let site = site.with(|options| options.index = Vec::new());
    assert_eq!(site.get("/").status, 404);
}

#[test]
fn navigations_that_find_nothing_get_the_fallback() {
    let site = Site::new().with(|options| options.fallback = Some("/index.html".into()));
    for path in ["/deep/link", "/none", "/empty/", "/.hidden"] {
        let answer = site.get(path);
        assert_eq!(
            (answer.status, &*answer.body),
            (200, &b"<p>home"[..]),
            "{path}"
        );
        assert_eq!(answer.header(VARY), "sec-fetch-mode");
        assert!(!answer.header(ETAG).is_empty());
        let etag = answer.header(ETAG).to_owned();
        let again = site.send("GET", path, &[("if-none-match", &etag)]);
        assert_eq!(again.status, 304, "{path}");
        assert_eq!(again.header(VARY), "sec-fetch-mode");
    }
    let navigation = site.send("GET", "/none", &[("sec-fetch-mode", "navigate")]);
    assert_eq!(navigation.status, 200);
    for mode in ["no-cors", "cors", "same-origin"] {
        let script = site.send("GET", "/none.js", &[("sec-fetch-mode", mode)]);
        assert_eq!(script.status, 404);
        assert_eq!(script.header(VARY), "sec-fetch-mode");
    }
    assert_eq!(site.get("/a.txt").header(VARY), "");
    assert_eq!(site.get("/%zz").status, 400);
    assert_eq!(site.send("POST", "/none", &[]).status, 405);
    assert_eq!(site.send("HEAD", "/none", &[]).status, 200);
}

#[test]
fn a_fallback_that_is_not_there_is_an_error_at_start() {
    let site = Site::new();
    let options = FilesOptions {
        fallback: Some("app.html".into()),
        ..FilesOptions::default()
    };
    let error = Files::open_with(site.dir.path().join("site"), options).unwrap_err();
    assert!(matches!(error, Error::Fallback { .. }), "{error}");
    let options = FilesOptions {
        fallback: Some("../secret".into()),
        ..FilesOptions::default()
    };
    let error = Files::open_with(site.dir.path().join("site"), options).unwrap_err();
    assert!(matches!(error, Error::FilesOptions(_)), "{error}");
}

#[test]
fn clean_urls_leave_out_the_ending_of_pages() {
    let site = Site::new().with(|options| options.clean_urls = true);
    for name in [
        "about.html",
        "sub.html",
        "both.html",
        "both",
        "\u{e4} b.html",
        "sub/x.html",
    ] {
        site.write(name, name);
    }
    for (path, body) in [
        ("/about", "about.html"),
        ("/about?q", "about.html"),
        ("/sub", "sub.html"),
        ("/sub/", "<p>sub"),
        ("/sub/x", "sub/x.html"),
        ("/both", "both"),
        ("/both.html", "both.html"),
        ("/%C3%A4%20b", "\u{e4} b.html"),
    ] {
        let answer = site.get(path);
        assert_eq!(
            (answer.status, &*answer.body),
            (200, body.as_bytes()),
            "{path}"
        );
    }
    assert_eq!(
        site.get("/about").header(CONTENT_TYPE),
        "text/html; charset=utf-8"
    );
    for (path, location) in [
        ("/about.html", "/about"),
        ("/about.html?q=1", "/about?q=1"),
        ("/index.html", "/"),
        ("/sub/index.html?a", "/sub/?a"),
        ("//sub//index.html", "/sub/"),
        ("/%C3%A4%20b.html", "/%C3%A4%20b"),
        ("/empty?q", "/empty/?q"),
    ] {
        let answer = site.get(path);
        assert_eq!(
            (answer.status, answer.header(LOCATION)),
            (308, location),
            "{path}"
        );
    }
    for path in ["/none", "/none.html", "/about/", "/.html", "/empty/"] {
        assert_eq!(site.get(path).status, 404, "{path}");
    }
}

#[test]
fn no_page_without_its_ending_leads_out_of_the_folder_or_to_a_hidden_file() {
    let site = Site::new().with(|options| options.clean_urls = true);
    fs::write(site.dir.path().join("out.html"), "secret").unwrap();
    std::os::unix::fs::symlink("../out.html", site.dir.path().join("site/link.html")).unwrap();
    site.write(".page.html", "hidden");
    for path in [
        "/link",
        "/link.html",
        "/.page",
        "/.page.html",
        "/../out",
        "/%2e%2e/out",
    ] {
        assert!([400, 404].contains(&site.get(path).status), "{path}");
    }
}

#[test]
fn each_status_has_its_own_page() {
    let site = Site::new().with(|options| {
        options.error_pages = vec![
            (404, "/missing.html".into()),
            (405, "sub/index.html".into()),
            (400, "none.html".into()),
        ];
    });
    site.write("missing.html", "missing");
    site.write("404.html", "not this one");
    let missing = site.get("/none");
    assert_eq!((missing.status, &*missing.body), (404, &b"missing"[..]));
    assert_eq!(missing.header(ETAG), "");
    let refused = site.send("PUT", "/a.txt", &[]);
    assert_eq!((refused.status, &*refused.body), (405, &b"<p>sub"[..]));
    assert_eq!(refused.headers["allow"], "GET, HEAD, OPTIONS");
    assert!(site.get("/%zz").body.starts_with(b"<!doctype html>"));
}

#[test]
fn fields_go_by_the_path_of_the_file() {
    let site = Site::new().with(|options| {
        options.fallback = Some("index.html".into());
        options.headers = vec![
            HeaderRule::cache_control("*.html", "no-cache").unwrap(),
            HeaderRule::cache_control("/sub/*", "max-age=60").unwrap(),
            HeaderRule::always("x-content-type-options", "nosniff").unwrap(),
        ];
    });
    for (path, cache) in [
        ("/", "no-cache"),
        ("/index.html", "no-cache"),
        ("/sub/", "max-age=60"),
        ("/a.txt", ""),
        ("/sub/missing", "no-cache"),
    ] {
        let answer = site.get(path);
        assert_eq!(answer.header(CACHE_CONTROL), cache, "{path}");
        assert_eq!(
            answer.headers["x-content-type-options"], "nosniff",
            "{path}"
        );
    }
    for (method, path, fields) in [
        ("GET", "/sub", &[][..]),
        ("PUT", "/sub/", &[]),
        ("OPTIONS", "/", &[]),
        ("GET", "/%", &[]),
        ("GET", "/sub/", &[("range", "bytes=99-")]),
        ("GET", "/sub/none", &[("sec-fetch-mode", "cors")]),
    ] {
        let answer = site.send(method, path, fields);
        assert_eq!(answer.header(CACHE_CONTROL), "", "{method} {path}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    }
    let part = site.send("GET", "/sub/", &[("range", "bytes=0-1")]);
    assert_eq!(
        (part.status, part.header(CACHE_CONTROL)),
        (206, "max-age=60")
    );
    let (etag, _) = site.validators("/sub/");
    let unchanged = site.send("GET", "/sub/", &[("if-none-match", &etag)]);
    assert_eq!(
        (unchanged.status, unchanged.header(CACHE_CONTROL)),
        (304, "max-age=60")
    );
}
