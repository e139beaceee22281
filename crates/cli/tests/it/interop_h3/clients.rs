//! Foreign clients of altway's server.

use super::echo::Echo;
use super::foreign::{Peer, Report, clients};
use super::{BIG, Ground, MEDIUM, UPLOAD, content, sha256};
use crate::common::Serving;
use rustix::process::Signal;
use serde_json::{Value, json};

/// Code of a clean end of HTTP/3 (RFC 9114 section 8.1).
const H3_NO_ERROR: u64 = 0x100;

fn get(path: &str) -> Value {
    json!({"method": "GET", "path": path})
}

/// Makes every client that is there do what `plan` says with `altway serve`.
fn each_reports(more: &[&str], plan: &Value, check: impl Fn(Peer, &Report)) {
    let ground = Ground::new();
    let serving = Serving::start(&ground.dir, more);
    for peer in clients() {
        check(peer, &peer.report(&ground, serving.port, plan));
    }
}

#[test]
fn clients_get_small_and_big_files_and_404() {
    let requests = ["/small.txt", "/big.bin", "/none"].map(get);
    let plan = json!({"requests": requests});
    each_reports(&["--policy", "h3"], &plan, |peer, report| {
        let [small, big, none] = &report.responses[..] else {
            panic!("{peer:?}: {report:?}")
        };
        assert_eq!((small.status, &small.sha256), (200, &sha256(b"small")));
        assert!(
            small.fields["alt-svc"].ends_with("; ma=2592000"),
            "{peer:?}"
        );
        assert_eq!((big.status, big.bytes), (200, BIG), "{peer:?}");
        assert_eq!(big.sha256, sha256(&content(BIG)), "{peer:?}");
        assert_eq!(none.status, 404, "{peer:?}");
    });
}

/// aioquic 1.7 takes a response to HEAD with Content-Length for a malformed one, so it is left out.
#[test]
fn head_tells_the_length_and_sends_no_body() {
    if !Peer::QuicGo.is_there() {
        return;
    }
    let ground = Ground::new();
    let serving = Serving::start(&ground.dir, &[]);
    let plan = json!({"requests": [{"method": "HEAD", "path": "/big.bin"}, get("/small.txt")]});
    let report = Peer::QuicGo.report(&ground, serving.port, &plan);
    let head = &report.responses[0];
    assert_eq!((head.status, head.bytes), (200, 0));
    assert_eq!(head.fields["content-length"], BIG.to_string());
    assert_eq!(report.responses[1].status, 200, "the connection goes on");
}

#[test]
fn an_upload_comes_back_while_it_is_sent_and_ends_with_its_trailers() {
    let ground = Ground::new();
    let echo = Echo::start(&ground);
    let request = json!({
        "method": "POST", "path": "/echo", "upload": UPLOAD, "trailers": {"x-sum": "of all"},
    });
    for peer in clients() {
        let report = peer.report(&ground, echo.port, &json!({"requests": [request, request]}));
        assert_eq!(report.responses.len(), 2);
        for response in &report.responses {
            assert_eq!((response.status, response.bytes), (200, UPLOAD), "{peer:?}");
            assert_eq!(response.sha256, sha256(&content(UPLOAD)), "{peer:?}");
            let sum = response.trailers.get("x-sum").map(String::as_str);
            assert_eq!(sum, Some("of all"), "{peer:?}");
        }
    }
}

#[test]
fn large_heads_pass_up_to_the_limit_and_get_431_above_it() {
    let with = |fields: usize, size: usize| {
        let fields = (0..fields).map(|i| (format!("x-{i}"), Value::from("x".repeat(size))));
        let fields: serde_json::Map<_, _> = fields.collect();
        json!({"method": "GET", "path": "/small.txt", "fields": fields})
    };
    // The server's limit is 32 KiB, and its engine's, which it announces, 64 KiB.
    let requests = [
        with(1, 30_000),
        with(1, 34_000),
        with(3, 30_000),
        get("/small.txt"),
    ];
    each_reports(&[], &json!({"requests": requests}), |peer, report| {
        let statuses: Vec<_> = report
            .responses
            .iter()
            .map(|response| response.status)
            .collect();
        assert_eq!(statuses, [200, 431, 431, 200], "{peer:?}");
    });
}

