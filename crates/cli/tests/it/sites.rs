//! A server that is told by a file which sites it has: what clients get, what its operator sees, and what a reload
//! changes.

use crate::common::{Dir, Serving, eventually, free_port, refusal, success, text};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Output, Stdio};

/// Two sites in clear text, of which the second has this policy and a route of its own.
fn config(second: &str) -> String {
    format!(
        "threads = 1\n\n[listen]\nhttp = [\"127.0.0.1:0\"]\n\n\
         [[site]]\nnames = [\"a.example\"]\n\n\
         [[site.route]]\npath = \"/old/*\"\nredirect = {{ to = \"/{{rest}}\" }}\n\n\
         [[site.route]]\nfiles = \"a\"\n\n{second}"
    )
}

const SECOND: &str = "[[site]]\nnames = [\"b.example\"]\nroute = [{ files = \"b\" }]\n";

fn dir() -> Dir {
    let dir = Dir::new();
    for site in ["a", "b"] {
        dir.file(&format!("{site}/index.html"), format!("home of {site}"));
    }
    dir.file("altway.toml", config(SECOND));
    dir
}

fn start(dir: &Dir) -> Serving {
    let mut command = dir.altway(["serve", "--config", "altway.toml", "--json"]);
    command.args(["--admin", "admin.sock"]);
    let log = dir.file("log", "");
    let log = std::fs::File::options().append(true).open(log).unwrap();
    command.stderr(log);
    let serving = Serving::spawn(dir, command);
    eventually("the admin socket is there", || {
        dir.path().join("admin.sock").exists()
    });
    serving
}

/// The whole response over HTTP/1.1.
fn ask(serving: &Serving, host: &str, path: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, serving.port)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn reload(dir: &Dir) -> Output {
    let mut command = dir.altway(["reload", "--admin", "admin.sock"]);
    command.stdin(Stdio::null()).output().unwrap()
}

fn log(dir: &Dir) -> String {
    std::fs::read_to_string(dir.path().join("log")).unwrap()
}

#[test]
fn sites_are_served_and_told_of() {
    let dir = dir();
    let serving = start(&dir);
    assert!(ask(&serving, "a.example", "/").ends_with("home of a"));
    assert!(ask(&serving, "B.example:80", "/").ends_with("home of b"));
    let moved = ask(&serving, "a.example", "/old/x?q");
    assert!(moved.starts_with("HTTP/1.1 308 "), "{moved}");
    assert!(moved.contains("\r\nlocation: /x\r\n"), "{moved}");
    let nobody = ask(&serving, "c.example", "/");
    assert!(nobody.starts_with("HTTP/1.1 421 "), "{nobody}");

    let status = success(&mut dir.altway(["status", "--admin", "admin.sock", "--json"]));
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(
        status["protocols"][0]["responses"],
        serde_json::json!([0, 2, 1, 1, 0])
    );
    assert_eq!(status["process"]["id"], serving.process());
    let shown = success(&mut dir.altway(["status", "--admin", "admin.sock"]));
    assert!(shown.starts_with("altway "), "{shown}");
    let elsewhere = refusal(&mut dir.altway(["status", "--admin", "none.sock"]));
    assert!(
        elsewhere.contains("no server answers") && elsewhere.contains("--admin"),
        "{elsewhere}"
    );
    assert_eq!(serving.terminate(), Some(0));
    assert!(!dir.path().join("admin.sock").exists());
}

