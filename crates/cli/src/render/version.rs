//! Which version of NCCL decides.

use plan::{NcclVersion, Plan};

use super::Look;

/// The line that names the version.
pub fn line(version: NcclVersion, look: Look) -> String {
    look.field("nccl", &words(version))
}

/// The line of a plan, by the name of its profile.
pub fn of_profile(profile: &str, look: Look) -> String {
    look.field("nccl", &profile_words(profile))
}

/// The version of a plan in words.
pub fn of_plan(plan: &Plan) -> String {
    profile_words(&plan.profile)
}

/// The version of a profile in words.
pub fn profile_words(profile: &str) -> String {
    NcclVersion::of_profile(profile).map_or_else(|| profile.to_owned(), words)
}

/// The version, and whether its binary was asked.
pub fn words(version: NcclVersion) -> String {
    if version.is_confirmed() {
        version.to_string()
    } else {
        format!("{version} (from its source, not confirmed by its binary)")
    }
}
