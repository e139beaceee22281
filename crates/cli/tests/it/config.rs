//! `altway config`, and a server that is told by a file what it serves.

use crate::common::{Dir, Serving, installed, refusal, success, text};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const ONE_FOLDER: &str = "[[site]]\ndefault = true\n\n[[site.route]]\nfiles = \"site\"\n";

fn dir() -> Dir {
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    dir
}

#[test]
fn options_are_shown_as_the_file_that_equals_them() {
    let dir = dir();
    let options = [
        "config",
        "show",
        "--",
        "site",
        "--port",
        "0",
        "--bind",
        "127.0.0.1",
        "--max-held",
        "1MiB",
        "--policy",
        "h2",
        "--grace",
        "2s",
        "--server-id",
        "7f",
        "--hidden",
    ];
    let shown = success(&mut dir.altway(options));
    let folder = dir.path().join("site");
    let expected = format!(
        "grace = \"2s\"\n\n[listen]\nhttps = [\"127.0.0.1:0\"]\n\n[transport]\nserver-id = \"7f\"\n\n\
         [limits]\nmax-held = \"1MiB\"\n\n[[site]]\ndefault = true\npolicy = \"h2\"\n\n[[site.route]]\n\
         files = \"{}\"\nhidden = true\n",
        folder.display()
    );
    assert_eq!(shown, expected);
    // Read again it is itself, also with every key said.
    dir.file("altway.toml", &shown);
    assert_eq!(
        success(&mut dir.altway(["config", "show", "altway.toml"])),
        shown
    );
    let all = success(&mut dir.altway(["config", "show", "--all", "altway.toml"]));
    assert!(
        all.contains("# How long a stop waits for requests"),
        "{all}"
    );
    dir.file("all.toml", &all);
    assert_eq!(
        success(&mut dir.altway(["config", "show", "all.toml"])),
        shown
    );
    success(&mut dir.altway(["config", "check", "all.toml"]));
}

#[test]
fn every_option_of_serve_has_its_key() {
    let dir = dir();
    let options: Vec<_> = "site -p 1 --bind ::1 -c a.pem -k a.key --ocsp a.der -n 3 --spread round-robin \
        --policy surface:s.toml --state-dir state --congestion reno --quic-congestion bbr --initial-window 20 --early-data \
        --keylog keys --qlog qlog --grace 3s --takeover t --access-log log --access-log-format json \
        --max-memory 1GiB \
        --client-prefix 24,64 --max-connections 100 --max-connections-per-client 10 --max-handshakes 50 \
        --max-handshakes-per-client 5 --max-requests 200 --max-requests-per-client 20 \
        --max-concurrent-requests 30 --max-held 2MiB --max-held-per-client 1MiB --max-quic-held 4MiB \
        --max-quic-held-per-client 3MiB --max-cached 0B --retry always --handshake-timeout 4s \
        --header-timeout 5s --idle-timeout 6s --max-body 7MB --server-id 01 --no-certificate-compression --hidden \
        --client-roots r.pem --client-revocation c.crl --admin admin.sock"
        .split_whitespace()
        .collect();
    let shown = success(dir.altway(["config", "show", "--"]).args(&options));
    for line in [
        "threads = 3",
        "https = [\"[::1]:1\"]",
        "spread = \"round-robin\"",
        "congestion = \"reno\"",
        "quic-congestion = \"bbr\"",
        "initial-window = 20",
        "early-data = \"all\"",
        "certificate-compression = false",
        "max-memory = \"1GiB\"",
        "client-prefix = \"24,64\"",
        "max-connections-per-client = 10",
        "max-handshakes-per-client = 5",
        "max-requests-per-client = 20",
        "max-concurrent-requests = 30",
        "max-quic-held-per-client = \"3MiB\"",
        "max-cached = \"0B\"",
        "retry = \"always\"",
        "handshake-timeout = \"4s\"",
        "header-timeout = \"5s\"",
        "idle-timeout = \"6s\"",
        "max-body = \"7MB\"",
        "format = \"json\"",
    ] {
        assert!(
            shown.lines().any(|it| it == line),
            "{line} is not in:\n{shown}"
        );
    }
    let folder = dir.path().display();
    for path in [
        "state = \"{}/state\"",
        "takeover = \"{}/t\"",
        "access = \"{}/log\"",
        "qlog = \"{}/qlog\"",
        "keylog = \"{}/keys\"",
        "admin = \"{}/admin.sock\"",
        "client-certificates = { roots = \"{}/r.pem\", revocation = [\"{}/c.crl\"] }",
        "policy = \"surface:{}/s.toml\"",
        "certificate = { chain = \"{}/a.pem\", key = \"{}/a.key\", ocsp = \"{}/a.der\" }",
    ] {
        let line = path.replace("{}", &folder.to_string());
        assert!(
            shown.lines().any(|it| it == line),
            "{line} is not in:\n{shown}"
        );
    }
    let port = success(&mut dir.altway(["config", "show", "--", "--admin", "127.0.0.1:2019"]));
    assert!(port.starts_with("admin = \"127.0.0.1:2019\"\n"), "{port}");
    let clear = success(&mut dir.altway(["config", "show", "--", "--behind-tls-proxy"]));
    assert!(
        clear.starts_with("[listen]\nhttp = [\"*:8443\"]\nbehind-tls-proxy = true\n"),
        "{clear}"
    );
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let dir = dir();
    let broken = "grase = \"5s\"\n\n[limits]\nmax-requests = 0\n\n[[site]]\nnames = [\"a.example\", \"A.example\"]\n";
    dir.file("altway.toml", broken);
    let expected = "\
error: 4 faults in `altway.toml`

altway.toml:1:1: unknown key `grase` in the file
  hint: did you mean `grace`?
altway.toml:4:16: `max-requests` is 0: expected a number, 1 or more
altway.toml:6:1: the site has no routes, so every request would be answered 404
  hint: add [[site.route]] with `files`, `proxy`, `redirect`, `respond` or `upload`
altway.toml:7:23: the name `a.example` is taken already (altway.toml:7:10)
  hint: a name is of one site: remove it from the other, or join the two
";
    for command in [
        &mut dir.altway(["config", "check", "altway.toml"]),
        &mut dir.altway(["config", "show", "altway.toml"]),
        &mut dir.altway(["serve", "--config", "altway.toml"]),
    ] {
        assert_eq!(refusal(command), expected);
    }
    assert!(!dir.path().join("data").exists(), "no certificate was made");
}

