//! Files that are written read the same.

use std::borrow::Cow;

use proptest::prelude::*;
use topology::xml::{Attribute, Document, Element, Tag, parse, write};

/// Names that NCCL knows and others.
fn name() -> impl Strategy<Value = Cow<'static, str>> {
    prop_oneof![
        Just(Cow::Borrowed("busid")),
        Just(Cow::Borrowed("rank")),
        Just(Cow::Borrowed("target")),
        Just(Cow::Borrowed("count")),
        "[a-zA-Z_é][a-z0-9_.:-]{0,8}".prop_map(Cow::Owned),
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,20}",
        "[^\u{0}]{0,20}",
        "(&[a-z#]{0,4};?){0,3}",
        Just("0000:1b:00.0".to_owned())
    ]
}

fn attributes() -> impl Strategy<Value = Vec<Attribute>> {
    let attribute = (name(), value()).prop_map(|(name, value)| Attribute {
        name,
        value,
        position: Default::default(),
    });
    proptest::collection::vec(attribute, 0..=16)
}

fn element(tag: Tag, depth: u32) -> BoxedStrategy<Element> {
    let inside: &[Tag] = match tag {
        Tag::System => &[Tag::Cpu],
        Tag::Cpu => &[Tag::Pci, Tag::Nic],
        Tag::Pci => &[Tag::Pci, Tag::Gpu, Tag::Nic, Tag::Pcilink],
        Tag::Gpu => &[Tag::Nvlink, Tag::C2c],
        Tag::Nic => &[Tag::Net],
        _ => &[],
    };
    if inside.is_empty() || depth == 0 {
        return attributes()
            .prop_map(move |attributes| Element {
                attributes,
                ..Element::new(tag)
            })
            .boxed();
    }
    let child =
        proptest::sample::select(inside).prop_flat_map(move |child| element(child, depth - 1));
    (attributes(), proptest::collection::vec(child, 0..4))
        .prop_map(move |(attributes, children)| Element {
            attributes,
            children,
            ..Element::new(tag)
        })
        .boxed()
}

fn document() -> impl Strategy<Value = Document> {
    element(Tag::System, 5).prop_map(|mut root| {
        root.attributes.truncate(15);
        let version = Attribute {
            name: Cow::Borrowed("version"),
            value: "1".to_owned(),
            position: Default::default(),
        };
        root.attributes.insert(0, version);
        Document::from_root("made.xml", root)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn written_documents_read_the_same(document in document()) {
        let text = write(&document);
        let again = parse("again.xml", text.as_bytes()).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert!(document.root.same_as(&again.root), "changed:\n{text}\n{}", write(&again));
        prop_assert_eq!(write(&again), text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(<|/|>|=|\"|'| |\n|\t|&|;|!|-|\\?|\\[|\\]|system|version|cpu|pci|é|\u{feff}){0,60}") {
        let _ = parse("any.xml", text.as_bytes()).map_err(|error| error.to_string());
        let inside = format!("<system version=\"1\">{text}</system>");
        let _ = parse("any.xml", inside.as_bytes()).map_err(|error| error.to_string());
    }
}

#[test]
fn written_as_nccl_writes() {
    let mut root = Element::new(Tag::System);
    root.set("version", "1");
    let mut cpu = Element::new(Tag::Cpu);
    cpu.set("numaid", "0");
    cpu.set("arch", "a \"b\" & <c> 'd'");
    cpu.children.push(Element::new(Tag::Nic));
    root.children.push(cpu);
    assert_eq!(
        write(&Document::from_root("made.xml", root)),
        "<system version=\"1\">\n  <cpu numaid=\"0\" arch=\"a &quot;b&quot; &amp; &lt;c> 'd'\">\n    <nic/>\n  </cpu>\n</system>\n"
    );
}
