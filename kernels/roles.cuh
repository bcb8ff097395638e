// The three roles of a block's threads (block.cuh).
#pragma once

#include "protocol_ll.cuh"
#include "protocol_ll128.cuh"
#include "protocol_simple.cuh"

namespace TOPO_NAMESPACE {

// Warp 0. Its threads handle the operands of a step in parallel: 0 to 3 the sources, 4 to 7 the
// destinations, 8 to 23 the signals to wait for, four threads for the shares of each, 24 to 27 the
// signals to send.
struct Waiter {
  static constexpr u32 AWAITED = 2 * MOST_OPERANDS;
  static constexpr u32 GIVEN = AWAITED + MOST_OPERANDS * MOST_SHARES;

  const Part& part;
  u32 share;
  Shared& shared;
  Patience patience;
  u32 workers;
  u32 issued;

  TOPO_DEVICE Waiter(const Part& part, u32 share, Shared& shared, const u32* abort, u32 workers)
      : part(part), share(share), shared(shared), patience(abort), workers(workers), issued(0) {}

  TOPO_DEVICE void run(const Lane& lane) {
    u32 first = lane.first;
    bool going = segment(first, lane.prologue, 1);
    first += lane.prologue;
    going = going && segment(first, lane.body, lane.turns);
    first += lane.body;
    going = going && segment(first, lane.last, 1);
    first += lane.last;
    going = going && segment(first, lane.epilogue, 1);
    end();
  }

 private:
  TOPO_DEVICE bool segment(u32 first, u32 count, u64 turns) {
    if (count == 0) return true;
    for (u64 turn = 0; turn < turns; turn++)
      for (u32 step = 0; step < count; step++)
        if (!issue(part.steps[first + step], turn)) return false;
    return true;
  }

  // Waits until a step can run and hands it to the workers. Returns false if the launch is aborted.
  TOPO_DEVICE bool issue(const Step& step, u64 turn) {
    const u32 lane = thread() % WARP;
    const u32 index = lane % MOST_OPERANDS;
    const bool source = lane < MOST_OPERANDS;
    // For a signal, the share of the peer that sends it.
    u32 giver = 0;
    u8* place = nullptr;
    u64 flag = 0, stride = 0, wanted = 0, value = 0;
    u64* word = nullptr;
    End* end = nullptr;
    count_step(step.reaches);
    const Operand* peer = nullptr;
    if (lane < AWAITED) {
      if (index < (source ? step.source_count : step.destination_count)) {
        const Operand& operand = step.operands[lane];
        if (operand.kind == FIFO) {
          end = (End*)operand.place;
          const u64 at = end->step;
          place = end->slots + at % SLOTS * end->stride;
          stride = end->stride;
          flag = at + 1;
          if (source)
            wanted = part.protocol == SIMPLE ? at + 1 : 0;
          else
            wanted = at + 1 > SLOTS ? at + 1 - SLOTS : 0;
          if (source || part.protocol == SIMPLE) {
            word = end->mine;
            value = at + 1;
          }
          if (!source && end->lengths != nullptr) {
            // For every protocol, the proxy takes the slot once it knows its number and length.
            word = end->lengths + at % SLOTS;
            value = (at + 1) << 32 | step.bytes;
          }
        } else if (operand.kind == EVERYWHERE) {
          place = (u8*)operand.place + operand.offset + turn * operand.stride;
        } else if (operand.kind == LOCAL) {
          place = part.buffers[operand.buffer] + operand.offset + turn * operand.stride;
        } else {
          peer = &operand;
        }
      }
    } else if (lane < GIVEN) {
      const u32 signal = (lane - AWAITED) / MOST_SHARES;
      giver = lane % MOST_SHARES;
      if (signal < step.wait_count && giver < part.shares) {
        end = step.waits[signal] + share;
        wanted = end->step + 1;
      }
    } else if (lane < GIVEN + MOST_OPERANDS && index < step.notify_count) {
      end = step.notifies[index] + share;
      word = end->mine;
      value = end->step + 1;
    }
    bool going = wait(end, giver, wanted);
    if (end != nullptr && giver == 0) end->step += 1;
    // The next step may find the same end at another thread.
    warp_sync();
    if (going && step.reaches) going = look_up(peer, turn, place);
    if (!going) return false;
    u64 begin = 0, bytes = step.bytes;
    if (part.shares > 1) {
      // A share depends only on the bytes: the next step's reader of these bytes is the same block.
      const u64 most = (bytes + part.shares * SHARE_BYTES - 1) / (part.shares * SHARE_BYTES) * SHARE_BYTES;
      begin = share * most < bytes ? share * most : bytes;
      bytes = most < bytes - begin ? most : bytes - begin;
    }
    Stage& stage = next_stage();
    if (lane < AWAITED) {
      stage.places[lane] = place + begin;
      stage.flags[lane] = flag;
      stage.strides[lane] = stride;
      stage.words[lane] = word;
      stage.values[lane] = value;
    } else if (lane >= GIVEN && lane < GIVEN + MOST_OPERANDS) {
      stage.words[AWAITED + index] = word;
      stage.values[AWAITED + index] = value;
    }
    if (lane == 0) {
      stage.bytes = bytes;
      stage.scalar = part.scalar;
      stage.operation = part.operation;
      stage.divisor = part.divisor;
      stage.source_count = step.source_count;
      stage.destination_count = step.destination_count;
      stage.pre_multiply = step.pre_multiply;
      stage.finish = step.finish;
      stage.multicast = step.multicast;
      stage.end = 0;
    }
    hand_over();
    return true;
  }

