//! Tests of the index over real logs.
