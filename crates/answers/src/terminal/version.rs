//! The version of NCCL that decides, as text.

pub use crate::head::version as profile_words;
use plan::{NcclVersion, Plan};

use super::Look;

/// The line that names the version.
pub fn line(version: NcclVersion, look: Look) -> String {
    look.field("nccl", version.name())
}

/// The line of a plan, by the name of its profile.
pub fn of_profile(profile: &str, look: Look) -> String {
    look.field("nccl", &profile_words(profile))
}

/// The version of a plan in words.
pub fn of_plan(plan: &Plan) -> String {
    profile_words(&plan.profile)
}
