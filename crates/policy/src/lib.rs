//! Which protocol to offer a client, why, and the Alt-Svc field that says so
