// The three roles of a block's threads (block.cuh).
#pragma once

#include "protocol_ll.cuh"
#include "protocol_ll128.cuh"
#include "protocol_simple.cuh"

namespace TOPO_NAMESPACE {

// Warp 0. Its threads handle the operands of a step in parallel: 0 to 7 the sources, 8 to 15 the
// destinations. Signals to send and to wait for begin at thread 16 and continue at thread 0; a step
// with FIFOs has at most 16 of each, so no thread has two counters to wait for or to store. If
// several blocks run the lane, four threads wait for the shares of a signal, and eight signals are
// awaited at a time.
struct Waiter {
  // Binary logarithm of the threads that wait for a signal of several shares.
  static constexpr u32 GIVERS = 2;
  static_assert(OPERANDS < WARP && MOST_SIGNALS <= WARP, "a thread for each operand and signal");
  static_assert(MOST_SHARES == 1 << GIVERS, "a thread for each share");

  const Part& part;
  const Lane* own;
  u32 share;
  Shared& shared;
  u32 issued;
  // Whether the peers' buffers are known.
  bool looked_up;

  TOPO_DEVICE Waiter(const Part& part, u32 lane, u32 share, Shared& shared, const u32* abort)
      : part(part),
        own(part.lanes + lane),
        share(share),
        shared(shared),
        issued(0),
        looked_up(false) {
    if (thread() % WARP == 0) {
      shared.abort = abort;
      store_flag(&shared.over, 0);
    }
    warp_sync();
  }

  TOPO_DEVICE void run() {
    bool going = choose();
    TOPO_ROLLED
    for (u32 index = thread() % WARP; index < kept(); index += WARP) shared.ends[index] = own->ends[index][share];
    warp_sync();
    u32 first = own->first;
    // Prologue, body, epilogue.
    TOPO_ROLLED
    for (u32 segment = 0; segment < 3 && going; segment++) {
      const u32 count = segment == 0 ? own->prologue : segment == 1 ? own->body : own->epilogue;
      const u64 turns = count == 0 ? 0 : segment == 1 ? own->turns : 1;
      TOPO_ROLLED
      for (u64 turn = 0; turn < turns && going; turn++)
        TOPO_ROLLED
        for (u32 step = 0; step < count && going; step++) going = issue(part.steps[first + step], turn);
      first += count;
    }
    end();
  }

 private:
  // Takes the lane for registered buffers if those of all ranks are at one place of a window. All
  // ranks compare the same numbers, so all take the same lane. Returns false if the launch is
  // aborted.
  TOPO_DEVICE bool choose() {
    if (own->registered == 0) return true;
    const Lane* const usual = own;
    own = part.lanes + usual->registered;
    if (!look_up()) return false;
    bool alike = true;
    TOPO_ROLLED
    for (u32 peer = thread() % WARP; peer < own->peer_count; peer += WARP) {
      for (u32 i = 0; i < 2; i++) {
        const u64 here = load_control(&own->peers[0].table->buffers[i]);
        const u64 there = load_control(&own->peers[peer].table->buffers[i]);
        if (own->needed >> i & 1) alike = alike && here == there && here != 0;
      }
    }
    if (!warp_all(alike)) {
      own = usual;
      looked_up = false;
    }
    return true;
  }

  // Ends in shared memory.
  TOPO_DEVICE u32 kept() const { return own->end_count < MOST_ENDS ? own->end_count : MOST_ENDS; }

  // An end of the lane; of a signal that of this share.
  TOPO_DEVICE End* end_of(u32 index) {
    count_end(index < MOST_ENDS);
    return index < MOST_ENDS ? shared.ends + index : own->ends[index] + share;
  }

