//! `axum::serve`, whose answers are the ones that are to be given, in clear text and over TLS.

use super::app::app;
use altway_serve::certs::Leaf;
use axum::extract::connect_info::{ConnectInfo, Connected, IntoMakeServiceWithConnectInfo};
use axum::extract::{Extension, Request};
use axum::serve::{IncomingStream, Listener};
use axum::{Router, middleware};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub(super) type Application = IntoMakeServiceWithConnectInfo<Router, SocketAddr>;

/// The application of the comparison with more routes.
pub(super) fn with(more: Router) -> Application {
    app().merge(more).into_make_service_with_connect_info()
}

/// Starts it over HTTP/1.1 and HTTP/2 in clear text.
pub(super) async fn clear() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    on_one_thread(listener, |listener| async {
        axum::serve(listener, with(Router::new())).await
    });
    address
}

/// Starts it over HTTP/1.1 and HTTP/2 over TLS. Gives its port.
pub(super) async fn over_tls(leaf: &Leaf, more: Router) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let tls = tls(leaf);
    let app = app().merge(more).layer(middleware::map_request(named));
    let app = app.into_make_service_with_connect_info::<Peer>();
    on_one_thread(listener, |listener| async {
        axum::serve(Handshaken::by(listener, tls), app).await
    });
    port
}

/// Serves in a runtime of one thread: multer 3.1, axum's parser of forms, takes a form for cut off whose content and end
/// come between its first two looks at them, as they may come from another thread.
fn on_one_thread<F>(listener: TcpListener, serve: impl FnOnce(TcpListener) -> F + Send + 'static)
where
    F: Future<Output = std::io::Result<()>>,
{
    let listener = listener.into_std().unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    std::thread::spawn(move || {
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            serve(listener).await
        })
    });
}

fn tls(leaf: &Leaf) -> TlsAcceptor {
    let chain = CertificateDer::pem_file_iter(&leaf.certificate).unwrap();
    let chain = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(&leaf.key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config.with_no_client_auth().with_single_cert(chain, key);
    let mut config = config.unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// Connections whose handshakes are done, each by a task of its own: a client may connect and say nothing.
struct Handshaken(mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>);

impl Handshaken {
    fn by(listener: TcpListener, tls: TlsAcceptor) -> Self {
        let (done, connections) = mpsc::channel(16);
        tokio::spawn(async move {
            while let Ok((stream, peer)) = listener.accept().await {
                let (tls, done) = (tls.clone(), done.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = tls.accept(stream).await {
                        let _ = done.send((stream, peer)).await;
                    }
                });
            }
        });
        Self(connections)
    }
}

impl Listener for Handshaken {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.0.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

/// The client's address: axum has it as a `SocketAddr` for its own listener alone.
#[derive(Clone)]
struct Peer(SocketAddr);

impl Connected<IncomingStream<'_, Handshaken>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Handshaken>) -> Self {
        Self(*stream.remote_addr())
    }
}

async fn named(
    Extension(ConnectInfo(peer)): Extension<ConnectInfo<Peer>>,
    mut request: Request,
) -> Request {
    request.extensions_mut().insert(ConnectInfo(peer.0));
    request
}
