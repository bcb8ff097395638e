//! The tests that look at the project from outside.
