//! A configuration's text on one side, a server's answers on the other.
#![allow(
    clippy::unwrap_used,
    reason = "clippy's exemption of tests leaves out their helpers"
)]

use altway_config::{NoFiles, Plan};
use altway_serve::{Bind, Options, ReloadHandle, Server, StopHandle, certs, stop_channel};
use altway_site::{certificates, hosts, site};
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread::JoinHandle;

struct Running {
    address: SocketAddr,
    reload: ReloadHandle,
    stop: StopHandle,
    thread: Option<JoinHandle<()>>,
}

fn plan(text: &str) -> Plan {
    altway_config::read("test.toml", text, &mut NoFiles).unwrap_or_else(|faults| panic!("{faults}"))
}

fn run(text: &str) -> Running {
    let mut options = Options::clear_text();
    options.site = site(&plan(text)).unwrap();
    options.bind = Bind::Address(Ipv4Addr::LOCALHOST.into());
    options.port = 0;
    let server = Server::bind(&options).unwrap();
    let (address, reload) = (server.local_addr(), server.reload_handle());
    let (stop, signal) = stop_channel();
    Running {
        address,
        reload,
        stop,
        thread: Some(std::thread::spawn(move || server.run(&signal).unwrap())),
    }
}

impl Running {
    /// The whole response over HTTP/1.1, in lower case up to its content.
    fn ask(&self, host: &str, path: &str) -> String {
        self.ask_by("GET", host, path)
    }

