//! Tests of both sides of the socket together, without a link.

use super::folder::file_name;
use super::protocol::REQUEST_LIMIT;
use super::*;
use crate::report::{DirectionReport, LinkReport};
use crate::{Backend, Error};
use altway_link::{Change, Config};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Two configurations that are changed as a link's are.
#[derive(Default)]
struct Paper(Mutex<(Config, Config)>);

impl Target for Paper {
    fn change(&self, change: &Change) -> Result<(), Error> {
        let (up, down) = &mut *self.0.lock().unwrap();
        change.apply(up, down);
        Ok(())
    }

    fn reset(&self) -> Result<(), Error> {
        *self.0.lock().unwrap() = Default::default();
        Ok(())
    }

    fn state(&self) -> Result<LinkState, Error> {
        let (up, down) = &*self.0.lock().unwrap();
        Ok(LinkState {
            up: up.into(),
            down: down.into(),
            running_s: 1.5,
            to_come: Vec::new(),
            report: report(),
            invalid: None,
            packet_log: None,
        })
    }
}

/// A link whose interfaces went away.
struct Stopped;

impl Target for Stopped {
    fn change(&self, _: &Change) -> Result<(), Error> {
        Err(Error::LinkStopped)
    }

    fn reset(&self) -> Result<(), Error> {
        Err(Error::LinkStopped)
    }

    fn state(&self) -> Result<LinkState, Error> {
        Err(Error::LinkStopped)
    }
}

fn report() -> LinkReport {
    LinkReport {
        up: DirectionReport::default(),
        down: DirectionReport::default(),
        backend: Backend::Tun,
        backend_reason: "it was asked for".into(),
        realtime_priority: Some(false),
        arrivals_by_kernel: Some(false),
        lateness_us_p50: Some(0.0),
        lateness_us_p99: Some(0.0),
        lateness_us_max: Some(0.0),
        lateness_limit_us: 1_000.0,
        hidden_drops: 0,
        hidden_drops_interfaces: 0,
        hidden_drops_sockets: 0,
        hidden_drops_thread: 0,
        involuntary_switches: 0,
        router: None,
    }
}

/// A folder, and links that listen in it.
struct Place {
    _parent: TempDir,
    folder: PathBuf,
}

impl Place {
    fn new() -> Self {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("altway");
        Self {
            _parent: parent,
            folder,
        }
    }

    fn listen(&self, name: Option<&str>) -> Control {
        Control::listen(Arc::new(Paper::default()), &self.folder, name).unwrap()
    }

    fn links(&self) -> Vec<RunningLink> {
        RunningLink::all_in(std::slice::from_ref(&self.folder))
    }

    fn find(&self, wanted: Option<&str>) -> Result<RunningLink, Error> {
        client::choose(self.links(), wanted)
    }
}

/// Returns a link's answer to bytes that no client of ours would send.
fn answer_to(control: &Control, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(control.path()).unwrap();
    // It may hang up before it has read all of it.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn a_link_is_shown_changed_and_reset() {
    let place = Place::new();
    let _control = place.listen(None);
    let link = place.find(None).unwrap();
    let before = link.show().unwrap();
    assert_eq!(
        (before.up.0["loss"].as_str(), before.running_s),
        ("0%", 1.5)
    );
    let after = link
        .set(&"down loss 5%, delay 100ms".parse().unwrap())
        .unwrap();
    assert_eq!(
        (&*after.up.0["loss"], &*after.up.0["delay"]),
        ("0%", "100ms")
    );
    assert_eq!(after.down.0["loss"], "5%");
    assert_eq!(link.show().unwrap(), after);
    assert_eq!(link.reset().unwrap(), before);
}

#[test]
fn a_link_is_found_by_its_name_and_by_its_process() {
    let place = Place::new();
    let _controls = (place.listen(Some("one")), place.listen(Some("other")));
    assert_eq!(
        place.find(Some("other")).unwrap().name.as_deref(),
        Some("other")
    );
    let several = place.find(None).unwrap_err().to_string();
    assert!(
        several.contains("one (process") && several.contains("other (process"),
        "{several}"
    );
    let pid = std::process::id().to_string();
    assert!(matches!(
        place.find(Some(&pid)),
        Err(Error::SeveralLinks { .. })
    ));
    let unknown = place.find(Some("third")).unwrap_err().to_string();
    assert!(
        unknown.contains("`third`") && unknown.contains("one (process"),
        "{unknown}"
    );
}

#[test]
fn the_socket_is_its_users_alone_and_goes_with_the_link() {
    let place = Place::new();
    let control = place.listen(None);
    let path = control.path().to_owned();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(control);
    assert!(!path.exists());
    assert!(matches!(place.find(None), Err(Error::NoLink)));
}

#[test]
fn what_a_killed_process_left_is_removed_and_can_be_replaced() {
    let place = Place::new();
    let stale = |name: &str| {
        std::fs::create_dir_all(&place.folder).unwrap();
        std::fs::set_permissions(&place.folder, PermissionsExt::from_mode(0o700)).unwrap();
        let path = place.folder.join(name);
        drop(UnixListener::bind(&path).unwrap());
        path
    };
    let dead = stale("4194999.sock");
    stale(&file_name(std::process::id(), None));
    stale(&file_name(std::process::id(), None).replace("sock", "new"));
    let _control = place.listen(None);
    assert_eq!(place.links().len(), 1);
    assert!(!dead.exists());
    place.find(None).unwrap().show().unwrap();
}

#[test]
fn a_client_that_talks_nonsense_is_told_so_and_harms_nobody() {
    let place = Place::new();
    let control = place.listen(None);
    assert!(answer_to(&control, b"GET / HTTP/1.1\r\n\r\n").contains("not a request"));
    assert!(answer_to(&control, b"").contains("not a request"));
    let long = vec![b'['; 4 * REQUEST_LIMIT as usize];
    let answer = answer_to(&control, &long);
    assert!(
        answer.is_empty() || answer.contains("not a request"),
        "{answer}"
    );
    let absurd = br#"{"version":1,"ask":{"set":{"change":"loss 150%"}}}"#;
    let absurd = answer_to(&control, &[&absurd[..], b"\n"].concat());
    assert!(absurd.contains("`150%` is not a ratio"), "{absurd}");
    place.find(None).unwrap().show().unwrap();
}

#[test]
fn a_client_that_says_nothing_keeps_the_next_one_waiting_for_a_second_only() {
    let place = Place::new();
    let control = place.listen(None);
    let _silent = UnixStream::connect(control.path()).unwrap();
    place.find(None).unwrap().show().unwrap();
    let begun = Instant::now();
    drop(control);
    // Not for ever, that is; a busy machine takes longer.
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_link_that_stopped_says_so() {
    let place = Place::new();
    let _control = Control::listen(Arc::new(Stopped), &place.folder, None).unwrap();
    let refused = place.find(None).unwrap().show().unwrap_err().to_string();
    assert!(refused.contains("no longer runs"), "{refused}");
}

#[test]
fn a_name_that_is_a_number_or_a_path_is_refused() {
    let place = Place::new();
    for name in ["7", "../7", ""] {
        let listening = Control::listen(Arc::new(Stopped), &place.folder, Some(name));
        assert!(matches!(listening, Err(Error::LinkName { .. })), "{name}");
    }
    assert!(!place.folder.exists());
}
