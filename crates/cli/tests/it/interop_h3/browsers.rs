//! Browsers: Chromium and Firefox, without a window and without a driver. Pages do what is to be done
//! and report it to the server.

use super::echo::Echo;
use super::{BIG, Ground, HOST, UPLOAD, content, sha256};
use crate::common::{Dir, Serving, TIME_LIMIT, installed, success};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Browser {
    Chromium,
    Firefox,
}

/// A browser that runs; ended with this value.
pub(crate) struct Running(Child);

impl Browser {
    /// Returns whether all that it takes is installed; says so when it is not.
    pub(crate) fn is_there(self) -> bool {
        match self {
            Self::Chromium => installed("chromium"),
            Self::Firefox => installed("firefox-esr") && installed("certutil"),
        }
    }

    /// Opens `page` with the profile in `folder`, which is made if there is none.
    fn open(self, ground: &Ground, folder: &Path, page: &str) -> Running {
        self.open_with(&[], ground, folder, page)
    }

    /// The same, with further flags of Chromium's or preferences of Firefox's.
    pub(crate) fn open_with(
        self,
        more: &[&str],
        ground: &Ground,
        folder: &Path,
        page: &str,
    ) -> Running {
        let mut browser = match self {
            Self::Chromium => chromium(more, ground, folder),
            Self::Firefox => firefox(more, ground, folder),
        };
        browser.arg(page).env("HOME", ground.dir.path());
        browser.stdin(Stdio::null()).stdout(Stdio::null());
        Running(browser.stderr(Stdio::null()).spawn().unwrap())
    }
}

fn chromium(flags: &[&str], ground: &Ground, profile: &Path) -> Command {
    let mut chromium = Command::new("chromium");
    chromium.args(flags);
    chromium.args(["--headless", "--no-sandbox", "--disable-gpu"]);
    chromium.args(["--no-first-run", "--enable-quic"]);
    chromium.args([
        "--disable-background-networking",
        "--disable-component-update",
    ]);
    // Unknown roots are refused over QUIC unless the host is named here; the port is a decoy, so
    // that nothing is forced.
    chromium.arg(format!("--origin-to-force-quic-on={HOST}:9"));
    let spki = &ground.spki;
    chromium.arg(format!("--ignore-certificate-errors-spki-list={spki}"));
    chromium.arg(format!("--host-resolver-rules=MAP {HOST} 127.0.0.1"));
    chromium.arg(format!("--user-data-dir={}", profile.display()));
    chromium
}