#[test]
fn what_a_configuration_names_is_opened_unless_told_not_to() {
    let dir = dir();
    dir.file("own.pem", "no certificate");
    let config = "[limits]\nmax-memory = \"10MiB\"\n\n[[site]]\nnames = [\"a.example\"]\n\
        certificate = [{ chain = \"own.pem\", key = \"own.pem\" }, { chain = \"own.pem\", key = { credential = \"k\" } }]\n\
        policy = \"surface:none.toml\"\n\n[[site.route]]\npath = \"/a\"\nfiles = \"none\"\n\n[[site.route]]\nfiles = \"own.pem\"\n";
    dir.file("altway.toml", config);
    let mut check = dir.altway(["config", "check", "altway.toml"]);
    let said = refusal(check.env_remove("CREDENTIALS_DIRECTORY"));
    let places: Vec<_> = said
        .lines()
        .filter_map(|line| line.strip_prefix("altway.toml:"))
        .collect();
    assert_eq!(places.len(), 6, "{said}");
    for (line, start) in places.iter().zip([
        "1:2: `max-memory` 10MiB is too little for `threads` ",
        "6:16: `own.pem` holds no certificate",
        "6:56: `own.pem` holds no certificate",
        "7:10: cannot read the surface none.toml",
        "11:9: cannot open the directory `none`",
        "14:9: `own.pem` is not a directory",
    ]) {
        assert!(line.starts_with(start), "{line} for {start} in {said}");
    }
    // The service has it, and who checks its file has not.
    let credential = "warning: altway.toml:6:56: the key is not checked: the credential `k` is given to the service alone\n";
    assert!(said.contains(credential), "{said}");
    for hint in [
        "a certificate's file is PEM",
        "name a folder that is there",
        "name `surface` for the one that ships",
    ] {
        assert!(said.contains(&format!("\n  hint: {hint}")), "{said}");
    }
    // A start says the same, but for the limits, which come later.
    let mut serve = dir.altway(["serve", "--config", "altway.toml"]);
    let said = refusal(serve.env_remove("CREDENTIALS_DIRECTORY"));
    let all =
        "error: 6 faults in `altway.toml`\n\naltway.toml:6:16: `own.pem` holds no certificate\n";
    assert!(said.starts_with(all), "{said}");
    for second in [
        "altway.toml:6:56: the credential `k` can't be had",
        "altway.toml:6:56: `own.pem` holds no certificate",
    ] {
        assert!(said.contains(second), "{said}");
    }
    let mut syntax = dir.altway(["config", "check", "--syntax", "altway.toml"]);
    let output = syntax.stdin(Stdio::null()).output().unwrap();
    assert_eq!(
        text(&output.stderr),
        "altway.toml is right: 1 site, 2 routes\n"
    );
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
}

