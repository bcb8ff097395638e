// Multicast as a switch would do it: an address that stands for the memory of several ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulator {

// The places of all ranks that an address stands for; none if nobody made it a multicast.
std::vector<uint64_t> multicast_places(const void* address);

}  // namespace emulator
