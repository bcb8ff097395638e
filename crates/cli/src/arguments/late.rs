//! Arguments that are described to clap late: when their command is used.

use std::ops::Deref;

use clap::error::Error;
use clap::{ArgMatches, Args, Command, FromArgMatches, Id};

/// The arguments of a command. With `LATE` clap learns them only when the command is used: to
/// describe those of all commands takes half of a short run. Help needs all of them at once.
#[derive(Debug)]
pub(crate) struct Late<T, const LATE: bool>(Box<T>);

impl<T, const LATE: bool> Deref for Late<T, LATE> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: FromArgMatches, const LATE: bool> FromArgMatches for Late<T, LATE> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(|it| Self(Box::new(it)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Args, const LATE: bool> Args for Late<T, LATE> {
    fn group_id() -> Option<Id> {
        T::group_id()
    }

    fn augment_args(command: Command) -> Command {
        match LATE {
            true => command.defer(T::augment_args),
            false => T::augment_args(command),
        }
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}
