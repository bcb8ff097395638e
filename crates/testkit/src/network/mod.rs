//! Network peers for tests: [`loopback`] compiles a net plug-in that connects ranks over the
//! loopback interface, [`strangers`] connects to the ports of a job without its token, and
//! [`ask_hosts!`](crate::ask_hosts) writes the methods of ranks that are `net::Hosts` but for a
//! few.

pub mod loopback;
pub mod strangers;

/// Methods of `executor::bootstrap::Bootstrap` that ask the field `hosts`; with `offers`, those
/// that receive offers of other ranks.
#[macro_export]
macro_rules! ask_hosts {
    () => {
        $crate::ask_hosts! {
            fn rank(&self) -> u32;
            fn ranks(&self) -> u32;
            fn shares_memory(&self, peer: u32) -> bool;
            fn transport(&self, peer: u32) -> executor::Transport;
            fn host(&self, peer: u32) -> u32;
            fn crowd(&self) -> executor::bootstrap::Crowd;
        }
        $crate::ask_hosts! {
            mut fn publish(name: &str, offer: executor::bootstrap::Offer)
                -> Result<(), executor::Error>;
            mut fn has_offer(from: u32, name: &str) -> Result<bool, executor::Error>;
            mut fn fail(failure: &executor::Failure) -> ();
            mut fn failure(waiting_for: Option<u32>) -> Option<executor::Failure>;
        }
    };
    (offers) => {
        $crate::ask_hosts! {
            mut fn fetch(from: u32, name: &str, longest: std::time::Duration)
                -> Result<executor::bootstrap::Offer, executor::Error>;
            mut fn gather(name: &str, own: &executor::bootstrap::Offer, longest: std::time::Duration)
                -> Result<Vec<executor::bootstrap::Offer>, executor::Error>;
        }
    };
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $answer:ty;)*) => {$(
        fn $name(&self $(, $argument: $type)*) -> $answer {
            self.hosts.$name($($argument),*)
        }
    )*};
    ($(mut fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&mut self $(, $argument: $type)*) -> $answer {
            self.hosts.$name($($argument),*)
        }
    )*};
}
