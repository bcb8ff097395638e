//! Libraries that are older than a GPU.

use findings::causes::{self, Certainty};
use findings::facts::gpus;
use records::nccl_log::Log;

use crate::verdict::Verdict;

/// The causes that a library without code for a GPU may have.
const EFFECTS: [&str; 3] = ["kernel-fault", "library-lacks-gpu", "cuda-failure"];

/// Names the library if it is older than a GPU of the log and a kernel failed: it has no code for
/// this GPU.
pub(crate) fn newer(log: &Log, verdicts: &mut [Verdict]) {
    let effect = verdicts
        .iter_mut()
        .find(|it| EFFECTS.contains(&it.cause.id));
    let (Some(effect), Some(cause)) = (effect, causes::of_id("library-lacks-gpu")) else {
        return;
    };
    let mut models = log.gpus.values().map(|it| it.1.as_str());
    let versions = || log.versions.keys();
    let found = models.find_map(|model| {
        let label = versions().find(|it| gpus::is_older(it, model))?;
        Some((model, label))
    });
    let Some((model, label)) = found else {
        return;
    };
    effect.what = format!(
        "{} NCCL {label} is older than {model}: packages of this version have no code for it.",
        effect.what
    );
    effect.cause = cause;
    effect.certainty = effect.certainty.min(Certainty::Likely);
    effect.next = vec!["use a newer NCCL, of a CUDA that knows this GPU (Blackwell: 2.26.5 or newer with CUDA 12.8 or newer)".to_owned()];
}
