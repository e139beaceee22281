//! HTTP/3 over quinn-proto, both roles, sans-IO
