//! The rights that the process of a server keeps and gives up: its user, the files that it can reach; sockets and
//! a watchdog that a service manager gives it.

use crate::common::{Dir, Serving, TIME_LIMIT, eventually, refusal, skipped, success, text};
use rustix::process::{Signal, geteuid};
use std::fs::{self, File, Permissions};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The user `nobody` of most systems.
const NOBODY: u32 = 65_534;

/// The configuration of a site of files, with these keys before and in `[listen]`.
fn config(root: &str, listen: &str, files: &str) -> String {
    format!(
        "threads = 2\n{root}\n[listen]\n{listen}\n[[site]]\ndefault = true\nroute = [{{ files = \"{files}\" }}]\n"
    )
}

const ANY_PORT: &str = "https = [\"127.0.0.1:0\"]";

fn serve(dir: &Dir) -> Serving {
    serve_by(dir, "altway.toml")
}

/// A server of that configuration.
fn serve_by(dir: &Dir, file: &str) -> Serving {
    let mut command = dir.altway(["serve", "--config", file, "--json", "--admin", "admin"]);
    command.stderr(File::create(dir.path().join("log")).unwrap());
    Serving::spawn(dir, command)
}

fn log(dir: &Dir) -> String {
    fs::read_to_string(dir.path().join("log")).unwrap()
}

/// Fetches a path over each protocol.
fn fetch(dir: &Dir, server: &Serving, path: &str) {
    for protocol in ["h1", "h2", "h3"] {
        let url = server.url(path);
        success(&mut dir.altway([
            "load",
            &url,
            "--protocol",
            protocol,
            "--insecure",
            "-n",
            "1",
        ]));
    }
}

fn reload(dir: &Dir) -> Output {
    let mut command = dir.altway(["reload", "--admin", "admin"]);
    command.stdin(Stdio::null()).output().unwrap()
}

/// Has a reload refused for a reason with all of these words.
fn reload_is_refused(dir: &Dir, words: &[&str]) {
    let failed = reload(dir);
    assert_eq!(failed.status.code(), Some(1));
    let why = text(&failed.stdout) + &text(&failed.stderr);
    for part in words {
        assert!(why.contains(part), "{part}: {why}");
    }
}

fn status(dir: &Dir) -> serde_json::Value {
    let json = success(&mut dir.altway(["status", "--json", "--admin", "admin"]));
    serde_json::from_str(&json).unwrap()
}

/// Returns whether the kernel has what the sandbox needs; says so when it has not.
fn has_sandbox(dir: &Dir) -> bool {
    let state = status(dir)["sandbox"].as_str().unwrap().to_owned();
    if state == "unavailable" {
        skipped("this kernel has no Landlock");
    }
    state == "on"
}

/// Users, groups, further groups and capabilities of each thread.
fn of_threads(server: &Serving) -> Vec<[String; 4]> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.process())).unwrap();
    let of_thread = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).unwrap();
        ["Uid:", "Gid:", "Groups:", "CapEff:"].map(|key| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let words: Vec<_> = line.unwrap().split_whitespace().collect();
            words.join(" ")
        })
    };
    tasks.flatten().map(of_thread).collect()
}

