//! What several tests share: recorded answers of NCCL's own code, and how to compare with them.

pub mod golden;
