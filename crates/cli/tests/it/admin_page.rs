//! The page of the admin socket as an operator opens it: in a browser, light and dark, on a desk and on a phone.
//!
//! With `ALTWAY_TEST_SCREENSHOTS=FOLDER` pictures of it are left there, for people to look at.

use crate::common::{Dir, Serving, eventually, free_port, installed, success};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Script that gives the text of the page's parts and their layout, once the page has asked the server twice.
const LOOK: &str = r##"(async () => {
  const text = (id) => document.getElementById(id).innerText;
  for (let step = 0; step < 100 && (text("state") !== "live" || !document.querySelector("#chart polyline")); step += 1) {
    await new Promise((go) => setTimeout(go, 100));
  }
  const ids = ["state", "what", "tiles", "protocols", "pages", "latest", "arrivals", "sites", "offers", "classes", "handshakes", "certificates", "reload", "upstreams"];
  const style = getComputedStyle(document.body);
  return {
    texts: Object.fromEntries(ids.map((id) => [id, text(id)])),
    overflow: Math.max(0, document.documentElement.scrollWidth - window.innerWidth),
    ground: style.backgroundColor,
    ink: style.color,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    states: [...document.querySelectorAll("#upstreams td:nth-child(2)")].map((it) =>
      [it.innerText, it.getBoundingClientRect().right <= window.innerWidth]),
    narrow: [...document.querySelectorAll("section")].every((it) => it.getBoundingClientRect().right <= window.innerWidth),
  };
})()"##;

/// Chromium without a window, told what to do by the Chrome DevTools Protocol over two named pipes.
pub(crate) struct Browser {
    process: Child,
    to: File,
    from: BufReader<File>,
    number: u64,
    session: String,
    /// Exceptions, and what went to the console or the browser's log.
    faults: Vec<String>,
}

impl Browser {
    /// Starts a browser with a profile of its own in `dir`, and these options besides.
    pub(crate) fn start(dir: &Dir, options: &str) -> Self {
        let [to, from] = ["to", "from"].map(|name| dir.path().join(name));
        for pipe in [&to, &from] {
            let made = Command::new("mkfifo").arg(pipe).status().unwrap();
            assert!(made.success());
        }
        let profile = dir.path().join("profile");
        let command = format!(
            "exec chromium --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
             --disable-component-update {options} --user-data-dir={} --remote-debugging-pipe about:blank 3<{} 4>{}",
            profile.display(),
            to.display(),
            from.display()
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).env("HOME", dir.path());
        shell
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = shell.spawn().unwrap();
        // In the order in which the shell opens its ends, as each waits for the other.
        let to = File::options().write(true).open(to).unwrap();
        let from = BufReader::new(File::open(from).unwrap());
        let mut browser = Self {
            process,
            to,
            from,
            number: 0,
            session: String::new(),
            faults: Vec::new(),
        };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", &attach);
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Runtime.enable", "Log.enable", "Page.enable"] {
            browser.call(domain, &json!({}));
        }
        browser
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        write!(self.to, "{message}\0").unwrap();
        self.to.flush().unwrap();
        loop {
            let message = self.message();
            if message["id"] == json!(self.number) {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// Opens `url`, and waits for its load event.
    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({"url": url}));
        while self.message()["method"] != "Page.loadEventFired" {}
    }

    /// Writes a picture of the whole page to a file.
    fn picture(&mut self, file: &Path) {
        let layout = self.call("Page.getLayoutMetrics", &json!({}));
        let size = &layout["cssContentSize"];
        let clip =
            json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        let whole = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let picture = self.call("Page.captureScreenshot", &whole);
        let mut decode = Command::new("base64");
        decode.arg("-d").stdin(Stdio::piped());
        let mut decode = decode.stdout(File::create(file).unwrap()).spawn().unwrap();
        let text = picture["data"].as_str().unwrap();
        let mut stdin = decode.stdin.take().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        drop(stdin);
        assert!(decode.wait().unwrap().success());
    }

    fn message(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser has ended");
        let message: Value = serde_json::from_slice(&bytes).unwrap();
        let method = message["method"].as_str().unwrap_or_default();
        if matches!(
            method,
            "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded"
        ) {
            self.faults.push(message.to_string());
        }
        message
    }