#[test]
fn root_is_given_up_once_the_ports_are_bound_and_the_keys_read() {
    if !geteuid().is_root() {
        return skipped("only root can become another user");
    }
    let dir = Dir::new();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    dir.file("site/a", "a");
    let keys = format!(
        "user = \"{NOBODY}\"\ngroup = \"{NOBODY}\"\nstate = \"state\"\ntakeover = \"meet\""
    );
    let keys = keys + "\n[log]\naccess = \"access.log\"";
    // Of root's alone: read before, and not again.
    let store = dir.altway(["certs", "localhost"]).output().unwrap();
    assert!(store.status.success(), "{}", text(&store.stderr));
    let (chain, key) = (dir.path().join("chain.pem"), dir.path().join("key.pem"));
    fs::copy(dir.path().join("data/altway/certs/leaf.pem"), &chain).unwrap();
    fs::copy(dir.path().join("data/altway/certs/leaf.key"), &key).unwrap();
    let certificate = "certificate = { chain = \"chain.pem\", key = \"key.pem\" }\n";
    let (before, log_table) = keys.split_once("\n[log]").unwrap();
    let text_of = config(before, ANY_PORT, "site").replace(
        "default = true\n",
        &format!("default = true\n{certificate}"),
    );
    let other = format!(
        "[[site]]\nnames = [\"b.example\"]\n{certificate}route = [{{ files = \"site\" }}]\n"
    );
    let text_of = text_of + &other;
    dir.file("altway.toml", format!("{text_of}\n[log]{log_table}\n"));
    let server = serve(&dir);
    let all = [NOBODY; 4].map(|it| it.to_string()).join(" ");
    let expected = [all.clone(), all, NOBODY.to_string(), "0".repeat(16)];
    let threads = of_threads(&server);
    assert!(threads.len() > 4);
    assert!(threads.iter().all(|it| *it == expected), "{threads:?}");
    fetch(&dir, &server, "/a");
    let owner = |name: &str| fs::metadata(dir.path().join(name)).unwrap().uid();
    for made in ["state", "state/paths.key", "access.log"] {
        assert_eq!(owner(made), NOBODY, "{made}");
    }
    let said = log(&dir);
    let warnings: Vec<_> = said
        .lines()
        .filter(|it| it.contains("cannot read"))
        .collect();
    assert_eq!(warnings.len(), 2, "each once for both sites: {said}");
    for (warning, file) in warnings.iter().zip(["chain.pem", "key.pem"]) {
        assert!(
            warning.contains(file) && warning.contains("every reload"),
            "{warning}"
        );
    }
    let closed = "as whom this process runs, may not read `chain.pem`, `key.pem`: let";
    reload_is_refused(&dir, &["stays in use", closed, "(mode 640)"]);
    fetch(&dir, &server, "/a");
    // With the right to read it, it is.
    for file in [&chain, &key] {
        fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
    }
    assert_eq!(reload(&dir).status.code(), Some(0));
    fetch(&dir, &server, "/a");
    // The next one is started by root again.
    let port = format!("https = [\"127.0.0.1:{}\"]", server.port);
    let text_of = fs::read_to_string(dir.path().join("altway.toml")).unwrap();
    dir.file("altway.toml", text_of.replace(ANY_PORT, &port));
    let next = serve(&dir);
    assert_eq!(next.predecessor, Some(server.process()));
    fetch(&dir, &next, "/a");
    assert_eq!(server.wait(), Some(0));
    assert_eq!(next.terminate(), Some(0));
}

