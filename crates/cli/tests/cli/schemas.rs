//! The published schemas are those of the program.

use super::{ok, root};

#[test]
fn published_schemas_are_up_to_date() {
    let names = ok(&["schema"]).out;
    let folder = root().join("docs/schemas");
    let mut published = std::fs::read_dir(&folder).unwrap().count();
    for name in names.lines() {
        let path = folder.join(format!("{name}.schema.json"));
        let schema = ok(&["schema", name]).out;
        if std::env::var_os("TOPO_BLESS").is_some() {
            std::fs::write(&path, &schema).unwrap();
        }
        assert!(
            std::fs::read_to_string(&path).unwrap_or_default() == schema,
            "{} differs from the code; rewrite it with `TOPO_BLESS=1 cargo test -p topo --test cli` and look at the diff",
            path.display()
        );
        published = published.saturating_sub(1);
    }
    assert_eq!(
        published,
        0,
        "a file of {} is no schema of the program",
        folder.display()
    );
}