  // Waits until a step can run and hands it to the workers. Returns false if the launch is aborted.
  TOPO_DEVICE bool issue(const Step& step, u64 turn) {
    const u32 lane = thread() % WARP;
    const u32 index = lane % MOST_OPERANDS;
    const bool source = lane < MOST_OPERANDS;
    // The number of the signal to send; for a signal to wait for, the share of the peer, too.
    const u32 turned = (lane + WARP - OPERANDS) % WARP;
    const u32 givers = part.shares > 1 ? GIVERS : 0;
    const u32 giver = part.shares > 1 ? turned % MOST_SHARES : 0;
    u8* place = nullptr;
    u64 flag = 0, stride = 0, wanted = 0, value = 0;
    u64* word = nullptr;
    End* end = nullptr;
    count_step(step.reaches);
    const Operand* peer = nullptr;
    if (lane < OPERANDS) {
      if (index < (source ? step.source_count : step.destination_count)) {
        const Operand& operand = step.operands[lane];
        if (operand.kind == FIFO) {
          end = end_of((u32)operand.place);
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
    }
    if (turned < step.notify_count) {
      End* const given = end_of(step.notifies[turned]);
      given->step += 1;
      word = given->mine;
      value = given->step;
    }
    bool going = true;
    u32 first = 0;
    TOPO_ROLLED
    do {
      const u32 signal = first + (turned >> givers);
      if (signal < step.wait_count && giver < part.shares) {
        end = end_of(step.waits[signal]);
        wanted = end->step + 1;
      }
      going = wait(end, giver, wanted);
      if (end != nullptr && giver == 0) end->step += 1;
      end = nullptr;
      first += WARP >> givers;
    } while (going && first < step.wait_count);
    // The next step may find the same end at another thread.
    warp_sync();
    if (going && step.reaches && !looked_up) going = look_up();
    if (!going) return false;
    if (peer != nullptr) place = buffer_of(*peer) + peer->offset + turn * peer->stride;
    u64 begin = 0, bytes = step.bytes;
    if (part.shares > 1) {
      // A share depends only on the bytes: the next step's reader of these bytes is the same block.
      const u64 most = (bytes + part.shares * SHARE_BYTES - 1) / (part.shares * SHARE_BYTES) * SHARE_BYTES;
      begin = share * most < bytes ? share * most : bytes;
      bytes = most < bytes - begin ? most : bytes - begin;
    }
    Stage& stage = next_stage();
    if (lane < OPERANDS) {
      stage.places[lane] = place + begin;
      stage.flags[lane] = flag;
      stage.strides[lane] = stride;
    }
    stage.words[lane] = word;
    stage.values[lane] = value;
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
    Patience patience(shared);
    for (;;) {
      if (end != nullptr && seen < wanted) {
        seen = load_acquire(end->theirs + giver);
        note("a count to come to", end->theirs + giver, wanted);
      }
      if (warp_all(end == nullptr || seen >= wanted)) break;
      if (warp_all(!patience.more())) return false;
    }
    // For signals of several shares, the count that all have reached.
    if (end != nullptr && giver == 0) end->seen = part.shares == 1 ? seen : wanted;
    return true;
  }

  // Reads the addresses of all peers' buffers in this launch, which they write when theirs begin.
  // They stay until this lane tells the peers that it has ended.
  TOPO_DEVICE bool look_up() {
    Patience patience(shared);
    TOPO_ROLLED
    for (u32 first = 0; first < own->peer_count; first += WARP) {
      const u32 peer = first + thread() % WARP;
      const BufferTable* table = peer < own->peer_count ? own->peers[peer].table : nullptr;
      for (;;) {
        const bool there = table == nullptr || load_acquire(&table->launch) == part.launch;
        if (warp_all(there)) break;
        note("a buffer table to show launch", table, part.launch);
        if (warp_all(!patience.more())) return false;
      }
      if (table != nullptr && peer < MOST_PEERS)
        for (u32 i = 0; i < 3; i++) shared.peers[peer][i] = buffer_of(own->peers[peer], i);
    }
    looked_up = true;
    warp_sync();
    return true;
  }

  TOPO_DEVICE u8* buffer_of(const Operand& operand) {
    if (operand.peer < MOST_PEERS) return shared.peers[operand.peer][operand.buffer];
    return buffer_of(own->peers[operand.peer], operand.buffer);
  }

  TOPO_DEVICE static u8* buffer_of(const Peer& peer, u32 buffer) {
    const u64 found = load_control(&peer.table->buffers[buffer]);
    if (peer.regions == nullptr) return (u8*)found;
    return load_control(&peer.regions[found >> REGION_SHIFT]) + (found & (((u64)1 << REGION_SHIFT) - 1));
  }

  TOPO_DEVICE Stage& next_stage() {
    if (issued >= 2) barrier_sync(FREE + issued % 2, 2 * WARP);
    return shared.stages[issued % 2];
  }

  TOPO_DEVICE void hand_over() {
    barrier_arrive(READY + issued % 2, threads_again() - WARP);
    issued++;
  }

  TOPO_DEVICE void end() {
    TOPO_ROLLED
    for (u32 index = thread() % WARP; index < kept(); index += WARP) {
      End& end = own->ends[index][share];
      end.step = shared.ends[index].step;
      end.seen = shared.ends[index].seen;
    }
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
TOPO_DEVICE void post(Shared& shared) {
  const u32 lane = thread() % WARP;
  for (u32 number = 0;; number++) {
    barrier_sync(DONE + number % 2, threads_again() - WARP);
    const Stage& stage = shared.stages[number % 2];
    if (stage.end) return;
    // Stores through one address are visible through the other before a peer is told.
    if (stage.multicast) alias_fence();
    if (stage.words[lane] != nullptr) store_release(stage.words[lane], stage.values[lane]);
    barrier_arrive(FREE + number % 2, 2 * WARP);
  }
}

// Moves data.
template <class P, class E>
TOPO_DEVICE void work(Shared& shared) {
  // The stage alone says which one it is: one register less.
  const Stage* stage = shared.stages;
  for (;;) {
    barrier_sync(READY + (stage != shared.stages), threads_again() - WARP);
    if (!stage->end && stage->bytes != 0)
      P::template move<E>(*stage, thread_again() - FIRST_WORKER, threads_again() - FIRST_WORKER, shared);
    const bool end = stage->end;
    barrier_arrive(DONE + (stage != shared.stages), threads_again() - WARP);
    if (end) return;
    stage = stage == shared.stages ? shared.stages + 1 : shared.stages;
  }
}

}  // namespace TOPO_NAMESPACE
