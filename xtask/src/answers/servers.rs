//! The servers, each with the plain configuration for what the table asks of altway: files with listings, forms that are
//! compressed beforehand, and a page for 404. All else is as each of them has it by itself.

use super::install;
use crate::{go, shell};
use anyhow::{Context as _, Result, bail};
use std::fmt;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The longest time until a server listens.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A server that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Software {
    Altway,
    Nginx,
    Caddy,
    StaticWebServer,
}

/// The protocol to ask over, in clear text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Settings that all servers are started with.
pub(super) struct ServerSetup<'a> {
    /// The folder to serve.
    pub(super) root: &'a Path,
    /// Scratch of the run.
    pub(super) folder: &'a Path,
    /// The build of altway.
    pub(super) altway: &'a Path,
}

/// A running server; killed when dropped.
pub(super) struct Server {
    child: Child,
    software: Software,
    ports: Ports,
}

/// Ports of the server: nginx has one for each protocol.
#[derive(Clone, Copy)]
struct Ports {
    http1: u16,
    http2: u16,
}

impl Software {
    pub(super) const PEERS: [Self; 3] = [Self::Nginx, Self::Caddy, Self::StaticWebServer];

    /// The name in reasons.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Altway => "altway",
            Self::Nginx => "nginx",
            Self::Caddy => "Caddy",
            Self::StaticWebServer => "static-web-server",
        }
    }

    /// The program; `None` where it can't be had, which is said.
    fn program(self, place: &ServerSetup<'_>) -> Option<PathBuf> {
        let found = match self {
            Self::Altway => Ok(place.altway.to_owned()),
            Self::Nginx => nginx().context("Debian's package nginx is not installed"),
            Self::Caddy => caddy(),
            Self::StaticWebServer => install::static_web_server(),
        };
        found
            .inspect_err(|error| shell::say(&format!("{self} is not there: {error:#}")))
            .ok()
    }
}

impl fmt::Display for Software {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
        })
    }
}

fn nginx() -> Option<PathBuf> {
    shell::find("nginx").or_else(|| shell::find_in("/usr/sbin", "nginx"))
}

fn caddy() -> Result<PathBuf> {
    go::install_caddy()?;
    go::caddy().context("Go did not build it")
}

/// The version that is compared.
///
/// # Errors
/// nginx does not say its own.
pub(super) fn version(software: Software) -> Result<String> {
    match software {
        Software::Altway => Ok("this build".to_owned()),
        Software::Caddy => Ok(go::CADDY.trim_start_matches('v').to_owned()),
        Software::StaticWebServer => Ok(install::VERSION.to_owned()),
        Software::Nginx => {
            let program = nginx().context("nginx has just answered")?;
            let output = Command::new(program).arg("-v").output()?;
            let said = String::from_utf8(output.stderr)?;
            let version = said.trim().rsplit('/').next().unwrap_or_default();
            Ok(version.to_owned())
        }
    }
}

impl Server {
    /// Starts it and waits until it listens; `None` where it can't be had.
    ///
    /// # Errors
    /// The server ends at once, or does not listen in time: with what it printed.
    pub(super) fn start(software: Software, place: &ServerSetup<'_>) -> Result<Option<Self>> {
        let Some(program) = software.program(place) else {
            return Ok(None);
        };
        let folder = place.folder.join(software.name());
        fs::create_dir_all(&folder)?;
        let http1 = free_port()?;
        let http2 = match software {
            Software::Nginx => free_port()?,
            _ => http1,
        };
        let ports = Ports { http1, http2 };
        let log = folder.join("log");
        let file = File::create(&log)?;
        let mut command = command(software, &program, place.root, &folder, ports)?;
        command.current_dir(&folder).env("HOME", &folder);
        command.env("XDG_DATA_HOME", &folder).stdin(Stdio::null());
        command.stdout(file.try_clone()?).stderr(file);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {software}"))?;
        let mut server = Self {
            child,
            software,
            ports,
        };
        server.wait_until_it_listens(&log)?;
        Ok(Some(server))
    }

