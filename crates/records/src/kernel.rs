//! The kernel's command line and messages: what the IOMMU does.

use crate::text::has;

/// What the kernel says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kernel {
    /// Whether the IOMMU translates by default.
    pub iommu_translates: Option<bool>,
}

impl Kernel {
    pub(crate) fn line(&mut self, line: &str) {
        if !has(line, "Default domain type: ") && !has(line, "BOOT_IMAGE=") {
            return;
        }
        if line.contains("iommu: Default domain type: Translated") {
            self.iommu_translates = Some(true);
        } else if line.contains("iommu: Default domain type: Passthrough") {
            self.iommu_translates = Some(false);
        } else if line.contains("BOOT_IMAGE=") {
            let has = |word: &str| line.split_whitespace().any(|it| it == word);
            if [
                "iommu=pt",
                "iommu.passthrough=1",
                "iommu=off",
                "amd_iommu=off",
                "intel_iommu=off",
            ]
            .into_iter()
            .any(has)
            {
                self.iommu_translates = Some(false);
            } else if has("intel_iommu=on") || has("amd_iommu=on") {
                self.iommu_translates = self.iommu_translates.or(Some(true));
            }
        }
    }
}
