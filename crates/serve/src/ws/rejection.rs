//! Requests that ask for no WebSocket, or not in the way that opens one: the answers that axum gives to them.

use axum_core::response::{IntoResponse, Response};
use http::header::{ALLOW, CONNECTION, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderName, HeaderValue, StatusCode};

/// Reasons for which a request opens no WebSocket. The text is the response's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebSocketUpgradeRejection {
    /// The method of a request over HTTP/1.1 is not GET: 405.
    #[error("Request method must be `GET`")]
    MethodNotGet,
    /// The method of a request over HTTP/2 or HTTP/3 is not CONNECT: 405.
    #[error("Request method must be `CONNECT`")]
    MethodNotConnect,
    /// 400.
    #[error("Connection header did not include 'upgrade'")]
    InvalidConnectionHeader,
    /// 400.
    #[error("`Upgrade` header did not include 'websocket'")]
    InvalidUpgradeHeader,
    /// 400.
    #[error("`:protocol` pseudo-header did not include 'websocket'")]
    InvalidProtocolPseudoheader,
    /// 400, with the version that there is (RFC 6455 section 4.4).
    #[error("`Sec-WebSocket-Version` header did not include '13'")]
    InvalidWebSocketVersionHeader,
    /// 400.
    #[error("`Sec-WebSocket-Key` header missing")]
    WebSocketKeyHeaderMissing,
    /// 426: the request has content, or another extractor has taken its upgrade.
    #[error("WebSocket request couldn't be upgraded since no upgrade state was present")]
    ConnectionNotUpgradable,
}

impl WebSocketUpgradeRejection {
    /// The status of the response.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::MethodNotGet | Self::MethodNotConnect => StatusCode::METHOD_NOT_ALLOWED,
            Self::ConnectionNotUpgradable => StatusCode::UPGRADE_REQUIRED,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// Returns the fields that RFC 9110 and RFC 6455 require of the response.
    fn fields(self) -> &'static [(HeaderName, &'static str)] {
        match self {
            Self::MethodNotGet => &[(ALLOW, "GET")],
            Self::MethodNotConnect => &[(ALLOW, "CONNECT")],
            Self::InvalidWebSocketVersionHeader => &[(SEC_WEBSOCKET_VERSION, "13")],
            // Left out over HTTP/2 and HTTP/3.
            Self::ConnectionNotUpgradable => &[(CONNECTION, "upgrade"), (UPGRADE, "websocket")],
            _ => &[],
        }
    }
}

impl IntoResponse for WebSocketUpgradeRejection {
    fn into_response(self) -> Response {
        let mut response = (self.status(), self.to_string()).into_response();
        for (name, value) in self.fields() {
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(name, value);
        }
        response
    }
}
