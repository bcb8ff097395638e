// The arguments that the host passes to the kernels. crates/device-runtime/src/layout.rs has the
// same structures; a test compares sizes and offsets.
#pragma once

namespace TOPO_NAMESPACE {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef int i32;
typedef long long i64;

// Slots of a FIFO.
constexpr u32 SLOTS = 8;

// Most sources, and most destinations, of a step.
constexpr u32 MOST_OPERANDS = 8;

// Most signals that a step waits for, and most that it sends: one for each thread of a warp.
constexpr u32 MOST_SIGNALS = 32;

// Peers of a lane whose buffers its blocks remember.
constexpr u32 MOST_PEERS = 72;

// Ends of a lane that its blocks keep in shared memory during a launch.
constexpr u32 MOST_ENDS = 64;

// Most blocks of a lane.
constexpr u32 MOST_SHARES = 4;

// Parts that fit into the arguments of a launch; more parts are in device memory.
constexpr u32 MOST_PARTS = 33;

enum Protocol : u32 { LL = 0, LL128 = 1, SIMPLE = 2 };

enum Operation : u32 { SUM = 0, PRODUCT = 1, MINIMUM = 2, MAXIMUM = 3 };

enum OperandKind : u32 { NOTHING = 0, LOCAL = 1, PEER = 2, FIFO = 3, EVERYWHERE = 4 };

// One end of a FIFO or of a signal. Only one block of a launch uses it, and it outlives launches.
// If several blocks run a lane, an end of a signal is an array with one of these, and one counter,
// per block.
struct End {
  u8* slots;          // of a FIFO: its first slot
  u64 stride;         // bytes from one slot to the next
  u64* theirs;        // what the other end counts: posted slots or signals at a receiver, slots given back at a sender
  u64* mine;          // where this end stores its count
  u64 step;           // this end's count
  u64 seen;           // the last value seen of theirs
  u64* lengths;       // of a FIFO whose slots the proxy sends: where this end stores each slot's length; else null
};

// Bits of an offset in a region.
constexpr u32 REGION_SHIFT = 56;

// Where a rank's buffers are during a launch in which peers access them.
struct BufferTable {
  u64 launch;         // the number of the launch, written last
  u64 buffers[3];     // input, output, scratch: addresses; where other processes read it the number of a region, and the offset
                      // in it; for multicasts the number of a window, and the offset in it, or 0
};

// A peer of a lane.
struct Peer {
  const BufferTable* table;
  u8* const* regions; // where each region of the peer's memory begins here; null if its table has addresses
};

struct Operand {
  u32 kind;           // OperandKind
  u16 buffer;         // 0 input, 1 output, 2 scratch
  u16 peer;           // of a peer its index among the lane's peers
  u64 place;          // of a FIFO the index of its End, of a multicast the address of all ranks' scratch
  u64 offset;         // bytes from the start of the buffer
  u64 stride;         // bytes further per turn
};

struct Step {
  u64 bytes;          // to move
  u8 source_count;
  u8 destination_count;
  u8 wait_count;
  u8 notify_count;
  u8 finish;          // whether the result is divided by `divisor`
  u8 pre_multiply;    // bit i: source i is multiplied by the scalar
  u8 reaches;         // whether an operand is a peer's
  u8 multicast;       // 1: from all ranks, 2: to all ranks, 4: other steps of the program do so
  Operand operands[2 * MOST_OPERANDS];  // sources, then destinations
  u32 waits[MOST_SIGNALS];     // indices of Ends
  u32 notifies[MOST_SIGNALS];
};

// Steps in a row: prologue, body (for each of `turns`), epilogue with the last turn.
struct Lane {
  u32 first;          // index of the first step
  u32 prologue;
  u32 body;
  u32 epilogue;
  u32 peer_count;     // whose memory the lane accesses
  u32 end_count;
  u32 registered;     // index of the lane to run instead if all ranks' buffers are at one place of a window; 0: none
  u32 needed;         // of a lane for such buffers: 1 input, 2 output, which must be there
  u64 turns;
  const Peer* peers;  // of a lane for registered buffers: the own table, with the windows' multicast addresses as regions, then the
                      // tables of all other ranks
  End* const* ends;   // of the lane's FIFOs and signals; steps have indices into it
};

// A program of one rank, with the memory of a launch.
struct Part {
  const Lane* lanes;
  const Step* steps;
  u8* buffers[3];     // input, output, scratch
  BufferTable* buffer_table;  // own; null if no peer accesses this rank's buffers
  u64 launch;         // number of the launch in the buffer tables
  u64 scalar;         // an element in the low bytes
  u64* profile;       // two times per block, ns; null if nobody asks
  u64 origins[3];     // subtracted from the buffers' addresses in the table: where a buffer's region begins, less its number
  u32 lane_count;
  u32 protocol;
  u32 operation;
  u32 divisor;
  u32 shares;         // blocks that carry out each lane together; 1 if it uses FIFOs
  u32 padding;
};

// The arguments of a kernel. Blocks are assigned to the parts in order, one for each share of each
// lane.
struct Launch {
  const Part* more;   // all parts, if they are not in `parts`
  const u32* abort;   // not 0: end the launch
  u32 count;          // of parts
  u32 padding;
  Part parts[MOST_PARTS];
};

}  // namespace TOPO_NAMESPACE
