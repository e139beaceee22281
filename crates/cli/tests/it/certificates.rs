//! The server's certificate as `openssl s_client` sees it: stapled, replaced, kept.

use crate::common::{Dir, Serving, eventually, installed, skipped, success, text};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A folder to serve, and `openssl`.
fn site() -> Option<Dir> {
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    installed("openssl").then_some(dir)
}

fn openssl(dir: &Dir, line: &str) -> String {
    let mut openssl = Command::new("openssl");
    let openssl = openssl.args(line.split(' ')).current_dir(dir.path());
    success(openssl)
}

/// An authority, and a certificate of it with `serial`: `ca.*` and `leaf.*`.
fn issue(dir: &Dir, serial: &str) {
    const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    if !dir.path().join("ca.pem").exists() {
        let ca = format!("req -x509 {KEY} -subj /CN=ca -keyout ca.key -out ca.pem");
        openssl(dir, &ca);
    }
    let leaf = "-subj /CN=localhost -addext subjectAltName=DNS:localhost";
    let files = "-keyout leaf.key -out leaf.pem";
    let issuer = "-x509 -CA ca.pem -CAkey ca.key -set_serial";
    openssl(dir, &format!("req {issuer} {serial} {KEY} {leaf} {files}"));
}

/// Asks the authority of [`issue`] for an OCSP response on the certificate: `ocsp.der`.
fn vouch(dir: &Dir, serial: &str) {
    let index = format!("V\t491231235959Z\t\t{serial}\tunknown\t/CN=localhost\n");
    dir.file("index.txt", index);
    openssl(
        dir,
        "ocsp -issuer ca.pem -cert leaf.pem -reqout request.der",
    );
    let responder = "ocsp -index index.txt -CA ca.pem -rsigner ca.pem -rkey ca.key -ndays 7";
    openssl(
        dir,
        &format!("{responder} -reqin request.der -respout ocsp.der"),
    );
}

fn serving(dir: &Dir) -> Serving {
    let files = ["--cert", "leaf.pem", "--key", "leaf.key"];
    Serving::start(dir, &[&files[..], &["--ocsp", "ocsp.der"]].concat())
}

/// Asks `openssl s_client` for the certificate that a new connection shows.
fn seen(serving: &Serving, more: &str) -> String {
    let to = format!("localhost:{}", serving.port);
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", &to, "-servername", "localhost"]);
    let output = client
        .args(more.split(' '))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    text(&output.stdout) + &text(&output.stderr)
}

/// The serial number that a new connection shows, in hexadecimal.
fn serial(dir: &Dir, serving: &Serving) -> String {
    let shown = seen(serving, "-showcerts");
    let begin = shown.find("-----BEGIN").expect("a certificate");
    dir.file("shown.pem", &shown[begin..]);
    let line = openssl(dir, "x509 -in shown.pem -noout -serial");
    line.trim().replace("serial=", "")
}

fn log(dir: &Dir) -> String {
    std::fs::read_to_string(dir.path().join("log")).unwrap()
}

#[test]
fn an_ocsp_response_is_stapled_for_whom_asks() {
    let Some(dir) = site() else { return };
    issue(&dir, "0x1001");
    vouch(&dir, "1001");
    let serving = serving(&dir);
    for version in ["-tls1_2", "-tls1_3"] {
        let asked = seen(&serving, &format!("{version} -status"));
        assert!(
            asked.contains("OCSP Response Status: successful"),
            "{asked}"
        );
        assert!(asked.contains("Cert Status: good"), "{asked}");
        let unasked = seen(&serving, version);
        assert!(!unasked.contains("OCSP Response Status"), "{unasked}");
    }
}

#[test]
fn sighup_replaces_the_certificate_under_connections_that_go_on() {
    let Some(dir) = site() else { return };
    issue(&dir, "0x1001");
    vouch(&dir, "1001");
    let serving = serving(&dir);
    let mut old = KeptAlive::open(&serving);
    assert_eq!(old.get(), "HTTP/1.1 200 OK");
    assert_eq!(serial(&dir, &serving), "1001");

    issue(&dir, "0x1002");
    vouch(&dir, "1002");
    serving.signal(Signal::HUP);
    eventually("the new certificate", || serial(&dir, &serving) == "1002");
    let stapled = seen(&serving, "-status");
    assert!(stapled.contains("Serial Number: 1002"), "{stapled}");
    assert_eq!(old.get(), "HTTP/1.1 200 OK");
    assert!(log(&dir).contains("reload: the certificate was read again"));
    assert_eq!(serving.terminate(), Some(0));
}

