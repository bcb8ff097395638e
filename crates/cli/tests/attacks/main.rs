//! Attacks on the program and on running jobs from outside: files, environment, sockets and memory.

mod archives;
mod certificates;
mod corrupt;
mod deadlines;
mod drivers;
mod inputs;
mod job;
mod limits;
mod meeting;
mod memory;
mod options;
mod outputs;
mod plans;
mod program;
mod ranks;
mod recordings;
mod redaction;
mod secrets;
mod strangers;
mod terminals;
mod time_limit;
mod verdict;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// How a test ends that does not panic.
trait Outcome {
    fn outcome(self) -> Result<Completion, Failed>;
}

impl Outcome for () {
    fn outcome(self) -> Result<Completion, Failed> {
        Ok(Completion::Completed)
    }
}

impl Outcome for Result<Completion, Failed> {
    fn outcome(self) -> Self {
        self
    }
}

/// Trials with the names of their tests.
macro_rules! tests {
    ($($module:ident::$test:ident,)*) => {
        vec![$(Trial::ignorable_test(
            concat!(stringify!($module), "::", stringify!($test)),
            || $module::$test().outcome(),
        )),*]
    };
}

fn main() -> std::process::ExitCode {
    let tests = tests![
        archives::long_names_take_little_memory,
        certificates::empty_names_take_little_memory,
        certificates::lengths_take_little_memory,
        certificates::trees_take_little_memory,
        certificates::many_sides_of_many_links_are_refused_at_once,
        certificates::larger_files_are_refused,
        corrupt::random_words_end_in_order,
        deadlines::a_rank_that_does_not_come_is_named_when_it_should_have_come,
        deadlines::a_data_connection_that_is_cut_is_named_at_once,
        drivers::a_management_library_that_misbehaves_is_a_finding,
        drivers::a_driver_that_hangs_stops_no_command,
        drivers::a_driver_of_gpus_that_hangs_ends_a_run,
        drivers::programs_that_collect_runs_end_with_it,
        inputs::a_socket_can_be_standard_input,
        inputs::a_net_plugin_that_is_no_file_is_refused,
        limits::many_ranks_take_memory_for_what_they_send,
        limits::many_runs_in_one_file_take_memory_for_their_rows,
        meeting::a_rank_does_not_join_the_job_of_another_user,
        meeting::a_file_that_others_can_write_is_not_believed,
        meeting::what_is_no_file_is_given_up_in_time,
        meeting::ranks_of_one_host_meet_in_a_folder_of_their_user,
        meeting::a_file_of_an_earlier_job_is_waited_out,
        meeting::a_rank_may_be_started_again_while_others_are_missing,
        meeting::a_port_of_another_program_is_waited_out,
        memory::an_offset_beyond_a_peers_buffers_is_named,
        memory::a_buffer_that_ends_beyond_a_peers_memory_is_named,
        memory::a_buffer_table_of_another_launch_is_named,
        memory::an_address_that_was_overwritten_is_named,
        memory::a_half_valid_slot_of_ll_ends_in_the_timeout,
        memory::a_half_valid_slot_of_ll128_ends_in_the_timeout,
        options::an_option_that_one_rank_has_and_another_has_not_is_named,
        outputs::an_export_is_whole_or_not_there,
        outputs::a_recording_is_whole_or_not_there,
        outputs::a_recording_on_a_full_disk_leaves_nothing,
        plans::no_setting_of_a_plan_loads_a_library,
        plans::no_name_of_a_machine_adds_a_line,
        plans::settings_that_decide_are_exported,
        recordings::links_to_files_outside_are_not_followed,
        recordings::folders_that_lead_outside_are_not_followed,
        recordings::documents_do_not_lead_outside,
        recordings::links_inside_are_followed,
        redaction::no_identifier_stays_in_a_redacted_archive,
        secrets::an_id_in_a_file_is_for_its_owner_and_shows_nowhere,
        secrets::an_id_on_the_command_line_is_warned_of,
        secrets::a_key_that_costs_nothing_to_make_of_the_secret_is_another_one,
        secrets::ranks_with_one_secret_meet,
        secrets::a_root_of_another_version_is_named,
        secrets::a_rank_that_was_turned_away_is_named_by_the_root,
        strangers::strangers_at_every_port_of_rank_0_do_not_keep_others_out,
        strangers::strangers_use_up_neither_the_descriptors_nor_the_processor,
        strangers::strangers_do_not_keep_survivors_apart,
        terminals::names_in_files_do_not_reach_it,
        terminals::mistakes_in_the_command_line_do_not_reach_it,
        terminals::names_of_files_do_not_reach_it,
        time_limit::what_if_ends_with_what_was_done,
        time_limit::progress_is_shown_on_a_terminal_only,
        time_limit::a_long_plan_shows_progress_on_a_terminal,
        verdict::the_report_says_how_many_launches_were_checked,
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}
