// The compiler's layout of the structures in arguments.h, for a test that compares it with the
// host's.
#ifndef TOPO_NAMESPACE
#define TOPO_NAMESPACE topo
#endif

#include "arguments.h"

#include <cstddef>

// Writes sizes and offsets. Returns the number of numbers.
extern "C" size_t topo_layout(size_t* numbers, size_t room) {
  using namespace TOPO_NAMESPACE;
  const size_t all[] = {
      sizeof(End),     offsetof(End, slots),          offsetof(End, stride),       offsetof(End, theirs),
      offsetof(End, mine), offsetof(End, step),       offsetof(End, seen),
      offsetof(End, lengths),
      sizeof(BufferTable),   offsetof(BufferTable, launch),       offsetof(BufferTable, buffers),
      sizeof(Peer), offsetof(Peer, table), offsetof(Peer, regions),
      sizeof(Operand), offsetof(Operand, kind),       offsetof(Operand, buffer), offsetof(Operand, peer), offsetof(Operand, place),
      offsetof(Operand, offset), offsetof(Operand, stride),
      sizeof(Step),    offsetof(Step, bytes),         offsetof(Step, source_count), offsetof(Step, destination_count),
      offsetof(Step, wait_count), offsetof(Step, notify_count), offsetof(Step, finish), offsetof(Step, pre_multiply),
      offsetof(Step, reaches), offsetof(Step, operands), offsetof(Step, waits), offsetof(Step, notifies),
      sizeof(Lane),    offsetof(Lane, first),         offsetof(Lane, prologue),    offsetof(Lane, body),
      offsetof(Lane, epilogue), offsetof(Lane, peer_count), offsetof(Lane, end_count),
      offsetof(Lane, registered), offsetof(Lane, needed),
      offsetof(Lane, turns), offsetof(Lane, peers), offsetof(Lane, ends),
      sizeof(Part),    offsetof(Part, lanes),         offsetof(Part, steps),       offsetof(Part, buffers),
      offsetof(Part, buffer_table), offsetof(Part, launch),  offsetof(Part, scalar),      offsetof(Part, profile),
      offsetof(Part, origins),
      offsetof(Part, lane_count), offsetof(Part, protocol), offsetof(Part, operation), offsetof(Part, divisor),
      offsetof(Part, shares),
      sizeof(Launch),  offsetof(Launch, more),        offsetof(Launch, abort),     offsetof(Launch, count),
      offsetof(Launch, parts),
  };
  const size_t count = sizeof all / sizeof *all;
  for (size_t i = 0; i < count && i < room; i++) numbers[i] = all[i];
  return count;
}
