//! Failures as options of `topo plan`.

use topology::edit::Edit;

/// The option of `topo plan` that asks for an edit.
pub(crate) fn option(edit: &Edit) -> String {
    let option = if edit.removes() {
        "--without"
    } else {
        "--degrade"
    };
    let text = edit.to_string();
    if text.contains(' ') {
        format!("{option} '{text}'")
    } else {
        format!("{option} {text}")
    }
}
