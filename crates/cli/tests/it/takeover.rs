//! `altway serve --takeover`: one process takes the place of another.

use crate::common::{Dir, Serving, eventually, installed, refusal, success};
use crate::interop::authority;
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time for which a process that was replaced goes on as before, and some more.
const SETTLE: Duration = Duration::from_millis(2500);

const OPTIONS: [&str; 4] = ["--takeover", "meeting", "--grace", "30s"];

/// The next server of the folder, with another site and its name in every response.
fn next(dir: &Dir, port: u16, name: &str, more: &[&str]) -> Serving {
    let site = dir.path().join("site");
    if site.exists() {
        // The former server keeps what it has open.
        fs::rename(&site, dir.path().join(format!("before-{name}"))).unwrap();
    }
    dir.file("site/name", name);
    dir.file("site/large", large(name));
    // By its field, for a server follows the folder that takes the place of its own.
    let header = format!("--header=X-Server-Name: {name}");
    Serving::start_on(dir, port, &[&OPTIONS[..], &[&*header], more].concat())
}

fn large(name: &str) -> Vec<u8> {
    name.bytes().cycle().take(12_000_001).collect()
}

/// The server that answers a new connection, in clear text.
fn who(serving: &Serving) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", serving.port)).unwrap();
    let request = b"GET /name HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    let mut lines = response.lines();
    let name = lines.find_map(|line| line.strip_prefix("x-server-name: "));
    name.unwrap_or_else(|| panic!("{response}")).into()
}

/// A download that has begun, and takes some four seconds.
fn slow_download(dir: &Dir, serving: &Serving, ca: &str, flag: &str, to: &str) -> Child {
    let mut curl = Command::new("curl");
    curl.args(["-sSN", "--cacert", ca, "--limit-rate", "3M", flag, "-o", to]);
    curl.arg(serving.url("/large")).current_dir(dir.path());
    let curl = curl.stdout(Stdio::null()).spawn().unwrap();
    let has_begun = || fs::metadata(dir.path().join(to)).is_ok_and(|file| file.len() > 0);
    eventually("the download has begun", has_begun);
    curl
}

fn check_download(dir: &Dir, mut curl: Child, to: &str, expected: &[u8]) {
    assert!(curl.wait().unwrap().success());
    assert!(fs::read(dir.path().join(to)).unwrap() == expected, "{to}");
}

