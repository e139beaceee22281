//! An echo over WebSockets in an axum program: over HTTP/1.1, HTTP/2 and HTTP/3 by the same handler.
//!
//! ```text
//! cargo run -p altway-serve --example websockets
//! ```
//! Then, in the console of a browser at `https://localhost:8443/`:
//! ```text
//! socket = new WebSocket("/echo"); socket.onmessage = event => console.log(event.data)
//! socket.send("hello")
//! ```

use altway_serve::ws::{Message, WebSocket, WebSocketUpgrade};
use altway_serve::{Options, certs, serve};
use axum::Router;
use axum::response::Response;
use axum::routing::{any, get};
use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    Ok(serve(app(), Options::tls(certs::localhost()?)).await?)
}

/// The application. `any`, for over HTTP/2 and HTTP/3 a WebSocket is asked for by CONNECT.
pub(crate) fn app() -> Router {
    Router::new()
        .route("/", get(async || "new WebSocket(\"/echo\")\n"))
        .route("/echo", any(upgrade))
}

async fn upgrade(upgrade: WebSocketUpgrade) -> Response {
    upgrade
        .protocols(["echo"])
        .max_message_size(16 << 20)
        .on_upgrade(echo)
}

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        let answer = match message {
            Message::Text(_) | Message::Binary(_) => message,
            // Answered already.
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) => continue,
        };
        if socket.send(answer).await.is_err() {
            return;
        }
    }
}