#[test]
fn a_site_that_is_named_by_an_address_is_reached_there_over_every_protocol() {
    let dir = dir();
    let of = |rest: &str| {
        format!(
            "threads = 1\n\n[listen]\nhttps = [\"127.0.0.1:0\"]\n\n[[site]]\nnames = [\"a.example\"]\n\
             route = [{{ files = \"a\" }}]\n\n[[site]]\nnames = [{rest}]\nroute = [{{ files = \"b\" }}]\n"
        )
    };
    let load = |serving: &Serving, protocol| {
        let url = format!("https://127.0.0.1:{}/", serving.port);
        let mut load = dir.altway(["load", &url, "--protocol", protocol, "--json"]);
        load.args(["--ca", "data/altway/certs/ca.pem"]);
        load.stdin(Stdio::null()).output().unwrap()
    };
    dir.file("altway.toml", of("\"127.0.0.1\", \"[::1]\""));
    let serving = start(&dir);
    for protocol in ["h1", "h2", "h3"] {
        let loaded = load(&serving, protocol);
        assert!(loaded.status.success(), "{}", text(&loaded.stderr));
        let summary = text(&loaded.stdout);
        assert!(summary.contains("\"200\": 1"), "{protocol}: {summary}");
    }
    assert_eq!(serving.terminate(), Some(0));
    // Nobody is shown a certificate who asks for none, where no site has an address.
    dir.file("altway.toml", of("\"b.example\""));
    let serving = start(&dir);
    for protocol in ["h1", "h2", "h3"] {
        assert_eq!(load(&serving, protocol).status.code(), Some(2));
    }
}

#[test]
fn a_reload_changes_sites_and_says_so_and_a_file_with_faults_changes_nothing() {
    let dir = dir();
    let serving = start(&dir);
    let same = reload(&dir);
    assert_eq!(
        text(&same.stdout),
        "nothing in the configuration has changed\n"
    );

    let third = SECOND.replace("b.example", "c.example");
    dir.file("altway.toml", config(&third));
    let changed = reload(&dir);
    assert_eq!(
        text(&changed.stdout),
        "added site c.example\nremoved site b.example\n"
    );
    assert_eq!(changed.status.code(), Some(0));
    assert!(ask(&serving, "c.example", "/").ends_with("home of b"));
    assert!(ask(&serving, "b.example", "/").starts_with("HTTP/1.1 421 "));

    for (broken, says) in [
        (
            config("[[site]]\nnames = [\"a.example\"]\nfoo = 1\n"),
            "altway.toml:",
        ),
        (
            config(&third.replace("files = \"b\"", "files = \"none\"")),
            "altway.toml:18:20: cannot open the directory `none`: No such file or directory (os error 2)\n  hint: name a folder",
        ),
    ] {
        dir.file("altway.toml", broken);
        let refused = reload(&dir);
        assert_eq!(refused.status.code(), Some(1));
        let said = text(&refused.stdout);
        assert!(
            said.starts_with("the former configuration stays in use: "),
            "{said}"
        );
        assert!(said.contains(says), "{said}");
        assert!(ask(&serving, "c.example", "/").ends_with("home of b"));
    }

    let told = log(&dir);
    for line in [
        "reload: nothing in the configuration has changed\n",
        "reload: added site c.example; removed site b.example\n",
        "ERROR altway::commands::serve::reload: reload: the former configuration stays in use: ",
    ] {
        assert!(told.contains(line), "{line} in {told}");
    }
    dir.file("altway.toml", config(SECOND));
    serving.signal(Signal::HUP);
    eventually("SIGHUP is obeyed", || {
        ask(&serving, "b.example", "/").ends_with("home of b")
    });
    eventually("and told of", || {
        log(&dir).contains("reload: added site b.example; removed site c.example\n")
    });
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn a_reload_names_what_takes_a_process_for_as_long_as_the_file_says_it() {
    let dir = Dir::new();
    dir.file("a/index.html", "home of a");
    let config = |listen: &str| {
        format!(
            "threads = 1\n\n[listen]\n{listen} = [\"127.0.0.1:0\"]\n\n\
             [[site]]\ndefault = true\nroute = [{{ files = \"a\" }}]\n"
        )
    };
    dir.file("altway.toml", config("https"));
    let serving = start(&dir);
    let said = |listen: &str| {
        dir.file("altway.toml", config(listen));
        text(&reload(&dir).stdout)
    };
    let clear = said("http");
    assert!(clear.contains("not changed in place: [listen];"), "{clear}");
    assert_eq!(said("http"), clear);
    assert_eq!(
        said("https"),
        "nothing in the configuration has changed\nread 1 certificate\n"
    );
    assert_eq!(serving.terminate(), Some(0));
}

/// Requests of one client while the configuration is read again and again: each is answered by one of the two.
#[test]
fn no_request_is_lost_while_the_configuration_is_read_again() {
    const RELOADS: usize = 100;
    let dir = dir();
    let serving = start(&dir);
    let both = [
        config(SECOND),
        config(&SECOND.replace("files = \"b\"", "files = \"a\"")),
    ];
    let answered = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, serving.port)).unwrap();
            let mut answered = 0;
            while !dir.path().join("done").exists() {
                stream
                    .write_all(b"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n")
                    .unwrap();
                let mut buffer = [0; 2048];
                let mut response = Vec::new();
                while !response.windows(7).any(|bytes| bytes == b"home of") {
                    let read = stream.read(&mut buffer).unwrap();
                    assert!(read > 0, "cut off after {answered}");
                    response.extend_from_slice(&buffer[..read]);
                }
                assert!(response.starts_with(b"HTTP/1.1 200 "));
                answered += 1;
            }
            answered
        });
        let mut before = None;
        for round in 0..RELOADS {
            dir.file("altway.toml", &both[round % 2]);
            assert_eq!(reload(&dir).status.code(), Some(0));
            if round == RELOADS / 10 {
                before = Some(resident(serving.process()));
            }
        }
        dir.file("done", "");
        let grown = resident(serving.process()).saturating_sub(before.unwrap());
        assert!(
            grown < 16 << 20,
            "{grown} bytes more than after the first reloads"
        );
        asking.join().unwrap()
    });
    assert!(answered > RELOADS, "{answered}");
    let mut files = std::fs::read_dir(format!("/proc/{}/fd", serving.process())).unwrap();
    let folders = files
        .by_ref()
        .filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    let is_site = |path: &Path| ["a", "b"].iter().any(|site| path == dir.path().join(site));
    let open = folders.filter(|path| is_site(path)).count();
    // Two of the newest sites, and two of those that the worker's latest request has seen.
    assert!(
        open <= 4,
        "{open} folders are open: former ones are not closed"
    );
    assert_eq!(serving.terminate(), Some(0));
}

