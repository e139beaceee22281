//! Chromium and Firefox go where the server leads them, to HTTP/3 and back, within a page and from visit to visit.
//!
//! A visit is a start of the browser with the profile that the visit before left (`altway lab browse` with sessions).

use crate::common::{Dir, Serving, installed, success, text};
use serde_json::{Value, json};
use std::fs;

/// Objects of the page, each fetched when the one before has come.
const OBJECTS: usize = 12;

/// A page whose load event waits for all of its objects.
const PAGE: &str = r#"<!doctype html><title>chain</title><script>
const next = (i) => {
  if (i === OBJECTS) return;
  const image = new Image();
  image.onload = image.onerror = () => next(i + 1);
  image.src = "/o.svg?" + i;
};
next(0);
</script>"#;

const IMAGE: &str = r#"<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>"#;

/// A browser with a profile, and the server's files.
struct Visitor {
    dir: Dir,
    browser: &'static str,
    key_digest: String,
}

/// Protocols of one visit: of its page, and of the page's objects.
#[derive(Debug)]
struct Seen {
    page: String,
    objects: Vec<String>,
}

impl Visitor {
    fn new(browser: &'static str) -> Self {
        let dir = Dir::new();
        let page = PAGE.replace("OBJECTS", &OBJECTS.to_string());
        dir.file("site/page.html", page);
        dir.file("site/o.svg", IMAGE);
        fs::create_dir(dir.path().join("browser")).unwrap();
        let certs = success(&mut dir.altway(["certs", "altway.test", "--json"]));
        let certs: Value = serde_json::from_str(&certs).unwrap();
        let key_digest = certs["spki_sha256_base64"].as_str().unwrap().to_owned();
        Self {
            dir,
            browser,
            key_digest,
        }
    }

    /// Comes once, and again after so many milliseconds each.
    fn visit(&self, port: u16, apart_ms: &[u64]) -> Vec<Seen> {
        let request = |path: String| json!({"path": path, "size_bytes": 0});
        let mut requests = vec![request("/page.html".into())];
        requests.extend((0..OBJECTS).map(|object| request(format!("/o.svg?{object}"))));
        let visit = json!({"requests": requests, "sessions": {"apart_ms": apart_ms}});
        self.dir.file("visit.json", visit.to_string());
        let mut command = self.dir.altway(["lab", "browse", self.browser]);
        command.args(["--address", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["--visit", "visit.json", "--folder", "browser"]);
        command.args(["--key-digest", &self.key_digest]);
        let output = command.output().unwrap();
        let made: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("no visit: {}", text(&output.stderr)));
        let made = made["requests"].as_array().unwrap();
        let protocol = |request: &Value| {
            request["protocol_used"]
                .as_str()
                .unwrap_or("none")
                .to_owned()
        };
        let sessions = made.chunks(OBJECTS + 1);
        let seen = sessions.map(|requests| Seen {
            page: protocol(&requests[0]),
            objects: requests[1..].iter().map(protocol).collect(),
        });
        seen.collect()
    }

    /// Chromium forgets how near the server is, and waits for QUIC as long as for one of which it does not know:
    /// 300 ms. One and a half round trips of the loopback are a race that TCP may win.
    fn forget_the_distance(&self) {
        let file = "browser/profile/Default/Network Persistent State";
        let Ok(state) = fs::read(self.dir.path().join(file)) else {
            return;
        };
        let mut state: Value = serde_json::from_slice(&state).unwrap();
        let servers = state["net"]["http_server_properties"]["servers"].as_array_mut();
        for server in servers.into_iter().flatten() {
            server.as_object_mut().unwrap().remove("network_stats");
        }
        self.dir.file(file, state.to_string());
    }
}

/// Returns whether the last objects came over `protocol`.
fn ends_over(seen: &Seen, protocol: &str) -> bool {
    seen.objects[OBJECTS - 3..]
        .iter()
        .all(|one| one == protocol)
}

/// Offers live for a minute.
const BRIEFLY: [&str; 2] = ["--policy", "study:delay=0ms"];

