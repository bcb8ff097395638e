//! `cargo xtask wheel` with NCCL's published libraries. A test that cannot run here says why.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use nccl_binary::package::cached;
use xtask::compare_library::Content;
use xtask::workspace::nccl_libraries;

fn main() -> ExitCode {
    let trial = Trial::ignorable_test("differ_as_is_known", differ_as_is_known);
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

fn differ_as_is_known() -> Result<Completion, Failed> {
    let found = ["2.32.3", "2.31.2"].map(|version| cached(&nccl_libraries(), version));
    let [Some(new), Some(old)] = found else {
        let why = "NCCL 2.31.2 and 2.32.3 are not fetched (cargo xtask fetch nccl)";
        return Ok(Completion::ignored_with(format!("not run: {why}")));
    };
    let (new, old) = (Content::of(&new)?, Content::of(&old)?);
    assert_eq!(new.version, "2.32.3");
    let bytes = |name: &str| new.tables[name].first().map(Vec::len);
    assert_eq!(
        [bytes("ncclTunerConstantsDefaults"), bytes("nvlsEfficiency")],
        [Some(1152), Some(16)]
    );
    let lines = new.beside(&old);
    for known in [
        "variable  + NCCL_IB_RAIL_POLICY",
        "variable  - NCCL_NET_GDR_MLOPART",
        "table     rubinSpeedArrayIntra: 36 bytes (was none)",
    ] {
        assert!(lines.iter().any(|it| it == known), "{known}: {lines:#?}");
    }
    // NCCL's counters of its plug-ins, and a name that only a text has.
    let unknown = new.beside_program();
    let counted = unknown
        .iter()
        .filter(|it| it.ends_with("_PLUGIN_REF_COUNT"));
    assert_eq!((unknown.len(), counted.count()), (4, 3), "{unknown:#?}");
    Ok(Completion::Completed)
}
