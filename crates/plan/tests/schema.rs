//! The published schema is the one that the code has.

use std::path::Path;

#[test]
fn published_schema_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plan.schema.json");
    let schema = plan::schema();
    if std::env::var_os("TOPO_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &schema).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == schema,
        "docs/plan.schema.json differs from the code; rewrite it with `TOPO_BLESS=1 cargo test -p toporing-plan` and look at the diff"
    );
}
