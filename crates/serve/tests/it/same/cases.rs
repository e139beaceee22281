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

const MULTIPART: &str = "multipart/form-data; boundary=x";

/// The last boundary of a form.
const END: &[u8] = b"--x--\r\n";

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
    ]
}

/// Forms that are read as they arrive: whole ones, and what is wrong with others.
fn forms() -> Vec<Case> {
    let form = |target, content: Vec<u8>| post(target, MULTIPART, content);
    let whole = || [field("a", b"one"), file(LARGE), file(0), END.to_vec()].concat();
    let long = || [field("a", b"one"), file(3000), END.to_vec()].concat();
    let two = || [field("a", b"one"), field("b", b"two"), END.to_vec()].concat();
    vec![
        form("/multipart", whole()),
        form("/multipart", whole()).of_unknown_length(),
        form("/multipart", two()),
        form("/multipart", END.to_vec()),
        form("/multipart", Vec::new()),
        form("/multipart", [b"preamble\r\n".to_vec(), two()].concat()),
        form("/multipart", [two(), b"\r\nepilogue".to_vec()].concat()),
        // No boundary: in the field, in the content, at the end, within a part's head, and none of this form's.
        post("/multipart", "multipart/form-data", two()),
        form("/multipart", b"no boundary".to_vec()),
        form("/multipart", field("a", b"one")),
        form("/multipart", two()[..30].to_vec()),
        post("/multipart", "multipart/form-data; boundary=y", two()),
        post("/multipart", "text/plain", two()),
        Case::new("POST", "/multipart", &[], two()),
        form("/limited/multipart", two()),
        form("/limited/multipart", long()),
        form("/limited/multipart", long()).of_unknown_length(),
        form("/multipart/first", two()),
        form("/multipart/first", long()),
        form("/multipart/first", long()).of_unknown_length(),
        form("/multipart/first", END.to_vec()),
    ]
}

fn field(name: &str, value: &[u8]) -> Vec<u8> {
    let head = format!("--x\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n");
    [head.as_bytes(), value, b"\r\n"].concat()
}

fn file(size: usize) -> Vec<u8> {
    let head = "--x\r\ncontent-disposition: form-data; name=\"f\"; filename=\"a b.bin\"\r\n\
        content-type: application/octet-stream\r\n\r\n";
    // Ends of lines, of which each may begin a boundary.
    let content = b"\r\n--".iter().cycle().take(size).copied().collect();
    [head.as_bytes().to_vec(), content, b"\r\n".to_vec()].concat()
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
    cases.extend(forms());
    cases.extend(bodies());
    cases.extend(responses_and_layers());
    cases
}
