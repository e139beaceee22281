//! Requests that the extractor takes for the opening handshake of a WebSocket, and those that it
//! doesn't.

use super::*;
use WebSocketUpgradeRejection as Rejection;
use http::Request;

fn checked(request: http::request::Builder) -> Option<Rejection> {
    check(&request.body(()).unwrap().into_parts().0).err()
}

fn http1() -> http::request::Builder {
    Request::get("/")
        .header(CONNECTION, "keep-alive, Upgrade")
        .header(UPGRADE, "WebSocket")
        .header(SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ==")
        .header(SEC_WEBSOCKET_VERSION, "13")
}

fn without(name: http::HeaderName) -> http::request::Builder {
    let mut request = http1();
    request.headers_mut().unwrap().remove(name);
    request
}

#[test]
fn a_handshake_over_http1_has_method_and_fields() {
    assert_eq!(checked(http1()), None);
    let post = checked(http1().method("POST"));
    assert_eq!(post, Some(Rejection::MethodNotGet));
    for (name, rejection) in [
        (CONNECTION, Rejection::InvalidConnectionHeader),
        (UPGRADE, Rejection::InvalidUpgradeHeader),
        (SEC_WEBSOCKET_KEY, Rejection::WebSocketKeyHeaderMissing),
        (
            SEC_WEBSOCKET_VERSION,
            Rejection::InvalidWebSocketVersionHeader,
        ),
    ] {
        assert_eq!(checked(without(name)), Some(rejection));
    }
}

#[test]
fn a_handshake_over_http2_and_http3_is_an_extended_connect() {
    for version in [Version::HTTP_2, Version::HTTP_3] {
        let connect = |uri| Request::connect(uri).version(version);
        let extended = || connect("https://a.test/");
        let asked = extended().header(SEC_WEBSOCKET_VERSION, "13");
        assert_eq!(checked(asked), None);
        assert_eq!(
            checked(extended().header(SEC_WEBSOCKET_VERSION, "12")),
            Some(Rejection::InvalidWebSocketVersionHeader)
        );
        assert_eq!(
            checked(connect("a.test:443")),
            Some(Rejection::InvalidProtocolPseudoheader)
        );
        assert_eq!(
            checked(http1().version(version)),
            Some(Rejection::MethodNotConnect)
        );
    }
}

#[test]
fn the_first_known_protocol_that_is_asked_for_is_selected() {
    let select = |asked: &[&str], known: [&'static str; 2]| {
        let mut request = Request::connect("https://a.test/chat").version(Version::HTTP_2);
        for value in asked {
            request = request.header(SEC_WEBSOCKET_PROTOCOL, *value);
        }
        let mut request = request.body(crate::RequestBody::empty()).unwrap();
        let (upgrade, _outlet) = Upgrade::offer(&mut request).unwrap();
        let upgrade = WebSocketUpgrade {
            upgrade,
            config: WebSocketConfig::default(),
            requested: requested(request.headers()),
            selected: None,
            on_failed_upgrade: IgnoreFailure,
        };
        let upgrade = upgrade.protocols(known);
        let selected = upgrade.selected_protocol();
        selected.map(|it| it.to_str().unwrap().to_owned())
    };
    assert_eq!(select(&["b, a"], ["a", "b"]).unwrap(), "a");
    assert_eq!(select(&["c", "b"], ["a", "b"]).unwrap(), "b");
    assert_eq!(select(&["ab"], ["a", "b"]), None);
    assert_eq!(select(&[], ["a", "b"]), None);
}

#[test]
fn a_message_is_taken_for_text_or_bytes_as_by_axum() {
    let close = Message::Close(Some(CloseFrame {
        code: close_code::NORMAL,
        reason: "done".into(),
    }));
    for (message, content) in [
        (Message::text(String::from("text")), "text"),
        (Message::binary("bytes"), "bytes"),
        (Message::from(&b"slice"[..]), "slice"),
        (close, "done"),
        (Message::Close(None), ""),
    ] {
        assert_eq!(message.to_text().unwrap(), content);
        assert_eq!(message.clone().into_text().unwrap(), content.to_owned());
        assert_eq!(Vec::from(message), content.as_bytes());
    }
    let no_text = Message::binary(vec![0xff]);
    assert!(no_text.to_text().is_err() && no_text.into_text().is_err());
}
