//! Fuzz targets of the engines and the server, the checks they make, and the seeds of their corpus.
//!
//! A target is a function of bytes that panics when an engine breaks a promise. Of HTTP/2, [`frames`]
//! has the engine read anything, [`hpack`] is field compression both ways, and [`connection`] joins a
//! client and a server and does with them whatever a list of operations says. Of HTTP/3, [`qpack`] is
//! field compression both ways, [`streams`] has a peer say anything on QUIC's streams, and
//! [`datagrams`] lets anything happen to the datagrams between a client and a server. Above the engines,
//! [`gate`] reads messages as the gate does and as other parsers do, [`requests`] asks for files,
//! [`takeover`] and [`relay`] are what passes between two processes, and [`server`] is all of a server with
//! its memory and its descriptors. `cargo xtask fuzz` drives them by libFuzzer; `tests/corpus.rs` runs them on
//! everything under `corpus/`, as ordinary tests on any machine, and `tests/server.rs` does [`server`], which
//! looks at its process. TLS is left to the tests of other crates.
//!
//! To look at what a fuzzer found: `cargo run -p altway-fuzz --bin connection FILE`. Put the file
//! into `corpus/connection/` and it is a test.
//!
//! ```
//! // A server that hears nonsense instead of the preface says goodbye and survives.
//! altway_fuzz::frames::run(b"\x00\x00GET / HTTP/1.1\r\n\r\n");
//! ```

mod body;
mod config;
pub mod connection;
mod cuts;
pub mod datagrams;
mod end;
pub mod frames;
pub mod gate;
pub mod hpack;
mod input;
pub mod qpack;
mod quic;
pub mod relay;
pub mod requests;
pub mod seeds;
pub mod server;
mod speech;
pub mod streams;
mod sys;
pub mod takeover;
mod wire;

pub use sys::Counting;

/// A target: does something with any bytes, and panics when a promise is broken.
pub type Run = fn(&[u8]);

/// Every target by its name, which is that of its program and of its folder under `corpus/`.
pub const TARGETS: [(&str, Run); 11] = [
    ("frames", frames::run),
    ("hpack", hpack::run),
    ("connection", connection::run),
    ("qpack", qpack::run),
    ("streams", streams::run),
    ("datagrams", datagrams::run),
    ("gate", gate::run),
    ("requests", requests::run),
    ("takeover", takeover::run),
    ("relay", relay::run),
    ("server", server::run),
];

/// Runs a target on each file named in the program's arguments.
///
/// # Errors
/// A file can't be read.
pub fn replay(run: Run) -> std::io::Result<()> {
    for path in std::env::args_os().skip(1) {
        run(&std::fs::read(path)?);
    }
    Ok(())
}
