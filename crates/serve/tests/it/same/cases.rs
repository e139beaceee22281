//! The requests of the comparison: one table for all clients.

use super::app::LARGE;
use bytes::Bytes;
use http::{Method, Request};
use std::fmt;

/// A request that every client makes.
pub(super) struct Case {
    pub(super) request: Request<Bytes>,
    /// The client doesn't say how long the content is.
    pub(super) without_length: bool,
}

impl Case {
    fn new(method: &str, target: &str, fields: &[(&str, &str)], content: impl Into<Bytes>) -> Self {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let uri = format!("https://localhost{target}");
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        Self {
            request: request.body(content.into()).unwrap(),
            without_length: false,
        }
    }

    fn of_unknown_length(self) -> Self {
        Self {
            without_length: true,
            ..self
        }
    }

    /// Path and query.
    pub(super) fn target(&self) -> &str {
        self.request.uri().path_and_query().unwrap().as_str()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.request.method(), self.target())
    }
}

fn get(target: &str) -> Case {
    Case::new("GET", target, &[], "")
}

fn get_with(target: &str, name: &str, value: &str) -> Case {
    Case::new("GET", target, &[(name, value)], "")
}

fn post(target: &str, kind: &str, content: impl Into<Bytes>) -> Case {
    Case::new("POST", target, &[("content-type", kind)], content)
}

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
const BINARY: &str = "application/octet-stream";

const PARTS: &str = "--x\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\none\r\n--x\r\n\
    content-disposition: form-data; name=\"b\"; filename=\"f\"\r\n\r\nthree\r\n--x--\r\n";

fn extractors() -> Vec<Case> {
    vec![
        get("/path/name"),
        get("/path/with%20space"),
        get("/path/%C3%A4"),
        get("/path/%ff"),
        get("/path/a%2Fb"),
        get("/path/"),
        get("/number/7"),
        get("/number/300"),
        get("/number/seven"),
        get("/two/a/-5"),
        get("/two/a/b"),
        get("/rest/a/b/c"),
        get("/rest//a"),
        get("/query?b=2&a=1"),
        get("/query?a=%26&a+b=c+d"),
        get("/query"),
        get("/query/typed?a=1"),
        get("/query/typed?a=x"),
        get("/query/raw?any=thing&%20"),
        get("/state"),
        get("/peer"),
        get("/missing"),
        get("/matched/one"),
        get_with("/fields", "x-one", "1"),
        get_with("/fields", "x-long", &"v".repeat(10_000)),
        Case::new(
            "GET",
            "/fields",
            &[("x-a", "1"), ("x-a", "2"), ("x-empty", "")],
            "",
        ),
        Case::new("PURGE", "/method", &[], ""),
        Case::new("OPTIONS", "/method", &[], ""),
        Case::new("PATCH", "/method", &[], "content"),
        Case::new("HEAD", "/method", &[], ""),
        post("/json", JSON, r#"{"a":[1,2],"b":null}"#),
        post("/json", "application/vnd.api+json", "[]"),
        post("/json", "text/plain", "{}"),
        post("/json", JSON, "{"),
        post("/json/typed", JSON, "[1,2]"),
        post("/json/typed", JSON, r#"["x"]"#),
        post("/json/checked", JSON, "nonsense"),
        Case::new("POST", "/json", &[], "{}"),
        post("/form", FORM, "a=1&b=%C3%A4"),
        post("/form", "text/plain", "a=1"),
        get("/form?a=b"),
        post("/multipart", "multipart/form-data; boundary=x", PARTS),
        post("/multipart", "multipart/form-data", PARTS),
        post(
            "/multipart",
            "multipart/form-data; boundary=x",
            &PARTS[..60],
        ),
    ]
}

fn bodies() -> Vec<Case> {
    let large = || Bytes::from(vec![b'x'; LARGE]);
    vec![
        post("/echo", BINARY, "short"),
        post("/echo", BINARY, ""),
        post("/echo", BINARY, large()),
        post("/echo", BINARY, large()).of_unknown_length(),
        Case::new("PUT", "/echo", &[], "put"),
        post("/length", BINARY, large()),
        post("/length", BINARY, large()).of_unknown_length(),
        post("/text", "text/plain", "grüße"),
        post("/text", "text/plain", vec![0xff, 0xfe]),
        post("/ignore", BINARY, "not read"),
        get("/large"),
        Case::new("HEAD", "/large", &[], ""),
        get("/empty"),
        get("/stream"),
        Case::new("HEAD", "/stream", &[], ""),
        get("/stream/empty"),
        get("/events"),
        get_with("/compressed", "accept-encoding", "gzip"),
        get_with("/compressed", "accept-encoding", "identity"),
        get_with("/compressed", "accept-encoding", "br;q=1, *;q=0"),
        Case::new("HEAD", "/compressed", &[("accept-encoding", "gzip")], ""),
    ]
}

fn responses_and_layers() -> Vec<Case> {
    let preflight = [
        ("origin", "https://other.test"),
        ("access-control-request-method", "PUT"),
    ];
    vec![
        get("/html"),
        get("/redirect"),
        get("/redirect/kept"),
        Case::new("DELETE", "/nothing", &[], ""),
        Case::new("GET", "/nothing", &[], ""),
        post("/created", BINARY, ""),
        get("/teapot"),
        get("/twice"),
        get("/unchanged"),
        get("/latin"),
        get("/failed"),
        get("/none"),
        get("/none?query"),
        get("/html/"),
        get("//html"),
        Case::new("POST", "/html", &[], ""),
        Case::new("HEAD", "/none", &[], ""),
        get("/slow"),
        get("/panic"),
        get("/cors"),
        get_with("/cors", "origin", "https://other.test"),
        Case::new("OPTIONS", "/cors", &preflight, ""),
        get("/named"),
        get("/identified"),
        get("/guarded"),
        get_with("/guarded", "authorization", "Bearer x"),
        post("/limited/default", BINARY, vec![0; 1000]),
        post("/limited/default", BINARY, vec![0; 1001]),
        post("/limited/default", BINARY, vec![0; 1001]).of_unknown_length(),
        post("/limited/layer", BINARY, vec![0; 2000]),
        post("/limited/layer", BINARY, vec![0; 2001]),
        post("/limited/layer", BINARY, vec![0; 2001]).of_unknown_length(),
    ]
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = extractors();
    cases.extend(bodies());
    cases.extend(responses_and_layers());
    cases
}