/// Preferences of a new profile of Firefox.
const PREFERENCES: &str = r#"
user_pref("network.http.http3.enable", true);
user_pref("network.http.http3.disable_when_third_party_roots_found", false);
user_pref("network.dns.localDomains", "altway.test");
user_pref("network.dns.disableIPv6", true);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("app.update.enabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
"#;

fn firefox(preferences: &[&str], ground: &Ground, profile: &Path) -> Command {
    if !profile.exists() {
        std::fs::create_dir(profile).unwrap();
        let all = PREFERENCES.to_owned() + &preferences.concat();
        std::fs::write(profile.join("user.js"), all).unwrap();
        let store = format!("sql:{}", profile.display());
        let certutil = |arguments: &[&str]| {
            let mut certutil = Command::new("certutil");
            success(certutil.args(["-d", &store]).args(arguments));
        };
        certutil(&["-N", "--empty-password"]);
        let authority = ground.authority.to_str().unwrap();
        certutil(&["-A", "-n", "altway", "-t", "C,,", "-i", authority]);
    }
    let mut firefox = Command::new("firefox-esr");
    firefox
        .args(["--headless", "--no-remote", "--profile"])
        .arg(profile);
    firefox
}

impl Running {
    /// Lets it write down what it has learned.
    pub(crate) fn quit(mut self) {
        let process = Pid::from_child(&self.0);
        kill_process(process, Signal::TERM).unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until objects come over HTTP/3, and then makes a request of each kind.
const EVERYTHING: &str = r#"<!doctype html><title>everything</title><script>
const digest = async (bytes) => {
  const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(sum, (byte) => byte.toString(16).padStart(2, "0")).join("");
};
const run = async (method, path, body) => {
  const answer = await fetch(path, { method, body, cache: "no-store" });
  const sha256 = await digest(await answer.arrayBuffer());
  // Firefox writes its entry a little later.
  let entries = [];
  for (let i = 0; i < 100 && entries.length === 0; i++) {
    entries = performance.getEntriesByName(location.origin + path);
    await new Promise((done) => setTimeout(done, 10));
  }
  return { status: answer.status, sha256, protocol: entries[0]?.nextHopProtocol };
};
(async () => {
  let report;
  try {
    let small;
    for (let i = 0; i < 100 && small?.protocol !== "h3"; i++) {
      await new Promise((done) => setTimeout(done, 50));
      small = await run("GET", "/small.txt?" + i);
    }
    const upload = Uint8Array.from({ length: UPLOAD }, (_, i) => i % 251);
    report = {
      small,
      big: await run("GET", "/big.bin"),
      head: await run("HEAD", "/big.bin?head"),
      none: await run("GET", "/none"),
      echo: await run("POST", "/echo", upload),
    };
  } catch (error) {
    report = { error: String(error) };
  }
  await fetch("/report", { method: "POST", body: JSON.stringify(report) });
})();
</script>"#;

fn fetches_and_uploads(browser: Browser) {
    if !browser.is_there() {
        return;
    }
    let ground = Ground::new();
    let page = EVERYTHING.replace("UPLOAD", &UPLOAD.to_string());
    ground.dir.file("site/index.html", page);
    let server = Echo::start(&ground);
    let page = format!("https://{HOST}:{}/", server.port);
    let running = browser.open(&ground, &ground.dir.path().join("profile"), &page);
    let report = server.report().expect("the browser reports");
    running.quit();
    let report: Value = serde_json::from_str(&report).unwrap();
    let expected = |status: u16, body: &[u8]| json!({"status": status, "sha256": sha256(body), "protocol": "h3"});
    assert_eq!(report["small"], expected(200, b"small"), "{report}");
    assert_eq!(report["big"], expected(200, &content(BIG)), "{report}");
    assert_eq!(report["head"], expected(200, b""), "{report}");
    assert_eq!(report["none"]["status"], 404, "{report}");
    assert_eq!(report["none"]["protocol"], "h3", "{report}");
    assert_eq!(report["echo"], expected(200, &content(UPLOAD)), "{report}");
}

#[test]
fn chromium_fetches_and_uploads_over_http3() {
    fetches_and_uploads(Browser::Chromium);
}

#[test]
fn firefox_fetches_and_uploads_over_http3() {
    fetches_and_uploads(Browser::Firefox);
}

/// Twenty objects, one after the other, then a report of the protocols that the browser saw.
const OBJECTS: &str = r#"<!doctype html><title>objects</title><script>
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
(async () => {
  for (let i = 0; i < 20; i++) { await (await fetch("/o" + i, { cache: "no-store" })).arrayBuffer(); await sleep(20); }
  const all = performance.getEntriesByType("resource");
  const objects = all.filter((entry) => entry.name.includes("/o"));
  await fetch("/report/" + objects.map((object) => object.nextHopProtocol).join("-"));
})();
</script>"#;

/// Goes to a page when the browser has had time to read from disk what it knows of servers: one that
/// has just started may fetch before.
const START: &str = "<!doctype html><title>start</title><script>
setTimeout(() => location.replace('PAGE'), 1500);
</script>";

/// Visits the page once; gives the protocols of its objects as the browser saw them.
fn visit(ground: &Ground, port: u16) -> Vec<String> {
    let page = format!("https://{HOST}:{port}/");
    let start = ground.dir.file("start.html", START.replace("PAGE", &page));
    let seen_before = reports(&ground.dir).len();
    let profile = ground.dir.path().join("profile");
    let start = format!("file://{}", start.display());
    let running = Browser::Chromium.open(ground, &profile, &start);
    let deadline = Instant::now() + TIME_LIMIT;
    while reports(&ground.dir).len() == seen_before && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(100));
    }
    running.quit();
    let reports = reports(&ground.dir);
    let report = reports
        .get(seen_before)
        .expect("the browser reported within the time limit");
    report.split('-').map(str::to_owned).collect()
}

/// The reports of browsers, from the server's access log.
fn reports(dir: &Dir) -> Vec<String> {
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
    let after = log.split("/report/").skip(1);
    after
        .map(|rest| rest.split([' ', '"']).next().unwrap_or_default().to_owned())
        .collect()
}

/// A folder with the page and its objects.
fn objects() -> Ground {
    let ground = Ground::new();
    ground.dir.file("site/index.html", OBJECTS);
    for i in 0..20 {
        ground.dir.file(&format!("site/o{i}"), "object");
    }
    ground
}

#[test]
fn chromium_moves_to_http3_within_a_page() {
    if !Browser::Chromium.is_there() {
        return;
    }
    let ground = objects();
    let more = ["--policy", "h3", "--access-log", "-"];
    let serving = Serving::start(&ground.dir, &more);
    let protocols = visit(&ground, serving.port);
    assert_eq!(pages(&ground.dir), ["h2"]);
    assert_eq!(protocols.len(), 20);
    assert_eq!(protocols[18..], ["h3", "h3"], "{protocols:?}");
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn chromium_moves_back_to_http2_within_a_page_on_clear() {
    if !Browser::Chromium.is_there() {
        return;
    }
    let ground = objects();
    let more = ["--policy", "h2", "--access-log", "-"];
    let serving = Serving::start(&ground.dir, &more);
    remember_http3(&ground, serving.port);
    let protocols = visit(&ground, serving.port);
    // Else Chromium may have come to write down in another way what it knows.
    assert_eq!(pages(&ground.dir), ["h3"]);
    assert_eq!(protocols[18..], ["h2", "h2"], "{protocols:?}");
}

/// Makes a profile of Chromium's that an earlier visit may have left. One that it writes is not always
/// there in time, and tells how near the server was: QUIC gets one and a half round trips before TCP is
/// tried beside it, a race on the loopback that TCP may win.
fn remember_http3(ground: &Ground, port: u16) {
    // Chromium counts microseconds from 1601.
    const TO_1970: Duration = Duration::from_secs(11_644_473_600);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let tomorrow = TO_1970 + now + Duration::from_secs(86_400);
    let server = json!({
        "server": format!("https://{HOST}:{port}"),
        "supports_spdy": true,
        // `https://altway.test`, in the form of its partitions.
        "anonymization": ["GAAAABMAAABodHRwczovL2FsdHdheS50ZXN0AA==", false, 0],
        "alternative_service": [{
            "advertised_alpns": ["h3"],
            "expiration": tomorrow.as_micros().to_string(),
            "port": port,
            "protocol_str": "quic",
        }],
    });
    let state = json!({"net": {"http_server_properties": {
        "servers": [server],
        "supports_quic": {"address": "127.0.0.1", "used_quic": true},
        "version": 5,
    }}});
    let file = "profile/Default/Network Persistent State";
    ground.dir.file(file, state.to_string());
}

/// The protocols by which the page itself was fetched, from the server's access log.
fn pages(dir: &Dir) -> Vec<String> {
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    let fetches = log.lines().filter(|line| line.contains(r#"path="/" "#));
    let protocol = |line: &str| {
        line.split("protocol=")
            .nth(1)
            .map(|rest| rest[..2].to_owned())
    };
    fetches.filter_map(protocol).collect()
}
