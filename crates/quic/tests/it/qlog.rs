//! qlog: a trace for each connection that is wanted, by the name that both ends know it by.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use altway_quic::{Direction, Qlog};

use crate::pair::{Pair, delay, pattern};

/// Traces by name.
#[derive(Clone, Default)]
struct Traces(Arc<Mutex<BTreeMap<String, String>>>);

struct Trace {
    traces: Traces,
    name: String,
}

impl io::Write for Trace {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut traces = self.traces.0.lock().unwrap();
        let text = std::str::from_utf8(bytes).unwrap();
        traces.get_mut(&self.name).unwrap().push_str(text);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Traces {
    /// Keeps the first `wanted`.
    fn qlog(&self, wanted: usize) -> Qlog {
        let traces = self.clone();
        Qlog::new(move |name| {
            let mut all = traces.0.lock().unwrap();
            let wanted = all.len() < wanted;
            wanted.then(|| {
                assert!(all.insert(name.into(), String::new()).is_none());
                let (traces, name) = (traces.clone(), name.into());
                Box::new(Trace { traces, name }) as _
            })
        })
    }

    fn take(self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn transfer(pair: &mut Pair) {
    let stream = pair.client.open(Direction::Bidirectional);
    pair.client.send(stream, pattern(100_000));
    assert!(pair.run_until(|pair| pair.server.ended.contains(&stream)));
}

#[test]
fn both_ends_tell_of_a_connection_by_the_same_name() {
    let (client, server) = (Traces::default(), Traces::default());
    let (ours, theirs) = (client.qlog(10), server.qlog(10));
    let mut pair = Pair::with(delay(50), |client, server| {
        client.qlog = Some(ours);
        server.qlog = Some(theirs);
    });
    pair = pair.connected();
    transfer(&mut pair);
    pair.reconnect();
    pair = pair.connected();
    transfer(&mut pair);
    drop(pair);
    let (client, server) = (client.take(), server.take());
    let names: Vec<_> = client.keys().collect();
    assert_eq!(names, server.keys().collect::<Vec<_>>());
    assert_eq!(names.len(), 2);
    for (name, trace) in client.iter().chain(&server) {
        assert_eq!(name.len(), 40);
        assert!(name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
        for part in [
            "packet_sent",
            "packet_received",
            "metrics_updated",
            "initial",
            "handshake",
            "1RTT",
        ] {
            assert!(trace.contains(part), "{part}: {trace}");
        }
        // Times count from the connection's beginning.
        assert!(trace.contains(r#""time":0.0"#), "{trace}");
    }
    assert!(client.values().all(|trace| trace.contains("altway client")));
    assert!(server.values().all(|trace| trace.contains("altway server")));
}

#[test]
fn a_connection_that_nobody_wants_logged_goes_on_without() {
    let traces = Traces::default();
    let wanted = traces.qlog(1);
    let mut pair = Pair::with(delay(1), |client, server| {
        client.qlog = Some(wanted);
        server.qlog = Some(Qlog::new(|_| None));
    });
    for _ in 0..2 {
        pair = pair.connected();
        transfer(&mut pair);
        pair.reconnect();
    }
    assert_eq!(traces.take().len(), 1);
}
