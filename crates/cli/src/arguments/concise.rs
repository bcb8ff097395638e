//! Help of two screens: the options of a command that people look for, under headings. Options that
//! many commands have, or that few people need, have a page of their own: `topo help job`.

use clap::{Arg, ArgAction, Command};

/// Options with a page of their own.
struct Topic {
    /// The word after `topo help`.
    name: &'static str,
    /// The page's first line.
    about: &'static str,
    /// A command that has all of them.
    command: &'static str,
    /// A command has them if it has this one, too.
    with: &'static str,
    /// Those that help shows beside them and in each command.
    shown: &'static [&'static str],
    /// Their heading there.
    heading: Option<&'static str>,
    /// Those that help shows on the page alone.
    hidden: &'static [&'static str],
    /// The sentence in the help of a command, before their names.
    more: &'static str,
    /// How many names that sentence has.
    named: usize,
}

const TOPICS: [Topic; 3] = [
    Topic {
        name: "job",
        about: "Options of a job, for each command that plans one",
        command: "plan",
        with: "hosts",
        shown: &["hosts", "gpus", "set", "nccl"],
        heading: Some("Job"),
        hidden: &[
            "nvlink_domain",
            "collnet",
            "assume",
            "assume_gpu",
            "assume_nic",
            "assume_nvlinks",
            "rank_order",
            "as_is",
            "net_merge",
            "without",
            "degrade",
            "engine",
            "driver_version",
        ],
        more: "More options of the job:",
        named: usize::MAX,
    },
    Topic {
        name: "hosts",
        about: "Options of topo run for ranks on several hosts (docs/hosts.md)",
        command: "run",
        with: "rendezvous",
        shown: &[],
        heading: None,
        hidden: &[
            "rank",
            "world",
            "id",
            "rendezvous",
            "launcher",
            "join_timeout",
            "survive",
            "sockets",
            "checksums",
            "net_plugin",
        ],
        more: "Ranks on several hosts:",
        named: usize::MAX,
    },
    Topic {
        name: "megatron",
        about: "Arguments of Megatron-LM that topo step takes instead of WORKLOAD",
        command: "step",
        with: "num_layers",
        shown: &["gpu_tflops"],
        heading: None,
        hidden: &[
            "num_layers",
            "hidden_size",
            "num_attention_heads",
            "seq_length",
            "global_batch_size",
            "tensor_model_parallel_size",
            "pipeline_model_parallel_size",
            "context_parallel_size",
            "expert_model_parallel_size",
            "expert_tensor_parallel_size",
            "num_layers_per_virtual_pipeline_stage",
            "sequence_parallel",
            "ffn_hidden_size",
            "num_query_groups",
            "kv_channels",
            "vocab_size",
            "micro_batch_size",
            "swiglu",
            "untie_embeddings_and_output_weights",
            "num_experts",
            "moe_router_topk",
            "moe_ffn_hidden_size",
            "use_distributed_optimizer",
            "overlap_grad_reduce",
        ],
        more: "A step by Megatron's arguments, instead of WORKLOAD:",
        named: 5,
    },
];

/// Headings of options: the command, the heading, and their ids.
const HEADINGS: [(&str, &str, &[&str]); 5] = [
    (
        "run",
        "On GPUs (--backend cuda)",
        &[
            "pairs", "trace", "profile", "warm", "blocks", "register", "graph",
        ],
    ),
    (
        "cost",
        "Memory (--memory)",
        &["groups", "peers", "gpu_memory"],
    ),
    (
        "step",
        "Placement",
        &["placement", "orders", "dir", "nodes"],
    ),
    (
        "diff",
        "Of one side only",
        &[
            "set_a",
            "set_b",
            "without_a",
            "without_b",
            "degrade_a",
            "degrade_b",
        ],
    ),
    ("bound", "Proofs", &["certificate", "check"]),
];

/// The names of the pages of options.
pub(crate) fn topics() -> [&'static str; TOPICS.len()] {
    TOPICS.each_ref().map(|it| it.name)
}

