//! The server: sockets, TLS, workers, files, Alt-Svc
