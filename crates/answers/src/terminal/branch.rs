//! Trees of lines.

/// A line with what hangs below it.
#[derive(Debug, Default)]
pub(crate) struct Branch {
    pub(crate) text: String,
    pub(crate) below: Vec<Branch>,
}

impl Branch {
    pub(crate) fn leaf(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            below: Vec::new(),
        }
    }

    pub(crate) fn draw(&self) -> String {
        let mut text = format!("{}\n", self.text);
        self.draw_below("", &mut text);
        text
    }

    fn draw_below(&self, indent: &str, text: &mut String) {
        for (index, branch) in self.below.iter().enumerate() {
            let last = index + 1 == self.below.len();
            let (corner, deeper) = if last {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };
            text.push_str(&format!("{indent}{corner}{}\n", branch.text));
            branch.draw_below(&format!("{indent}{deeper}"), text);
        }
    }
}