/// A command with help that fits two screens; what it takes stays.
pub(super) fn concise(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let has = |id: &str| command.get_arguments().any(|it| it.get_id() == id);
    let is_form = has("format") && has("json");
    let has_only_json = is_form && values_of(&command, "format") == ["text", "json"];
    let topics = TOPICS.iter().filter(|topic| has(topic.with));
    let topics: Vec<&Topic> = topics
        .filter(|it| it.hidden.iter().any(|id| has(id)))
        .collect();
    let more: Vec<String> = topics.iter().map(|it| it.sentence(&command)).collect();
    let after = command.get_after_help().map(ToString::to_string);
    let help = Arg::new("help").short('h').long("help").help("Print help");
    let command = command
        .disable_help_flag(true)
        .arg(help.action(ArgAction::HelpShort).hide(true))
        .mut_args(|argument| {
            let argument = with_values(argument);
            let id = argument.get_id().as_str().to_owned();
            let heading = HEADINGS
                .iter()
                .find(|it| it.0 == name && it.2.contains(&&*id));
            let argument = match heading {
                Some((_, heading, _)) => argument.help_heading(*heading),
                None => argument,
            };
            match id.as_str() {
                "format" if has_only_json => argument.hide(true),
                "json" if has_only_json => argument.help("Print JSON"),
                "format" if is_form => {
                    let help = argument.get_help().map(ToString::to_string);
                    argument.help(format!("{} (--json: json)", help.unwrap_or_default()))
                }
                "json" if is_form => argument.hide(true),
                id if topics.iter().any(|it| it.hidden.contains(&id)) => argument.hide(true),
                id => match topics.iter().find(|it| it.shown.contains(&id)) {
                    Some(topic) => argument.help_heading(topic.heading),
                    None => argument,
                },
            }
        });
    match after {
        Some(after) if !more.is_empty() => {
            command.after_help(format!("{}\n\n{after}", more.join("\n")))
        }
        _ => command,
    }
}

/// The page of a topic's options, in at most so many columns.
pub(crate) fn page(name: &str, width: usize) -> Option<Command> {
    let topic = TOPICS.iter().find(|it| it.name == name)?;
    let mut all = super::all().term_width(width);
    all.build();
    let command = all.find_subcommand(topic.command)?.clone();
    let shown = |it: &Arg| {
        [topic.shown, topic.hidden]
            .concat()
            .contains(&it.get_id().as_str())
    };
    Some(
        command
            .about(topic.about)
            .mut_args(|it| match shown(&it) {
                true => with_values(it).help_heading("Options"),
                false => it.hide(true),
            })
            .help_template("{about-with-newline}\n{all-args}"),
    )
}

impl Topic {
    /// Says in the help of a command which of its options are on the page.
    fn sentence(&self, command: &Command) -> String {
        let names = self.hidden.iter().filter_map(|id| {
            let mut all = command.get_arguments();
            all.find(|it| it.get_id() == id)?.get_long()
        });
        let names: Vec<String> = names.map(|it| format!("--{it}")).collect();
        let dots = if names.len() > self.named { " …" } else { "" };
        let named = names[..names.len().min(self.named)].join(" ");
        format!("{} topo help {} ({named}{dots})", self.more, self.name)
    }
}

fn values_of(command: &Command, id: &str) -> Vec<String> {
    let argument = command.get_arguments().find(|it| it.get_id() == id);
    let values = argument.map(Arg::get_possible_values).unwrap_or_default();
    values.iter().map(|it| it.get_name().to_owned()).collect()
}

/// An argument whose help says what its values mean.
fn with_values(argument: Arg) -> Arg {
    let values = argument.get_possible_values();
    let values = values.iter().filter(|it| !it.is_hide_set());
    let values = values.filter_map(|it| Some(format!("{}: {}", it.get_name(), it.get_help()?)));
    let values: Vec<String> = values.collect();
    match argument.get_help() {
        Some(help) if !values.is_empty() => {
            let help = format!("{help}. {}", values.join("; "));
            argument.help(help).hide_possible_values(true)
        }
        _ => argument,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_hides_what_is_on_a_page_of_options_or_has_another_name() {
        let all = super::super::all();
        let mut hidden = 0;
        for command in all.get_subcommands() {
            let name = command.get_name();
            let shorter = concise(command.clone());
            for argument in command.get_arguments().filter(|it| !it.is_hide_set()) {
                let id = argument.get_id().as_str();
                let mut now = shorter.get_arguments();
                if !now.find(|it| it.get_id() == id).unwrap().is_hide_set() {
                    continue;
                }
                hidden += 1;
                let known = TOPICS.iter().any(|it| it.hidden.contains(&id));
                assert!(known || id == "json" || id == "format", "{name}: {id}");
            }
        }
        assert!(hidden > 100, "{hidden}");
    }

    #[test]
    fn pages_have_all_options_of_their_topics() {
        for topic in &TOPICS {
            let text = page(topic.name, 100).unwrap().render_help().to_string();
            let all = super::super::all();
            let command = all.find_subcommand(topic.command).unwrap();
            for id in topic.hidden {
                let mut arguments = command.get_arguments();
                let argument = arguments.find(|it| it.get_id() == id).unwrap();
                let name = format!("--{}", argument.get_long().unwrap());
                assert!(text.contains(&name), "{name}:\n{text}");
            }
        }
    }
}
