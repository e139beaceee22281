//! Requests that have a route, and those that have none.

use super::*;
use http_body_util::BodyExt;
use proptest::prelude::*;

/// Answers with the name of the route and the parameters.
fn named(
    name: &'static str,
) -> impl Fn(Request<RequestBody>) -> std::future::Ready<Response<String>> {
    move |request| {
        let mut text = name.to_owned();
        for (name, value) in PathParameters::of(&request).iter() {
            text.push_str(&format!(" {name}={value}"));
        }
        ready(Response::new(text))
    }
}

fn router() -> Router {
    let build = || {
        Router::new()
            .get("/", named("home"))?
            .get("/files/{file_name}", named("show"))?
            .get("/files/new", named("new"))?
            .post("/files", named("store"))?
            .get("/files", named("list"))?
            .put("/a/{b}/c/{d}", named("two"))?
            .get("/a/fixed/{rest}", named("fixed"))?
            .get("/static/{*path}", named("static"))?
            .any("/any", named("any"))?
            .delete("/any", named("delete"))
    };
    build().unwrap()
}

/// Status, Allow and content.
fn ask(router: &Router, method: &str, path: &str) -> (u16, String, String) {
    let request = Request::builder().method(method).uri(path);
    let request = request.body(RequestBody::empty()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        let response = router.clone().call(request).await.unwrap();
        let (head, body) = response.into_parts();
        let allow = head.headers.get(ALLOW);
        let allow = allow.map_or_else(String::new, |it| it.to_str().unwrap().to_owned());
        let content = body.collect().await.unwrap().to_bytes();
        let content = String::from_utf8(content.to_vec()).unwrap();
        (head.status.as_u16(), allow, content)
    })
}

#[test]
fn fixed_text_comes_before_a_parameter() {
    let router = router();
    for (method, path, expected) in [
        ("GET", "/", "home"),
        ("GET", "/files/photo.jpg", "show file_name=photo.jpg"),
        ("HEAD", "/files/photo.jpg", "show file_name=photo.jpg"),
        ("GET", "/files/new", "new"),
        ("GET", "/files/newer", "show file_name=newer"),
        ("GET", "/%66iles/n%65w", "new"),
        ("GET", "/files", "list"),
        ("POST", "/files", "store"),
        ("PUT", "/a/1/c/2", "two b=1 d=2"),
        ("PUT", "/a/fixed/c/2", "two b=fixed d=2"),
        ("GET", "/a/fixed/x", "fixed rest=x"),
        ("GET", "/static/css/a.css", "static path=css/a.css"),
        ("GET", "/files/a%20b%2Fc", "show file_name=a b/c"),
        ("GET", "/files/%C3%A9?q=1", "show file_name=é"),
        ("PATCH", "/any", "any"),
        ("OPTIONS", "/any", "any"),
        ("DELETE", "/any", "delete"),
    ] {
        let (status, _, content) = ask(&router, method, path);
        assert_eq!((status, &*content), (200, expected), "{method} {path}");
    }
}

#[test]
fn what_has_no_route_is_told_apart() {
    let router = router();
    let files = "GET, HEAD, OPTIONS, POST";
    for (method, path, status, allow) in [
        ("GET", "/none", 404, ""),
        ("GET", "/files/", 404, ""),
        ("GET", "/files/a/b", 404, ""),
        ("GET", "/static/", 404, ""),
        ("OPTIONS", "/none", 404, ""),
        ("DELETE", "/files", 405, files),
        ("OPTIONS", "/files", 204, files),
        ("get", "/files", 405, files),
        ("POST", "/files/a", 405, "GET, HEAD, OPTIONS"),
        ("GET", "/a/1/c/2", 405, "OPTIONS, PUT"),
        ("OPTIONS", "*", 204, "DELETE, GET, HEAD, OPTIONS, POST, PUT"),
        ("GET", "/files/%FF", 400, ""),
    ] {
        let (found, found_allow, _) = ask(&router, method, path);
        assert_eq!((found, &*found_allow), (status, allow), "{method} {path}");
    }
    let router = router.fallback(named("else"));
    assert_eq!(ask(&router, "GET", "/none").2, "else");
    assert_eq!(ask(&router, "DELETE", "/files").0, 405);
}

#[test]
fn what_is_registered_twice_is_refused() {
    let again = |method: Method, path: &str| {
        let refused = router().route(method, path, named("again"));
        refused.unwrap_err().to_string()
    };
    let get = again(Method::GET, "/files/{file_name}");
    assert_eq!(get, "GET `/files/{file_name}` is registered twice");
    let other = again(Method::PUT, "/files/{name}");
    assert_eq!(
        other,
        "`/files/{name}` can't be told from `/files/{file_name}`"
    );
    let any = router().any("/any", named("again")).unwrap_err();
    assert_eq!(any.to_string(), "any method of `/any` is registered twice");
    router()
        .route(Method::PUT, "/files/{file_name}", named("put"))
        .unwrap();
}

#[test]
fn what_is_no_path_is_refused_with_its_reason() {
    for (path, reason) in [
        ("", "it begins with `/`"),
        ("files", "it begins with `/`"),
        ("/a?b", "queries are not looked at"),
        (
            "/a%20b",
            "characters stand for themselves: write them without `%`",
        ),
        ("/é", "it is of visible ASCII characters"),
        ("/{", "a parameter is `{name}` or, at the end, `{*name}`"),
        ("/{*a}/b", "`{*name}` stands at the end"),
    ] {
        let refused = Router::new().get(path, named("x")).unwrap_err();
        let expected = format!("`{path}` is not a path of routes: {reason}");
        assert_eq!(refused.to_string(), expected);
    }
}

#[test]
fn a_function_may_fail_and_a_service_may_be_a_route() {
    let fails = async |_: Request<RequestBody>| Err::<Response<String>, _>("on purpose");
    let inner = Router::new().get("/inner/{x}", named("inner")).unwrap();
    let router = Router::new().get("/fails", fails).unwrap();
    let mut router = router.get("/inner/{*all}", inner).unwrap();
    assert_eq!(ask(&router, "GET", "/inner/1").2, "inner x=1");
    let request = Request::get("/fails").body(RequestBody::empty()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let failed = runtime.unwrap().block_on(router.call(request)).unwrap_err();
    assert_eq!(failed.to_string(), "on purpose");
}

proptest! {
    #[test]
    fn no_path_makes_the_router_panic(path in "/[ -~é%{}*]{0,40}") {
        let _ = Router::new().get(&path, named("x"));
        let _ = parameters::normalized(&path);
    }

    #[test]
    fn a_segment_of_any_bytes_is_the_parameter(segment in prop::collection::vec(any::<char>(), 1..20)) {
        let segment: String = segment.into_iter().collect();
        let escaped = percent_encoding::utf8_percent_encode(&segment, percent_encoding::NON_ALPHANUMERIC);
        let (status, _, content) = ask(&router(), "GET", &format!("/files/{escaped}"));
        prop_assert_eq!(status, 200);
        if segment != "new" {
            prop_assert_eq!(content, format!("show file_name={segment}"));
        }
    }
}
