//! Loads pages with a real browser, and reads from it what it measured of each request.
//!
//! The driver runs at the client's end of the link, as a process of its own (`altway lab browse`): it
//! starts the browser with an empty profile, so that nothing of an earlier transfer is known to it,
//! lets it load the pages of a visit, asks it for its Resource Timing, and ends it with all its
//! processes. The time of its start is no part of what is measured.
//!
//! A visit of several sessions is a browser that is started for each of them with the same profile. It is not told
//! which protocol to use: it goes where `Alt-Svc` leads it, by its own rules.
//!
//! Left to others: which pages, and whether what was measured counts (`client`, `rows`).

mod chromium;
mod firefox;
mod profile;
mod running;
mod timing;
mod wire;

pub use running::exec_with_parent;

use crate::server::in_url;
use crate::{Error, presets};
use altway_record::{Client, Protocol, RequestRecord, Visit};
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use timing::Report;

/// Time that a browser may take until it can be told what to do: seconds, but beside ten builds on two
/// processors a Firefox took more than 30.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(120);

/// Time that a browser is left alone before it loads a page: what it still does for its start takes
/// processor time from the page (docs/decisions/0037).
const STARTUP_SETTLE_TIME: Duration = Duration::from_millis(500);

/// Time that a browser stays on its last page, as whoever reads it does: a server may have something to say to a
/// connection that idles, which is for the next session.
const STAY: Duration = Duration::from_secs(1);

/// Time that a browser may take to answer a question on a page that has come.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Time that it may take to write all times of the page down.
const REPORT_LIMIT: Duration = Duration::from_secs(2);

/// Time between two requests for them until then.
const ASK_PERIOD: Duration = Duration::from_millis(20);

/// A page that a browser is to load, and how.
#[derive(Debug, Clone)]
pub struct PageLoad {
    /// The browser.
    pub browser: Client,
    /// The name in the pages' URLs, whatever it is to others.
    pub host: String,
    /// The address at which the browser finds it.
    pub address: IpAddr,
    /// The port of the server, of TCP and UDP.
    pub port: u16,
    /// The only protocol that the browser is let use, as far as it can be told; in a visit of sessions it uses
    /// whichever it is led to.
    pub protocol: Protocol,
    /// The pages, in whose order they are loaded, and what they name.
    pub visit: Visit,
    /// Base64 of the SHA-256 of the public key of the server's certificate.
    pub key_digest: String,
    /// A folder for the browser's files; it is the caller's to remove. Empty, or with the profile of a visit of
    /// sessions that this one goes on from.
    pub folder: PathBuf,
    /// Time that a page may take.
    pub timeout: Duration,
    /// File for Chromium's log of its network; `None`: none.
    pub netlog: Option<PathBuf>,
}

/// Starts the browser, loads the pages and ends the browser: a record for each request of the visit,
/// by item, those that the browser did not make among them.
///
/// For a process of its own with one thread: it takes over all processes that the browser leaves, and
/// waits for each of its children.
///
/// # Errors
/// The browser is not installed, does not start, ends by itself or does not load a page.
pub fn browse(load: &PageLoad) -> Result<Vec<RequestRecord>, Error> {
    let program = program(load.browser).ok_or(Error::NoClient {
        client: load.browser,
    })?;
    let failed = |source| Error::Browser {
        browser: load.browser,
        source,
    };
    let mut records = Vec::new();
    let mut begin = None;
    for session in 0..load.visit.session_count() {
        profile::forget_responses(&load.profile()).map_err(failed)?;
        if let Some(apart) = load.visit.apart(session) {
            profile::age(load.browser, &load.profile(), apart).map_err(failed)?;
        }
        let reports = match load.browser {
            Client::Firefox => firefox::load(load, &program),
            _ => chromium::load(load, &program),
        };
        let reports = reports.map_err(failed)?;
        let begin = *begin.get_or_insert_with(|| timing::begin(&reports));
        let (visit, protocol) = (&load.visit, load.protocol);
        let first = u32::try_from(records.len()).unwrap_or(u32::MAX);
        let of_session = timing::records(visit, protocol, &load.origin(), &reports, begin);
        records.extend(of_session.into_iter().map(|record| shifted(record, first)));
    }
    Ok(records)
}

/// The same request in a session before which `first` were made.
fn shifted(record: RequestRecord, first: u32) -> RequestRecord {
    RequestRecord {
        item: record.item.saturating_add(first),
        stream: record.stream.saturating_add(first),
        ..record
    }
}

impl PageLoad {
    /// Returns whether the browser keeps its profile, and goes where it is led.
    fn is_returning(&self) -> bool {
        self.visit.sessions.is_some()
    }

    fn profile(&self) -> PathBuf {
        self.folder.join("profile")
    }

    fn origin(&self) -> String {
        format!("https://{}:{}", self.host(), self.port)
    }

    /// The server in URLs. Chromium can be told where a name leads, and that others lead nowhere. What
    /// Firefox can be told leads all names to the server, with all that it asks of other hosts.
    fn host(&self) -> String {
        match self.browser {
            Client::Firefox => in_url(self.address),
            _ => self.host.clone(),
        }
    }

