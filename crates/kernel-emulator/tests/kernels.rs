//! Debug
use std::time::Duration;

use executor::check::Check;
use executor::{Settings, Way};
use kernel_bundle::Options;
use kernel_bundle::fleet;
use kernel_emulator::{Bug, Emulator, communicators};
use plan::program::{Schedule, Transfer};
use plan::{Collective, Protocol, Reduction};

#[test]
fn first() {
    let _ = fleet::Options::nccl();
    for protocol in Protocol::ALL {
        for seed in [0, 1, 2, 3] {
            let options = Options { threads: 128, ..Options::nccl() };
            let settings = Settings { longest_wait: Duration::from_secs(60), buffer_bytes: Some(64 << 20), ..Settings::default() };
            let ranks = 4;
            let check = Check { collective: Collective::AllReduce, reduction: Reduction::Sum, ranks, root: 0, count: 10007, seed: 3 };
            let began = std::time::Instant::now();
            std::thread::scope(|scope| {
                for mut c in communicators(ranks, &settings, Emulator::new(seed, Bug::None), options).unwrap() {
                    scope.spawn(move || {
                        c.set_way(Some(Way { schedule: Schedule::Ring, transfer: Transfer::Fifo, protocol, channels: 2, piece_bytes: 4096 }));
                        let mut input = vec![0_i32; 10007];
                        check.fill(c.rank(), 0, &mut input);
                        let mut output = vec![0_i32; 10007];
                        check.launch(&mut c, &input, &mut output).unwrap();
                        assert_eq!(check.wrong(c.rank(), &output), 0);
                    });
                }
            });
            println!("{protocol} seed {seed}: {:?}", began.elapsed());
        }
    }
}
