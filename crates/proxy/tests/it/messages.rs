//! Tests of the messages that pass between client and server, and of those that do not.

use crate::common::{
    Client, TIME_LIMIT, VERSIONS, http2_origin, origin, proxy, proxy_with, tcp, to,
};
use altway_proxy::Settings;
use altway_upstream::Protocol;
use http::{Request, Version};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A server that answers with the head that it was sent.
fn echo() -> std::net::SocketAddr {
    origin(|mut connection| {
        while let Some(head) = connection.head() {
            let length = head
                .iter()
                .find_map(|line| line.strip_prefix("content-length: "));
            let body = connection.read(length.map_or(0, |it| it.parse().unwrap()));
            let text = format!("{}\n\n{}", head.join("\n"), String::from_utf8_lossy(&body));
            connection.write(&format!(
                "HTTP/1.1 201 Created\r\nContent-Length: {}\r\nConnection: x-secret\r\nX-Secret: 1\r\n\
                 Alt-Svc: h3=\":1\"\r\nX-Kept: 2\r\nDate: then\r\nServer: theirs\r\n\r\n{text}",
                text.len()
            ));
        }
    })
}

#[tokio::test]
async fn requests_and_responses_pass_without_what_is_of_one_hop() {
    let running = proxy(to(echo()));
    for version in VERSIONS {
        let mut client = Client::new(running.address, version).await;
        for body in ["", "content"] {
            let method = if body.is_empty() { "GET" } else { "POST" };
            let request = Request::builder()
                .method(method)
                .uri("/a%20b?c=d&e")
                .header("x-mine", "1")
                .header("x-forwarded-for", "203.0.113.1");
            let response = client.ask(request, body).await;
            assert_eq!(response.status(), 201);
            let fields = response.headers();
            assert_eq!(fields["x-kept"], "2");
            assert_eq!(
                (&fields["date"], &fields["server"]),
                (&"then".parse().unwrap(), &"theirs".parse().unwrap())
            );
            assert_eq!(fields["via"], "1.1 altway");
            for name in ["x-secret", "alt-svc"] {
                assert!(!fields.contains_key(name), "{name}");
            }
            let text = response.body();
            let expected = format!("{} /a%20b?c=d&e http/1.1\n", method.to_ascii_lowercase());
            assert!(text.starts_with(&expected), "{text}");
            assert!(text.ends_with(&format!("\n\n{body}")), "{text}");
            let via = if version == Version::HTTP_2 {
                "2"
            } else {
                "1.1"
            };
            for line in [
                "host: a.test",
                "x-mine: 1",
                "x-forwarded-for: 127.0.0.1",
                "x-forwarded-host: a.test",
                // These clients come in clear text.
                "x-forwarded-proto: http",
                &format!("via: {via} altway"),
            ] {
                assert_eq!(
                    text.lines().filter(|it| *it == line).count(),
                    1,
                    "{line}: {text}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_trusted_proxy_is_believed_and_the_host_can_be_set() {
    let mut options = to(echo());
    options.host = Some("inner.test".parse().unwrap());
    let settings = Settings {
        trusted: vec!["127.0.0.0/8".parse().unwrap()],
        ..Settings::default()
    };
    let running = proxy_with(options, settings);
    let mut client = Client::new(running.address, Version::HTTP_11).await;
    let request = Request::get("/").header("x-forwarded-for", "203.0.113.1");
    let response = client.ask(request, "").await;
    let text = response.body();
    assert!(
        text.contains("x-forwarded-for: 203.0.113.1, 127.0.0.1"),
        "{text}"
    );
    assert!(text.contains("host: inner.test"), "{text}");
    assert!(text.contains("x-forwarded-host: a.test"), "{text}");
}

/// Sends a client's text over a raw connection, and returns what it sees.
fn raw_answer(address: std::net::SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    let mut answer = Vec::new();
    // Refusals may end with a reset.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// The same with the statuses alone.
fn raw(address: std::net::SocketAddr, text: &str) -> Vec<String> {
    let answer = raw_answer(address, text);
    let lines = answer.split("HTTP/1.1 ").skip(1);
    lines.map(|it| it[..3].to_owned()).collect()
}

#[tokio::test]
async fn a_target_in_absolute_form_without_a_path_is_passed_with_a_slash() {
    let running = proxy(to(echo()));
    for (target, expected) in [
        ("http://a.test?b=c", "get /?b=c http/1.1"),
        ("http://a.test?", "get /? http/1.1"),
        ("http://a.test", "get / http/1.1"),
    ] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        let answer = raw_answer(running.address, &text);
        assert!(answer.lines().any(|line| line == expected), "{answer}");
    }
}

#[tokio::test]
async fn what_two_servers_could_read_differently_reaches_none() {
    let running = proxy(to(echo()));
    for text in [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        let statuses = raw(running.address, text);
        assert!(
            statuses.iter().all(|it| it.starts_with('4')),
            "{text}: {statuses:?}"
        );
        assert!(statuses.len() < 2, "{text}: {statuses:?}");
    }
    // Content that looks like a request is content.
    let inner = "GET /admin HTTP/1.1\r\nHost: a\r\n\r\n";
    let outer = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{inner}",
        inner.len()
    );
    assert_eq!(raw(running.address, &outer), ["201"]);
}

#[tokio::test]
async fn responses_that_are_none_become_502_and_nothing_of_them_is_left() {
    for answer in [
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nX: a\rContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "",
    ] {
        let address = origin(move |mut connection| {
            connection.head();
            connection.write(answer);
        });
        let running = proxy(to(address));
        for version in VERSIONS {
            let mut client = Client::new(running.address, version).await;
            let response = client.ask(Request::get("/"), "").await;
            assert_eq!(response.status(), 502, "{answer}");
            assert_eq!(response.body(), "502 Bad Gateway\n");
        }
    }
}

#[tokio::test]
async fn a_field_with_an_odd_name_or_value_costs_its_response_nothing_else() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let address = origin(move |mut connection| {
        counted.fetch_add(1, Ordering::SeqCst);
        while connection.head().is_some() {
            connection.write(
                "HTTP/1.1 200 OK\r\nX(Y): z\r\nÄ: b\r\nX-Folded: a\r\n\tb\r\nX-Control: a\u{1}b\r\nSet-Cookie: a=b\r\nContent-Length: 5\r\n\r\nwhole",
            );
        }
    });
    let running = proxy(to(address));
    for (place, version) in VERSIONS.into_iter().enumerate() {
        let mut client = Client::new(running.address, version).await;
        for asked in 1..=2 {
            let response = client.ask(Request::get("/"), "").await;
            assert_eq!(response.status(), 200);
            assert_eq!(response.body(), "whole");
            let fields = response.headers();
            assert_eq!(
                fields["x-folded"]
                    .to_str()
                    .unwrap()
                    .split_whitespace()
                    .collect::<Vec<_>>(),
                ["a", "b"]
            );
            assert_eq!(fields["x-control"], "a b");
            assert_eq!(fields["set-cookie"], "a=b");
            let used = connections.load(Ordering::SeqCst);
            assert_eq!(used, place * 2 + asked, "each had a connection of its own");
        }
    }
}

#[tokio::test]
async fn a_second_response_on_a_connection_is_given_to_nobody() {
    let address = origin(|mut connection| {
        while let Some(head) = connection.head() {
            connection.ok(&head[0]);
            // Somebody else's answer.
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen");
        }
    });
    let running = proxy(to(address));
    for version in VERSIONS {
        let mut client = Client::new(running.address, version).await;
        for path in ["/a", "/b", "/c", "/d"] {
            let response = client.ask(Request::get(path), "").await;
            assert_eq!(response.body(), &format!("get {path} http/1.1"));
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn content_that_follows_a_status_without_any_is_taken_for_no_response() {
    for (fields, content) in [
        ("Content-Length: 5", "hello"),
        ("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"),
    ] {
        let address = origin(move |mut connection| {
            let mut late = "";
            while let Some(head) = connection.head() {
                connection.write(late);
                if head[0].starts_with("delete ") {
                    connection.write(&format!("HTTP/1.1 204 No Content\r\n{fields}\r\n\r\n"));
                    late = content;
                } else {
                    connection.ok("another");
                }
            }
        });
        let running = proxy(to(address));
        for version in VERSIONS {
            let mut client = Client::new(running.address, version).await;
            let response = client.ask(Request::delete("/"), "").await;
            assert_eq!(response.status(), 204, "{fields}");
            let response = client.ask(Request::get("/"), "").await;
            let found = (response.status().as_u16(), &**response.body());
            assert_eq!(found, (200, "another"), "{fields} {version:?}");
        }
    }
}

#[tokio::test]
async fn answers_of_the_proxy_s_own_have_the_fields_of_its_settings() {
    let mut settings = Settings::default();
    let denied = "DENY".parse().unwrap();
    settings.fields.insert("x-frame-options", denied);
    settings.path.strip = Some("/api".into());
    let running = proxy_with(to(echo()), settings);
    for version in VERSIONS {
        let mut client = Client::new(running.address, version).await;
        for (path, status) in [("/api/../x", 400), ("/api/x", 201)] {
            let response = client.ask(Request::get(path), "").await;
            assert_eq!(response.status(), status, "{path}");
            assert_eq!(response.headers()["x-frame-options"], "DENY", "{path}");
        }
    }
}

#[tokio::test]
async fn a_request_passes_as_many_proxies_as_its_max_forwards_allows() {
    let running = proxy(to(echo()));
    for version in VERSIONS {
        let mut client = Client::new(running.address, version).await;
        for (method, value, expected) in [
            ("OPTIONS", "0", Err(204)),
            ("TRACE", "0", Err(501)),
            ("OPTIONS", "1", Ok("0")),
            ("TRACE", "10", Ok("9")),
            ("OPTIONS", "many", Ok("many")),
            ("GET", "0", Ok("0")),
        ] {
            let request = Request::builder().method(method).uri("/");
            let request = request.header("max-forwards", value);
            let response = client.ask(request, "").await;
            let Ok(passed) = expected else {
                let status = response.status().as_u16();
                assert_eq!(Err(status), expected, "{method}");
                continue;
            };
            assert_eq!(response.status(), 201, "{method} {value}");
            let line = format!("max-forwards: {passed}");
            let text = response.body();
            assert!(text.lines().any(|it| it == line), "{method}: {text}");
        }
    }
}

#[tokio::test]
async fn a_request_that_goes_round_ends() {
    let running = proxy(to(echo()));
    for version in VERSIONS {
        let mut client = Client::new(running.address, version).await;
        for (times, status) in [(15, 201), (16, 508)] {
            let via = vec!["1.1 altway"; times].join(", ");
            let request = Request::get("/").header("via", via);
            let response = client.ask(request, "").await;
            assert_eq!(response.status(), status, "{times}");
        }
    }
}

#[tokio::test]
async fn a_response_of_hundreds_of_fields_passes() {
    const FIELDS: usize = 250;
    let address = origin(|mut connection| {
        while connection.head().is_some() {
            let lines: String = (0..FIELDS).map(|n| format!("x-{n}: {n}\r\n")).collect();
            connection.write(&format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{lines}\r\nok"
            ));
        }
    });
    let mut http2 = to(address);
    http2.servers = vec![tcp(with_fields(FIELDS).await, Protocol::Http2)];
    for options in [to(address), http2] {
        let running = proxy(options);
        for version in VERSIONS {
            let mut client = Client::new(running.address, version).await;
            let response = client.ask(Request::get("/"), "").await;
            assert_eq!(response.status(), 200);
            let fields = response.headers();
            let passed = (0..FIELDS).filter(|n| fields.contains_key(format!("x-{n}")));
            assert_eq!(passed.count(), FIELDS);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interim_responses_without_end_are_no_response_and_keep_nobody_waiting() {
    const HINTS: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let server = origin(|mut connection| {
        while let Some(head) = connection.head() {
            if head[0].starts_with("get /other ") {
                connection.ok("other");
                continue;
            }
            let hints = HINTS.repeat(100);
            while connection.reader.get_mut().write_all(&hints).is_ok() {}
        }
    });
    let running = proxy(to(server));
    for version in VERSIONS {
        let mut client = Client::new(running.address, version).await;
        let answer = tokio::time::timeout(TIME_LIMIT, client.ask(Request::get("/"), ""));
        let answer = answer.await.expect("it is given up");
        assert_eq!(answer.status(), 502, "{version:?}");
        let other = tokio::time::timeout(TIME_LIMIT, client.ask(Request::get("/other"), ""));
        assert_eq!(other.await.expect("it waits for no other").body(), "other");
    }
}

#[tokio::test]
async fn lengths_that_a_server_repeats_or_makes_up_do_not_pass_with_heads_alone() {
    let address = origin(|mut connection| {
        while let Some(head) = connection.head() {
            let fields = lengths(&head[0]);
            let lines = fields
                .map(|it| format!("Content-Length: {it}\r\n"))
                .concat();
            connection.write(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n"));
        }
    });
    let mut http2 = to(address);
    http2.servers = vec![tcp(repeating().await, Protocol::Http2)];
    for options in [to(address), http2] {
        let protocol = options.servers[0].protocol;
        let running = proxy(options);
        for version in VERSIONS {
            let mut client = Client::new(running.address, version).await;
            for (path, passed) in [("/same", Some("5")), ("/different", None)] {
                let response = client.ask(Request::head(path), "").await;
                let status = response.status().as_u16();
                if protocol == Protocol::Http2 && passed.is_none() {
                    // By RFC 9113 section 8.1.1 it is malformed.
                    assert_eq!(status, 502);
                    continue;
                }
                assert_eq!(status, 200, "{protocol:?} {version:?} {path}");
                let values = response.headers().get_all("content-length");
                let values: Vec<_> = values.iter().collect();
                let expected: Vec<_> = passed.into_iter().collect();
                assert_eq!(values, expected, "{protocol:?} {version:?} {path}");
            }
        }
    }
}

/// The lengths in a head whose request has such a target.
fn lengths(target: &str) -> [&'static str; 2] {
    match target.contains("/same") {
        true => ["5", "5"],
        false => ["5", "6"],
    }
}

/// A server of HTTP/2 that says each length twice.
async fn repeating() -> std::net::SocketAddr {
    http2_origin(|request, mut respond| {
        let mut response = http::Response::new(());
        for length in lengths(request.uri().path()) {
            let length = length.parse().unwrap();
            response.headers_mut().append("content-length", length);
        }
        respond.send_response(response, true).unwrap();
    })
    .await
}

#[tokio::test]
async fn an_upgrade_that_is_required_is_said_to_clients_of_http1_and_no_other_is() {
    let address = origin(|mut connection| {
        while let Some(head) = connection.head() {
            let status = match head[0].contains("/required") {
                true => "426 Upgrade Required",
                false => "200 OK",
            };
            let named = match head[0].ends_with("/required http/1.1") {
                true => "upgrade",
                false => "upgrade, x-hop",
            };
            connection.write(&format!(
                "HTTP/1.1 {status}\r\nUpgrade: websocket\r\nConnection: {named}\r\nX-Hop: 1\r\n\
                 Sec-WebSocket-Version: 13\r\nContent-Length: 2\r\n\r\nno"
            ));
        }
    });
    let running = proxy(to(address));
    for version in VERSIONS {
        let mut client = Client::new(running.address, version).await;
        for (path, status) in [("/required", 426), ("/required/too", 426), ("/", 200)] {
            let response = client.ask(Request::get(path), "").await;
            assert_eq!(
                (response.status().as_u16(), &**response.body()),
                (status, "no")
            );
            let fields = response.headers();
            assert_eq!(fields["sec-websocket-version"], "13");
            let is_said = status == 426 && version == Version::HTTP_11;
            for (name, value) in [("upgrade", "websocket"), ("connection", "upgrade")] {
                let said = fields.get(name).map(http::HeaderValue::as_bytes);
                let expected = is_said.then_some(value.as_bytes());
                assert_eq!(said, expected, "{version:?} {path} {name}");
            }
            assert_eq!(fields.contains_key("x-hop"), path == "/required");
        }
    }
}

/// A server of HTTP/2 whose responses have so many fields.
async fn with_fields(fields: usize) -> std::net::SocketAddr {
    http2_origin(move |_, mut respond| {
        let mut response = http::Response::new(());
        for n in 0..fields {
            let name = http::HeaderName::try_from(format!("x-{n}")).unwrap();
            response.headers_mut().insert(name, n.into());
        }
        respond.send_response(response, true).unwrap();
    })
    .await
}