#[test]
fn chromium_goes_to_http3_and_back_within_a_page_and_from_visit_to_visit() {
    if !installed("chromium") {
        return;
    }
    let visitor = Visitor::new("chromium");
    let serving = Serving::start(&visitor.dir, &BRIEFLY);
    let port = serving.port;
    let first = &visitor.visit(port, &[])[0];
    assert!(first.page == "h2" && ends_over(first, "h3"), "{first:?}");
    visitor.forget_the_distance();
    let [again, later] = &visitor.visit(port, &[3_600_000])[..] else {
        panic!("two visits");
    };
    assert!(again.page == "h3" && ends_over(again, "h3"), "{again:?}");
    // An hour later the offer has run out, and is made anew.
    assert!(later.page == "h2" && ends_over(later, "h3"), "{later:?}");
    assert_eq!(serving.terminate(), Some(0));

    visitor.forget_the_distance();
    let serving = Serving::start_on(&visitor.dir, port, &["--policy", "h2"]);
    let cleared = &visitor.visit(port, &[])[0];
    assert!(
        cleared.page == "h3" && ends_over(cleared, "h2"),
        "{cleared:?}"
    );
    let after = &visitor.visit(port, &[])[0];
    assert!(
        after.page == "h2" && after.objects.iter().all(|one| one == "h2"),
        "{after:?}"
    );
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn firefox_goes_to_http3_within_a_page_and_back_at_its_next_visit() {
    if !installed("firefox-esr") {
        return;
    }
    let visitor = Visitor::new("firefox");
    let serving = Serving::start(&visitor.dir, &BRIEFLY);
    let port = serving.port;
    // Its page may come over TCP, which it tries beside QUIC.
    let [first, again, later] = &visitor.visit(port, &[1_000, 3_600_000])[..] else {
        panic!("three visits");
    };
    assert!(first.page == "h2" && ends_over(first, "h3"), "{first:?}");
    assert!(again.objects.iter().all(|one| one == "h3"), "{again:?}");
    assert!(later.page == "h2" && ends_over(later, "h3"), "{later:?}");
    assert_eq!(serving.terminate(), Some(0));

    let serving = Serving::start_on(&visitor.dir, port, &["--policy", "h2"]);
    visitor.visit(port, &[]);
    let after = &visitor.visit(port, &[])[0];
    assert!(
        after.page == "h2" && after.objects.iter().all(|one| one == "h2"),
        "{after:?}"
    );
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn firefox_stays_on_http2_for_its_first_page_where_the_server_chooses_and_is_told_when_it_has_come()
{
    if !installed("firefox-esr") {
        return;
    }
    let visitor = Visitor::new("firefox");
    let serving = Serving::start(&visitor.dir, &["--policy", "threshold:rtt=0ms,loss=1%"]);
    let [first, again] = &visitor.visit(serving.port, &[1_000])[..] else {
        panic!("two visits");
    };
    assert!(
        first.page == "h2" && first.objects.iter().all(|one| one == "h2"),
        "{first:?}"
    );
    assert!(again.objects.iter().all(|one| one == "h3"), "{again:?}");
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn firefox_comes_back_over_http2_once_the_server_prefers_it() {
    if !installed("firefox-esr") {
        return;
    }
    let visitor = Visitor::new("firefox");
    // Loss is known from a hundred packets on, and those on loopback are large.
    let large = IMAGE.replace("/>", &format!("><!--{}--></svg>", "x".repeat(1_000_000)));
    visitor.dir.file("site/o.svg", large);
    let serving = Serving::start(&visitor.dir, &["--policy", "threshold:rtt=0ms,loss=1%"]);
    let port = serving.port;
    let [_, again] = &visitor.visit(port, &[1_000])[..] else {
        panic!("two visits");
    };
    assert!(ends_over(again, "h3"), "{again:?}");
    assert_eq!(serving.terminate(), Some(0));

    let policy = ["--policy", "threshold:rtt=1s,loss=90%"];
    let serving = Serving::start_on(&visitor.dir, port, &policy);
    // A visit is told by `clear` over HTTP/3, but TCP is tried beside it: on a busy machine it takes more than one.
    let visits = visitor.visit(port, &[1_000, 3_600_000, 1_000, 3_600_000]);
    let [measured, .., after] = &visits[..] else {
        panic!("five visits");
    };
    assert!(ends_over(measured, "h3"), "{measured:?}");
    assert!(
        after.page == "h2" && after.objects.iter().all(|one| one == "h2"),
        "{after:?}"
    );
    assert_eq!(serving.terminate(), Some(0));
}
