//! The server under attack: the real binary on a site and a certificate of its own.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::CertificateDer;
use tempfile::TempDir;

/// Seconds after which `altway serve` forgets a silent connection, unless told otherwise.
pub const IDLE_TIMEOUT: u64 = 60;

/// Seconds that it gives a handshake.
pub const HANDSHAKE_TIMEOUT: u64 = 10;

/// Name of a file of 50 MB on the site: long enough that it can be spelled in a million ways.
pub const LARGE: &str = "fifty-megabytes-to-download";
/// Name of a file of six bytes on the site, as long.
pub const SMALL: &str = "six-bytes-that-all-will-get";

/// Settings that an attack may choose for its server.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Further arguments of `altway serve`.
    pub options: Vec<String>,
    /// Soft and hard limit of open files; by default the system's.
    pub max_files: Option<u64>,
    /// True if standard error goes into a pipe that nobody reads, instead of a file.
    pub unread_stderr: bool,
}

impl Setup {
    /// The defaults and these arguments of `altway serve`.
    #[must_use]
    pub fn with(options: &[&str]) -> Self {
        Self {
            options: options.iter().map(ToString::to_string).collect(),
            ..Self::default()
        }
    }
}

/// A running `altway serve` with one worker on a free port of 127.0.0.1; killed when dropped, and with the thread that started it.
pub struct Server {
    child: Child,
    folder: TempDir,
    target: Target,
}

/// The address of a server and the certificate to trust.
#[derive(Clone)]
pub struct Target {
    /// Address of the server, over TCP and UDP.
    pub address: SocketAddr,
    certificate: CertificateDer<'static>,
}

impl Target {
    /// A TLS configuration that trusts the server and offers `alpn`.
    #[must_use]
    pub fn tls(&self, alpn: &[u8]) -> rustls::ClientConfig {
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(self.certificate.clone())
            .expect("rcgen made the certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider has TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![alpn.to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        config
    }
}

impl Server {
    /// Starts `binary` and waits until it listens.
    ///
    /// # Errors
    /// The site cannot be written, or the server does not come up.
    pub fn start(binary: &Path, setup: &Setup) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let certificate = write_site(folder.path())?;
        let mut child = command(binary, folder.path(), setup)?.spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line)?;
        let address = parse_address(&line).with_context(|| {
            let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            format!("the server does not listen: {log}")
        })?;
        let target = Target {
            address,
            certificate,
        };
        Ok(Self {
            child,
            folder,
            target,
        })
    }

    /// The server's address and certificate.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The served folder.
    #[must_use]
    pub fn site(&self) -> PathBuf {
        self.folder.path().join("site")
    }

    /// All that the server wrote to standard error so far, where a file takes it.
    #[must_use]
    pub fn log(&self) -> String {
        let log = fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Returns true if the process still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends SIGTERM; the time until the process has ended, or `None` if it has not within `limit`.
    ///
    /// # Errors
    /// The process cannot be signalled.
    pub fn terminate(&mut self, limit: Duration) -> Result<Option<Duration>> {
        let begun = Instant::now();
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        while begun.elapsed() < limit {
            if self.child.try_wait()?.is_some() {
                return Ok(Some(begun.elapsed()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(None)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(binary: &Path, folder: &Path, setup: &Setup) -> Result<Command> {
    // Both become what they are given, which keeps its process ID. The kernel kills the server when the thread that starts it
    // ends: what is killed drops nothing.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]);
    if let Some(files) = setup.max_files {
        command.args(["prlimit", &format!("--nofile={files}:{files}")]);
    }
    command.arg(binary);
    command.args(["serve", "site", "--bind", "127.0.0.1", "--port", "0"]);
    command.args(["--json", "--threads", "1"]);
    if !setup.options.iter().any(|option| option == "--h2c") {
        command.args(["--cert", "cert.pem", "--key", "key.pem"]);
    }
    command.args(&setup.options).current_dir(folder);
    command.env_remove("SSLKEYLOGFILE").env_remove("RUST_LOG");
    command.env("HOME", folder).env("XDG_DATA_HOME", folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    match setup.unread_stderr {
        true => command.stderr(Stdio::piped()),
        false => command.stderr(File::create(folder.join("log"))?),
    };
    Ok(command)
}

fn parse_address(line: &str) -> Result<SocketAddr> {
    let listening: serde_json::Value = serde_json::from_str(line)?;
    let address = listening["address"].as_str().context("no address")?;
    let (_, port) = address.rsplit_once(':').context("no port")?;
    Ok((Ipv4Addr::LOCALHOST, port.parse()?).into())
}

fn write_site(folder: &Path) -> Result<CertificateDer<'static>> {
    let site = folder.join("site");
    fs::create_dir(&site)?;
    fs::write(site.join("index.html"), "<p>hello")?;
    fs::write(site.join(SMALL), "hello\n")?;
    // Without blocks on the disk: its content is of no interest.
    File::create(site.join(LARGE))?.set_len(50_000_000)?;
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    fs::write(folder.join("cert.pem"), made.cert.pem())?;
    let mut key = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(folder.join("key.pem"))?;
    key.write_all(made.signing_key.serialize_pem().as_bytes())?;
    Ok(made.cert.der().clone())
}
