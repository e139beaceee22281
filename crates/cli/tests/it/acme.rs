//! Certificates by ACME against pebble, which rejects nonces, takes its time and forgets accounts.

use crate::common::{Dir, Serving, eventually, free_port, installed, provided, refusal, success};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The time in which an authority has decided. On a machine at full load its look at the challenge may time out, and a name
/// that was refused is tried again after 72 s at the latest.
const AUTHORITY: Duration = Duration::from_secs(120);

/// Answers every question for a name with 127.0.0.1, over TCP as pebble asks. Ends with the process.
fn name_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer_questions(stream));
        }
    });
    port
}

/// Each with the length before it (RFC 1035 section 4.2.2).
fn answer_questions(mut stream: TcpStream) -> Option<()> {
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length).ok()?;
        let mut query = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut query).ok()?;
        // The question ends with type and class after the name's last, empty label.
        let end = 12 + query.get(12..)?.iter().position(|byte| *byte == 0)? + 5;
        let is_a = query.get(end - 4..end - 2)? == [0, 1];
        let mut answer = query[..2].to_vec();
        answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
        answer.extend(&query[12..end]);
        if is_a {
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
        }
        let length = u16::try_from(answer.len()).ok()?.to_be_bytes();
        stream.write_all(&[&length, &answer[..]].concat()).ok()?;
    }
}

/// An authority to be, and the server that it gives certificates.
struct Place {
    dir: Dir,
    program: PathBuf,
    names: u16,
    pebble: u16,
    management: u16,
    https: u16,
    http: u16,
}

/// A running pebble, which ends with this value.
struct Pebble(Child);

impl Drop for Pebble {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Place {
    /// `None`: a program is missing.
    fn new() -> Option<Self> {
        let program = provided("pebble", "ALTWAY_TEST_PEBBLE")?;
        if !installed("curl") {
            return None;
        }
        let dir = Dir::new();
        dir.file("site/index.html", "hello");
        let store = altway_serve::certs::Store::open(dir.path().join("ca")).unwrap();
        store.leaf(&["localhost"]).unwrap();
        Some(Self {
            dir,
            program: program.into(),
            names: name_server(),
            pebble: free_port(),
            management: free_port(),
            https: free_port(),
            http: free_port(),
        })
    }

