//! Pages of answers as data, and pictures of machines and channels.
//!
//! A [`Page`] has a title, fields, and sections of tables, sentences and pictures. A question's
//! answer makes it once; a terminal ([`terminal`]) and the page in the browser (as JSON) show it.
//!
//! The crate is pure. In reading order: [`page`] and [`table`] (the model), [`numbers`],
//! [`terminal`], `markdown`, `columns` (how a terminal arranges a table), [`draw`] (pictures).

mod columns;
pub mod draw;
mod markdown;
pub mod numbers;
pub mod page;
pub mod table;
pub mod terminal;

pub use page::{Block, Field, Page, Section, Tone};
pub use table::Table;
pub use terminal::Look;
