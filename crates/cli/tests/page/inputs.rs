//! Inputs of questions about files.

/// The output of nccl-tests.
pub(crate) const TABLE: &str = "\
# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20
#       size         count      type   redop    root     time   algbw   busbw #wrong
           8             2     float     sum      -1    21.40    0.00    0.00      0
       65536         16384     float     sum      -1    36.20    1.81    3.17      0
   134217728      33554432     float     sum      -1   640.10  209.68  366.95      0
";

/// A log of NCCL.
pub(crate) const LOG: &str = "\
node1:100:200 [0] NCCL INFO NCCL version 2.27.5+cuda12.9
node1:100:200 [0] NCCL INFO NCCL_ALGO set by environment to Ring.
node1:100:200 [0] NCCL INFO Channel 00/02 : 0 1
node1:100:200 [0] NCCL INFO Channel 01/02 : 0 1
node1:100:200 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0
node1:100:200 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : Got completion with error 12
node1:100:200 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x2 - Init COMPLETE
";

/// The calls of a step.
pub(crate) const CALLS: &str = "\
group,collective,bytes,type,count,compute_us,blocks
all=all,all-reduce,64M,bf16,4,100,
pairs=2,all-gather,1M,bf16,8,20,
all,reduce-scatter,256M,f32,1,,no
";
