//! The settings of the peers that take theirs from a file.
//!
//! Each as its own documents advise for static files, with every limit above what the workloads
//! ask for, so that a difference is the server's and not its defaults'.

use super::contender::Setting;
use super::site::LARGE;
use super::workload::{Transport, Workload};
use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Above what any workload asks for.
pub(crate) const MAX_CONCURRENT_STREAMS: u32 = 1000;

/// The idle connections and some more.
pub(crate) const MAX_CONNECTIONS: u32 = 20_000;

/// HAProxy begins only where it may have two descriptors for each connection, which many systems don't allow for
/// [`MAX_CONNECTIONS`]; no workload of the proxy has more than this, but for idle clients.
const MAX_PROXIED: u32 = 2_000;

/// nginx: one listener for each worker (`reuseport`), files kept open, requests without end on a
/// connection. sendfile for the large file alone: for small ones in clear text it costs two packets
/// and waits 40 ms for the client's acknowledgement between them; the large one it makes cheaper.
///
/// Before an origin it keeps as many connections to it as any workload needs, and no answer on the disk.
pub(crate) fn nginx(setting: &Setting) -> String {
    let root = setting.site.root.display();
    let (ssl, tls) = match setting.transport {
        Transport::H2c => ("", String::new()),
        Transport::Tls | Transport::H3 => (" ssl", nginx_tls(setting)),
    };
    let address = setting.address;
    let listen = format!("{address} http2{ssl} reuseport backlog=4096");
    match setting.behind {
        None => {
            let files = format!("root {root};\n        location = {LARGE} {{ sendfile on; }}");
            nginx_with(
                setting,
                "",
                &format!("listen {listen};\n        {files}\n{tls}"),
            )
        }
        Some(origin) => {
            let upstream = format!(
                "    upstream origin {{
        server {origin};
        keepalive {UPSTREAM_CONNECTIONS};
        keepalive_requests 1000000000;
    }}
    proxy_http_version 1.1;
    proxy_set_header Connection \"\";
    proxy_set_header Host $host;
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_set_header X-Forwarded-Proto $scheme;
    proxy_max_temp_file_size 0;
"
            );
            let pass = "location / { proxy_pass http://origin; }";
            nginx_with(
                setting,
                &upstream,
                &format!("listen {listen};\n        {pass}\n{tls}"),
            )
        }
    }
}

/// Connections to an origin that a proxy keeps: the streams of a workload, all at once.
const UPSTREAM_CONNECTIONS: u32 = 1000;

/// The origin behind proxies: nginx over HTTP/1.1, with the files of the site.
pub(crate) fn origin(setting: &Setting) -> String {
    let root = setting.site.root.display();
    let address = setting.address;
    let server = format!(
        "listen {address} reuseport backlog=4096;
        root {root};
        location = {LARGE} {{ sendfile on; }}
"
    );
    nginx_with(setting, "", &server)
}

fn nginx_with(setting: &Setting, http: &str, server: &str) -> String {
    let folder = setting.folder.display();
    let workers = setting.workers;
    format!(
        "daemon off;
worker_processes {workers};
worker_rlimit_nofile {limit};
pid {folder}/nginx.pid;
error_log stderr error;
events {{
    worker_connections {MAX_CONNECTIONS};
    accept_mutex off;
    multi_accept on;
}}
http {{
    access_log off;
    default_type text/plain;
    sendfile off;
    tcp_nodelay on;
    open_file_cache max=1000 inactive=1h;
    open_file_cache_valid 1h;
    keepalive_timeout 1h;
    keepalive_time 24h;
    keepalive_requests 1000000000;
    http2_max_concurrent_streams {MAX_CONCURRENT_STREAMS};
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{http}    server {{
        {server}    }}
}}
",
        limit = MAX_CONNECTIONS + 1000
    )
}

fn nginx_tls(setting: &Setting) -> String {
    let certificate = setting.site.certificate.display();
    let key = setting.site.key.display();
    format!(
        "        ssl_certificate {certificate};
        ssl_certificate_key {key};
        ssl_protocols TLSv1.3;
        ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
"
    )
}