#[test]
fn of_a_certificate_without_its_files_the_chain_and_the_key_are_told() {
    let dir = dir();
    let files = "{ chain = \"none.pem\", key = \"none.key\" }";
    let of_site = format!("certificate = {files}\nroute = [{{ files = \"site\" }}]\n");
    let of_route =
        format!("[[site.route]]\nproxy = \"https://127.0.0.1:9\"\nclient-certificate = {files}\n");
    let faults = |command: [&str; 2], site: &str| {
        dir.file("altway.toml", format!("[[site]]\ndefault = true\n{site}"));
        let said = refusal(dir.altway(command).arg("altway.toml"));
        let faults = said.lines().filter(|line| line.contains("`none."));
        let faults = faults.map(|line| line.split(": No such file").next().unwrap().to_owned());
        faults.collect::<Vec<_>>()
    };
    let expected = [
        "altway.toml:3:15: cannot read `none.pem`",
        "altway.toml:3:15: cannot read `none.key`",
    ];
    assert_eq!(faults(["config", "check"], &of_site), expected);
    assert_eq!(faults(["serve", "--config"], &of_site), expected);
    let expected = [
        "altway.toml:5:1: cannot read the key `none.key`",
        "altway.toml:5:1: cannot read `none.pem`",
    ];
    assert_eq!(faults(["config", "check"], &of_route), expected);
    let mut serve = dir.altway(["serve", "site", "--cert", "none.pem", "--key", "none.key"]);
    let said = refusal(&mut serve);
    assert!(said.contains("cannot read `none.pem`"), "{said}");
}

