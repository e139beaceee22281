//! The applications of `examples/origins`, which the lab loads through proxies: on axum, Node and Python they answer
//! alike, so that what differs behind a proxy is the application's server alone.

#[path = "../../../../examples/origins/axum.rs"]
#[expect(dead_code, reason = "its `main` runs elsewhere")]
mod axum_shop;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/origins");

/// Document and pictures of the catalogue together.
const PAGE: &str = "/page-972000.html";

/// The document's size in bytes.
const DOCUMENT: usize = 12_000;

/// A program that listens; ended when dropped.
struct Program {
    child: Child,
    /// `http://HOST:PORT`.
    root: String,
}

impl Program {
    /// `None`, and said so, where `program` is not installed.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    fn start(program: &str, file: &str) -> Option<Self> {
        let mut command = Command::new(program);
        command.arg(format!("{FOLDER}/{file}")).arg("127.0.0.1:0");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            eprintln!("skipped: {program} is not installed");
            return None;
        };
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let root = line.trim().strip_suffix(PAGE);
        let root = root.unwrap_or_else(|| panic!("{program} said `{line}`"));
        Some(Self {
            child,
            root: root.into(),
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Head and body that curl gets for `url`.
fn curl(url: &str, arguments: &[&str]) -> (String, Vec<u8>) {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "-m", "20", "--http1.1", "-D", "-", "--noproxy", "*"]);
    let output = curl.args(arguments).arg(url).output().unwrap();
    let end = output
        .stdout
        .windows(4)
        .position(|four| four == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("{url}: {output:?}")) + 4;
    let head = String::from_utf8_lossy(&output.stdout[..end]).to_lowercase();
    (head, output.stdout[end..].to_vec())
}

/// Gives the document.
fn check(root: &str) -> Vec<u8> {
    let page = format!("{root}{PAGE}");
    let (head, document) = curl(&page, &[]);
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert_eq!(document.len(), DOCUMENT, "{head}");
    let (head, packed) = curl(&page, &["-H", "accept-encoding: gzip"]);
    assert!(head.contains("content-encoding: gzip"), "{head}");
    assert!(head.contains("vary: accept-encoding"), "{head}");
    assert!(packed.len() < DOCUMENT / 3, "{}", packed.len());
    assert_eq!(curl(&page, &["--compressed"]).1, document);

    for bytes in [125, 2_000, 200_000] {
        let url = format!("{root}/{bytes}.bin?7");
        let (head, picture) = curl(&url, &["-H", "accept-encoding: gzip"]);
        assert_eq!(picture.len(), bytes, "{head}");
        assert!(picture.starts_with(b"GIF89a") && picture.ends_with(b"\0;"));
        assert!(head.contains("cache-control: public, max-age="), "{head}");
        assert!(!head.contains("content-encoding"), "{head}");
        let known = format!("if-none-match: \"{bytes}\"");
        let (head, nothing) = curl(&url, &["-H", &known]);
        assert!(head.starts_with("http/1.1 304"), "{head}");
        assert!(nothing.is_empty());
    }
    let (head, _) = curl(&format!("{root}/8001.bin"), &[]);
    assert!(head.starts_with("http/1.1 404"), "{head}");
    document
}

#[test]
fn applications_on_axum_node_and_python_answer_alike() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let (path, app) = axum_shop::shop().unwrap();
    assert_eq!(path, PAGE);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0");
    let listener = runtime.block_on(listener).unwrap();
    let root = format!("http://{}", listener.local_addr().unwrap());
    runtime.spawn(async { axum::serve(listener, app).await });
    let document = check(&root);
    for (program, file) in [("node", "node.mjs"), ("python3", "python.py")] {
        if let Some(other) = Program::start(program, file) {
            assert!(check(&other.root) == document, "{program}");
        }
    }
    runtime.shutdown_background();
}
