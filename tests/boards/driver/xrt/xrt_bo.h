// What the self-test uses of XRT's class, as its documentation declares it.
#pragma once
#include "xrt_device.h"
#include <cstddef>
#include <cstdint>
enum xclBOSyncDirection { XCL_BO_SYNC_BO_TO_DEVICE = 0, XCL_BO_SYNC_BO_FROM_DEVICE };
namespace xrt {
struct bo {
    bo(const device &owner, std::size_t size, std::uint32_t group);
    template <class Pointer>
    Pointer map();
    void sync(xclBOSyncDirection direction);
    std::uint64_t address() const;
};
}  // namespace xrt
