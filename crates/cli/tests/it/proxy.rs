//! `altway proxy` in front of a server: what clients of every protocol get, and what is told at the end.

use crate::common::{Dir, Serving, eventually, free_port, refusal, success, text as text_of};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};

/// A server that answers everything with the head that it was sent.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                let mut head = String::new();
                while reader.read_line(&mut head).is_ok_and(|n| n > 0) {
                    if !head.ends_with("\r\n\r\n") {
                        continue;
                    }
                    let len = head.len();
                    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n{head}");
                    reader.get_mut().write_all(answer.as_bytes()).unwrap();
                    head.clear();
                }
            });
        }
    });
    address
}

/// A proxy and the rest of what it prints.
fn start(dir: &Dir, origins: &[&str]) -> (Child, BufReader<std::process::ChildStdout>, u64) {
    let mut command = dir.altway([
        "proxy",
        "--bind",
        "127.0.0.1",
        "-p",
        "0",
        "--json",
        "-n",
        "1",
    ]);
    command
        .args(origins)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let listening: serde_json::Value = serde_json::from_str(&line).unwrap();
    let address: SocketAddr = listening["address"].as_str().unwrap().parse().unwrap();
    (child, stdout, address.port().into())
}

#[test]
fn each_protocol_reaches_the_origin_and_the_summary_counts_it() {
    let dir = Dir::new();
    let origin = origin().to_string();
    let (mut child, mut stdout, port) = start(&dir, &[&origin]);
    let url = format!("https://localhost:{port}/page?x=1");
    for (protocol, count) in [("h1", "3"), ("h2", "4"), ("h3", "5")] {
        let mut load = dir.altway(["load", &url, "--insecure", "-p", protocol]);
        success(load.args(["-n", count]));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let summary: serde_json::Value = serde_json::from_str(&rest).unwrap();
    assert_eq!(summary["event"], "summary");
    for (place, (protocol, count)) in [("h1", 3), ("h2", 4), ("h3", 5)].into_iter().enumerate() {
        let row = &summary["protocols"][place];
        assert_eq!(row["protocol"], protocol);
        assert_eq!(row["requests"], count, "{summary}");
        assert_eq!(
            (&row["errors"], &row["cut_off"]),
            (&0.into(), &0.into()),
            "{summary}"
        );
        assert!(row["end_us_p50"].as_u64() >= row["response_us_p50"].as_u64());
    }
    assert_eq!(summary["not_answered_by_an_origin"], serde_json::json!([]));
}

#[test]
fn what_no_origin_has_answered_is_no_visit() {
    let dir = Dir::new();
    let origins = [origin(), closed()].map(|it| it.to_string());
    for (origin, visits) in origins.iter().zip([1, 0]) {
        let (mut child, mut stdout, port) = start(&dir, &[origin]);
        let url = format!("https://localhost:{port}/");
        for protocol in ["h1", "h2", "h3"] {
            success(&mut dir.altway(["load", &url, "--insecure", "-p", protocol]));
        }
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        let summary: serde_json::Value = serde_json::from_str(&rest).unwrap();
        for protocol in 0..3 {
            let row = &summary["protocols"][protocol];
            assert_eq!(row["requests"], 1, "{summary}");
            assert_eq!(row["visits"]["count"], visits, "{summary}");
        }
    }
}

/// An address at which nobody listens, for the time of a test.
fn closed() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

#[test]
fn what_is_no_origin_is_refused_in_a_sentence() {
    let dir = Dir::alone();
    let said = refusal(&mut dir.altway(["proxy", "http://a/path"]));
    assert!(
        said.contains("it has a path, and requests keep their own"),
        "{said}"
    );
    let said = refusal(&mut dir.altway(["proxy", "3000"]));
    let hint = "its host is a number: a port of this machine is `localhost:PORT`";
    assert!(said.contains(hint), "{said}");
    let said = refusal(&mut dir.altway(["proxy", "localhost:1", "--roots", "ca.pem"]));
    assert!(
        said.contains("--roots is for origins that speak TLS"),
        "{said}"
    );
    let said = refusal(&mut dir.altway(["proxy", "localhost:1", "localhost:1"]));
    assert!(
        said.contains("`http://localhost:1` stands twice in `proxy`"),
        "{said}"
    );
}

#[test]
fn a_proxy_is_no_origin_of_itself() {
    let dir = Dir::new();
    let origins = ["http://127.0.0.1:1", "localhost:8443"];
    let mut command = dir.altway(["proxy"]);
    let said = refusal(command.args(origins));
    let expected = "error: the proxy itself listens at `http://localhost:8443`, so it can't be an origin\n\n\
                    hint: name the port at which the application listens";
    assert!(said.starts_with(expected), "{said}");
    let mut command = dir.altway(["proxy", "--listen", "127.0.0.1:9443"]);
    let said = refusal(command.arg("h2://127.0.0.1:9443"));
    assert!(said.contains("listens at `h2://127.0.0.1:9443`"), "{said}");
}

#[test]
fn a_route_that_leads_to_its_own_server_is_warned_of_and_requests_that_go_round_end() {
    let dir = Dir::new();
    let port = free_port();
    let text = format!(
        "threads = 1\n[listen]\nhttp = [\"127.0.0.1:{port}\"]\n[log]\naccess = \"access\"\n\
         [[site]]\ndefault = true\n[[site.route]]\nproxy = \"http://localhost:{port}\"\n"
    );
    dir.file("altway.toml", text);
    let warning = format!("this server itself listens at `http://localhost:{port}`: what is ");
    let mut check = dir.altway(["config", "check", "altway.toml"]);
    let checked = check.stdin(Stdio::null()).output().unwrap();
    let said = text_of(&checked.stderr);
    let placed = format!("warning: altway.toml:9:9: {warning}");
    assert!(said.starts_with(&placed), "{said}");
    assert_eq!(checked.status.code(), Some(0));
    let mut command = dir.altway(["serve", "--config", "altway.toml", "--json"]);
    let log = std::fs::File::create(dir.path().join("log")).unwrap();
    command.stderr(log);
    let serving = Serving::spawn(&dir, command);
    let told = || std::fs::read_to_string(dir.path().join("log")).unwrap();
    let warned = format!("warning: {warning}");
    eventually("a warning", || told().contains(&warned));
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, serving.port)).unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    client.write_all(request).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 508 "), "{answer}");
    eventually("the loop is told of", || {
        told().contains("answered 508: the request has come through altway 16 times")
    });
    assert_eq!(serving.terminate(), Some(0));
    let access = std::fs::read_to_string(dir.path().join("access")).unwrap();
    assert_eq!(access.lines().count(), 17, "{access}");
}