    /// Opens `url` in a window of that size and scheme of colours, and looks at it.
    fn look(&mut self, url: &str, (width, height): (u32, u32), scheme: &str) -> Value {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", &json!({"features": features}));
        self.open(url);
        let ask = json!({"expression": LOOK, "awaitPromise": true, "returnByValue": true});
        let seen = self.call("Runtime.evaluate", &ask);
        assert!(seen["exceptionDetails"].is_null(), "{seen}");
        seen["result"]["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Relative luminance of `rgb(…)`, roughly.
fn brightness(colour: &Value) -> f64 {
    let text = colour.as_str().unwrap();
    let inner = text.trim_start_matches("rgb(").trim_end_matches(')');
    let parts = inner.split(", ").map(|part| part.parse::<f64>().unwrap());
    parts.sum::<f64>() / 3.0 / 255.0
}

#[test]
fn the_page_fills_with_figures_in_light_and_dark_on_a_desk_and_on_a_phone() {
    if !installed("chromium") || !installed("mkfifo") {
        return;
    }
    let dir = Dir::new();
    std::fs::create_dir_all(dir.path().join("site")).unwrap();
    dir.file("site/a", "a");
    let admin = format!("127.0.0.1:{}", free_port());
    let serving = Serving::start(&dir, &["--admin", &admin]);
    for protocol in ["h2", "h3"] {
        let url = serving.url("/a");
        success(&mut dir.altway([
            "load",
            &url,
            "--protocol",
            protocol,
            "--insecure",
            "-n",
            "3",
        ]));
    }
    eventually("the admin socket is there", || {
        std::net::TcpStream::connect(&admin).is_ok()
    });
    let mut browser = Browser::start(&dir, "");
    let url = format!("http://{admin}/");
    for size in [(1280, 900), (390, 844)] {
        for scheme in ["light", "dark"] {
            let seen = browser.look(&url, size, scheme);
            if let Some(folder) = std::env::var_os("ALTWAY_TEST_SCREENSHOTS") {
                let name = format!("admin-{}-{scheme}.png", size.0);
                browser.picture(&Path::new(&folder).join(name));
            }
            let texts = &seen["texts"];
            let has = |part: &str, what: &str| {
                let text = texts[part].as_str().unwrap();
                assert!(text.contains(what), "{what:?} in {part}: {seen}");
            };
            has("state", "live");
            has("what", "policy learned");
            has("tiles", "predicted gain of what was offered HTTP/3");
            has("tiles", "memory of HTTP/3, of ");
            has("tiles", "requests in progress");
            has("protocols", "≤ 5 ms");
            has("pages", "measured gain");
            has("latest", "altway-other");
            has("latest", "predicted");
            has("arrivals", "h3");
            has("sites", "other names");
            has("offers", "h2");
            has("classes", "altway-other");
            has("handshakes", "completed");
            has("certificates", "localhost");
            has("reload", "None since the server began.");
            for broken in ["NaN", "undefined", "Infinity"] {
                assert!(!texts.to_string().contains(broken), "{broken}: {seen}");
            }
            assert_eq!(
                (&seen["overflow"], &seen["narrow"]),
                (&json!(0), &json!(true)),
                "{seen}"
            );
            assert_eq!(seen["dark"], json!(scheme == "dark"));
            let (ground, ink) = (brightness(&seen["ground"]), brightness(&seen["ink"]));
            assert_eq!(ground > ink, scheme == "light", "{ground} {ink}");
            assert!((ground - ink).abs() > 0.6, "{ground} {ink}");
        }
    }
    assert!(browser.faults.is_empty(), "{:?}", browser.faults);
    drop(browser);
    assert_eq!(serving.terminate(), Some(0));
}

/// However long the names of its sites are.
#[test]
fn a_phone_shows_at_once_which_servers_behind_are_up() {
    if !installed("chromium") || !installed("mkfifo") {
        return;
    }
    let dir = Dir::new();
    let name = "a-long-name-of-a-customer.with-several-labels.internal.example.org";
    let config = format!(
        "[listen]\nhttp = [\"127.0.0.1:0\"]\n\n[[site]]\nnames = [\"{name}\"]\n\
         route = [{{ path = \"/api/*\", proxy = \"http://127.0.0.1:1\" }}, {{ respond = {{}} }}]\n"
    );
    dir.file("altway.toml", config);
    let admin = format!("127.0.0.1:{}", free_port());
    let mut command = dir.altway(["serve", "--config", "altway.toml", "--json"]);
    command.args(["--admin", &admin]);
    let serving = Serving::spawn(&dir, command);
    eventually("the admin socket is there", || {
        std::net::TcpStream::connect(&admin).is_ok()
    });
    let mut browser = Browser::start(&dir, "");
    let seen = browser.look(&format!("http://{admin}/"), (390, 844), "light");
    assert_eq!(seen["states"], json!([["up", true]]), "{seen}");
    let text = seen["texts"]["upstreams"].as_str().unwrap();
    assert!(text.contains(&format!("{name}/api/*")), "{text}");
    drop(browser);
    assert_eq!(serving.terminate(), Some(0));
}
