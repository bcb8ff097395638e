//! The chores that tests call too: [`bless`] records expectations, [`tidy`] holds the house rules.

pub mod bless;
pub mod tidy;
