//! `examples/origins/behind`: an application with a proxy in front of it as one command, as the lab starts it.

use crate::common::{Dir, eventually, free_port, installed, success, text};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const BEHIND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/origins/behind");

/// Proxy and application; both ended when dropped.
struct Both(Child);

impl Both {
    fn start(dir: &Dir, proxy: &str, application: &str, port: u16) -> Self {
        let state = dir.path().join(proxy);
        fs::create_dir(&state).unwrap();
        let made = success(&mut dir.altway(["certs", "localhost", "127.0.0.1", "--json"]));
        let made: serde_json::Value = serde_json::from_str(&made).unwrap();
        let altway = Path::new(env!("CARGO_BIN_EXE_altway")).parent().unwrap();
        let given = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(BEHIND);
        command.args([proxy, application, "127.0.0.1", &port.to_string()]);
        command.args(["certificate", "key"].map(|name| made[name].as_str().unwrap()));
        command.arg(&state);
        command.env("PATH", format!("{}:{given}", altway.display()));
        command.current_dir(&state).env("HOME", &state);
        let log = fs::File::create(state.join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.stderr(log).process_group(0).spawn().unwrap())
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

fn has_the_page(proxy: &str, application: &str, program: &str) {
    let dir = Dir::new();
    if !installed(program) || proxy != "altway" && !installed(proxy) {
        return;
    }
    let port = free_port();
    let mut both = Both::start(&dir, proxy, application, port);
    eventually("the proxy listens", || {
        let said = || text(&fs::read(dir.path().join(proxy).join("log")).unwrap());
        let ended = both.0.try_wait().unwrap();
        assert!(ended.is_none(), "{ended:?}: {}", said());
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
    });
    let url = format!("https://localhost:{port}/page-972000.html");
    let mut load = dir.altway(["load", &url, "--insecure", "-p", "h2", "--json"]);
    let loaded: serde_json::Value = serde_json::from_str(&success(&mut load)).unwrap();
    let summary = &loaded["summary"];
    assert_eq!(summary["statuses"]["200"], 1, "{summary}");
    assert_eq!(summary["body_bytes"], 12_000, "{summary}");
}

#[test]
fn python_behind_altway_is_one_server() {
    has_the_page("altway", "python", "python3");
}

#[test]
fn node_behind_nginx_is_one_server() {
    has_the_page("nginx", "node", "node");
}
