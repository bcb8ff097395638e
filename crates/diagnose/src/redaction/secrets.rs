//! Lines without tokens, passwords, arguments of processes and fields of vendors.

/// Ends of names whose values are secret.
const KEYS: [&str; 14] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "api_key",
    "apikey",
    "api-key",
    "access_key",
    "access-key",
    "access_key_id",
    "private_key",
    "credential",
    "credentials",
];

/// Most characters of an option's name.
const MOST_OF_OPTION: usize = 256;

/// Begins of tokens that services give out, and how many characters follow at least.
const TOKENS: [(&str, usize); 13] = [
    ("hf_", 6),
    ("AKIA", 12),
    ("ASIA", 12),
    ("ghp_", 10),
    ("gho_", 10),
    ("ghs_", 10),
    ("github_pat_", 10),
    ("glpat-", 10),
    ("nvapi-", 10),
    ("sk-", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("eyJ", 20),
];

/// A line whose secrets are replaced by `replace`.
pub(super) fn without(line: &str, replace: &impl Fn(&str, &str) -> String) -> String {
    let line = without_field(line, replace);
    let line = without_passwords(&line, replace);
    let line = without_values(&line, replace);
    without_tokens(&line, replace)
}

/// Fields of vital product data (lspci), which vendors fill with serial numbers and addresses; the
/// arguments of a process (nvidia-smi).
fn without_field(line: &str, replace: &impl Fn(&str, &str) -> String) -> String {
    let trimmed = line.trim_start();
    let lower = trimmed.to_ascii_lowercase();
    let end = line.trim_end().len();
    let value = |mark: char| line.find(mark).map(|it| it + 1);
    let is_vital = trimmed.starts_with('[')
        && trimmed.get(3..4) == Some("]")
        && trimmed.as_bytes()[1].is_ascii_uppercase();
    let is_kept = ["[PN]", "[EC]", "[RV]"]
        .iter()
        .any(|it| trimmed.starts_with(it));
    if is_vital
        && !is_kept
        && let Some(at) = value(':').filter(|it| *it < end)
    {
        let field = replace("vendor", line[at..end].trim());
        return format!("{} {field}{}", &line[..at], &line[end..]);
    }
    let is_name = lower
        .strip_prefix("name")
        .is_some_and(|it| it.trim_start().starts_with(':'));
    let (begin, end) = match line.find("<process_name>") {
        Some(at) => (at + 14, line.find("</process_name>").unwrap_or(end)),
        None if is_name => (value(':').unwrap_or(end), end),
        None => return line.to_owned(),
    };
    let program = line[begin..end.max(begin)]
        .split_whitespace()
        .next()
        .unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default();
    format!("{} {program}{}", &line[..begin], &line[end.max(begin)..])
}

/// Users and passwords in addresses: `https://user:password@host`.
fn without_passwords(line: &str, replace: &impl Fn(&str, &str) -> String) -> String {
    let mut hidden = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        hidden.push_str(head);
        let end = tail
            .find(|it: char| it.is_whitespace() || matches!(it, '/' | '"' | '\''))
            .unwrap_or(tail.len());
        rest = tail;
        if let Some(mark) = tail[..end].rfind('@') {
            hidden.push_str(&replace("secret", &tail[..mark]));
            rest = &tail[mark..];
        }
    }
    hidden + rest
}

/// Values after `token=`, `"password": "`, `--api-key `, `Bearer `.
fn without_values(line: &str, replace: &impl Fn(&str, &str) -> String) -> String {
    let lower = line.to_ascii_lowercase();
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for key in KEYS.iter().chain(&["bearer", "authorization"]) {
        for (at, _) in lower.match_indices(key) {
            let rest = &line[at + key.len()..];
            let value = rest.trim_start_matches([' ', '\t', ':', '=', '"', '\'']);
            let mark = &rest[..rest.len() - value.len()];
            let before = line.as_bytes()[..at].iter().rev().take(MOST_OF_OPTION);
            let word = before.take_while(|it| !it.is_ascii_whitespace()).count();
            let is_option = line.as_bytes()[at - word..].starts_with(b"--") || *key == "bearer";
            let end = value
                .find(|it: char| {
                    // `Authorization: Basic dXNlcg==` has two words.
                    it.is_whitespace() && (*key != "authorization" || it != ' ')
                        || matches!(it, '"' | '\'' | '&' | ',' | ';' | '<')
                })
                .unwrap_or(value.len());
            let is_value = mark.contains([':', '=']) || is_option && !mark.is_empty();
            if is_value && end > 0 && !value.to_ascii_lowercase().starts_with("bearer") {
                let begin = line.len() - value.len();
                spans.push((begin, begin + end));
            }
        }
    }
    spans.sort_unstable();
    let (mut hidden, mut done) = (String::new(), 0);
    for (begin, end) in spans {
        if begin >= done {
            hidden.push_str(&line[done..begin]);
            hidden.push_str(&replace("secret", &line[begin..end]));
            done = end;
        }
    }
    hidden + &line[done..]
}

/// Tokens that services give out.
fn without_tokens(line: &str, replace: &impl Fn(&str, &str) -> String) -> String {
    let is_of_token = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-' | '.');
    let mut hidden = String::new();
    let mut rest = line;
    while let Some(begin) = rest.find(is_of_token) {
        hidden.push_str(&rest[..begin]);
        rest = &rest[begin..];
        let end = rest.find(|it| !is_of_token(it)).unwrap_or(rest.len());
        let word = &rest[..end];
        let is_token = |(begin, least): &(&str, usize)| {
            word.strip_prefix(begin)
                .is_some_and(|it| it.len() >= *least)
        };
        match TOKENS.iter().any(is_token) {
            true => hidden.push_str(&replace("secret", word)),
            false => hidden.push_str(word),
        }
        rest = &rest[end..];
    }
    hidden + rest
}
