//! Chromium, told what to do by the Chrome DevTools Protocol over a pair of pipes: it needs neither a
//! port nor a driver, and ends when the pipes are closed.

use super::running::{Running, command_dying_with_us};
use super::timing::Report;
use super::wire::{Framing, Wire};
use super::{ANSWER_LIMIT, BrowserDriver, PageLoad, START_LIMIT, load_pages};
use crate::server::in_url;
use altway_record::Protocol;
use rustix::process::geteuid;
use serde_json::{Value, json};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

/// Chromium reads commands from descriptor 3 and writes answers to 4. The shell puts them there, where
/// a program without unsafe code can't.
const PIPE_REDIRECTION: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null"#;

/// Options of a browser without a window and without anything that was not asked for: no first
/// steps, updates, reports, guesses of where the user goes next, nor a proxy.
const BASE_OPTIONS: [&str; 21] = [
    "--headless",
    "--disable-gpu",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--no-pings",
    "--no-startup-window",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-features=MediaRouter,OptimizationHints,Translate",
    "--disable-search-engine-choice-screen",
    "--disable-sync",
    "--metrics-recording-only",
    "--password-store=basic",
    "--use-mock-keychain",
    "--remote-debugging-pipe",
];

/// A port at which no page is.
const DISCARD_PORT: u16 = 9;

/// Starts it, loads the pages and ends it; one that comes back or writes a log ends by itself, when it has written that
/// down.
pub(super) fn load(load: &PageLoad, program: &Path) -> io::Result<Vec<Report>> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = command_dying_with_us("sh")?;
    command.args(["-c", PIPE_REDIRECTION]).arg(program);
    command.args(flags(load));
    command
        .stdin(OwnedFd::from(theirs.try_clone()?))
        .stdout(OwnedFd::from(theirs));
    let mut running = Running::start(command, &load.folder)?;
    let loaded = Chromium::attach(ours).and_then(|mut chromium| {
        let reports = load_pages(&mut chromium, load)?;
        if ends_by_itself(load) {
            chromium.close()?;
        }
        Ok(reports)
    });
    let reports = loaded.map_err(|error| running.explain(error))?;
    if ends_by_itself(load) {
        running.await_end()?;
    }
    Ok(reports)
}

/// Returns true if Chromium writes something down at its end: a profile that is used again, or the last of its log.
fn ends_by_itself(load: &PageLoad) -> bool {
    load.is_returning() || load.netlog.is_some()
}

fn flags(load: &PageLoad) -> Vec<String> {
    let PageLoad { host, port, .. } = load;
    let mut flags: Vec<String> = BASE_OPTIONS.map(str::to_owned).into();
    let profile = load.profile();
    flags.push(format!("--user-data-dir={}", profile.display()));
    // Other names lead nowhere; but the loopback does, for it would ask public name servers why not.
    flags.push(format!(
        "--host-resolver-rules=MAP {host} {}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        in_url(load.address)
    ));
    let digest = &load.key_digest;
    flags.push(format!("--ignore-certificate-errors-spki-list={digest}"));
    match load.protocol {
        // A decoy port forces nothing, and naming the host lets it trust an authority of our own over QUIC.
        _ if load.is_returning() => flags.extend([
            "--enable-quic".into(),
            format!("--origin-to-force-quic-on={host}:{DISCARD_PORT}"),
        ]),
        Protocol::H1 => flags.extend(["--disable-quic".into(), "--disable-http2".into()]),
        Protocol::H2 => flags.push("--disable-quic".into()),
        // Forces it from the first request on, and lets it trust an authority of our own.
        Protocol::H3 => flags.extend([
            "--enable-quic".into(),
            format!("--origin-to-force-quic-on={host}:{port}"),
        ]),
    }
    if let Some(file) = &load.netlog {
        flags.push(format!("--log-net-log={}", file.display()));
    }
    if geteuid().is_root() {
        // Chromium refuses to run as root with its sandbox.
        flags.push("--no-sandbox".into());
    }
    flags
}

/// A Chromium with one page.
struct Chromium {
    wire: Wire<UnixStream>,
    /// Number of calls that were made, by which they are numbered.
    calls: u64,
    /// The session of the page, once there is one.
    session: Option<String>,
    /// The last document that came with all that it names.
    loaded: Option<String>,
}

impl Chromium {
    fn attach(socket: UnixStream) -> io::Result<Self> {
        let deadline = Instant::now() + START_LIMIT;
        let mut chromium = Self {
            wire: Wire::new(socket, Framing::Terminated),
            calls: 0,
            session: None,
            loaded: None,
        };
        let blank = json!({"url": "about:blank"});
        let target = chromium.call("Target.createTarget", &blank, deadline)?;
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let session = chromium.call("Target.attachToTarget", &target, deadline)?;
        chromium.session = session["sessionId"].as_str().map(str::to_owned);
        chromium.call("Inspector.enable", &json!({}), deadline)?;
        chromium.call("Page.enable", &json!({}), deadline)?;
        let enabled = json!({"enabled": true});
        chromium.call("Page.setLifecycleEventsEnabled", &enabled, deadline)?;
        Ok(chromium)
    }