/// HAProxy: a thread for each worker, and connections to the origin that all requests share. It has certificate and key
/// in one file.
///
/// # Errors
/// There is no origin, or the certificate can't be copied.
pub(crate) fn haproxy(setting: &Setting) -> Result<String> {
    let origin = setting.behind.context("HAProxy serves no files")?;
    let (workers, address) = (setting.workers, setting.address);
    let most = match setting.workload {
        // As many as its descriptors allow: half of them.
        Workload::ProxyIdle => String::new(),
        _ => format!("maxconn {MAX_PROXIED}"),
    };
    let tls = match setting.transport {
        Transport::H2c => " proto h2".to_owned(),
        Transport::Tls | Transport::H3 => {
            let path = haproxy_certificate(setting)?;
            format!(" ssl crt {} alpn h2 ssl-min-ver TLSv1.3", path.display())
        }
    };
    Ok(format!(
        "global
    nbthread {workers}
    {most}
    tune.h2.max-concurrent-streams {MAX_CONCURRENT_STREAMS}
    ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256
defaults
    mode http
    option forwardfor
    option http-keep-alive
    http-reuse always
    timeout connect 5s
    timeout client 1h
    timeout server 1h
frontend front
    bind {address}{tls}
    default_backend origin
backend origin
    server origin {origin} pool-max-conn -1
"
    ))
}

fn haproxy_certificate(setting: &Setting) -> Result<PathBuf> {
    let mut both = String::new();
    for path in [&setting.site.certificate, &setting.site.key] {
        both +=
            &fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    let path = setting.folder.join("certificate.pem");
    fs::write(&path, both).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// h2o: started by root it serves as `nobody`, which may read the site. Its crash handler is a Perl
/// program that waits beside it; without it memory is the server's alone.
pub(crate) fn h2o(setting: &Setting) -> String {
    let root = setting.site.root.display();
    let (host, port) = (setting.address.ip(), setting.address.port());
    let workers = setting.workers;
    let tls = match setting.transport {
        Transport::H2c => String::new(),
        Transport::Tls | Transport::H3 => h2o_tls(setting),
    };
    format!(
        "num-threads: {workers}
crash-handler: /bin/true
max-connections: {MAX_CONNECTIONS}
http2-max-concurrent-requests-per-connection: {MAX_CONCURRENT_STREAMS}
http2-idle-timeout: 3600
listen:
  host: {host}
  port: {port}
{tls}hosts:
  default:
    paths:
      /:
        file.dir: {root}
"
    )
}

/// No stapling: the certificate has no responder, and h2o would start a program to ask for one.
fn h2o_tls(setting: &Setting) -> String {
    let certificate = setting.site.certificate.display();
    let key = setting.site.key.display();
    format!(
        "  ssl:
    certificate-file: {certificate}
    key-file: {key}
    minimum-version: TLSv1.2
    cipher-preference: server
    ocsp-update-interval: 0
    neverbleed: OFF
"
    )
}

/// Caddy: no access log, no admin's port, no certificate of its own making. Go chooses AES-128-GCM
/// where the processor has AES instructions; in TLS 1.3 it can't be told to.
pub(crate) fn caddy(setting: &Setting) -> String {
    let certificate = setting.site.certificate.display();
    let key = setting.site.key.display();
    let root = setting.site.root.display();
    let (host, port) = (setting.address.ip(), setting.address.port());
    let answers = match setting.behind {
        None => format!("root * {root}\n    file_server"),
        Some(origin) => format!("reverse_proxy {origin}"),
    };
    format!(
        "{{
    admin off
    auto_https off
    persist_config off
    log {{
        output stderr
        level ERROR
    }}
}}
https://:{port} {{
    bind {host}
    tls {certificate} {key} {{
        protocols tls1.3
    }}
    {answers}
}}
"
    )
}

