//! Serves a directory on port 8443 with a certificate of the local authority, until interrupted.
//! `ALTWAY_H2C=1` serves clear text instead, `ALTWAY_PORT` another port.

use altway_serve::{Options, Security, Server, Site, certs, stop_channel};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let root = std::env::args_os().nth(1).ok_or("usage: serve DIRECTORY")?;
    let mut options = Options::new(Site::files(root), security()?);
    if let Ok(port) = std::env::var("ALTWAY_PORT") {
        options.port = port.parse()?;
    }
    let server = Server::bind(&options)?;
    tracing::info!(address = %server.local_addr(), "serving");

    let (handle, signal) = stop_channel();
    let running = std::thread::spawn(move || server.run(&signal));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(tokio::signal::ctrl_c())?;
    handle.stop();
    running.join().expect("run() returns panics as errors")?;
    Ok(())
}

fn security() -> Result<Security, Box<dyn Error>> {
    if std::env::var_os("ALTWAY_H2C").is_some() {
        return Ok(Security::ClearText);
    }
    let store = certs::Store::open_default()?;
    let leaf = store.leaf::<&str>(&[])?;
    tracing::info!(authority = %store.authority().display(), spki = leaf.spki_sha256, "certificate");
    Ok(Security::tls(leaf.identity()?))
}
