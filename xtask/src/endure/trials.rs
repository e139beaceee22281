//! The trials.

use super::Figure;
use super::client::Client;
use super::server::{Server, altway};
use crate::{go, shell};
use anyhow::{Context as _, Result, ensure};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

const PROTOCOLS: [&str; 3] = ["h1", "h2", "h3"];

const RELOADS: u32 = 1_000;

/// Reloads after which a server has what it keeps.
const WARM: u32 = 100;

/// Bytes of a large upload.
const LARGE: u64 = 2_000_000_000;

/// Uploads at once, and bytes of each.
const UPLOADS: usize = 200;
const UPLOAD: u64 = 100_000;

const DESCRIPTORS: u32 = 1024;
const FILES: usize = 5_001;
const CONNECTIONS: usize = 500;

/// Requests of a round, and rounds.
const REQUESTS: u32 = 4_000;
const ROUNDS: usize = 7;

/// A thousand times the configuration is another one, while three clients ask without a pause.
pub(super) fn reloads(program: &Path) -> Result<Vec<Figure>> {
    let place = tempfile::tempdir()?;
    let folder = place.path();
    fs::create_dir(folder.join("site"))?;
    fs::write(folder.join("site/a.txt"), "a".repeat(20_000))?;
    let config = |turn: u32| {
        format!(
            "threads = 1\n\n[listen]\nhttps = \"127.0.0.1:0\"\n\n[[site]]\ndefault = true\nheaders = {{ X-Turn = \"{turn}\" \
             }}\nroute = [{{ files = \"site\" }}]\n"
        )
    };
    let server = Server::start(program, folder, &config(0), None)?;
    let is_over = AtomicBool::new(false);
    let url = server.url("/a.txt");
    let (asked, resident) = std::thread::scope(|scope| {
        let ask = |protocol: &'static str| {
            let (is_over, url) = (&is_over, &url);
            scope.spawn(move || keep_asking(program, folder, protocol, url, is_over))
        };
        let clients = PROTOCOLS.map(ask);
        let reloaded = reload_often(&server, folder, config);
        is_over.store(true, Ordering::Relaxed);
        let asked = clients.map(|it| it.join().expect("asking does not panic"));
        (asked, reloaded)
    });
    let (warm, last) = resident?;
    let mut figures = Vec::new();
    for (protocol, asked) in PROTOCOLS.into_iter().zip(asked) {
        let (all, lost) = asked?;
        let what = format!("{protocol}: requests lost, of {all}");
        figures.push(Figure::new(what, lost as f64, 0.0, ""));
    }
    let what = format!("memory after {RELOADS} reloads beyond that after {WARM} ({warm:.1} MB)");
    figures.push(Figure::new(what, last - warm, 2.0, "MB"));
    Ok(figures)
}

/// The resident memory after [`WARM`] reloads, and after all.
fn reload_often(
    server: &Server,
    folder: &Path,
    config: impl Fn(u32) -> String,
) -> Result<(f64, f64)> {
    let mut warm = 0.0;
    for turn in 1..=RELOADS {
        fs::write(folder.join("altway.toml"), config(turn))?;
        server.reload()?;
        if turn == WARM {
            warm = server.resident()?;
        }
    }
    Ok((warm, server.resident()?))
}

/// Asks again and again until it `is_over`: how many requests there were, and how many had no answer, or another than 200.
fn keep_asking(
    program: &Path,
    folder: &Path,
    protocol: &str,
    url: &str,
    is_over: &AtomicBool,
) -> Result<(u64, u64)> {
    let (mut all, mut lost) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let mut load = altway(program, folder);
        load.args(["load", url, "--protocol", protocol, "--insecure", "--json"]);
        // A pace that leaves the reloads their time.
        let output = load
            .args(["-n", "600", "-c", "3", "--rate", "300"])
            .output()?;
        let said: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let requests = said["requests"].as_array().context("no requests")?;
        all += requests.len() as u64;
        let is_lost = |it: &&serde_json::Value| it["status"] != 200 || !it["error"].is_null();
        lost += requests.iter().filter(is_lost).count() as u64;
    }
    Ok((all, lost))
}

/// Returns the configuration of a site that takes uploads.
fn storing(listen: &str) -> String {
    format!(
        "threads = 1\nsandbox = false\n\n[listen]\n{listen}\n\n[[site]]\nnames = [\"localhost\"]\ndefault = true\nroute = [{{ path = \
         \"/in/*\", upload = {{ folder = \"stored\", body = \"3GB\", concurrent = 256 }} }}]\n"
    )
}