    /// Calls a method of the browser, or once there is a page, of the page.
    fn call(&mut self, method: &str, parameters: &Value, deadline: Instant) -> io::Result<Value> {
        self.calls += 1;
        let mut call = json!({"id": self.calls, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            call["sessionId"] = session.as_str().into();
        }
        self.wire.send(&call.to_string())?;
        loop {
            let mut message = self.next(deadline)?;
            if message["id"] != self.calls {
                continue;
            }
            if let Some(error) = message["error"]["message"].as_str() {
                return Err(io::Error::other(format!("{method}: {error}")));
            }
            return Ok(message["result"].take());
        }
    }

    /// Tells it to end. It may be gone before it has answered.
    fn close(&mut self) -> io::Result<()> {
        self.session = None;
        let deadline = Instant::now() + ANSWER_LIMIT;
        match self.call("Browser.close", &json!({}), deadline) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(error),
            _ => Ok(()),
        }
    }

    /// The next message, when what it says of the page has been noted.
    fn next(&mut self, deadline: Instant) -> io::Result<Value> {
        let message: Value = serde_json::from_slice(&self.wire.receive(deadline)?)?;
        let event = &message["params"];
        match message["method"].as_str() {
            Some("Inspector.targetCrashed") => return Err(io::Error::other("the page crashed")),
            Some("Page.lifecycleEvent") if event["name"] == "load" => {
                self.loaded = event["loaderId"].as_str().map(str::to_owned);
            }
            _ => {}
        }
        Ok(message)
    }
}

impl BrowserDriver for Chromium {
    fn go(&mut self, url: &str, deadline: Instant) -> io::Result<()> {
        let document = self.call("Page.navigate", &json!({"url": url}), deadline)?;
        if let Some(error) = document["errorText"].as_str() {
            return Err(io::Error::other(error));
        }
        let loader = document["loaderId"].as_str();
        while self.loaded.as_deref() != loader {
            self.next(deadline)?;
        }
        Ok(())
    }

    fn ask(&mut self, expression: &str, deadline: Instant) -> io::Result<String> {
        let evaluate = json!({"expression": expression, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", &evaluate, deadline)?;
        let text = answer["result"]["value"].as_str().map(str::to_owned);
        text.ok_or_else(|| io::Error::other("it does not tell its times"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::time::Duration;

    /// A browser that has said all of this already, whatever it is asked.
    fn scripted(messages: &[&str]) -> (Chromium, UnixStream) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        for message in messages {
            theirs.write_all(message.as_bytes()).unwrap();
            theirs.write_all(b"\0").unwrap();
        }
        let chromium = Chromium {
            wire: Wire::new(ours, Framing::Terminated),
            calls: 0,
            session: Some("page".into()),
            loaded: None,
        };
        (chromium, theirs)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(50)
    }

    #[test]
    fn a_page_has_come_when_its_own_document_says_so() {
        let loaded = |loader: &str| {
            format!(
                r#"{{"method":"Page.lifecycleEvent","params":{{"name":"load","loaderId":"{loader}"}}}}"#
            )
        };
        let answer = r#"{"id":1,"result":{"frameId":"f","loaderId":"new"}}"#;
        let (mut chromium, mut theirs) = scripted(&[&loaded("old"), answer, &loaded("new")]);
        chromium.go("https://a.test/", soon()).unwrap();
        let mut asked = [0; 200];
        let length = theirs.read(&mut asked).unwrap();
        let asked: Value = serde_json::from_slice(&asked[..length - 1]).unwrap();
        assert_eq!(
            (&asked["sessionId"], &asked["method"]),
            (&"page".into(), &"Page.navigate".into())
        );
        let (mut chromium, _theirs) = scripted(&[answer, &loaded("old")]);
        let error = chromium.go("https://a.test/", soon()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn what_hinders_is_told_in_chromiums_words() {
        let failed = r#"{"id":1,"result":{"errorText":"net::ERR_QUIC_PROTOCOL_ERROR"}}"#;
        let (mut chromium, _theirs) = scripted(&[failed]);
        let error = chromium.go("https://a.test/", soon()).unwrap_err();
        assert_eq!(error.to_string(), "net::ERR_QUIC_PROTOCOL_ERROR");
        let (mut chromium, _theirs) = scripted(&[r#"{"id":1,"error":{"message":"no target"}}"#]);
        let error = chromium.ask("1", soon()).unwrap_err();
        assert_eq!(error.to_string(), "Runtime.evaluate: no target");
        let (mut chromium, _theirs) = scripted(&[r#"{"method":"Inspector.targetCrashed"}"#]);
        assert!(chromium.ask("1", soon()).is_err());
        let (mut chromium, _theirs) = scripted(&["no JSON"]);
        assert!(chromium.ask("1", soon()).is_err());
    }
}
