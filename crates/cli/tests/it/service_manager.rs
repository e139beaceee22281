//! Messages to a service manager over the socket that it names, and the unit that ships for it.

use crate::common::{Dir, Serving, TIME_LIMIT, installed, success};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

const UNIT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../packaging/altway.service"
);

/// The socket of a service manager.
struct Manager(UnixDatagram);

impl Manager {
    fn bind(dir: &Dir) -> Self {
        let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        Self(socket)
    }

    /// The lines of the next message.
    fn told(&self) -> Vec<String> {
        let mut message = [0; 4096];
        let length = self
            .0
            .recv(&mut message)
            .expect("a message within the time limit");
        let text = std::str::from_utf8(&message[..length]).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// Expects that a reload is told, with a time of the monotonic clock, and returns the status at its end.
    fn told_of_reload(&self) -> String {
        let began = self.told();
        assert_eq!(began.len(), 2, "{began:?}");
        assert_eq!(began[0], "RELOADING=1");
        let time = began[1].strip_prefix("MONOTONIC_USEC=").unwrap();
        assert!(time.parse::<u64>().unwrap() > 0);
        let ended = self.told();
        assert_eq!(
            (ended.len(), ended[0].as_str()),
            (2, "READY=1"),
            "{ended:?}"
        );
        ended[1].clone()
    }
}

fn serving(dir: &Dir) -> Serving {
    let socket = dir.path().join("notify");
    let arguments = [
        "serve",
        "--config",
        "altway.toml",
        "--json",
        "--admin",
        "admin",
    ];
    let mut command = dir.altway(arguments);
    command.env("NOTIFY_SOCKET", socket);
    command.stderr(std::fs::File::create(dir.path().join("log")).unwrap());
    Serving::spawn(dir, command)
}

fn config(body: &str) -> String {
    format!(
        "threads = 1\n[listen]\nhttps = [\"127.0.0.1:0\"]\n[[site]]\ndefault = true\n\
         route = [{{ respond = {{ body = {body} }} }}]\n"
    )
}

#[test]
fn a_service_manager_is_told_of_start_reloads_and_stop() {
    let dir = Dir::new();
    let manager = Manager::bind(&dir);
    dir.file("altway.toml", config("\"one\""));
    let server = serving(&dir);
    let ready = manager.told();
    assert_eq!(
        (ready.len(), ready[0].as_str()),
        (2, "READY=1"),
        "{ready:?}"
    );
    let port = server.port;
    let status = format!("STATUS=serving https://127.0.0.1:{port}/ over h1, h2, h3, ");
    assert!(ready[1].starts_with(&status), "{ready:?}");

    dir.file("altway.toml", config("\"two\""));
    server.signal(Signal::HUP);
    assert_eq!(manager.told_of_reload(), ready[1]);

    // A file that is refused, for two faults, is told in one line.
    dir.file("altway.toml", config("2, bodi = 2"));
    server.signal(Signal::HUP);
    let failed = manager.told_of_reload();
    let expected = "STATUS=reload failed: the former configuration stays in use: ";
    assert!(failed.starts_with(expected), "{failed}");

    dir.file("altway.toml", config("\"three\""));
    success(&mut dir.altway(["reload", "--admin", "admin"]));
    assert_eq!(manager.told_of_reload(), ready[1]);

    server.signal(Signal::TERM);
    assert_eq!(manager.told(), ["STOPPING=1"]);
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn a_service_manager_that_is_gone_keeps_no_server_from_serving() {
    let dir = Dir::new();
    dir.file("altway.toml", config("\"one\""));
    let server = serving(&dir);
    success(&mut dir.altway(["load", &server.url("/"), "--insecure", "-n", "1"]));
    assert_eq!(server.terminate(), Some(0));
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(log.contains("the service manager can't be told"), "{log}");
}

#[test]
fn a_server_that_stops_is_well_until_its_last_request_ends() {
    let dir = Dir::new();
    let manager = Manager::bind(&dir);
    // More than the buffers of a connection hold.
    std::fs::create_dir(dir.path().join("site")).unwrap();
    let large = std::fs::File::create(dir.path().join("site/large")).unwrap();
    large.set_len(256 << 20).unwrap();
    let text = "threads = 2\ngrace = \"60s\"\n[listen]\nhttp = [\"127.0.0.1:0\"]\n[[site]]\ndefault = true\n\
                route = [{ files = \"site\" }]\n";
    dir.file("altway.toml", text);
    let mut command = dir.altway(["serve", "--config", "altway.toml", "--json"]);
    command.env("NOTIFY_SOCKET", dir.path().join("notify"));
    command.env("WATCHDOG_USEC", "400000");
    let server = Serving::spawn(&dir, command);
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    stream
        .write_all(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n")
        .unwrap();
    stream.read_exact(&mut [0; 12]).unwrap();
    server.signal(Signal::TERM);
    while manager.told() != ["STOPPING=1"] {}
    // One worker has the request, and the other ends at once.
    for _ in 0..10 {
        assert_eq!(manager.told(), ["WATCHDOG=1"]);
    }
    drop(stream);
    assert_eq!(server.wait(), Some(0));
}

/// A threshold of 20 is an exposure of 2.0 of 10.
#[test]
fn the_unit_that_ships_exposes_little() {
    if !installed("systemd-analyze") {
        return;
    }
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=true", "--no-pager", "--threshold=20"]);
    let said = success(analyze.arg(UNIT));
    assert!(
        said.contains("Overall exposure level for altway.service"),
        "{said}"
    );
}

#[test]
fn the_configuration_that_ships_is_right() {
    let dir = Dir::new();
    let file = UNIT.replace("altway.service", "altway.toml");
    success(&mut dir.altway(["config", "check", "--syntax", &file]));
}
