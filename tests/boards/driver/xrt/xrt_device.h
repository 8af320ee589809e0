// What the self-test uses of XRT's class, as its documentation declares it.
#pragma once
#include <string>
namespace xrt {
struct uuid {};
struct device {
    explicit device(unsigned int index);
    uuid load_xclbin(const std::string &path);
};
}  // namespace xrt