/// A file of so many zeros, without blocks on the disk.
fn zeros(path: &Path, bytes: u64) -> Result<()> {
    Ok(File::create(path)?.set_len(bytes)?)
}

fn curl(protocol: &str) -> Command {
    let mut curl = Command::new("curl");
    let version = match protocol {
        "h1" => "--http1.1",
        _ => "--http2",
    };
    curl.args(["-skS", version, "-o", "/dev/null", "-w", "%{http_code}\n"]);
    curl.args(["-H", "expect:"]);
    curl
}

pub(super) fn large_uploads(program: &Path) -> Result<Vec<Figure>> {
    go::build_quic_go()?;
    let mut figures = Vec::new();
    for protocol in PROTOCOLS {
        let place = tempfile::tempdir()?;
        let folder = place.path();
        let authority = prepare(program, folder)?;
        let config = storing("https = \"127.0.0.1:0\"");
        let server = Server::start(program, folder, &config, None)?;
        let before = server.resident()?;
        let status = match protocol {
            "h3" => quic_go(&format!("{}", server.port()), &authority, 1, LARGE)?.remove(0),
            _ => {
                let mut curl = curl(protocol);
                curl.arg("-T").arg(folder.join("large"));
                let output = curl.arg(server.url("/in/large")).output()?;
                String::from_utf8_lossy(&output.stdout).trim().parse()?
            }
        };
        ensure!(status == 201, "{protocol}: {status}");
        let stored: Vec<_> = fs::read_dir(folder.join("stored"))?.collect();
        ensure!(stored.len() == 1, "{protocol}: not stored");
        let what = format!("{protocol}: memory at the peak ({before:.1} MB before)");
        figures.push(Figure::new(what, server.peak()?, 40.0, "MB"));
    }
    Ok(figures)
}

/// Makes what is uploaded and where it goes; the file of altway's own authority.
fn prepare(program: &Path, folder: &Path) -> Result<String> {
    fs::create_dir(folder.join("stored"))?;
    zeros(&folder.join("large"), LARGE)?;
    zeros(&folder.join("small"), UPLOAD)?;
    let output = altway(program, folder).args(["certs", "--json"]).output()?;
    let certs: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let authority = certs["ca_certificate"].as_str();
    Ok(authority.context("no authority")?.to_owned())
}

/// The statuses of so many uploads at once on one connection of quic-go's client. `server`: a port of this machine, or
/// address and port.
fn quic_go(server: &str, authority: &str, uploads: usize, bytes: u64) -> Result<Vec<u16>> {
    let program = go::interop_quic_go().context("quic-go is missing")?;
    let request = |at| {
        let path = format!("/in/h3-{at}");
        serde_json::json!({"method": "PUT", "path": path, "upload": bytes, "freely": true})
    };
    let requests: Vec<_> = (0..uploads).map(request).collect();
    let plan = serde_json::json!({"requests": requests, "parallel": uploads});
    let mut child = Command::new(program)
        .args(["client", server, authority])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().context("stdin is a pipe")?;
    writeln!(input, "{plan}")?;
    let output = child.wait_with_output()?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let responses = report["responses"].as_array().context("no responses")?;
    let status = |it: &serde_json::Value| it["status"].as_u64().unwrap_or_default() as u16;
    Ok(responses.iter().map(status).collect())
}

/// Each protocol's uploads, behind an emulated link whose far end has the server.
pub(super) fn lossy_uploads(program: &Path) -> Result<Vec<Figure>> {
    go::build_quic_go()?;
    let mut figures = Vec::new();
    for protocol in PROTOCOLS {
        let place = tempfile::tempdir()?;
        let folder = place.path();
        let authority = prepare(program, folder)?;
        let listen = "https = \"*:8443\"";
        fs::write(folder.join("altway.toml"), storing(listen))?;
        let serve = format!(
            "cd {} && {} serve --config altway.toml 2> log",
            folder.display(),
            program.display()
        );
        let client = match protocol {
            "h3" => upload_by_quic_go(&authority)?,
            _ => format!(
                "curl -skSZ --parallel-immediate --parallel-max {UPLOADS} {} -o /dev/null -w '%{{http_code}}\\n' -H expect: -T \
                 small \"https://$ALTWAY_HOST:8443/in/[1-{UPLOADS}]\"",
                if protocol == "h1" {
                    "--http1.1"
                } else {
                    "--http2"
                }
            ),
        };
        let mut emulate = altway(program, folder);
        emulate.args([
            "emulate", "--rate", "50mbit", "--delay", "20ms", "--loss", "1%",
        ]);
        emulate.args(["--server", &serve, "--", "sh", "-c", &client]);
        let output = emulate.output()?;
        let stored = fs::read_dir(folder.join("stored"))?;
        let is_whole = |it: &fs::DirEntry| it.metadata().is_ok_and(|it| it.len() == UPLOAD);
        let whole = stored.flatten().filter(is_whole).count();
        if whole < UPLOADS {
            shell::say(&String::from_utf8_lossy(&output.stderr));
        }
        let what = format!("{protocol}: uploads that are not there whole, of {UPLOADS}");
        figures.push(Figure::new(what, (UPLOADS - whole) as f64, 0.0, ""));
    }
    Ok(figures)
}

