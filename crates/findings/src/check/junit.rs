//! Checks as JUnit's XML, which continuous integration reads.

use super::{Check, Verdict};

/// The checks of a command, such as `topo doctor`, as a file of JUnit: what is unknown is an error,
/// which readers tell apart from a failure.
pub fn junit(command: &str, checks: &[Check]) -> String {
    let count = |word: &str| checks.iter().filter(|it| it.verdict.word() == word).count();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"{}\" tests=\"{}\" \
         failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"0\">\n",
        escaped(command),
        checks.len(),
        count("fail"),
        count("unknown"),
        count("skipped")
    );
    for it in checks {
        let class = escaped(&command.replace(' ', "."));
        let name = escaped(&format!("{}: {}", it.id, it.looked_at));
        text += &format!("    <testcase classname=\"{class}\" name=\"{name}\" time=\"0\"");
        let element = match it.verdict {
            Verdict::Pass => {
                text += "/>\n";
                continue;
            }
            Verdict::Fail => "failure",
            Verdict::Unknown(_) => "error",
            Verdict::Skipped(_) => "skipped",
        };
        let message = escaped(&it.reason());
        text += &format!(">\n      <{element} message=\"{message}\"");
        text += &match it.verdict {
            Verdict::Skipped(_) => "/>\n".to_owned(),
            _ => {
                let (kind, proof) = (it.maturity.word(), escaped(&it.proof));
                let proof = if proof.is_empty() {
                    proof
                } else {
                    format!("To prove it: {proof}")
                };
                format!(" type=\"{kind}\">{proof}</{element}>\n")
            }
        };
        text += "    </testcase>\n";
    }
    text + "  </testsuite>\n</testsuites>\n"
}

/// Text of an attribute or an element, without what XML cannot say.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            '\0'..' ' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            it => escaped.push(it),
        }
    }
    escaped
}
