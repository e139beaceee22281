//! Clients: what each family takes over QUIC, and what moving costs it.

/// Families of clients, as they really are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Browser {
    /// Chromium on a desktop.
    ChromiumDesktop,
    /// Chromium on Android.
    ChromiumAndroid,
    /// Safari.
    Safari,
    /// Firefox.
    Firefox,
    /// A web view in an app.
    WebView,
    /// curl.
    Curl,
    /// altway's own client.
    Own,
    /// Anything else.
    Other,
}

/// Assumptions on a family.
struct Traits {
    browser: Browser,
    /// Share of clients.
    share: f64,
    /// Median bit/s that it takes over QUIC.
    quic_limit: f64,
    /// Share of returning connections that use early data.
    early_data: f64,
    /// Round trips that the switch within a page costs.
    switch: f64,
    /// Requests at hand stay on HTTP/2 where QUIC is not known to work on the network.
    stays: bool,
    user_agent: &'static str,
}

/// Limits of phones and Safari are assumptions, as is that of Chromium on a machine for itself: the surface's is of two processors with
/// a server beside it. Servers have to find them out.
const TRAITS: [Traits; 8] = [
    Traits {
        browser: Browser::ChromiumDesktop,
        share: 0.34,
        quic_limit: 735e6,
        early_data: 0.6,
        switch: 1.0,
        stays: true,
        user_agent: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36",
    },
    Traits {
        browser: Browser::ChromiumAndroid,
        share: 0.26,
        quic_limit: 260e6,
        early_data: 0.6,
        switch: 1.0,
        stays: true,
        user_agent: "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Mobile Safari/537.36",
    },
    Traits {
        browser: Browser::Safari,
        share: 0.20,
        quic_limit: 450e6,
        early_data: 0.0,
        switch: 0.5,
        stays: false,
        user_agent: "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1 Mobile/15E148 Safari/604.1",
    },
    Traits {
        browser: Browser::Firefox,
        share: 0.05,
        quic_limit: 420e6,
        early_data: 0.5,
        switch: 1.0,
        stays: false,
        user_agent: "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0",
    },
    Traits {
        browser: Browser::WebView,
        share: 0.06,
        quic_limit: 220e6,
        early_data: 0.4,
        switch: 1.0,
        stays: true,
        user_agent: "Mozilla/5.0 (Linux; Android 14; Pixel 8; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/156.0.0.0 Mobile Safari/537.36",
    },
    Traits {
        browser: Browser::Curl,
        share: 0.03,
        quic_limit: 1500e6,
        early_data: 0.0,
        switch: 1.0,
        stays: true,
        user_agent: "curl/8.15.0",
    },
    Traits {
        browser: Browser::Own,
        share: 0.01,
        quic_limit: 2500e6,
        early_data: 0.5,
        switch: 1.0,
        stays: false,
        user_agent: "altway-load/0.1",
    },
    Traits {
        browser: Browser::Other,
        share: 0.05,
        quic_limit: 400e6,
        early_data: 0.2,
        switch: 0.5,
        stays: false,
        user_agent: "",
    },
];

impl Browser {
    /// All families.
    pub const ALL: [Self; 8] = [
        Self::ChromiumDesktop,
        Self::ChromiumAndroid,
        Self::Safari,
        Self::Firefox,
        Self::WebView,
        Self::Curl,
        Self::Own,
        Self::Other,
    ];

    fn traits(self) -> &'static Traits {
        let found = TRAITS.iter().find(|traits| traits.browser == self);
        found.expect("each family has its traits")
    }

    /// Shares of clients, in the order of [`ALL`](Self::ALL).
    pub(crate) fn shares() -> [f64; 8] {
        Self::ALL.map(|browser| browser.traits().share)
    }

    /// Median bit/s that clients of this family take over QUIC.
    #[must_use]
    pub fn quic_limit(self) -> f64 {
        self.traits().quic_limit
    }

    /// Share of returning connections that use early data.
    pub(crate) fn early_data(self) -> f64 {
        self.traits().early_data
    }

    /// Round trips that moving to HTTP/3 within a page costs.
    pub(crate) fn switch(self) -> f64 {
        self.traits().switch
    }

    /// True if the page at hand stays on HTTP/2 where QUIC is not known to work on the network.
    pub(crate) fn stays(self) -> bool {
        self.traits().stays
    }

    /// True if it goes on over the connection over HTTP/3 that it has when a response takes the offer back.
    pub(crate) fn keeps_cleared_connection(self) -> bool {
        self == Self::Firefox
    }

    /// True if it keeps an entry for each protocol that it came over, so that a response over HTTP/3 neither prolongs nor takes
    /// back what one over HTTP/2 offered.
    pub(crate) fn heeds_http2_alone(self) -> bool {
        self == Self::Curl
    }

    /// True if it comes over TCP where UDP doesn't get through. curl tries QUIC alone until the offer has run out.
    pub(crate) fn falls_back(self) -> bool {
        self != Self::Curl
    }

    /// True if it runs on a phone.
    pub(crate) fn is_mobile(self) -> bool {
        matches!(self, Self::ChromiumAndroid | Self::Safari | Self::WebView)
    }

    /// User-Agent as such clients send it (RFC 9110 section 10.1.5); empty: none.
    #[must_use]
    pub fn user_agent(self) -> &'static str {
        self.traits().user_agent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_its_traits_and_the_shares_are_all() {
        assert!((Browser::shares().iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(Browser::Safari.quic_limit(), 450e6);
    }
}