#[test]
fn one_connection_of_a_client_carries_ten_thousand_requests() {
    const AT_ONCE: u32 = 50;
    let ground = Ground::new();
    let serving = Serving::start(&ground.dir, &[]);
    for peer in clients() {
        let requests = vec![get("/small.txt"); AT_ONCE as usize];
        let rounds = peer.many() / AT_ONCE;
        let plan = json!({"requests": requests, "parallel": AT_ONCE, "repeat": rounds});
        let report = peer.report(&ground, serving.port, &plan);
        assert_eq!(report.unlike, 0, "{peer:?}");
        for response in &report.responses {
            assert_eq!(
                (response.status, &response.sha256),
                (200, &sha256(b"small"))
            );
        }
    }
}

#[test]
fn fields_that_come_again_are_taken_from_dynamic_tables() {
    if !Peer::Aioquic.is_there() {
        return;
    }
    let ground = Ground::new();
    let serving = Serving::start(&ground.dir, &[]);
    let request = json!({
        "method": "GET", "path": "/small.txt",
        "fields": {"cookie": "id=0123456789abcdef", "user-agent": "interop/1 (aioquic)"},
    });
    // For more than a second: until Date changes the server sends the section again that it has made.
    let plan = json!({"requests": [request], "repeat": 2500});
    let report = Peer::Aioquic.report(&ground, serving.port, &plan);
    assert_eq!((report.responses[0].status, report.unlike), (200, 0));
    let qpack = report.qpack.unwrap();
    assert!(qpack.sent > 40, "the client inserted fields: {qpack:?}");
    assert!(qpack.acknowledged > 20, "the server read them: {qpack:?}");
    // Its capacity alone takes three bytes.
    assert!(
        qpack.received > 10,
        "the server inserted some too: {qpack:?}"
    );
}

/// quic-go knows no other versions than 1 and 2.
#[test]
fn a_client_that_offers_an_unknown_version_first_is_told_ours() {
    if !Peer::Aioquic.is_there() {
        return;
    }
    let ground = Ground::new();
    let serving = Serving::start(&ground.dir, &[]);
    let plan = json!({"requests": [get("/small.txt")], "other_version": true});
    let report = Peer::Aioquic.report(&ground, serving.port, &plan);
    assert_eq!((report.other_versions, &*report.version), (1, "v1"));
    assert_eq!(report.responses[0].status, 200);
}

/// Checks what clients report that begin with version 2 (RFC 9369), and do `more` beside.
fn each_speaks_version_2(serve: &[&str], more: &Value, check: impl Fn(Peer, &Report)) {
    let mut plan = json!({
        "requests": [get("/medium.bin"), get("/small.txt")],
        "version_2": true, "other_version": true,
    });
    let more = more.as_object().unwrap().clone();
    plan.as_object_mut().unwrap().extend(more);
    each_reports(serve, &plan, |peer, report| {
        assert_eq!(
            (report.other_versions, &*report.version),
            (0, "v2"),
            "{peer:?}"
        );
        let [medium, small] = &report.responses[..] else {
            panic!("{peer:?}: {report:?}")
        };
        assert_eq!(medium.sha256, sha256(&content(MEDIUM)), "{peer:?}");
        assert_eq!(small.sha256, sha256(b"small"), "{peer:?}");
        check(peer, report);
    });
}

#[test]
fn a_client_that_begins_with_version_2_is_answered_by_it() {
    each_speaks_version_2(&[], &json!({}), |_, _| {});
    each_speaks_version_2(&["--retry", "always"], &json!({}), |_, _| {});
}

#[test]
fn keys_and_ports_change_in_version_2() {
    let plan = json!({"key_updates": 3});
    each_speaks_version_2(&[], &plan, |peer, report| {
        let expected = if peer == Peer::Aioquic { 3 } else { 1 };
        assert!(report.key_updates >= expected, "{peer:?}: {report:?}");
    });
    each_speaks_version_2(&["-n", "4"], &json!({"moves": 3}), |peer, report| {
        assert_eq!(report.moves, 3, "{peer:?}");
    });
}