#[test]
fn a_refused_reload_names_the_own_authority_that_is_closed_to_the_user() {
    if !geteuid().is_root() {
        return skipped("only root can become another user");
    }
    let dir = Dir::new();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    dir.file("site/a", "a");
    let user = format!("user = \"{NOBODY}\"\ngroup = \"{NOBODY}\"");
    dir.file("altway.toml", config(&user, ANY_PORT, "site"));
    let server = serve(&dir);
    let who = "as whom this process runs, may not read `";
    reload_is_refused(&dir, &[who, "data/altway/certs`: let a group"]);
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn root_reads_nothing_in_the_state_folder_that_a_link_of_another_leads_to() {
    if !geteuid().is_root() {
        return skipped("only root can become another user");
    }
    let dir = Dir::new();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    dir.file("site/a", "a");
    dir.file("secret", "of root's alone");
    fs::create_dir(dir.path().join("kept")).unwrap();
    chown(dir.path().join("kept"), Some(NOBODY), None).unwrap();
    symlink("kept", dir.path().join("state")).unwrap();
    let keys = format!("user = \"{NOBODY}\"\nstate = \"state\"");
    dir.file("altway.toml", config(&keys, ANY_PORT, "site"));
    let server = serve(&dir);
    assert_eq!(server.terminate(), Some(0));
    assert!(dir.path().join("kept/paths.key").exists());
    let snapshot = dir.path().join("kept/paths.state");
    let _ = fs::remove_file(&snapshot);
    symlink("../secret", &snapshot).unwrap();
    lchown(&snapshot, Some(NOBODY), None).unwrap();
    let error = refusal(&mut dir.altway(["serve", "--config", "altway.toml"]));
    let expected = format!("`secret` is not of user {NOBODY}, by whose link it is reached");
    assert!(
        error.contains(&expected) && error.contains("hint: take away what another user"),
        "{error}"
    );
}

#[test]
fn who_cannot_be_become_or_cannot_reach_the_site_keeps_the_server_from_serving() {
    let dir = Dir::new();
    dir.file("site/a", "a");
    let refused =
        |user: &str| refusal(&mut dir.altway(["serve", "site", "-p", "0", "--user", user]));
    let error = refused("no-such-user-here");
    assert!(
        error.contains("there is no user `no-such-user-here`") && error.contains("useradd"),
        "{error}"
    );
    let error = refused("root");
    assert!(error.contains("keeps every privilege"), "{error}");
    let error = refusal(&mut dir.altway(["serve", "site", "--group", "nogroup"]));
    assert!(error.contains("--user"), "{error}");
    if !geteuid().is_root() {
        let error = refused("65534");
        return assert!(error.contains("and not by root"), "{error}");
    }
    // The folder of the test is root's alone.
    fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
    let error = refused("65534");
    assert!(
        error.contains("cannot read `site`") && error.contains("chown"),
        "{error}"
    );
}

#[test]
fn the_kernel_holds_a_server_to_the_files_that_its_configuration_names() {
    let dir = Dir::new();
    dir.file("site/a", "a");
    dir.file("srv/more/b", "b");
    dir.file("elsewhere/c", "c");
    fs::create_dir(dir.path().join("logs")).unwrap();
    // In a folder of its own: what lies beside it can be read as well.
    let write = |root: &str, files: &str| {
        let (folder, files) = (dir.path().display(), dir.path().join(files));
        let text = config(root, ANY_PORT, &files.display().to_string());
        let log = format!("[log]\naccess = \"{folder}/logs/access.log\"\n");
        dir.file("etc/altway.toml", text + &log);
    };
    let srv = format!("sandbox = {{ read = [\"{}/srv\"] }}", dir.path().display());
    write(&srv, "site");
    let server = serve_by(&dir, "etc/altway.toml");
    if !has_sandbox(&dir) {
        return;
    }
    let shown = success(&mut dir.altway(["status", "--admin", "admin"]));
    assert!(shown.contains("sandbox on"), "{shown}");
    fetch(&dir, &server, "/a");
    // Told before anything is tried.
    write(&srv, "elsewhere");
    reload_is_refused(&dir, &["elsewhere", "needs a new process"]);
    fetch(&dir, &server, "/a");
    write(&srv, "srv/more");
    assert_eq!(reload(&dir).status.code(), Some(0));
    fetch(&dir, &server, "/b");
    // A log is opened anew in its folder, and in no other: the kernel says so, to root as well.
    let logs = dir.path().join("logs");
    fs::rename(logs.join("access.log"), logs.join("access.log.1")).unwrap();
    server.signal(Signal::USR1);
    eventually("a new log", || logs.join("access.log").exists());
    fs::rename(&logs, dir.path().join("former")).unwrap();
    symlink(dir.path().join("elsewhere"), &logs).unwrap();
    server.signal(Signal::USR1);
    eventually("the kernel's refusal", || {
        let said = log(&dir);
        said.contains("Permission denied") && said.contains("/logs` lies outside of what")
    });
    assert!(!dir.path().join("elsewhere/access.log").exists());
    fs::remove_file(&logs).unwrap();
    fs::create_dir(&logs).unwrap();
    server.signal(Signal::USR1);
    eventually("what became of the folder", || {
        log(&dir).contains("/logs` was replaced by another of its name")
    });
    assert_eq!(server.terminate(), Some(0));

    write("sandbox = false", "site");
    let server = serve_by(&dir, "etc/altway.toml");
    assert_eq!(status(&dir)["sandbox"], "off");
    write("sandbox = false", "elsewhere");
    assert_eq!(reload(&dir).status.code(), Some(0));
    fetch(&dir, &server, "/c");
}

#[test]
fn a_deployment_that_switches_a_link_stays_within_the_sandbox() {
    let dir = Dir::new();
    dir.file("releases/1/name", "one");
    dir.file("releases/2/name", "two");
    dir.file("releases/2/new", "two");
    let current = dir.path().join("current");
    symlink("releases/1", &current).unwrap();
    let files = current.display().to_string();
    dir.file("etc/altway.toml", config("", ANY_PORT, &files));
    let server = serve_by(&dir, "etc/altway.toml");
    fetch(&dir, &server, "/name");
    symlink("releases/2", dir.path().join("next")).unwrap();
    fs::rename(dir.path().join("next"), &current).unwrap();
    eventually("the new release", || {
        let url = server.url("/new");
        let mut load = dir.altway(["load", &url, "--protocol", "h1", "--insecure", "-n", "1"]);
        load.stdin(Stdio::null()).output().unwrap().status.success()
    });
}

#[test]
fn uploads_and_takeovers_go_on_within_the_sandbox() {
    let dir = Dir::new();
    fs::create_dir_all(dir.path().join("in/deep")).unwrap();
    let text_of = |port: u16| {
        format!(
            "threads = 1\ntakeover = \"meet\"\nstate = \"state\"\n[listen]\nhttp = [\"127.0.0.1:{port}\"]\n[[site]]\n\
             default = true\nroute = [{{ path = \"/in/*\", upload = {{ folder = \"in\" }} }}]\n"
        )
    };
    dir.file("altway.toml", text_of(0));
    let first = serve(&dir);
    let store = |server: &Serving, name: &str| {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        write!(stream, "PUT /in/{name} HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 201"), "{response}");
    };
    let put = |server: &Serving, name: &str| {
        store(server, name);
        assert_eq!(fs::read(dir.path().join("in").join(name)).unwrap(), b"abc");
    };
    put(&first, "one");
    put(&first, "deep/two");
    // The kernel lets the process into the folder that was there, whatever its name.
    let (folder, former) = (dir.path().join("in"), dir.path().join("former"));
    fs::rename(&folder, &former).unwrap();
    fs::create_dir(&folder).unwrap();
    if has_sandbox(&dir) {
        store(&first, "moved");
        assert!(former.join("moved").exists());
        assert!(log(&dir).contains("uploads go on into the folder that was"));
        reload_is_refused(
            &dir,
            &["in` was replaced by another of its name", "write = ["],
        );
    }
    dir.file("altway.toml", text_of(first.port));
    let second = serve(&dir);
    assert_eq!(second.predecessor, Some(first.process()));
    put(&second, "three");
    assert_eq!(first.wait(), Some(0));
    assert_eq!(second.terminate(), Some(0));
}

