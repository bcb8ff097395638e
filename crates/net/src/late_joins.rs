//! Tells ranks that come late who survived.
//!
//! A rank that was cut off for a while reconnects to a communicator that has excluded it. Without an answer it would wait
//! until its timeout, or take the others for lost and form a communicator of its own.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use bootstrap::socket::Acceptor;
use rustix::event::{EventfdFlags, eventfd};

use crate::regroup::{Home, heard, present, told};

/// A thread that answers late ranks while a communicator works that was formed after a failure.
#[derive(Debug)]
pub(crate) struct LateJoinListener {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl LateJoinListener {
    /// Tells excluded late ranks who survived.
    ///
    /// # Errors
    /// There is no thread, or no descriptor.
    pub fn start(home: Arc<Home>, members: Vec<u32>, generation: u64) -> io::Result<Self> {
        let acceptor = home.acceptor()?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("late-joins".to_owned())
            .spawn(move || keep(acceptor, &home, &members, generation, &seen))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

fn keep(mut acceptor: Acceptor, home: &Home, members: &[u32], generation: u64, stop: &OwnedFd) {
    while !acceptor.sleep(Some(stop.as_fd()), None) {
        for (come, mut connection) in acceptor.accept().into_iter().filter_map(heard) {
            // A member has noticed a failure before this rank did. It asks again.
            if !members.contains(&come.rank) {
                // One that ended meanwhile need not hear it.
                let _ = connection.send(&told(&present(home, members, generation)));
            }
        }
    }
}

impl Drop for LateJoinListener {
    fn drop(&mut self) {
        // It counts from nothing, so it can count one further.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use bootstrap::socket::blocking::Connection;
    use bootstrap::socket::service::loopback_listener;
    use bootstrap::{Key, Kind, PeerInfo};

    use super::*;
    use crate::ports::Planned;
    use crate::regroup::{Come, Gathered};

    #[test]
    fn strangers_do_not_keep_a_late_rank_from_hearing_who_went_on() {
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
            listener,
            planned: Planned {
                ports: None,
                ranks: vec![0, 1, 2],
            },
        });
        let kept = LateJoinListener::start(Arc::clone(&home), vec![0, 1], 1).unwrap();
        let held = test_network::strangers::hold(&[address], 5000).unwrap();
        let (began, long) = (Instant::now(), Duration::from_secs(60));
        let key = home.gather_key();
        let mut late = Connection::open(address, &key, Kind::Regroup, long).unwrap();
        let come = Come::new(2, address, 0);
        late.send(&postcard::to_allocvec(&come).unwrap()).unwrap();
        let said: Gathered = postcard::from_bytes(&late.receive(long).unwrap()).unwrap();
        let members: Vec<u32> = said.members.iter().map(|(rank, _)| *rank).collect();
        assert_eq!(members, [0, 1]);
        let took = began.elapsed();
        println!("told after {took:?}");
        assert!(took < Duration::from_secs(4), "told after {took:?}");
        drop((held, kept));
    }
}
