//! Classes of real and of hostile clients.

use super::*;
use proptest::prelude::*;

const CHROME: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
    Chrome/156.0.0.0 Safari/537.36";
const ANDROID: &str = "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) \
    Chrome/156.0.0.0 Mobile Safari/537.36";
const WEB_VIEW: &str = "Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/UD1A; wv) AppleWebKit/537.36 \
    (KHTML, like Gecko) Version/4.0 Chrome/156.0.0.0 Mobile Safari/537.36";
const SAFARI: &str = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 \
    (KHTML, like Gecko) Version/19.0 Safari/605.1.15";
const CHROME_ON_IOS: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) \
    AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/156.0 Mobile/15E148 Safari/604.1";

fn of(agent: &str) -> String {
    let hints = Hints {
        user_agent: Some(agent.as_bytes()),
        ..Hints::default()
    };
    ClientClass::of(&hints).to_string()
}

#[test]
fn tells_the_browsers_apart() {
    assert_eq!(of(CHROME), "chromium-windows");
    assert_eq!(of(ANDROID), "chromium-android");
    assert_eq!(of(WEB_VIEW), "webview-android");
    assert_eq!(of(SAFARI), "safari-macos");
    assert_eq!(of("curl/8.15.0"), "curl-other");
    assert_eq!(of("altway/0.1.0"), "altway-other");
}

#[test]
fn every_browser_on_ios_has_safaris_stack() {
    assert_eq!(of(CHROME_ON_IOS), "safari-ios");
}

#[test]
fn what_is_no_browser_is_other() {
    for agent in [
        "",
        "Mozilla/5.0",
        "Go-http-client/2.0",
        "xcurl/8.0",
        "Firefox/",
    ] {
        assert_eq!(of(agent), "other-other", "{agent}");
    }
}

#[test]
fn a_field_counts_up_to_its_first_512_bytes() {
    let padded = |length: usize| format!("{}Gecko/1 Firefox/153.0", " ".repeat(length));
    let needed = "Gecko/1 Firefox/".len();
    assert_eq!(of(&padded(MAX_FIELD - needed)), "firefox-other");
    assert_eq!(of(&padded(MAX_FIELD - needed + 1)), "other-other");
}

#[test]
fn hints_go_before_the_frozen_agent() {
    let hints = Hints {
        user_agent: Some(ANDROID.as_bytes()),
        brands: Some(br#""Chromium";v="156", "Not=A?Brand";v="8""#),
        platform: Some(br#""Chrome OS""#),
        look: Some(Stack::Chromium),
    };
    assert_eq!(ClientClass::of(&hints).to_string(), "chromium-chromeos");
}

#[test]
fn contradictions_are_other() {
    let firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0";
    let brands: &[u8] = br#""Chromium";v="156""#;
    let hints = Hints {
        user_agent: Some(firefox.as_bytes()),
        brands: Some(brands),
        ..Hints::default()
    };
    assert_eq!(ClientClass::of(&hints), ClientClass::OTHER);
    for look in [Stack::Firefox, Stack::Apple, Stack::Other] {
        let hints = Hints {
            user_agent: Some(CHROME.as_bytes()),
            look: Some(look),
            ..Hints::default()
        };
        assert_eq!(ClientClass::of(&hints), ClientClass::OTHER);
    }
}

#[test]
fn an_index_has_six_bits_and_leads_back() {
    assert_eq!(ClientClass::all().count(), 49);
    for class in ClientClass::all() {
        assert!(usize::from(class.index()) < ClientClass::COUNT);
        assert_eq!(ClientClass::from_index(class.index()), Some(class));
        assert_eq!(class.to_string().parse(), Ok(class));
    }
    assert_eq!(ClientClass::from_index(7), None);
    assert_eq!(ClientClass::from_index(255), None);
}

proptest! {
    #[test]
    fn any_bytes_have_a_class(
        agent: Option<Vec<u8>>,
        brands: Option<Vec<u8>>,
        platform: Option<Vec<u8>>,
    ) {
        let hints = Hints {
            user_agent: agent.as_deref(),
            brands: brands.as_deref(),
            platform: platform.as_deref(),
            look: None,
        };
        prop_assert!(usize::from(ClientClass::of(&hints).index()) < ClientClass::COUNT);
    }
}
