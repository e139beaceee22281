//! The trials.

use super::Figure;
use super::client::Client;
use super::server::{Server, altway};
use super::uploads::{Uploads, zeros};
use crate::go;
use crate::scratch::Scratch;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PROTOCOLS: [&str; 3] = ["h1", "h2", "h3"];

const RELOADS: u32 = 1_000;

/// Reloads after which a server has what it keeps.
const WARM: u32 = 100;

/// The time before memory is read: clients begin meanwhile, and workers look for what nobody asks for every second.
const SETTLE: Duration = Duration::from_secs(3);

/// Bytes of a large upload.
const LARGE: u64 = 2_000_000_000;

/// Uploads at once, and bytes of each.
const UPLOADS: usize = 200;
const UPLOAD: u64 = 100_000;

/// Port of the server at the far end of the link.
const LOSSY_PORT: u16 = 8443;

const DESCRIPTORS: u32 = 1024;
const FILES: usize = 5_001;
const CONNECTIONS: usize = 500;

/// Requests of a round, and rounds.
const REQUESTS: u32 = 4_000;
const ROUNDS: usize = 7;

/// A thousand times the configuration is another one, while three clients ask without a pause.
pub(super) fn reloads(program: &Path) -> Result<Vec<Figure>> {
    let place = place()?;
    let folder = place.path();
    fs::write(folder.join("site/a.txt"), "a".repeat(20_000))?;
    let config = |turn: u32| {
        let headers = format!("headers = {{ X-Turn = \"{turn}\" }}\n");
        serving_files("https", &headers, "")
    };
    let server = Server::start(program, folder, &config(0), None)?;
    let begin = Instant::now();
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
    let took = begin.elapsed().as_secs_f64();
    let mut figures = Vec::new();
    for (protocol, asked) in PROTOCOLS.into_iter().zip(asked) {
        let (all, lost) = asked?;
        let what = format!("{protocol}: requests lost, of {all}");
        figures.push(Figure::new(what, lost as f64, 0.0, ""));
    }
    let what = format!(
        "memory after {RELOADS} reloads beyond that after {WARM} ({warm:.1} MB; {took:.0} s)"
    );
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
            warm = settled(server)?;
        }
    }
    Ok((warm, settled(server)?))
}

/// The resident memory in a moment.
fn settled(server: &Server) -> Result<f64> {
    std::thread::sleep(SETTLE);
    server.resident()
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

/// A file over each protocol, to a server of its own.
pub(super) fn large_uploads(program: &Path) -> Result<Vec<Figure>> {
    go::build_quic_go()?;
    let mut figures = Vec::new();
    for protocol in PROTOCOLS {
        let uploads = Uploads::prepare(program, 1, LARGE)?;
        let config = Uploads::config("127.0.0.1:0");
        let server = Server::start(program, uploads.folder(), &config, None)?;
        let before = server.resident()?;
        figures.push(uploads.send(protocol, server.port())?);
        let what = format!("{protocol}: memory at the peak ({before:.1} MB before)");
        figures.push(Figure::new(what, server.peak()?, 40.0, "MB"));
    }
    Ok(figures)
}

/// Each protocol's uploads, behind an emulated link whose far end has the server.
pub(super) fn lossy_uploads(program: &Path) -> Result<Vec<Figure>> {
    go::build_quic_go()?;
    let mut figures = Vec::new();
    for protocol in PROTOCOLS {
        let uploads = Uploads::prepare(program, UPLOADS, UPLOAD)?;
        let folder = uploads.folder();
        let config = Uploads::config(&format!("*:{LOSSY_PORT}"));
        fs::write(folder.join("altway.toml"), config)?;
        let serve = format!(
            "cd {} && {} serve --config altway.toml 2> log",
            folder.display(),
            program.display()
        );
        let mut emulate = altway(program, folder);
        emulate.args([
            "emulate", "--rate", "50mbit", "--delay", "20ms", "--loss", "1%",
        ]);
        let clients = uploads.line(protocol, LOSSY_PORT)?;
        emulate.args(["--server", &serve, "--", "sh", "-c", &clients]);
        figures.push(uploads.carry_out(protocol, &mut emulate)?);
    }
    Ok(figures)
}

/// A folder with an empty folder `site`.
fn place() -> Result<Scratch> {
    let place = Scratch::new()?;
    fs::create_dir(place.path().join("site"))?;
    Ok(place)
}

/// Returns the configuration of one worker that serves the files of `site`; `site` and `files`: what it says of both
/// besides.
fn serving_files(listen: &str, site: &str, files: &str) -> String {
    format!(
        "threads = 1\n\n[listen]\n{listen} = \"127.0.0.1:0\"\n\n[[site]]\ndefault = true\n{site}route = [{{ files = \"site\"{files} }}]\n"
    )
}

/// Each connection has a response in progress, of another file than all others.
pub(super) fn descriptors(program: &Path) -> Result<Vec<Figure>> {
    let place = place()?;
    let folder = place.path();
    for at in 0..FILES {
        zeros(&folder.join(format!("site/{at}")), 100_000)?;
    }
    let config = serving_files("http", "", "");
    let server = Server::start(program, folder, &config, Some(DESCRIPTORS))?;
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
    let place = place()?;
    let folder = place.path();
    let text: String = (0..40_000)
        .map(|at| format!("line {}\n", at * at))
        .collect();
    fs::write(folder.join("site/text.txt"), text)?;
    let config = serving_files("http", "", ", compress = [\"gzip\"]");
    let server = Server::start(program, folder, &config, None)?;
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
        std::thread::sleep(Duration::from_millis(50));
    }
    anyhow::bail!("the compressed form is never kept")
}
