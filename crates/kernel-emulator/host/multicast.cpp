#include "multicast.h"

#include "emulator.h"

#include <sys/mman.h>

#include <map>
#include <mutex>

namespace emulator {
namespace {

struct Window {
  uint64_t bytes;
  std::vector<uint64_t> addresses;
};

// Most members of a multicast whose accesses are checked.
constexpr size_t MOST_MEMBERS = 64;

std::mutex lock;

// By multicast address.
std::map<uint64_t, Window>& windows() {
  static std::map<uint64_t, Window> all;
  return all;
}

}  // namespace

std::vector<uint64_t> multicast_places(const void* address) {
  const uint64_t at = reinterpret_cast<uint64_t>(address);
  if (const Checks* asked = checks()) {
    // A multicast of a vector begins at a multiple of its bytes.
    if (at % 16 != 0) refuse(address);
    std::vector<uint64_t> all(MOST_MEMBERS);
    all.resize(asked->members(asked->user, at, all.data(), all.size()));
    if (all.empty()) refuse(address);
    return all;
  }
  const std::lock_guard<std::mutex> held(lock);
  auto after = windows().upper_bound(at);
  std::vector<uint64_t> places;
  if (after == windows().begin()) return places;
  const auto& [base, window] = *--after;
  if (at - base >= window.bytes) return places;
  for (const uint64_t own : window.addresses) places.push_back(own + (at - base));
  return places;
}

}  // namespace emulator

// Makes an address range for memory of `bytes` bytes at each of these addresses; 0 if no range is
// free. The range has no memory of its own, so plain accesses fail.
extern "C" uint64_t topo_multicast_new(const uint64_t* addresses, size_t count, uint64_t bytes) {
  using namespace emulator;
  void* base = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return 0;
  const std::lock_guard<std::mutex> held(lock);
  windows()[reinterpret_cast<uint64_t>(base)] = Window{bytes, {addresses, addresses + count}};
  return reinterpret_cast<uint64_t>(base);
}

extern "C" void topo_multicast_free(uint64_t base) {
  using namespace emulator;
  const std::lock_guard<std::mutex> held(lock);
  const auto found = windows().find(base);
  if (found == windows().end()) return;
  munmap(reinterpret_cast<void*>(base), found->second.bytes);
  windows().erase(found);
}
