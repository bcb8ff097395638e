//! Plans that were checked.

use std::ops::Deref;

use crate::error::Error;
use crate::expand::Expansion;
use crate::plan::Plan;
use crate::validate::check;

/// A plan whose parts fit together ([`Plan::validate`]), with what it expands to. It is checked
/// once, when it is made, and does not change.
#[derive(Debug, Clone)]
pub struct CheckedPlan {
    plan: Plan,
    expansion: Option<Expansion>,
}

impl CheckedPlan {
    /// Checks a plan.
    ///
    /// # Errors
    /// It contradicts itself.
    pub fn new(plan: Plan) -> Result<Self, Error> {
        let expansion = check(&plan)?;
        Ok(Self { plan, expansion })
    }

    /// What any rank does.
    ///
    /// # Errors
    /// The plan holds machines only and not how their hosts are joined.
    pub fn expansion(&self) -> Result<&Expansion, Error> {
        self.expansion.as_ref().ok_or(Error::NotJoined)
    }

    /// The plan, which may be changed.
    pub fn into_plan(self) -> Plan {
        self.plan
    }
}

impl Deref for CheckedPlan {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.plan
    }
}
