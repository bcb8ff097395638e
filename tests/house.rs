//! The rules of the repository that no compiler checks.

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use xtask::tidy;

use crate::{root, test};

pub(crate) fn tests() -> Result<Vec<Trial>> {
    Ok(vec![test("house::tidy", || {
        let problems = tidy::check(&root())?;
        ensure!(problems.is_empty(), "{}", problems.join("\n"));
        Ok(())
    })])
}
