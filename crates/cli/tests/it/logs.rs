//! Logs that nobody reads, rotated logs, and what a server's environment may ask for.

use crate::common::{Dir, Serving, eventually, refusal, success, text};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Signal;
use std::fs;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// The time that a process has beyond its grace, and a slow machine beyond that: below a silent connection's time-out.
const AFTER_GRACE: Duration = Duration::from_secs(30);

/// A pipe with no room for another line.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    for size in [4096, 1] {
        while writer.write(&vec![b'\n'; size]).is_ok() {}
    }
    // The process shares them.
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

fn serving_into(stderr: PipeWriter, more: &[&str]) -> (Dir, Serving) {
    let dir = Dir::new();
    dir.file("site/page", "hello");
    let server = Serving::start_with(&dir, 0, more, stderr, &[]);
    (dir, server)
}

/// Sends SIGTERM, and waits for the exit code as long as a grace of a second allows.
fn terminate_in_time(mut server: Serving) -> Option<i32> {
    server.signal(Signal::TERM);
    let deadline = Instant::now() + Duration::from_secs(1) + AFTER_GRACE;
    loop {
        if let Some(code) = server.ended() {
            return code;
        }
        assert!(Instant::now() < deadline, "it is still there");
        thread::sleep(Duration::from_millis(20));
    }
}

fn load(dir: &Dir, server: &Serving, more: &[&str]) {
    let mut command = dir.altway(["load", &server.url("/page"), "--insecure"]);
    success(command.args(more));
}

#[test]
fn no_request_and_no_stop_waits_for_a_log_that_nobody_reads() {
    let (reader, writer) = full_pipe();
    let options = ["-vv", "--access-log", "-", "--grace", "1s", "-n", "2"];
    let (dir, server) = serving_into(writer, &options);
    for protocol in ["h1", "h2", "h3"] {
        load(&dir, &server, &["-p", protocol, "-n", "100", "-c", "2"]);
    }
    assert_eq!(terminate_in_time(server), Some(0));
    drop(reader);
}