/// Memory of a process in bytes.
fn resident(process: u64) -> u64 {
    let pages = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap();
    let pages: u64 = pages.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

#[test]
fn two_servers_do_not_share_an_admin_socket_and_bad_places_are_named() {
    let dir = dir();
    let serving = start(&dir);
    let second = ["serve", "--config", "altway.toml", "--admin", "admin.sock"];
    let refused = refusal(&mut dir.altway(second));
    assert!(
        refused.contains("another process answers at the admin socket"),
        "{refused}"
    );
    assert!(refused.contains("hint: "), "{refused}");
    let nowhere = [
        "serve",
        "--config",
        "altway.toml",
        "--admin",
        "none/admin.sock",
    ];
    let refused = refusal(&mut dir.altway(nowhere));
    assert!(
        refused.contains("cannot listen at the admin socket `none/admin.sock`"),
        "{refused}"
    );
    let open = [
        "serve",
        "--config",
        "altway.toml",
        "--admin",
        "0.0.0.0:2019",
    ];
    let refused = refusal(&mut dir.altway(open));
    assert!(
        refused.contains("can be reached from other machines"),
        "{refused}"
    );
    assert_eq!(serving.terminate(), Some(0));
}

/// The metrics are such as Prometheus takes without a complaint, those of what is known of clients included.
#[test]
fn metrics_satisfy_promtool() {
    let promtool = crate::common::provided("promtool", "ALTWAY_TEST_PROMTOOL");
    let Some(promtool) = promtool.filter(|_| crate::common::installed("curl")) else {
        return;
    };
    let dir = dir();
    let tls = config(SECOND).replace("http = ", "https = ");
    dir.file("altway.toml", tls);
    let serving = start(&dir);
    let (port, host) = (serving.port, "a.example");
    let run = |command: String| {
        let mut shell = std::process::Command::new("sh");
        let shell = shell.args(["-c", &command]).current_dir(dir.path());
        let output = shell.output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        said
    };
    run(format!(
        "curl -skf --connect-to ::127.0.0.1:{port} https://{host}:{port}/"
    ));
    let metrics = "curl -sf --unix-socket admin.sock http://localhost/metrics";
    let text = run(metrics.into());
    assert!(text.contains("\naltway_known_clients 1\n"), "{text}");
    assert!(
        text.contains("altway_class_limit_bytes_per_second{"),
        "{text}"
    );
    for line in [
        "http_server_request_duration_seconds_bucket{protocol=\"h2\",class=\"2xx\",le=\"0.005\"} 1",
        "http_server_request_duration_seconds_bucket{protocol=\"h2\",class=\"2xx\",le=\"+Inf\"} 1",
        "http_server_request_duration_seconds_count{protocol=\"h2\",class=\"2xx\"} 1",
        "altway_site_responses_total{site=\"a.example\",class=\"2xx\"} 1",
        "altway_arrivals_total{site=\"a.example\",protocol=\"h2\",offered=\"false\"} 1",
        "altway_arrivals_total{site=\"a.example\",protocol=\"h3\",offered=\"true\"} 0",
        "altway_quic_pool_bytes 0",
        "http_server_active_requests 0",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} in\n{text}");
    }
    assert!(
        text.contains("\naltway_predicted_gain_ratio{offer="),
        "{text}"
    );
    let promtool = promtool.display();
    assert_eq!(run(format!("{metrics} | {promtool} check metrics")), "");
    assert_eq!(serving.terminate(), Some(0));
}

