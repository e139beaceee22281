//! The application of the comparison: every kind of extractor, rejection, body and layer.

use axum::body::Body;
use axum::extract::multipart::{Multipart, MultipartError};
use axum::extract::rejection::JsonRejection;
use axum::extract::{
    ConnectInfo, DefaultBodyLimit, Extension, Form, Json, MatchedPath, OriginalUri, Path, Query,
    RawQuery, Request, State,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::sse::{Event, Sse};
use axum::response::{Html, IntoResponse, NoContent, Redirect, Response};
use axum::routing::{any, delete, get, post, put};
use axum::{Router, middleware};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::cors::{Any, CorsLayer};
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

type Fields = BTreeMap<String, String>;

/// More than a frame, a record and a window.
pub(super) const LARGE: usize = 300_007;

pub(super) fn app() -> Router {
    let limited = Router::new()
        .route("/default", post(async |body: Bytes| body.len().to_string()))
        .layer(DefaultBodyLimit::max(1000))
        .route("/layer", post(length))
        .route_layer(RequestBodyLimitLayer::new(2000))
        .route(
            "/multipart",
            post(multipart).layer(DefaultBodyLimit::max(1000)),
        );
    let slow = get(async || tokio::time::sleep(Duration::from_secs(60)).await);
    let timeout =
        TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, Duration::from_millis(50));
    let panics = get(async || -> &'static str { panic!("as it should") });
    let cors = CorsLayer::new().allow_origin(Any).allow_methods(Any);
    let named = SetResponseHeaderLayer::overriding(
        HeaderName::from_static("x-layer"),
        HeaderValue::from_static("set"),
    );
    let id = HeaderName::from_static("x-request-id");
    let identified = Router::new()
        .route("/", get(async || "identified"))
        .layer(PropagateRequestIdLayer::new(id.clone()))
        .layer(SetRequestIdLayer::new(id, MakeRequestUuid));
    let guarded = Router::new()
        .route("/", get(async || "inside"))
        .layer(middleware::from_fn(guard));
    extractors()
        .merge(bodies())
        .merge(responses())
        .nest("/limited", limited)
        .nest("/identified", identified)
        .nest("/guarded", guarded)
        .route("/slow", slow.layer(timeout))
        .route("/panic", panics.layer(CatchPanicLayer::new()))
        .route("/cors", get(async || "shared").layer(cors))
        .route("/named", get(async || "named").layer(named))
        .fallback(async |uri: OriginalUri| (StatusCode::NOT_FOUND, format!("no {}", uri.path())))
        .layer(TraceLayer::new_for_http())
        .with_state("state")
}

fn extractors() -> Router<&'static str> {
    let checked = async |json: Result<Json<Value>, JsonRejection>| match json {
        Ok(Json(value)) => format!("{value}"),
        Err(rejection) => format!("{} {}", rejection.status(), rejection.body_text()),
    };
    let peer = async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.ip().to_string();
    let missing = async |Extension(missing): Extension<u64>| missing.to_string();
    Router::new()
        .route("/path/{name}", get(async |Path(name): Path<String>| name))
        .route("/number/{n}", get(async |Path(n): Path<u8>| n.to_string()))
        .route(
            "/two/{a}/{b}",
            get(async |Path((a, b)): Path<(String, i64)>| format!("{a}-{b}")),
        )
        .route("/rest/{*rest}", get(async |Path(rest): Path<String>| rest))
        .route(
            "/query",
            get(async |Query(query): Query<Fields>| Json(query)),
        )
        .route(
            "/query/typed",
            get(async |Query(query): Query<Vec<(String, u8)>>| Json(query)),
        )
        .route(
            "/query/raw",
            get(async |RawQuery(query)| query.unwrap_or_default()),
        )
        .route("/json", post(async |Json(value): Json<Value>| Json(value)))
        .route(
            "/json/typed",
            post(async |Json(n): Json<Vec<u8>>| n.len().to_string()),
        )
        .route("/json/checked", post(checked))
        .route("/form", post(async |Form(form): Form<Fields>| Json(form)))
        .route("/form", get(async |Form(form): Form<Fields>| Json(form)))
        .route("/multipart", post(multipart))
        .route("/multipart/first", post(first_field))
        .route(
            "/state",
            get(async |State(state): State<&'static str>| state),
        )
        .route("/peer", get(peer))
        .route("/missing", get(missing))
        .route(
            "/matched/{x}",
            get(async |path: MatchedPath| path.as_str().to_owned()),
        )
        .route("/method", any(async |method: Method| method.to_string()))
        .route("/fields", get(fields))
}

fn bodies() -> Router<&'static str> {
    let large = async || vec![b'a'; LARGE];
    let compressed = get(async || "compress me, ".repeat(1000)).layer(CompressionLayer::new());
    Router::new()
        .route("/echo", post(async |body: Body| body))
        .route("/echo", put(async |body: Bytes| body))
        .route("/length", post(length))
        .route("/text", post(async |text: String| text))
        .route("/ignore", post(async || "ignored"))
        .route("/large", get(large))
        .route("/empty", get(async || ""))
        .route("/stream", get(async || Body::from_stream(chunks(20))))
        .route("/stream/empty", get(async || Body::from_stream(chunks(0))))
        .route("/events", get(async || Sse::new(events())))
        .route("/compressed", compressed)
}

