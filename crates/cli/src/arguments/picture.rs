//! What pictures show.

use plan::GraphKind;

/// Channels to draw as arrows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Highlight {
    /// Their kind.
    pub kind: GraphKind,
    /// The channel; all without it.
    pub channel: Option<usize>,
}

/// Reads `ring`, `tree`, `ring:3`.
pub fn highlight(text: &str) -> Result<Highlight, String> {
    let expected = || {
        format!(
            "expected ring, tree, nvls or collnet, or one of its channels such as ring:3, not `{text}`"
        )
    };
    let (kind, channel) = match text.split_once(':') {
        Some((kind, channel)) => (kind, Some(channel)),
        None => (text, None),
    };
    let kind = match kind {
        "ring" => GraphKind::Ring,
        "tree" => GraphKind::Tree,
        "nvls" => GraphKind::Nvls,
        "collnet" => GraphKind::CollnetDirect,
        _ => return Err(expected()),
    };
    let channel = channel.map(|it| it.parse().map_err(|_| expected()));
    Ok(Highlight {
        kind,
        channel: channel.transpose()?,
    })
}