/// altway by a file with `count` sites, the last of which has the files that are asked for, under the address and for
/// connections without a name. The others have a name, over TLS a certificate, and an empty folder each. Every site has
/// two routes.
///
/// # Errors
/// A folder can't be made.
pub(crate) fn sites(setting: &Setting, count: usize) -> Result<String> {
    let listen = match setting.transport {
        Transport::H2c => "http",
        Transport::Tls | Transport::H3 => "https",
    };
    let (workers, address) = (setting.workers, setting.address);
    let mut text =
        format!("threads = {workers}\ngrace = \"1s\"\n\n[listen]\n{listen} = [\"{address}\"]\n");
    for number in 1..count {
        let name = format!("site-{number}.example");
        let folder = setting.folder.join("sites").join(&name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        push_site(&mut text, setting, &[&name], &folder);
    }
    let asked = address.ip().to_string();
    push_site(&mut text, setting, &[&asked], &setting.site.root);
    Ok(text)
}

/// Adds a site; the one with `root` is the default.
fn push_site(text: &mut String, setting: &Setting, names: &[&str], root: &Path) {
    let is_default = root == setting.site.root;
    let certificate = match setting.transport {
        Transport::H2c => String::new(),
        Transport::Tls | Transport::H3 => {
            let [chain, key] = [&setting.site.certificate, &setting.site.key];
            format!("certificate = {{ chain = {chain:?}, key = {key:?} }}\n")
        }
    };
    let added = write!(
        text,
        "\n[[site]]\nnames = {names:?}\ndefault = {is_default}\n{certificate}\n\
         [[site.route]]\npath = \"/old/*\"\nredirect = {{ to = \"/{{rest}}\" }}\n\n\
         [[site.route]]\nfiles = {root:?}\n"
    );
    added.expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::super::site::Site;
    use super::*;
    use std::net::{Ipv4Addr, SocketAddrV4};

    fn with_setting<T>(transport: Transport, check: impl Fn(&Setting) -> T) -> T {
        let site = Site::named(Path::new("/s"));
        check(&Setting {
            site: &site,
            folder: Path::new("/f"),
            programs: Path::new("/p"),
            address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 81),
            workers: 2,
            transport,
            behind: None,
            workload: Workload::W1,
        })
    }

    #[test]
    fn clear_text_has_no_word_of_tls() {
        for text in [nginx, h2o].map(|config| with_setting(Transport::H2c, config)) {
            assert!(!text.contains("ssl"), "{text}");
            assert!(text.contains("81") && text.contains("127.0.0.1"), "{text}");
        }
    }

    #[test]
    fn tls_names_certificate_and_key() {
        for text in [nginx, h2o].map(|config| with_setting(Transport::Tls, config)) {
            assert!(text.contains("/s/certificates/"), "{text}");
        }
    }

    #[test]
    fn nginx_keeps_connections_for_all_requests_and_writes_no_log() {
        let text = with_setting(Transport::Tls, nginx);
        for line in [
            "access_log off;",
            "keepalive_requests 1000000000;",
            "worker_processes 2;",
            "listen 127.0.0.1:81 http2 ssl reuseport",
        ] {
            assert!(text.contains(line), "{line}");
        }
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }

    #[test]
    fn before_an_origin_all_of_them_ask_it() {
        let site = Site::named(Path::new("/s"));
        let setting = Setting {
            site: &site,
            folder: Path::new("/f"),
            programs: Path::new("/p"),
            address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 81),
            workers: 1,
            transport: Transport::H2c,
            behind: Some(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 82)),
            workload: Workload::ProxyIdle,
        };
        for text in [nginx(&setting), haproxy(&setting).unwrap(), caddy(&setting)] {
            assert!(text.contains("127.0.0.1:82"), "{text}");
            assert!(!text.contains("root"), "{text}");
            assert_eq!(text.matches('{').count(), text.matches('}').count());
        }
        assert!(!haproxy(&setting).unwrap().contains("maxconn"));
        let origin = origin(&setting);
        assert!(origin.contains("listen 127.0.0.1:81 reuseport"), "{origin}");
        assert!(origin.contains("root /s/site;"), "{origin}");
    }

    #[test]
    fn of_a_thousand_sites_the_last_has_the_files_that_are_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let site = Site::named(Path::new("/s"));
        let setting = |transport| Setting {
            site: &site,
            folder: folder.path(),
            programs: Path::new("/p"),
            address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 81),
            workers: 1,
            transport,
            behind: None,
            workload: Workload::W1,
        };
        let text = sites(&setting(Transport::Tls), 1_000).unwrap();
        assert_eq!(text.matches("[[site]]").count(), 1_000);
        assert_eq!(text.matches("certificate = ").count(), 1_000);
        assert_eq!(text.matches("default = true").count(), 1);
        let (_, last) = text.rsplit_once("[[site]]").unwrap();
        assert!(last.contains("names = [\"127.0.0.1\"]"), "{last}");
        assert!(last.ends_with("files = \"/s/site\"\n"), "{last}");
        let clear = sites(&setting(Transport::H2c), 1).unwrap();
        assert!(clear.contains("http = [\"127.0.0.1:81\"]"), "{clear}");
        assert!(!clear.contains("certificate"), "{clear}");
    }

    #[test]
    fn caddy_keeps_to_itself() {
        let text = with_setting(Transport::H3, caddy);
        for line in [
            "admin off",
            "level ERROR",
            "https://:81 {",
            "bind 127.0.0.1",
        ] {
            assert!(text.contains(line), "{line}");
        }
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }

    #[test]
    fn h2o_has_a_thread_per_worker() {
        let text = with_setting(Transport::H2c, h2o);
        assert!(text.starts_with("num-threads: 2\n"));
    }
}
