//! Listings of folders, as a page and as JSON.

use super::{Answer, Site};
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, VARY};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

fn site() -> Site {
    Site::new().with(|options| options.listing = true)
}

fn json(answer: &Answer) -> serde_json::Value {
    assert_eq!(answer.header(CONTENT_TYPE), "application/json");
    serde_json::from_slice(&answer.body).unwrap()
}

fn names(listing: &serde_json::Value) -> Vec<&str> {
    let entries = listing["entries"].as_array().unwrap().iter();
    entries
        .map(|entry| entry["name"].as_str().unwrap())
        .collect()
}

#[test]
fn a_folder_without_an_index_is_listed_folders_first() {
    let site = site();
    for name in ["empty/b", "empty/A", "empty/.hidden"] {
        site.write(name, "12345");
    }
    for name in ["z", "y"] {
        fs::create_dir(site.dir.path().join("site/empty").join(name)).unwrap();
    }
    let answer = site.send("GET", "/empty/", &[("accept", "application/json")]);
    assert_eq!(answer.status, 200);
    let listing = json(&answer);
    assert_eq!(
        (&listing["path"], &listing["truncated"]),
        (&"/empty/".into(), &false.into())
    );
    assert_eq!(names(&listing), ["y", "z", "A", "b"]);
    let (folder, file) = (&listing["entries"][0], &listing["entries"][3]);
    assert_eq!(
        (&folder["type"], &folder["href"]),
        (&"folder".into(), &"y/".into())
    );
    assert_eq!((&file["type"], &file["size"]), (&"file".into(), &5.into()));
    let page = site.get("/empty/");
    assert_eq!(page.header(CONTENT_TYPE), "text/html; charset=utf-8");
    let text = String::from_utf8(page.body).unwrap();
    assert!(text.contains("<a href=\"y/\">y/</a>") && text.contains("title=\"5 bytes\">5 B<"));
    assert!(!text.contains("hidden"));
    assert_eq!(site.get("/").body, b"<p>home", "it has an index");
    assert_eq!(site.get("/empty").status, 308);
    for path in ["/none/", "/a.txt/", "/.git/", "/up/", "/out/"] {
        assert_eq!(site.get(path).status, 404, "{path}");
    }
    let off = site.with(|_| {});
    assert_eq!(off.get("/empty/").status, 404, "off by default");
}

#[test]
fn what_leads_out_of_the_root_or_can_not_be_asked_for_is_left_out() {
    let site = site();
    fs::remove_file(site.dir.path().join("site/index.html")).unwrap();
    site.write("a\\b", "x");
    let folder = site.dir.path().join("site/empty");
    symlink("../a.txt", folder.join("inside")).unwrap();
    symlink("../../secret", folder.join("outside")).unwrap();
    let accept = [("accept", "application/json")];
    let listing = json(&site.send("GET", "/", &accept));
    let expected = [
        "empty",
        "sp ace",
        "sub",
        "%41",
        "a.txt",
        "digits",
        "inside",
        "nothing.bin",
    ];
    assert_eq!(names(&listing), expected);
    let listing = json(&site.send("GET", "/empty/", &accept));
    assert_eq!(names(&listing), ["inside"]);
    for entry in json(&site.send("GET", "/", &accept))["entries"]
        .as_array()
        .unwrap()
    {
        let target = format!("/{}", entry["href"].as_str().unwrap());
        assert_eq!(site.get(&target).status, 200, "{target}");
    }
}

#[test]
fn names_are_escaped_in_texts_and_references() {
    let site = site();
    let folder = site.dir.path().join("site/empty");
    let hostile = "\"><script>alert(1)</script>&'.html";
    let hostile: String = hostile.replace('/', "\u{2215}");
    for name in [
        hostile.as_bytes(),
        b"javascript:x",
        b"\xff?#%",
        "\u{e4} b".as_bytes(),
    ] {
        fs::write(folder.join(OsStr::from_bytes(name)), "content").unwrap();
    }
    let page = String::from_utf8(site.get("/empty/").body).unwrap();
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    for href in [
        "href=\"javascript%3Ax\"",
        "href=\"%FF%3F%23%25\"",
        "href=\"%C3%A4%20b\"",
    ] {
        assert!(page.contains(href), "{href}");
    }
    let listing = json(&site.send("GET", "/empty/", &[("accept", "application/json")]));
    let entries = listing["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 4);
    for entry in entries {
        let target = format!("/empty/{}", entry["href"].as_str().unwrap());
        assert_eq!(site.get(&target).body, b"content", "{target}");
    }
}

#[test]
fn a_listing_can_be_validated_and_depends_on_accept() {
    let site = site();
    let forms = ["text/html", "application/json"].map(|accept| {
        let answer = site.send("GET", "/empty/", &[("accept", accept)]);
        assert_eq!(answer.header(CACHE_CONTROL), "no-cache");
        assert_eq!(answer.header(VARY), "accept");
        let etag = answer.header(ETAG).to_owned();
        let fields = [("accept", accept), ("if-none-match", &etag)];
        let again = site.send("GET", "/empty/", &fields);
        assert_eq!((again.status, again.header(ETAG)), (304, &*etag));
        assert_eq!(again.header(CACHE_CONTROL), "no-cache");
        let head = site.send("HEAD", "/empty/", &[("accept", accept)]);
        assert_eq!(head.header(CONTENT_LENGTH), answer.header(CONTENT_LENGTH));
        assert!(head.body.is_empty());
        etag
    });
    assert_ne!(forms[0], forms[1]);
    let failed = site.send("GET", "/empty/", &[("if-match", "\"x\"")]);
    assert_eq!(failed.status, 412);
    site.write("empty/new", "");
    let fields = [("accept", "text/html"), ("if-none-match", &forms[0])];
    assert_eq!(site.send("GET", "/empty/", &fields).status, 200);
}

#[test]
fn the_form_is_the_one_that_is_liked_better() {
    let site = site();
    for (accept, is_json) in [
        ("application/json", true),
        ("application/json, text/html;q=0.9", true),
        ("application/*", true),
        ("text/html, application/json", false),
        (
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            false,
        ),
        ("*/*", false),
        ("text/plain", false),
        ("*/*, text/html;q=0.1", true),
        ("application/json;q=0", false),
        ("", false),
    ] {
        let answer = site.send("GET", "/empty/", &[("accept", accept)]);
        let found = answer.header(CONTENT_TYPE) == "application/json";
        assert_eq!(found, is_json, "{accept}");
    }
}

#[test]
fn a_large_folder_is_cut_and_that_is_said() {
    let site = site();
    let folder = site.dir.path().join("site/empty");
    for at in 0..10_000 {
        fs::write(folder.join(format!("{at:05}")), "").unwrap();
    }
    let accept = [("accept", "application/json")];
    let listing = json(&site.send("GET", "/empty/", &accept));
    assert_eq!(
        (names(&listing).len(), &listing["truncated"]),
        (10_000, &false.into())
    );
    fs::write(folder.join("one more"), "").unwrap();
    let listing = json(&site.send("GET", "/empty/", &accept));
    assert_eq!(
        (names(&listing).len(), &listing["truncated"]),
        (10_000, &true.into())
    );
    let page = String::from_utf8(site.get("/empty/").body).unwrap();
    assert!(page.contains("more than the 10000 entries"));
}