/// Requests that are refused for their heads, or for want of a client certificate, are told of by that reason.
#[test]
fn refused_requests_are_told_by_their_reason_in_metrics_and_status() {
    if !crate::common::installed("curl") {
        return;
    }
    let dir = dir();
    let made = success(&mut dir.altway(["certs", "--json"]));
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let asking = format!(
        "client-certificates = {{ roots = {} }}\n",
        made["ca_certificate"]
    );
    let tls = config(&SECOND.replace("route", &(asking + "route")));
    dir.file("altway.toml", tls.replace("http = ", "https = "));
    let serving = start(&dir);
    let curl = |arguments: [&str; 3], host: &str| {
        let mut curl = std::process::Command::new("curl");
        curl.args(["-sk", "-o", "none", "-w", "%{http_code}"]);
        curl.arg("--connect-to")
            .arg(format!("::127.0.0.1:{}", serving.port))
            .args(arguments)
            .arg(format!("https://{host}:{}/", serving.port));
        success(curl.current_dir(dir.path()))
    };
    let field = format!("x: {}", "y".repeat(40_000));
    for protocol in ["--http1.1", "--http2"] {
        assert_eq!(curl([protocol, "-H", &field], "a.example"), "431");
        assert_eq!(curl([protocol, "-H", "x: y"], "b.example"), "403");
    }
    let mut metrics = std::process::Command::new("curl");
    metrics.args([
        "-s",
        "--unix-socket",
        "admin.sock",
        "http://localhost/metrics",
    ]);
    let metrics = success(metrics.current_dir(dir.path()));
    let status = success(&mut dir.altway(["status", "--admin", "admin.sock"]));
    for (kind, count) in [("head limit", "2"), ("client certificate", "2")] {
        let sample = format!("\naltway_incidents_total{{kind=\"{kind}\"}} {count}\n");
        assert!(metrics.contains(&sample), "{metrics}");
        let said = status
            .lines()
            .find_map(|line| line.trim().strip_prefix(kind));
        assert_eq!(said.map(str::trim), Some(count), "{status}");
    }
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn a_reload_of_a_server_that_takes_none_says_how_to_have_one() {
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    let admin = format!("127.0.0.1:{}", free_port());
    let serving = Serving::start(&dir, &["--admin", &admin]);
    let said = refusal(&mut dir.altway(["reload", "--admin", &admin]));
    assert!(
        said.contains("a reload is taken over a Unix socket only"),
        "{said}"
    );
    assert!(
        said.contains("hint: a server that was started with `--config FILE`"),
        "{said}"
    );
    drop(serving);
}
