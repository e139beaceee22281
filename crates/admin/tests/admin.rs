//! The admin socket of a running server, asked over a Unix socket and over the loopback interface.
#![allow(
    clippy::unwrap_used,
    reason = "clippy's exemption of tests leaves out their helpers"
)]

use altway_admin::{
    Address, Admin, AdminResponse, CallError, Explained, Reloaded, StartError, Status, call,
};
use altway_serve::{Bind, Options, Server, Site, StopHandle, certs, stop_channel};
use http::{Method, StatusCode};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// More than any test takes.
const TIME_LIMIT: Duration = Duration::from_secs(50);

struct Running {
    address: SocketAddr,
    admin: Admin,
    fails: Arc<AtomicBool>,
    /// A reload waits for it.
    disk: Arc<Mutex<()>>,
    /// True once one does.
    waits: Arc<AtomicBool>,
    stop: StopHandle,
    thread: Option<JoinHandle<()>>,
    dir: tempfile::TempDir,
}

fn run() -> Running {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "a").unwrap();
    let leaf = certs::Store::open(dir.path().join("certs")).unwrap();
    let identity = leaf.leaf::<&str>(&[]).unwrap().identity().unwrap();
    let mut options = Options::tls(identity);
    options.site = Site::files(dir.path());
    options.bind = Bind::Address(Ipv4Addr::LOCALHOST.into());
    options.port = 0;
    let server = Server::bind(&options).unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let disk = Arc::<Mutex<()>>::default();
    let waits = Arc::<AtomicBool>::default();
    let reload = {
        let (fails, disk, waits) = (Arc::clone(&fails), Arc::clone(&disk), Arc::clone(&waits));
        move || {
            waits.store(true, Ordering::Release);
            drop(disk.lock().unwrap());
            match fails.load(Ordering::Relaxed) {
                true => Reloaded {
                    success: false,
                    report: "line 7 is wrong\n".into(),
                },
                false => Reloaded {
                    success: true,
                    report: "nothing changed\n".into(),
                },
            }
        }
    };
    let address = server.local_addr();
    let policy = options.policy.to_string();
    let admin = Admin::new(server.monitor(), address, policy, Some(Arc::new(reload)));
    let (stop, signal) = stop_channel();
    let thread = std::thread::spawn(move || server.run(&signal).unwrap());
    Running {
        address,
        admin,
        fails,
        disk,
        waits,
        stop,
        thread: Some(thread),
        dir,
    }
}