#[test]
fn lines_that_a_log_has_no_room_for_are_dropped_and_counted_in_it() {
    let (mut reader, writer) = full_pipe();
    let (dir, server) = serving_into(writer, &["--access-log", "-"]);
    // 2,000 lines of 3,000 bytes are more than the queue holds.
    let url = server.url(&format!("/{}", "x".repeat(3_000)));
    let mut command = dir.altway(["load", &url, "--insecure", "-n", "2000", "-c", "4"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let reading = thread::spawn(move || {
        let mut lines = String::new();
        reader.read_to_string(&mut lines).unwrap();
        lines
    });
    assert_eq!(server.terminate(), Some(0));
    let lines = reading.join().unwrap();
    let written = lines
        .lines()
        .filter(|it| it.contains("path=\"/xxx"))
        .count();
    let counts = lines.lines().filter_map(|line| {
        let (_, rest) = line.split_once(" dropped=")?;
        rest.split_once(" reason=")?.0.parse::<usize>().ok()
    });
    let dropped: usize = counts.sum();
    assert!(written > 1_000 && dropped > 100, "{written}, {dropped}");
    // Beside lines of the access log, warnings may have been dropped.
    assert!(
        (2_000..2_010).contains(&(written + dropped)),
        "{written}, {dropped}"
    );
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

#[test]
fn a_rotated_log_is_followed_by_a_new_one_and_no_line_is_lost() {
    let dir = Dir::new();
    dir.file("site/page", "hello");
    let server = Serving::start(&dir, &["--access-log", "access.log", "-n", "2"]);
    let [log, rotated] = ["access.log", "access.log.1"].map(|name| dir.path().join(name));
    thread::scope(|scope| {
        scope.spawn(|| load(&dir, &server, &["-n", "1500", "-c", "2"]));
        eventually("lines are written", || lines(&log) > 0);
        fs::rename(&log, &rotated).unwrap();
        server.signal(Signal::USR1);
        eventually("there is a new log", || log.exists());
    });
    load(&dir, &server, &["-n", "1"]);
    for path in [&log, &rotated] {
        let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
    assert_eq!(server.terminate(), Some(0));
    assert!(lines(&log) > 0 && lines(&rotated) > 0);
    assert_eq!(lines(&log) + lines(&rotated), 1_501);
}

#[test]
fn the_format_of_the_log_can_be_chosen() {
    for format in ["key-value", "json", "combined"] {
        let dir = Dir::new();
        dir.file("site/page", "hello");
        let options = ["--access-log", "access.log", "--access-log-format", format];
        let server = Serving::start(&dir, &options);
        for protocol in ["h1", "h2", "h3"] {
            load(&dir, &server, &["-p", protocol, "-n", "3"]);
        }
        assert_eq!(server.terminate(), Some(0));
        let text = fs::read_to_string(dir.path().join("access.log")).unwrap();
        assert_eq!(text.lines().count(), 9, "{format}: {text}");
        for line in text.lines() {
            let is_right = match format {
                "key-value" => line.contains("Z client=127.0.0.1 protocol="),
                "json" => {
                    let said: serde_json::Value = serde_json::from_str(line).unwrap();
                    said["path"] == "/page" && said["status"] == 200 && said["bytes"] == 5
                }
                _ => line.starts_with("127.0.0.1 - - [") && line.contains(" 200 5 \"-\" "),
            };
            assert!(is_right, "{format}: {line}");
        }
    }
}

#[test]
fn without_a_log_the_signal_to_reopen_it_does_nothing_and_says_so() {
    let dir = Dir::new();
    dir.file("site/page", "hello");
    let server = Serving::start(&dir, &["--h2c"]);
    server.signal(Signal::USR1);
    let said = || fs::read_to_string(dir.path().join("log")).unwrap();
    eventually("it says so", || {
        said().contains("SIGUSR1: there is no access log")
    });
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn a_log_that_cannot_be_opened_anew_stays_in_use() {
    let dir = Dir::new();
    dir.file("site/page", "hello");
    fs::create_dir(dir.path().join("logs")).unwrap();
    let server = Serving::start(&dir, &["--access-log", "logs/access.log"]);
    fs::rename(dir.path().join("logs"), dir.path().join("moved")).unwrap();
    server.signal(Signal::USR1);
    let said = || fs::read_to_string(dir.path().join("log")).unwrap();
    let expected = "the former access log stays in use: cannot open `logs/access.log`";
    eventually("it says so", || said().contains(expected));
    load(&dir, &server, &["-n", "3"]);
    assert_eq!(server.terminate(), Some(0));
    assert_eq!(lines(&dir.path().join("moved/access.log")), 3);
}

#[test]
fn refused_requests_are_summed_on_stderr_at_the_end() {
    let dir = Dir::new();
    dir.file("site/page", "hello");
    let server = Serving::start(&dir, &["--h2c"]);
    // The second is one that hyper refuses by itself; the third is taken for HTTP/2.
    let requests = [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nbad name: x\r\n\r\n",
        "no request at all, of no protocol\r\n\r\n",
    ];
    for request in requests {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(server.terminate(), Some(0));
    let said = fs::read_to_string(dir.path().join("log")).unwrap();
    for expected in ["2 × refused request", "1 × misbehaviour"] {
        let expected = format!("client 127.0.0.1/32: {expected}");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn a_server_gives_its_secrets_to_a_variable_only_when_told_to() {
    let dir = Dir::new();
    dir.file("site/page", "hello");
    let variables = [("SSLKEYLOGFILE", "by-variable")];
    let start = |more: &[&str]| {
        let log = fs::File::create(dir.path().join("log")).unwrap();
        Serving::start_with(&dir, 0, more, log, &variables)
    };
    let server = start(&[]);
    load(&dir, &server, &[]);
    assert_eq!(server.terminate(), Some(0));
    let said = fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(said.contains("SSLKEYLOGFILE is set and ignored"), "{said}");
    let secrets = dir.path().join("by-variable");
    assert!(!secrets.exists());
    let server = start(&["--keylog", "env"]);
    load(&dir, &server, &[]);
    assert_eq!(server.terminate(), Some(0));
    assert!(lines(&secrets) > 0);
    let mut without = dir.altway(["serve", "site", "--keylog", "env"]);
    let said = refusal(without.env_remove("SSLKEYLOGFILE"));
    let expected = "--keylog env needs the variable SSLKEYLOGFILE, which is not set";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_stop_says_how_many_requests_it_waits_for() {
    let dir = Dir::new();
    let file = dir.file("site/big", "");
    let file = fs::File::options().write(true).open(file).unwrap();
    file.set_len(256 << 20).unwrap();
    let server = Serving::start(&dir, &["--h2c", "--grace", "50s"]);
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).unwrap();
    client
        .write_all(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    client.read_exact(&mut [0; 1000]).unwrap();
    server.signal(Signal::TERM);
    eventually("it says so", || {
        let log = fs::read_to_string(dir.path().join("log")).unwrap();
        log.contains(
            "stopping; requests that are being answered: 1, with 50s to end; a second signal ends them at once\n",
        )
    });
    drop(client);
    assert_eq!(server.wait(), Some(0));
}