/// A new client again and again until it is told to end, and how many there were.
struct Clients {
    count: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

fn load_again_and_again(
    dir: &Arc<Dir>,
    url: &str,
    protocol: &'static str,
    ca: &str,
    end: &Arc<AtomicBool>,
) -> Clients {
    let (dir, end) = (Arc::clone(dir), Arc::clone(end));
    let (url, ca) = (url.to_owned(), ca.to_owned());
    let count = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&count);
    let thread = thread::spawn(move || {
        while !end.load(Ordering::Relaxed) {
            success(&mut dir.altway(["load", &url, "--protocol", protocol, "--ca", &ca]));
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    Clients { count, thread }
}

#[test]
fn a_server_is_replaced_twice_and_nobody_notices() {
    if !installed("curl") {
        return;
    }
    let dir = Arc::new(Dir::new());
    let ca = authority(&dir);
    let first = next(&dir, 0, "first", &[]);
    let (port, url) = (first.port, first.url("/name"));
    let end = Arc::default();
    let clients =
        ["h1", "h2", "h3"].map(|protocol| load_again_and_again(&dir, &url, protocol, &ca, &end));
    let over_h1 = slow_download(&dir, &first, &ca, "--http1.1", "h1");
    let over_h2 = slow_download(&dir, &first, &ca, "--http2", "h2");
    let second = next(&dir, port, "second", &[]);
    assert_eq!(second.predecessor, Some(first.process()));
    let again = slow_download(&dir, &second, &ca, "--http2", "again");
    let third = next(&dir, port, "third", &[]);
    assert_eq!(third.predecessor, Some(second.process()));

    check_download(&dir, over_h1, "h1", &large("first"));
    check_download(&dir, over_h2, "h2", &large("first"));
    check_download(&dir, again, "again", &large("second"));
    assert_eq!(first.wait(), Some(0));
    assert_eq!(second.wait(), Some(0));
    eventually("clients of each protocol came", || {
        let many = |it: &Clients| it.count.load(Ordering::Relaxed) > 3;
        clients.iter().all(|it| many(it) || it.thread.is_finished())
    });
    end.store(true, Ordering::Relaxed);
    for clients in clients {
        clients.thread.join().unwrap();
    }
    assert_eq!(third.terminate(), Some(0));
}

#[test]
fn a_server_serves_on_when_the_new_one_is_killed() {
    let dir = Dir::new();
    let first = next(&dir, 0, "first", &["--h2c"]);
    let second = next(&dir, first.port, "second", &["--h2c"]);
    assert_eq!(who(&second), "second");
    second.signal(Signal::KILL);
    eventually("the first one again", || who(&first) == "first");
    thread::sleep(SETTLE);
    assert_eq!(who(&first), "first");
    let third = next(&dir, first.port, "third", &["--h2c"]);
    assert_eq!(who(&third), "third");
    assert_eq!(first.wait(), Some(0));
}

#[test]
fn a_server_that_was_killed_is_replaced_as_if_it_had_not_been() {
    let dir = Dir::new();
    let first = next(&dir, 0, "first", &["--h2c"]);
    first.signal(Signal::KILL);
    first.wait();
    let second = next(&dir, 0, "second", &["--h2c"]);
    assert_eq!(second.predecessor, None);
    assert_eq!(who(&second), "second");
}

/// The error of a server that may not take over.
fn refused(dir: &Dir, port: u16, meeting: &Path, more: &[&str]) -> String {
    let mut serve = dir.altway(["serve", "site", "--bind", "127.0.0.1"]);
    serve.args(["--port", &port.to_string(), "--takeover"]);
    refusal(serve.arg(meeting).args(more).args(["-n", "1"]))
}

#[test]
fn a_server_that_cannot_take_over_says_why_and_harms_nobody() {
    let dir = Dir::new();
    let first = next(&dir, 0, "first", &["--h2c"]);
    let meeting = Path::new("meeting");
    let hint = "hint: use its --bind, --port and --h2c";
    let port = first.port;
    let differs: [(u16, &[&str], &str); 2] = [
        (port - 1, &["--h2c"], "its address is 127.0.0.1:"),
        (
            port,
            &[],
            "its protection is clear text, not TLS with HTTP/3",
        ),
    ];
    for (port, more, reason) in differs {
        let said = refused(&dir, port, meeting, more);
        assert!(
            said.contains("cannot take over from the server at `meeting`"),
            "{said}"
        );
        assert!(said.contains(reason) && said.contains(hint), "{said}");
    }
    let said = refused(
        &dir,
        port,
        meeting,
        &["--cert", "no.pem", "--key", "no.pem"],
    );
    assert!(said.contains("cannot read `no.pem`"), "{said}");
    let said = refused(&dir, port, meeting, &["--h2c", "--congestion", "vegas"]);
    assert!(said.contains("vegas"), "{said}");
    let file = dir.file("file", "precious");
    let said = refused(&dir, port, &file, &["--h2c"]);
    assert!(said.contains("file` is not a socket"), "{said}");
    assert_eq!(who(&first), "first");
    assert_eq!(fs::read(file).unwrap(), b"precious");
}

/// A server by a configuration whose beginning is `root`.
fn by_file(dir: &Dir, root: &str, listen: &str, more: &str) -> Serving {
    let config = format!(
        "{root}takeover = \"meeting\"\nadmin = \"admin\"\n[listen]\n{listen}\n{more}\
         [[site]]\ndefault = true\nroute = [{{ files = \"site\" }}]\n"
    );
    dir.file("altway.toml", config);
    let mut command = dir.altway(["serve", "--config", "altway.toml", "--json"]);
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(dir.path().join("log"));
    command.stderr(log.unwrap());
    Serving::spawn(dir, command)
}

/// The worker threads of a process.
fn workers(process: u64) -> usize {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let names = threads.map(|it| fs::read_to_string(it.unwrap().path().join("comm")).unwrap());
    names.filter(|name| name.starts_with("worker-")).count()
}

#[test]
fn a_reload_names_what_takes_a_new_process_and_the_process_that_takes_over_has_it() {
    let dir = Dir::new();
    dir.file("site/name", "x");
    let fetch = |server: &Serving| {
        for protocol in ["h1", "h2", "h3"] {
            let (url, n) = (server.url("/name"), ["--insecure", "-n", "1"]);
            success(dir.altway(["load", &url, "--protocol", protocol]).args(n));
        }
    };
    let listen = "https = [\"127.0.0.1:0\"]\n";
    let first = by_file(&dir, "threads = 1\n", listen, "");
    eventually("it has a worker", || workers(first.process()) == 1);
    fetch(&first);
    let listen = format!(
        "https = [\"127.0.0.1:{}\"]\nspread = \"round-robin\"\n",
        first.port
    );
    // What the file says by the time of the takeover.
    let changed = "threads = 3\n";
    let server = "[transport]\nserver-id = \"0a\"\n";
    let (admin, path) = ("admin", dir.path().join("altway.toml"));
    let text = fs::read_to_string(&path).unwrap();
    let text = text.replace("threads = 1\n", changed);
    fs::write(&path, text).unwrap();
    let said = success(&mut dir.altway(["reload", "--admin", admin]));
    assert_eq!(
        said,
        "not changed in place: threads; start a new process for that, which takes over with `takeover`\n\
         read 1 certificate\n"
    );
    assert_eq!(workers(first.process()), 1);
    let second = by_file(&dir, changed, &listen, server);
    assert_eq!(second.predecessor, Some(first.process()));
    assert_eq!(second.port, first.port);
    eventually("it has three", || workers(second.process()) == 3);
    fetch(&second);
    let said = success(&mut dir.altway(["status", "--admin", admin]));
    assert!(said.contains(", 3 threads\n"), "{said}");
    assert_eq!(first.wait(), Some(0));
    fetch(&second);
    // The first address stays with a process and those that take over from it.
    let elsewhere = listen.replace(&format!(":{}", second.port), ":1");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(&listen, &elsewhere)).unwrap();
    let said = success(&mut dir.altway(["reload", "--admin", admin]));
    assert!(
        said.contains(
            "not changed: the first address of [listen], 127.0.0.1:1; that takes a restart\n"
        ),
        "{said}"
    );
    assert_eq!(second.terminate(), Some(0));
}

#[test]
fn a_meeting_place_that_cannot_be_is_refused() {
    let dir = Dir::new();
    dir.file("site/name", "x");
    let long = "x".repeat(200);
    for place in ["no/folder", &long] {
        let said = refused(&dir, 0, Path::new(place), &["--h2c"]);
        assert!(
            said.contains(&format!("cannot wait for takeovers at `{place}`")),
            "{said}"
        );
        assert!(said.contains("hint: give a path, for instance"), "{said}");
    }
}