#[test]
fn a_session_resumes_in_version_2() {
    let plan = json!({"resume": true, "early": true});
    each_speaks_version_2(&["--early-data=off"], &plan, |peer, report| {
        assert!(report.resumed && !report.early, "{peer:?}: {report:?}");
    });
    each_speaks_version_2(&[], &plan, |peer, report| {
        assert!(report.resumed && report.early, "{peer:?}: {report:?}");
    });
}

/// quic-go changes keys by itself, after its first hundred packets.
#[test]
fn keys_change_in_the_middle_of_a_download() {
    let plan = json!({"requests": [get("/medium.bin")], "key_updates": 3});
    each_reports(&[], &plan, |peer, report| {
        let expected = if peer == Peer::Aioquic { 3 } else { 1 };
        assert!(report.key_updates >= expected, "{peer:?}: {report:?}");
        assert_eq!(
            report.responses[0].sha256,
            sha256(&content(MEDIUM)),
            "{peer:?}"
        );
    });
}

#[test]
fn a_download_goes_on_while_its_client_changes_ports() {
    let plan = json!({"requests": [get("/medium.bin"), get("/small.txt")], "moves": 3});
    // Three of four moves would lead to another worker if nobody steered.
    each_reports(&["-n", "4"], &plan, |peer, report| {
        assert_eq!(report.moves, 3, "{peer:?}");
        assert_eq!(
            report.responses[0].sha256,
            sha256(&content(MEDIUM)),
            "{peer:?}"
        );
        assert_eq!(report.responses[1].status, 200, "{peer:?}");
    });
}

/// aioquic sends its request early as if it had been allowed; quic-go holds it back, and resumes.
#[test]
fn a_session_resumes_and_early_data_that_nobody_allowed_is_served_late() {
    let plan = json!({"requests": [get("/small.txt")], "resume": true, "early": true});
    each_reports(&["--early-data=off"], &plan, |peer, report| {
        assert!(report.resumed && !report.early, "{peer:?}: {report:?}");
        let attempted = report.attempted_early.unwrap_or(peer == Peer::QuicGo);
        assert!(attempted, "{peer:?}");
        let response = &report.responses[0];
        assert_eq!(
            (response.status, &response.sha256),
            (200, &sha256(b"small"))
        );
    });
}

#[test]
fn a_stop_lets_a_download_end() {
    let plan = json!({"requests": [get("/big.bin")], "announce": true, "linger": true});
    let ground = Ground::new();
    for peer in clients() {
        let serving = Serving::start(&ground.dir, &[]);
        let mut client = peer.client(&ground, serving.port, &plan);
        assert!(client.line().contains("begun"), "{peer:?}");
        serving.signal(Signal::TERM);
        client.go_on();
        let report = client.report();
        assert_eq!(
            report.responses[0].sha256,
            sha256(&content(BIG)),
            "{peer:?}"
        );
        assert!(report.go_away, "{peer:?}");
        // quic-go closes by itself when it has no request left after GOAWAY.
        let expected = (peer == Peer::Aioquic).then_some(H3_NO_ERROR);
        assert_eq!(report.closed, expected, "{peer:?}");
        assert_eq!(serving.wait(), Some(0), "{peer:?}");
    }
}

#[test]
fn priorities_are_taken_from_fields_and_frames() {
    let request = json!({
        "method": "GET", "path": "/medium.bin", "fields": {"priority": "u=1, i"},
        // aioquic alone: quic-go sends none.
        "priority_update": "u=7",
    });
    let plan = json!({"requests": [request, request, get("/small.txt")], "parallel": 3});
    each_reports(&[], &plan, |peer, report| {
        for response in &report.responses[..2] {
            assert_eq!(response.sha256, sha256(&content(MEDIUM)), "{peer:?}");
        }
        assert_eq!(report.responses[2].status, 200, "{peer:?}");
    });
}
