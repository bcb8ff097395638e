//! The arguments of `topo engines`.

use answers::engines::EnginesQuestion;
use clap::Args;

use super::JobArguments;

pub(crate) const ENGINES_EXAMPLES: &str = "\
Examples:
  topo engines dgx-h100                        every engine: its all-reduce for each size
  topo engines box.txt --engine vllm           one of them: also what it refuses and what would change it
  topo engines box.txt --engine sglang --engine-version 0.5.12 --gpus 0,1
  topo engines box.txt --engine vllm --peer-access writes-lost --engine-set VLLM_SKIP_P2P_CHECK=0
  topo engines box.txt --engine llama.cpp --engine-set=-sm=tensor --size 32K,16M
  topo engines box.txt --without P2P           as where the driver grants no peer access
  topo plan dgx-h100 --engine sglang           NCCL's plan with what SGLang sets before NCCL starts

Sizes are those of the sources that docs/compare.md names; nothing is measured.";

#[derive(Debug, Args)]
pub(crate) struct EnginesArguments {
    #[command(flatten)]
    pub job: JobArguments,
    #[command(flatten)]
    pub question: EnginesQuestion,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
