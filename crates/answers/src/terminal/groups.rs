//! Groups of equal machines, as a table.

use super::differences::few;
use super::table::Columns;
use super::{Look, count, differences, trim_lines};
use crate::groups::{Group, Groups};

/// Most files of a group that are all named.
const NAMED_FILES: usize = 3;

/// The words for the first group.
const REFERENCE: &str = "the reference";

/// The same where other groups are as large.
const NO_MAJORITY: &str = "the reference: no majority, the fastest of the largest groups";

/// The groups with what tells each from the first.
pub fn page(groups: &Groups, look: Look) -> String {
    let all = &groups.all;
    let files: usize = all.iter().map(|group| group.files.len()).sum();
    if all.len() < 2 {
        return format!("{}: all equal\n", count(files, "file"));
    }
    let folder = common_folder(all.iter().flat_map(|group| &group.files));
    let of = match folder.as_str() {
        "" => String::new(),
        folder => format!("{}: ", folder.trim_end_matches('/')),
    };
    let title = format!(
        "{of}{} in {} of equal machines",
        count(files, "file"),
        count(all.len(), "group")
    );
    let mut table = Columns::new(look, &["files", "differs in", "costs"]);
    for (at, group) in all.iter().enumerate() {
        table.row(vec![
            files_of(&group.files, &folder),
            match at {
                0 if groups.tied => what(group, Some(NO_MAJORITY)),
                0 => what(group, Some(REFERENCE)),
                _ => what(group, None),
            },
            costs(group),
        ]);
    }
    let mut text = format!("{}\n{}", look.heading(&title), table.finish());
    for group in all {
        if let Some(plans) = &group.plans {
            let (reference, other, comparison) = &**plans;
            let names = [
                (all[0].files[0].as_str(), reference),
                (group.files[0].as_str(), other),
            ];
            text.push('\n');
            text.push_str(&differences::page(names, &[], comparison, look));
        }
    }
    trim_lines(&text)
}

/// The folder that holds all of the files, with a slash at its end; empty if there is none.
pub fn common_folder<'a>(mut files: impl Iterator<Item = &'a String>) -> String {
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
pub fn files_of(files: &[String], folder: &str) -> String {
    let short = |file: &String| file.strip_prefix(folder).unwrap_or(file).to_owned();
    match files {
        [first, ..] if files.len() > NAMED_FILES => {
            format!("{} … ({})", short(first), count(files.len(), "file"))
        }
        _ => files.iter().map(short).collect::<Vec<_>>().join(", "),
    }
}

fn what(group: &Group, reference: Option<&str>) -> String {
    let mut parts = Vec::from_iter(reference.map(str::to_owned));
    parts.extend(few(&group.differences));
    if let Some(why) = &group.unreadable {
        parts.push(format!("cannot be read: {why}"));
    } else if let Some(problem) = &group.problem {
        parts.push(format!("cannot be planned: {problem}"));
    } else if parts.is_empty() {
        parts.push("the plan, see below".to_owned());
    }
    parts.join("; ")
}

fn costs(group: &Group) -> String {
    match (&group.cost, group.noticed) {
        (_, false) if group.differences.is_empty() => String::new(),
        (_, false) => "a job does not notice it".to_owned(),
        (Some(cost), true) => cost.to_string(),
        (None, true) => "–".to_owned(),
    }
}
