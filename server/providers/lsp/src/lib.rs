//! Language servers.
