//! The rules of the table.

use std::collections::BTreeSet;

use findings::causes::{Subject, all, confused, of_id, refined, rows_of_confused};
use findings::check::verdict;
use findings::facts::of_warning;
use findings::{Check, Maturity, Rule};

#[test]
fn ids_are_unique_words() {
    let mut seen = BTreeSet::new();
    for cause in all() {
        assert!(seen.insert(cause.id), "{} is there twice", cause.id);
        let is_word = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
        assert!(cause.id.chars().all(is_word), "{}", cause.id);
    }
    assert!(seen.len() >= 60, "{} causes", seen.len());
}

#[test]
fn every_cause_says_what_proves_it_and_where_it_is_known_from() {
    for cause in all() {
        let texts = [cause.title, cause.means, cause.advice, cause.versions];
        let more = [cause.proof, cause.excluded];
        for text in texts.into_iter().chain(more) {
            assert!(
                !text.is_empty() && !text.ends_with('.'),
                "{}: `{text}`",
                cause.id
            );
        }
        // Those of the tables of lines have the sources of their rows.
        let is_of_lines = cause.proof.starts_with("the line, at the first failure");
        assert!(
            is_of_lines || !cause.sources.is_empty(),
            "{} has no source",
            cause.id
        );
    }
}

#[test]
fn subjects_are_in_order() {
    let order: Vec<Subject> = all().map(|cause| cause.subject).collect();
    let mut subjects = order.clone();
    subjects.dedup();
    assert_eq!(subjects, Subject::ALL);
}

/// A sign whose words an earlier cause takes would never count.
#[test]
fn no_sign_is_hidden_by_an_earlier_cause() {
    let signs = all().flat_map(|cause| cause.signs.iter().map(move |sign| (cause, sign)));
    let hidden: Vec<String> = signs
        .filter_map(|(cause, sign)| {
            let found = of_warning(&sign.words.join(" "), None).map(|it| it.cause.id);
            (found != Some(cause.id)).then(|| format!("{:?}: {found:?}", sign.words))
        })
        .collect();
    assert!(hidden.is_empty(), "{hidden:#?}");
}

#[test]
fn causes_that_refine_others_are_known() {
    assert!(refined().count() > 0);
    for (cause, rougher) in refined() {
        assert!(cause != rougher && of_id(cause).is_some(), "{cause}");
        assert!(of_id(rougher).is_some(), "{rougher}");
    }
}

#[test]
fn rows_of_confused_causes_are_whole() {
    let rows = include_str!("../src/causes/confused.tsv").lines();
    let rows: Vec<&str> = rows.filter(|it| !it.starts_with('#')).collect();
    for row in &rows {
        let columns: Vec<&str> = row.split('\t').collect();
        let [cause, other, _] = columns[..] else {
            panic!("not of three columns: {row:?}");
        };
        let is_known = |id: &str| of_id(id).is_some();
        assert!(
            is_known(cause) && (other == "-" || is_known(other)),
            "{row:?}"
        );
    }
    assert_eq!(rows.len(), rows_of_confused().count());
}

#[test]
fn every_cause_names_what_it_may_be_confused_with() {
    let mut pairs = BTreeSet::new();
    for (cause, other, tell) in rows_of_confused() {
        assert!(of_id(cause).is_some(), "{cause} is no cause");
        assert!(
            other == "-" || of_id(other).is_some(),
            "{other} is no cause"
        );
        assert!(
            cause != other && !tell.is_empty() && !tell.ends_with('.'),
            "{cause}: `{tell}`"
        );
        assert!(
            tell.len() <= 120,
            "{cause}: `{tell}` is too long for a page"
        );
        assert!(
            pairs.insert((cause, other)),
            "{cause} and {other} are there twice"
        );
    }
    let is_alone = |id: &str| rows_of_confused().any(|it| it.0 == id && it.1 == "-");
    for cause in all().filter(|it| it.subject != Subject::Harmless) {
        let has_row = !confused(cause).is_empty();
        assert!(
            has_row != is_alone(cause.id),
            "{} has no row, or one too many",
            cause.id
        );
    }
}

/// A rule that no finding shows says what it looked at, and who would tell.
#[test]
fn every_rule_says_what_it_looks_at() {
    let mut seen = BTreeSet::new();
    for rule in Rule::ALL {
        let subject = rule.subject();
        assert!(seen.insert(subject) && !subject.is_empty(), "{rule:?}");
        let (expected, proof) = rule.evidence();
        assert!(!expected.is_empty() && !proof.is_empty(), "{rule:?}");
        assert_ne!(rule.told(), (false, None), "{rule:?}");
    }
}

#[test]
fn one_verdict_of_many() {
    let passes = || Check::new("a", "", Maturity::Modelled);
    let fails = || passes().judged(false, "too little");
    let words = |checks: &[Check]| (verdict(checks).word(), checks.len());
    assert_eq!(words(&[passes(), passes().skipped("no")]), ("pass", 2));
    assert_eq!(words(&[passes(), passes().unknown("no")]), ("unknown", 2));
    assert_eq!(words(&[passes().unknown("no"), fails()]), ("fail", 2));
    assert_eq!(words(&[passes().skipped("no")]), ("unknown", 1));
    assert_eq!(words(&[]), ("unknown", 0));
}
