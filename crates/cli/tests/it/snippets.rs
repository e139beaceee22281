//! Snippets of the documents beside altway's own commands: requests by curl get what is shown there, units are such as
//! systemd takes, and shell is shell.

use crate::common::{Dir, Serving, eventually, installed, provided, success, text};
use crate::guide::{Block, blocks, documents, typed};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn page(name: &str) -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name);
    blocks(&fs::read_to_string(path).unwrap())
}

/// The first block of a page in this language that has this in it.
fn block<'b>(page: &'b [Block], language: &str, has: &str) -> &'b Block {
    let found = page
        .iter()
        .find(|it| it.language == language && it.lines.iter().any(|line| line.contains(has)));
    found.unwrap_or_else(|| panic!("no {language} with {has}"))
}

/// Runs a command of a document in a folder, as a shell does that is at home there. What it said on both.
fn run(dir: &Dir, command: &str) -> String {
    let mut shell = Command::new("sh");
    shell.args(["-ec", command]).current_dir(dir.path());
    shell.env("HOME", dir.path()).stdin(Stdio::null());
    let output = shell.output().unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{command}: {said}");
    said
}

/// Checks that a line is the one of a document, in which `…` stands for anything.
fn is_like(line: &str, shown: &str) -> bool {
    let mut rest = line.trim();
    shown.split('…').map(str::trim).all(|part| {
        let found = rest.find(part);
        rest = found.map_or("", |at| &rest[at + part.len()..]);
        found.is_some()
    })
}

/// A line of JSON with its keys in alphabetical order: which one they have depends on what other crates of a build want
/// of serde_json.
fn sorted(line: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<serde_json::Value>(line) else {
        return line.to_owned();
    };
    value.sort_all_objects();
    value.to_string()
}

/// Runs the commands of a block one after the other, each changed by `change`, and checks that each says what is shown below it.
fn run_console(dir: &Dir, block: &Block, mut change: impl FnMut(&str, &str) -> String) {
    let mut lines = block.lines.iter().peekable();
    let mut said = String::new();
    while let Some(line) = lines.next() {
        let command = line.strip_prefix("$ ").expect("a command");
        let command = change(command, &said);
        said = run(dir, &command);
        while let Some(shown) = lines.next_if(|line| !line.starts_with("$ ")) {
            let shown = change(shown, &said);
            let found = said
                .lines()
                .any(|line| is_like(line, &shown) || is_like(&sorted(line), &shown));
            assert!(found, "{command}\nshould say\n{shown}\nand says\n{said}");
        }
    }
}

