//! What is known of a client's network path: samples in, statistics out