    fn ask_by(&self, method: &str, host: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn check(&self, host: &str, path: &str, status: u16, expected: &[&str]) {
        let text = self.ask(host, path);
        let line = format!("HTTP/1.1 {status} ");
        assert!(text.starts_with(&line), "{host}{path}: {text}");
        for part in expected {
            assert!(text.contains(part), "{host}{path}: {part} in {text}");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

fn folder(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (file, content) in [
        ("index.html", format!("home of {name}")),
        ("about.html", format!("about {name}")),
        ("app.js", "code".into()),
        ("app.js.gz", "compressed".into()),
        ("oops.html", "no such page".into()),
        (".secret", "hidden".into()),
    ] {
        std::fs::write(dir.path().join(file), content).unwrap();
    }
    dir
}

fn text(a: &Path, b: &Path) -> String {
    let (a, b) = (a.display(), b.display());
    format!(
        r#"
        [[site]]
        names = ["a.example", "www.a.example"]
        headers = {{ X-Frame-Options = "DENY", Link = ["</a>", "</b>"] }}

        [[site.route]]
        path = "/old/*"
        redirect = {{ to = "/new/{{rest}}{{query}}" }}

        [[site.route]]
        path = "/health"
        respond = {{ status = 200, body = "well\n", headers = {{ Cache-Control = "no-store" }} }}

        [[site.route]]
        files = "{a}"
        clean-urls = true
        precompressed = ["gzip"]
        cache = {{ "*.js" = "public, max-age=60" }}
        error-pages = {{ 404 = "/oops.html" }}

        [[site]]
        names = ["*.b.example"]
        [[site.route]]
        path = "/only/*"
        files = "{b}"
        "#
    )
}

#[test]
fn every_action_answers_as_its_words_say() {
    let [a, b] = ["a", "b"].map(folder);
    let server = run(&text(a.path(), b.path()));
    let hsts = "x-frame-options: DENY\r\n";
    server.check("a.example", "/", 200, &["home of a", hsts]);
    server.check("WWW.A.example:8443", "/about", 200, &["about a", hsts]);
    server.check(
        "a.example",
        "/about.html",
        308,
        &["location: /about\r\n", hsts],
    );
    let cache = "cache-control: public, max-age=60\r\n";
    server.check(
        "a.example",
        "/app.js",
        200,
        &[cache, "vary: accept-encoding\r\n"],
    );
    server.check("a.example", "/none", 404, &["no such page", hsts]);
    server.check("a.example", "/.secret", 404, &["no such page"]);
    server.check(
        "a.example",
        "/health",
        200,
        &["well\n", "cache-control: no-store\r\n", hsts],
    );
    let moved = ["location: /new/x%20y?q=1\r\n", hsts];
    server.check("a.example", "/old/x%20y?q=1", 308, &moved);
    server.check(
        "a.example",
        "/old//evil.example",
        308,
        &["location: /new//evil.example\r\n"],
    );
    server.check("a.example", "/%6fld/x", 308, &["location: /new/"]);
    let links = ["link: </a>\r\nlink: </b>\r\n"];
    for (path, status) in [
        ("/", 200),
        ("/none", 404),
        ("/about.html", 308),
        ("/health", 200),
    ] {
        server.check("a.example", path, status, &links);
    }
}

#[test]
fn what_no_site_and_no_route_has_is_told_apart() {
    let [a, b] = ["a", "b"].map(folder);
    let server = run(&text(a.path(), b.path()));
    server.check("x.b.example", "/", 404, &["404 Not Found\n"]);
    server.check("x.b.example", "/only/none", 404, &[]);
    for host in ["c.example", "b.example", "127.0.0.1"] {
        server.check(host, "/", 421, &["421 Misdirected Request\n"]);
    }
}

/// A server that answers each request with its first line.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                while let Some(first) = lines.next() {
                    lines.by_ref().take_while(|line| !line.is_empty()).last();
                    let len = first.len();
                    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n{first}");
                    if (&stream).write_all(text.as_bytes()).is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn no_spelling_of_a_path_has_a_proxy_ask_for_what_another_route_has() {
    let origin = echo();
    let proxied = format!("proxy = \"http://{origin}\"");
    let denied = "[[site.route]]\npath = \"/admin/*\"\nrespond = { status = 403 }\n";
    let server = run(&format!(
        "[[site]]\nnames = [\"a.example\"]\n{denied}[[site.route]]\n{proxied}\n\
         [[site]]\nnames = [\"b.example\"]\n[[site.route]]\npath = \"/x/*\"\n{proxied}\n"
    ));
    for host in ["a.example", "b.example"] {
        for path in ["/x/y;a=b/z;c?d=;/..;/", "/x//y", "/x/a..b;..", "/x/;a=b"] {
            server.check(host, path, 200, &[&format!("GET {path} HTTP/1.1")]);
        }
        for path in ["/x/a%2Fb", "/x/a%2fb%20c/%2F?d%2Fe", "/x/admin%2Fb"] {
            server.check(host, path, 200, &[&format!("GET {path} HTTP/1.1")]);
        }
        for path in [
            "/x/../admin/",
            "/x/%2e%2E/admin/",
            "/x//../admin/",
            "/x/..%2fadmin/",
            "/x/..%5cadmin/",
            "/x/..;/admin/",
            "/x/..;a=b/admin/",
            "/x/%2e%2e;/admin/",
            "/x/..%3b/admin/",
            "/x/.;/../admin/",
        ] {
            server.check(host, path, 400, &[]);
        }
    }
    for path in ["/admin/", "//admin/x", "/%61dmin/"] {
        server.check("a.example", path, 403, &[]);
    }
    for path in ["/admin;a=b/x", "/;/admin/x", "/admin;/"] {
        server.check("a.example", path, 400, &["400 Bad Request\n"]);
    }
    for path in [
        "/admin%2Fx",
        "/%2fadmin/x",
        "/x%2F..;/admin/",
        "/x%2f%2e%2e/admin/",
    ] {
        server.check("a.example", path, 400, &["400 Bad Request"]);
    }
}

#[test]
fn options_of_the_server_as_a_whole_are_those_of_its_root() {
    let (origin, files) = (echo(), folder("a"));
    let health = "[[site.route]]\npath = \"/health\"\nrespond = { body = \"well\" }\n";
    let server = run(&format!(
        "[[site]]\nnames = [\"files.example\"]\n{health}[[site.route]]\nfiles = {:?}\n\
         [[site]]\nnames = [\"proxy.example\"]\n{health}[[site.route]]\nproxy = \"http://{origin}\"\n\
         [[site]]\nnames = [\"none.example\"]\n{health}",
        files.path(),
    ));
    for (host, expected) in [
        (
            "files.example",
            &["HTTP/1.1 204 ", "allow: GET, HEAD, OPTIONS"][..],
        ),
        ("proxy.example", &["HTTP/1.1 200 ", "OPTIONS * HTTP/1.1"]),
        ("none.example", &["HTTP/1.1 404 "]),
        ("other.example", &["HTTP/1.1 421 "]),
    ] {
        let text = server.ask_by("OPTIONS", host, "*");
        for part in expected {
            assert!(text.contains(part), "{host}: {part} in {text}");
        }
        let text = server.ask_by("GET", host, "*");
        assert!(text.starts_with("HTTP/1.1 400 "), "{host}: {text}");
    }
}

#[test]
fn a_changed_configuration_is_answered_by_at_once() {
    let [a, b] = ["a", "b"].map(folder);
    let server = run(&text(a.path(), b.path()));
    server.check("a.example", "/", 200, &["home of a"]);
    let changed = text(b.path(), a.path());
    server
        .reload
        .replace_site(&site(&plan(&changed)).unwrap())
        .unwrap();
    server.check("a.example", "/", 200, &["home of b"]);
    let gone = text(Path::new("/nowhere/at/all"), a.path());
    let refused = server.reload.replace_site(&site(&plan(&gone)).unwrap());
    refused.unwrap_err();
    server.check("a.example", "/", 200, &["home of b"]);
}

#[test]
fn each_name_has_the_policy_of_its_site() {
    let plan = plan(
        "[[site]]\nnames = [\"a.example\", \"*.b.example\"]\npolicy = \"h2\"\nroute = [{ respond = { status = 204 } }]\n",
    );
    let hosts = hosts(&plan);
    let names: Vec<_> = hosts.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["a.example", "*.b.example"]);
    assert!(hosts.iter().all(|it| it.policy.to_string() == "h2"));
}

#[test]
fn sites_without_a_certificate_share_one_for_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let store = certs::Store::open(dir.path().join("certs")).unwrap();
    let plan = plan(
        "[[site]]\nnames = [\"a.example\"]\nroute = [{ respond = { status = 204 } }]\n\
         [[site]]\nnames = [\"c.example\"]\nroute = [{ respond = { status = 204 } }]\n\
         certificate = { chain = \"c.pem\", key = { file = \"c.key\" } }\n\
         [[site]]\nnames = [\"*.b.example\", \"[::1]\"]\ndefault = true\nroute = [{ respond = { status = 204 } }]\n",
    );
    let leaf = |names: &[&str]| store.leaf(names).unwrap().identity();
    let mut asked = Vec::new();
    let read = |certificate: &altway_config::Certificate| {
        assert_eq!(certificate.chain, Path::new("c.pem"));
        leaf(&["c.example"])
    };
    let own = |names: &[String]| {
        asked = names.to_vec();
        leaf(&["b.example"])
    };
    let none = |name: &str| -> Option<altway_serve::Identity> { panic!("{name}") };
    let all = certificates(&plan, read, none, own).unwrap();
    assert_eq!(
        asked,
        ["*.b.example", "::1", "a.example"],
        "the default site's first"
    );
    assert_eq!(all.iter().count(), 2);
    let fails = |_: &[String]| Err("no store");
    let named = |_: &altway_config::Certificate| Err("not asked first");
    assert!(certificates(&plan, named, none, fails).is_err());
}

#[test]
fn names_of_acme_have_what_was_ordered_for_them_and_await_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let store = certs::Store::open(dir.path().join("certs")).unwrap();
    let leaf = |names: &[&str]| store.leaf(names).unwrap().identity().unwrap();
    let plan = plan(
        "[acme]\nfolder = \"acme\"\n[[site]]\nnames = [\"a.example\", \"b.example\"]\nroute = [{ respond = { status = 204 } }]\n\
         [[site]]\nnames = [\"[::1]\"]\ncertificate = \"own\"\nroute = [{ respond = { status = 204 } }]\n",
    );
    assert_eq!(plan.acme_names(), ["a.example", "b.example"]);
    let read = |_: &altway_config::Certificate| -> Result<_, &str> { Err("there is none") };
    let ordered = |name: &str| (name == "b.example").then(|| leaf(&["b.example"]));
    let mut asked = Vec::new();
    let own = |names: &[String]| {
        asked = names.to_vec();
        Ok(leaf(&["c.example"]))
    };
    let all = certificates(&plan, read, ordered, own).unwrap();
    assert_eq!(all.iter().count(), 2);
    assert_eq!(asked, ["::1"]);
}