/// A test without a signal: the files are looked at every 30 s.
#[test]
fn a_certificate_whose_file_is_replaced_is_shown_by_itself() {
    let Some(dir) = site() else { return };
    issue(&dir, "0x1001");
    let files = ["--cert", "leaf.pem", "--key", "leaf.key"];
    let serving = Serving::start(&dir, &files);
    assert_eq!(serial(&dir, &serving), "1001");
    issue(&dir, "0x1002");
    let give_up = Instant::now() + Duration::from_secs(90);
    while !log(&dir).contains("the files have changed: ") {
        assert!(Instant::now() < give_up, "{}", log(&dir));
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(serial(&dir, &serving), "1002");
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn a_bad_file_leaves_the_former_certificate_in_use_and_one_error_in_the_log() {
    let Some(dir) = site() else { return };
    issue(&dir, "0x1001");
    vouch(&dir, "1001");
    let serving = serving(&dir);
    // The response in the file is for the former one.
    issue(&dir, "0x1002");
    serving.signal(Signal::HUP);
    let said = "ERROR altway::commands::serve::reload: reload: the former certificate stays in \
                use: the OCSP response `ocsp.der` is for another certificate";
    eventually("an error in the log", || log(&dir).contains(said));
    assert_eq!(log(&dir).matches("ERROR").count(), 1);
    assert_eq!(serial(&dir, &serving), "1001");
    vouch(&dir, "1002");
    serving.signal(Signal::HUP);
    eventually("the new certificate", || serial(&dir, &serving) == "1002");
}

#[test]
fn a_key_that_others_may_read_is_named_at_start_and_at_sighup_and_is_served() {
    let Some(dir) = site() else { return };
    issue(&dir, "0x1001");
    let key = dir.path().join("leaf.key");
    let set_mode = |mode| std::fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
    set_mode(0o644);
    let serving = Serving::start(
        &dir,
        &["--cert", "leaf.pem", "--key", "leaf.key", "--quiet"],
    );
    let warning = |mode| {
        format!(
            "warning: others than its owner can read the private key `leaf.key` (mode {mode}); \
             mend it by: chmod go-rwx 'leaf.key'\n"
        )
    };
    assert_eq!(
        log(&dir).matches(&warning("644")).count(),
        1,
        "{}",
        log(&dir)
    );
    assert_eq!(serial(&dir, &serving), "1001");
    set_mode(0o640);
    serving.signal(Signal::HUP);
    eventually("a second warning", || log(&dir).contains(&warning("640")));
}

#[test]
fn a_certificate_near_its_end_is_named_until_it_is_replaced() {
    let Some(dir) = site() else { return };
    issue(&dir, "0x1001");
    let issued = |days: &str| {
        let files = "-key leaf.key -out leaf.pem";
        openssl(
            &dir,
            &format!("req -x509 -days {days} -subj /CN=localhost {files}"),
        );
    };
    issued("13");
    let serving = Serving::start(&dir, &["--cert", "leaf.pem", "--key", "leaf.key"]);
    let soon = "warning: the certificate `leaf.pem` expires on ";
    assert_eq!(log(&dir).matches(soon).count(), 1, "{}", log(&dir));
    issued("365");
    serving.signal(Signal::HUP);
    let again = "reload: the certificate was read again";
    eventually("read again", || log(&dir).contains(again));
    assert_eq!(log(&dir).matches("warning:").count(), 1, "{}", log(&dir));
}

#[test]
fn sighup_has_altways_own_certificate_made_anew_when_it_is_time() {
    let Some(dir) = site() else { return };
    let serving = Serving::start(&dir, &[]);
    let former = serial(&dir, &serving);
    serving.signal(Signal::HUP);
    eventually("read again", || log(&dir).contains("reload: "));
    assert_eq!(serial(&dir, &serving), former);
    std::fs::remove_file(dir.path().join("data/altway/certs/leaf.pem")).unwrap();
    serving.signal(Signal::HUP);
    eventually("another one", || serial(&dir, &serving) != former);
}

#[test]
fn sighup_does_not_end_a_server_in_clear_text() {
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    let serving = Serving::start(&dir, &["--h2c"]);
    serving.signal(Signal::HUP);
    eventually("heard", || log(&dir).contains("clear text has no certif"));
    TcpStream::connect(("127.0.0.1", serving.port)).unwrap();
}

#[test]
fn behind_a_proxy_that_terminates_tls_there_is_no_certificate_and_the_scheme_is_https() {
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    let serving = Serving::start(&dir, &["--behind-tls-proxy"]);
    assert!(!dir.path().join("data/altway/certs").exists());
    for (scheme, status) in [("https", "200"), ("http", "421")] {
        let mut client = TcpStream::connect(("127.0.0.1", serving.port)).unwrap();
        let head = format!("GET {scheme}://a/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        let begin = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&begin), "{scheme}: {answer}");
    }
}

/// `script` keeps the terminal; when it is gone, so is the terminal.
#[test]
fn a_server_ends_with_its_terminal() {
    if !installed("script") {
        return;
    }
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    let altway = env!("CARGO_BIN_EXE_altway");
    let serve = format!("exec {altway} serve site --h2c --bind 127.0.0.1 -p 0 --json");
    let mut script = Command::new("script");
    script.args(["-q", "-c", &serve, "/dev/null"]);
    script.current_dir(dir.path()).env("SHELL", "/bin/sh");
    script.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = script.spawn().unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(script.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    let listening = serde_json::from_str::<serde_json::Value>(&line);
    let connect = |address: &str| TcpStream::connect(address);
    let was_there = listening
        .as_ref()
        .is_ok_and(|listening| connect(listening["address"].as_str().unwrap()).is_ok());
    kill_process(Pid::from_child(&script), Signal::KILL).unwrap();
    script.wait().unwrap();
    let Ok(listening) = listening else {
        return skipped(&format!("no terminal here: {line}"));
    };
    assert!(was_there);
    let address = listening["address"].as_str().unwrap();
    eventually("the server's end", || connect(address).is_err());
}

/// A connection over TLS by `openssl s_client`, on which requests follow each other.
struct KeptAlive {
    client: std::process::Child,
}

impl KeptAlive {
    fn open(serving: &Serving) -> Self {
        let to = format!("localhost:{}", serving.port);
        let mut client = Command::new("openssl");
        client.args(["s_client", "-quiet", "-connect", &to, "-alpn", "http/1.1"]);
        client.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self {
            client: client.stderr(Stdio::null()).spawn().unwrap(),
        }
    }

    /// The response's first line.
    fn get(&mut self) -> String {
        let request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
        let stdin = self.client.stdin.as_mut().unwrap();
        stdin.write_all(request).unwrap();
        let mut said = Vec::new();
        let stdout = self.client.stdout.as_mut().unwrap();
        while !said.ends_with(b"hello") {
            let mut byte = [0];
            assert_eq!(stdout.read(&mut byte).unwrap(), 1, "{}", text(&said));
            said.push(byte[0]);
        }
        text(&said).lines().next().unwrap().to_owned()
    }
}

impl Drop for KeptAlive {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

/// A server by `altway.toml` with this admin socket.
fn configured(dir: &Dir, admin: &str) -> Serving {
    let mut command = dir.altway(["serve", "--config", "altway.toml", "--json"]);
    command.args(["--admin", admin]).stderr(Stdio::null());
    let serving = Serving::spawn(dir, command);
    eventually("the admin socket is there", || {
        dir.path().join(admin).exists()
    });
    serving
}

/// TLS 1.2, whose ticket comes with the handshake: nothing has to be asked for.
#[test]
fn a_shared_ticket_key_resumes_at_another_server_until_another_one_is_read_from_its_file() {
    let Some(dir) = site() else { return };
    let keep = |seed: u8| dir.file("ticket.key", [seed; 48]);
    keep(1);
    let config = "threads = 1\nticket-keys = [\"ticket.key\"]\n[listen]\nhttps = [\"127.0.0.1:0\"]\n\
                  [[site]]\ndefault = true\nroute = [{ files = \"site\" }]\n";
    dir.file("altway.toml", config);
    let (one, other) = (configured(&dir, "one"), configured(&dir, "other"));
    let session = dir.path().join("session").display().to_string();
    let begin = |at: &Serving| {
        let said = seen(at, &format!("-tls1_2 -sess_out {session}"));
        assert!(said.contains("New, TLSv1.2"), "{said}");
    };
    let resumes = |at: &Serving| {
        let said = seen(at, &format!("-tls1_2 -sess_in {session}"));
        let is_resumed = said.contains("Reused, TLSv1.2");
        assert!(is_resumed || said.contains("New, TLSv1.2"), "{said}");
        is_resumed
    };
    let reload = |admin| success(&mut dir.altway(["reload", "--admin", admin]));
    begin(&one);
    assert!(resumes(&one) && resumes(&other));
    keep(2);
    assert!(resumes(&one), "the file is not read by itself");
    let said = reload("one");
    assert!(said.contains("read 1 key of session tickets\n"), "{said}");
    assert!(!resumes(&one), "the key is gone");
    assert!(resumes(&other));
    begin(&one);
    assert!(!resumes(&other), "it has not the new key yet");
    reload("other");
    assert!(resumes(&other));
}