/// A line of a shell that uploads by quic-go's client to the far end.
fn upload_by_quic_go(authority: &str) -> Result<String> {
    let program = go::interop_quic_go().context("quic-go is missing")?;
    let request = |at| {
        format!("{{\"method\":\"PUT\",\"path\":\"/in/{at}\",\"upload\":{UPLOAD},\"freely\":true}}")
    };
    let requests: Vec<_> = (0..UPLOADS).map(request).collect();
    Ok(format!(
        "echo '{{\"parallel\":{UPLOADS},\"requests\":[{}]}}' | {} client \"$ALTWAY_HOST:8443\" {authority}",
        requests.join(","),
        program.display()
    ))
}

/// Each connection has a response in progress, of another file than all others.
pub(super) fn descriptors(program: &Path) -> Result<Vec<Figure>> {
    let place = tempfile::tempdir()?;
    let folder = place.path();
    fs::create_dir(folder.join("site"))?;
    for at in 0..FILES {
        zeros(&folder.join(format!("site/{at}")), 100_000)?;
    }
    let config = "threads = 1\n\n[listen]\nhttp = \"127.0.0.1:0\"\n\n[[site]]\ndefault = true\nroute = [{ files = \"site\" }]\n";
    let server = Server::start(program, folder, config, Some(DESCRIPTORS))?;
    let connect = |_| Client::connect(server.port());
    let mut clients: Vec<_> = (0..CONNECTIONS).map(connect).collect::<Result<_>>()?;
    let (mut all, mut refused) = (0_u32, 0_u32);
    for first in (0..FILES).step_by(CONNECTIONS) {
        for (at, client) in clients.iter_mut().enumerate() {
            client.ask(&format!("/{}", (first + at) % FILES), "")?;
        }
        for client in &mut clients {
            all += 1;
            refused += u32::from(client.answer()?.0 != 200);
        }
    }
    let what = format!("responses that are not 200, of {all}");
    Ok(vec![Figure::new(what, refused.into(), 0.0, "")])
}

/// A file that is compressed on the fly, kept compressed, and a file as long as that, in turn.
pub(super) fn compressed(program: &Path) -> Result<Vec<Figure>> {
    const GZIP: &str = "Accept-Encoding: gzip\r\n";
    let place = tempfile::tempdir()?;
    let folder = place.path();
    fs::create_dir(folder.join("site"))?;
    let text: String = (0..40_000)
        .map(|at| format!("line {}\n", at * at))
        .collect();
    fs::write(folder.join("site/text.txt"), text)?;
    let config = "threads = 1\n\n[listen]\nhttp = \"127.0.0.1:0\"\n\n[[site]]\ndefault = true\nroute = [{ files = \"site\", compress \
                  = [\"gzip\"] }]\n";
    let server = Server::start(program, folder, config, None)?;
    let mut client = Client::connect(server.port())?;
    // The first has no length, for it is made while it is sent.
    let length = kept_length(&server, GZIP)?;
    zeros(&folder.join("site/plain.bin"), length)?;
    let mut measure = |path: &str| -> Result<f64> {
        let before = server.cpu()?;
        for _ in 0..REQUESTS {
            let answer = client.get(path, GZIP)?;
            ensure!(answer == (200, length), "{path}: {answer:?}");
        }
        Ok((server.cpu()? - before).as_secs_f64())
    };
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let (plain, compressed) = (measure("/plain.bin")?, measure("/text.txt")?);
        ratios.push(compressed / plain);
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let what = format!("processor time of {length} bytes beside the plain file's");
    Ok(vec![Figure::new(what, ratios[ROUNDS / 2], 1.1, "x")])
}

/// The length of the compressed form, once it is kept.
fn kept_length(server: &Server, field: &str) -> Result<u64> {
    for _ in 0..100 {
        let mut client = Client::connect(server.port())?;
        if let Ok((200, length)) = client.get("/text.txt", field) {
            return Ok(length);
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    anyhow::bail!("the compressed form is never kept")
}