  // Waits until every thread's end has counted up to `wanted`.
  TOPO_DEVICE bool wait(End* end, u32 giver, u64 wanted) {
    u64 seen = end != nullptr ? end->seen : 0;
    for (;;) {
      if (end != nullptr && seen < wanted) {
        seen = load_acquire(end->theirs + giver);
        note("a count to come to", end->theirs + giver, wanted);
      }
      if (warp_all(end == nullptr || seen >= wanted)) break;
      if (warp_all(!patience.more())) return false;
    }
    // For signals, the count that all shares have reached.
    if (end != nullptr && giver == 0) end->seen = thread() % WARP < AWAITED ? seen : wanted;
    return true;
  }

  // Finds a peer's buffer in this launch.
  TOPO_DEVICE bool look_up(const Operand* peer, u64 turn, u8*& place) {
    const BufferTable* buffer_table = peer != nullptr ? (const BufferTable*)peer->place : nullptr;
    for (;;) {
      const bool there = buffer_table == nullptr || load_acquire(&buffer_table->launch) == part.launch;
      if (warp_all(there)) break;
      note("a buffer table to show launch", buffer_table, part.launch);
      if (warp_all(!patience.more())) return false;
    }
    if (buffer_table != nullptr) place = load_control(&buffer_table->buffers[peer->buffer]) + peer->offset + turn * peer->stride;
    return true;
  }

  TOPO_DEVICE Stage& next_stage() {
    if (issued >= 2) barrier_sync(FREE + issued % 2, 2 * WARP);
    return shared.stages[issued % 2];
  }

  TOPO_DEVICE void hand_over() {
    barrier_arrive(READY + issued % 2, WARP + workers);
    issued++;
  }

  TOPO_DEVICE void end() {
    Stage& stage = next_stage();
    if (thread() % WARP == 0) {
      stage.end = 1;
      stage.bytes = 0;
    }
    hand_over();
    // No thread may be left at a barrier: wait for the stage of the step before the end, too.
    if (issued >= 2) barrier_sync(FREE + issued % 2, 2 * WARP);
  }
};

// Tells the peers that data was stored or read.
TOPO_DEVICE void post(Shared& shared, u32 workers) {
  const u32 lane = thread() % WARP;
  for (u32 number = 0;; number++) {
    barrier_sync(DONE + number % 2, WARP + workers);
    const Stage& stage = shared.stages[number % 2];
    if (stage.end) return;
    // Stores through one address are visible through the other before a peer is told.
    if (stage.multicast) alias_fence();
    if (lane < TOLD && stage.words[lane] != nullptr) store_release(stage.words[lane], stage.values[lane]);
    barrier_arrive(FREE + number % 2, 2 * WARP);
  }
}

// Moves data.
template <class P, class E>
TOPO_DEVICE void work(Shared& shared, const u32* abort, u32 workers) {
  const u32 worker = thread() - FIRST_WORKER;
  Patience patience(abort);
  for (u32 number = 0;; number++) {
    barrier_sync(READY + number % 2, WARP + workers);
    const Stage& stage = shared.stages[number % 2];
    const bool end = stage.end;
    if (!end && stage.bytes != 0) P::template move<E>(stage, worker, workers, patience);
    barrier_arrive(DONE + number % 2, WARP + workers);
    if (end) return;
  }
}

}  // namespace TOPO_NAMESPACE
