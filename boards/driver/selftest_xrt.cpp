// Self-test with XRT's native API:  selftest [--seconds N] CORE.xclbin CORE selftest.bin  (exit statuses: fabtune_text.h)
// The status is polled, with and without --poll.
#include "fabtune_options.h"
#include "fabtune_selftest.h"

// XRT of 2025 and later has this header in the folder of its other headers, earlier versions in another folder.
#if __has_include(<xrt/experimental/xrt_ip.h>)
#include <xrt/experimental/xrt_ip.h>
#else
#include <experimental/xrt_ip.h>
#endif
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>

namespace {

struct Board {
    xrt::ip ip;
    xrt::bo memory;
};

uint32_t read_register(void *context, uint32_t offset) { return static_cast<Board *>(context)->ip.read_register(offset); }

void write_register(void *context, uint32_t offset, uint32_t value) {
    static_cast<Board *>(context)->ip.write_register(offset, value);
}

void sync(void *context, int for_core) {
    static_cast<Board *>(context)->memory.sync(for_core ? XCL_BO_SYNC_BO_TO_DEVICE : XCL_BO_SYNC_BO_FROM_DEVICE);
}

uint64_t now(void *) {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

void print(const char *line) { std::cout << line << std::endl; }

}  // namespace

int main(int count, char **arguments) {
    fabtune_options options = {0, 10000u, {nullptr}};
    if (fabtune_options_read(&options, count, arguments, "CORE.xclbin CORE selftest.bin")) return FABTUNE_STATUS_USAGE;
    struct fabtune_selftest test = ::fabtune_selftest;
    test.clock_hz = 0;  // the linker of Vitis chooses the clock
    try {
        xrt::device device(0);
        const auto uuid = device.load_xclbin(options.words[0]);
        // group 0: an embedded platform has one memory
        Board board{xrt::ip(device, uuid, options.words[1]), xrt::bo(device, test.memory_size, 0)};
        auto *bytes = board.memory.map<unsigned char *>();
        std::memset(bytes, 0, test.memory_size);
        std::ifstream image(options.words[2], std::ios::binary);
        if (!image.read(reinterpret_cast<char *>(bytes), static_cast<std::streamsize>(test.image_size))) {
            std::cerr << options.words[2] << " is not there, or not the file that belongs to this program\n";
            return FABTUNE_STATUS_USAGE;
        }
        const fabtune_core core{read_register, write_register, nullptr, &board, 0, now, options.limit};
        const fabtune_host host{sync, print};
        return fabtune_exit_status(fabtune_selftest_run(&core, &test, bytes, board.memory.address(), &host, nullptr));
    } catch (const std::exception &problem) {
        std::cerr << problem.what() << "\n";
        return FABTUNE_STATUS_USAGE;
    }
}
