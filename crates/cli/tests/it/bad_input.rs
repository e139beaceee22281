//! The obvious wrong things: each gets one clear sentence, a hint and exit code 2.

use crate::common::{Dir, Serving, assert_error, refusal, success};
use std::process::Command;

#[test]
fn a_time_of_none_where_there_has_to_be_one() {
    let dir = Dir::new();
    for line in [
        "load https://localhost:8443/ --duration 0s",
        "load https://localhost:8443/ --timeout 0ms",
        "lab watch --every 0s",
        "raw send localhost:9443 --timeout 0s",
        "emulate proxy --tcp 1:localhost:2 --tcp-idle 0s",
    ] {
        let said = refusal(dir.altway([]).args(line.split(' ')));
        assert!(said.contains("expected a time above 0"), "{line}: {said}");
    }
}

#[test]
fn quiet_and_verbose_contradict_each_other() {
    let dir = Dir::new();
    for words in [
        ["-q", "-v", "doctor"],
        ["-q", "doctor", "-v"],
        ["doctor", "-q", "-v"],
    ] {
        let said = refusal(&mut dir.altway(words));
        assert!(
            said.contains("`--quiet` and `--verbose` contradict each other"),
            "{said}"
        );
        assert!(said.contains("--help"), "{said}");
    }
}

#[test]
fn impossible_values_on_the_command_line() {
    let dir = Dir::new();
    for (flag, value, reason) in [
        ("--rate", "-5mbit", "can't be negative"),
        ("--rate", "5", "expected one of the units"),
        ("--loss", "150%", "from 0% to 100%"),
        (
            "--loss",
            "1",
            "may mean 1% (as in tc), or 100% (as a part of 1)",
        ),
        (
            "--up-loss",
            "0.01",
            "may mean 0.01% (as in tc), or 1% (as a part of 1)",
        ),
        (
            "--set",
            "loss 1",
            "may mean 1% (as in tc), or 100% (as a part of 1)",
        ),
        ("--delay", "40", "expected one of the units"),
        ("--jitter", "5ms gaussian", "like `5ms normal`"),
        ("--loss", "gilbert 1% burst", "`gilbert 1% burst 4`"),
        (
            "--loss",
            "gilbert 90% burst 2",
            "can't be lost in bursts of 2",
        ),
        ("--loss", "packets 3 1", "like `packets 3 7 10-12`"),
        ("--queue", "50", "`64KiB`, `100ms` or `50packets`"),
        ("--duplicate", "101%", "from 0% to 100%"),
        ("--reorder", "1% soon 5ms", "like `1% late 5ms`"),
        ("--corrupt", "x", "is not a ratio"),
        ("--up-delay", "-1ms", "can't be negative"),
        ("--down-rate", "0mbit", "more than 0"),
    ] {
        let argument = format!("{flag}={value}");
        let said = refusal(&mut dir.altway(["emulate", &argument, "--", "true"]));
        assert!(said.contains(reason), "{said}");
        assert!(said.contains("--help"), "{said}");
    }
}

#[test]
fn two_rates_for_one_direction() {
    let dir = Dir::new();
    let rates = ["emulate", "--up-rate=1mbit", "--up-rate-trace=x"];
    let said = refusal(dir.altway(rates).args(["--", "true"]));
    assert!(said.contains("cannot be used with"), "{said}");
}

#[test]
fn a_trace_that_is_none() {
    let dir = Dir::new();
    dir.file("bad.csv", "time_s,rate_mbit\n0,20\n3,fast\n");
    dir.file("empty.csv", "");
    let hint = "lines of whole ms (mahimahi), or CSV";
    for (file, error) in [
        (
            "bad.csv",
            "bad.csv is no trace of a rate: line 3 of the trace: `3,fast` is not",
        ),
        (
            "empty.csv",
            "empty.csv is no trace of a rate: the trace is empty",
        ),
    ] {
        let mut command = dir.altway(["emulate", "--rate-trace", file, "--", "true"]);
        assert_error(&mut command, error, hint);
    }
    let said = refusal(&mut dir.altway(["emulate", "--rate-trace=gone", "--", "true"]));
    assert!(said.contains("cannot read gone"), "{said}");
}

