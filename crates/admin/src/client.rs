//! Asks the admin socket of another process.

use crate::Address;
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Builder;
use tokio::time::timeout;

/// The time that an answer may take: a reload opens folders and reads certificates.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// An answer is never longer.
const MAX_ANSWER: usize = 16 << 20;

/// An answer of an admin socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminResponse {
    /// The status of HTTP.
    pub status: StatusCode,
    /// The content.
    pub text: String,
}

/// An admin socket that can't be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// Nobody answers there.
    #[error("no server answers at the admin socket `{at}`")]
    Connect {
        /// The address.
        at: Address,
        /// The system's error.
        source: io::Error,
    },
    /// Another program answers there, or the answer stopped in the middle.
    #[error("the admin socket `{at}` gave no answer: {reason}")]
    Broken {
        /// The address.
        at: Address,
        /// The fault of the answer.
        reason: String,
    },
}

/// Asks the admin socket at `at` for `target` (path and query), and waits for the answer, for a minute at most.
///
/// # Errors
/// Nobody answers, or not as an admin socket does.
pub fn call(at: &Address, method: Method, target: &str) -> Result<AdminResponse, CallError> {
    let broken = |reason: String| CallError::Broken {
        at: at.clone(),
        reason,
    };
    let refused = |source| CallError::Connect {
        at: at.clone(),
        source,
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| broken(error.to_string()))?;
    let asking = async {
        match at {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(refused)?;
                ask(stream, method, target).await.map_err(broken)
            }
            Address::Loopback(address) => {
                let stream = TcpStream::connect(address).await.map_err(refused)?;
                ask(stream, method, target).await.map_err(broken)
            }
        }
    };
    let asked = runtime.block_on(async { timeout(CALL_TIMEOUT, asking).await });
    asked.unwrap_or_else(|_| Err(broken(format!("not within {} s", CALL_TIMEOUT.as_secs()))))
}

async fn ask(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    method: Method,
    target: &str,
) -> Result<AdminResponse, String> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error_text(&error))?;
    let request = Request::builder()
        .method(method)
        .uri(target)
        .header(header::HOST, "localhost")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let exchange = async {
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| error_text(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER)
            .collect()
            .await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        Ok(AdminResponse {
            status,
            text: String::from_utf8_lossy(&body).into_owned(),
        })
    };
    tokio::select! {
        answered = exchange => answered,
        Err(error) = connection => Err(error_text(&error)),
    }
}

fn error_text(error: &hyper::Error) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
