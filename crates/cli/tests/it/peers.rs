//! HTTP/2 servers that we did not write, each in the foreground, in a test's folder and on a port
//! of the loopback; ended with the value that started them.

use crate::common::{Dir, eventually, free_port, installed};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};

/// A server that serves `DIR/site` with altway's own certificate, or in clear text.
pub(crate) struct Peer {
    child: Child,
    /// `https://localhost:PORT` or `http://localhost:PORT`.
    pub(crate) root: String,
}

impl Peer {
    /// nghttp2's own server; `None`, and said so, when it is not installed.
    pub(crate) fn nghttpd(dir: &Dir, tls: bool) -> Option<Self> {
        let port = free_port();
        let mut nghttpd = Command::new("nghttpd");
        nghttpd.args(["-a", "127.0.0.1", "-d", "site"]);
        match tls {
            true => nghttpd.args([&port.to_string(), KEY, CERTIFICATE]),
            false => nghttpd.args(["--no-tls", &port.to_string()]),
        };
        start(nghttpd, "nghttpd", dir, port, tls)
    }

    /// Starts h2o, as [`Peer::nghttpd`] does its program.
    pub(crate) fn h2o(dir: &Dir, tls: bool) -> Option<Self> {
        let port = free_port();
        let ssl = format!(
            ", ssl: {{certificate-file: {CERTIFICATE}, key-file: {KEY}, ocsp-update-interval: 0}}"
        );
        let ssl = if tls { &ssl } else { "" };
        let config = format!(
            "listen: {{host: 127.0.0.1, port: {port}{ssl}}}\nnum-threads: 1\n\
             hosts: {{default: {{paths: {{/: {{file.dir: site}}}}}}}}\n{}",
            // As root it would give its rights up, and with them the test's folder.
            if is_root() { "user: root\n" } else { "" }
        );
        dir.file("h2o.conf", config);
        let mut h2o = Command::new("h2o");
        h2o.args(["-m", "worker", "-c", "h2o.conf"]);
        start(h2o, "h2o", dir, port, tls)
    }

    /// Starts nginx, as [`Peer::nghttpd`] does its program.
    pub(crate) fn nginx(dir: &Dir, tls: bool) -> Option<Self> {
        let port = free_port();
        let ssl = format!("ssl_certificate {CERTIFICATE}; ssl_certificate_key {KEY};");
        let (ssl, listen) = if tls { (&*ssl, "ssl") } else { ("", "") };
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|use_| format!("{use_}_temp_path temporary;"))
            .concat();
        let config = format!(
            "daemon off; master_process off; pid nginx.pid; error_log stderr; events {{}}\n\
             http {{ access_log off; {temporary}\n\
             server {{ listen 127.0.0.1:{port} http2 {listen}; root site; {ssl} }} }}\n"
        );
        dir.file("nginx.conf", config);
        let mut nginx = Command::new("nginx");
        nginx.arg("-p").arg(dir.path()).args(["-c", "nginx.conf"]);
        nginx.args(["-e", "stderr"]);
        start(nginx, "nginx", dir, port, tls)
    }
}

/// The place where `altway certs` puts the certificate.
const CERTIFICATE: &str = "data/altway/certs/leaf.pem";
const KEY: &str = "data/altway/certs/leaf.key";

fn start(mut command: Command, name: &str, dir: &Dir, port: u16, tls: bool) -> Option<Peer> {
    if !installed(name) {
        return None;
    }
    command.current_dir(dir.path()).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let scheme = if tls { "https" } else { "http" };
    let mut peer = Peer {
        child: command.spawn().unwrap(),
        root: format!("{scheme}://localhost:{port}"),
    };
    eventually("the peer listens", || {
        let ended = peer.child.try_wait().unwrap();
        assert!(ended.is_none(), "{name} ended at once: {ended:?}");
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
    });
    Some(peer)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