impl Running {
    fn unix(&self) -> Address {
        Address::Unix(self.dir.path().join("admin.sock"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

fn get(at: &Address, target: &str) -> AdminResponse {
    call(at, Method::GET, target).unwrap()
}

#[test]
fn a_reload_that_waits_for_a_disk_keeps_nobody_from_the_status() {
    let server = run();
    let disk = server.disk.lock().unwrap();
    let (send, latest) = mpsc::channel();
    let (reloaded, asked) = (send.clone(), server.admin.clone());
    let reloading = std::thread::spawn(move || {
        asked.reload();
        reloaded.send(asked.status().reload).unwrap();
    });
    while !server.waits.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    let admin = server.admin.clone();
    std::thread::spawn(move || send.send(admin.status().reload).unwrap());
    let meanwhile = latest.recv_timeout(TIME_LIMIT).expect("a status");
    assert_eq!(meanwhile, None);
    drop(disk);
    let after = latest.recv_timeout(TIME_LIMIT).unwrap();
    assert!(after.unwrap().success);
    reloading.join().unwrap();
}

#[test]
fn everything_is_answered_while_a_reload_goes_on_and_another_waits_for_it() {
    let server = run();
    let at = server.unix();
    let _admin = server.admin.clone().start(&at, false).unwrap();
    let reload = || {
        let at = at.clone();
        std::thread::spawn(move || call(&at, Method::POST, "/reload").unwrap())
    };
    let disk = server.disk.lock().unwrap();
    let first = reload();
    while !server.waits.swap(false, Ordering::AcqRel) {
        std::thread::yield_now();
    }
    let second = reload();
    for target in ["/", "/status", "/metrics", "/explain?address=192.0.2.1"] {
        assert_eq!(get(&at, target).status, StatusCode::OK, "{target}");
    }
    assert!(!server.waits.load(Ordering::Acquire), "one at a time");
    drop(disk);
    for reload in [first, second] {
        assert_eq!(reload.join().unwrap().status, StatusCode::OK);
    }
    assert!(server.waits.load(Ordering::Acquire), "the second was made");
}

#[test]
fn a_unix_socket_is_its_owners_alone_and_answers_everything() {
    let server = run();
    let at = server.unix();
    let admin = server.admin.clone().start(&at, false).unwrap();
    let Address::Unix(path) = &at else { panic!() };
    let mode = std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let status: Status = serde_json::from_str(&get(&at, "/status").text).unwrap();
    assert_eq!(status.address, server.address);
    assert_eq!(status.policy, "learned");
    assert_eq!(status.process.id, std::process::id());
    assert_eq!(status.certificates[0].names, ["localhost"]);
    assert_eq!(status.reload, None);

    let metrics = get(&at, "/metrics").text;
    for line in [
        "# TYPE altway_connections_total counter",
        "altway_connections_total{protocol=\"h3\"} 0",
        "altway_responses_total{protocol=\"h2\",class=\"2xx\"} 0",
        "altway_known_clients 0",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line} in\n{metrics}");
    }

    let explained = get(&at, "/explain?address=192.0.2.1&class=firefox-linux");
    let explained: Vec<Explained> = serde_json::from_str(&explained.text).unwrap();
    assert_eq!(explained[0].class, "firefox-linux");
    assert!(!explained[0].known);
    assert_eq!(get(&at, "/explain?address=192.0.2.1").text, "[]");
    assert_eq!(
        get(&at, "/explain?address=x").status,
        StatusCode::BAD_REQUEST
    );

    assert!(get(&at, "/").text.starts_with("<!doctype html>"));
    assert_eq!(get(&at, "/none").status, StatusCode::NOT_FOUND);
    assert_eq!(get(&at, "/reload").status, StatusCode::METHOD_NOT_ALLOWED);
    drop(admin);
    assert!(!path.exists(), "removed at the end");
}

#[test]
fn a_reload_is_reported_and_remembered() {
    let server = run();
    let at = server.unix();
    let _admin = server.admin.clone().start(&at, false).unwrap();
    let reload = || call(&at, Method::POST, "/reload").unwrap();
    let latest = || {
        let status: Status = serde_json::from_str(&get(&at, "/status").text).unwrap();
        let reload = status.reload.unwrap();
        (reload.success, reload.report)
    };
    let done = reload();
    assert_eq!(
        (done.status, &*done.text),
        (StatusCode::OK, "nothing changed\n")
    );
    assert_eq!(latest(), (true, "nothing changed\n".into()));
    server.fails.store(true, Ordering::Relaxed);
    let failed = reload();
    assert_eq!(failed.status, StatusCode::CONFLICT);
    assert_eq!(latest(), (false, "line 7 is wrong\n".into()));
    let metrics = get(&at, "/metrics").text;
    assert!(
        metrics.contains("\naltway_config_last_reload_success 0\n"),
        "{metrics}"
    );
}

/// Asks over TCP with that Host.
fn raw(at: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn over_loopback_nothing_is_done_and_foreign_pages_see_nothing() {
    let server = run();
    let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = free.local_addr().unwrap();
    drop(free);
    let address = Address::Loopback(at);
    let _admin = server.admin.clone().start(&address, false).unwrap();
    assert_eq!(get(&address, "/status").status, StatusCode::OK);
    let reload = call(&address, Method::POST, "/reload").unwrap();
    assert_eq!(reload.status, StatusCode::FORBIDDEN);
    let ask = |host: &str| {
        raw(
            at,
            &format!("GET /status HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
        )
    };
    assert!(ask("localhost:2019").starts_with("HTTP/1.1 200 "));
    assert!(ask("rebound.example:2019").starts_with("HTTP/1.1 421 "));
}

#[test]
fn a_socket_that_is_left_behind_is_replaced_and_one_in_use_only_by_a_takeover() {
    let server = run();
    let at = server.unix();
    let Address::Unix(path) = &at else { panic!() };
    drop(std::os::unix::net::UnixListener::bind(path).unwrap());
    let first = server.admin.clone().start(&at, false).unwrap();
    let second = server.admin.clone().start(&at, false);
    assert!(matches!(second, Err(StartError::InUse(_))));
    drop(second);
    let successor = server.admin.clone().start(&at, true).unwrap();
    let inode = || std::fs::metadata(path).unwrap().ino();
    let before = inode();
    drop(first);
    assert_eq!(
        inode(),
        before,
        "the former one leaves the socket of the next"
    );
    assert_eq!(get(&at, "/status").status, StatusCode::OK);
    drop(successor);

    std::fs::write(path, "a file").unwrap();
    let error = server.admin.clone().start(&at, true).err().unwrap();
    assert!(matches!(error, StartError::Bind { .. }), "{error}");
    assert_eq!(std::fs::read(path).unwrap(), b"a file");
    std::fs::remove_file(path).unwrap();
    let missing = call(&at, Method::GET, "/status").unwrap_err();
    assert!(matches!(missing, CallError::Connect { .. }), "{missing}");
}

/// Connections that say nothing keep nobody out for long, and more than there is room for wait.
#[test]
fn idle_connections_do_not_keep_others_out() {
    let server = run();
    let at = server.unix();
    let Address::Unix(path) = &at else { panic!() };
    let _admin = server.admin.clone().start(&at, false).unwrap();
    let _idle: Vec<_> = (0..20)
        .map(|_| std::os::unix::net::UnixStream::connect(path).unwrap())
        .collect();
    assert_eq!(get(&at, "/status").status, StatusCode::OK);
}