#[test]
fn a_name_that_no_certificate_of_its_site_is_for_is_warned_of_at_a_check_and_a_start() {
    let dir = dir();
    success(&mut dir.altway(["certs", "a.example", "*.b.example", "192.0.2.7"]));
    let store = dir.path().join("data/altway/certs");
    let (chain, key) = (store.join("leaf.pem"), store.join("leaf.key"));
    let config = |names: &str| {
        let (chain, key) = (chain.display(), key.display());
        format!(
            "threads = 1\n[listen]\nhttps = [\"127.0.0.1:0\"]\n[[site]]\nnames = [{names}]\n\
             certificate = {{ chain = \"{chain}\", key = \"{key}\" }}\nroute = [{{ files = \"site\" }}]\n"
        )
    };
    let check = || {
        let mut check = dir.altway(["config", "check", "altway.toml"]);
        let output = check.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let good = "\"A.example\", \"x.b.example\", \"*.b.example\", \"192.0.2.7\", \"[::1]\"";
    dir.file("altway.toml", config(good));
    assert_eq!(check(), "altway.toml is right: 1 site, 1 route\n");
    let bad = "\"www.a.example\", \"y.x.b.example\", \"192.0.2.8\"";
    dir.file("altway.toml", config(&format!("{good}, {bad}")));
    let warning = format!(
        "no certificate of the site `a.example` is valid for its names `www.a.example`, `y.x.b.example`, `192.0.2.8`: \
         `{}` is for *.b.example, a.example, localhost, 127.0.0.1, 192.0.2.7, ::1\n",
        chain.display()
    );
    let expected =
        format!("warning: altway.toml:5:1: {warning}altway.toml is right: 1 site, 1 route\n");
    assert_eq!(check(), expected);
    let mut command = dir.altway(["serve", "--config", "altway.toml", "--json"]);
    command.stderr(std::fs::File::create(dir.path().join("log")).unwrap());
    let serving = Serving::spawn(&dir, command);
    assert_eq!(serving.terminate(), Some(0));
    let said = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(said.contains(&format!("warning: {warning}")), "{said}");
}

#[test]
fn more_names_than_one_certificate_has_are_found_before_it_is_to_be_made() {
    let dir = dir();
    let names: Vec<_> = (0..62).map(|n| format!("\"{n}.example\"")).collect();
    let names = names.join(", ");
    let config = format!("[[site]]\nnames = [{names}]\nroute = [{{ respond = {{}} }}]\n");
    dir.file("altway.toml", config);
    let said = refusal(&mut dir.altway(["config", "check", "altway.toml"]));
    let expected = "altway.toml:1:1: a certificate for 65 names is more than the 64 that are allowed\n  hint: ";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn an_address_that_leads_to_https_is_said_to() {
    let dir = dir();
    let listen = "[listen]\nhttps = [\"127.0.0.1:0\"]\nhttp = [\"127.0.0.1:0\"]\n\n";
    dir.file("altway.toml", format!("{listen}{ONE_FOLDER}"));
    let mut command = dir.altway(["serve", "--config", "altway.toml"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap());
    let mut said = said.lines().map(Result::unwrap);
    let first = said.find(|it| it.starts_with("serving ")).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(first.contains(", also at 127.0.0.1:"), "{first}");
    assert!(first.ends_with(" (leads to https)"), "{first}");
}

#[test]
fn an_error_page_that_is_not_there_is_warned_of_and_a_fallback_refused() {
    let dir = dir();
    let config = |more: &str| {
        let route = "[[site]]\ndefault = true\n\n[[site.route]]\nfiles = \"site\"\n";
        format!("{route}error-pages = {{ 404 = \"/missing\", 500 = \"/index.html\" }}\n{more}")
    };
    let warning = "the error page `/missing` is not in `site`: responses of status 404 have altway's own page until it is\n";
    dir.file("altway.toml", config(""));
    let check = ["config", "check", "altway.toml"];
    let output = dir.altway(check).stdin(Stdio::null()).output().unwrap();
    assert_eq!(
        text(&output.stderr),
        format!("warning: altway.toml:6:17: {warning}altway.toml is right: 1 site, 1 route\n")
    );
    assert_eq!(output.status.code(), Some(0));
    let serving = Serving::start(&dir, &["--error-page=404=missing"]);
    let said = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(
        said.contains("warning: the error page `/missing` is not in `"),
        "{said}"
    );
    assert_eq!(serving.terminate(), Some(0));
    dir.file("altway.toml", config("fallback = \"/app.html\"\n"));
    let said = refusal(&mut dir.altway(check));
    assert!(said.contains("altway.toml:7:1"), "{said}");
    assert!(said.contains("site/app.html"), "{said}");
    assert!(!said.contains("is right"), "{said}");
}

#[test]
fn keys_are_read_from_the_environment_and_from_credentials() {
    let dir = dir();
    success(&mut dir.altway(["certs"]));
    let store = dir.path().join("data/altway/certs");
    let key = std::fs::read_to_string(store.join("leaf.key")).unwrap();
    let chain = store.join("leaf.pem");
    let config = |key: &str| {
        let chain = chain.display();
        format!(
            "[[site]]\ndefault = true\ncertificate = {{ chain = \"{chain}\", key = {key} }}\nroute = [{{ files = \"site\" }}]\n"
        )
    };
    dir.file("altway.toml", config("{ env = \"ALTWAY_TEST_KEY\" }"));
    let mut check = dir.altway(["config", "check", "altway.toml"]);
    success(check.env("ALTWAY_TEST_KEY", &key));
    let said = refusal(&mut dir.altway(["config", "check", "altway.toml"]));
    assert!(
        said.contains("the variable ALTWAY_TEST_KEY, which holds a key, is not set"),
        "{said}"
    );
    let said = refusal(check.env("ALTWAY_TEST_KEY", "nothing"));
    assert!(
        said.contains("`$ALTWAY_TEST_KEY` holds no private key"),
        "{said}"
    );
    dir.file("altway.toml", config("{ credential = \"leaf.key\" }"));
    let mut check = dir.altway(["config", "check", "altway.toml"]);
    success(check.env("CREDENTIALS_DIRECTORY", &store));
    success(check.env_remove("CREDENTIALS_DIRECTORY"));
    let said = refusal(check.env("CREDENTIALS_DIRECTORY", dir.path()));
    assert!(said.contains("leaf.key`: No such file"), "{said}");
}

#[test]
fn a_user_without_a_place_for_altways_own_certificate_is_warned_before_the_start() {
    let dir = dir();
    dir.file("altway.toml", ONE_FOLDER);
    let mut check = dir.altway(["config", "check", "altway.toml"]);
    let file = dir.file("file", "");
    for (home, reason) in [(Some(file), "Not a directory"), (None, "no data directory")] {
        check.env_remove("XDG_DATA_HOME").env_remove("HOME");
        check.envs(home.map(|home| ("HOME", home)));
        let output = check.stdin(Stdio::null()).output().unwrap();
        let said = text(&output.stderr);
        let place = "warning: altway.toml:1:1: a server that this user starts has no place for altway's own certificate";
        assert!(said.starts_with(place) && said.contains(reason), "{said}");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn the_schema_is_the_documents() {
    let dir = Dir::new();
    let schema = success(&mut dir.altway(["config", "schema"]));
    assert_eq!(schema, include_str!("../../../../docs/config.schema.json"));
}

#[test]
fn a_file_says_what_is_served() {
    let dir = dir();
    dir.file(
        "conf/altway.toml",
        format!("[listen]\nhttps = [\"127.0.0.1:0\"]\n\n{ONE_FOLDER}")
            .replace("site\"\n", "../site\"\n"),
    );
    let serving = Serving::spawn(
        &dir,
        dir.altway(["serve", "--config", "conf/altway.toml", "--json"]),
    );
    let url = serving.url("/index.html");
    let said = success(&mut dir.altway(["load", &url, "--insecure", "-n", "1", "-p", "h3"]));
    assert!(said.starts_with("1 request over HTTP/3"), "{said}");
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn an_option_beside_a_file_is_refused_by_its_name() {
    let dir = dir();
    dir.file("altway.toml", ONE_FOLDER);
    for (options, name) in [
        (&["--port", "1"][..], "--port"),
        (&["site"], "DIR"),
        (&["--max-held", "1MiB"], "--max-held"),
    ] {
        let said = refusal(
            dir.altway(["serve", "--config", "altway.toml"])
                .args(options),
        );
        assert!(
            said.contains(&format!(
                "error: {name} can't be given beside --config: `altway.toml` takes its place\n"
            )),
            "{said}"
        );
    }
    let said = refusal(&mut dir.altway(["serve", "--config", "none.toml"]));
    assert!(
        said.contains("cannot read the configuration `none.toml`"),
        "{said}"
    );
    let said = refusal(&mut dir.altway(["config", "show"]));
    assert!(said.contains("there is nothing to show"), "{said}");
}

#[test]
fn a_key_or_certificate_that_is_a_pipe_without_a_writer_keeps_nobody_waiting() {
    if !installed("mkfifo") {
        return;
    }
    let dir = dir();
    success(&mut dir.altway(["certs"]));
    let store = dir.path().join("data/altway/certs");
    let (chain, key) = (store.join("leaf.pem"), store.join("leaf.key"));
    let (chain, key) = (chain.display().to_string(), key.display().to_string());
    let made = Command::new("mkfifo").arg(dir.path().join("pipe")).status();
    assert!(made.unwrap().success());
    let pipe = "`pipe`: it is a pipe that nobody writes to";
    for (cert, key) in [(&*chain, "pipe"), ("pipe", &*key)] {
        let mut serve = dir.altway(["serve", "site", "--bind", "127.0.0.1", "--port", "0"]);
        let said = refusal(serve.args(["--cert", cert, "--key", key]));
        assert!(said.contains(&format!("cannot read {pipe}")), "{said}");
    }
    let own = format!("chain = \"{chain}\", key = \"{key}\"");
    for (before, site) in [
        (
            "",
            format!("certificate = {{ chain = \"{chain}\", key = \"pipe\" }}"),
        ),
        ("", format!("certificate = {{ {own}, ocsp = \"pipe\" }}")),
        ("", "client-certificates = { roots = \"pipe\" }".into()),
        ("", "policy = \"surface:pipe\"".into()),
        (
            "",
            "proxy = \"https://127.0.0.1:9\", roots = \"pipe\"".into(),
        ),
        (
            "",
            format!(
                "proxy = \"https://127.0.0.1:9\", client-certificate = {{ chain = \"pipe\", key = \"{key}\" }}"
            ),
        ),
        ("ticket-keys = [\"pipe\"]\n", String::new()),
        (
            "state = \"state\"\n[acme]\nroots = \"pipe\"\n",
            "names = [\"a.example\"]".into(),
        ),
    ] {
        let default = if site.starts_with("names") {
            ""
        } else {
            "default = true\n"
        };
        let route = match site.starts_with("proxy") {
            true => format!("route = [{{ {site} }}]\n"),
            false => format!("{site}\nroute = [{{ files = \"site\" }}]\n"),
        };
        let listen = "[listen]\nhttps = [\"127.0.0.1:0\"]\n";
        let config = format!("{before}{listen}[[site]]\n{default}{route}");
        dir.file("altway.toml", &config);
        for command in [["config", "check"], ["serve", "--config"]] {
            let said = refusal(dir.altway(command).arg("altway.toml"));
            let reason = "it is a pipe that nobody writes to";
            assert!(said.contains(reason), "{config}\n{said}");
        }
    }
}

#[test]
fn a_user_that_there_is_not_is_found_before_the_start() {
    let dir = dir();
    let user = "user = \"altway-that-is-not-there\"\n";
    dir.file("altway.toml", format!("{user}{ONE_FOLDER}"));
    let said = refusal(&mut dir.altway(["config", "check", "altway.toml"]));
    let expected = "error: altway.toml:1:8: there is no user `altway-that-is-not-there`\n  hint: make one: useradd";
    assert!(said.starts_with(expected), "{said}");
}
