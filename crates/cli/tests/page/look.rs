//! The look of a page, compared with the expected look.
//!
//! A screenshot becomes a text (`look.js`): a letter for each square of 16 pixels, which says
//! whether there is text, a line or a color. Two looks are alike if nearly every square has its
//! like in the other one, there or next to it, and both have about as many of each kind. Other
//! fonts and other versions of a browser pass; a region that is missing, elsewhere or of another
//! color does not.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use testkit::browser::Browser;

/// The share of squares that may have no like.
const TOLERANCE: f64 = 0.09;

/// How many more or fewer squares there may be of a kind, as a share.
const IMBALANCE: f64 = 0.4;

/// Fewer squares of a kind count as this number.
const FEW: f64 = 40.0;

/// The look of what a browser shows.
///
/// # Errors
/// The browser takes no screenshot.
pub(crate) fn of(browser: &mut Browser) -> Result<String, String> {
    let picture = browser.screenshot()?;
    let look = browser.run(include_str!("look.js"), &json!([picture]))?;
    match look.as_str() {
        Some(look) if !look.is_empty() => Ok(format!("{look}\n")),
        _ => Err("the browser shows nothing".to_owned()),
    }
}

/// The share of squares, of both looks, without a like in the other one.
pub(crate) fn difference(one: &str, other: &str) -> f64 {
    let (lost, drawn) = missing(one, other);
    let (new, drawn_there) = missing(other, one);
    f64::from(lost + new) / f64::from((drawn + drawn_there).max(1))
}

/// How many more or fewer squares there are of a kind, as a share; of the kind with most.
pub(crate) fn imbalance(one: &str, other: &str) -> f64 {
    let count = |look: &str, wanted: u8| {
        let count = look.bytes().filter(|it| kind(*it) == wanted).count();
        f64::from(u32::try_from(count).unwrap_or(u32::MAX))
    };
    let share = |wanted: u8| {
        let (one, other) = (count(one, wanted), count(other, wanted));
        (one - other).abs() / one.max(other).max(FEW)
    };
    b".rygcbmRYGCBM"
        .iter()
        .map(|it| share(*it))
        .fold(0.0, f64::max)
}

/// Whether two looks are alike.
pub(crate) fn alike(one: &str, other: &str) -> bool {
    difference(one, other) <= TOLERANCE && imbalance(one, other) <= IMBALANCE
}

/// How much text is in a square is a matter of fonts.
const fn kind(letter: u8) -> u8 {
    if letter == b'#' { b'.' } else { letter }
}

/// The squares of a look that have no like in another one, and all that are not blank.
fn missing(one: &str, other: &str) -> (u32, u32) {
    let other: Vec<&[u8]> = other.lines().map(str::as_bytes).collect();
    let near = |row: usize, column: usize, letter: u8| {
        (row.saturating_sub(1)..=row + 1).any(|row| {
            (column.saturating_sub(1)..=column + 1).any(|column| {
                let found = other.get(row).and_then(|line| line.get(column));
                found.is_some_and(|it| kind(*it) == kind(letter))
            })
        })
    };
    let (mut lost, mut drawn) = (0, 0);
    for (row, line) in one.lines().enumerate() {
        for (column, letter) in line.bytes().enumerate().filter(|(_, it)| *it != b' ') {
            drawn += 1;
            lost += u32::from(!near(row, column, letter));
        }
    }
    (lost, drawn)
}

fn place(step: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/looks");
    folder.join(format!("{step}.txt"))
}

/// Compares a look with the one that was accepted for a step. `TOPO_BLESS=1` accepts it.
///
/// # Errors
/// They are not alike, or there is none.
pub(crate) fn check(step: &str, look: &str) -> Result<(), String> {
    let path = place(step);
    let expected = fs::read_to_string(&path).unwrap_or_default();
    if alike(&expected, look) {
        return Ok(());
    }
    if std::env::var_os("TOPO_BLESS").is_some_and(|bless| bless == "1") {
        println!("blessed {}", path.display());
        return fs::write(&path, look).map_err(|why| format!("{}: {why}", path.display()));
    }
    Err(format!(
        "it looks different in {:.0} % of its squares; expected at most {:.0} %\nexpected ({}):\n{expected}\nfound:\n{look}\n\
         if this is what was meant: `TOPO_BLESS=1 cargo test -p topo --test page`",
        100.0 * difference(&expected, look),
        100.0 * TOLERANCE,
        path.display()
    ))
}

/// The steps that have a look.
pub(crate) fn accepted() -> Vec<String> {
    let entries = fs::read_dir(place("").with_file_name(""))
        .into_iter()
        .flatten();
    let names = entries
        .flatten()
        .map(|it| it.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names
        .map(|it| it.trim_end_matches(".txt").to_owned())
        .collect();
    names.sort();
    names
}
