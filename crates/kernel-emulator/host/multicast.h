// Multicast as by a switch: one address for the memory of several ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulator {

// The places of all ranks behind a multicast address; none if it is not one.
std::vector<uint64_t> multicast_places(const void* address);

}  // namespace emulator