    /// The URLs of the pages, each with how many requests it makes, itself included.
    fn pages(&self) -> Vec<(String, usize)> {
        let mut pages: Vec<(String, usize)> = Vec::new();
        for request in &self.visit.requests {
            if request.path.ends_with(".html") {
                pages.push((format!("{}{}", self.origin(), request.path), 0));
            }
            if let Some((_, requests)) = pages.last_mut() {
                *requests += 1;
            }
        }
        pages
    }
}

/// Path of an installed browser.
pub(crate) fn program(browser: Client) -> Option<PathBuf> {
    let names: &[&str] = match browser {
        Client::Chromium => &["chromium", "chromium-browser", "google-chrome"],
        Client::Firefox => &["firefox-esr", "firefox"],
        Client::Altway | Client::Curl => &[],
    };
    names.iter().find_map(|name| presets::find(name))
}

/// A browser that can be told what to do.
trait BrowserDriver {
    /// Goes to a page; returns when it has come with all that it names.
    fn go(&mut self, url: &str, deadline: Instant) -> io::Result<()>;

    /// The text that an expression has on the page.
    fn ask(&mut self, expression: &str, deadline: Instant) -> io::Result<String>;
}

/// Loads the pages one after the other: what the browser measured of each.
fn load_pages(browser: &mut impl BrowserDriver, load: &PageLoad) -> io::Result<Vec<Report>> {
    // Firefox reads what it knows of alternative services when it makes its first request, and goes
    // without until it has read it: also without what it was told of HTTP/3.
    let _ = browser.go(&nowhere()?, Instant::now() + START_LIMIT);
    std::thread::sleep(STARTUP_SETTLE_TIME);
    let mut reports = Vec::new();
    for (url, requests) in load.pages() {
        browser.go(&url, Instant::now() + load.timeout)?;
        reports.push(report(browser, requests)?);
    }
    if load.is_returning() {
        std::thread::sleep(STAY);
    }
    Ok(reports)
}

/// A page that can't be had, at a port of the loopback that was free a moment ago.
fn nowhere() -> io::Result<String> {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(format!("https://{}/", socket.local_addr()?))
}

/// Asks until there are as many entries as requests: some come a little later than what they tell of.
fn report(browser: &mut impl BrowserDriver, requests: usize) -> io::Result<Report> {
    let deadline = Instant::now() + REPORT_LIMIT;
    loop {
        let answer = browser.ask(timing::EXPRESSION, Instant::now() + ANSWER_LIMIT)?;
        let report = Report::parse(&answer)?;
        if report.entries.len() >= requests || Instant::now() + ASK_PERIOD > deadline {
            return Ok(report);
        }
        std::thread::sleep(ASK_PERIOD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_record::{Connection, Scenario};
    use std::collections::VecDeque;

    fn load() -> PageLoad {
        let size = altway_units::DataSize::from_bytes(1_000);
        let browser = Client::Chromium;
        let protocol = Protocol::H2;
        PageLoad {
            browser,
            host: "altway.test".into(),
            address: [198, 18, 0, 2].into(),
            port: 8443,
            protocol,
            visit: Scenario::Download.visit(browser, size, Connection::Warm, protocol),
            key_digest: String::new(),
            folder: PathBuf::new(),
            timeout: Duration::from_secs(1),
            netlog: None,
        }
    }

    #[test]
    fn a_warm_download_is_two_pages() {
        let pages = load().pages();
        let counts: Vec<_> = pages.iter().map(|(_, requests)| *requests).collect();
        assert_eq!(counts, [1, 2]);
        assert_eq!(pages[0].0, "https://altway.test:8443/page-125.html");
    }

    /// Answers as it was told to, and with its last answer for ever.
    struct Scripted(VecDeque<String>);

    impl BrowserDriver for Scripted {
        fn go(&mut self, _: &str, _: Instant) -> io::Result<()> {
            Ok(())
        }

        fn ask(&mut self, _: &str, _: Instant) -> io::Result<String> {
            let last = self.0.len() == 1;
            let answer = if last {
                self.0.front().cloned()
            } else {
                self.0.pop_front()
            };
            answer.ok_or_else(|| io::Error::other("silent"))
        }
    }

    #[test]
    fn a_browser_that_writes_a_time_late_is_asked_again() {
        let one = r#"{"origin":0,"entries":[{"name":"a"}]}"#;
        let two = r#"{"origin":0,"entries":[{"name":"a"},{"name":"b"}]}"#;
        let mut browser = Scripted([one, one, two].map(str::to_owned).into());
        assert_eq!(report(&mut browser, 2).unwrap().entries.len(), 2);
        let mut short = Scripted([one].map(str::to_owned).into());
        assert_eq!(report(&mut short, 2).unwrap().entries.len(), 1);
    }

    #[test]
    fn who_is_no_browser_has_no_program() {
        assert_eq!(program(Client::Curl), None);
    }
}
