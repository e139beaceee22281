//! Answers to requests whose bodies nobody reads, as the client of Go's `net/http` sees them: the status,
//! never an error.

use crate::common::{Dir, Serving, installed, success};
use crate::interop::authority;
use std::path::Path;
use std::process::Command;

/// Bytes of the unwanted bodies: within the first packet, within the windows, beyond them.
const SIZES: [&str; 3] = ["1", "200000", "5000000"];

/// How often each is tried: a race shows now and then.
const TIMES: usize = 10;

fn build(dir: &Dir) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/early_answers/net_http.go");
    let mut go = Command::new("go");
    go.args(["build", "-o", "net_http"]).arg(source);
    success(go.current_dir(dir.path()).env("GOFLAGS", ""));
}

#[test]
fn go_sees_that_files_take_no_content() {
    if !installed("go") {
        return;
    }
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    build(&dir);
    let ca = authority(&dir);
    let serving = Serving::start(&dir, &[]);
    for (protocol, version) in [("h1", "HTTP/1.1"), ("h2", "HTTP/2.0")] {
        for size in SIZES {
            let mut client = Command::new(dir.path().join("net_http"));
            client.args([&serving.url("/"), &ca, protocol, size, &TIMES.to_string()]);
            let seen = success(&mut client);
            let expected = format!("{version} 405\n").repeat(TIMES);
            assert_eq!(seen, expected, "{protocol} {size}");
        }
    }
}
