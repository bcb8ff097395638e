//! Groups of equal machines as a page.

use pages::numbers::count;
use pages::{Page, Table, row};

use super::{Group, Groups};
use crate::differences::few;

/// Most files of a group that are all named.
const NAMED_FILES: usize = 3;

/// The words for the first group.
const REFERENCE: &str = "the reference";

/// The same where other groups are as large.
const NO_MAJORITY: &str = "the reference: no majority, the fastest of the largest groups";

impl Groups {
    /// The groups with what tells each from the first.
    pub fn page(&self) -> Page {
        let all = &self.all;
        let files: usize = all.iter().map(|group| group.files.len()).sum();
        if all.len() < 2 {
            return Page::new(format!("{}: all equal", count(files, "file")));
        }
        let folder = common_folder(all.iter().flat_map(|group| &group.files));
        let of = match folder.as_str() {
            "" => String::new(),
            folder => format!("{}: ", folder.trim_end_matches('/')),
        };
        let mut page = Page::new(format!(
            "{of}{} in {} of equal machines",
            count(files, "file"),
            count(all.len(), "group")
        ));
        let mut table = Table::new(["files", "differs in", "costs"]);
        for (at, group) in all.iter().enumerate() {
            let reference = match (at, self.tied) {
                (0, true) => Some(NO_MAJORITY),
                (0, false) => Some(REFERENCE),
                _ => None,
            };
            table.row(row![
                files_of(&group.files, &folder),
                group.words(reference),
                group.costs()
            ]);
        }
        page.section("", "").table(table);
        let plans = all.iter().filter_map(|group| group.plans.clone());
        plans.for_each(|plans| {
            page.append(plans);
        });
        page
    }
}

/// The folder that holds all of the files, with a slash at its end; empty if there is none.
pub(crate) fn common_folder<'a>(mut files: impl Iterator<Item = &'a String>) -> String {
    let Some(first) = files.next() else {
        return String::new();
    };
    let mut common = first.as_str();
    for file in files {
        let same = common.char_indices().zip(file.chars());
        let end = same
            .take_while(|((_, one), other)| one == other)
            .map(|((at, one), _)| at + one.len_utf8())
            .last();
        common = &common[..end.unwrap_or(0)];
    }
    let end = common.rfind('/').map_or(0, |slash| slash + 1);
    common[..end].to_owned()
}

/// `node1.xml … (62 files)`, without the folder of all files.
pub(crate) fn files_of(files: &[String], folder: &str) -> String {
    let short = |file: &String| file.strip_prefix(folder).unwrap_or(file).to_owned();
    match files {
        [first, ..] if files.len() > NAMED_FILES => {
            format!("{} … ({})", short(first), count(files.len(), "file"))
        }
        _ => files.iter().map(short).collect::<Vec<_>>().join(", "),
    }
}

impl Group {
    fn words(&self, reference: Option<&str>) -> String {
        let mut parts = Vec::from_iter(reference.map(str::to_owned));
        parts.extend(few(&self.differences));
        if let Some(why) = &self.cannot_be_read {
            parts.push(format!("cannot be read: {why}"));
        } else if let Some(problem) = &self.cannot_be_planned {
            parts.push(format!("cannot be planned: {problem}"));
        } else if parts.is_empty() {
            parts.push("the plan, see below".to_owned());
        }
        parts.join("; ")
    }

    fn costs(&self) -> String {
        match (&self.cost, self.noticed) {
            (_, false) if self.differences.is_empty() => String::new(),
            (_, false) => "a job does not notice it".to_owned(),
            (Some(cost), true) => cost.to_string(),
            (None, true) => "–".to_owned(),
        }
    }
}
