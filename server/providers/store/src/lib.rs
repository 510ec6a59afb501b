//! provider-store
