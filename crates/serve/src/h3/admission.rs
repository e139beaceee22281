//! Admission of QUIC connections by the worker's table of clients.
//!
//! An endpoint may go from thread to thread, so what it keeps must be `Send`. The table belongs to its
//! worker's thread: the endpoint keeps a key to what stands in this thread's registry.

use crate::clients::{Admitted, Clients, Transport};
use altway_http3::{self as http3, Admission, Guard, Retry};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

thread_local! {
    /// By the number of the registration.
    static REGISTRY: RefCell<FxHashMap<u64, Entry>> = RefCell::default();
}

struct Entry {
    clients: Clients,
    /// By the key in the connection's [`Ticket`]; bounded by the table's limit of connections.
    admitted: FxHashMap<u64, Rc<Admitted>>,
}

/// A table of clients in this thread's registry, until it is dropped.
#[derive(Debug)]
pub(super) struct Registration(u64);

/// A connection's key, which the endpoint keeps and drops with the connection.
struct Ticket {
    registration: u64,
    key: u64,
}

fn next_number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

impl Registration {
    /// To be called, as everything here, on the thread of the worker.
    pub(super) fn new(clients: Clients) -> Self {
        let entry = Entry {
            clients,
            admitted: FxHashMap::default(),
        };
        let number = next_number();
        REGISTRY.with_borrow_mut(|registry| registry.insert(number, entry));
        Self(number)
    }

    /// Lets in whom the table has room for. A client that has used up half of its share has to show its
    /// address first, or forged packets could use up the rest.
    pub(super) fn callback(&self, retry: Retry) -> http3::Admit {
        let number = self.0;
        Box::new(move |remote, validated| {
            let may_retry = !validated && retry != Retry::Never;
            admit(number, remote, may_retry).unwrap_or(Admission::Refuse)
        })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Its connections go after the registry is free again.
        let entry = REGISTRY.try_with(|registry| registry.borrow_mut().remove(&self.0));
        drop(entry);
    }
}

fn admit(registration: u64, remote: SocketAddr, may_retry: bool) -> Option<Admission> {
    let clients =
        REGISTRY.with_borrow(|registry| Some(registry.get(&registration)?.clients.clone()))?;
    if may_retry && clients.is_crowded(remote.ip()) {
        return Some(Admission::Retry);
    }
    let admitted = clients.admit(remote.ip(), Transport::Quic, Instant::now())?;
    let share = Some(admitted.quic_share());
    let key = next_number();
    REGISTRY.with_borrow_mut(|registry| {
        let entry = registry.get_mut(&registration)?;
        entry.admitted.insert(key, admitted)
    });
    Some(Admission::Accept(Guard {
        value: Some(Box::new(Ticket { registration, key })),
        share,
    }))
}

/// The connection's place in the table of clients.
pub(super) fn admitted(guard: &Guard) -> Option<Rc<Admitted>> {
    let ticket = guard.value.as_ref()?.downcast_ref::<Ticket>()?;
    REGISTRY.with_borrow(|registry| {
        let entry = registry.get(&ticket.registration)?;
        entry.admitted.get(&ticket.key).map(Rc::clone)
    })
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let gone = REGISTRY.try_with(|registry| {
            let mut registry = registry.borrow_mut();
            let entry = registry.get_mut(&self.registration)?;
            entry.admitted.remove(&self.key)
        });
        drop(gone);
    }
}