/// Sockets that a program may inherit, by their numbers.
struct Passed {
    tcp: TcpListener,
    udp: UdpSocket,
}

impl Passed {
    fn bind() -> Self {
        loop {
            let tcp = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) {
                return Self { tcp, udp };
            }
        }
    }

    fn address(&self) -> SocketAddr {
        self.tcp.local_addr().unwrap()
    }

    /// Starts the server as a service manager does: the sockets from descriptor 3 on, and variables
    /// that say so.
    fn start(&self, dir: &Dir, names: &str) -> Command {
        let (tcp, udp) = (self.tcp.as_raw_fd(), self.udp.as_raw_fd());
        for socket in [
            rustix::fd::AsFd::as_fd(&self.tcp),
            rustix::fd::AsFd::as_fd(&self.udp),
        ] {
            rustix::io::fcntl_setfd(socket, rustix::io::FdFlags::empty()).unwrap();
        }
        // Away from 3 and 4 first, lest one be written over the other.
        let script = format!(
            "exec 98<&{tcp} 99<&{udp}; exec 3<&98 4<&99 98<&- 99<&-; \
             LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES={names} exec \"$0\" \"$@\""
        );
        let own = dir.altway([]);
        let mut command = Command::new("bash");
        command.args(["-c", &script]).arg(own.get_program());
        command.envs(
            own.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        command.current_dir(dir.path());
        command.args([
            "serve",
            "--config",
            "altway.toml",
            "--json",
            "--admin",
            "admin",
        ]);
        command.stderr(File::create(dir.path().join("log")).unwrap());
        command
    }
}

