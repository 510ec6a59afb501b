//! provider-local
