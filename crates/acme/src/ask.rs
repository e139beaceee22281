//! The question to a program of the operator whether a name may have a certificate: `GET URL?domain=NAME`, answered with
//! 200 where it may.

use crate::Error;
use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The longest time of a question.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The port of `http` where none is named.
const HTTP: u16 = 80;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The place where the question is asked.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    authority: http::uri::Authority,
    path: String,
    user_agent: HeaderValue,
}

impl Program {
    /// `url`: of `http`, with or without a query.
    ///
    /// # Errors
    /// The text is no such URL.
    pub(crate) fn new(url: &str, user_agent: &str) -> Result<Self, Error> {
        let bad = || Error::Ask { url: url.into() };
        let uri: Uri = url.parse().map_err(|_| bad())?;
        let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http"));
        let path = uri.path_and_query().map_or("/", |it| it.as_str());
        Ok(Self {
            authority: authority.ok_or_else(bad)?.clone(),
            path: path.into(),
            user_agent: HeaderValue::from_str(user_agent)
                .unwrap_or(HeaderValue::from_static("altway")),
        })
    }

    /// Asks for a name, which needs no encoding in a query.
    ///
    /// # Errors
    /// There is no answer in time; why, in words.
    pub(crate) async fn allows(&self, name: &str) -> Result<bool, String> {
        match timeout(TIMEOUT, self.ask(name)).await {
            Ok(Ok(status)) => Ok(status == StatusCode::OK),
            Ok(Err(error)) => Err(format!("no answer from {}: {error}", self.authority)),
            Err(_) => Err(format!("no answer from {} in time", self.authority)),
        }
    }

    async fn ask(&self, name: &str) -> Result<StatusCode, Failed> {
        let host = self.authority.host().trim_matches(['[', ']']);
        let port = self.authority.port_u16().unwrap_or(HTTP);
        let stream = TcpStream::connect((host, port)).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(connection);
        let request = Request::get(self.target(name))
            .header(header::HOST, self.authority.as_str())
            .header(header::USER_AGENT, self.user_agent.clone())
            .body(Empty::<Bytes>::new())?;
        let status = sender.send_request(request).await.map(|it| it.status());
        // What it says beside the status is of no use.
        driver.abort();
        Ok(status?)
    }

    fn target(&self, name: &str) -> String {
        let mark = if self.path.contains('?') { '&' } else { '?' };
        format!("{}{mark}domain={name}", self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_the_query_or_a_part_of_it() {
        for (url, target) in [
            ("http://127.0.0.1:9123/allowed", "/allowed?domain=a.example"),
            ("http://[::1]:1/", "/?domain=a.example"),
            ("http://app", "/?domain=a.example"),
            ("http://app/ask?key=1", "/ask?key=1&domain=a.example"),
        ] {
            let program = Program::new(url, "altway/0").unwrap();
            assert_eq!(program.target("a.example"), target);
        }
        for url in ["", "/allowed", "https://app/", "app:80"] {
            assert!(Program::new(url, "altway/0").is_err(), "{url}");
        }
    }
}