#[test]
fn a_name_that_nobody_resolves_is_told_of_once_with_what_follows() {
    let dir = Dir::new();
    let mut command = dir.altway(["proxy", "--listen", "127.0.0.1:0", "--json", "-n", "1"]);
    // A name that no resolver has (RFC 6761 section 6.4).
    command.arg("nobody.invalid").stdout(Stdio::piped());
    let log = std::fs::File::create(dir.path().join("log")).unwrap();
    let mut child = command.stderr(log).spawn().unwrap();
    // It is told while the server begins; a signal would end it without a word before it has.
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let told = || std::fs::read_to_string(dir.path().join("log")).unwrap();
    eventually("the name is told of", || told().contains("cannot resolve"));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let told = told();
    assert_eq!(told.matches("cannot resolve").count(), 1, "{told}");
    for part in [
        "cannot resolve the name of the upstream http://nobody.invalid:80: ",
        "requests for it are answered 502 or 503; it is looked up again with each of them, and every 30 s",
    ] {
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn a_server_that_does_not_pass_its_check_is_told_of_with_the_reason() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(answer);
        }
    });
    let dir = Dir::new();
    let mut command = dir.altway(["proxy", "--listen", "127.0.0.1:0", "--json", "-n", "1"]);
    command.args([&address, "--health", "/healthz"]);
    let log = std::fs::File::create(dir.path().join("log")).unwrap();
    let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    let told = || std::fs::read_to_string(dir.path().join("log")).unwrap();
    let reason = "is down: it is given no requests, for its check, GET /healthz, is answered 404\n";
    eventually("the check is told of", || told().contains(reason));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