/// A server by a configuration of the documents, whose folders are put into `dir`, and the host of a URL there at its port.
fn serving(dir: &Dir, config: &Block, host: &str) -> Serving {
    let config = config.lines.join("\n");
    for (place, _) in config.match_indices("\"/srv/") {
        let folder = config[place + 2..].split('"').next().unwrap();
        fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    let root = dir.path().display();
    let config = config.replace("\"/srv/", &format!("\"{root}/srv/"));
    let config = config.replace("\"/etc/", &format!("\"{root}/etc/"));
    let listen = "threads = 1\n[listen]\nhttps = [\"127.0.0.1:0\"]\n";
    dir.file("altway.toml", format!("{listen}{config}"));
    let mut command = dir.altway(["serve", "--config", "altway.toml", "--json"]);
    command.args(["--admin", "admin.sock"]);
    command.stderr(fs::File::create(dir.path().join("log")).unwrap());
    let serving = Serving::spawn(dir, command);
    eventually("the admin socket is there", || {
        dir.path().join("admin.sock").exists()
    });
    curl_finds(dir, &serving, host);
    serving
}

/// Sends curl to the server for `host`, which may have a port.
fn curl_finds(dir: &Dir, serving: &Serving, host: &str) {
    let port = serving.port;
    let from = match host.contains(':') {
        true => host.to_owned(),
        false => format!("{host}:443"),
    };
    let options = "insecure\nsilent\nshow-error\nfail\nmax-time = 30\n";
    let to = format!("connect-to = \"{from}:127.0.0.1:{port}\"\n");
    dir.file(".curlrc", format!("{options}{to}"));
}

#[test]
fn uploads_by_curl_are_stored_as_the_guide_shows() {
    if !installed("curl") {
        return;
    }
    let dir = Dir::new();
    let page = page("docs/guide/uploads.md");
    let mut config = block(&page, "toml", "upload = ").clone();
    for line in &mut config.lines {
        *line = line.replace("methods = ", "resumable = true, methods = ");
    }
    let serving = serving(&dir, &config, "example.org");
    dir.file("report.pdf", "a report");
    dir.file("one.jpg", vec![7_u8; 48_213]);
    dir.file("two.jpg", "2");
    let console = block(&page, "console", "curl -T report.pdf");
    run_console(&dir, console, |line, _| line.to_owned());
    let stored = |name: &str| fs::read(dir.path().join("srv/incoming").join(name)).unwrap();
    assert_eq!(stored("report.pdf"), b"a report");
    assert_eq!(stored("two.jpg"), b"2");

    // Nothing is there at first, and the path is the one that the server gives.
    dir.file("big.iso", "a whole image");
    let console = block(&page, "console", "Upload-Complete: ?0");
    let mut path = String::new();
    run_console(&dir, console, |line, said| {
        if let Some(location) = said.lines().find_map(|it| it.strip_prefix("location: ")) {
            path = location.trim().to_owned();
        }
        let line = line.replace("41943041", "1").replace("41943040", "0");
        match path.is_empty() {
            true => line,
            false => line.replace("/incoming/.uploads/9f0c…", &path),
        }
    });
    assert!(path.starts_with("/incoming/.uploads/"), "{path}");
    assert_eq!(stored("big.iso"), b"a whole image");

    let watching = self::page("docs/guide/watching.md");
    let console = block(&watching, "console", "curl --unix-socket");
    let command = console.lines.iter().find(|line| line.contains("curl"));
    let command = command.unwrap().strip_prefix("$ ").unwrap();
    let metrics = run(&dir, &command.replace("/run/altway/", ""));
    assert!(metrics.contains("\naltway_responses_total{protocol=\"h2\",class=\"2xx\"} "));
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn a_client_with_a_certificate_made_as_the_guide_says_is_let_in() {
    if !installed("curl") || !installed("openssl") {
        return;
    }
    let dir = Dir::new();
    let page = page("docs/guide/certificates.md");
    let shell = block(&page, "sh", "curl --cert");
    let (asks, makes): (Vec<_>, Vec<_>) = shell
        .lines
        .iter()
        .partition(|line| line.starts_with("curl "));
    run(
        &dir,
        &makes.into_iter().cloned().collect::<Vec<_>>().join("\n"),
    );
    let made = success(&mut dir.altway(["certs", "intern.example.org", "--json"]));
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let tls = dir.path().join("etc/altway/tls");
    fs::create_dir_all(&tls).unwrap();
    for (key, name) in [("certificate", "intern.pem"), ("key", "intern.key")] {
        fs::copy(made[key].as_str().unwrap(), tls.join(name)).unwrap();
    }
    fs::copy(dir.path().join("staff.pem"), tls.join("staff.pem")).unwrap();
    dir.file("srv/intern/index.html", "for staff");
    let config = block(&page, "toml", "client-certificates = ");
    let serving = serving(&dir, config, "intern.example.org");
    let [ask] = &asks[..] else { panic!("{asks:?}") };
    assert_eq!(run(&dir, ask), "for staff");
    let without = ask.replace("--cert alice.pem --key alice.key ", "-w '%{http_code}' ");
    let without = run(&dir, &format!("{without} 2>&1 || true"));
    assert!(without.contains("403"), "{without}");
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn a_listing_by_curl_is_as_the_documents_show_it() {
    if !installed("curl") {
        return;
    }
    let dir = Dir::new();
    dir.file("site/docs/a b.txt", "hello");
    let serving = Serving::start(&dir, &["--listing"]);
    curl_finds(&dir, &serving, "localhost:8443");
    let page = page("docs/files.md");
    let console = block(&page, "console", "application/json");
    run_console(&dir, console, |line, _| {
        line.replace("2026-11-25T02:52:35Z", "…")
    });
    assert_eq!(serving.terminate(), Some(0));
}

/// Drop-ins are tried with the unit that ships. The only complaint may be that of systemd before 253, which the unit's own
/// words tell of.
#[test]
fn units_of_the_documents_are_such_as_systemd_takes() {
    if !installed("systemd-analyze") {
        return;
    }
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let program = |unit: &str| unit.replace("/usr/bin/altway", env!("CARGO_BIN_EXE_altway"));
    let shipped = |name: &str| program(&fs::read_to_string(packaging.join(name)).unwrap());
    let verify = |socket: &str, drop_in: &str| {
        let dir = Dir::new();
        dir.file("altway.service", shipped("altway.service"));
        dir.file("altway.socket", socket);
        dir.file("altway.service.d/override.conf", program(drop_in));
        let mut analyze = Command::new("systemd-analyze");
        analyze.args(["verify", "--man=no", "./altway.service", "./altway.socket"]);
        let output = analyze.current_dir(dir.path()).output().unwrap();
        let said = text(&output.stderr);
        let said = said.lines().filter(|line| !line.contains("notify-reload"));
        let said: Vec<_> = said.map(str::to_owned).collect();
        assert!(output.status.success(), "{said:?}");
        said
    };
    let socket = shipped("altway.socket");
    assert!(!verify(&socket, "[Service]\nNoSuchKey=yes\n").is_empty());
    let mut checked = 0;
    for path in documents() {
        let page = fs::read_to_string(&path).unwrap();
        for block in blocks(&page).iter().filter(|it| it.language == "ini") {
            let unit = block.lines.join("\n");
            let said = match unit.starts_with("[Socket]") {
                true => verify(&unit, ""),
                false => verify(&socket, &unit),
            };
            assert!(said.is_empty(), "{}: {unit}: {said:?}", path.display());
            checked += 1;
        }
    }
    assert!(checked >= 6, "{checked}");
}

#[test]
fn what_the_guide_has_prometheus_scrape_is_such_as_it_takes() {
    let Some(promtool) = provided("promtool", "ALTWAY_TEST_PROMTOOL") else {
        return;
    };
    let dir = Dir::new();
    let page = page("docs/guide/watching.md");
    let config = block(&page, "yaml", "scrape_configs");
    let file = dir.file("prometheus.yml", config.lines.join("\n"));
    success(Command::new(promtool).args(["check", "config"]).arg(file));
}

#[test]
fn shell_of_the_documents_is_shell() {
    let mut checked = 0;
    for path in documents() {
        let page = fs::read_to_string(&path).unwrap();
        for block in &blocks(&page) {
            // A script may have a command over several lines; a terminal shows a command a line.
            let scripts = match block.language.as_str() {
                "sh" | "bash" => vec![block.lines.join("\n")],
                _ => typed(block).map(ToOwned::to_owned).collect(),
            };
            for script in scripts {
                let mut shell = Command::new("sh");
                let output = shell.args(["-nc", &script]).output().unwrap();
                let said = text(&output.stderr);
                assert!(
                    output.status.success(),
                    "{}: {script}: {said}",
                    path.display()
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 40, "{checked}");
}
