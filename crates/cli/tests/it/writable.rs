//! Places that a server writes to: logs, its state, its sockets. What keeps it from that is said before it starts.

use crate::common::{Dir, Serving, installed, refusal, text};
use rustix::process::geteuid;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

const SITE: &str = "[[site]]\ndefault = true\nroute = [{ respond = { status = 204 } }]\n";

const CHECK: [&str; 3] = ["config", "check", "altway.toml"];

/// The names of what is in the folder.
fn names(dir: &Dir) -> Vec<String> {
    let entries = fs::read_dir(dir.path()).unwrap();
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<_> = entries.map(|it| name(it.unwrap())).collect();
    names.sort();
    names
}

#[test]
fn each_place_that_cannot_be_written_to_is_named_at_once_and_nothing_is_made() {
    let dir = Dir::new();
    dir.file("file", "");
    let long = "x".repeat(200);
    let bad = format!(
        "state = \"file/state\"\ntakeover = \"none/takeover\"\nadmin = \"{long}\"\nticket-keys = [\"none.key\"]\n\n\
         [log]\naccess = \"no/access.log\"\nselection = \".\"\nqlog = \"file\"\nkeylog = \"gone/keys\"\n\n{SITE}"
    );
    dir.file("altway.toml", bad);
    let before = names(&dir);
    let said = refusal(&mut dir.altway(CHECK));
    assert!(
        said.starts_with("error: 8 faults in `altway.toml`\n"),
        "{said}"
    );
    let faults: Vec<_> = said
        .lines()
        .filter_map(|line| line.strip_prefix("altway.toml:"))
        .collect();
    let admin = format!("3:9: cannot listen at the admin socket `{long}`: ");
    for (fault, start) in faults.iter().zip([
        "1:9: cannot use the state folder `file/state`: cannot reach the folder `file/state`: Not a directory",
        "2:12: cannot wait for takeovers at `none/takeover`: the folder `none` is not there",
        &admin,
        "4:1: cannot read the key of session tickets `none.key`: No such file",
        "7:10: cannot open the access log `no/access.log`: the folder `no` is not there",
        "8:13: cannot open the selection log `.`: it is a folder",
        "9:8: cannot write qlogs to `file`: `file` is no folder",
        "10:10: cannot open the key log `gone/keys`: the folder `gone` is not there",
    ]) {
        assert!(fault.starts_with(start), "{start} in {said}");
    }
    assert_eq!(said.matches("\n  hint: ").count(), 8, "{said}");
    assert_eq!(names(&dir), before);
    let good = "state = \"a/b\"\ntakeover = \"takeover\"\nadmin = \"admin\"\n\n\
        [log]\naccess = \"access.log\"\nselection = \"file\"\nqlog = \"c/d\"\n\n";
    dir.file("altway.toml", format!("{good}{SITE}"));
    let output = dir.altway(CHECK).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(names(&dir), before);
}

#[test]
fn a_folder_that_systemd_makes_with_the_service_is_warned_of() {
    let dir = Dir::new();
    let log = "/var/log/altway-that-is-not-there/access.log";
    dir.file("altway.toml", format!("[log]\naccess = \"{log}\"\n{SITE}"));
    let output = dir.altway(CHECK).stdin(Stdio::null()).output().unwrap();
    assert_eq!(
        text(&output.stderr),
        format!(
            "warning: altway.toml:2:10: cannot open the access log `{log}`: the folder \
             `/var/log/altway-that-is-not-there` is not there; systemd makes it for a unit with \
             `LogsDirectory=altway-that-is-not-there`\naltway.toml is right: 1 site, 1 route\n"
        )
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_folder_without_the_right_to_write_is_named() {
    let dir = Dir::new();
    let config = "[log]\naccess = \"closed/access.log\"\n";
    dir.file("altway.toml", format!("{config}{SITE}"));
    let closed = dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o555)).unwrap();
    let mut check = dir.altway(CHECK);
    if geteuid().is_root() {
        // Root may write anywhere, unless it has lost the capabilities.
        if !installed("setpriv") {
            return;
        }
        let mut without = Command::new("setpriv");
        without.arg("--bounding-set=-dac_override,-dac_read_search");
        without.arg(check.get_program()).args(check.get_args());
        without.current_dir(dir.path());
        check = without;
    }
    let said = refusal(&mut check);
    assert!(
        said.contains(
            "altway.toml:2:10: cannot open the access log `closed/access.log`: cannot write to the folder `closed`: \
             Permission denied"
        ),
        "{said}"
    );
}

#[test]
fn a_reload_that_names_a_log_in_a_folder_that_is_not_there_changes_nothing() {
    let dir = Dir::new();
    let config = |log: &str, status: u16| {
        let site = SITE.replace("204", &status.to_string());
        let listen = "[listen]\nhttp = [\"127.0.0.1:0\"]\n";
        dir.file(
            "altway.toml",
            format!("{listen}[log]\naccess = \"{log}\"\n{site}"),
        );
    };
    fs::create_dir(dir.path().join("logs")).unwrap();
    config("logs/access.log", 204);
    let mut command = dir.altway(["serve", "--config", "altway.toml", "--json"]);
    command.args(["--admin", "admin"]);
    let serving = Serving::spawn(&dir, command);
    let reload = || {
        let mut command = dir.altway(["reload", "--admin", "admin"]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        (output.status.code(), text(&output.stdout))
    };
    config("none/access.log", 205);
    let (status, said) = reload();
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.starts_with(
            "the former configuration stays in use: altway.toml:4:10: cannot open the access log `none/access.log`: \
             the folder `none` is not there\n  hint: "
        ),
        "{said}"
    );
    // The log that is open is not tried again.
    fs::remove_dir_all(dir.path().join("logs")).unwrap();
    config("logs/access.log", 205);
    let (status, said) = reload();
    assert_eq!((status, &*said), (Some(0), "changed the default site\n"));
    assert_eq!(serving.terminate(), Some(0));
}
