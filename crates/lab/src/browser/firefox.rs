//! Firefox, told what to do by Marionette, which it speaks by itself on a port of the loopback: that of
//! the client's end of the link, where this runs too.

use super::running::{Running, command_dying_with_us};
use super::timing::Report;
use super::wire::{Framing, Wire};
use super::{ANSWER_LIMIT, BrowserDriver, PageLoad, START_LIMIT, load_pages};
use altway_record::Protocol;
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The file in its profile in which Firefox says where it listens.
const PORT_FILE: &str = "MarionetteActivePort";

const LOOK_PERIOD: Duration = Duration::from_millis(10);

/// Time that a fall-back to TCP may be put off, in milliseconds: it would end what is measured.
const NEVER: u32 = 600_000;

/// Settings of every new profile, whatever is measured: exact times, no names but the server's, and nothing
/// that is not asked for. Marionette itself switches updates, reports and the like off.
const BASE_PREFERENCES: &str = r#"user_pref("marionette.port", 0);
user_pref("privacy.reduceTimerPrecision", false);
user_pref("privacy.reduceTimerPrecision.unconditional", false);
user_pref("network.proxy.type", 0);
user_pref("network.trr.mode", 5);
user_pref("network.dns.disableIPv6", true);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("network.http.http3.disable_when_third_party_roots_found", false);
user_pref("security.OCSP.enabled", 0);
user_pref("services.settings.server", "data:,");
user_pref("app.normandy.enabled", false);
user_pref("browser.chrome.site_icons", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("toolkit.telemetry.server", "");
"#;

/// Starts it, loads the pages and ends it; one that comes back ends by itself, when it has written down what it
/// keeps.
pub(super) fn load(load: &PageLoad, program: &Path) -> io::Result<Vec<Report>> {
    let profile = load.profile();
    fs::create_dir_all(&profile)?;
    fs::write(profile.join("user.js"), preferences(load))?;
    // What it said when it ran before.
    let _ = fs::remove_file(profile.join(PORT_FILE));
    let mut command = command_dying_with_us(program)?;
    command.args(["--headless", "--marionette", "--no-remote", "--profile"]);
    command.arg(&profile);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut running = Running::start(command, &load.folder)?;
    let port = await_port(&profile.join(PORT_FILE), &mut running)?;
    let loaded = Firefox::attach(port, load.timeout).and_then(|mut firefox| {
        let reports = load_pages(&mut firefox, load)?;
        if load.is_returning() {
            firefox.close()?;
        }
        Ok(reports)
    });
    let reports = loaded.map_err(|error| running.explain(error))?;
    if load.is_returning() {
        running.await_end()?;
    }
    Ok(reports)
}

fn preferences(load: &PageLoad) -> String {
    let mut text = BASE_PREFERENCES.to_owned();
    let mut set = |name: &str, value: Value| {
        text.push_str(&format!("user_pref(\"{name}\", {value});\n"));
    };
    if load.is_returning() {
        set("network.http.http3.enable", true.into());
        // Its cache would answer in the server's place.
        set("browser.cache.disk.enable", false.into());
        return text;
    }
    let (host, port) = (load.host(), load.port);
    let (http2, http3) = match load.protocol {
        Protocol::H1 => (false, false),
        Protocol::H2 => (true, false),
        Protocol::H3 => (true, true),
    };
    set("network.http.http2.enabled", http2.into());
    set("network.http.http3.enable", http3.into());
    if http3 {
        let mapping = format!("{host};h3=:{port}");
        set(
            "network.http.http3.alt-svc-mapping-for-testing",
            mapping.into(),
        );
        set("network.http.http3.backup_timer_delay", NEVER.into());
        set("network.http.http3.fallback_to_h2_on_error", false.into());
    }
    text
}

/// Waits for the port at which Firefox listens.
fn await_port(file: &Path, running: &mut Running) -> io::Result<u16> {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        if let Ok(port) = text.trim().parse() {
            return Ok(port);
        }
        if let Some(ending) = running.ending() {
            return Err(ending);
        }
        if Instant::now() > deadline {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "it did not start in time",
            ));
        }
        std::thread::sleep(LOOK_PERIOD);
    }
}

/// A Firefox with one page.
struct Firefox {
    wire: Wire<TcpStream>,
    /// Number of calls that were made, by which they are numbered.
    calls: u64,
}

impl Firefox {
    fn attach(port: u16, timeout: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + START_LIMIT;
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        socket.set_nodelay(true)?;
        let mut wire = Wire::new(socket, Framing::Counted);
        // It says which version it speaks; there has been one since 2017.
        wire.receive(deadline)?;
        let mut firefox = Self { wire, calls: 0 };
        let insecure = json!({"acceptInsecureCerts": true});
        firefox.call("WebDriver:NewSession", &insecure, deadline)?;
        let limits = json!({"pageLoad": u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)});
        firefox.call("WebDriver:SetTimeouts", &limits, deadline)?;
        Ok(firefox)
    }

    /// Tells it to end.
    fn close(&mut self) -> io::Result<()> {
        let how = json!({"flags": ["eAttemptQuit"]});
        let deadline = Instant::now() + ANSWER_LIMIT;
        self.call("Marionette:Quit", &how, deadline).map(|_| ())
    }

    fn call(&mut self, command: &str, parameters: &Value, deadline: Instant) -> io::Result<Value> {
        self.calls += 1;
        let call = json!([0, self.calls, command, parameters]);
        self.wire.send(&call.to_string())?;
        loop {
            let mut message: Value = serde_json::from_slice(&self.wire.receive(deadline)?)?;
            if message[0] == 1 && message[1] == self.calls {
                return result(&mut message);
            }
        }
    }
}

/// Takes the result out of an answer, `[1, id, error, result]`.
fn result(message: &mut Value) -> io::Result<Value> {
    let error = &message[2];
    if error.is_null() {
        return Ok(message[3].take());
    }
    let what = error["message"].as_str().or(error["error"].as_str());
    Err(io::Error::other(
        what.unwrap_or("it does not say what failed").to_owned(),
    ))
}

impl BrowserDriver for Firefox {
    fn go(&mut self, url: &str, deadline: Instant) -> io::Result<()> {
        self.call("WebDriver:Navigate", &json!({"url": url}), deadline)?;
        Ok(())
    }

    fn ask(&mut self, expression: &str, deadline: Instant) -> io::Result<String> {
        let script = json!({"script": format!("return {expression};"), "args": []});
        let answer = self.call("WebDriver:ExecuteScript", &script, deadline)?;
        let text = answer["value"].as_str().map(str::to_owned);
        text.ok_or_else(|| io::Error::other("it does not tell its times"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_result_or_an_error_in_firefoxs_words() {
        let of = |text: &str| result(&mut serde_json::from_str(text).unwrap());
        assert_eq!(of(r#"[1,3,null,{"value":7}]"#).unwrap()["value"], 7);
        let error = of(r#"[1,3,{"error":"unknown error","message":"about:neterror"},null]"#);
        assert_eq!(error.unwrap_err().to_string(), "about:neterror");
        let error = of(r#"[1,3,{"error":"timeout"},null]"#);
        assert_eq!(error.unwrap_err().to_string(), "timeout");
        assert!(of("[1,3,true]").is_err());
    }
}