#[test]
fn sockets_that_were_passed_are_served_at_by_their_names() {
    if !Path::new("/usr/bin/bash").exists() {
        return skipped("bash is not installed");
    }
    let dir = Dir::new();
    dir.file("site/a", "a");
    let passed = Passed::bind();
    let listen = format!("https = [\"{}\"]", passed.address());
    dir.file("altway.toml", config("", &listen, "site"));
    let server = Serving::spawn(&dir, passed.start(&dir, "https:https"));
    assert_eq!(server.port, passed.address().port());
    fetch(&dir, &server, "/a");
    assert!(
        log(&dir).contains("one UDP socket was passed"),
        "{}",
        log(&dir)
    );
    assert_eq!(server.terminate(), Some(0));
    // Still there: the next server has whoever came meanwhile.
    let server = Serving::spawn(&dir, passed.start(&dir, "https:https"));
    fetch(&dir, &server, "/a");
    drop(server);

    let refused = |listen: &str, names: &str, part: &str| {
        dir.file("altway.toml", config("", listen, "site"));
        let output = passed.start(&dir, names).output().unwrap();
        let said = log(&dir);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part) && said.contains("hint:"), "{said}");
    };
    refused(&listen, "web:https", "named `web`: expected https or http");
    refused(
        &listen,
        "http:http",
        "where the configuration does not listen",
    );
    refused(
        ANY_PORT,
        "https:https",
        "where the configuration does not listen",
    );
    refused(
        &format!("{listen}\nprotocols = [\"h1\"]"),
        "https:https",
        "where there is no HTTP/3",
    );
    refused(&listen, "https", "LISTEN_FDNAMES");
}

#[test]
fn a_watchdog_is_told_as_long_as_every_worker_turns() {
    let dir = Dir::new();
    dir.file("site/a", "a");
    dir.file("altway.toml", config("", ANY_PORT, "site"));
    let manager = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    manager.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    let mut command = dir.altway(["serve", "--config", "altway.toml", "--json"]);
    command.env("NOTIFY_SOCKET", dir.path().join("notify"));
    command.env("WATCHDOG_USEC", "400000");
    command.stderr(File::create(dir.path().join("log")).unwrap());
    let server = Serving::spawn(&dir, command);
    let told = || {
        let mut message = [0; 4096];
        let length = manager.recv(&mut message).unwrap();
        text(&message[..length])
    };
    assert!(told().starts_with("READY=1"));
    for _ in 0..5 {
        assert_eq!(told().trim(), "WATCHDOG=1");
    }
    server.signal(Signal::STOP);
    manager
        .set_read_timeout(Some(Duration::from_millis(1500)))
        .unwrap();
    let mut message = [0; 64];
    // What it told before is there to be read; one that went on would be silent for no second.
    let give_up = Instant::now() + TIME_LIMIT;
    while manager.recv(&mut message).is_ok() {
        let in_time = Instant::now() < give_up;
        assert!(in_time, "a process that stands still tells nothing");
    }
    server.signal(Signal::CONT);
    manager.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    assert_eq!(told().trim(), "WATCHDOG=1");
    assert_eq!(server.terminate(), Some(0));
}
