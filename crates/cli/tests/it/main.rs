//! Tests of the binary from the outside: what a person types, and what comes of it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test ends where it fails"
)]

mod acme;
mod admin_page;
mod attacks;
mod backends;
mod bad_input;
mod bad_plans;
mod beacon;
mod browsers_move;
mod certificates;
mod common;
mod config;
mod containers;
mod dns_record;
mod early_answers;
mod emulate;
mod explain;
mod first_byte;
mod guide;
mod h2spec;
mod haproxy;
mod insight;
mod interop;
mod interop_h2;
mod interop_h3;
mod lab;
mod lab_browsers;
mod lab_certificates;
mod lab_checked;
mod lab_compare;
mod lab_faults;
mod lab_links;
mod lab_plans;
mod lab_policies;
mod logs;
mod many_files;
mod notebook;
mod operator;
mod origins;
mod peers;
mod policy;
mod priorities;
mod proxy;
mod proxy_suites;
mod raw;
mod redbot;
mod report_page;
mod rounds;
mod service_manager;
mod sites;
mod snippets;
mod takeover;
mod topologies;
mod udp;
mod uploads;
mod writable;
