// What the self-test uses of XRT's class, as its documentation declares it.
#pragma once
#include <xrt/xrt_device.h>
#include <cstdint>
namespace xrt {
struct ip {
    ip(const device &owner, const uuid &xclbin, const std::string &name);
    void write_register(std::uint32_t offset, std::uint32_t data);
    std::uint32_t read_register(std::uint32_t offset) const;
};
}  // namespace xrt
