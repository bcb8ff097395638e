//! Sums a vector over all ranks: `torchrun`, `mpirun -n 4`, `srun`, or alone.
//!
//! ```text
//! cargo build --release -p toporing --example sum
//! mpirun -n 4 target/release/examples/sum
//! ```

use toporing::{Comm, Error, Options, Reduction};

fn main() -> Result<(), Error> {
    let comm = Comm::of_launcher(&Options::default())?;
    let mut mine = vec![comm.rank() as f32; 4];
    comm.all_reduce(&mut mine, Reduction::Sum)?;
    if comm.rank() == 0 {
        println!("{} ranks: {mine:?}", comm.ranks());
    }
    Ok(())
}
