//! Runs a plan: cells, random interleaved blocks, namespaces, run folder, resume
