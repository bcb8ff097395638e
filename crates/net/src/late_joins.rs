//! Tells late ranks who survived.
//!
//! A rank that was cut off for a while reconnects to a communicator that has excluded it. Without
//! an answer it would wait until its timeout, or mistake the others for lost and form a
//! communicator of its own.

use std::io;
use std::sync::Arc;

use crate::accept_thread::AcceptThread;
use crate::home::{Home, candidate};

/// Tells excluded late ranks who survived, while a communicator of survivors works.
///
/// # Errors
/// The system has no thread or descriptor left.
pub(crate) fn listen(
    home: Arc<Home>,
    members: Vec<u32>,
    generation: u64,
) -> io::Result<AcceptThread> {
    let acceptor = home.acceptor()?;
    AcceptThread::start("late-joins", acceptor, move |arrived| {
        let Some((late, mut connection)) = candidate(arrived) else {
            return;
        };
        // A member noticed a failure before this rank did. It will ask again.
        if !members.contains(&late.rank) {
            // One that has ended since need not be told.
            let _ = connection.send(&home.present(&members, generation).encode());
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use bootstrap::socket::blocking::Connection;
    use bootstrap::socket::service::loopback_listener;
    use bootstrap::{Key, Kind, PeerInfo};

    use super::*;
    use crate::home::{Candidate, NewMembers};
    use crate::ports::CommunicatorPorts;

    #[test]
    fn strangers_do_not_keep_a_late_rank_from_hearing_who_survived() {
        let listener = loopback_listener().unwrap();
        let address = listener.local_addr().unwrap();
        let info = |rank| PeerInfo {
            rank,
            version: String::new(),
            fingerprint: [0; 32],
            options: Vec::new(),
            host: 0,
            host_name: String::new(),
            machine: 0,
            cores: Vec::new(),
            process: 0,
            device: String::new(),
            address,
            nics: Vec::new(),
        };
        let home = Arc::new(Home {
            rank: 0,
            infos: (0..3).map(info).collect(),
            key: Key::of_secret(b"a test"),
            listener: listener.into(),
            planned: CommunicatorPorts {
                ports: None,
                ranks: vec![0, 1, 2],
            },
        });
        let kept = listen(Arc::clone(&home), vec![0, 1], 1).unwrap();
        let held = testkit::network::strangers::hold(&[address], 5000).unwrap();
        let (began, long) = (Instant::now(), Duration::from_secs(60));
        let key = home.gather_key();
        let mut late = Connection::open(address, &key, Kind::Regroup, long).unwrap();
        let own = Candidate {
            rank: 2,
            ring: address,
            generation: 0,
        };
        late.send(&postcard::to_allocvec(&own).unwrap()).unwrap();
        let said: NewMembers =
            bootstrap::message::read_whole(&late.receive(long).unwrap()).unwrap();
        let members: Vec<u32> = said.members.iter().map(|(rank, _)| *rank).collect();
        assert_eq!(members, [0, 1]);
        let took = began.elapsed();
        println!("told after {took:?}");
        assert!(took < Duration::from_secs(4), "told after {took:?}");
        drop((held, kept));
    }
}