#[test]
fn a_way_of_spreading_connections_that_there_is_not() {
    let dir = Dir::new();
    let said = refusal(&mut dir.altway(["serve", "--spread", "random"]));
    let reason = "`random` is no way of spreading connections: expected per-worker or round-robin";
    assert!(said.contains(reason), "{said}");
}

#[test]
fn a_format_of_the_access_log_that_there_is_not() {
    let dir = Dir::new();
    let options = ["serve", "--access-log", "-", "--access-log-format", "xml"];
    let said = refusal(&mut dir.altway(options));
    let reason = "`xml` is no format of the access log: expected key-value, json or combined";
    assert!(said.contains(reason), "{said}");
    let said = refusal(&mut dir.altway(["serve", "--access-log-format", "json"]));
    assert!(said.contains("--access-log <FILE>"), "{said}");
}

#[test]
fn a_server_id_that_is_none() {
    let dir = Dir::new();
    for id in ["7", "010203", "host"] {
        let said = refusal(&mut dir.altway(["serve", "--server-id", id]));
        let reason = "server id is out of range: 0, 2 or 4 hexadecimal digits";
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn a_time_for_retry_that_is_none() {
    let dir = Dir::new();
    for when in ["sometimes", "-1", ""] {
        let argument = format!("--retry={when}");
        let said = refusal(&mut dir.altway(["serve", &argument]));
        let reason = "retry is out of range: always, never, or a number of hand-shakes";
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn limits_under_which_nobody_could_be_served() {
    let dir = Dir::new();
    dir.file("site/index.html", "");
    for (options, error, hint) in [
        (
            &["--max-memory", "80MiB"][..],
            "--max-memory 80MiB is too little for --threads 1",
            "give 88MiB or more, or fewer --threads",
        ),
        (
            &["--max-held", "0B"],
            "--max-held must be more than 0",
            "leave it out for its default",
        ),
        (
            &["--idle-timeout", "10us"],
            "--idle-timeout must be more than 0",
            "leave it out for its default",
        ),
        (
            &["--max-requests", "10", "--max-requests-per-client", "11"],
            "--max-requests-per-client is 11, and --max-requests, which it is a share of, 10",
            "raise --max-requests, or lower --max-requests-per-client",
        ),
    ] {
        let mut serve = dir.altway(["serve", "site", "--h2c", "-n", "1"]);
        assert_error(serve.args(options), error, hint);
    }
}

#[test]
fn limits_that_are_none() {
    let dir = Dir::new();
    for (option, value, reason) in [
        ("--max-memory", "128", "expected one of the units"),
        ("--client-prefix", "33,48", "as in `32,48`"),
        ("--max-connections", "many", "invalid digit"),
        ("--header-timeout", "30", "expected one of the units"),
    ] {
        let argument = format!("{option}={value}");
        let said = refusal(&mut dir.altway(["serve", &argument]));
        assert!(said.contains(reason) && said.contains(option), "{said}");
    }
}

#[test]
fn a_folder_that_is_missing_or_a_file() {
    let dir = Dir::new();
    dir.file("file", "");
    let hint = "give the folder whose files are to be served";
    assert_error(&mut dir.altway(["serve", "nowhere"]), "`nowhere`", hint);
    assert_error(
        &mut dir.altway(["serve", "file"]),
        "`file` is not a directory",
        hint,
    );
    assert!(!dir.path().join("data").exists(), "no certificate was made");
}

#[test]
fn ways_to_serve_files_that_make_no_sense() {
    let dir = Dir::new();
    dir.file("site/index.html", "");
    let refused = [
        (
            "--fallback=app.html",
            "`site/app.html` is no file that can be read",
            "name a file of the folder",
        ),
        (
            "--fallback=../x",
            "`/../x` is not the path of a page",
            "--help",
        ),
        ("--index=a/b", "`a/b` is no name of an index", "--help"),
        (
            "--error-page=200=index.html",
            "status 200 has no error page",
            "--help",
        ),
        (
            "--cache=assets=no-store",
            "`assets` is not a pattern of paths",
            "--help",
        ),
        (
            "--header=ETag: 1",
            "the field `etag` is set by the server itself",
            "--help",
        ),
        (
            "--precompressed=lzma",
            "`lzma` is not an encoding: expected zstd, br or gzip",
            "--help",
        ),
    ];
    for (option, error, hint) in refused {
        let said = refusal(&mut dir.altway(["serve", "site", "--h2c", option]));
        assert!(
            said.contains(error) && said.contains(hint),
            "{option}: {said}"
        );
    }
    assert!(!dir.path().join("data").exists(), "no certificate was made");
}

#[test]
fn an_access_log_that_cannot_be_opened() {
    let dir = Dir::new();
    dir.file("site/index.html", "");
    let mut serve = dir.altway(["serve", "site", "--h2c", "--access-log", "nowhere/log"]);
    assert_error(
        &mut serve,
        "cannot open the access log `nowhere/log`",
        "give a file in a folder that is there",
    );
}

#[test]
fn a_port_in_use() {
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    let serving = Serving::start(&dir, &[]);
    let port = serving.port.to_string();
    let mut second = dir.altway(["serve", "site", "--bind", "127.0.0.1", "--port", &port]);
    assert_error(
        &mut second,
        "is in use by another program",
        "choose another port with `--port`",
    );
}

#[test]
fn an_address_of_another_machine() {
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    let mut serve = dir.altway(["serve", "site", "--h2c", "--bind", "192.0.2.1", "-p", "0"]);
    assert_error(
        &mut serve,
        "cannot listen on TCP 192.0.2.1:0",
        "`ip address` lists the addresses of this machine",
    );
}

#[test]
fn addresses_and_ports_that_are_none() {
    let dir = Dir::new();
    for command in [&["serve"][..], &["proxy", "localhost:1"]] {
        for (option, expected) in [
            (["--bind", "localhost"], "like 127.0.0.1 or ::1"),
            (["--bind", "127.0.0.1:80"], "like 127.0.0.1 or ::1"),
            (["--bind", "[127.0.0.1]"], "like 127.0.0.1 or ::1"),
            (["--port", "http"], "the number of a port, 0 to 65535"),
            (["--port", "65536"], "the number of a port, 0 to 65535"),
        ] {
            let said = refusal(dir.altway(["--quiet"]).args(command).args(option));
            assert!(said.contains(expected), "{said}");
        }
    }
    let shown = dir.altway(["config", "show", "--", "--bind", "[::1]"]);
    assert!(success(&mut { shown }).contains("https = [\"[::1]:8443\"]"));
    assert_error(
        &mut dir.altway(["serve", "--h2c", "--port", "0", "--bind", "fe80::1"]),
        "cannot listen on TCP [fe80::1]:0",
        "an address of fe80::/10 is that of an interface",
    );
}

#[test]
fn authorities_of_origins_that_are_none() {
    let dir = Dir::new();
    for roots in ["none.pem", "empty.pem"] {
        dir.file("empty.pem", "");
        let mut proxy = dir.altway(["proxy", "https://localhost:1", "--port", "0", "--roots"]);
        assert_error(proxy.arg(roots), roots, "name a PEM file");
    }
}

#[test]
fn counts_that_are_none() {
    let dir = Dir::new();
    for option in [
        &["serve", "-n", "0"][..],
        &["proxy", "localhost:1", "-n", "x"],
    ] {
        let said = refusal(dir.altway(["--quiet"]).args(option));
        assert!(
            said.contains("expected a whole number, 1 or more"),
            "{said}"
        );
    }
}

#[test]
fn a_port_as_admin_socket() {
    let dir = Dir::new();
    for (address, what) in [
        ("2019", "neither an IP address"),
        ("0.0.0.0:2019", "other machines"),
    ] {
        let said = refusal(&mut dir.altway(["status", "--admin", address]));
        assert!(said.contains(what), "{said}");
    }
}

#[test]
fn a_certificate_without_its_key() {
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    let cert = dir.file("cert.pem", "no certificate");
    let mut without = dir.altway(["serve", "site", "--cert", cert.to_str().unwrap()]);
    assert_error(
        &mut without,
        "--cert needs its private key",
        "give --key as well",
    );
    let mut empty = dir.altway(["serve", "site", "--cert", "cert.pem", "--key", "cert.pem"]);
    assert_error(
        &mut empty,
        "`cert.pem` holds no certificate",
        "a certificate's file is PEM: the server's own first",
    );
    let pair = |name: &str| {
        let files = success(&mut dir.altway(["certs", "--dir", name, "--json"]));
        let files: serde_json::Value = serde_json::from_str(&files).unwrap();
        ["certificate", "key"].map(|file| files[file].as_str().unwrap().to_owned())
    };
    let ([cert, _], [_, key]) = (pair("one"), pair("other"));
    let mut unlike = dir.altway(["serve", "site", "--cert", &cert, "--key", &key]);
    assert_error(
        &mut unlike,
        "does not belong to the certificate",
        "name the key that the certificate was made for",
    );
}

#[test]
fn an_ocsp_response_that_is_none_or_without_its_certificate() {
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    dir.file("staple", "no response");
    success(&mut dir.altway(["certs"]));
    let store = dir.path().join("data/altway/certs");
    let (cert, key) = (store.join("leaf.pem"), store.join("leaf.key"));
    let pair = [cert.to_str().unwrap(), "--key", key.to_str().unwrap()];
    let mut none = dir.altway(["serve", "site", "--ocsp", "staple", "--cert"]);
    assert_error(
        none.args(pair),
        "`staple` is not an OCSP response in DER",
        "--ocsp wants what `openssl ocsp -respout FILE` writes",
    );
    let mut missing = dir.altway(["serve", "site", "--ocsp", "nowhere", "--cert"]);
    assert_error(
        missing.args(pair),
        "cannot read the OCSP response `nowhere`: No such file",
        "--ocsp wants",
    );
    assert_error(
        &mut dir.altway(["serve", "site", "--ocsp", "staple"]),
        "--ocsp needs the certificate that it is for",
        "give --cert and --key as well",
    );
}

#[test]
fn a_folder_that_holds_no_run() {
    let dir = Dir::new();
    for command in ["resume", "report"] {
        let mut command = dir.altway(["lab", command, "."]);
        assert_error(&mut command, "is not a run folder", "run folders are named");
    }
}

#[test]
fn a_server_that_is_not_there() {
    let dir = Dir::new();
    let said = refusal(&mut dir.altway(["load", "https://127.0.0.1:1/", "--insecure"]));
    let once = said.matches("cannot connect").count() == 1;
    assert!(
        once && said.contains("cannot connect to 127.0.0.1:1: "),
        "{said}"
    );
    assert!(
        said.contains("hint: see whether a server listens"),
        "{said}"
    );
    assert_error(
        &mut dir.altway(["load", "ftp://localhost/"]),
        "expected http://HOST/ or https://HOST/",
        "give the whole URL",
    );
    assert_error(
        &mut dir.altway(["load", "http://localhost/", "--protocol", "h3"]),
        "over HTTP/3: it needs https",
        "give an https:// URL",
    );
}

#[test]
fn a_protocol_that_is_compared_with_itself() {
    let dir = Dir::new();
    let mut load = dir.altway(["load", "https://localhost:1/", "-p", "h2,h3,h2"]);
    assert_error(&mut load, "h2 is named twice", "name each protocol once");
    let said = refusal(&mut dir.altway(["load", "https://localhost:1/", "--rounds", "0"]));
    assert!(said.contains("0 is not in 1..=10000"), "{said}");
}

#[test]
fn an_end_of_a_link_with_an_address_that_is_none() {
    let dir = Dir::new();
    let mut attach = dir.altway(["emulate", "attach", "--address", "198.18.0.1", "--", "true"]);
    let said = refusal(&mut attach);
    assert!(
        said.contains("is no address with its length: expected one like 198.18.0.1/24"),
        "{said}"
    );
    let address = "--address=198.18.0.1/24";
    let mut attach = dir.altway(["emulate", "attach", address, "--interface", "altway-none"]);
    assert_error(
        attach.args(["--", "true"]),
        "there is no interface `altway-none`",
        "`ip link` lists",
    );
}

#[test]
fn a_run_mode_that_there_is_not() {
    let dir = Dir::new();
    let said = refusal(dir.altway(["serve"]).env("ALTWAY_RUN_MODE", "h3"));
    assert!(
        said.contains("invalid value 'h3' for '--run-mode <MODE>'"),
        "{said}"
    );
    assert!(said.contains("h2, h2c"), "{said}");
}

#[test]
fn a_certificate_for_clear_text() {
    let dir = Dir::new();
    for option in ["--cert", "--key", "--ocsp", "--client-roots"] {
        for said_by_variable in [true, false] {
            let mut serve = dir.altway(["serve", option, "file.pem"]);
            match said_by_variable {
                true => serve.env("ALTWAY_RUN_MODE", "h2c"),
                false => serve.args(["--run-mode", "h2c"]),
            };
            let error = format!("{option} is for TLS, and --run-mode h2c is clear text");
            assert_error(&mut serve, &error, "leave one of the two out");
        }
    }
}

#[test]
fn a_visit_is_read_as_the_documents_have_it_and_no_other() {
    let dir = Dir::new();
    let page = include_str!("../../../../docs/commands.md");
    let shown = page.split("```json\n").nth(1).expect("a visit in JSON");
    let shown = shown.split("```").next().unwrap();
    let visit = |dir: &Dir| {
        dir.altway([
            "load",
            "https://127.0.0.1:1/",
            "-p",
            "h3",
            "--visit",
            "visit.json",
        ])
    };
    dir.file("visit.json", shown);
    assert_error(
        &mut visit(&dir),
        "cannot connect to 127.0.0.1:1",
        "see whether",
    );
    dir.file("visit.json", shown.replace("end_of", "end"));
    assert_error(
        &mut visit(&dir),
        "visit.json is not a visit: ",
        "it is JSON like {",
    );
}

#[test]
fn a_certificate_that_nobody_trusts() {
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    let serving = Serving::start(&dir, &[]);
    for protocol in ["h2", "h3"] {
        let mut load = dir.altway(["load", &serving.url("/"), "--protocol", protocol]);
        assert_error(&mut load, "certificate", "name the authority with --ca");
    }
}

#[test]
fn a_configuration_that_is_no_text_of_a_file() {
    let dir = Dir::new();
    let check = |name: &str, error: &str, hint: &str| {
        for command in [["config", "check"], ["serve", "--config"]] {
            let mut command = dir.altway(command);
            command.arg(name);
            assert_error(&mut command, error, hint);
        }
    };
    std::fs::write(dir.path().join("latin1.toml"), b"# a\n# \xe9\n").unwrap();
    check(
        "latin1.toml",
        "cannot read the configuration `latin1.toml`: line 2 is not text in UTF-8",
        "have your editor save it as UTF-8",
    );
    let made = Command::new("mkfifo").arg(dir.path().join("pipe")).status();
    assert!(made.unwrap().success());
    check("pipe", "it is a pipe that nobody writes to", "give a file");
    check(".", "Is a directory", "give a file");
}

#[test]
fn a_configuration_comes_through_a_pipe_as_well() {
    use std::io::Write;
    let dir = Dir::new();
    let mut command = dir.altway(["config", "check", "/dev/stdin"]);
    command.stdin(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // More than a pipe holds: it is read while it is written.
    let text = format!("{}\nhere = 1\n", "# long\n".repeat(20_000));
    pipe.write_all(text.as_bytes()).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("unknown key `here`"), "{said}");
}
