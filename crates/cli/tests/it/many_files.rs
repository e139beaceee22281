//! More files than a process may have open, for many connections at once: each is answered.

use crate::common::{Dir, Serving, installed};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write, copy, sink};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::time::Duration;

const DESCRIPTORS: usize = 192;
const FILES: usize = 301;
const CONNECTIONS: usize = 60;

/// More than a connection's buffers take, so that a response keeps its file until it is read.
const SIZE: u64 = 100_000;

fn answer(client: &mut BufReader<TcpStream>) -> String {
    let mut status = String::new();
    client.read_line(&mut status).unwrap();
    let (mut line, mut length) = (String::new(), 0);
    while client.read_line(&mut line).unwrap() > 2 {
        let field = line.trim_end().to_ascii_lowercase();
        if let Some(value) = field.strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
        line.clear();
    }
    copy(&mut client.by_ref().take(length), &mut sink()).unwrap();
    status.trim_end().to_owned()
}

#[test]
fn more_files_than_descriptors_are_served_to_many_connections_at_once() {
    if !installed("prlimit") {
        return;
    }
    let dir = Dir::new();
    for at in 0..FILES {
        let file = File::create(dir.file(&format!("site/{at}"), "")).unwrap();
        file.set_len(SIZE).unwrap();
    }
    let altway = dir.altway(["serve", "site", "--h2c", "--bind", "127.0.0.1"]);
    // It replaces itself by the server.
    let mut command = Command::new("prlimit");
    command.arg(format!("--nofile={DESCRIPTORS}:{DESCRIPTORS}"));
    command.arg(altway.get_program()).args(altway.get_args());
    command.args(["--port", "0", "--json", "-n", "1"]);
    command.current_dir(dir.path()).env("HOME", dir.path());
    let serving = Serving::spawn(&dir, command);
    let connect = |_| {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, serving.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        BufReader::new(stream)
    };
    let mut clients: Vec<_> = (0..CONNECTIONS).map(connect).collect();
    for first in (0..FILES).step_by(CONNECTIONS) {
        for (at, client) in clients.iter_mut().enumerate() {
            let path = (first + at) % FILES;
            let head = format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            client.get_mut().write_all(head.as_bytes()).unwrap();
        }
        for client in &mut clients {
            assert_eq!(answer(client), "HTTP/1.1 200 OK");
        }
    }
    assert_eq!(serving.terminate(), Some(0));
}
