//! Runs the link model on real packets: namespaces, TUN, the link thread