    /// `more`: further keys of its configuration; `variables`: of its environment.
    fn pebble(&self, more: &str, variables: &[(&str, &str)]) -> Pebble {
        let path = |name: &str| self.dir.path().join("ca").join(name).display().to_string();
        let config = format!(
            r#"{{"pebble": {{"listenAddress": "127.0.0.1:{}", "managementListenAddress": "127.0.0.1:{}",
            "certificate": "{}", "privateKey": "{}", "httpPort": {}, "tlsPort": {}, "ocspResponderURL": "",
            "keyAlgorithm": "ecdsa", "domainBlocklist": ["blocked.example"], "retryAfter": {{"authz": 1, "order": 1}},
            "profiles": {{"default": {{"description": "usual", "validityPeriod": 7776000}},
            "brief": {{"description": "seconds", "validityPeriod": 30}}}}{more}}}}}"#,
            self.pebble,
            self.management,
            path("leaf.pem"),
            path("leaf.key"),
            self.http,
            self.https,
        );
        let config = self.dir.file("pebble.json", config);
        let child = Command::new(&self.program)
            .arg("-config")
            .arg(config)
            .args([
                "-strict",
                "-dnsserver",
                &format!("127.0.0.1:{}", self.names),
            ])
            .envs([("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "50")])
            .envs(variables.iter().copied())
            .stdout(fs::File::create(self.dir.path().join("pebble.log")).unwrap())
            .stderr(Stdio::null())
            .spawn();
        let pebble = Pebble(child.unwrap());
        for port in [self.pebble, self.management] {
            eventually("pebble listens", || {
                TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
        }
        pebble
    }

    /// A configuration whose names are on demand beside one; those that end with `.shop.example` are allowed.
    fn config_on_demand(&self, listen: &str, acme: &str) {
        let (https, pebble) = (self.https, self.pebble);
        let text = format!(
            "state = \"state\"\nadmin = \"admin.sock\"\nthreads = 1\n[listen]\nhttps = \"127.0.0.1:{https}\"\n{listen}\n\
             [acme]\ndirectory = \"https://localhost:{pebble}/dir\"\nroots = \"ca/ca.pem\"\n{acme}\n\
             [[site]]\nnames = [\"a.example\"]\nroute = [{{ files = \"site\" }}]\n\
             [[site]]\ndefault = true\ncertificate = \"acme\"\nroute = [{{ files = \"site\" }}]\n"
        );
        self.dir.file("altway.toml", text);
    }

    /// `listen`: keys of [listen] beside `https`; `acme`: keys of [acme] beside directory and roots.
    fn config(&self, names: &[&str], listen: &str, acme: &str) {
        let (https, pebble) = (self.https, self.pebble);
        let text = format!(
            "state = \"state\"\nadmin = \"admin.sock\"\nthreads = 1\n[listen]\nhttps = \"127.0.0.1:{https}\"\n{listen}\n\
             [acme]\ndirectory = \"https://localhost:{pebble}/dir\"\nroots = \"ca/ca.pem\"\n{acme}\n\
             [[site]]\nnames = {names:?}\nroute = [{{ files = \"site\" }}]\n"
        );
        self.dir.file("altway.toml", text);
    }

    fn altway<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let mut command = self.dir.altway(arguments);
        command.env("ALTWAY_ADMIN", self.dir.path().join("admin.sock"));
        command
    }

    fn serve(&self) -> Serving {
        let arguments = ["serve", "--config", "altway.toml", "--json"];
        Serving::spawn(&self.dir, self.altway(arguments))
    }

    /// The exit code of curl, and what it got over TLS from the name, whose certificate is of pebble.
    fn get(&self, name: &str) -> (Option<i32>, String) {
        let root = self.dir.path().join("root.pem");
        if !root.exists() {
            fs::copy(self.dir.path().join("ca/ca.pem"), &root).unwrap();
        }
        let url = format!("https://127.0.0.1:{}/roots/0", self.management);
        let mut curl = Command::new("curl");
        let _ = curl
            .args(["-sk", "-m", "20", "-o"])
            .arg(&root)
            .arg(url)
            .status();
        let port = self.https;
        let mut curl = Command::new("curl");
        let output = curl
            .args(["-s", "-m", "20", "--cacert"])
            .arg(root)
            .args(["--resolve", &format!("{name}:{port}:127.0.0.1")])
            .arg(format!("https://{name}:{port}/"))
            .output();
        let output = output.unwrap();
        (output.status.code(), crate::common::text(&output.stdout))
    }

    fn is_served(&self, name: &str) -> bool {
        self.get(name) == (Some(0), "hello".into())
    }

    fn of(&self, name: &str, file: &str) -> PathBuf {
        let authority = format!("localhost-{}-dir", self.pebble);
        let acme = self.dir.path().join("state/acme").join(authority);
        acme.join("certificates").join(name).join(file)
    }

    fn certificate(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.of(name, "certificate.pem")).ok()
    }

    fn status(&self) -> String {
        success(&mut self.altway(["status"]))
    }

    /// Waits as `eventually` does, for what the authority decides.
    fn within(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + AUTHORITY;
        while !is_so() {
            if Instant::now() >= deadline {
                let status = self.altway(["status"]).output().map(|it| it.stdout);
                let status = crate::common::text(&status.unwrap_or_default());
                panic!("not within {AUTHORITY:?}: {what}; {status}");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_name_is_refused_until_the_authority_is_there_and_its_certificate_is_kept() {
    let Some(place) = Place::new() else {
        return;
    };
    let http = format!("http = \"127.0.0.1:{}\"", place.http);
    place.config(
        &["a.example", "b.example"],
        &http,
        "profile = \"default\"\nemail = \"ops@example.org\"",
    );
    let said = success(&mut place.altway(["config", "check", "altway.toml"]));
    assert_eq!(said, "");
    let serving = place.serve();
    // CURLE_SSL_CONNECT_ERROR: no certificate is shown, not that of another.
    assert_eq!(place.get("a.example").0, Some(35));
    eventually("the failure is told", || {
        place.status().contains("cannot connect")
    });
    let refused = refusal(&mut place.altway(["serve", "--config", "altway.toml"]));
    assert!(refused.contains("in use by another process, "), "{refused}");
    let _pebble = place.pebble("", &[]);
    success(&mut place.altway(["reload"]));
    place.within("both are served", || {
        place.is_served("a.example") && place.is_served("b.example")
    });
    let status = place.status();
    assert!(
        status.contains("a.example: for 89 days more, renewed in "),
        "{status}"
    );
    assert!(status.contains("2 issued, "), "{status}");
    for file in [
        place.of("a.example", "certificate.pem"),
        place.of("..", "account.json"),
        place.dir.path().join("state/acme/lock"),
    ] {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    assert_eq!(mode(&place.dir.path().join("state/acme")), 0o700);
    assert!(!place.of("a.example", "order.json").exists());
    let held = place.certificate("a.example");
    assert_eq!(serving.terminate(), Some(0));
    let _serving = place.serve();
    assert!(place.is_served("a.example"), "at once");
    assert_eq!(
        place.certificate("a.example"),
        held,
        "it is not ordered again"
    );
}

#[test]
fn a_short_certificate_is_renewed_over_tls_while_the_server_runs() {
    let Some(place) = Place::new() else {
        return;
    };
    place.config(&["a.example"], "", "profile = \"brief\"");
    let _pebble = place.pebble("", &[]);
    let _serving = place.serve();
    place.within("it is served", || place.is_served("a.example"));
    let first = place.certificate("a.example");
    let begun = Instant::now();
    place.within("it is renewed", || place.certificate("a.example") != first);
    // The first one's time is over.
    while begun.elapsed() < Duration::from_secs(31) {
        std::thread::sleep(Duration::from_millis(100));
    }
    place.within("the new one is served", || place.is_served("a.example"));
}

#[test]
fn an_order_goes_on_after_a_kill_and_an_account_that_is_forgotten_is_made_anew() {
    let Some(place) = Place::new() else {
        return;
    };
    let http = format!("http = \"127.0.0.1:{}\"", place.http);
    place.config(
        &["a.example"],
        &http,
        "profile = \"default\"\nchallenges = \"http-01\"",
    );
    let slow = [("PEBBLE_VA_NOSLEEP", "0"), ("PEBBLE_VA_SLEEPTIME", "6")];
    let pebble = place.pebble("", &slow);
    let serving = place.serve();
    let order = place.of("a.example", "order.json");
    place.within("there is an order", || order.exists());
    serving.signal(Signal::KILL);
    let kept = fs::read_to_string(&order).unwrap_or_default();
    drop(serving);
    assert_eq!(mode(&order), 0o600);
    let serving = place.serve();
    place.within("it is served", || place.is_served("a.example"));
    // The key of the order from before: it was not made again.
    let key = kept.replace("\\n", "\n");
    let certificate = place.certificate("a.example").unwrap();
    let (_, pem) = certificate
        .split_once("-----BEGIN PRIVATE KEY-----\n")
        .unwrap();
    assert!(key.contains(pem.trim().lines().next().unwrap()));
    drop(pebble);
    // Another one at the same place knows nobody.
    let _pebble = place.pebble("", &[]);
    place.config(
        &["a.example", "c.example"],
        &http,
        "profile = \"default\"\nchallenges = \"http-01\"",
    );
    success(&mut place.altway(["reload"]));
    place.within("the account is refused", || {
        let status = place.status();
        status.contains("accountDoesNotExist") || status.contains("c.example: for 89 days more")
    });
    success(&mut place.altway(["reload"]));
    place.within("the new name has its certificate", || {
        place.certificate("c.example").is_some()
    });
    drop(serving);
}

#[test]
fn an_external_account_is_bound_and_a_refused_name_holds_no_other_up() {
    let Some(place) = Place::new() else {
        return;
    };
    let http = format!("http = \"127.0.0.1:{}\"", place.http);
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    place.dir.file("eab.key", format!("{key}\n"));
    let account = "profile = \"default\"\nexternal-account = { id = \"kid-1\", key = \"eab.key\" }";
    place.config(&["blocked.example", "a.example"], &http, account);
    let more = format!(
        r#", "externalAccountBindingRequired": true, "externalAccountMACKeys": {{"kid-1": "{key}"}}"#
    );
    let _pebble = place.pebble(&more, &[]);
    let serving = place.serve();
    place.within("the other name is served", || place.is_served("a.example"));
    place.within("the refusal is told", || {
        let status = place.status();
        status.contains("blocked.example: none yet; last failure: ")
            && status.contains("(rejectedIdentifier)")
    });
    assert_eq!(place.get("blocked.example").0, Some(35));
    drop(serving);
    place.dir.file("eab.key", "no key!");
    let refused = refusal(&mut place.altway(["config", "check", "altway.toml"]));
    assert!(refused.contains("altway.toml:"), "{refused}");
    assert!(refused.contains("`kid-1` is not base64url"), "{refused}");
}

/// A program that allows names below `shop.example`: its port, and the names that it was asked for. Ends with the process.
fn program() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let telling = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head);
            let name = head.strip_prefix("GET /allowed?key=1&domain=");
            let name = name.and_then(|rest| rest.split(' ').next()).unwrap_or("?");
            telling.lock().unwrap().push(name.to_owned());
            let status = match name.ends_with(".shop.example") {
                true => "200 OK",
                false => "404 Not Found",
            };
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (port, asked)
}

#[test]
fn a_name_on_demand_has_its_certificate_once_it_is_asked_for_and_allowed() {
    let Some(place) = Place::new() else {
        return;
    };
    let (port, asked) = program();
    let http = format!("http = \"127.0.0.1:{}\"", place.http);
    let demand = format!(
        "profile = \"default\"\non-demand = {{ ask = \"http://127.0.0.1:{port}/allowed?key=1\", names = 2 }}"
    );
    place.config_on_demand(&http, &demand);
    let said = success(&mut place.altway(["config", "check", "altway.toml"]));
    assert_eq!(said, "");
    let _pebble = place.pebble("", &[]);
    let serving = place.serve();
    place.within("the name of the site is served", || {
        place.is_served("a.example")
    });
    // CURLE_SSL_CONNECT_ERROR: it is shown no certificate, not that of the other name.
    for name in ["one.shop.example", "other.example"] {
        assert_eq!(place.get(name).0, Some(35), "{name}");
    }
    place.within("the allowed name is served", || {
        place.is_served("one.shop.example")
    });
    assert_eq!(place.get("other.example").0, Some(35));
    let count = |name: &str| {
        asked
            .lock()
            .unwrap()
            .iter()
            .filter(|it| *it == name)
            .count()
    };
    eventually("the other one was asked for", || count("other.example") > 0);
    let counts = ["one.shop.example", "other.example", "a.example"].map(count);
    assert_eq!(counts, [1, 1, 0], "once each, and never for a site's own");
    assert!(place.certificate("other.example").is_none());
    // As many as there may be.
    for name in ["two.shop.example", "three.shop.example"] {
        place.within("it was asked for", || {
            let _ = place.get(name);
            count(name) > 0
        });
    }
    place.within("the second is served", || {
        place.is_served("two.shop.example")
    });
    assert_eq!(place.get("three.shop.example").0, Some(35));
    let status = place.status();
    assert!(
        status.contains("one.shop.example: for 89 days more"),
        "{status}"
    );
    assert!(!status.contains("three.shop.example"), "{status}");
    let held = place.certificate("one.shop.example");
    assert_eq!(serving.terminate(), Some(0));
    let _serving = place.serve();
    assert!(place.is_served("one.shop.example"), "at once");
    assert_eq!(place.certificate("one.shop.example"), held);
    assert_eq!(count("one.shop.example"), 1);
}

#[test]
fn a_reload_takes_what_acme_says_and_refuses_another_folder() {
    let Some(place) = Place::new() else {
        return;
    };
    let http = format!("http = \"127.0.0.1:{}\"", place.http);
    let usual = "profile = \"default\"\nemail = \"ops@example.org\"";
    place.config(&["a.example"], &http, usual);
    let _pebble = place.pebble("", &[]);
    let _serving = place.serve();
    place.within("it is served", || place.is_served("a.example"));
    let contact = place.of("..", "contact.json");
    let told = || fs::read_to_string(&contact).unwrap_or_default();
    assert_eq!(told(), r#"{"email":"ops@example.org"}"#);
    // Names, the address for mail, the profile and names on demand.
    let (port, _) = program();
    let demand = format!("on-demand = {{ ask = \"http://127.0.0.1:{port}/allowed?key=1\" }}");
    let new = format!("profile = \"brief\"\nemail = \"new@example.org\"\n{demand}");
    place.config_on_demand(&http, &new);
    let said = success(&mut place.altway(["reload"]));
    assert!(said.contains("changed [acme]"), "{said}");
    place.within("the authority is told", || {
        told() == r#"{"email":"new@example.org"}"#
    });
    assert!(place.is_served("a.example"), "what there is stays");
    place.within("a name on demand is served", || {
        place.is_served("one.shop.example")
    });
    let status = place.status();
    assert!(status.contains("one.shop.example: for "), "{status}");
    let before = fs::read_to_string(place.dir.path().join("altway.toml")).unwrap();
    place.config(&["a.example"], &http, "folder = \"elsewhere\"");
    let mut reload = place.altway(["reload"]);
    let output = reload.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = crate::common::text(&output.stdout) + &crate::common::text(&output.stderr);
    assert!(said.contains("as long as this process runs"), "{said}");
    assert!(said.contains("needs a new process"), "{said}");
    // Without a site that takes them names on demand are left alone, and with it they are there again.
    place.config(&["a.example"], &http, usual);
    success(&mut place.altway(["reload"]));
    assert_eq!(place.get("one.shop.example").0, Some(35));
    assert!(place.is_served("a.example"));
    place.dir.file("altway.toml", before);
    success(&mut place.altway(["reload"]));
    place.within("it is had on demand again", || {
        place.is_served("one.shop.example")
    });
}
