//! The effects of settings as a page.

use pages::{Page, Tone};

use super::SettingsReport;

impl SettingsReport {
    /// The page.
    pub fn page(&self) -> Page {
        let mut page = Page::new(&self.name);
        page.field("nccl", &self.nccl);
        if self.given.is_empty() {
            page.field("settings", "none are given: NCCL's defaults");
            return page;
        }
        let section = page.section("Settings", "what each does to this job");
        for finding in &self.findings {
            let values = finding.names.iter().map(|name| {
                let value = self.given.iter().find(|it| it.name == *name);
                value.map_or_else(|| name.clone(), |it| format!("{name}={}", it.value))
            });
            let values: Vec<String> = values.collect();
            let tone = match finding.verdict.is_fault() {
                true => Tone::Notice,
                false => Tone::Faint,
            };
            section.entry(
                finding.verdict.name(),
                values.join(" "),
                (tone, &finding.text),
            );
        }
        page
    }
}
