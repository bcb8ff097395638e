//! Exported files, as text.

use answers::export::{ExportReport, Kind, WrittenFile};

use crate::render::{Look, count, wrap};
use pages::Table;

/// Files of one kind that are named one by one.
const NAMED: usize = 4;

/// Things left out that are named one by one.
const LEFT_OUT: usize = 8;

/// All kinds in the order of the page.
const KINDS: [Kind; 7] = [
    Kind::Configuration,
    Kind::Graph,
    Kind::Plugin,
    Kind::Choices,
    Kind::Csv,
    Kind::Crossovers,
    Kind::Readme,
];

pub(super) fn page(done: &ExportReport, look: Look) -> String {
    let files = count(done.files.len(), "file");
    let head = format!("{}: {files} in {}", done.name, done.folder);
    let mut text = wrap(&head, "", "  ", look.width);
    let mut table = Table::new(["file", "what it is"]);
    for kind in KINDS {
        let of_kind: Vec<&WrittenFile> = done.files.iter().filter(|it| it.kind == kind).collect();
        if of_kind.len() > NAMED {
            let (first, rest) = (&of_kind[0].file, of_kind.len() - 1);
            let name = format!("{first} and {rest} others");
            table.row(vec![name, kind.about().to_owned()]);
            continue;
        }
        for file in of_kind {
            table.row(vec![file.file.clone(), kind.about().to_owned()]);
        }
    }
    text.push_str(&table.text(look));
    for out in done.left_out.iter().take(LEFT_OUT) {
        let line = format!("left out: {} ({})", out.what, out.why);
        text.push_str(&wrap(&line, "", "  ", look.width));
    }
    if done.left_out.len() > LEFT_OUT {
        let rest = done.left_out.len() - LEFT_OUT;
        text.push_str(&format!("left out: {rest} more; --json has all\n"));
    }
    text
}