    /// The protocols that it has in clear text, and where.
    pub(super) fn addresses(&self) -> Vec<(Protocol, SocketAddr)> {
        let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut all = vec![(Protocol::Http1, at(self.ports.http1))];
        // static-web-server has HTTP/2 over TLS alone.
        if self.software != Software::StaticWebServer {
            all.push((Protocol::Http2, at(self.ports.http2)));
        }
        all
    }

    fn wait_until_it_listens(&mut self, log: &Path) -> Result<()> {
        let begin = Instant::now();
        for (_, address) in self.addresses() {
            while TcpStream::connect(address).is_err() {
                let ended = self.child.try_wait()?;
                if ended.is_some() || begin.elapsed() > START_TIMEOUT {
                    let said = fs::read_to_string(log).unwrap_or_default();
                    bail!("{} does not listen: {said}", self.software);
                }
                sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

fn command(
    software: Software,
    program: &Path,
    root: &Path,
    folder: &Path,
    ports: Ports,
) -> Result<Command> {
    // `setpriv` replaces itself by the server, which then ends with this program even if a signal ends that.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    let port = ports.http1.to_string();
    match software {
        Software::Altway => {
            command.arg("serve").arg(root).args(["--h2c", "--listing"]);
            command.args(["--precompressed=br,gzip", "--error-page", "404=404.html"]);
            command.args(["--bind", "127.0.0.1", "--port", &port]);
        }
        Software::Nginx => {
            let config = folder.join("nginx.conf");
            fs::write(&config, nginx_config(root, folder, ports))?;
            command.arg("-p").arg(folder).arg("-c").arg(config);
        }
        Software::Caddy => {
            let config = folder.join("Caddyfile");
            fs::write(&config, caddyfile(root, ports))?;
            command.args(["run", "--adapter", "caddyfile", "--config"]);
            command.arg(config);
        }
        Software::StaticWebServer => {
            command.args(["--host", "127.0.0.1", "--port", &port]);
            command.arg("--root").arg(root);
            command.arg("--page404").arg(root.join("404.html"));
            command.args(["--directory-listing", "--compression-static"]);
            // Not on the fly; and each takes a core for itself otherwise.
            command.args(["--compression", "false", "--threads-multiplier", "1"]);
        }
    }
    Ok(command)
}

/// One process, so that it ends as the others do.
fn nginx_config(root: &Path, folder: &Path, ports: Ports) -> String {
    let (root, folder) = (root.display(), folder.display());
    let Ports { http1, http2 } = ports;
    format!(
        "daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr error;
events {{}}
http {{
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{http1};
        listen 127.0.0.1:{http2} http2;
        root {root};
        index index.html;
        autoindex on;
        gzip_static on;
        error_page 404 /404.html;
    }}
}}
"
    )
}

fn caddyfile(root: &Path, ports: Ports) -> String {
    let (root, port) = (root.display(), ports.http1);
    format!(
        "{{
    admin off
    auto_https off
    persist_config off
    servers {{
        protocols h1 h2c
    }}
    log {{
        output stderr
        level ERROR
    }}
}}
http://:{port} {{
    bind 127.0.0.1
    root * {root}
    file_server {{
        browse
        precompressed br gzip
    }}
    handle_errors 404 {{
        rewrite * /404.html
        file_server
    }}
}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_name_folder_and_ports() {
        let ports = Ports {
            http1: 81,
            http2: 82,
        };
        let nginx = nginx_config(Path::new("/r"), Path::new("/f"), ports);
        let caddy = caddyfile(Path::new("/r"), ports);
        assert!(nginx.contains("listen 127.0.0.1:82 http2;"), "{nginx}");
        assert!(caddy.contains("http://:81 {"), "{caddy}");
        for text in [nginx, caddy] {
            assert!(text.contains("root") && text.contains("/r"), "{text}");
            assert_eq!(text.matches('{').count(), text.matches('}').count());
        }
    }
}
