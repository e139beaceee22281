//! Servers that a plan may name without saying how they are started, if they are installed.
//!
//! Each serves the folder over all that its installed version speaks, with one worker, as altway
//! does, and without logs.

use altway_record::{Protocol, ServerCommand, ServerName};
use std::path::PathBuf;
use std::process::Command;

/// A server's command, and what it says of its version.
#[derive(Debug, Clone)]
pub(crate) struct Preset {
    pub(crate) command: ServerCommand,
    pub(crate) version: String,
}

/// The preset of that name, if its program is installed.
pub(crate) fn preset(name: ServerName) -> Option<Preset> {
    match name.as_str() {
        "nginx" => nginx(name),
        "caddy" => caddy(name),
        "h2o" => h2o(name),
        "quic-go" => quic_go(name),
        _ => None,
    }
}

/// Path of a program, by `PATH`.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Returns the first line that a program prints when asked for its version.
pub(crate) fn version_of(program: &str, flag: &str) -> Option<String> {
    let said = ask(program, flag)?;
    said.lines().next().map(|line| line.trim().to_owned())
}

/// Returns all that a program prints, to standard output and standard error.
pub(crate) fn ask(program: &str, flag: &str) -> Option<String> {
    let output = Command::new(find(program)?).arg(flag).output().ok()?;
    let both = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&both).into_owned())
}

const BOTH: [Protocol; 2] = [Protocol::H1, Protocol::H2];
const ALL: [Protocol; 3] = [Protocol::H1, Protocol::H2, Protocol::H3];

fn command(
    name: ServerName,
    command: &str,
    config: String,
    protocols: &[Protocol],
) -> ServerCommand {
    ServerCommand {
        name,
        command: command.into(),
        config: (!config.is_empty()).then_some(config),
        protocols: protocols.to_vec(),
    }
}

fn nginx(name: ServerName) -> Option<Preset> {
    let said = ask("nginx", "-V")?;
    let has_http3 = said.contains("http_v3_module");
    Some(Preset {
        command: command(
            name,
            "nginx -p {state} -c {config} -e stderr",
            nginx_config(has_http3),
            if has_http3 { &ALL } else { &BOTH },
        ),
        version: said.lines().next().unwrap_or_default().trim().to_owned(),
    })
}

/// Versions with HTTP/3 have a directive for HTTP/2; those before know a parameter alone.
fn nginx_config(has_http3: bool) -> String {
    let listen = match has_http3 {
        true => {
            "listen {address}:{port} ssl; http2 on; listen {address}:{port} quic reuseport;\n\
             add_header alt-svc 'h3=\":{port}\"; ma=3600' always;\n"
        }
        false => "listen {address}:{port} ssl http2;\n",
    };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|use_| format!("{use_}_temp_path temporary;\n"))
        .concat();
    format!(
        "daemon off; master_process off; pid nginx.pid; error_log stderr;\nevents {{}}\n\
         http {{\naccess_log off; sendfile on; keepalive_requests 1000000;\n{temporary}\
         server {{\n{listen}root {{folder}};\n\
         ssl_certificate {{certificate}}; ssl_certificate_key {{key}};\n}} }}\n"
    )
}

fn caddy(name: ServerName) -> Option<Preset> {
    let config = "{\nadmin off\nauto_https off\nlog {\noutput discard\n}\n\
         servers {\nprotocols h1 h2 h3\n}\n}\n\
         https://:{port} {\nbind {address}\ntls {certificate} {key}\nroot * {folder}\nfile_server\n}\n";
    Some(Preset {
        version: version_of("caddy", "version")?,
        command: command(
            name,
            "caddy run --config {config} --adapter caddyfile",
            config.into(),
            &ALL,
        ),
    })
}

fn h2o(name: ServerName) -> Option<Preset> {
    let version = version_of("h2o", "--version")?;
    // HTTP/3 came after 2.2.
    let has_http3 = !version.contains("version 2.2") && !version.contains("version 2.1");
    let ssl = "ssl: {certificate-file: {certificate}, key-file: {key}, ocsp-update-interval: 0}";
    let tcp = format!("{{host: {{address}}, port: {{port}}, {ssl}}}");
    let quic = format!("{{type: quic, host: {{address}}, port: {{port}}, {ssl}}}");
    // Old versions take one only.
    let listen = if has_http3 {
        format!("[{tcp}, {quic}]")
    } else {
        tcp
    };
    // As root it would give its rights up, and with them the folder.
    let user = if is_root() { "user: root\n" } else { "" };
    let config = format!(
        "listen: {listen}\nnum-threads: 1\n{user}\
         hosts: {{default: {{paths: {{/: {{file.dir: {{folder}}}}}}}}}}\n"
    );
    let spoken: &[Protocol] = if has_http3 { &ALL } else { &BOTH };
    Some(Preset {
        version,
        command: command(name, "h2o -m worker -c {config}", config, spoken),
    })
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The file server among quic-go's examples, built as `quic-go-example`.
fn quic_go(name: ServerName) -> Option<Preset> {
    find("quic-go-example")?;
    Some(Preset {
        version: "quic-go's example".into(),
        command: command(
            name,
            "quic-go-example -tcp -bind {address}:{port} -www {folder} -cert {certificate} -key {key}",
            String::new(),
            &ALL,
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_path_or_by_name() {
        let shell = find("sh").unwrap();
        assert!(shell.is_absolute());
        assert_eq!(find(shell.to_str().unwrap()), Some(shell));
        assert_eq!(find("there-is-no-such-program"), None);
        assert_eq!(find("/there/is/none"), None);
    }

    #[test]
    fn nginx_is_configured_by_what_it_speaks() {
        assert!(nginx_config(true).contains("quic reuseport"));
        assert!(!nginx_config(false).contains("quic"));
        assert!(nginx_config(false).contains("root {folder};"));
    }
}
