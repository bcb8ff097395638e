//! The rules of the table.

use std::collections::BTreeSet;

use findings::causes::{Subject, all};
use findings::facts::of_warning;

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
        assert!(!cause.sources.is_empty(), "{} has no source", cause.id);
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