fn responses() -> Router<&'static str> {
    let twice = async || {
        let cookies = [(header::SET_COOKIE, "a=1"), (header::SET_COOKIE, "b=2")];
        (axum::response::AppendHeaders(cookies), "twice")
    };
    let unchanged = async || (StatusCode::NOT_MODIFIED, [(header::ETAG, "\"1\"")]);
    let bytes = async || {
        let value = HeaderValue::from_bytes(b"r\xe9sum\xe9").unwrap();
        ([(HeaderName::from_static("x-latin"), value)], "latin")
    };
    Router::new()
        .route("/html", get(async || Html("<p>hello")))
        .route("/redirect", get(async || Redirect::to("/html")))
        .route("/redirect/kept", get(async || Redirect::permanent("/html")))
        .route("/nothing", delete(async || NoContent))
        .route(
            "/created",
            post(async || (StatusCode::CREATED, Json(json!({"id": 1})))),
        )
        .route("/teapot", get(async || StatusCode::IM_A_TEAPOT))
        .route("/twice", get(twice))
        .route("/unchanged", get(unchanged))
        .route("/latin", get(bytes))
        .route("/failed", get(failed))
}

async fn fields(fields: HeaderMap) -> String {
    let mut lines: Vec<_> = fields
        .iter()
        .filter(|(name, _)| name.as_str().starts_with("x-"))
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    lines.sort();
    lines.join("\n")
}

async fn length(body: Body) -> Result<String, (StatusCode, String)> {
    match body.collect().await {
        Ok(collected) => Ok(collected.to_bytes().len().to_string()),
        Err(error) => Err((StatusCode::PAYLOAD_TOO_LARGE, error.to_string())),
    }
}

/// Reads a form field by field, each as it arrives.
async fn multipart(mut form: Multipart) -> Result<String, MultipartError> {
    let mut fields = Vec::new();
    while let Some(mut field) = form.next_field().await? {
        let of = (field.name(), field.file_name(), field.content_type());
        let described = format!("{of:?}");
        let mut size = 0;
        while let Some(chunk) = field.chunk().await? {
            size += chunk.len();
        }
        fields.push(format!("{described}: {size}"));
    }
    Ok(fields.join("\n"))
}

/// Leaves all but the first field unread.
async fn first_field(mut form: Multipart) -> Result<String, MultipartError> {
    match form.next_field().await? {
        Some(field) => field.text().await,
        None => Ok("no field".into()),
    }
}

async fn failed() -> Result<&'static str, (StatusCode, &'static str)> {
    Err((StatusCode::BAD_GATEWAY, "no upstream"))
}

async fn guard(fields: HeaderMap, request: Request, next: middleware::Next) -> Response {
    match fields.get(header::AUTHORIZATION) {
        Some(_) => next.run(request).await,
        None => StatusCode::UNAUTHORIZED.into_response(),
    }
}

fn chunks(n: usize) -> impl stream::Stream<Item = Result<String, Infallible>> + Send {
    stream::unfold(0, move |i| async move {
        tokio::task::yield_now().await;
        (i < n).then(|| (Ok(format!("chunk {i}\n")), i + 1))
    })
}

fn events() -> impl stream::Stream<Item = Result<Event, Infallible>> + Send {
    stream::iter((0..3).map(|i| Ok(Event::default().event("tick").data(i.to_string()))))
}
